//! The steps of an exact division: scale, multiply and add, fix special cases.

use super::float::{Float, ldexp, sum_to_odd};

#[inline(always)]
fn is_subnormal(value: f32) -> bool {
    (value != 0.0) & (value.exponent_field() == 0)
}

/// What a division of `numerator` by `denominator` scales: whether that must be undone, and by which power of two each is scaled.
///
/// All conditions are computed, the most important one last, so that lanes need no branches.
#[inline(always)]
fn scaling(numerator: f32, denominator: f32) -> (bool, i32, i32) {
    let small_quotient = is_subnormal((f64::from(numerator) / f64::from(denominator)) as f32);
    let small_reciprocal = is_subnormal(1.0 / denominator);
    let both = if numerator.exponent_field() <= 23 { 64 } else { 0 };
    let mut scaling = (false, both, both);
    scaling = if small_quotient { (true, 64, 0) } else { scaling };
    scaling = if small_reciprocal { (false, -64, -64) } else { scaling };
    scaling = if small_reciprocal & small_quotient { (true, 0, -64) } else { scaling };
    scaling = if is_subnormal(denominator) { (false, 64, 64) } else { scaling };
    // The quotient is near overflow: only the denominator is scaled.
    let difference = numerator.exponent_field() - denominator.exponent_field();
    scaling = if difference >= 96 { (true, 0, 64) } else { scaling };
    if (numerator == 0.0) | (denominator == 0.0) { (false, 0, 0) } else { scaling }
}

/// The first source is the denominator or the numerator, whichever is scaled; another one is scaled if both are.
#[inline(always)]
pub(crate) fn div_scale(value: f32, denominator: f32, numerator: f32) -> f32 {
    let (_, for_numerator, for_denominator) = scaling(numerator, denominator);
    let for_both = if for_numerator == for_denominator { for_numerator } else { 0 };
    let power = if value == numerator { for_numerator } else { for_both };
    let scaled = ldexp(value, if value == denominator { for_denominator } else { power } as u32);
    if (numerator == 0.0) | (denominator == 0.0) { f32::NAN } else { scaled }
}

#[inline(always)]
pub(crate) fn div_scale_needed(_value: f32, denominator: f32, numerator: f32) -> bool {
    scaling(numerator, denominator).0
}

/// The product and sum; if the quotient was scaled, times 2^64 or 2^-64, whichever undoes it. Rounded once: a subnormal quotient would be wrong if
/// it had been rounded before.
#[inline(always)]
pub(crate) fn div_fmas(a: f32, b: f32, c: f32, scaled: bool) -> f32 {
    let total = sum_to_odd(f64::from(a) * f64::from(b), f64::from(c));
    let undo = if c.exponent_field() > 127 { 18_446_744_073_709_551_616.0 } else { 1.0 / 18_446_744_073_709_551_616.0 };
    (total * if scaled { undo } else { 1.0 }) as f32
}

/// The quotient, unless a source is special. The most important case is the last one, as above.
#[inline(always)]
pub(crate) fn div_fixup<F: Float>(quotient: F, denominator: F, numerator: F) -> F {
    let (wide, below) = (numerator.wide(), denominator.wide());
    let sign = if numerator.is_negative() == denominator.is_negative() { 1.0 } else { -1.0 };
    let difference = numerator.exponent_field() - denominator.exponent_field();
    let (infinite, zero) = (wide.is_infinite(), wide == 0.0);
    let (infinite_below, zero_below) = (below.is_infinite(), below == 0.0);
    let mut result = sign * quotient.wide().abs();
    // Where even the scaled quotient is infinite, the steps after it give no number.
    let overflow = (difference > 128) & quotient.is_nan();
    result = if overflow { sign * f64::INFINITY } else { result };
    result = if infinite_below | zero | (difference < -F::UNDERFLOW) { sign * 0.0 } else { result };
    result = if zero_below | infinite { sign * f64::INFINITY } else { result };
    result = if (zero & zero_below) | (infinite & infinite_below) { f64::NAN } else { result };
    let result = F::narrow(result);
    let result = if denominator.is_nan() { denominator.quiet() } else { result };
    if numerator.is_nan() { numerator.quiet() } else { result }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interp::prim::F16;

    /// The division that compilers make of these instructions.
    fn divided(numerator: f32, denominator: f32) -> f32 {
        let below = div_scale(denominator, denominator, numerator);
        let above = div_scale(numerator, denominator, numerator);
        let scaled = div_scale_needed(numerator, denominator, numerator);
        let estimate = 1.0 / below;
        let reciprocal = (-below).mul_add(estimate, 1.0).mul_add(estimate, estimate);
        let quotient = above * reciprocal;
        let better = (-below).mul_add(quotient, above).mul_add(reciprocal, quotient);
        let rest = (-below).mul_add(better, above);
        div_fixup(div_fmas(rest, reciprocal, better, scaled), denominator, numerator)
    }

    #[test]
    fn quotients_of_all_exponents_are_exact() {
        let mut wrong = Vec::new();
        for pair in 0..1u32 << 16 {
            let (above, below) = (pair & 0xFF, pair >> 8);
            for [a, b] in [[0, 0], [1, 0], [0x7F_FFFF, 1], [0x35_04F3, 0x7F_FFFE], [0x12_3456, 0x65_4321]] {
                let (numerator, denominator) = (f32::from_bits(above << 23 | a), f32::from_bits(below << 23 | b));
                let (found, expected) = (divided(numerator, -denominator), numerator / -denominator);
                if found.to_bits() != expected.to_bits() && !(found.is_nan() && expected.is_nan()) {
                    wrong.push(format!("{numerator:e} / {denominator:e} = {found:e}, not {expected:e}"));
                }
            }
        }
        assert!(wrong.is_empty(), "{}: {:?}", wrong.len(), &wrong[..wrong.len().min(10)]);
    }

    /// An ordinary quotient is what it is, whatever the exponents.
    #[test]
    fn the_fixup_changes_no_quotient_that_is_a_number() {
        for exponent in 1..255u32 {
            let (large, small) = (f32::from_bits(exponent << 23), f32::from_bits((255 - exponent) << 23));
            let difference = 255 - 2 * exponent as i32;
            let expected = if difference < -150 { 0.0 } else { 3.0 };
            assert_eq!(div_fixup(3.0, large, small), expected, "{small:e} / {large:e}");
        }
        assert_eq!(div_fixup(f32::NAN, 1e-38, 1e38), f32::INFINITY);
        assert_eq!(div_fixup(f32::NAN, -1e-38, 1e38), f32::NEG_INFINITY);
        assert!(div_fixup(f32::NAN, 3.0, 1.0).is_nan());
        // Halves have no underflow.
        assert_eq!(div_fixup(F16(0x3C00), F16(0x7BFF), F16(1)), F16(0x3C00));
    }
}
