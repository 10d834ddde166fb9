//! The functions on one value, without branches and calls, so that the compiler vectorises a loop over them. [`super::vector`] has such loops.
//!
//! Coefficients are minimax: they have the least maximum of the relative error on the interval that is given with them, rounded to `f64`.

use std::f64::consts::{LN_2, LOG2_E};

/// Bits of the mantissa of an `f64`.
const MANTISSA_BITS: u32 = 52;
const EXPONENT_BIAS: f64 = 1023.0;
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

/// From here on the nearest `f32` is 1.
const ERF_IS_ONE: f64 = 3.93;
/// From here on the nearest `f32` is 1.
const TANH_IS_ONE: f64 = 10.0;

/// A product and a sum, which are rounded once if `FUSED`. Where the functions use it, that changes no result: which of their operations are
/// fused was chosen by trying every `f32`.
#[inline(always)]
fn multiply_add<const FUSED: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// A polynomial with 8 coefficients, lowest first, in Estrin's scheme, which has the shortest dependency chain.
#[inline(always)]
fn polynomial<const FUSED: bool>(c: &[f64; 8], x: f64) -> f64 {
    let linear = |index: usize| multiply_add::<FUSED>(c[index + 1], x, c[index]);
    let x2 = x * x;
    let x4 = x2 * x2;
    let low = multiply_add::<FUSED>(linear(2), x2, linear(0));
    let high = multiply_add::<FUSED>(linear(6), x2, linear(4));
    multiply_add::<FUSED>(high, x4, low)
}

/// Range reduction: exp(x) = power * (1 + rest), with the nearest power of two. |x| is below 700.
#[inline(always)]
fn split_exp<const FUSED: bool>(x: f64) -> (f64, f64) {
    let shifted = multiply_add::<FUSED>(x, LOG2_E, ROUND);
    let r = x - (shifted - ROUND) * LN_2;
    let power = f64::from_bits((shifted.to_bits() << MANTISSA_BITS).wrapping_add(1f64.to_bits()));
    (power, r * polynomial::<FUSED>(&EXP_M1, r))
}

/// See [`super::exp`].
#[inline(always)]
pub fn exp<const FUSED: bool>(x: f32) -> f32 {
    let x = f64::from(x);
    // Beyond these the result is infinite or zero. A NaN stays one.
    let x = if x > 90.0 { 90.0 } else { x };
    let x = if x < -110.0 { -110.0 } else { x };
    let (power, rest) = split_exp::<FUSED>(x);
    ((1.0 + rest) * power) as f32
}

/// See [`super::log`].
#[inline(always)]
pub fn log<const FUSED: bool>(x: f32) -> f32 {
    const EXPONENT: u64 = u64::MAX << MANTISSA_BITS;
    const SQRT_HALF: u64 = std::f64::consts::FRAC_1_SQRT_2.to_bits();
    // x is a power of two, times what lies between the square roots of 1/2 and 2. Every x above 0 is a normal f64. The result
    // for other values is replaced at the end.
    let bits = f64::from(x).to_bits();
    let shifted = bits.wrapping_add(1f64.to_bits() - SQRT_HALF);
    let exponent = f64::from_bits(shifted >> MANTISSA_BITS | INTEGER.to_bits()) - (INTEGER + EXPONENT_BIAS);
    let f = f64::from_bits(bits.wrapping_sub(shifted & EXPONENT).wrapping_add(1f64.to_bits())) - 1.0;

    let c = &LOG_1P;
    let f2 = f * f;
    let f4 = f2 * f2;
    let linear = |index: usize| multiply_add::<FUSED>(c[index + 1], f, c[index]);
    let cubic = |index: usize| multiply_add::<FUSED>(linear(index + 2), f2, linear(index));
    let low = multiply_add::<FUSED>(cubic(4), f4, cubic(0));
    let high = multiply_add::<FUSED>(linear(12), f4, cubic(8));
    let quotient = multiply_add::<FUSED>(high, f4 * f4, low);
    let result = multiply_add::<FUSED>(f, quotient, exponent * LN_2) as f32;

    let result = if x == f32::INFINITY { f32::INFINITY } else { result };
    let other = if x == 0.0 { f32::NEG_INFINITY } else { f32::NAN };
    if x > 0.0 { result } else { other }
}

/// See [`super::tanh`].
#[inline(always)]
pub fn tanh<const FUSED: bool>(x: f32) -> f32 {
    let a = f64::from(x.abs());
    let a = if a > TANH_IS_ONE { TANH_IS_ONE } else { a };
    let (power, rest) = split_exp::<FUSED>(2.0 * a);
    // exp(2a) - 1, without cancellation: where a is small the power is 1.
    let exp_m1 = multiply_add::<FUSED>(power, rest, power - 1.0);
    ((exp_m1 / (exp_m1 + 2.0)) as f32).copysign(x)
}

/// See [`super::erf`].
#[inline(always)]
pub fn erf<const FUSED: bool>(x: f32) -> f32 {
    let a = f64::from(x.abs());
    let a = if a > ERF_IS_ONE { ERF_IS_ONE } else { a };
    let square = a * a;
    let quotient = polynomial::<FUSED>(&ERF[0], square) / polynomial::<FUSED>(&ERF[1], square);
    ((a * quotient) as f32).copysign(x)
}
