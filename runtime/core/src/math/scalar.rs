//! The functions on one number, or on several at once ([`Floats`]), without branches and calls, so that the compiler
//! vectorises a loop over them. They take numbers of an `f32`, and their result is to be rounded to one.
//! [`super::vector`] has vectors of them.
//!
//! Coefficients are minimax: they have the least maximum of the relative error on the interval that is given with them,
//! rounded to `f64`.

use std::f64::consts::{LN_2, LOG2_E};
use std::ops::{Add, Div, Mul, Sub};

/// Bits of the mantissa of an `f64`.
pub(super) const MANTISSA_BITS: u32 = 52;
const EXPONENT_BIAS: f64 = 1023.0;
/// The natural logarithm of 2 to 45 bits, so that its product with an exponent of an `f32` is exact.
const SHORT_LN_2: f64 = f64::from_bits(LN_2.to_bits() & (u64::MAX << 8));
/// Adding it to a small number rounds that to an integer, which is then in the low bits.
const ROUND: f64 = (3u64 << (MANTISSA_BITS - 1)) as f64;
/// An integer in its low bits makes it a float larger by that integer.
const INTEGER: f64 = (1u64 << MANTISSA_BITS) as f64;

/// `(exp(r) - 1) / r` for |r| up to half of ln 2, to 2^-37.7.
const EXP_M1: [f64; 8] = [
    0.9999999999955507,
    0.5000000000120683,
    0.1666666678568765,
    0.04166666595168975,
    0.008333283675882715,
    0.001388897816014012,
    0.00019907493566609168,
    2.4801692702999313e-05,
];

/// `log(1 + f) / f` for 1 + f between the square roots of 1/2 and 2, to 2^-38.5.
const LOG_1P: [f64; 14] = [
    0.999999999998344,
    -0.49999999991894256,
    0.3333333346086675,
    -0.2500000228165534,
    0.19999985273842597,
    -0.1666647674224456,
    0.1428625712769059,
    -0.12506922693732056,
    0.11105373226572551,
    -0.09877251058799517,
    0.0903001525068045,
    -0.09331797459588545,
    0.0918504556362838,
    -0.048339547463529,
];

/// `erf(x) / x` for |x| up to [`ERF_IS_ONE`], as the quotient of two polynomials in x^2, to 2^-37.3.
const ERF: [[f64; 8]; 2] = [
    [
        1.1283791670889636,
        0.19775192663327704,
        0.05772717375360499,
        0.004843209024684466,
        0.0005058035917839127,
        2.1029727468601022e-05,
        7.502708744227153e-07,
        3.092746822972188e-09,
    ],
    [
        1.0,
        0.5085864149674609,
        0.12068818339307948,
        0.01747244976220534,
        0.001683175842400977,
        0.00010896934397517726,
        4.408545150687693e-06,
        7.438442384718625e-08,
    ],
];

/// The sign alone.
const SIGN: f64 = -0.0;
/// From here on the nearest `f32` is 1.
const ERF_IS_ONE: f64 = 3.93;
/// From here on the nearest `f32` is 1.
const TANH_IS_ONE: f64 = 10.0;

/// One number, or several that are computed with at once.
pub trait Floats: Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> {
    /// This number everywhere.
    fn all(value: f64) -> Self;

    /// A product with `factor` and a sum, which some round once, others twice. Where the functions use it, that changes
    /// no result: which of their operations do was chosen by trying every `f32`.
    fn multiply_add(self, factor: Self, summand: Self) -> Self;

    /// `then` where the number is less than `other`, else `otherwise`, also for a NaN.
    fn if_less(self, other: Self, then: Self, otherwise: Self) -> Self;

    /// The smaller number. A NaN stays one.
    fn at_most(self, limit: f64) -> Self;

    /// The larger number. A NaN stays one.
    fn at_least(self, limit: f64) -> Self;

    /// The sum of the bits, as an integer.
    fn add_bits(self, bits: Self) -> Self;

    /// The difference of the bits, as an integer.
    fn subtract_bits(self, bits: Self) -> Self;

    /// The bits that both have.
    fn and(self, bits: Self) -> Self;

    /// The bits that either has.
    fn or(self, bits: Self) -> Self;

    /// The lowest bits as the exponent: moves them by the bits of a mantissa.
    fn bits_to_exponent(self) -> Self;

    /// The exponent, and the sign, as the lowest bits.
    fn exponent_to_bits(self) -> Self;
}

impl Floats for f64 {
    #[inline(always)]
    fn all(value: f64) -> f64 {
        value
    }

    #[inline(always)]
    fn multiply_add(self, factor: f64, summand: f64) -> f64 {
        self * factor + summand
    }

    #[inline(always)]
    fn if_less(self, other: f64, then: f64, otherwise: f64) -> f64 {
        if self < other { then } else { otherwise }
    }

