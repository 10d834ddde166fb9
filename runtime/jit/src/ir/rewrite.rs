//! Rewrites of nodes: the form that a node has after one, and the questions that patterns of rewrites ask. The rewrites
//! are entries of `spec/jit`, of which `generated::jit::rewrites` is made; value numbering applies them.

use super::graph::{Graph, NodeId};
use super::types::Scalar;

/// The replacement of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Simpler {
    /// A constant with these bits, of this type.
    Constant(Scalar, u64),
    /// This operand of it.
    Operand(NodeId),
    /// Nothing: it is a check that holds.
    Holds,
}

/// Whether a node is a constant with these bits.
pub(crate) fn is_constant(graph: &Graph, id: NodeId, bits: u64) -> bool {
    graph.constant(id) == Some(bits)
}

/// Whether two nodes are known to have the same value.
pub(crate) fn is_same(graph: &Graph, one: NodeId, other: NodeId) -> bool {
    one == other || graph.constant(one).is_some_and(|bits| is_constant(graph, other, bits))
}
