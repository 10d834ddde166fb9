//! The steps of an exact division: scale, multiply and add, fix special cases.

use super::float::{Float, frexp_exponent, ldexp};

#[inline(always)]
fn exponent(value: f32) -> i32 {
    (value.to_bits() >> 23 & 0xFF) as i32
}

#[inline(always)]
fn is_subnormal(value: f32) -> bool {
    (value != 0.0) & (exponent(value) == 0)
}

/// What a division of `numerator` by `denominator` scales: whether that must be undone, and by which power of two each is scaled.
///
/// All conditions are computed, the most important one last, so that lanes need no branches.
#[inline(always)]
fn scaling(numerator: f32, denominator: f32) -> (bool, i32, i32) {
    let small_quotient = is_subnormal((f64::from(numerator) / f64::from(denominator)) as f32);
    let small_reciprocal = is_subnormal(1.0 / denominator);
    let both = if exponent(numerator) <= 23 { 64 } else { 0 };
    let mut scaling = (false, both, both);
    scaling = if small_quotient { (true, 64, 0) } else { scaling };
    scaling = if small_reciprocal { (false, -64, -64) } else { scaling };
    scaling = if small_reciprocal & small_quotient { (true, 0, -64) } else { scaling };
    scaling = if is_subnormal(denominator) { (false, 64, 64) } else { scaling };
    // The quotient is near overflow: only the denominator is scaled.
    scaling = if exponent(numerator) - exponent(denominator) >= 96 { (true, 0, 64) } else { scaling };
    if (numerator == 0.0) | (denominator == 0.0) { (false, 0, 0) } else { scaling }
}

/// The first source is the denominator or the numerator, whichever is scaled.
#[inline(always)]
pub(crate) fn div_scale(value: f32, denominator: f32, numerator: f32) -> f32 {
    let (_, for_numerator, for_denominator) = scaling(numerator, denominator);
    let is_denominator = value.to_bits() == denominator.to_bits();
    let scaled = ldexp(value, if is_denominator { for_denominator } else { for_numerator } as u32);
    if (numerator == 0.0) | (denominator == 0.0) { f32::NAN } else { scaled }
}

#[inline(always)]
pub(crate) fn div_scale_needed(_value: f32, denominator: f32, numerator: f32) -> bool {
    scaling(numerator, denominator).0
}

/// The product and sum; if the quotient was scaled, times 2^64 or 2^-64, whichever undoes it.
#[inline(always)]
pub(crate) fn div_fmas(a: f32, b: f32, c: f32, scaled: bool) -> f32 {
    let value = a.mul_add(b, c);
    let undone = ldexp(value, if exponent(c) > 127 { 64 } else { -64i32 as u32 });
    if scaled { undone } else { value }
}

/// The quotient, unless a source is special. The most important case is the last one, as above.
#[inline(always)]
pub(crate) fn div_fixup<F: Float>(quotient: F, denominator: F, numerator: F) -> F {
    let (wide, below) = (numerator.wide(), denominator.wide());
    let sign = if numerator.is_negative() == denominator.is_negative() { 1.0 } else { -1.0 };
    let difference = frexp_exponent(numerator).wrapping_sub(frexp_exponent(denominator)) as i32;
    let (infinite, zero) = (wide.is_infinite(), wide == 0.0);
    let (infinite_below, zero_below) = (below.is_infinite(), below == 0.0);
    let mut result = sign * quotient.wide().abs();
    result = if infinite_below | zero | (difference < -150) { sign * 0.0 } else { result };
    // Beyond this difference even the scaled quotient may be infinite, and the steps after it not a number.
    let beyond = (difference > 150) & !infinite_below & !zero;
    result = if zero_below | infinite | beyond { sign * f64::INFINITY } else { result };
    result = if (zero & zero_below) | (infinite & infinite_below) { f64::NAN } else { result };
    let result = F::narrow(result);
    let result = if denominator.is_nan() { denominator.quiet() } else { result };
    if numerator.is_nan() { numerator.quiet() } else { result }
}
