//! The sequence of vector loops that comes before a scalar loop, with its guards.

use smallvec::{SmallVec, smallvec};

use super::candidate::{Candidate, Remainder, has_rows};
use super::factor::{Factor, Surroundings};
use super::guards::Guards;
use super::live_outs::{self, Users};
use super::vector_loop::{VectorLoop, mask};
use crate::analysis::cost::{Form, known_iterations, limits};
use crate::analysis::shapes::Role;
use crate::interp::code::loops::{LoopEstimate, Outcome, Transformation, VectorLoopShape};
use crate::ir::graph::{BlockIndex, Branch, Graph, Terminator};
use crate::ir::hash::Table;
use crate::ir::per_block::BlockSet;
use crate::ir::types::Width;

/// The vectors that a loop may have.
#[derive(Clone, Copy)]
struct Vectors {
    largest: Width,
    /// Several of them in an iteration of a vector loop.
    are_many: bool,
    /// With lanes of 8 bits, first.
    are_bytes: bool,
    /// Of at least so many lanes there may be one with a mask, at the end.
    masks: Option<Width>,
    /// Each iteration takes so long that two vectors are worth a loop of their own where four are too many.
    is_outer: bool,
}

/// The factors of the vector loops for a loop. Each does what the ones before have left; if there are masks, nothing is
/// left after the last one. Those that would not run are left out if the number of `iterations` is known, and what the
/// largest ones leave is one loop then. Gives also whether iterations may be left after all of them.
fn factors(of: Vectors, surroundings: Surroundings, iterations: Option<u64>) -> (SmallVec<[Factor; 4]>, bool) {
    let Vectors { largest, are_many, are_bytes, masks, is_outer } = of;
    let smallest = largest.min(Width::Eight);
    let (half, whole) = (Width::SixteenBytes, Width::ThirtyTwoBytes);
    let full = iterations.map(|iterations| (iterations / largest.lanes()) as usize);
    let mut all: SmallVec<[(Width, usize); 4]> = match (surroundings, full) {
        // More vectors would be more iterations than guards allow for.
        (Surroundings::Unknown, _) if are_bytes && are_many => smallvec![(whole, 2), (whole, 1), (half, 1)],
        (Surroundings::Unknown, _) if are_bytes => smallvec![(whole, 1), (half, 1)],
        (Surroundings::Unknown, Some(full)) if are_many => {
            smallvec![(largest, full.min(limits::CHAINS)), (largest, full % limits::CHAINS)]
        }
        // A vector depends on that of the iteration before, but not on the others: two are no worse than one that is
        // twice as long. One with a mask makes up for loops of two.
        (Surroundings::Unknown, None) if are_many && masks.is_some() && !is_outer => {
            smallvec![(largest, limits::CHAINS)]
        }
        (Surroundings::Unknown, None) if are_many => smallvec![(largest, limits::CHAINS), (largest, 2)],
        (Surroundings::Unknown, _) => smallvec![(largest, 1)],
        // The rows do not depend on each other.
        (Surroundings::Jammed { vectors }, _) => smallvec![(largest, vectors), (largest, 1)],
    };
    match masks {
        // One vector with a mask takes as long as one without. Bytes leave less than one.
        Some(_) if are_bytes => {}
        Some(_) => all.push((largest, 1)),
        None if are_many && smallest < largest && matches!(surroundings, Surroundings::Unknown) && !are_bytes => {
            all.extend([(smallest, 2), (smallest, 1)]);
        }
        None => all.push((smallest, 1)),
    }
    let factor = |width, vectors| Factor { width, vectors, is_masked: false };
    let all = all.into_iter().filter(|(_, vectors)| *vectors > 0);
    let mut factors: SmallVec<[Factor; 4]> = all.map(|(width, vectors)| factor(width, vectors)).collect();
    factors.dedup();
    let mut left = iterations;
    if let Some(left) = &mut left {
        factors.retain(|factor| {
            let is_reached = factor.iterations() <= *left;
            if is_reached {
                *left %= factor.iterations();
            }
            is_reached
        });
    }
    match (left, masks) {
        (_, None) | (Some(0), _) => {}
        (Some(left), _) if left == smallest.lanes() => factors.push(factor(smallest, 1)),
        (Some(left), Some(least)) => {
            let width = if left < smallest.lanes() { least } else { largest };
            factors.push(Factor { is_masked: true, ..factor(width, 1) });
        }
        (None, Some(_)) => factors.push(Factor { is_masked: true, ..factor(largest, 1) }),
    }
    let leaves_some = masks.is_none() && left != Some(0);
    (factors, leaves_some)
}

