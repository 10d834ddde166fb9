//! Constant folding while the graph is built.

use smallvec::SmallVec;

use super::builder::FunctionBuilder;
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::NodeId;
use crate::ir::types::{Scalar, Ty};

/// A constant, or a simpler node, with the value of the primitive.
pub(super) fn fold(b: &mut FunctionBuilder<'_>, primitive: Primitive, of: Scalar, args: &[NodeId]) -> Option<NodeId> {
    if primitive == Primitive::IsNonzero {
        return b.truth(args[0]);
    }
    let operands: SmallVec<[u64; 3]> = args.iter().map(|arg| b.bits(*arg)).collect::<Option<_>>()?;
    let (bits, Ty::Scalar(of)) = (primitive.known(of, &operands)?, primitive.result(of)) else { return None };
    Some(b.constant(of, bits))
}
