//! Block layout: moves cold loops out of line. It is the last pass.
//!
//! Blocks come in the order of the bytecode. A loop that runs only in some iterations of the loop around it is moved
//! after that one, so that the other iterations fall through: two jumps cost little beside the iterations of a loop.

use crate::ir::graph::{Graph, Terminator};
use crate::ir::per_block::PerBlock;

/// Functions with more conditional loops than this are left as they are.
const MAX_MOVES: usize = 256;

/// Moves loops that are conditional in another loop after that one.
pub(super) fn lay_out(graph: &mut Graph) {
    let mut position = PerBlock::new(graph, usize::MAX);
    graph.order.iter().enumerate().for_each(|(index, block)| position[*block] = index);
    let mut at = 0;
    let mut moves = 0;
    while at + 1 < graph.order.len() && moves < MAX_MOVES && !graph.effort.is_spent() {
        if let Some((join, end)) = conditional(graph, at, &position) {
            graph.order[at + 1..end].rotate_left(join - at - 1);
            (at + 1..end).for_each(|index| position[graph.order[index]] = index);
            moves += 1;
        }
        at += 1;
    }
}

/// Whether a conditional branch skips the blocks up to another one, `join`, and they have a loop in them. Gives the
/// positions of `join` and of the end of the loop around.
fn conditional(graph: &Graph, at: usize, position: &PerBlock<usize>) -> Option<(usize, usize)> {
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
    let join = Some(position[join]).filter(|join| (at + 2..graph.order.len()).contains(join))?;
    if !graph.effort.spend(join - at) {
        return None;
    }
    let (mut is_inside, mut has_loop) = (true, false);
    for index in at + 1..join {
        is_inside &= depth(index) >= around;
        has_loop |= depth(index) > around;
    }
    if !is_inside || !has_loop {
        return None;
    }
    let end = (join..graph.order.len()).find(|index| depth(*index) < around).unwrap_or(graph.order.len());
    Some((join, end))
}