/// The factors of the vector loops for a candidate, and whether iterations may be left after all of them; with masks
/// only if no scalar loop is needed for its last iteration.
fn factors_of(
    graph: &Graph,
    candidate: &Candidate,
    surroundings: Surroundings,
    iterations: Option<u64>,
    can_mask: bool,
) -> (SmallVec<[Factor; 4]>, bool) {
    let Candidate { nest, shapes, nodes, largest, .. } = candidate;
    let masks = mask::least_width(graph, nest, shapes, *largest).filter(|_| can_mask);
    let has_rows = has_rows(graph, nest, shapes);
    let are_many = *nodes <= limits::UNROLLED_NODES && !shapes.sequential && !has_rows;
    let surroundings = if has_rows { surroundings.with_one_vector() } else { surroundings };
    let (are_bytes, is_outer) = (shapes.bytes.is_some(), nest.is_outer());
    let vectors = Vectors { largest: *largest, are_many, are_bytes, masks, is_outer };
    factors(vectors, surroundings, iterations)
}

/// The forms of those vector loops, for the cost model.
pub(super) fn forms(
    graph: &Graph,
    candidate: &Candidate,
    surroundings: Surroundings,
    iterations: Option<u64>,
    rows: u64,
) -> SmallVec<[Form; 4]> {
    let form =
        |Factor { width, vectors, is_masked }| Form { lanes: width.lanes(), vectors: vectors as u64, rows, is_masked };
    factors_of(graph, candidate, surroundings, iterations, true).0.into_iter().map(form).collect()
}

/// Adds guards and vector loops before a loop. None if that is not possible, and nothing that is reached has changed
/// then.
pub(super) fn vectorise(
    graph: &mut Graph,
    candidate: &Candidate,
    surroundings: Surroundings,
    users: Option<&Users>,
    estimate: Option<LoopEstimate>,
) -> Option<()> {
    let (blocks, decisions) = (graph.blocks.len(), graph.decisions.all.len());
    let made = make(graph, candidate, surroundings, users, estimate);
    if made.is_none() {
        graph.blocks.truncate(blocks);
        graph.decisions.all.truncate(decisions);
    }
    made
}

