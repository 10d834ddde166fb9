//! Divisions of vectors of `i64` by a constant.
//!
//! The magnitude of the dividend is divided, and the sign put back, since no instruction shifts lanes of 64 bits with
//! their signs, or multiplies them. The quotient of a number and a magnitude `d` is the upper half of the product with
//! a multiplier, as of vectors of `i32`: `division.rs` has the proof. Let the multiplier `m` be such that `m d` is
//! `2^(64+s) + e`. With signs the number is at most `2^63`, so that an `e` below `2^(s+1)` is enough, which is so if
//! `2^s` is below `d` and `2^(s+1)` is not, and `m` has 64 bits. Without signs, `e` has to be at most `2^s`.
//!
//! The upper half of a product of 64 bits is made of four products of halves. The remainder by a divisor of 32 bits is
//! the lower half of a difference, whose upper half is known to be zero, so the quotient's lower half is enough.

use smallvec::SmallVec;

use super::body::{LoopBodyBuilder, Value};
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{Kind, Node, NodeId};
use crate::ir::types::Scalar;
use crate::processor::lanes::{Division, can_divide_wide};

/// The bits of the lower half of a lane.
const LOWER: u64 = u32::MAX as u64;

/// How to divide a number without a sign by a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// It is two to this power.
    Shift(u32),
    /// The upper half of the product is shifted.
    Multiply { multiplier: u64, shift: u32 },
    /// As above, by a multiplier of 65 bits: the sum of the upper half and the number, which has 65 bits, is shifted.
    MultiplyAndAdd { multiplier: u64, shift: u32 },
}

impl LoopBodyBuilder<'_, '_> {
    /// Divides the vectors of the first operand of a node by the second one.
    pub(super) fn divide_wide(&mut self, node: &Node, division: Division) -> Option<Value> {
        let Division { signed, remainder } = division;
        let divisor = self.scalar(node.args[1])?;
        let bits = self.graph.constant(divisor).filter(|bits| can_divide_wide(*bits, signed))?;
        let magnitude = if signed { (bits as i64).unsigned_abs() } else { bits };
        let way = Way::new(magnitude, signed);
        let mut all = SmallVec::new();
        for number in 0..self.of.factor.vectors {
            let dividend = self.vector(node.args[0], number)?;
            let sign = signed.then(|| self.shifted(Primitive::ShrS, Scalar::I64, dividend, 63));
            let value = sign.map_or(dividend, |sign| self.with_sign(dividend, sign));
            let result = match way {
                Way::Shift(_) if remainder => {
                    let mask = self.wide_splat(magnitude - 1);
                    self.wide(Primitive::And, &[value, mask])
                }
                _ => {
                    let quotient = self.wide_quotient(value, way);
                    if remainder { self.wide_remainder(value, quotient, magnitude) } else { quotient }
                }
            };
            // A remainder has the sign of the dividend.
            let is_negated = signed && !remainder && (bits as i64) < 0;
            all.push(match sign {
                Some(sign) if is_negated => {
                    let flipped = self.wide(Primitive::Xor, &[result, sign]);
                    self.wide(Primitive::WrappingSub, &[sign, flipped])
                }
                Some(sign) => self.with_sign(result, sign),
                None => result,
            });
        }
        Some(Value::Vectors(all))
    }

    /// Numbers, or their negatives in lanes in which the sign is set: the magnitude of a number with that sign.
    fn with_sign(&mut self, value: NodeId, sign: NodeId) -> NodeId {
        let flipped = self.wide(Primitive::Xor, &[value, sign]);
        self.wide(Primitive::WrappingSub, &[flipped, sign])
    }

    fn wide_quotient(&mut self, value: NodeId, way: Way) -> NodeId {
        match way {
            Way::Shift(shift) => self.shifted(Primitive::ShrU, Scalar::I64, value, shift),
            Way::Multiply { multiplier, shift } => {
                let upper = self.upper_product(value, multiplier);
                self.shifted(Primitive::ShrU, Scalar::I64, upper, shift)
            }
            Way::MultiplyAndAdd { multiplier, shift } => {
                let upper = self.upper_product(value, multiplier);
                // Half of the sum: half of the difference, and the smaller one.
                let difference = self.wide(Primitive::WrappingSub, &[value, upper]);
                let half = self.shifted(Primitive::ShrU, Scalar::I64, difference, 1);
                let sum = self.wide(Primitive::WrappingAdd, &[half, upper]);
                self.shifted(Primitive::ShrU, Scalar::I64, sum, shift - 1)
            }
        }
    }

    /// The upper halves of the products, of 128 bits, of numbers without signs and a constant.
    fn upper_product(&mut self, value: NodeId, factor: u64) -> NodeId {
        // The instruction looks at the lower halves only.
        let (low, high) = (self.wide_splat(factor & LOWER), self.wide_splat(factor >> 32));
        let upper = self.shifted(Primitive::ShrU, Scalar::I64, value, 32);
        let lowest = self.low_products(value, low);
        let carried = self.shifted(Primitive::ShrU, Scalar::I64, lowest, 32);
        let first = self.low_products(upper, low);
        let first = self.wide(Primitive::WrappingAdd, &[first, carried]);
        let second = self.low_products(value, high);
        let mask = self.wide_splat(LOWER);
        let lower = self.wide(Primitive::And, &[first, mask]);
        let second = self.wide(Primitive::WrappingAdd, &[second, lower]);
        let [first, second] = [first, second].map(|sum| self.shifted(Primitive::ShrU, Scalar::I64, sum, 32));
        let highest = self.low_products(upper, high);
        let sum = self.wide(Primitive::WrappingAdd, &[highest, first]);
        self.wide(Primitive::WrappingAdd, &[sum, second])
    }

