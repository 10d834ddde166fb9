//! The steps of an exact division: scale, multiply and add, fix special cases.

use vireo_simt::prim::{Float, fma_error, ldexp, power_of_two, sum_to_odd};

/// The formats for which there are these steps.
pub(crate) trait Division: Float + PartialEq {
    /// By which power of two sources are scaled, and quotients back.
    const POWER: i32;
    /// A numerator whose exponent field is at most this has remainders that lose bits.
    const TINY: i32;
    /// The quotient is near overflow if the exponent fields differ by this.
    const NEAR_OVERFLOW: i32;
    /// The exponent field of one.
    const BIAS: i32;
    const ZERO: Self;
    const ONE: Self;
    const NAN: Self;
    /// The quotient, rounded to nearest.
    fn over(self, below: Self) -> Self;
    /// The product and sum times two to a power, rounded once.
    fn scaled_fma(self, b: Self, c: Self, power: i32) -> Self;
}

impl Division for f32 {
    const POWER: i32 = 64;
    const TINY: i32 = 23;
    const NEAR_OVERFLOW: i32 = 96;
    const BIAS: i32 = 127;
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const NAN: Self = f32::NAN;
    #[inline(always)]
    fn over(self, below: Self) -> Self {
        self / below
    }
    #[inline(always)]
    fn scaled_fma(self, b: Self, c: Self, power: i32) -> Self {
        (sum_to_odd(f64::from(self) * f64::from(b), f64::from(c)) * power_of_two(power)) as f32
    }
}

impl Division for f64 {
    const POWER: i32 = 128;
    const TINY: i32 = 53;
    const NEAR_OVERFLOW: i32 = 768;
    const BIAS: i32 = 1023;
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const NAN: Self = f64::NAN;
    #[inline(always)]
    fn over(self, below: Self) -> Self {
        self / below
    }
    #[inline(always)]
    fn scaled_fma(self, b: Self, c: Self, power: i32) -> Self {
        let total = self.mul_add(b, c);
        let scaled = total * power_of_two(power);
        // Where that is subnormal it was rounded again. The sum decides unless it lies in the middle: then what it has
        // lost does.
        let rest = total - scaled * power_of_two(-power);
        let lost = fma_error(self, b, c, total);
        let middle = rest.abs() == f64::from_bits(1) * power_of_two(-power) / 2.0;
        let wrong = middle & (power < 0) & (rest * lost.signum() > 0.0) & (lost != 0.0);
        if wrong { scaled + f64::from_bits(1).copysign(rest) } else { scaled }
    }
}

#[inline(always)]
fn is_subnormal<F: Division>(value: F) -> bool {
    (value != F::ZERO) & (value.exponent_field() == 0)
}

/// The scaling of a division of `numerator` by `denominator`: whether it must be undone, and by which power of two each
/// is scaled.
///
/// All conditions are computed, the most important one last, so that lanes need no branches.
#[inline(always)]
fn scaling<F: Division>(numerator: F, denominator: F) -> (bool, i32, i32) {
    let small_quotient = is_subnormal(numerator.over(denominator));
    let small_reciprocal = is_subnormal(F::ONE.over(denominator));
    let both = if numerator.exponent_field() <= F::TINY { F::POWER } else { 0 };
    let mut scaling = (false, both, both);
    scaling = if small_quotient { (true, F::POWER, 0) } else { scaling };
    scaling = if small_reciprocal { (false, -F::POWER, -F::POWER) } else { scaling };
    scaling = if small_reciprocal & small_quotient { (true, 0, -F::POWER) } else { scaling };
    scaling = if is_subnormal(denominator) { (false, F::POWER, F::POWER) } else { scaling };
    // The quotient is near overflow: only the denominator is scaled.
    let difference = numerator.exponent_field() - denominator.exponent_field();
    scaling = if difference >= F::NEAR_OVERFLOW { (true, 0, F::POWER) } else { scaling };
    if (numerator == F::ZERO) | (denominator == F::ZERO) { (false, 0, 0) } else { scaling }
}

