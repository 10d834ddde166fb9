//! The steps of an exact division: scale, multiply and add, fix special cases.

use super::float::{Float, frexp_exponent, ldexp};

fn exponent(value: f32) -> i32 {
    (value.to_bits() >> 23 & 0xFF) as i32
}

fn is_subnormal(value: f32) -> bool {
    value != 0.0 && exponent(value) == 0
}

/// What a division of `numerator` by `denominator` scales: whether that must be undone, and by which power of two each is scaled.
fn scaling(numerator: f32, denominator: f32) -> (bool, i32, i32) {
    if numerator == 0.0 || denominator == 0.0 {
        return (false, 0, 0);
    }
    let difference = exponent(numerator) - exponent(denominator);
    if difference >= 96 {
        // The quotient is near overflow: only the denominator is scaled.
        (true, 0, 64)
    } else if is_subnormal(denominator) {
        (false, 64, 64)
    } else if is_subnormal(denominator.reciprocal())
        && is_subnormal((f64::from(numerator) / f64::from(denominator)) as f32)
    {
        (true, 0, -64)
    } else if is_subnormal(denominator.reciprocal()) {
        (false, -64, -64)
    } else if is_subnormal((f64::from(numerator) / f64::from(denominator)) as f32) {
        (true, 64, 0)
    } else if exponent(numerator) <= 23 {
        (false, 64, 64)
    } else {
        (false, 0, 0)
    }
}

/// The first source is the denominator or the numerator, whichever is scaled.
pub(crate) fn div_scale(value: f32, denominator: f32, numerator: f32) -> f32 {
    if numerator == 0.0 || denominator == 0.0 {
        return f32::NAN;
    }
    let (_, for_numerator, for_denominator) = scaling(numerator, denominator);
    let is_denominator = value.to_bits() == denominator.to_bits();
    ldexp(value, if is_denominator { for_denominator } else { for_numerator } as u32)
}

pub(crate) fn div_scale_needed(_value: f32, denominator: f32, numerator: f32) -> bool {
    scaling(numerator, denominator).0
}

/// The product and sum; if the quotient was scaled, times 2^64 or 2^-64, whichever undoes it.
pub(crate) fn div_fmas(a: f32, b: f32, c: f32, scaled: bool) -> f32 {
    let value = a.mul_add(b, c);
    if !scaled {
        return value;
    }
    ldexp(value, if exponent(c) > 127 { 64 } else { -64i32 as u32 })
}

pub(crate) fn div_fixup<F: Float>(quotient: F, denominator: F, numerator: F) -> F {
    let (wide, below) = (numerator.wide(), denominator.wide());
    let sign = if numerator.is_negative() == denominator.is_negative() { 1.0 } else { -1.0 };
    let difference = frexp_exponent(numerator).wrapping_sub(frexp_exponent(denominator)) as i32;
    if numerator.is_nan() {
        numerator.quiet()
    } else if denominator.is_nan() {
        denominator.quiet()
    } else if wide == 0.0 && below == 0.0 || wide.is_infinite() && below.is_infinite() {
        F::narrow(f64::NAN)
    } else if below == 0.0 || wide.is_infinite() || difference > 150 && !below.is_infinite() && wide != 0.0 {
        // Beyond this difference even the scaled quotient may be infinite, and the steps after it not a number.
        F::narrow(sign * f64::INFINITY)
    } else if below.is_infinite() || wide == 0.0 || difference < -150 {
        F::narrow(sign * 0.0)
    } else {
        F::narrow(sign * quotient.wide().abs())
    }
}
