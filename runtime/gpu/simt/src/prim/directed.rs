//! Floats rounded toward zero, down or up. The exact value is told by what rounding to nearest loses.

use vireo_core::math::exact;

use super::float::{Float, fma_error, ldexp, sum_to_odd};
use super::half::F16;

/// Toward zero.
const ZERO: u8 = 0;
/// To the lower number.
const DOWN: u8 = 1;
/// To the higher number.
const UP: u8 = 2;

/// The number of a format next to a value in a direction: `near` is a nearest one, and `lost` has the sign of the value
/// less that.
macro_rules! toward {
    ($name:ident, $ty:ty) => {
        #[inline(always)]
        fn $name<const TO: u8>(near: $ty, lost: f64) -> $ty {
            let down = match TO {
                DOWN => lost < 0.0,
                UP => false,
                _ => lost < 0.0 && near > 0.0,
            };
            let up = match TO {
                UP => lost > 0.0,
                DOWN => false,
                _ => lost > 0.0 && near < 0.0,
            };
            if down {
                near.next_down()
            } else if up {
                near.next_up()
            } else {
                near
            }
        }
    };
}

toward!(toward_f32, f32);
toward!(toward_f64, f64);

/// The loss of a result of finite operands that is infinite.
fn overflow(total: f64) -> f64 {
    if total > 0.0 { -1.0 } else { 1.0 }
}

/// A sum of zero is negative if it is rounded down and not both summands are positive zeros.
#[inline(always)]
fn signed_zero<const TO: u8>(total: f64, a: f64, b: f64) -> f64 {
    let differs = a.is_sign_negative() != b.is_sign_negative();
    if TO == DOWN && total == 0.0 && differs { -0.0 } else { total }
}

/// A float type with directions.
pub trait Directed: Float {
    fn sum<const TO: u8>(self, other: Self) -> Self;
    fn product<const TO: u8>(self, other: Self) -> Self;
    fn product_sum<const TO: u8>(self, b: Self, c: Self) -> Self;
    fn quotient<const TO: u8>(self, other: Self) -> Self;
    fn root<const TO: u8>(self) -> Self;
    /// The quotient, rounded to nearest.
    fn divided(self, other: Self) -> Self;
}

/// The value of an f64 that stands for one next to it as f32.
#[inline(always)]
fn narrow<const TO: u8>(value: f64) -> f32 {
    let near = value as f32;
    let lost = if near.is_infinite() && value.is_finite() { overflow(value) } else { value - f64::from(near) };
    toward_f32::<TO>(near, lost)
}

/// Of the two numbers next to `near` plus something of the sign of `lost` the odd one, unless it is exact.
#[inline(always)]
fn odd(near: f64, lost: f64) -> f64 {
    let inexact = lost != 0.0 && lost.is_finite() && near.is_finite();
    let bits = near.to_bits();
    let toward = (lost > 0.0) == (near > 0.0);
    let odd = if toward { bits | 1 } else { bits.wrapping_sub(1) | 1 };
    if inexact { f64::from_bits(odd) } else { near }
}

fn remainder(quotient: f64, a: f64, b: f64) -> f64 {
    let rest = (-quotient).mul_add(b, a);
    if b.is_sign_negative() { -rest } else { rest }
}

impl Directed for f32 {
    #[inline(always)]
    fn sum<const TO: u8>(self, other: Self) -> Self {
        let (a, b) = (f64::from(self), f64::from(other));
        narrow::<TO>(signed_zero::<TO>(sum_to_odd(a, b), a, b))
    }
    #[inline(always)]
    fn product<const TO: u8>(self, other: Self) -> Self {
        narrow::<TO>(f64::from(self) * f64::from(other))
    }
    #[inline(always)]
    fn product_sum<const TO: u8>(self, b: Self, c: Self) -> Self {
        let (product, c) = (f64::from(self) * f64::from(b), f64::from(c));
        narrow::<TO>(signed_zero::<TO>(sum_to_odd(product, c), product, c))
    }
    fn quotient<const TO: u8>(self, other: Self) -> Self {
        let (a, b) = (f64::from(self), f64::from(other));
        let quotient = a / b;
        narrow::<TO>(odd(quotient, remainder(quotient, a, b)))
    }
    fn root<const TO: u8>(self) -> Self {
        let value = f64::from(self);
        let root = value.sqrt();
        narrow::<TO>(odd(root, (-root).mul_add(root, value)))
    }
    #[inline(always)]
    fn divided(self, other: Self) -> Self {
        self / other
    }
}

