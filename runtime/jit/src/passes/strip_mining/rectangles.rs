//! Rectangles: loops that begin at zero, divide by one number or by multiples of it, and run through a multiple of all
//! of them. Kernels count so through the elements of a tile, whose sizes may be the minimum of a constant and of what
//! is left of a tensor.
//!
//! ```text
//! for i in 0..n * h * w:                      for q in 0..n * h:                      for p in 0..n:
//!   z = i / (h * w)                             z = q / h; y = q % h                    for y in 0..h:
//!   y = i % (h * w) / w; x = i % w    -->       for x in 0..w:              -->           for x in 0..w:
//!   out[z, y, x] = ...                            out[z, y, x] = ...                        out[p, y, x] = ...
//! ```

use smallvec::SmallVec;

use super::candidates::{Before, MIN_STRIP, SMALL, division, finest, has_vectors, is_candidate, multiple};
use super::strips;
use crate::analysis::loop_nest::{LoopNest, addend};
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{BlockIndex, Graph, Kind, NodeId};
use crate::ir::types::Scalar;
use crate::passes::dce;

/// Most loops that one becomes, besides the innermost one.
const MAX_LEVELS: usize = 4;

/// The number that a loop divides by, or divides by multiples of, if it may be a rectangle with so many columns.
pub(super) fn columns(graph: &Graph, nest: &LoopNest) -> Option<NodeId> {
    let parameters = &graph.blocks[nest.header].parameters;
    let defined = nest.defined(graph);
    // The parameters are known in each row.
    let steps = |(parameter, next): (&NodeId, &NodeId)| {
        addend(graph, *parameter, *next).is_some_and(|by| !defined.contains(by.index()))
    };
    if !parameters.iter().zip(&nest.next).all(steps) || !may_be_zero(graph, nest.start[nest.induction]) {
        return None;
    }
    let mut divisors: SmallVec<[NodeId; 8]> = SmallVec::new();
    nest.for_each_node(graph, &mut |id| {
        if division(graph, id).is_some() {
            divisors.push(graph.node(id).args[1]);
        }
    });
    finest(graph, &divisors)
}

/// Whether a loop is known to be a rectangle with so many columns, but for its start, and divides nothing but its
/// induction variable by that number.
pub(super) fn is_known(graph: &Graph, nest: &LoopNest, columns: NodeId) -> bool {
    let (Some(of), Some(bound)) = (graph.constant(columns), graph.constant(nest.bound)) else { return false };
    let parameters = &graph.blocks[nest.header].parameters;
    let mut is_single = parameters.len() == 1;
    nest.for_each_node(graph, &mut |id| {
        if division(graph, id).is_some() {
            let args = &graph.node(id).args;
            is_single &= args[0] == parameters[nest.induction] && graph.constant(args[1]) == Some(of);
        }
    });
    is_single && (1..SMALL).contains(&of) && (1..SMALL).contains(&bound) && bound.is_multiple_of(of)
}

/// Whether the bound of a loop seems to be computed as a multiple of so many columns. Guards check it.
pub(super) fn is_likely(graph: &Graph, nest: &LoopNest, columns: NodeId) -> bool {
    let [bound, columns] = [nest.bound, columns].map(|id| source(graph, id));
    let is_product = graph.node(bound).kind == Kind::Primitive(Primitive::WrappingMul, Scalar::I64);
    multiple(graph, bound, columns).is_some()
        || is_product && graph.node(bound).args.iter().any(|arg| source(graph, *arg) == columns)
}

/// Where a value comes from: that of a parameter, which code may also enter with other ones, from a branch.
fn source(graph: &Graph, mut id: NodeId) -> NodeId {
    for _ in 0..MAX_LEVELS {
        let from = arguments(graph, id).find(|arg| *arg != id);
        match from.filter(|_| graph.node(id).kind == Kind::Parameter) {
            Some(from) => id = from,
            None => break,
        }
    }
    id
}

/// The arguments of all branches for a parameter.
fn arguments(graph: &Graph, id: NodeId) -> impl Iterator<Item = NodeId> + '_ {
    let position = |block: BlockIndex| graph.blocks[block].parameters.iter().position(|parameter| *parameter == id);
    let found = graph.blocks.indices().find_map(|block| Some((block, position(block)?)));
    let branches = graph.blocks.indices().flat_map(|from| graph.branches(from));
    branches.filter_map(move |branch| {
        let (_, index) = found.filter(|(block, _)| branch.target == *block)?;
        branch.args.get(index).copied()
    })
}

/// Whether a value is zero, or a parameter of a block that gets zero from another one: code may also be entered in the
/// middle of a loop.
fn may_be_zero(graph: &Graph, id: NodeId) -> bool {
    if graph.constant(id).is_some() {
        return graph.constant(id) == Some(0);
    }
    arguments(graph, id).any(|arg| graph.constant(arg) == Some(0))
}

/// Splits a loop into the rows of a rectangle, and the loop over the rows likewise. Whether that is worthwhile.
pub(super) fn split(graph: &mut Graph, nest: &LoopNest, columns: NodeId) -> bool {
    let Some(first) = strips::split(graph, nest, Some(columns)) else { return false };
    // Corrections of quotients have become dead.
    dce::remove_dead_nodes(graph, true);
    let is_short = graph.constant(columns).is_some_and(|columns| columns < MIN_STRIP);
    // In an innermost loop, divisions are much of the time.
    let mut is_worthwhile = !is_short && !nest.is_outer() && is_known(graph, nest, columns);
    is_worthwhile |= has_vectors(graph, first.strip) || has_vectors(graph, first.checks);
    let mut preheader = first.checks;
    for _ in 1..MAX_LEVELS {
        let Some(rows) = LoopNest::parse(graph, preheader).filter(|rows| is_candidate(graph, rows)) else { break };
        let Some(columns) = self::columns(graph, &rows) else { break };
        let before = Before::new(graph, &rows);
        let Some(next) = strips::split(graph, &rows, Some(columns)) else {
            before.restore(graph, &rows);
            break;
        };
        dce::remove_dead_nodes(graph, true);
        is_worthwhile |= has_vectors(graph, next.strip) || has_vectors(graph, next.checks);
        preheader = next.checks;
    }
    is_worthwhile
}
