//! Floats. NaN results are quiet; their payloads and signs are not specified.

use vireo_core::math::exact;

use super::half::F16;

/// A float type.
pub trait Float: Copy {
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn fma(self, b: Self, c: Self) -> Self;
    fn lt(self, other: Self) -> bool;
    fn le(self, other: Self) -> bool;
    fn same(self, other: Self) -> bool;
    fn is_nan(self) -> bool;
    fn is_negative(self) -> bool;
    /// A quiet NaN of it, or the number itself.
    fn quiet(self) -> Self;
    fn trunc(self) -> Self;
    fn ceil(self) -> Self;
    fn floor(self) -> Self;
    fn round_even(self) -> Self;
    /// As f64, exactly.
    fn wide(self) -> f64;
    /// Rounded from f64.
    fn narrow(value: f64) -> Self;
    /// One divided by it, the square root: rounded to nearest.
    fn reciprocal(self) -> Self;
    fn sqrt(self) -> Self;
    /// The bit of its class.
    fn class(self) -> u32;
    /// Times two to a power, rounded once.
    fn scale(self, power: i32) -> Self;
    /// The field of its exponent.
    fn exponent_field(self) -> i32;
    /// A quotient is zero if the exponent of the numerator is less than that of the denominator by more than this.
    const UNDERFLOW: i32;
    /// It is infinite if it is more than this.
    const OVERFLOW: i32;
    /// The largest number below one.
    const BELOW_ONE: Self;
}

macro_rules! class_of {
    ($value:expr, $bits:expr, $quiet:expr) => {{
        let (value, negative) = ($value, $value.is_sign_negative());
        let (signalling, pick) = ($bits & $quiet == 0, |down: u32, up: u32| if negative { down } else { up });
        match value.classify() {
            std::num::FpCategory::Nan => u32::from(!signalling),
            std::num::FpCategory::Infinite => pick(2, 9),
            std::num::FpCategory::Normal => pick(3, 8),
            std::num::FpCategory::Subnormal => pick(4, 7),
            std::num::FpCategory::Zero => pick(5, 6),
        }
    }};
}

macro_rules! native {
    ($($ty:ty, $quiet:literal, $scale:ident, $significand:literal, $underflow:literal, $overflow:literal;)*) => {$(
        impl Float for $ty {
            const UNDERFLOW: i32 = $underflow;
            const OVERFLOW: i32 = $overflow;
            const BELOW_ONE: Self = 1.0 - <$ty>::EPSILON / 2.0;
            #[inline(always)]
            fn add(self, other: Self) -> Self { self + other }
            #[inline(always)]
            fn sub(self, other: Self) -> Self { self - other }
            #[inline(always)]
            fn mul(self, other: Self) -> Self { self * other }
            #[inline(always)]
            fn fma(self, b: Self, c: Self) -> Self { self.mul_add(b, c) }
            #[inline(always)]
            fn lt(self, other: Self) -> bool { self < other }
            #[inline(always)]
            fn le(self, other: Self) -> bool { self <= other }
            #[inline(always)]
            fn same(self, other: Self) -> bool { self == other }
            #[inline(always)]
            fn is_nan(self) -> bool { self != self }
            #[inline(always)]
            fn is_negative(self) -> bool { self.is_sign_negative() }
            #[inline(always)]
            fn quiet(self) -> Self {
                Self::from_bits(if self != self { self.to_bits() | $quiet } else { self.to_bits() })
            }
            #[inline(always)]
            fn trunc(self) -> Self { self.trunc() }
            #[inline(always)]
            fn ceil(self) -> Self { self.ceil() }
            #[inline(always)]
            fn floor(self) -> Self { self.floor() }
            #[inline(always)]
            fn round_even(self) -> Self { self.round_ties_even() }
            #[inline(always)]
            fn wide(self) -> f64 { f64::from(self) }
            #[inline(always)]
            fn narrow(value: f64) -> Self { value as $ty }
            #[inline(always)]
            fn reciprocal(self) -> Self { 1.0 / self }
            #[inline(always)]
            fn sqrt(self) -> Self { self.sqrt() }
            #[inline(always)]
            fn class(self) -> u32 { class_of!(self, self.to_bits(), $quiet) }
            #[inline(always)]
            fn scale(self, power: i32) -> Self { $scale(self, power) }
            #[inline(always)]
            fn exponent_field(self) -> i32 { (self.abs().to_bits() >> $significand) as i32 }
        }
    )*};
}

native! {
    f32, 0x0040_0000, scale_f32, 23, 150, 128;
    f64, 0x0008_0000_0000_0000, scale_f64, 52, 1075, 1024;
}