/// A result of finite operands, with what it lost.
fn finish<const TO: u8>(near: f64, lost: f64, is_finite: bool) -> f64 {
    match (is_finite, near.is_infinite()) {
        (true, true) => toward_f64::<TO>(near, overflow(near)),
        (true, false) => toward_f64::<TO>(near, lost),
        _ => near,
    }
}

/// A significand from 1 to 2 with its sign, and the exponent; zero and what is not finite as they are.
fn split(value: f64) -> (f64, i32) {
    if value == 0.0 || !value.is_finite() {
        return (value, 0);
    }
    let subnormal = value.is_subnormal();
    let bits = if subnormal { value * 18_014_398_509_481_984.0 } else { value }.to_bits();
    let exponent = (bits >> 52 & 0x7FF) as i32 - 1023 - if subnormal { 54 } else { 0 };
    (f64::from_bits(bits & 0x800F_FFFF_FFFF_FFFF | 1023 << 52), exponent)
}

/// Parts of a sum that are less than the larger one by more than this power of two stand for something small.
const NEGLIGIBLE: i32 = -300;

impl Directed for f64 {
    fn sum<const TO: u8>(self, other: Self) -> Self {
        let total = self + other;
        let lost = (self - (total - other)) + (other - (total - (total - other)));
        let total = signed_zero::<TO>(total, self, other);
        finish::<TO>(total, lost, self.is_finite() && other.is_finite())
    }
    fn product<const TO: u8>(self, other: Self) -> Self {
        let near = self * other;
        // Of significands, so that nothing of what is lost is too small.
        let ((a, p), (b, q)) = (split(self), split(other));
        let lost = a.mul_add(b, -ldexp(near, (-p - q) as u32));
        finish::<TO>(near, lost, self.is_finite() && other.is_finite())
    }
    fn product_sum<const TO: u8>(self, b: Self, c: Self) -> Self {
        let is_finite = self.is_finite() && b.is_finite() && c.is_finite();
        if c == 0.0 && self != 0.0 && b != 0.0 && is_finite {
            return self.product::<TO>(b);
        }
        let near = self.mul_add(b, c);
        if self == 0.0 || b == 0.0 || !is_finite {
            return signed_zero::<TO>(near, self * b, c);
        }
        let ((x, p), (y, q), (z, r)) = (split(self), split(b), split(c));
        let top = r.max(p + q);
        let scaled = |value: f64, exponent: i32| ldexp(value, (exponent - top).max(NEGLIGIBLE) as u32);
        let lost = fma_error(x, scaled(y, p + q), scaled(z, r), ldexp(near, -top as u32));
        let exact = lost == 0.0 && near == 0.0;
        finish::<TO>(if exact && TO == DOWN { -0.0 } else { near }, lost, true)
    }
    fn quotient<const TO: u8>(self, other: Self) -> Self {
        let near = self / other;
        let is_finite = self.is_finite() && other.is_finite() && other != 0.0;
        let ((a, p), (b, q)) = (split(self), split(other));
        finish::<TO>(near, remainder(ldexp(near, (q - p) as u32), a, b), is_finite)
    }
    fn root<const TO: u8>(self) -> Self {
        let near = self.sqrt();
        let (value, exponent) = split(self);
        let half = exponent.div_euclid(2);
        let (value, root) = (ldexp(value, exponent.rem_euclid(2) as u32), ldexp(near, -half as u32));
        finish::<TO>(near, (-root).mul_add(root, value), self.is_finite())
    }
    #[inline(always)]
    fn divided(self, other: Self) -> Self {
        self / other
    }
}