    #[inline(always)]
    fn at_most(self, limit: f64) -> f64 {
        if self > limit { limit } else { self }
    }

    #[inline(always)]
    fn at_least(self, limit: f64) -> f64 {
        if self < limit { limit } else { self }
    }

    #[inline(always)]
    fn add_bits(self, bits: f64) -> f64 {
        f64::from_bits(self.to_bits().wrapping_add(bits.to_bits()))
    }

    #[inline(always)]
    fn subtract_bits(self, bits: f64) -> f64 {
        f64::from_bits(self.to_bits().wrapping_sub(bits.to_bits()))
    }

    #[inline(always)]
    fn and(self, bits: f64) -> f64 {
        f64::from_bits(self.to_bits() & bits.to_bits())
    }

    #[inline(always)]
    fn or(self, bits: f64) -> f64 {
        f64::from_bits(self.to_bits() | bits.to_bits())
    }

    #[inline(always)]
    fn bits_to_exponent(self) -> f64 {
        f64::from_bits(self.to_bits() << MANTISSA_BITS)
    }

    #[inline(always)]
    fn exponent_to_bits(self) -> f64 {
        f64::from_bits(self.to_bits() >> MANTISSA_BITS)
    }
}

/// Two terms of a polynomial, from the coefficient of this number on. A closure would not be compiled for the features
/// of the function that it becomes part of.
#[inline(always)]
fn linear<F: Floats>(c: &[f64], index: usize, x: F) -> F {
    F::all(c[index + 1]).multiply_add(x, F::all(c[index]))
}

/// A polynomial with 8 coefficients, lowest first, in Estrin's scheme, which has the shortest dependency chain.
#[inline(always)]
fn polynomial<F: Floats>(c: &[f64; 8], x: F) -> F {
    let x2 = x * x;
    let low = linear(c, 2, x).multiply_add(x2, linear(c, 0, x));
    let high = linear(c, 6, x).multiply_add(x2, linear(c, 4, x));
    high.multiply_add(x2 * x2, low)
}

/// Range reduction: exp(x) is a power of two times 1 + r * quotient. Gives what has to be added to the bits of a number
/// to multiply it with that power, the nearest one, and r and the quotient. |x| is below 700.
#[inline(always)]
fn split_exp<F: Floats>(x: F) -> (F, F, F) {
    let shifted = x.multiply_add(F::all(LOG2_E), F::all(ROUND));
    let r = (shifted - F::all(ROUND)).multiply_add(F::all(-SHORT_LN_2), x);
    (shifted.bits_to_exponent(), r, polynomial(&EXP_M1, r))
}

/// See [`super::exp`].
#[inline(always)]
pub fn exp<F: Floats>(x: F) -> F {
    // Beyond these the result is infinite or zero. The bits that are added to a NaN are zeros.
    let (power, r, quotient) = split_exp(x.at_most(90.0).at_least(-110.0));
    r.multiply_add(quotient, F::all(1.0)).add_bits(power)
}

/// See [`super::log`].
#[inline(always)]
pub fn log<F: Floats>(x: F) -> F {
    const EXPONENT: f64 = f64::from_bits(u64::MAX << MANTISSA_BITS);
    const SQRT_HALF: f64 = std::f64::consts::FRAC_1_SQRT_2;
    const ONE_OVER_SQRT_HALF: f64 = f64::from_bits(1f64.to_bits() - SQRT_HALF.to_bits());
    // x is a power of two, times what lies between the square roots of 1/2 and 2. Every x above 0 is a normal f64. The
    // result for other values is replaced at the end.
    let shifted = x.add_bits(F::all(ONE_OVER_SQRT_HALF));
    let exponent = shifted.exponent_to_bits().or(F::all(INTEGER)) - F::all(INTEGER + EXPONENT_BIAS);
    let f = x.subtract_bits(shifted.and(F::all(EXPONENT))).add_bits(F::all(1.0)) - F::all(1.0);

    let c = &LOG_1P;
    let f2 = f * f;
    let f4 = f2 * f2;
    let first = linear(c, 2, f).multiply_add(f2, linear(c, 0, f));
    let second = linear(c, 6, f).multiply_add(f2, linear(c, 4, f));
    let third = linear(c, 10, f).multiply_add(f2, linear(c, 8, f));
    let low = second.multiply_add(f4, first);
    let high = linear(c, 12, f).multiply_add(f4, third);
    let quotient = high.multiply_add(f4 * f4, low);
    let result = f.multiply_add(quotient, exponent * F::all(LN_2));

    // Infinity is its own logarithm, that of zero is negative infinity, and a NaN is none of these.
    let (zero, infinity) = (F::all(0.0), F::all(f64::INFINITY));
    let result = x.if_less(infinity, result, x);
    zero.if_less(x, result, x.if_less(zero, F::all(f64::NAN), x - infinity))
}