#[inline(always)]
pub fn power_of_two(power: i32) -> f64 {
    f64::from_bits(((power + 1023) as u64) << 52)
}

/// Times two to a power, rounded once: as f64 the product is exact. Beyond 2^300 and 2^-300 all are infinite or zero.
#[inline(always)]
fn scale_f32(value: f32, power: i32) -> f32 {
    (f64::from(value) * power_of_two(power.clamp(-300, 300))) as f32
}

/// Times two to a power, rounded once: all products but the last one are exact.
#[inline(always)]
fn scale_f64(value: f64, power: i32) -> f64 {
    let (mut value, mut rest) = (value, power.clamp(-2200, 2200));
    while rest > 1000 {
        value *= power_of_two(1000);
        rest -= 1000;
    }
    if rest < -1000 && value.is_finite() {
        // Down to the smallest normal number nothing is lost.
        let exponent = ((value.to_bits() >> 52 & 0x7FF) as i32).max(1) - 1023;
        let mut exact = rest.max(-1022 - exponent).min(0);
        rest -= exact;
        while exact < 0 {
            let step = exact.max(-500);
            value *= power_of_two(step);
            exact -= step;
        }
        if rest < -1022 {
            return value * 0.0;
        }
    }
    value * power_of_two(rest.max(-1022))
}

impl Float for F16 {
    // The exponents of two of them differ by 30 at most.
    const UNDERFLOW: i32 = i32::MAX;
    const OVERFLOW: i32 = i32::MAX;
    const BELOW_ONE: Self = F16(0x3BFF);

    #[inline(always)]
    fn exponent_field(self) -> i32 {
        i32::from(self.0 >> 10 & 0x1F)
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        F16::of_f32(self.to_f32() + other.to_f32())
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        F16::of_f32(self.to_f32() - other.to_f32())
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        F16::of_f32(self.to_f32() * other.to_f32())
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        // The product is exact.
        F16::of_f64(sum_to_odd(self.wide() * b.wide(), c.wide()))
    }
    #[inline(always)]
    fn lt(self, other: Self) -> bool {
        self.to_f32() < other.to_f32()
    }
    #[inline(always)]
    fn le(self, other: Self) -> bool {
        self.to_f32() <= other.to_f32()
    }
    #[inline(always)]
    fn same(self, other: Self) -> bool {
        self.to_f32() == other.to_f32()
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        self.0 & 0x7FFF > 0x7C00
    }
    #[inline(always)]
    fn is_negative(self) -> bool {
        self.0 & 0x8000 != 0
    }
    #[inline(always)]
    fn quiet(self) -> Self {
        F16(if self.0 & 0x7FFF > 0x7C00 { self.0 | 0x200 } else { self.0 })
    }
    #[inline(always)]
    fn trunc(self) -> Self {
        F16::of_f32(self.to_f32().trunc())
    }
    #[inline(always)]
    fn ceil(self) -> Self {
        F16::of_f32(self.to_f32().ceil())
    }
    #[inline(always)]
    fn floor(self) -> Self {
        F16::of_f32(self.to_f32().floor())
    }
    #[inline(always)]
    fn round_even(self) -> Self {
        F16::of_f32(self.to_f32().round_ties_even())
    }
    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self.to_f32())
    }
    #[inline(always)]
    fn narrow(value: f64) -> Self {
        F16::of_f64(value)
    }
    #[inline(always)]
    fn reciprocal(self) -> Self {
        F16::of_f64(1.0 / self.wide())
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        F16::of_f64(self.wide().sqrt())
    }
    #[inline(always)]
    fn class(self) -> u32 {
        let (magnitude, negative) = (self.0 & 0x7FFF, self.0 & 0x8000 != 0);
        let pick = |down: u32, up: u32| if negative { down } else { up };
        match magnitude {
            0 => pick(5, 6),
            1..=0x3FF => pick(4, 7),
            0x400..=0x7BFF => pick(3, 8),
            0x7C00 => pick(2, 9),
            _ => u32::from(magnitude & 0x200 != 0),
        }
    }
    #[inline(always)]
    fn scale(self, power: i32) -> Self {
        // The product is exact as f64.
        F16::of_f64(self.wide() * power_of_two(power.clamp(-200, 200)))
    }
}

/// The sum, of the two numbers next to it the odd one unless it is exact: rounding that to fewer bits gives what
/// rounding the sum would.
#[inline(always)]
pub fn sum_to_odd(a: f64, b: f64) -> f64 {
    let total = a + b;
    let lost = (a - (total - b)) + (b - (total - (total - b)));
    let inexact = (lost != 0.0) & !lost.is_nan();
    let toward = (lost > 0.0) == (total > 0.0);
    let bits = total.to_bits();
    let odd = if toward { bits | 1 } else { bits.wrapping_sub(u64::from(inexact)) | 1 };
    if inexact { f64::from_bits(odd) } else { total }
}