macro_rules! directed {
    ($($direction:ident: $add:ident $mul:ident $fma:ident $div:ident $sqrt:ident $demote:ident;)*) => {$(
        #[inline(always)]
        pub fn $add<F: Directed>(a: F, b: F) -> F { a.sum::<$direction>(b) }
        #[inline(always)]
        pub fn $mul<F: Directed>(a: F, b: F) -> F { a.product::<$direction>(b) }
        #[inline(always)]
        pub fn $fma<F: Directed>(a: F, b: F, c: F) -> F { a.product_sum::<$direction>(b, c) }
        #[inline(always)]
        pub fn $div<F: Directed>(a: F, b: F) -> F { a.quotient::<$direction>(b) }
        #[inline(always)]
        pub fn $sqrt<F: Directed>(a: F) -> F { a.root::<$direction>() }
        #[inline(always)]
        pub fn $demote(value: f64) -> f32 { narrow::<$direction>(value) }
    )*};
}

directed! {
    ZERO: fadd_rz fmul_rz fma_rz fdiv_rz fsqrt_rz fdemote_rz;
    DOWN: fadd_rm fmul_rm fma_rm fdiv_rm fsqrt_rm fdemote_rm;
    UP: fadd_rp fmul_rp fma_rp fdiv_rp fsqrt_rp fdemote_rp;
}

#[inline(always)]
pub fn fdiv<F: Directed>(a: F, b: F) -> F {
    a.divided(b)
}

/// An integer as f64, with the sign of what is lost.
fn of_integer(value: i128) -> (f64, f64) {
    let near = value as f64;
    (near, (value - near as i128) as f64)
}

macro_rules! of_integers {
    ($($name32:ident $name64:ident: $direction:ident $signed:ty;)*) => {$(
        pub fn $name32(value: u64) -> f32 {
            let (near, lost) = of_integer(i128::from(value as $signed));
            narrow::<$direction>(odd(near, lost))
        }
        pub fn $name64(value: u64) -> f64 {
            let (near, lost) = of_integer(i128::from(value as $signed));
            toward_f64::<$direction>(near, lost)
        }
    )*};
}

of_integers! {
    i64_to_f32_rz i64_to_f64_rz: ZERO i64;
    i64_to_f32_rm i64_to_f64_rm: DOWN i64;
    i64_to_f32_rp i64_to_f64_rp: UP i64;
    u64_to_f32_rz u64_to_f64_rz: ZERO u64;
    u64_to_f32_rm u64_to_f64_rm: DOWN u64;
    u64_to_f32_rp u64_to_f64_rp: UP u64;
}

pub fn i64_to_f64_odd(value: u64) -> f64 {
    let (near, lost) = of_integer(i128::from(value as i64));
    odd(near, lost)
}

pub fn u64_to_f64_odd(value: u64) -> f64 {
    let (near, lost) = of_integer(i128::from(value));
    odd(near, lost)
}

/// An f16 next to the nearest one.
fn step(near: F16, up: bool) -> F16 {
    match (near.0, up) {
        (0x0000 | 0x8000, true) => F16(0x0001),
        (0x0000 | 0x8000, false) => F16(0x8001),
        (bits, up) if up == (bits < 0x8000) => F16(bits + 1),
        (bits, _) => F16(bits - 1),
    }
}

pub fn fdemote_f16_rm(value: f64) -> F16 {
    let near = F16::of_f64(value);
    if value < f64::from(near.to_f32()) && value.is_finite() { step(near, false) } else { near }
}

pub fn fdemote_f16_rp(value: f64) -> F16 {
    let near = F16::of_f64(value);
    if value > f64::from(near.to_f32()) && value.is_finite() { step(near, true) } else { near }
}

/// A float type with functions that are correctly rounded.
pub trait Functions: Float + exact::Format {}
impl Functions for f32 {}
impl Functions for f64 {}

pub fn sin<F: Functions>(value: F) -> F {
    let angle = value.wide();
    if angle == 0.0 || angle.is_nan() {
        value
    } else if angle.is_infinite() {
        F::narrow(f64::NAN)
    } else {
        exact::sin(angle)
    }
}

