//! What is known of a primitive's value without computing it.

use super::build::Builder;
use super::graph::NodeId;
use super::types::Scalar;
use crate::generated::vm::primitive::Primitive;
use crate::interp::prim::Int;

/// A node that gives what the primitive gives, if there is a simpler one.
pub(super) fn fold(b: &mut Builder<'_>, primitive: Primitive, of: Scalar, args: &[NodeId]) -> Option<NodeId> {
    let first = b.bits(args[0]);
    let second = args.get(1).and_then(|arg| b.bits(*arg));
    match (primitive, of) {
        (Primitive::IsNonzero, _) => b.truth(args[0]),
        (Primitive::Zext64, _) => first.map(|bits| b.constant(Scalar::I64, bits)),
        (Primitive::Sext64, _) => first.map(|bits| b.constant(Scalar::I64, i64::from(bits as u32 as i32) as u64)),
        (Primitive::Low32, _) => first.map(|bits| b.constant(Scalar::I32, bits & u64::from(u32::MAX))),
        (_, Scalar::I32) => {
            let bits = integer(primitive, first? as u32 as i32, second? as u32 as i32)?;
            Some(b.constant(of, u64::from(bits as u32)))
        }
        (_, Scalar::I64) => {
            let bits = integer(primitive, first? as i64, second? as i64)?;
            Some(b.constant(of, bits as u64))
        }
        _ => None,
    }
}

fn integer<T: Int>(primitive: Primitive, lhs: T, rhs: T) -> Option<T> {
    Some(match primitive {
        Primitive::WrappingAdd => lhs.wrapping_add(rhs),
        Primitive::WrappingSub => lhs.wrapping_sub(rhs),
        Primitive::WrappingMul => lhs.wrapping_mul(rhs),
        Primitive::And => lhs.and(rhs),
        Primitive::Or => lhs.or(rhs),
        Primitive::Xor => lhs.xor(rhs),
        Primitive::MinS => lhs.min_s(rhs),
        Primitive::MaxS => lhs.max_s(rhs),
        Primitive::MinU => lhs.min_u(rhs),
        Primitive::MaxU => lhs.max_u(rhs),
        _ => return None,
    })
}