/// The part that product and sum lose when they are rounded to `total`; its sign is exact. The product must neither
/// overflow nor lose bits below the smallest number.
#[inline(always)]
pub fn fma_error(a: f64, b: f64, c: f64, total: f64) -> f64 {
    let two_sum = |a: f64, b: f64| {
        let total = a + b;
        (total, (a - (total - b)) + (b - (total - (total - b))))
    };
    let product = a * b;
    let (high, low) = two_sum(c, a.mul_add(b, -product));
    let (first, second) = two_sum(product, high);
    (first - total) + second + low
}

#[inline(always)]
pub fn fadd<F: Float>(a: F, b: F) -> F {
    a.add(b)
}

#[inline(always)]
pub fn fsub<F: Float>(a: F, b: F) -> F {
    a.sub(b)
}

#[inline(always)]
pub fn fmul<F: Float>(a: F, b: F) -> F {
    a.mul(b)
}

#[inline(always)]
pub fn fma<F: Float>(a: F, b: F, c: F) -> F {
    a.fma(b, c)
}

#[inline(always)]
pub fn feq<F: Float>(a: F, b: F) -> bool {
    a.same(b)
}

#[inline(always)]
pub fn flt<F: Float>(a: F, b: F) -> bool {
    a.lt(b)
}

#[inline(always)]
pub fn fle<F: Float>(a: F, b: F) -> bool {
    a.le(b)
}

#[inline(always)]
pub fn fne_ordered<F: Float>(a: F, b: F) -> bool {
    a.lt(b) | b.lt(a)
}

#[inline(always)]
pub fn fordered<F: Float>(a: F, b: F) -> bool {
    !a.is_nan() & !b.is_nan()
}

#[inline(always)]
pub fn fmin_number<F: Float>(a: F, b: F) -> F {
    // Of equal numbers the negative one, so that -0 is less than 0.
    let first = a.lt(b) | (a.same(b) & a.is_negative()) | b.is_nan();
    if first & !(a.is_nan() & !b.is_nan()) { a.quiet() } else { b.quiet() }
}

#[inline(always)]
pub fn fmax_number<F: Float>(a: F, b: F) -> F {
    let first = b.lt(a) | (a.same(b) & !a.is_negative()) | b.is_nan();
    if first & !(a.is_nan() & !b.is_nan()) { a.quiet() } else { b.quiet() }
}

#[inline(always)]
pub fn fmed3<F: Float>(a: F, b: F, c: F) -> F {
    let smallest = fmin_number(fmin_number(a, b), c);
    let middle = fmax_number(fmin_number(a, b), fmin_number(fmax_number(a, b), c));
    if a.is_nan() | b.is_nan() | c.is_nan() { smallest } else { middle }
}

#[inline(always)]
pub fn freciprocal<F: Float>(value: F) -> F {
    value.reciprocal()
}

#[inline(always)]
pub fn fsqrt<F: Float>(value: F) -> F {
    value.sqrt()
}

#[inline(always)]
pub fn frsqrt_near<F: Float>(value: F) -> F {
    F::narrow(1.0 / value.wide().sqrt())
}

/// Two to this power: of the fraction by a series of ten terms, whose relative error in f64 is at most 2^-36, rounded
/// once.
#[inline(always)]
pub fn fexp2<F: Float>(value: F) -> F {
    let x = value.wide().clamp(-1020.0, 1020.0);
    let whole = x.round_ties_even();
    let t = (x - whole) * std::f64::consts::LN_2;
    let mut sum = 1.0;
    for divisor in [10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0] {
        sum = 1.0 + sum * t / divisor;
    }
    // At 2^52 the lowest bit counts one, so the whole number is in the lowest bits. Not a cast, which is no vector
    // instruction.
    let power = f64::from_bits((whole + (4_503_599_627_370_496.0 + 1023.0)).to_bits() << 52);
    F::narrow(if value.is_nan() { value.wide() } else { sum * power })
}

