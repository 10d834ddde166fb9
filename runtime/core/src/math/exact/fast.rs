//! The fast path of exponentials and logarithms: double-double arithmetic with an error bound. `exact` calls it first,
//! because it decides the rounding nearly always and takes much less time than integers do.
//!
//! Results do not depend on the method as long as the error is within the bound: where the bound does not decide which
//! float is nearest, these functions return none.

use std::f64::consts::{FRAC_1_SQRT_2, LN_2, LOG2_E};

use super::tables::{FAST_EXP2, FAST_LN_2, FAST_LN_2_OVER_256, FAST_LOG, FAST_LOG2_E, FAST_LOG10_E, FIRST_FAST_LOG};

const MANTISSA_BITS: u32 = 52;
/// Adding it to a small number rounds that to an integer, which is then in the low bits.
const ROUND: f64 = (3u64 << (MANTISSA_BITS - 1)) as f64;

/// The float nearest to every number that is within `error` of `high + low`, if there is one.
#[inline(always)]
fn nearest(high: f64, low: f64, error: f64) -> Option<f64> {
    let (least, most) = (high + (low - error), high + (low + error));
    (least == most).then_some(least)
}

/// For |x| up to 700, where neither the result nor what it is computed from is subnormal.
#[inline]
pub fn exp(x: f64) -> Option<f64> {
    if !(-700.0..=700.0).contains(&x) {
        return None;
    }
    let shifted = x * (256.0 * LOG2_E) + ROUND;
    let multiple = shifted - ROUND;
    // The size of r is up to ln(2) / 512 and a little more. The first product is exact, since `multiple` has 18 bits
    // and the constant 35, and so is the difference.
    let r = x - multiple * FAST_LN_2_OVER_256[0];
    let r_low = multiple * -FAST_LN_2_OVER_256[1];
    power_and(shifted, r, r_low)
}

/// For |x| up to 1000, where neither the result nor what it is computed from is subnormal.
#[inline]
pub fn exp2(x: f64) -> Option<f64> {
    if !(-1000.0..=1000.0).contains(&x) {
        return None;
    }
    let shifted = x * 256.0 + ROUND;
    let r = x - (shifted - ROUND) * (1.0 / 256.0);
    power_and(shifted, r * LN_2, 0.0)
}

/// e to the power of x, less one, for x from -37 to 700 and of a magnitude from 2^-40 on.
#[inline]
pub fn expm1(x: f64) -> Option<f64> {
    let size = x.abs();
    if !(-37.0..=700.0).contains(&x) || size < 1.0 / (1u64 << 40) as f64 {
        return None;
    }
    if size <= 0.25 {
        return expm1_near_zero(x);
    }
    let shifted = x * (256.0 * LOG2_E) + ROUND;
    let multiple = shifted - ROUND;
    // As for `exp`.
    let (power, low) = mantissa(shifted, x - multiple * FAST_LN_2_OVER_256[0], multiple * -FAST_LN_2_OVER_256[1]);
    let scale = f64::from_bits(1.0_f64.to_bits().wrapping_add(exponent(shifted)));
    // The power of two, from 2^-54 to 2^1010, makes no product subnormal, so they are exact. So is the sum of `high`
    // and `lost`.
    let power = power * scale;
    let high = power - 1.0;
    let one = high - power;
    let lost = (power - (high - one)) - (1.0 + one);
    // One more sum than `power_and` has, and room for another one.
    nearest(high, lost + low * scale, (EXP_ERROR + 0.75 / (1u64 << 60) as f64) * scale)
}

/// exp(x) - 1 for |x| up to 1/4.
#[inline(always)]
fn expm1_near_zero(x: f64) -> Option<f64> {
    let upper = f64::from_bits(x.to_bits() & (u64::MAX << 27));
    // x^2 / 2 is the sum of these, and the first is exact.
    let half = 0.5 * upper * upper;
    let half_low = 0.5 * (x - upper) * (x + upper);
    let high = x + half;
    let low = (x - high) + half;
    // exp(x) - 1 - x - x^2 / 2, without x^15 / 15! and later terms, which are below 2^-68 of the result.
    let x2 = x * x;
    let x3 = x2 * x;
    let x4 = x2 * x2;
    let terms = |first: usize| {
        let [a, b, c, d] = std::array::from_fn(|term| FACTORIALS[first + term]);
        (a + x * b) + x2 * (c + x * d)
    };
    let rest = x3 * (terms(0) + x4 * (terms(4) + x4 * terms(8)));
    // Eight products and sums are off by 2^-53 of the rest each, which is less than 0.18 x^3; what comes before it is
    // off by less than 2^-64 of the result.
    nearest(high, low + (rest + half_low), x3.abs() * f64::EPSILON + high.abs() * (1.0 / (1u64 << 63) as f64))
}

