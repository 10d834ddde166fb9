//! Loops that may become strips, and the limits that their guards check.

use crate::analysis::loop_nest::{Item, LoopNest};
use crate::analysis::shapes::Shapes;
use crate::generated::vm::primitive::Primitive;
use crate::interp::code::loops::Refusal;
use crate::ir::graph::{Block, BlockIndex, Graph, Kind, NodeId};
use crate::ir::types::Scalar;

/// Most nodes of a loop that is copied.
const MAX_NODES: usize = 400;

/// Fewest iterations of a whole strip: those of the shortest vector.
pub(super) const MIN_STRIP: u64 = 8;

/// Most iterations of a short loop.
const SHORT: u64 = 32;

/// Starts, bounds and divisors are less than this, so that no sum of a few of them wraps.
pub(super) const SMALL: u64 = 1 << 31;

/// Dividends are less than this in the first iteration.
pub(super) const LARGE: u64 = 1 << 62;

/// Which division a node is, if it is one of `i64`: whether its value is the quotient, and not the remainder.
pub(super) fn division(graph: &Graph, id: NodeId) -> Option<bool> {
    match graph.node(id).kind {
        Kind::Primitive(Primitive::CheckedDivS | Primitive::CheckedDivU, Scalar::I64) => Some(true),
        Kind::Primitive(Primitive::CheckedRemS | Primitive::CheckedRemU, Scalar::I64) => Some(false),
        _ => None,
    }
}

/// Whether a loop counts up by one, and divides anything in each iteration.
pub(super) fn is_candidate(graph: &Graph, nest: &LoopNest) -> bool {
    refusal(graph, nest).is_none()
}

/// The reason for which a loop cannot become strips, if there is one. Each strip ends with a run of the header of its
/// own, so a header that stores would store once more than it may.
pub(super) fn refusal(graph: &Graph, nest: &LoopNest) -> Option<Refusal> {
    let divides = nest.body.iter().any(|item| match item {
        Item::Nodes(block) => graph.blocks[*block].nodes.iter().any(|id| division(graph, *id).is_some()),
        Item::Loop(_) => false,
    });
    match () {
        () if !divides => Some(Refusal::NoDivisions),
        () if !nest.is_top_tested || nest.step != 1 || nest.has_header_effects(graph) => Some(Refusal::NotCounted),
        () if nest.count_nodes(graph) > MAX_NODES => Some(Refusal::TooLarge),
        () => None,
    }
}

/// The state of the graph before a loop was split.
pub(super) struct Before {
    blocks: usize,
    order: Vec<BlockIndex>,
    preheader: Block,
}

impl Before {
    pub fn new(graph: &Graph, nest: &LoopNest) -> Before {
        let preheader = graph.blocks[nest.preheader].clone();
        Before { blocks: graph.blocks.len(), order: graph.order.clone(), preheader }
    }

    pub fn restore(self, graph: &mut Graph, nest: &LoopNest) {
        graph.blocks.truncate(self.blocks);
        graph.blocks[nest.preheader] = self.preheader;
        graph.order = self.order;
    }
}

/// Whether the loop of a preheader can be vectorised, and is not known to be short.
pub(super) fn has_vectors(graph: &Graph, preheader: BlockIndex) -> bool {
    LoopNest::parse(graph, preheader).is_some_and(|nest| is_long(graph, &nest) && Shapes::new(graph, &nest).is_some())
}

/// Whether the loop of a preheader has nothing in it but a short loop that can be vectorised: rows of that are computed
/// together, after the guards of one strip.
pub(super) fn has_short_vectors(graph: &Graph, preheader: BlockIndex) -> bool {
    let Some(nest) = LoopNest::parse(graph, preheader) else { return false };
    let mut loops = nest.body.iter().filter_map(|item| match item {
        Item::Loop(inner) => Some(inner),
        Item::Nodes(_) => None,
    });
    let (Some(inner), None) = (loops.next(), loops.next()) else { return false };
    let bounds = (graph.constant(inner.start[inner.induction]), graph.constant(inner.bound));
    let is_short = matches!(bounds, (Some(start), Some(bound)) if bound.saturating_sub(start) <= SHORT);
    is_short && Shapes::new(graph, inner).is_some_and(|shapes| !shapes.sequential)
}

/// Whether a loop is not known to make fewer iterations than the shortest vector has lanes.
pub(super) fn is_long(graph: &Graph, nest: &LoopNest) -> bool {
    match (graph.constant(nest.start[nest.induction]), graph.constant(nest.bound)) {
        (Some(start), Some(bound)) => bound.saturating_sub(start) >= MIN_STRIP,
        _ => true,
    }
}

/// The one of some divisors that all of them are multiples of, if there is one.
pub(super) fn finest(graph: &Graph, divisors: &[NodeId]) -> Option<NodeId> {
    let is_of_all = |columns: &NodeId| divisors.iter().all(|divisor| multiple(graph, *divisor, *columns).is_some());
    divisors.iter().copied().find(is_of_all)
}

/// Which multiple of a number another one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Multiple {
    Constant(u64),
    Node(NodeId),
}

/// Which multiple of `of` a number is, if that can be seen.
pub(super) fn multiple(graph: &Graph, id: NodeId, of: NodeId) -> Option<Multiple> {
    if id == of {
        return Some(Multiple::Constant(1));
    }
    if let (Some(bits), Some(of)) = (graph.constant(id), graph.constant(of)) {
        let is_multiple = (1..SMALL).contains(&of) && (1..SMALL).contains(&bits) && bits.is_multiple_of(of);
        return is_multiple.then(|| Multiple::Constant(bits / of));
    }
    let node = graph.node(id);
    let (Kind::Primitive(Primitive::WrappingMul, Scalar::I64), &[a, b]) = (node.kind, &node.args[..]) else {
        return None;
    };
    let other = if a == of { b } else { a };
    (a == of || b == of).then(|| graph.constant(other).map_or(Multiple::Node(other), Multiple::Constant))
}