fn make(
    graph: &mut Graph,
    candidate: &Candidate,
    surroundings: Surroundings,
    users: Option<&Users>,
    estimate: Option<LoopEstimate>,
) -> Option<()> {
    let Candidate { nest, shapes, .. } = candidate;
    let scalar_loop = Remainder::new(graph, nest)?;
    let (remainder, state) = (scalar_loop.block, scalar_loop.state);
    let checks = graph.add_block();
    graph.blocks[checks].preheader_exit = Some(state);
    let (steps, initial_values) = match surroundings {
        Surroundings::Unknown => {
            let exit = scalar_loop.exit_of_guards(graph);
            let mut guards = Guards::new(graph, &shapes.defined, checks, exit);
            let steps = guards.check(nest)?;
            if shapes.moves_stores {
                guards.check_lanes_are_apart(nest)?;
            }
            (Some(steps), guards.initial_values())
        }
        Surroundings::Jammed { .. } => (None, Table::default()),
    };

    let outs = live_outs::live_outs(graph, nest, &shapes.defined, &initial_values, users);
    // Whether iterations are left is tested after the loop, so the bound has to be available there.
    let outs = outs.filter(|_| !shapes.defined.contains(nest.bound.index()));
    // Where the header does more than to test, the scalar loop makes its last run, after which there is no iteration.
    let outs = outs.filter(|_| !nest.has_header_effects(graph));
    let skips_remainder = outs.is_some();
    let mut current = nest.start.clone();
    let mut from = checks;
    // If other live-outs are needed, the scalar loop always does the last iteration.
    let leaves_last = !nest.is_top_tested && !skips_remainder;
    let iterations = known_iterations(graph, nest).map(|iterations| iterations - u64::from(leaves_last));
    let (factors, leaves_some) = factors_of(graph, candidate, surroundings, iterations, skips_remainder);
    if factors.is_empty() {
        return None;
    }
    let shape = |factor: &Factor| VectorLoopShape {
        iterations: factor.iterations(),
        lanes: factor.width.lanes(),
        is_masked: factor.is_masked,
    };
    let outcome = || Outcome::Vectorised(factors.iter().map(shape).collect());
    graph.decisions.note(candidate.op, Transformation::Vectors, estimate, outcome);
    for factor in factors {
        let vector_loop =
            VectorLoop { nest, shapes, initial_values: &initial_values, factor, steps, exit: state, skips_remainder };
        (from, current) = vector_loop.make(graph, from, &current)?;
    }
    graph.blocks[from].preheader_exit = None;
    let counts = steps.is_some();
    // A vector loop that cannot count its steps leaves them to the scalar loop. In a jammed loop, which counts them, it
    // makes all of its iterations.
    let reached = (leaves_some || counts || outs.is_none()).then_some(remainder);
    let after = match &outs {
        Some(outs) => {
            Some(live_outs::skip_remainder(graph, nest, (from, current), reached, outs, &initial_values, counts)?)
        }
        None => {
            graph.blocks[from].terminator =
                Terminator::Jump(Branch { target: remainder, args: current, ..Branch::default() });
            None
        }
    };

    let to_checks = Branch { target: checks, ..Branch::default() };
    graph.blocks[nest.preheader].terminator = match surroundings {
        Surroundings::Unknown => Terminator::Guarded([to_checks, scalar_loop.enter]),
        Surroundings::Jammed { .. } => Terminator::Jump(to_checks),
    };
    graph.blocks[nest.preheader].preheader_exit = None;
    // The block with the live-outs comes after the scalar loop.
    let made = graph.blocks.indices().skip(remainder.index() + 1).filter(|block| Some(*block) != after);
    let new: Vec<BlockIndex> = made.chain([remainder]).collect();
    let at = graph.order.iter().position(|block| *block == nest.preheader)?;
    graph.order.splice(at + 1..at + 1, new);
    if let Some(after) = after {
        let inside = live_outs::blocks_of(graph, nest);
        let at = graph.order.iter().rposition(|block| inside.contains(*block))?;
        graph.order.insert(at + 1, after);
    }
    if reached.is_none() {
        let mut dead = live_outs::blocks_of(graph, nest);
        dead.insert(remainder);
        remove_blocks(graph, &dead);
    }
    debug_assert!(!matches!(shapes.roles[nest.induction], Role::Reduction));
    Some(())
}

