//! The steps of an exact division: scale, multiply and add, fix special cases.

use super::float::{Float, ldexp};

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

pub(crate) fn div_fixup(quotient: f32, denominator: f32, numerator: f32) -> f32 {
    let negative = denominator.is_sign_negative() != numerator.is_sign_negative();
    let signed = |magnitude: f32| if negative { -magnitude } else { magnitude };
    if numerator.is_nan() {
        numerator.quiet()
    } else if denominator.is_nan() {
        denominator.quiet()
    } else if numerator == 0.0 && denominator == 0.0 || numerator.is_infinite() && denominator.is_infinite() {
        f32::NAN
    } else if denominator == 0.0 || numerator.is_infinite() {
        signed(f32::INFINITY)
    } else if denominator.is_infinite() || numerator == 0.0 {
        signed(0.0)
    } else if exponent(numerator) - exponent(denominator) < -150 {
        signed(0.0)
    } else if exponent(denominator) == 255 {
        signed(f32::INFINITY)
    } else {
        signed(quotient.abs())
    }
}
