//! Where machine code needs `rdx`, so that no value that is live there may be in it.

use crate::ir::graph::{BlockIndex, Graph, Kind, NodeId, Terminator};
use crate::ir::types::Effect;

/// Whether the code of a node may write `rdx`, or read what was passed in it.
pub(super) fn needs_rdx(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    let is_plain = match node.kind {
        Kind::Constant(_)
        | Kind::Parameter
        | Kind::Slot(_)
        | Kind::Number
        | Kind::Low
        | Kind::High
        | Kind::Pair
        | Kind::Cast
        | Kind::IsBuffer(_)
        | Kind::IsMutable(_)
        | Kind::Base(_)
        | Kind::Elements(..)
        | Kind::Reference(_)
        | Kind::Globals
        | Kind::InRange
        | Kind::FlushToSlots => true,
        // Divisions trap.
        Kind::Primitive(primitive, _) => matches!(primitive.effect(), Effect::Pure | Effect::Load | Effect::Store),
        _ => false,
    };
    !is_plain || node.width().is_some() || node.args.iter().any(|arg| graph.node(*arg).width().is_some())
}

/// The last of the nodes of a block that reads what was passed, maybe in `rdx`: no node before it writes that register.
pub(super) fn last_passed(graph: &Graph, nodes: &[NodeId]) -> Option<usize> {
    nodes.iter().rposition(|id| matches!(graph.node(*id).kind, Kind::Passed(_)))
}

/// The same at the end of a block: native calls and returns pass values there, and the runtime is called.
pub(super) fn needs_rdx_at_end(graph: &Graph, block: BlockIndex) -> bool {
    graph.native_terminators.get(block).is_some()
        || matches!(graph.blocks[block].terminator, Terminator::SideExit(..) | Terminator::Guarded(..))
}
