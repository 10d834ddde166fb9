//! Block layout: moves cold loops out of line. It is the last pass.
//!
//! Blocks come in the order of the bytecode. A loop that runs only in some iterations of the loop around it is moved after that one, so
//! that the other iterations fall through: two jumps cost little beside the iterations of a loop.

use crate::ir::graph::{Graph, Terminator};

/// Functions with more conditional loops than this are left as they are.
const MAX_MOVES: usize = 256;

/// Moves loops that are conditional in another loop after that one.
pub(super) fn lay_out(graph: &mut Graph) {
    let mut at = 0;
    let mut moves = 0;
    while at + 1 < graph.order.len() && moves < MAX_MOVES && !graph.effort.is_spent() {
        if let Some((join, end)) = conditional(graph, at) {
            graph.order[at + 1..end].rotate_left(join - at - 1);
            moves += 1;
        }
        at += 1;
    }
}

/// Whether a conditional branch skips the blocks up to another one, `join`, and they have a loop in them. Gives the positions of `join` and
/// of the end of the loop around.
fn conditional(graph: &Graph, at: usize) -> Option<(usize, usize)> {
    let depth = |index: usize| graph.blocks[graph.order[index]].depth;
    let around = depth(at);
    let Terminator::Branch(_, [then, otherwise]) = &graph.blocks[graph.order[at]].terminator else { return None };
    let next = graph.order[at + 1];
    let join = match (then.target == next, otherwise.target == next) {
        (true, false) => otherwise.target,
        (false, true) => then.target,
        _ => return None,
    };
    if around == 0 || graph.blocks[join].depth != around {
        return None;
    }
    let inside = |index: &usize| depth(*index) >= around;
    let end = (at + 1..graph.order.len()).find(|index| !inside(index)).unwrap_or(graph.order.len());
    graph.effort.spend(end - at);
    let join = (at + 2..end).find(|index| graph.order[*index] == join)?;
    let has_loop = (at + 1..join).any(|index| depth(index) > around);
    has_loop.then_some((join, end))
}
