//! Divisions of vectors of `i32` by one divisor, which guards have checked.
//!
//! If the divisor `d` is a constant, the quotient of `a` and `d` is the upper part of the product of `a` and a
//! multiplier, `2^(32+s) / d` rounded up (Granlund and Montgomery, "Division by invariant integers using
//! multiplication", 1994). Let the multiplier `m` be such that `m d` is `2^(32+s) + e`. Then `a m / 2^(32+s)` is the
//! sum of `a / d` and `a e / (d 2^(32+s))`. The second part is less than `1 / d`, so that the next integer is not
//! reached, if `e` is at most `2^s` and `a` is less than `2^32`; or if `e` is at most `2^(s+1)` and `a` has a sign. A
//! negative one is rounded down and one is added, so for that `e` must not be zero, and the second part may be
//! `-1 / d`, as it is for the least number.
//!
//! If `d` is a power of two, the quotient is a shift, of a negative number after `d - 1` was added to it.
//!
//! Otherwise, and in sixteen lanes, which the encoder of AVX-512 has no such products for, the quotient is `a` times
//! the reciprocal of `d`, as `f64`, toward zero. The reciprocal is magnified by `1 + 2^-48`, which is more than all
//! that rounding takes away, so the product is at least `a / d`, and more than that by less than `a / d * 2^-47`. It is
//! below the next integer: that is at least `1 / d` away if `a / d` is none, and `a` has 32 bits.

use smallvec::SmallVec;

use super::body::{LoopBodyBuilder, Value};
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{ConstantDivision, Kind, Node, NodeId};
use crate::ir::types::{Scalar, Ty, Width};
use crate::processor::lanes::Division;

/// The factor of reciprocals, which makes up for their error.
const MAGNIFIED: f64 = 1.0 + 1.0 / (1_u64 << 48) as f64;

impl LoopBodyBuilder<'_, '_> {
    /// Divides the vectors of the first operand of a node by the second one.
    pub(super) fn divide(&mut self, node: &Node, division: Division) -> Option<Value> {
        let Division { signed, remainder } = division;
        let divisor = self.scalar(node.args[1])?;
        let numbers = self.of.lanes_of(Scalar::I32);
        if let Some(power) = self.graph.constant(divisor).and_then(|bits| power_of_two(bits as u32, signed)) {
            return self.divide_by_power(node, power, division);
        }
        let constant = self.graph.constant(divisor).filter(|_| self.of.factor.width != Width::Sixteen);
        let (kind, factor) = match constant.and_then(|bits| multiplication(bits as u32, signed)) {
            Some((division, multiplier)) => {
                let multiplier = self.graph.add_constant(Scalar::I32, multiplier.into());
                (Kind::ConstantQuotients(division), self.add(Kind::Splat, numbers, &[multiplier]))
            }
            None => {
                let reciprocal = self.reciprocal(divisor, signed);
                let floats = self.of.lanes_of(Scalar::F64);
                (Kind::Quotients { signed }, self.add(Kind::Splat, floats, &[reciprocal]))
            }
        };
        let mut all = SmallVec::new();
        for number in 0..self.of.factor.vectors {
            let dividend = self.vector(node.args[0], number)?;
            let value = self.add(kind, numbers, &[dividend, factor]);
            all.push(if remainder { self.remainder(node, number, value)? } else { value });
        }
        Some(Value::Vectors(all))
    }

    /// The remainder that belongs to a quotient.
    fn remainder(&mut self, node: &Node, number: usize, quotient: NodeId) -> Option<NodeId> {
        let (dividend, divisor) = (self.vector(node.args[0], number)?, self.vector(node.args[1], number)?);
        let product = self.lanes(Primitive::WrappingMul, &[quotient, divisor]);
        Some(self.lanes(Primitive::WrappingSub, &[dividend, product]))
    }

    /// Divides the vectors of the first operand of a node by two to a power, or by the negative of that.
    fn divide_by_power(&mut self, node: &Node, power: Power, division: Division) -> Option<Value> {
        let lower = (1 << power.exponent) - 1;
        let mut all = SmallVec::new();
        for number in 0..self.of.factor.vectors {
            let dividend = self.vector(node.args[0], number)?;
            if division.remainder && !division.signed {
                let lower = self.splat_of(lower);
                all.push(self.lanes(Primitive::And, &[dividend, lower]));
                continue;
            }
            let mut value = dividend;
            for step in power.steps(division.signed) {
                value = match step {
                    Step::Shift(primitive, amount) => self.shifted(primitive, Scalar::I32, value, amount),
                    Step::AddDividend => self.lanes(Primitive::WrappingAdd, &[value, dividend]),
                    Step::Negate => {
                        let zero = self.splat_of(0);
                        self.lanes(Primitive::WrappingSub, &[zero, value])
                    }
                };
                if division.remainder && matches!(step, Step::AddDividend) {
                    break;
                }
            }
            if division.remainder {
                // Without its lower bits, that is the multiple of the divisor that the remainder is beyond.
                let upper = self.splat_of(!lower);
                let multiple = self.lanes(Primitive::And, &[value, upper]);
                value = self.lanes(Primitive::WrappingSub, &[dividend, multiple]);
            }
            all.push(value);
        }
        Some(Value::Vectors(all))
    }

