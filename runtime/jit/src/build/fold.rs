//! Constant folding while the graph is built.

use smallvec::SmallVec;

use super::builder::FunctionBuilder;
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{Kind, NodeId};
use crate::ir::types::{Scalar, Ty};

/// A constant, or a simpler node, with the value of the primitive.
pub(super) fn fold(b: &mut FunctionBuilder<'_>, primitive: Primitive, of: Scalar, args: &[NodeId]) -> Option<NodeId> {
    if primitive == Primitive::IsNonzero {
        return b.truth(args[0]);
    }
    if let (Primitive::Select, &[test, then, otherwise]) = (primitive, args)
        && let (Kind::Primitive(Primitive::IsNonzero, Scalar::I32), &[number]) =
            (b.graph.node(test).kind, &b.graph.node(test).args[..])
        && let Some((truth, is_negated)) = b.truth_or_negation(number)
    {
        let (then, otherwise) = if is_negated { (otherwise, then) } else { (then, otherwise) };
        return Some(b.primitive(Primitive::Select, of, &[truth, then, otherwise]));
    }
    let operands: SmallVec<[u64; 3]> = args.iter().map(|arg| b.bits(*arg)).collect::<Option<_>>()?;
    let (bits, Ty::Scalar(of)) = (primitive.known(of, &operands)?, primitive.result(of)) else { return None };
    Some(b.constant(of, bits))
}
