//! Strip mining: a counted loop that divides its induction variable by loop-invariant numbers runs in strips in which
//! no quotient changes.
//!
//! ```text
//! for i in start..bound:                  i = start
//!   q = i / d; r = i % d           -->    while i < bound:
//!   out[q * n + r] = a[q]                   q = i / d; r = i - q * d; offset = r - i; end = min(bound, i + d - r)
//!                                           for i in i..end: out[q * n + (i + offset)] = a[q]
//! ```
//!
//! Compilers make such loops of nests of loops over the dimensions of a tensor. In a strip, quotients are
//! loop-invariant and remainders grow by one, so the inner loop has no division, and can be vectorised. With several
//! divisors, the quotients of a remainder among them, a strip ends where the first of its quotients changes. Dividends
//! and divisors are known not to be negative, so what rounds quotients toward negative infinity is folded, too.
//!
//! If all divisors of the induction variable are multiples of one, strips are rows of so many iterations, or parts of
//! them, and rows are counted: a strip does not wait for a division to know where its row ends, and the other quotients
//! are those of the row's number. A loop that also divides a sum, as `(i + 3) / d`, has strips that end inside rows.
//!
//! ```text
//! preheader --> guards --> header of strips --> strip --> header --> body --+     after --> header of strips
//!     |           |              |                           ^  |           |       ^
//!     |           |              |                           |  +-----------|-------+
//!     |           |              v                           +--------------+
//!     +-----------+--> preheader of the original loop
//! ```
//!
//! If the loop begins at zero, and divides by one number, of which its bound is a multiple, the strips are the rows of
//! a rectangle (`rectangles.rs`). Then the outer loop counts them, and the inner one begins at zero, so both together
//! are a nest of counted loops. Guards check the start, as code may be entered in the middle of the loop, and the
//! bound.
//!
//! ```text
//! for i in 0..n * d: out[(i % d) * n + i / d] = a[i]
//!     -->    for q in 0..n: for r in 0..d: out[r * n + q] = a[q * d + r]
//! ```
//!
//! The loop may also divide by multiples of that number: then the outer loop divides its own counter, and is split in
//! the same way.
//!
//! The guards make sure that divisors are positive and not small, that dividends are not negative, and that nothing
//! wraps. If one fails, the original loop does everything; else it does nothing but to find that no iteration is left,
//! so that the values that are used after it are its own. The inner loop is a copy of the original one (`copy.rs`),
//! with its checks, its side exits and its counted back edge. The back edge of the outer loop takes back the step that
//! it counts. The pipeline runs this once, before vectorisation.

mod candidates;
mod copy;
mod rectangles;
mod strips;

use crate::analysis::loop_nest::LoopNest;
use crate::interp::code::loops::{Outcome, Refusal, Transformation};
use crate::ir::graph::{BlockIndex, Graph, NodeId};
use crate::processor::features::Features;
use candidates::{Before, division, has_short_vectors, has_vectors, refusal};
use strips::split;

/// Most loops of a function that become strips: each takes time in proportion to the whole function.
const MAX_LOOPS: usize = 32;

/// Splits loops into strips where that is possible and worthwhile. Whether there was one.
pub(super) fn split_loops(graph: &mut Graph, features: Features) -> bool {
    if !graph.blocks.iter().any(|block| block.nodes.iter().any(|id| division(graph, *id).is_some())) {
        return false;
    }
    // Inner loops come later. A loop around one that was split is no nest any more.
    let order = graph.order.iter().rev().copied();
    let preheaders: Vec<BlockIndex> = order.filter(|block| graph.blocks[*block].preheader_exit.is_some()).collect();
    let has_vectors = !features.widths().is_empty();
    let (mut attempts, mut is_any_split) = (0, false);
    for preheader in preheaders {
        let Some(nest) = LoopNest::parse(graph, preheader) else { continue };
        let op = nest.op(graph);
        let outcome = match refusal(graph, &nest) {
            Some(refusal) => Err(refusal),
            // The iterations of an outer loop take long, so its divisions matter only if they keep it from being
            // vectorised.
            None if nest.is_outer() && !has_vectors => Err(Refusal::NotVectors),
            None if attempts == MAX_LOOPS => Err(Refusal::TooMany),
            None if !graph.effort.spend(2 * graph.nodes.len()) => Err(Refusal::NoEffort),
            None => {
                attempts += 1;
                try_split(graph, &nest)
            }
        };
        is_any_split |= outcome.is_ok();
        match outcome {
            Ok(transformation) => graph.decisions.note(op, transformation, None, || Outcome::Split),
            // Of a loop without divisions there is nothing to say.
            Err(Refusal::NoDivisions) => {}
            Err(refusal) => graph.decisions.refuse(op, Transformation::Strips, None, refusal),
        }
    }
    is_any_split
}

/// Splits a loop, and says into what. If that is not possible or not worthwhile, the graph is as it was, but for nodes
/// and exits without users.
fn try_split(graph: &mut Graph, nest: &LoopNest) -> Result<Transformation, Refusal> {
    let mut columns = rectangles::columns(graph, nest);
    // A rectangle that is known is one on every path, so nothing is lost if its loops are not long.
    let is_known = columns.is_some_and(|columns| rectangles::is_known(graph, nest, columns));
    // Rows around inner loops may share vectors, and be computed together then.
    let is_likely = |columns: &NodeId| nest.is_outer() && !is_known && rectangles::is_likely(graph, nest, *columns);
    if let Some(likely) = columns.filter(is_likely) {
        let before = Before::new(graph, nest);
        if rectangles::split(graph, nest, likely) {
            return Ok(Transformation::Rectangle);
        }
        before.restore(graph, nest);
        columns = None;
    }
    let mut has_strips = false;
    if !is_known {
        let before = Before::new(graph, nest);
        match split(graph, nest, None) {
            Some(split) => {
                // Corrections of quotients have become dead.
                super::dce::remove_dead_nodes(graph, true);
                let is_done = has_vectors(graph, split.strip) || has_short_vectors(graph, split.strip);
                if is_done || (columns.is_none() && !nest.is_outer()) {
                    return Ok(Transformation::Strips);
                }
                has_strips = true;
                before.restore(graph, nest);
            }
            None => before.restore(graph, nest),
        }
    }
    let refusal = if has_strips { Refusal::NoGain } else { Refusal::NotGuarded };
    let columns = columns.ok_or(refusal)?;
    let before = Before::new(graph, nest);
    if rectangles::split(graph, nest, columns) {
        return Ok(Transformation::Rectangle);
    }
    before.restore(graph, nest);
    // In an innermost loop, divisions are much of the time.
    let is_split = has_strips && !nest.is_outer() && split(graph, nest, None).is_some();
    if is_split {
        super::dce::remove_dead_nodes(graph, true);
    }
    if is_split { Ok(Transformation::Strips) } else { Err(refusal) }
}