    fn splat_of(&mut self, number: u32) -> NodeId {
        let number = self.graph.add_constant(Scalar::I32, number.into());
        self.add(Kind::Splat, self.of.lanes_of(Scalar::I32), &[number])
    }

    /// The magnified reciprocal of an `i32`.
    fn reciprocal(&mut self, divisor: NodeId, signed: bool) -> NodeId {
        if let Some(bits) = self.graph.constant(divisor) {
            let divisor = if signed { f64::from(bits as i32) } else { f64::from(bits as u32) };
            return self.graph.add_constant(Scalar::F64, (1.0 / divisor * MAGNIFIED).to_bits());
        }
        let convert = if signed { Primitive::I32ToF } else { Primitive::U32ToF };
        let [one, magnified] = [1.0, MAGNIFIED].map(|value| self.graph.add_constant(Scalar::F64, value.to_bits()));
        let divisor = self.float(convert, &[divisor]);
        let reciprocal = self.float(Primitive::Fdiv, &[one, divisor]);
        self.float(Primitive::Fmul, &[reciprocal, magnified])
    }

    fn float(&mut self, primitive: Primitive, args: &[NodeId]) -> NodeId {
        self.add(Kind::Primitive(primitive, Scalar::F64), Ty::Scalar(Scalar::F64), args)
    }
}

/// Two to the power `exponent`, which is positive, or the negative of that.
#[derive(Clone, Copy, Debug)]
struct Power {
    exponent: u32,
    is_negative: bool,
}

/// A step of a division by such a number, of what the step before has made; the first one is of the dividend.
#[derive(Clone, Copy, Debug)]
enum Step {
    Shift(Primitive, u32),
    AddDividend,
    Negate,
}

impl Power {
    fn steps(self, signed: bool) -> SmallVec<[Step; 5]> {
        let Power { exponent, is_negative } = self;
        let mut steps = SmallVec::new();
        if !signed {
            steps.push(Step::Shift(Primitive::ShrU, exponent));
            return steps;
        }
        // One less than the divisor, if the dividend is negative.
        if exponent > 1 {
            steps.push(Step::Shift(Primitive::ShrS, 31));
        }
        steps.push(Step::Shift(Primitive::ShrU, 32 - exponent));
        steps.push(Step::AddDividend);
        steps.push(Step::Shift(Primitive::ShrS, exponent));
        if is_negative {
            steps.push(Step::Negate);
        }
        steps
    }
}

/// The power of two that a divisor is, if it is one. Not the least `i32`, whose quotients are 0 and 1.
fn power_of_two(divisor: u32, signed: bool) -> Option<Power> {
    let is_negative = signed && (divisor as i32) < 0;
    let magnitude = if is_negative { divisor.wrapping_neg() } else { divisor };
    let is_power = magnitude.is_power_of_two() && magnitude > 1 && !(signed && magnitude == 1 << 31);
    is_power.then(|| Power { exponent: magnitude.trailing_zeros(), is_negative })
}