/// See [`super::tanh`].
#[inline(always)]
pub fn tanh<F: Floats>(x: F) -> F {
    let a = without_sign(x).at_most(TANH_IS_ONE);
    let (power, r, quotient) = split_exp(a + a);
    let power = F::all(1.0).add_bits(power);
    // exp(2a) - 1, without cancellation: where a is small the power is 1.
    let exp_m1 = power.multiply_add(r * quotient, power - F::all(1.0));
    with_sign_of(exp_m1 / (exp_m1 + F::all(2.0)), x)
}

/// See [`super::erf`].
#[inline(always)]
pub fn erf<F: Floats>(x: F) -> F {
    let a = without_sign(x).at_most(ERF_IS_ONE);
    let square = a * a;
    let quotient = polynomial(&ERF[0], square) / polynomial(&ERF[1], square);
    with_sign_of(a * quotient, x)
}

/// The absolute value.
#[inline(always)]
fn without_sign<F: Floats>(x: F) -> F {
    x.and(F::all(f64::from_bits(!SIGN.to_bits())))
}

/// A number without a sign, with that of another one.
#[inline(always)]
fn with_sign_of<F: Floats>(x: F, sign: F) -> F {
    x.or(sign.and(F::all(SIGN)))
}

// Approximations of functions that are correctly rounded. They are within `DOUBT` of the true value, relative to it, or
// not a number where they are not known to be. Coefficients are those of the power series.

/// More than the relative error of each of the functions below: of the terms that are left out, which is below 2^-44,
/// and of roundings, which are a few of 2^-53.
pub const DOUBT: f64 = 1.0 / (1u64 << 42) as f64;

/// `sin(r) / r` in powers of r^2.
const SINE: [f64; 8] = [
    1.0,
    -1.0 / 6.0,
    1.0 / 120.0,
    -1.0 / 5040.0,
    1.0 / 362_880.0,
    -1.0 / 39_916_800.0,
    1.0 / 6_227_020_800.0,
    -1.0 / 1_307_674_368_000.0,
];

/// `cos(r)` in powers of r^2.
const COSINE: [f64; 8] = [
    1.0,
    -1.0 / 2.0,
    1.0 / 24.0,
    -1.0 / 720.0,
    1.0 / 40_320.0,
    -1.0 / 3_628_800.0,
    1.0 / 479_001_600.0,
    -1.0 / 87_178_291_200.0,
];

/// `(exp(r) - 1) / r`: the first terms, and the others divided by r^8.
const POWER: [f64; 8] = [1.0, 1.0 / 2.0, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5040.0, 1.0 / 40_320.0];
const POWER_REST: [f64; 4] = [1.0 / 362_880.0, 1.0 / 3_628_800.0, 1.0 / 39_916_800.0, 1.0 / 479_001_600.0];

/// `atanh(s) / s` in powers of s^2.
const AREA_TANGENT: [f64; 8] = [1.0, 1.0 / 3.0, 1.0 / 5.0, 1.0 / 7.0, 1.0 / 9.0, 1.0 / 11.0, 1.0 / 13.0, 1.0 / 15.0];

/// Half of pi in three parts, of which the first two have 33 bits.
const HALF_PI: [f64; 3] = [
    f64::from_bits(0x3FF9_21FB_5440_0000),
    f64::from_bits(0x3DD0_B461_1A60_0000),
    f64::from_bits(0x3BA3_198A_2E03_7073),
];
/// Below this an angle is so few quarters of a circle that products with parts of half of pi are exact.
const MOST_ANGLE: f64 = 1e6;
/// The functions that are about x near zero have the value x below this.
const TINY: f64 = 1e-30;

/// The sine of an angle, `quarters` of a circle further.
#[inline(always)]
fn circular<F: Floats>(x: F, quarters: f64) -> F {
    let shifted = x.multiply_add(F::all(std::f64::consts::FRAC_2_PI), F::all(ROUND));
    let multiple = shifted - F::all(ROUND);
    let r = multiple.multiply_add(F::all(-HALF_PI[0]), x);
    let r = multiple.multiply_add(F::all(-HALF_PI[1]), r);
    let r = multiple.multiply_add(F::all(-HALF_PI[2]), r);
    let square = r * r;
    let (sine, cosine) = (r * polynomial(&SINE, square), polynomial(&COSINE, square));
    let quarters = shifted + F::all(quarters);
    let is_odd = low_bit(quarters, 1);
    let sign = F::all(1.0) - low_bit(quarters, 2);
    let result = sign * is_odd.if_less(F::all(1.0), sine, cosine);
    without_sign(x).if_less(F::all(MOST_ANGLE), result, F::all(f64::NAN))
}