/// Removes blocks that are never reached. They stay in the table, with nothing in them.
fn remove_blocks(graph: &mut Graph, dead: &BlockSet) {
    graph.order.retain(|block| !dead.contains(*block));
    for block in dead.iter() {
        let content = &mut graph.blocks[block];
        content.nodes.clear();
        content.terminator = Terminator::Open;
        (content.preheader_exit, content.header_exit) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vectors(largest: Width, are_many: bool, masks: Option<Width>) -> Vectors {
        Vectors { largest, are_many, are_bytes: false, masks, is_outer: false }
    }

    fn iterations_of(largest: Width, are_many: bool, iterations: Option<u64>) -> Vec<u64> {
        let factors = factors(vectors(largest, are_many, None), Surroundings::Unknown, iterations).0;
        factors.into_iter().map(Factor::iterations).collect()
    }

    #[test]
    fn a_mask_leaves_nothing() {
        let (eight, sixteen) = (Width::Eight, Width::Sixteen);
        let factors = |largest, least, iterations| {
            let (factors, leaves_some) =
                factors(vectors(largest, true, Some(least)), Surroundings::Unknown, iterations);
            assert!(!leaves_some);
            let text = factors.iter().map(|factor| {
                let mask = if factor.is_masked { "m" } else { "" };
                format!("{}{mask}", factor.iterations())
            });
            text.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            (factors(sixteen, eight, None), factors(eight, eight, None)),
            ("64 16 16m".into(), "32 8 8m".into())
        );
        let known = [(14, "16m"), (5, "8m"), (8, "8"), (16, "16"), (24, "16 8"), (28, "16 16m"), (111, "64 32 16m")];
        for (iterations, expected) in known {
            assert_eq!(factors(sixteen, eight, Some(iterations)), expected, "{iterations} iterations");
        }
        assert_eq!((factors(eight, eight, Some(14)), factors(eight, eight, Some(24))), ("8 8m".into(), "24".into()));
        let four = Width::Four;
        assert_eq!(
            (factors(four, four, None), factors(four, four, Some(14)), factors(four, four, Some(3))),
            ("16 4 4m".into(), "12 4m".into(), "4m".into())
        );
        // Eight lanes may have no masks.
        assert_eq!(
            (factors(sixteen, sixteen, Some(5)), factors(sixteen, sixteen, Some(24))),
            ("16m".into(), "16 8".into())
        );
    }

    #[test]
    fn two_vectors_of_long_iterations_have_a_loop() {
        let of = Vectors { is_outer: true, ..vectors(Width::Eight, true, Some(Width::Eight)) };
        let all: Vec<u64> = factors(of, Surroundings::Unknown, None).0.into_iter().map(Factor::iterations).collect();
        assert_eq!(all, [32, 16, 8, 8]);
    }

    #[test]
    fn what_is_left_is_known() {
        let leaves_some = |iterations| factors(vectors(Width::Eight, true, None), Surroundings::Unknown, iterations).1;
        assert_eq!([None, Some(7), Some(24), Some(25)].map(leaves_some), [true, true, false, true]);
    }

    #[test]
    fn vector_loops_are_those_that_run() {
        let (eight, sixteen) = (Width::Eight, Width::Sixteen);
        assert_eq!(iterations_of(sixteen, true, None), [64, 32, 16, 8]);
        assert_eq!(iterations_of(eight, true, None), [32, 16, 8]);
        assert_eq!(iterations_of(sixteen, false, None), [16, 8]);
        assert_eq!(iterations_of(eight, false, None), [8]);
        assert_eq!(iterations_of(Width::Four, true, None), [16, 8, 4]);
        // Each does what the ones before have left.
        for (iterations, expected) in
            [(7, vec![]), (8, vec![8]), (24, vec![16, 8]), (64, vec![64]), (104, vec![64, 32, 8])]
        {
            assert_eq!(iterations_of(sixteen, true, Some(iterations)), expected, "{iterations} iterations");
        }
    }

    #[test]
    fn bytes_come_first() {
        let factors = |largest, unrolled, iterations| {
            let masks = (largest == Width::Sixteen).then_some(largest);
            let of = Vectors { are_bytes: true, ..vectors(largest, unrolled, masks) };
            let factors = factors(of, Surroundings::Unknown, iterations).0;
            assert!(factors.iter().all(|factor| factor.iterations() <= super::super::guards::MAX_LANES));
            let text = factors.iter().map(|factor| {
                let bytes = if factor.width.has_bytes() { "b" } else { "" };
                let mask = if factor.is_masked { "m" } else { "" };
                format!("{}{bytes}{mask}", factor.iterations())
            });
            text.collect::<Vec<_>>().join(" ")
        };
        let (eight, sixteen) = (Width::Eight, Width::Sixteen);
        assert_eq!(
            [(eight, true), (eight, false), (sixteen, true)].map(|(largest, many)| factors(largest, many, None)),
            ["64b 32b 16b 8", "32b 16b 8", "64b 32b 16b 16m"]
        );
        for (iterations, with_eight, with_sixteen) in
            [(8, "8", "8"), (14, "8", "16m"), (16, "16b", "16b"), (46, "32b 8", "32b 16m"), (48, "32b 16b", "32b 16b")]
        {
            let both = [eight, sixteen].map(|largest| factors(largest, true, Some(iterations)));
            assert_eq!(both, [with_eight, with_sixteen], "{iterations} iterations");
        }
    }
}
