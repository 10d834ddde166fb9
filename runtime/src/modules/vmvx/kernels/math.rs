//! Functions of elements that compilers turn into vector code: no branches, no calls.
//!
//! Both compute in `f64`, to about 2^-50 of the result, and round once. They differ from the correctly rounded value only where the true
//! value is that close to the middle between two `f32` values.

use std::f64::consts::{LN_2, LOG2_E, SQRT_2};

/// Coefficients of the exponential function: 1/12! down to 1/0!.
const EXP: [f64; 13] = [
    1.0 / 479_001_600.0,
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    1.0 / 2.0,
    1.0,
    1.0,
];

/// The high part of ln 2: products with integers below 2^20 are exact.
const LN_2_HIGH: f64 = f64::from_bits(0x3FE6_2E42_FEE0_0000);
/// The rest of it.
const LN_2_LOW: f64 = f64::from_bits(0x3DEA_39EF_3579_3C76);

/// Bits of the mantissa of an `f64`.
const MANTISSA_BITS: u32 = 52;
const MANTISSA: u64 = (1 << MANTISSA_BITS) - 1;

/// e to the power of x.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    /// Adding it rounds to an integer, which is then in the low bits.
    const ROUND: f64 = (3u64 << (MANTISSA_BITS - 1)) as f64;
    // Beyond these the result is zero or infinite. A NaN stays one.
    let x = f64::from(x);
    let x = if x > 100.0 { 100.0 } else { x };
    let x = if x < -150.0 { -150.0 } else { x };
    let shifted = x * LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    let mut sum = EXP[0];
    for coefficient in &EXP[1..] {
        sum = sum * r + coefficient;
    }
    let scale = f64::from_bits((shifted.to_bits() << MANTISSA_BITS).wrapping_add(1f64.to_bits()));
    (sum * scale) as f32
}

/// The natural logarithm.
#[inline(always)]
pub(super) fn log(x: f32) -> f32 {
    let wide = f64::from(x);
    // The mantissa in 1..2 and the exponent. What comes of zero, negative numbers, infinity and NaN is replaced in the end.
    let bits = wide.to_bits();
    let mantissa = f64::from_bits(bits & MANTISSA | 1f64.to_bits());
    let exponent = (bits >> MANTISSA_BITS) as i32 - 1023;
    let high = mantissa > SQRT_2;
    let mantissa = if high { mantissa * 0.5 } else { mantissa };
    let exponent = f64::from(if high { exponent + 1 } else { exponent });
    // ln m is twice the area tangent of s.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let mut sum = 1.0 / 21.0;
    let mut denominator = 19.0;
    while denominator > 0.0 {
        sum = sum * square + 1.0 / denominator;
        denominator -= 2.0;
    }
    let result = (exponent * LN_2 + 2.0 * s * sum) as f32;
    let result = if x == f32::INFINITY { x } else { result };
    let result = if x == 0.0 { f32::NEG_INFINITY } else { result };
    if x >= 0.0 { result } else { f32::NAN }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of all magnitudes and both signs.
    fn samples() -> impl Iterator<Item = f32> {
        (0..=u32::MAX).step_by(9973).map(f32::from_bits)
    }

    fn distance(a: f32, b: f32) -> u32 {
        if a.is_nan() && b.is_nan() {
            return 0;
        }
        a.to_bits().abs_diff(b.to_bits())
    }

    #[test]
    fn results_are_those_of_a_wider_function_rounded() {
        let mut off = [0, 0];
        for x in samples() {
            let (e, l) = (libm::exp(f64::from(x)) as f32, libm::log(f64::from(x)) as f32);
            assert!(distance(exp(x), e) <= 1, "exp({x:e}): {:e} and {e:e}", exp(x));
            assert!(distance(log(x), l) <= 1, "log({x:e}): {:e} and {l:e}", log(x));
            off[0] += distance(exp(x), e);
            off[1] += distance(log(x), l);
        }
        assert!(off.iter().all(|off| *off < 4), "{off:?}");
    }

    #[test]
    fn special_values() {
        assert_eq!((exp(f32::NEG_INFINITY), exp(f32::INFINITY), exp(0.0)), (0.0, f32::INFINITY, 1.0));
        assert_eq!((log(0.0), log(-0.0), log(1.0)), (f32::NEG_INFINITY, f32::NEG_INFINITY, 0.0));
        assert_eq!(log(f32::INFINITY), f32::INFINITY);
        assert!(exp(f32::NAN).is_nan() && log(f32::NAN).is_nan() && log(-1.0).is_nan());
        assert_eq!(exp(-104.0), 0.0);
        assert_eq!(exp(-103.0), f32::from_bits(1));
    }
}
