//! Conversions.

use super::half::F16;

/// Toward zero and limited; NaN becomes zero. As a cast of Rust, which the compiler makes no vector instructions of.
#[inline(always)]
fn to_i32(value: f32) -> i32 {
    let number = if value.is_nan() { 0.0 } else { value };
    // The largest number below 2^31.
    let within = number.clamp(-2_147_483_648.0, 2_147_483_520.0);
    // SAFETY: The value is no NaN, and an i32 when it is truncated.
    let inside = unsafe { within.to_int_unchecked::<i32>() };
    if number >= 2_147_483_648.0 { i32::MAX } else { inside }
}

/// A float that integers of 32 bits are converted to, rounded to nearest.
pub trait OfInteger {
    fn of_signed(value: i32) -> Self;
    fn of_unsigned(value: u32) -> Self;
}

macro_rules! of_integer {
    ($($ty:ty)*) => {$(
        impl OfInteger for $ty {
            #[inline(always)]
            fn of_signed(value: i32) -> Self { value as $ty }
            #[inline(always)]
            fn of_unsigned(value: u32) -> Self { value as $ty }
        }
    )*};
}

of_integer!(f32 f64);

#[inline(always)]
pub fn i32_to_f<F: OfInteger>(value: u32) -> F {
    F::of_signed(value as i32)
}

#[inline(always)]
pub fn u32_to_f<F: OfInteger>(value: u32) -> F {
    F::of_unsigned(value)
}

#[inline(always)]
pub fn f32_to_i32(value: f32) -> u32 {
    to_i32(value) as u32
}

#[inline(always)]
pub fn f32_to_u32(value: f32) -> u32 {
    // Numbers from 2^31 on have no bits below the lowest one of an integer, so the difference is exact.
    let large = value >= 2_147_483_648.0;
    let low = to_i32((if large { value - 2_147_483_648.0 } else { value }).max(0.0)) as u32;
    let limited = if value >= 4_294_967_296.0 { u32::MAX } else { low | u32::from(large) << 31 };
    if value.is_nan() { 0 } else { limited }
}

#[inline(always)]
pub fn f64_to_i32(value: f64) -> u32 {
    value as i32 as u32
}

#[inline(always)]
pub fn f64_to_u32(value: f64) -> u32 {
    value as u32
}

#[inline(always)]
pub fn f16_to_i16(value: F16) -> u16 {
    value.to_f32() as i16 as u16
}

#[inline(always)]
pub fn f16_to_u16(value: F16) -> u16 {
    value.to_f32() as u16
}

#[inline(always)]
pub fn i16_to_f16(value: u16) -> F16 {
    F16::of_f32(f32::from(value as i16))
}

#[inline(always)]
pub fn u16_to_f16(value: u16) -> F16 {
    F16::of_f32(f32::from(value))
}

#[inline(always)]
pub fn fdemote(value: f64) -> f32 {
    value as f32
}

#[inline(always)]
pub fn fpromote(value: f32) -> f64 {
    f64::from(value)
}

#[inline(always)]
pub fn fdemote_f16(value: f32) -> F16 {
    F16::of_f32(value)
}

#[inline(always)]
pub fn fdemote_f16_toward_zero(value: f32) -> F16 {
    let nearest = F16::of_f32(value);
    // Away from zero it is the next number; below infinity, the largest one.
    let away = nearest.to_f32().abs() > value.abs();
    F16(nearest.0 - u16::from(away && value.is_finite()))
}

#[inline(always)]
pub fn f32_to_signed_norm(value: f32) -> u16 {
    (value.clamp(-1.0, 1.0) * 32767.0).round_ties_even() as i16 as u16
}

#[inline(always)]
pub fn f32_to_unsigned_norm(value: f32) -> u16 {
    (value.clamp(0.0, 1.0) * 65535.0).round_ties_even() as u16
}

#[inline(always)]
pub fn f16_to_signed_norm(value: F16) -> u16 {
    f32_to_signed_norm(value.to_f32())
}

#[inline(always)]
pub fn f16_to_unsigned_norm(value: F16) -> u16 {
    f32_to_unsigned_norm(value.to_f32())
}

#[inline(always)]
pub fn fpromote_f16(value: F16) -> f32 {
    value.to_f32()
}

#[inline(always)]
pub fn pack_halves(low: F16, high: F16) -> u32 {
    u32::from(low.0) | u32::from(high.0) << 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_become_integers_as_casts_make_them() {
        // All exponents with some significands, of both signs.
        let values = (0..=u32::MAX).step_by(4093).chain([
            0x7F80_0000,
            0x7FC0_0000,
            0x4EFF_FFFF,
            0x4F00_0000,
            0x4F7F_FFFF,
            0x4F80_0000,
            0xCF00_0000,
            0xCF00_0001,
        ]);
        for value in values.map(f32::from_bits) {
            assert_eq!(f32_to_i32(value), value as i32 as u32, "{value}");
            assert_eq!(f32_to_u32(value), value as u32, "{value}");
        }
    }
}
