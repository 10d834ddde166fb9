//! Unroll and jam: several iterations of a loop around a vectorised one are computed together, so that what they load
//! is loaded once for all.
//!
//! In a product of matrices, the vectors of `b` are the same for each row of `a`:
//!
//! ```text
//! for i in 0..m:                                     for i in 0..m by 4:
//!   for j in 0..n by 16:                               for j in 0..n by 16:
//!     c0 = c[i,j..j+16]                                  c0, c1, c2, c3 = c[i..i+4,j..j+16]
//!     for k in 0..l:                           -->       for k in 0..l:
//!       c0 += splat(a[i,k]) * b[k,j..j+16]                 row = b[k,j..j+16]
//!                                                          c0 += splat(a[i,k]) * row
//!                                                          ...
//!                                                          c3 += splat(a[i+3,k]) * row
//!     c[i,j..j+16] = c0                                  c[i..i+4,j..j+16] = c0, c1, c2, c3
//! ```
//!
//! This makes the jammed loop as a scalar one, before the vectoriser makes vectors of the loop over `j` in it. It
//! stands between the preheader of the loop over `i` and that loop, which is its remainder, and is reached if guards
//! for all iterations hold, as those of vector loops. One more makes sure that no two iterations of it store to one
//! element. So nothing in it is checked, an element is the same whichever iteration comes first, and each row adds up
//! its own sums in the order of the program. The vectoriser calls this for the loops that it takes.

#[cfg(test)]
mod tests;

use super::around::{LoopsAround, Outer, is_directly_around};
use super::candidate::{Candidate, Remainder, attempt};
use super::factor::Surroundings;
use super::guarded_loop::{GuardedLoop, guard};
use super::guards::Guards;
use super::loop_sequence::vectorise;
use super::rows::{Rows, RowsBuilder};
use crate::analysis::cost::{known_iterations, limits};
use crate::analysis::loop_nest::LoopNest;
use crate::analysis::shapes::{Role, Shape, access};
use crate::generated::vm::primitive::Primitive;
use crate::interp::code::loops::{LoopEstimate, Outcome, Refusal, Transformation};
use crate::ir::graph::{Graph, Kind};
use crate::ir::types::{Scalar, Ty};

/// The factors of unrolling: the rows, and the vectors of each row in an iteration of the vector loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unrolling {
    pub rows: u64,
    pub vectors: usize,
}

/// A loop around a candidate that may be jammed.
pub(super) struct Jam<'a> {
    pub outer: &'a Outer,
    /// How its values differ between its iterations.
    pub rows: &'a Rows,
    pub unrolling: Unrolling,
    /// No iteration is left over, if the guards hold.
    pub leaves_nothing: bool,
}