/// 1 / n! for n from 3.
const FACTORIALS: [f64; 12] = {
    let (mut all, mut factorial, mut at) = ([0.0; 12], 2.0, 0);
    while at < all.len() {
        // Exact: 14! has 37 bits.
        factorial *= (at + 3) as f64;
        all[at] = 1.0 / factorial;
        at += 1;
    }
    all
};

/// The power of two by the integer in `shifted` divided by 256, times exp(r + r_low).
#[inline(always)]
fn power_and(shifted: f64, r: f64, r_low: f64) -> Option<f64> {
    let (power, low) = mantissa(shifted, r, r_low);
    let mantissa = nearest(power, low, EXP_ERROR)?;
    Some(f64::from_bits(mantissa.to_bits().wrapping_add(exponent(shifted))))
}

/// The error of [`mantissa`], with that of sums with it.
const EXP_ERROR: f64 = 1.5 / (1u64 << 60) as f64;

/// The power of two by the fraction of the integer in `shifted` divided by 256, times exp(r + r_low), as two floats.
#[inline(always)]
fn mantissa(shifted: f64, r: f64, r_low: f64) -> (f64, f64) {
    // exp(t) - 1 - t, without t^7 / 5040 and later terms, which are below 2^-78.
    let t = r + r_low;
    let t2 = t * t;
    let rest = t2 * ((0.5 + t * (1.0 / 6.0)) + t2 * ((1.0 / 24.0 + t * (1.0 / 120.0)) + t2 * (1.0 / 720.0)));
    let rest = r + (rest + r_low);
    let [power, power_low] = FAST_EXP2[(shifted.to_bits() & 0xFF) as usize];
    // The errors of r, of the sum with it (both times a power below 2), of the product, of the sum of `low` and of that
    // with the error are 2^-62 each at most; all else is below 2^-66.
    (power, power_low + power * rest)
}

/// The whole part of the integer in `shifted` divided by 256, as it is added to the bits of a float.
#[inline(always)]
fn exponent(shifted: f64) -> u64 {
    ((shifted.to_bits() as i64) << (MANTISSA_BITS - 8) >> MANTISSA_BITS << MANTISSA_BITS) as u64
}

/// For x above 0 that is not subnormal.
#[inline]
pub fn log(x: f64) -> Option<f64> {
    let Parts { high, low, error } = log_parts(x)?;
    nearest(high, low, error)
}

/// As [`log`], to base 2.
#[inline]
pub fn log2(x: f64) -> Option<f64> {
    log_parts(x)?.times(FAST_LOG2_E)
}

/// As [`log`], to base 10.
#[inline]
pub fn log10(x: f64) -> Option<f64> {
    log_parts(x)?.times(FAST_LOG10_E)
}

/// The logarithm of 1 + x, for x above -1 of a magnitude from 2^-40 on.
#[inline]
pub fn log1p(x: f64) -> Option<f64> {
    if x.abs() < 1.0 / (1u64 << 8) as f64 {
        let Parts { high, low, error } = log_near_one(x)?;
        return nearest(high, low, error);
    }
    // The sum of `sum` and `lost` is 1 + x.
    let sum = 1.0 + x;
    let one = sum - x;
    let lost = (x - (sum - one)) + (1.0 - one);
    let Parts { high, low, error } = log_parts(sum)?;
    // The logarithm of 1 + t is t, without t^2 / 2, which is below 2^-107, where the result is above 2^-9. The sum with
    // it is off as the others are.
    nearest(high, low + lost / sum, error + error * 0.25)
}

/// A number that is at most `error` away from `high + low`.
struct Parts {
    high: f64,
    low: f64,
    error: f64,
}

