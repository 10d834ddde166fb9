//! Floats of fewer bits than a single, of which interpreters keep the bits: bf16, the upper half of a single, and tf32.
//! And what instructions do to floats beside arithmetic: limits, signs, subnormal numbers.

use super::float::{Float, sum_to_odd};
use super::half::{F16, to_odd_f32};

#[inline(always)]
pub fn fpromote_bf16(value: u16) -> f32 {
    f32::from_bits(u32::from(value) << 16)
}

#[inline(always)]
pub fn fdemote_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16;
    (if value.is_nan() { bits >> 16 | 0x40 } else { rounded }) as u16
}

#[inline(always)]
pub fn fdemote_bf16_toward_zero(value: f32) -> u16 {
    let bits = value.to_bits() >> 16;
    (if value.is_nan() { bits | 0x40 } else { bits }) as u16
}

#[inline(always)]
pub fn fdemote_bf16_double(value: f64) -> u16 {
    fdemote_bf16(to_odd_f32(value))
}

#[inline(always)]
pub fn fdemote_f16_double(value: f64) -> F16 {
    F16::of_f64(value)
}

/// The product is exact as f64.
#[inline(always)]
pub fn fma_bf16(a: u16, b: u16, c: u16) -> u16 {
    let product = f64::from(fpromote_bf16(a)) * f64::from(fpromote_bf16(b));
    fdemote_bf16_double(sum_to_odd(product, f64::from(fpromote_bf16(c))))
}

/// The nearest number with ten bits after the point, of two the one farther from zero.
#[inline(always)]
pub fn round_tf32(value: f32) -> u32 {
    let bits = value.to_bits();
    if value.is_finite() { bits.wrapping_add(0x1000) & !0x1FFF } else { bits }
}

#[inline(always)]
pub fn pack_above(high: F16, low: F16) -> u32 {
    u32::from(low.0) | u32::from(high.0) << 16
}

#[inline(always)]
pub fn pack_words_above(high: u16, low: u16) -> u32 {
    u32::from(low) | u32::from(high) << 16
}

/// Floats whose sign is a bit of them.
pub trait Signed: Float {
    fn negated(self) -> Self;
    fn magnitude(self) -> Self;
    fn with_sign_of(self, other: Self) -> Self {
        if self.is_negative() == other.is_negative() { self } else { self.negated() }
    }
}

macro_rules! signed {
    ($($ty:ty)*) => {$(
        impl Signed for $ty {
            #[inline(always)]
            fn negated(self) -> Self { -self }
            #[inline(always)]
            fn magnitude(self) -> Self { self.abs() }
        }
    )*};
}

signed!(f32 f64);

impl Signed for F16 {
    #[inline(always)]
    fn negated(self) -> Self {
        F16(self.0 ^ 0x8000)
    }
    #[inline(always)]
    fn magnitude(self) -> Self {
        F16(self.0 & 0x7FFF)
    }
}

#[inline(always)]
pub fn fneg<F: Signed>(value: F) -> F {
    value.negated()
}

#[inline(always)]
pub fn fabs<F: Signed>(value: F) -> F {
    value.magnitude()
}

#[inline(always)]
pub fn fcopysign<F: Signed>(value: F, sign: F) -> F {
    value.with_sign_of(sign)
}

#[inline(always)]
pub fn fwith_product_of_signs<F: Signed>(value: F, first: F, second: F) -> F {
    if first.is_negative() == second.is_negative() { value } else { value.negated() }
}

#[inline(always)]
pub fn saturate_unit<F: Float>(value: F) -> F {
    let wide = value.wide();
    // NaN is no more than zero, either.
    F::narrow(if wide > 0.0 { wide.min(1.0) } else { 0.0 })
}

#[inline(always)]
pub fn frelu<F: Float>(value: F) -> F {
    let wide = value.wide();
    if wide > 0.0 || wide.is_nan() { value.quiet() } else { F::narrow(0.0) }
}

#[inline(always)]
pub fn fmin_nan<F: Float>(a: F, b: F) -> F {
    let first = a.lt(b) | (a.same(b) & a.is_negative()) | a.is_nan();
    if first { a.quiet() } else { b.quiet() }
}

#[inline(always)]
pub fn fmax_nan<F: Float>(a: F, b: F) -> F {
    let first = b.lt(a) | (a.same(b) & !a.is_negative()) | a.is_nan();
    if first { a.quiet() } else { b.quiet() }
}

#[inline(always)]
pub fn flush_subnormal(value: f32) -> f32 {
    f32::from_bits(super::float::flush_f32(value.to_bits()))
}

#[inline(always)]
pub fn flush_double(value: f64) -> f64 {
    if value.is_subnormal() { 0f64.copysign(value) } else { value }
}

#[inline(always)]
pub fn high_word(value: f64) -> f64 {
    f64::from_bits(value.to_bits() & 0xFFFF_FFFF_0000_0000)
}

/// Floats as integers, toward zero and limited. What is no number is zero, or has the highest bit alone where the
/// result has 64 bits.
macro_rules! to_integer {
    ($($name:ident: $ty:ty as $signed:ty, $nan:expr;)*) => {$(
        #[inline(always)]
        pub fn $name(value: f64) -> $ty {
            if value.is_nan() { $nan } else { value as $signed as $ty }
        }
    )*};
}

to_integer! {
    float_to_u8: u32 as u8, 0;
    float_to_s8: u32 as i8, 0;
    float_to_u16: u16 as u16, 0;
    float_to_s16: u16 as i16, 0;
    float_to_u32: u32 as u32, 0;
    float_to_s32: u32 as i32, 0;
    float_to_u64: u64 as u64, 1 << 63;
    float_to_s64: u64 as i64, 1 << 63;
    double_to_u8: u32 as u8, 0x80;
    double_to_s8: u32 as i8, 0xFFFF_FF80;
    double_to_u16: u16 as u16, 0x8000;
    double_to_s16: u16 as i16, 0x8000;
    double_to_u32: u32 as u32, 1 << 31;
    double_to_s32: u32 as i32, 1 << 31;
}

/// A float that integers of 64 bits are converted to, rounded to nearest.
pub trait OfLong {
    fn of_signed(value: i64) -> Self;
    fn of_unsigned(value: u64) -> Self;
}

macro_rules! of_long {
    ($($ty:ty)*) => {$(
        impl OfLong for $ty {
            #[inline(always)]
            fn of_signed(value: i64) -> Self { value as $ty }
            #[inline(always)]
            fn of_unsigned(value: u64) -> Self { value as $ty }
        }
    )*};
}

of_long!(f32 f64);

#[inline(always)]
pub fn i64_to_f<F: OfLong>(value: u64) -> F {
    F::of_signed(value as i64)
}

#[inline(always)]
pub fn u64_to_f<F: OfLong>(value: u64) -> F {
    F::of_unsigned(value)
}

#[inline(always)]
pub fn both_true(a: bool, b: bool) -> bool {
    a & b
}

#[inline(always)]
pub fn either_true(a: bool, b: bool) -> bool {
    a | b
}

#[inline(always)]
pub fn differ(a: bool, b: bool) -> bool {
    a ^ b
}