/// A bit of the integer in the low bits, as a number: 0, or `bit`.
#[inline(always)]
fn low_bit<F: Floats>(x: F, bit: u64) -> F {
    x.and(F::all(f64::from_bits(bit))).or(F::all(INTEGER)) - F::all(INTEGER)
}

/// A result, but x itself where that is so near to zero that the nearest float is x.
#[inline(always)]
fn unless_tiny<F: Floats>(x: F, result: F) -> F {
    without_sign(x).if_less(F::all(TINY), x, result)
}

/// The sine, where an angle is below a million.
#[inline(always)]
pub fn sin<F: Floats>(x: F) -> F {
    unless_tiny(x, circular(x, 0.0))
}

/// The cosine, where an angle is below a million.
#[inline(always)]
pub fn cos<F: Floats>(x: F) -> F {
    circular(x, 1.0)
}

/// exp(r) - 1 for |r| up to half of ln 2.
#[inline(always)]
fn small_power<F: Floats>(r: F) -> F {
    let r2 = r * r;
    let r4 = r2 * r2;
    let rest = linear(&POWER_REST, 2, r).multiply_add(r2, linear(&POWER_REST, 0, r));
    r * rest.multiply_add(r4 * r4, polynomial(&POWER, r))
}

/// 2 to the power of x.
#[inline(always)]
pub fn exp2<F: Floats>(x: F) -> F {
    // Beyond these the result is infinite or zero.
    let x = x.at_most(140.0).at_least(-160.0);
    let shifted = x + F::all(ROUND);
    let r = (x - (shifted - F::all(ROUND))) * F::all(LN_2);
    (small_power(r) + F::all(1.0)).add_bits(shifted.bits_to_exponent())
}

/// e to the power of x, less 1.
#[inline(always)]
pub fn expm1<F: Floats>(x: F) -> F {
    // Beyond these the result is infinite or -1.
    let bounded = x.at_most(90.0).at_least(-60.0);
    let shifted = bounded.multiply_add(F::all(LOG2_E), F::all(ROUND));
    let multiple = shifted - F::all(ROUND);
    let r = multiple.multiply_add(F::all(-SHORT_LN_2), bounded);
    let r = multiple.multiply_add(F::all(-(LN_2 - SHORT_LN_2)), r);
    let power = F::all(1.0).add_bits(shifted.bits_to_exponent());
    unless_tiny(x, power.multiply_add(small_power(r), power - F::all(1.0)))
}

/// The exponent of a positive number, and the rest, which lies between the square roots of 1/2 and 2, less 1.
#[inline(always)]
fn split_log<F: Floats>(x: F) -> (F, F) {
    const EXPONENT: f64 = f64::from_bits(u64::MAX << MANTISSA_BITS);
    const ONE_OVER_SQRT_HALF: f64 = f64::from_bits(1f64.to_bits() - std::f64::consts::FRAC_1_SQRT_2.to_bits());
    let shifted = x.add_bits(F::all(ONE_OVER_SQRT_HALF));
    let exponent = shifted.exponent_to_bits().or(F::all(INTEGER)) - F::all(INTEGER + EXPONENT_BIAS);
    let f = x.subtract_bits(shifted.and(F::all(EXPONENT))).add_bits(F::all(1.0)) - F::all(1.0);
    (exponent, f)
}

/// log(1 + f), where that lies between half of ln 2 and its negation.
#[inline(always)]
fn small_log<F: Floats>(f: F) -> F {
    let s = f / (f + F::all(2.0));
    (s + s) * polynomial(&AREA_TANGENT, s * s)
}

/// A logarithm at the ends of its range: `x`, where `result` is for positive finite ones.
#[inline(always)]
fn with_ends<F: Floats>(x: F, result: F) -> F {
    let (zero, infinity) = (F::all(0.0), F::all(f64::INFINITY));
    let result = x.if_less(infinity, result, x);
    zero.if_less(x, result, x.if_less(zero, F::all(f64::NAN), x - infinity))
}

/// The logarithm to base 2.
#[inline(always)]
pub fn log2<F: Floats>(x: F) -> F {
    let (exponent, f) = split_log(x);
    with_ends(x, small_log(f).multiply_add(F::all(LOG2_E), exponent))
}

/// The natural logarithm of a number and 1.
#[inline(always)]
pub fn log1p<F: Floats>(x: F) -> F {
    let sum = x + F::all(1.0);
    let (exponent, f) = split_log(sum);
    // The sum may have been rounded.
    let f = without_sign(exponent).if_less(F::all(0.5), x, f);
    let result = exponent.multiply_add(F::all(LN_2), small_log(f));
    unless_tiny(x, with_ends(sum, result))
}