/// How to divide by a constant, and the lower half of the multiplier. None for 0, 1 and -1.
fn multiplication(divisor: u32, signed: bool) -> Option<(ConstantDivision, u32)> {
    let is_negative = signed && (divisor as i32) < 0;
    let magnitude = u128::from(if is_negative { divisor.wrapping_neg() } else { divisor });
    if magnitude < 2 {
        return None;
    }
    // The multiplier is less than 2^33, and with signs less than 2^32, as the least shift is at most that of the next
    // power of two.
    for shift in 0..=32_u8 {
        let power = 1_u128 << (32 + shift);
        let multiplier = if signed { power / magnitude + 1 } else { power.div_ceil(magnitude) };
        if multiplier * magnitude - power <= 1_u128 << (shift + u8::from(signed)) {
            // The multiplier is a number with a sign or without.
            let adds_dividend = multiplier >> if signed { 31 } else { 32 } != 0;
            return Some((ConstantDivision { signed, is_negative, adds_dividend, shift }, multiplier as u32));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers at the edges of what instructions do, and some others.
    fn numbers() -> Vec<u32> {
        let edges =
            [0_u32, 1, 2, 3, 5, 7, 10, 641, 65_535, 65_536, 65_537, 6_700_417, 0x7FFF_FFFE, 0x7FFF_FFFF, 1 << 31];
        let mut numbers: Vec<u32> = edges.iter().flat_map(|edge| [*edge, edge.wrapping_neg(), !edge]).collect();
        let mut random = 1_u64;
        for shift in 32..64 {
            random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            numbers.push((random >> shift) as u32);
        }
        numbers
    }

    /// Dividends for a divisor: multiples of it, and what is next to them, are closest to an integer.
    fn dividends(numbers: &[u32], divisor: u32) -> Vec<u32> {
        let near = numbers.iter().map(|number| number / divisor * divisor);
        let near = near.flat_map(|number| [number, number.wrapping_add(1), number.wrapping_sub(1)]);
        numbers.iter().copied().chain(near).collect()
    }

    /// The quotient that the node computes.
    fn quotient(a: u32, (division, multiplier): (ConstantDivision, u32)) -> u32 {
        let ConstantDivision { signed, is_negative, adds_dividend, shift } = division;
        if !signed {
            let upper = (u64::from(a) * u64::from(multiplier)) >> 32;
            return ((upper + if adds_dividend { u64::from(a) } else { 0 }) >> shift) as u32;
        }
        let upper = ((i64::from(a as i32) * i64::from(multiplier as i32)) >> 32) as i32;
        let sum = if adds_dividend { upper.wrapping_add(a as i32) } else { upper };
        let rounded = (sum >> shift) + i32::from(sum < 0);
        if is_negative { rounded.wrapping_neg() as u32 } else { rounded as u32 }
    }

    #[test]
    fn quotients_by_constants_are_exact() {
        let numbers = numbers();
        let divisors = numbers.iter().copied().chain(2..3000).filter(|divisor| *divisor != 0);
        for divisor in divisors.flat_map(|divisor| [divisor, divisor.wrapping_neg()]) {
            let [signed, unsigned] = [true, false].map(|signed| multiplication(divisor, signed));
            assert_eq!((signed.is_some(), unsigned.is_some()), (divisor.wrapping_add(1) > 2, divisor > 1), "{divisor}");
            let magnitude = divisor.min(divisor.wrapping_neg());
            for a in dividends(&numbers, divisor).into_iter().chain(dividends(&numbers, magnitude)) {
                if let Some(signed) = signed {
                    let expected = (a as i32).wrapping_div(divisor as i32);
                    assert_eq!(quotient(a, signed) as i32, expected, "{} / {}", a as i32, divisor as i32);
                }
                if let Some(unsigned) = unsigned {
                    assert_eq!(quotient(a, unsigned), a / divisor, "{a} / {divisor}");
                }
            }
        }
    }

    #[test]
    fn quotients_by_powers_of_two_are_exact() {
        let numbers = numbers();
        let mut count = 0;
        for divisor in (0..32).map(|exponent| 1_u32 << exponent).flat_map(|power| [power, power.wrapping_neg()]) {
            for signed in [true, false] {
                let Some(power) = power_of_two(divisor, signed) else { continue };
                count += 1;
                for a in dividends(&numbers, divisor) {
                    let step = |value: u32, step: Step| match step {
                        Step::Shift(Primitive::ShrS, amount) => (value as i32 >> amount) as u32,
                        Step::Shift(_, amount) => value >> amount,
                        Step::AddDividend => value.wrapping_add(a),
                        Step::Negate => value.wrapping_neg(),
                    };
                    let quotient = power.steps(signed).into_iter().fold(a, step);
                    let expected = if signed { (a as i32 / divisor as i32) as u32 } else { a / divisor };
                    assert_eq!(quotient, expected, "{a} / {divisor}, {signed}");
                }
            }
        }
        assert_eq!(count, 30 + 30 + 31 + 1, "all that are no 1, -1 or least number");
    }

    #[test]
    fn quotients_are_exact() {
        let numbers = numbers();
        for divisor in numbers.iter().copied().filter(|divisor| *divisor != 0) {
            for dividend in dividends(&numbers, divisor) {
                let product = f64::from(dividend) * (1.0 / f64::from(divisor) * MAGNIFIED);
                assert_eq!(product.trunc(), f64::from(dividend / divisor), "{dividend} / {divisor}");
                let (dividend, divisor) = (dividend as i32, divisor as i32);
                if let Some(expected) = dividend.checked_div(divisor) {
                    let product = f64::from(dividend) * (1.0 / f64::from(divisor) * MAGNIFIED);
                    assert_eq!(product.trunc(), f64::from(expected), "{dividend} / {divisor}");
                }
            }
        }
    }
}