/// The first source is the denominator or the numerator, whichever is scaled; another one is scaled if both are.
#[inline(always)]
pub(crate) fn div_scale<F: Division>(value: F, denominator: F, numerator: F) -> F {
    let (_, for_numerator, for_denominator) = scaling(numerator, denominator);
    let for_both = if for_numerator == for_denominator { for_numerator } else { 0 };
    let power = if value == numerator { for_numerator } else { for_both };
    let scaled = ldexp(value, if value == denominator { for_denominator } else { power } as u32);
    if (numerator == F::ZERO) | (denominator == F::ZERO) { F::NAN } else { scaled }
}

#[inline(always)]
pub(crate) fn div_scale_needed<F: Division>(_value: F, denominator: F, numerator: F) -> bool {
    scaling(numerator, denominator).0
}

/// The product and sum; if the quotient was scaled, times the power of two that undoes it. Rounded once: a subnormal
/// quotient would be wrong if it had been rounded before.
#[inline(always)]
pub(crate) fn div_fmas<F: Division>(a: F, b: F, c: F, scaled: bool) -> F {
    let undo = if c.exponent_field() > F::BIAS { F::POWER } else { -F::POWER };
    a.scaled_fma(b, c, if scaled { undo } else { 0 })
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
    let overflow = (difference > F::OVERFLOW) & quotient.is_nan();
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

    /// The division that compilers make of these instructions: two steps for a reciprocal of f64, whose estimate is as
    /// good as the wave has it.
    fn divided<F: Division + std::ops::Neg<Output = F>>(numerator: F, denominator: F) -> F {
        let below = div_scale(denominator, denominator, numerator);
        let above = div_scale(numerator, denominator, numerator);
        let scaled = div_scale_needed(numerator, denominator, numerator);
        let estimate = F::ONE.over(below);
        let reciprocal = (-below).fma(estimate, F::ONE).fma(estimate, estimate);
        let quotient = above.mul(reciprocal);
        let better = (-below).fma(quotient, above).fma(reciprocal, quotient);
        let rest = (-below).fma(better, above);
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

    #[test]
    fn quotients_of_f64_of_many_exponents_are_exact() {
        // All exponents next to those where the steps differ, and some others.
        let near = [0u64, 1, 53, 128, 255, 768, 895, 1023, 1151, 1279, 1970, 2046, 2047];
        let exponents =
            near.into_iter().flat_map(|at| at.saturating_sub(2)..=(at + 2).min(2047)).chain((0..2048).step_by(61));
        let exponents: Vec<u64> = exponents.collect();
        let significands = [0, 1, 0xF_FFFF_FFFF_FFFF, 0x6_A09E_667F_3BCD, 0x1_2345_6789_ABCD, 0xF_FFFF_FFFF_FFFE];
        let (mut wrong, mut seen) = (Vec::new(), 0);
        for above in &exponents {
            for below in &exponents {
                for (index, a) in significands.iter().enumerate() {
                    let b = significands[(index * 5 + seen) % significands.len()];
                    seen += 1;
                    let (numerator, denominator) = (f64::from_bits(above << 52 | a), f64::from_bits(below << 52 | b));
                    let (found, expected) = (divided(numerator, -denominator), numerator / -denominator);
                    if found.to_bits() != expected.to_bits() && !(found.is_nan() && expected.is_nan()) {
                        wrong.push(format!("{numerator:e} / {denominator:e} = {found:e}, not {expected:e}"));
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{} of {seen}: {:?}", wrong.len(), &wrong[..wrong.len().min(10)]);
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
        assert_eq!(div_fixup(3.0, 1e308, 1e-300), 0.0, "its exponents differ by more than subnormal numbers have");
        assert_eq!(div_fixup(3.0, 1e-300, 1e-10), 3.0);
        assert_eq!(div_fixup(f32::NAN, 1e-38, 1e38), f32::INFINITY);
        assert_eq!(div_fixup(f32::NAN, -1e-38, 1e38), f32::NEG_INFINITY);
        assert!(div_fixup(f32::NAN, 3.0, 1.0).is_nan());
        // Halves have no underflow.
        assert_eq!(div_fixup(F16(0x3C00), F16(0x7BFF), F16(1)), F16(0x3C00));
    }
}
