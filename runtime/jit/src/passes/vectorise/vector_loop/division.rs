//! Divisions of vectors of `i32` by one divisor, which guards have checked.
//!
//! The quotient of `a` and `d` is `a` times the reciprocal of `d`, as `f64`, toward zero. The reciprocal is magnified by `1 + 2^-48`, which is more
//! than all that rounding takes away, so the product is at least `a / d`, and more than that by less than `a / d * 2^-47`. It is below the next
//! integer: that is at least `1 / d` away if `a / d` is none, and `a` has 32 bits.

use smallvec::SmallVec;

use super::{LoopBodyBuilder, Value};
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{Kind, Node, NodeId};
use crate::ir::types::{Scalar, Ty};
use crate::processor::lanes::Division;

/// What reciprocals are multiplied by.
const MAGNIFIED: f64 = 1.0 + 1.0 / (1_u64 << 48) as f64;

impl LoopBodyBuilder<'_, '_> {
    /// Divides the vectors of the first operand of a node by the second one.
    pub(super) fn divide(&mut self, node: &Node, division: Division) -> Option<Value> {
        let Division { signed, remainder } = division;
        let divisor = self.scalar(node.args[1])?;
        let reciprocal = self.reciprocal(divisor, signed);
        let (floats, numbers) = (self.of.lanes_of(Scalar::F64), self.of.lanes_of(Scalar::I32));
        let reciprocal = self.add(Kind::Splat, floats, &[reciprocal]);
        let mut all = SmallVec::new();
        for number in 0..self.of.factor.vectors {
            let dividend = self.vector(node.args[0], number)?;
            let mut value = self.add(Kind::Quotients { signed }, numbers, &[dividend, reciprocal]);
            if remainder {
                let divisor = self.vector(node.args[1], number)?;
                value = self.lanes(Primitive::WrappingMul, &[value, divisor]);
                value = self.lanes(Primitive::WrappingSub, &[dividend, value]);
            }
            all.push(value);
        }
        Some(Value::Vectors(all))
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

#[cfg(test)]
mod tests {
    use super::MAGNIFIED;

    #[test]
    fn quotients_are_exact() {
        let edges =
            [0_u32, 1, 2, 3, 5, 7, 10, 641, 65_535, 65_536, 65_537, 6_700_417, 0x7FFF_FFFE, 0x7FFF_FFFF, 1 << 31];
        let mut numbers: Vec<u32> = edges.iter().flat_map(|edge| [*edge, edge.wrapping_neg(), !edge]).collect();
        let mut random = 1_u64;
        for shift in 32..64 {
            random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            numbers.push((random >> shift) as u32);
        }
        for divisor in numbers.iter().copied().filter(|divisor| *divisor != 0) {
            // Multiples of the divisor, and what is next to them, are closest to an integer.
            let near = numbers.iter().map(|number| number / divisor * divisor);
            let near: Vec<u32> =
                near.flat_map(|number| [number, number.wrapping_add(1), number.wrapping_sub(1)]).collect();
            for dividend in numbers.iter().chain(&near).copied() {
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