impl<'a> Jam<'a> {
    /// The closest loop around that can be jammed, if its iterations share vectors or if the candidate is short.
    pub fn new(graph: &Graph, candidate: &Candidate, around: &'a LoopsAround) -> Result<Jam<'a>, Refusal> {
        // Guards of a short loop take as long as its vectors, and those of a jammed one stand for all rows.
        let is_short = known_iterations(graph, &candidate.nest).is_some_and(|count| count <= limits::SHORT)
            && !candidate.shapes.roles.contains(&Role::Reduction);
        if !(candidate.nest.is_outer() || is_short)
            || candidate.shapes.sequential
            || candidate.shapes.sums
            || candidate.shapes.calls && !is_short
            || candidate.shapes.moves_stores
            // More lanes save more than rows that share vectors.
            || candidate.shapes.bytes.is_some()
        {
            return Err(if candidate.shapes.sequential { Refusal::Sequential } else { Refusal::OtherLanes });
        }
        let mut refusal = Refusal::NotNested;
        // A loop that is around others can only be jammed if they can be.
        for number in 0..around.len() {
            let outer = around.get(graph, number).filter(|outer| is_directly_around(&outer.nest, &candidate.nest));
            let outer = outer.ok_or(refusal)?;
            if outer.nest.count_nodes(graph) > limits::JAMMED_NODES {
                return Err(Refusal::TooLarge);
            }
            refusal = Refusal::DependentRows;
            let Some(rows) = outer.rows(graph) else { continue };
            let shares = shares_vectors(graph, candidate, rows);
            refusal = Refusal::SharesNothing;
            if !is_short && !shares {
                continue;
            }
            // Rows that share nothing are no faster for their number, unless there are no others.
            let all = known_iterations(graph, &outer.nest);
            let are_all = all.is_some_and(|all| all <= limits::ROWS);
            let most = if shares || are_all { limits::ROWS } else { limits::FEW_ROWS };
            let unrolling = unrolling(graph, &outer.nest, candidate, most).ok_or(Refusal::NoRegisters)?;
            let all = all.filter(|_| outer.nest.is_top_tested);
            let leaves_nothing = all.is_some_and(|all| all.is_multiple_of(unrolling.rows));
            return Ok(Jam { outer, rows, unrolling, leaves_nothing });
        }
        Err(refusal)
    }

    /// Makes the jammed loop, with vectors. None if that is not possible, and nothing that is reached has changed then.
    pub fn make(&self, graph: &mut Graph, candidate: &Candidate, estimate: Option<LoopEstimate>) -> Option<()> {
        attempt(graph, |graph| make(graph, self, candidate, estimate))
    }
}

/// Whether a vector that the candidate loads is the same in all rows.
fn shares_vectors(graph: &Graph, candidate: &Candidate, rows: &Rows) -> bool {
    let mut shares = false;
    candidate.nest.for_each_node(graph, &mut |id| {
        let is_load = matches!(access(graph, id), Some((.., false)));
        shares |= is_load && candidate.shapes.get(id) == Shape::Varying && !rows.varies(id);
    });
    shares
}

/// By what to unroll, so that what inner loops carry stays in registers: to so many rows at most. None if that is
/// nothing.
fn unrolling(graph: &Graph, outer: &LoopNest, candidate: &Candidate, most: u64) -> Option<Unrolling> {
    let Candidate { nest, shapes, largest, .. } = candidate;
    let (mut carried, mut known) = (1, true);
    nest.for_each_loop(&mut |inner| {
        if inner.header == nest.header {
            return;
        }
        let elements = shapes.elements(graph, inner).map(|elements| elements.len());
        known &= elements.is_some();
        let parameters = graph.blocks[inner.header].parameters.iter();
        let parameters = parameters.filter(|parameter| shapes.get(**parameter) == Shape::Varying).count();
        carried = carried.max((elements.unwrap_or(0) + parameters) as u64);
    });
    if !known {
        return None;
    }
    // A gather takes longer than all else, so it is shared by as many rows as possible; and so is a vector if a row has
    // only one.
    let fit = known_iterations(graph, nest).map_or(limits::VECTORS, |iterations| iterations / largest.lanes());
    let fit = if shapes.gathers { 1 } else { fit.clamp(1, limits::VECTORS) };
    // A call saves all vectors.
    let max_carried = if shapes.calls { 2 } else { limits::carried(*largest) };
    // Rows of several vectors share what is splat, and consecutive vectors are in few pages.
    let most = (max_carried / carried).min((max_carried / fit).clamp(limits::FEW_ROWS, most));
    let rows = match known_iterations(graph, outer) {
        None => Some(most),
        Some(all) => {
            // The last one is left over if the test is at the end.
            let all = all.saturating_sub(u64::from(!outer.is_top_tested));
            // Shared loads are made once for all rows, and again for each iteration that is left over.
            (2..=most.min(all)).rev().min_by_key(|rows| all / rows + all % rows)
        }
    };
    let rows = rows.filter(|rows| *rows > 1)?;
    let vectors = (max_carried / (carried * rows)).clamp(1, fit);
    Some(Unrolling { rows, vectors: vectors as usize })
}

fn make(graph: &mut Graph, of: &Jam<'_>, candidate: &Candidate, estimate: Option<LoopEstimate>) -> Option<()> {
    let Jam { outer: Outer { nest: outer, .. }, rows, unrolling, .. } = *of;
    let scalar_loop = Remainder::new(graph, outer)?;
    let exit = scalar_loop.exit_of_guards(graph);
    let Remainder { block: remainder, state, enter } = scalar_loop;
    let checks = graph.add_block();
    let mut guards = Guards::new(graph, &rows.defined, checks, exit);
    let steps = guards.check(outer)?;
    guards.check_iterations_are_apart(outer)?;
    let initial_values = guards.initial_values();

    // The steps of all rows, and where fewer iterations are left than there are rows.
    let i64 = Ty::Scalar(Scalar::I64);
    let number = graph.add_constant(Scalar::I64, unrolling.rows);
    let steps = match graph.constant(steps) {
        Some(steps) => graph.add_constant(Scalar::I64, steps.checked_mul(unrolling.rows)?),
        None => graph.add_node(checks, Kind::Primitive(Primitive::WrappingMul, Scalar::I64), i64, &[steps, number]),
    };
    let bound = initial_values.get(&outer.bound).copied().unwrap_or(outer.bound);
    // The last iteration is left over if the test is at the end.
    let others = unrolling.rows - u64::from(outer.is_top_tested);
    let back = graph.add_constant(Scalar::I64, others.checked_mul(outer.step)?);
    let limit = graph.add_node(checks, Kind::Primitive(Primitive::WrappingSub, Scalar::I64), i64, &[bound, back]);

    let made = GuardedLoop::begin(graph, outer, (checks, state), steps);
    let mut builder = RowsBuilder::new(graph, rows, &initial_values, unrolling.rows, made.body, state);
    let (next, preheader) = builder.build(outer, &made.parameters, candidate.nest.header)?;
    let latch = builder.block();
    made.end(graph, outer, limit, (latch, next), remainder)?;

    let Unrolling { rows, vectors } = unrolling;
    let op = outer.op(graph);
    graph.decisions.note(op, Transformation::Jam, estimate, || Outcome::Jammed { rows, vectors });
    let copy = Candidate::new(graph, preheader, candidate.largest).ok()?;
    let jammed = Candidate { op: candidate.op, ..copy };
    debug_assert_eq!(jammed.shapes.is_wide, candidate.shapes.is_wide, "rows have the same types");
    vectorise(graph, &jammed, Surroundings::Jammed { vectors }, None, None)?;
    guard(graph, outer, checks, enter);
    Some(())
}
