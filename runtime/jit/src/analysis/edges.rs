//! Edges of branches of the bytecode, as far as machine code executes them. The builder asks, and analyses of the
//! bytecode do.

use smallvec::SmallVec;

use crate::bytecode::{Decoded, EdgeId, Op};

/// Whether one of the edges of a branch moves references.
pub(crate) fn moves_refs(decoded: &Decoded, edges: &[EdgeId]) -> bool {
    edges.iter().any(|id| decoded.remaps(decoded.edge(*id)).iter().any(|remap| remap.source.is_ref()))
}

/// The edges of a branch that machine code can execute.
pub(crate) fn native_edges(op: Op) -> SmallVec<[EdgeId; 2]> {
    match op {
        Op::Br { target } => SmallVec::from_slice(&[target]),
        Op::CondBr { true_target, false_target, .. } => SmallVec::from_slice(&[true_target, false_target]),
        _ => SmallVec::new(),
    }
}