/// The logarithm to base two: of the significand by a series, whose relative error in f64 is at most 2^-36, rounded
/// once.
#[inline(always)]
pub fn flog2<F: Float>(value: F) -> F {
    let x = value.wide();
    let bits = x.to_bits();
    // A significand from sqrt(1/2) to sqrt(2); f32 and f16 are never subnormal as f64.
    let shifted = bits.wrapping_sub(0x3FE6_A09E_667F_3BCD);
    let exponent = f64::from((shifted >> 32) as i32 >> 20);
    let m = f64::from_bits(bits.wrapping_sub(shifted & 0xFFF0_0000_0000_0000));
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    let mut sum = 0.0;
    for divisor in [15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        sum = sum * square + 1.0 / divisor;
    }
    let result = exponent + 2.0 * std::f64::consts::LOG2_E * s * sum;
    let special = if x == 0.0 {
        f64::NEG_INFINITY
    } else if x < 0.0 {
        f64::NAN
    } else {
        x
    };
    let ordinary = x > 0.0 && x < f64::INFINITY;
    F::narrow(if ordinary { result } else { special })
}

/// The angle within a turn, in radians.
#[inline(always)]
fn radians<F: Float>(turns: F) -> f64 {
    turns.wide() % 1.0 * std::f64::consts::TAU
}

pub fn fsin_turns<F: Float>(turns: F) -> F {
    let angle = radians(turns);
    // The sign of a zero stays, and no angle that is infinite has a sine.
    F::narrow(if angle == 0.0 || angle.is_nan() { angle } else { f64::from(exact::sin::<f32>(angle)) })
}

pub fn fcos_turns<F: Float>(turns: F) -> F {
    let angle = radians(turns);
    F::narrow(match angle {
        0.0 => 1.0,
        _ if angle.is_nan() => f64::NAN,
        _ => f64::from(exact::cos::<f32>(angle)),
    })
}

#[inline(always)]
pub fn ftrunc<F: Float>(value: F) -> F {
    value.trunc()
}

#[inline(always)]
pub fn fceil<F: Float>(value: F) -> F {
    value.ceil()
}

#[inline(always)]
pub fn ffloor<F: Float>(value: F) -> F {
    value.floor()
}

#[inline(always)]
pub fn fround_even<F: Float>(value: F) -> F {
    value.round_even()
}

/// The nearest integer, of two the larger one. Half of the distance to the next integer is exact below 2^52, above
/// which all are integers.
#[inline(always)]
pub fn fround_up<F: Float>(value: F) -> F {
    let wide = value.wide();
    let below = wide.floor();
    F::narrow(if wide - below >= 0.5 { below + 1.0 } else { below })
}

#[inline(always)]
pub fn fract<F: Float>(value: F) -> F {
    let fraction = value.sub(value.floor());
    if F::BELOW_ONE.lt(fraction) { F::BELOW_ONE } else { fraction }
}

#[inline(always)]
pub fn frexp_mantissa<F: Float>(value: F) -> F {
    let wide = value.wide();
    // Subnormal f64 are made normal first.
    let normal = if wide.abs() < f64::MIN_POSITIVE { wide * 18_014_398_509_481_984.0 } else { wide };
    let significand = f64::from_bits(normal.to_bits() & 0x800F_FFFF_FFFF_FFFF | 0x3FE0_0000_0000_0000);
    let special = wide == 0.0 || !wide.is_finite();
    if special { value.quiet() } else { F::narrow(significand) }
}

#[inline(always)]
pub fn frexp_exponent<F: Float>(value: F) -> u32 {
    let wide = value.wide();
    // Subnormal f64 are made normal first.
    let subnormal = wide.abs() < f64::MIN_POSITIVE;
    let scaled = if subnormal { wide * 18_014_398_509_481_984.0 } else { wide };
    let exponent = (scaled.to_bits() >> 52 & 0x7FF) as i32 - 1022 - if subnormal { 54 } else { 0 };
    if wide == 0.0 || !wide.is_finite() { 0 } else { exponent as u32 }
}

#[inline(always)]
pub fn ldexp<F: Float>(value: F, power: u32) -> F {
    value.scale(power as i32)
}

/// Limited to 0 to 1; NaN becomes zero or stays.
#[inline(always)]
pub fn clamp_f32(value: f32, nan_is_zero: bool) -> f32 {
    if value.is_nan() & nan_is_zero { 0.0 } else { value.clamp(0.0, 1.0) }
}

/// The bits of an f32, or of a zero of its sign if it is subnormal.
#[inline(always)]
pub fn flush_f32(bits: u32) -> u32 {
    if bits & 0x7F80_0000 == 0 { bits & 0x8000_0000 } else { bits }
}

/// The bits of an f16, or of a zero of its sign if it is subnormal.
#[inline(always)]
pub fn flush_f16(bits: u16) -> u16 {
    if bits & 0x7C00 == 0 { bits & 0x8000 } else { bits }
}

#[inline(always)]
pub fn class_is<F: Float>(value: F, classes: u32) -> bool {
    classes >> value.class() & 1 == 1
}