    /// The remainder that belongs to a quotient of numbers without signs.
    fn wide_remainder(&mut self, value: NodeId, quotient: NodeId, divisor: u64) -> NodeId {
        let all = self.wide_splat(divisor);
        if divisor > LOWER {
            let product = self.wide(Primitive::WrappingMul, &[quotient, all]);
            return self.wide(Primitive::WrappingSub, &[value, product]);
        }
        let product = self.low_products(quotient, all);
        let difference = self.wide(Primitive::WrappingSub, &[value, product]);
        let mask = self.wide_splat(LOWER);
        self.wide(Primitive::And, &[difference, mask])
    }

    fn low_products(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.add(Kind::LowProducts, self.of.lanes_of(Scalar::I64), &[a, b])
    }

    fn wide_splat(&mut self, number: u64) -> NodeId {
        let number = self.graph.add_constant(Scalar::I64, number);
        self.add(Kind::Splat, self.of.lanes_of(Scalar::I64), &[number])
    }

    /// A primitive on lanes of `i64`.
    fn wide(&mut self, primitive: Primitive, args: &[NodeId]) -> NodeId {
        self.add(Kind::Lanes(primitive, Scalar::I64), self.of.lanes_of(Scalar::I64), args)
    }
}

impl Way {
    /// For a divisor from two on, below `2^63`. With signs, numbers are at most `2^63`.
    fn new(divisor: u64, signed: bool) -> Way {
        if divisor.is_power_of_two() {
            return Way::Shift(divisor.trailing_zeros());
        }
        // The next power of two is `2^most`.
        let most = 64 - divisor.leading_zeros();
        let divisor = u128::from(divisor);
        for shift in 0..most {
            let power = 1_u128 << (64 + shift);
            let multiplier = power / divisor + 1;
            // At most the divisor, so no more than the next power of two.
            let error = multiplier * divisor - power;
            if error <= 1_u128 << shift || signed && shift + 1 == most {
                return Way::of(multiplier, shift);
            }
        }
        Way::of((1_u128 << (64 + most)) / divisor + 1, most)
    }

    fn of(multiplier: u128, shift: u32) -> Way {
        match u64::try_from(multiplier) {
            Ok(multiplier) => Way::Multiply { multiplier, shift },
            Err(_) => Way::MultiplyAndAdd { multiplier: multiplier as u64, shift },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The quotient as lanes compute it.
    fn quotient(number: u64, way: Way) -> u64 {
        let upper = |multiplier: u64| ((u128::from(number) * u128::from(multiplier)) >> 64) as u64;
        match way {
            Way::Shift(shift) => number >> shift,
            Way::Multiply { multiplier, shift } => upper(multiplier) >> shift,
            Way::MultiplyAndAdd { multiplier, shift } => {
                let upper = upper(multiplier);
                ((number.wrapping_sub(upper) >> 1).wrapping_add(upper)) >> (shift - 1)
            }
        }
    }

    #[test]
    fn quotients_are_those_of_divisions() {
        let mut random = 1_u64;
        let mut next = || {
            random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            random ^ random >> 33
        };
        let edges = [2_u64, 3, 5, 6, 7, 9, 10, 100, 641, 65_537, 1 << 32, (1 << 62) + 1, (1 << 63) - 1, 1 << 62];
        let drawn: Vec<u64> = (0..3000).map(|index| next() >> (1 + index % 62)).collect();
        let (mut adds, mut count) = (0, 0);
        for divisor in edges.into_iter().chain(drawn).chain(2..3000).filter(|divisor| *divisor > 1) {
            assert!(can_divide_wide(divisor, true) && can_divide_wide(divisor.wrapping_neg(), true), "{divisor}");
            let multiples: Vec<u64> = (0..20).map(|index| next() >> (index * 3)).collect();
            let multiples = multiples.into_iter().map(|number| number / divisor * divisor);
            let near = multiples.flat_map(|number| [number, number.wrapping_sub(1), number.wrapping_add(1)]);
            for number in near.chain([0, 1, u64::MAX, (1 << 63) - 1, 1 << 63]) {
                let way = Way::new(divisor, false);
                assert_eq!(quotient(number, way), number / divisor, "{number} / {divisor} by {way:?}");
                let (way, magnitude) = (Way::new(divisor, true), number.min(number.wrapping_neg()));
                assert!(!matches!(way, Way::MultiplyAndAdd { .. }), "a multiplier of 64 bits is enough for {divisor}");
                assert_eq!(quotient(magnitude, way), magnitude / divisor, "{magnitude} / {divisor} by {way:?}");
            }
            adds += usize::from(matches!(Way::new(divisor, false), Way::MultiplyAndAdd { .. }));
            count += 1;
        }
        assert!(adds > 1000 && count - adds > 1000, "{adds} of {count} multipliers have 65 bits");
        assert!([0, 1, u64::MAX, 1 << 63].into_iter().all(|divisor| !can_divide_wide(divisor, true)));
        assert!([0, 1, u64::MAX, 1 << 63].into_iter().all(|divisor| !can_divide_wide(divisor, false)));
    }
}
