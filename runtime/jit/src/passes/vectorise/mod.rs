//! Vectorisation: iterations of a loop become lanes of vectors. An iteration of a vector loop computes as many
//! iterations of the scalar loop as one, two or four vectors have lanes.
//!
//! ```text
//! preheader --> guards --> vector loop --> exit --> vector loop --> exit --> preheader of the scalar loop
//!     |           |                                                              ^
//!     +-----------+--------------------------------------------------------------+
//! ```
//!
//! The guards make sure of everything that could go wrong inside: that all indices are in range, that inner loops run,
//! and that no iteration reads or writes what another one writes. If one fails, the scalar loop does everything; it
//! also does the iterations that are left over. So vector loops have no checks, and each lane computes what its
//! iteration would, in the same order: sums of floats are added up as the program does it. Only sums of `i32` are
//! reordered, which gives the same. If iterations of a loop around share vectors, several of them are computed together
//! (`unroll_and_jam`); a short loop and those around it become one (`collapse`). `choice` takes the cheapest of these
//! by the cost model. The pipeline runs this once, before LICM.

mod around;
mod candidate;
mod choice;
mod collapse;
#[cfg(test)]
mod decision_tests;
mod factor;
mod guarded_loop;
mod guards;
mod live_outs;
mod loop_sequence;
mod rows;
mod unroll_and_jam;
mod vector_loop;

use crate::analysis::loop_nest::op_of;
use crate::interp::code::loops::{Refusal, Transformation};
use crate::ir::graph::{BlockIndex, Graph};
use crate::ir::per_block::BlockSet;
use crate::processor::features::Features;
use candidate::Candidate;
use live_outs::Users;

/// Most loops of a function that are vectorised: each takes time in proportion to the whole function.
const MAX_LOOPS: usize = 128;
/// A function with more loops that can be vectorised keeps which blocks use their values.
const FEW_LOOPS: usize = 2;

/// Vectorises the loops for which that is possible and worthwhile. Whether there was one.
pub(super) fn vectorise_loops(graph: &mut Graph, features: Features) -> bool {
    let Some(largest) = features.widths().first() else { return false };
    let preheaders: Vec<BlockIndex> =
        graph.order.iter().copied().filter(|block| graph.blocks[*block].preheader_exit.is_some()).collect();
    let mut candidates: Vec<Candidate> = Vec::new();
    for preheader in preheaders.iter().copied() {
        match Candidate::new(graph, preheader, *largest) {
            Ok(candidate) => candidates.push(candidate),
            Err(refusal) => {
                let op = op_of(graph, preheader);
                graph.decisions.refuse(op, Transformation::Vectors, None, refusal);
            }
        }
    }
    candidates.sort_by_key(|candidate| candidate.rank);
    // About as many as the vector loops of one candidate have.
    graph.nodes.reserve(candidates.iter().map(|candidate| 4 * candidate.nodes).max().unwrap_or(0));
    // For a few loops, it is as quick to look at the whole function for each.
    let defined = candidates.iter().map(|candidate| &candidate.shapes.defined);
    let mut users = (candidates.len() > FEW_LOOPS).then(|| Users::new(graph, defined));
    let mut taken = BlockSet::new(graph);
    let mut count = 0;
    for candidate in candidates {
        // Each takes time in proportion to the whole function.
        let is_spent = count < MAX_LOOPS && !graph.effort.spend(graph.nodes.len());
        if count == MAX_LOOPS || is_spent {
            let refusal = if is_spent { Refusal::NoEffort } else { Refusal::TooMany };
            graph.decisions.refuse(candidate.op, Transformation::Vectors, None, refusal);
            continue;
        }
        // A loop in or around one that is vectorised stays as it is.
        if candidate.blocks.iter().any(|block| taken.contains(*block)) {
            graph.decisions.refuse(candidate.op, Transformation::Vectors, None, Refusal::InAnother);
            continue;
        }
        // The code after a loop that has been vectorised uses other values than before.
        let op = candidate.op;
        let again = if count > 0 { Candidate::new(graph, candidate.nest.preheader, *largest) } else { Ok(candidate) };
        let candidate = match again {
            Ok(candidate) => candidate,
            Err(refusal) => {
                graph.decisions.refuse(op, Transformation::Vectors, None, refusal);
                continue;
            }
        };
        if choice::transform(graph, &candidate, &preheaders, &mut users) {
            candidate.blocks.iter().for_each(|block| taken.insert(*block));
            count += 1;
        }
    }
    count > 0
}