impl Parts {
    /// The float nearest to the product with a constant from 2^-2 to 2, whose first part has 26 bits.
    #[inline(always)]
    fn times(&self, [constant, constant_low]: [f64; 2]) -> Option<f64> {
        let sum = self.high + self.low;
        let rest = self.low - (sum - self.high);
        let upper = f64::from_bits(sum.to_bits() & (u64::MAX << 27));
        // Both products are exact, since they have 53 bits at most.
        let (first, second) = (upper * constant, (sum - upper) * constant);
        let high = first + second;
        let low = second - (high - first);
        let low = low + (sum * constant_low + rest * constant);
        // The last products and sums are below 2^-24 of the result, and off by 2^-53 of that each.
        nearest(high, low, 2.0 * self.error + high.abs() * (1.0 / (1u64 << 63) as f64 / (1u64 << 11) as f64))
    }
}

#[inline(always)]
fn log_parts(x: f64) -> Option<Parts> {
    const LEAST: u64 = f64::MIN_POSITIVE.to_bits();
    if x.to_bits().wrapping_sub(LEAST) >= f64::INFINITY.to_bits() - LEAST {
        return None;
    }
    // x is a power of two, times m, which lies between the square roots of 1/2 and 2.
    let shifted = x.to_bits().wrapping_sub(FRAC_1_SQRT_2.to_bits());
    let exponent = (shifted as i64 >> MANTISSA_BITS) as f64;
    let m = f64::from_bits(x.to_bits().wrapping_sub(shifted & (u64::MAX << MANTISSA_BITS)));
    let divisor = (128.0 / m + ROUND).to_bits() & 0xFF;
    if divisor == 128 && exponent == 0.0 {
        return log_near_one(m - 1.0);
    }
    // m * divisor / 128 is 1 + f + f_low, all of it exact: the upper part of m has 26 bits, the lower one 27, the
    // divisor 8.
    let scale = divisor as f64 * (1.0 / 128.0);
    let upper = f64::from_bits(m.to_bits() & (u64::MAX << 27));
    let f_high = upper * scale - 1.0;
    let f_low = (m - upper) * scale;
    let f = f_high + f_low;
    // log(1 + f) - f for |f| up to 2^-7.5, without f^9 / 9 and later terms, which are below 2^-70.6.
    let f2 = f * f;
    let f4 = f2 * f2;
    let low_terms = (-1.0 / 2.0 + f * (1.0 / 3.0)) + f2 * (-1.0 / 4.0 + f * (1.0 / 5.0));
    let high_terms = (-1.0 / 6.0 + f * (1.0 / 7.0)) + f2 * (-1.0 / 8.0);
    let rest = f2 * (low_terms + f4 * high_terms);
    // Multiples of 2^-42 below 2^10: their sum is exact.
    let [of_divisor, of_divisor_low] = FAST_LOG[divisor as usize - FIRST_FAST_LOG];
    let base = exponent * FAST_LN_2[0] - of_divisor;
    let high = base + f_high;
    let low = f_high - (high - base);
    let low = low + ((exponent * FAST_LN_2[1] - of_divisor_low) + (f_low + rest));
    // `rest` is below 2^-16. It and the sums with it are off by 7 times 2^-69 at most, of the 16 that this allows.
    Some(Parts { high, low, error: 0.25 / (1u64 << 63) as f64 })
}

/// log(1 + f) for |f| up to 2^-7.9.
#[inline]
fn log_near_one(f: f64) -> Option<Parts> {
    if f.abs() < 1.0 / (1u64 << 40) as f64 {
        return None;
    }
    let f_high = f64::from_bits(f.to_bits() & (u64::MAX << 27));
    let f_low = f - f_high;
    // f^2 / 2 is the sum of these, and the first is exact.
    let half = 0.5 * f_high * f_high;
    let half_low = 0.5 * f_low * (f + f_high);
    let high = f - half;
    let low = (f - high) - half;
    let f2 = f * f;
    let f4 = f2 * f2;
    let low_terms = (1.0 / 3.0 - f * (1.0 / 4.0)) + f2 * (1.0 / 5.0 - f * (1.0 / 6.0));
    let high_terms = (1.0 / 7.0 - f * (1.0 / 8.0)) + f2 * (1.0 / 9.0 - f * (1.0 / 10.0));
    let low = low + (f2 * f * (low_terms + f4 * high_terms) - half_low);
    // The cube is below 2^-15.8 of the result, and off by 2^-65 of that with the sums.
    Some(Parts { high, low, error: high.abs() * (1.0 / (1u64 << 63) as f64) })
}