pub fn cos<F: Functions>(value: F) -> F {
    let angle = value.wide();
    if angle == 0.0 {
        F::narrow(1.0)
    } else if !angle.is_finite() {
        F::narrow(f64::NAN)
    } else {
        exact::cos(angle)
    }
}

pub fn tanh<F: Functions>(value: F) -> F {
    let wide = value.wide();
    if wide == 0.0 || wide.is_nan() {
        value
    } else if wide.abs() > 900.0 {
        F::narrow(1f64.copysign(wide))
    } else {
        exact::tanh(wide)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of all kinds, drawn.
    fn drawn() -> Vec<f64> {
        let mut state = 0x9E37_79B9_7F4A_7C15u64;
        let mut values = vec![0.0, -0.0, 1.0, -1.0, f64::MAX, f64::MIN_POSITIVE, 5e-324, f64::INFINITY, f64::NAN];
        for _ in 0..400 {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            // Exponents near to one, so that results are seldom special.
            let exponent = 1023 - 40 + (state >> 32) % 80;
            values.push(f64::from_bits(state >> 63 << 63 | exponent << 52 | state.rotate_left(17) >> 12));
        }
        values
    }

    /// The direction of each result agrees with arithmetic on integers of 128 bits.
    #[test]
    fn sums_and_products_of_singles_are_next_to_the_exact_ones() {
        let values: Vec<f32> = drawn().into_iter().map(|value| value as f32).collect();
        for a in &values {
            for b in values.iter().step_by(7) {
                let (x, y) = (f64::from(*a), f64::from(*b));
                for (down, up, zero, exact) in [
                    (fmul_rm(*a, *b), fmul_rp(*a, *b), fmul_rz(*a, *b), x * y),
                    (fadd_rm(*a, *b), fadd_rp(*a, *b), fadd_rz(*a, *b), x + y),
                ] {
                    if !exact.is_finite() || exact.abs() > f64::from(f32::MAX) {
                        continue;
                    }
                    let (down, up, zero) = (f64::from(down), f64::from(up), f64::from(zero));
                    assert!(
                        down <= exact && exact <= up && up - down <= f64::from((up as f32) - (down as f32)),
                        "{a} {b}"
                    );
                    assert!(zero.abs() <= exact.abs() && (zero == down || zero == up), "{a} {b}");
                }
            }
        }
    }

    #[test]
    fn doubles_are_rounded_as_their_remainders_say() {
        let values = drawn();
        for a in &values {
            for b in values.iter().step_by(5) {
                let pairs = [
                    (fadd_rm(*a, *b), fadd_rp(*a, *b), a + b),
                    (fmul_rm(*a, *b), fmul_rp(*a, *b), a * b),
                    (fdiv_rm(*a, *b), fdiv_rp(*a, *b), a / b),
                    (fma_rm(*a, *b, 0.1), fma_rp(*a, *b, 0.1), a.mul_add(*b, 0.1)),
                ];
                for (down, up, near) in pairs {
                    if near.is_finite() {
                        assert!(down == near || up == near, "{a} {b}: {down} {near} {up}");
                        assert!(down == up || down.next_up() == up, "{a} {b}: {down} {near} {up}");
                    }
                }
            }
        }
        assert_eq!(fadd_rz(f64::MAX, f64::MAX), f64::MAX);
        assert_eq!(fadd_rm(1.0f64, -1.0).to_bits(), (-0.0f64).to_bits());
        assert_eq!(fdiv_rp(1.0f32, 3.0), 0.333_333_34);
        assert_eq!(fdiv_rm(1.0f32, 3.0), 0.333_333_3);
        assert_eq!(fsqrt_rp(2.0f64), 2f64.sqrt());
        assert_eq!(fsqrt_rm(2.0f64), 2f64.sqrt().next_down());
        assert_eq!((i64_to_f32_rz(16_777_219), i64_to_f32_rp(16_777_219)), (16_777_218.0, 16_777_220.0));
        assert_eq!(fdemote_f16_rp(1e-30), F16(1));
        assert_eq!(fdemote_f16_rm(65519.0), F16(0x7BFF));
    }
}
