//! The choice among the forms that a candidate can have: one loop with those around it, rows of a loop around it, or
//! vectors alone. The cost model says what each costs; they are made from the cheapest one on, until one is possible.

use super::around::LoopsAround;
use super::candidate::Candidate;
use super::collapse::{COLLAPSED, Collapse};
use super::factor::Surroundings;
use super::live_outs::Users;
use super::loop_sequence::{forms, vectorise};
use super::unroll_and_jam::{Jam, Unrolling};
use crate::analysis::cost::{LoopCost, Trip, known_iterations};
use crate::interp::code::loops::{LoopEstimate, Refusal, Transformation};
use crate::ir::graph::{BlockIndex, Graph};

/// A form.
enum Form<'a> {
    Collapse(Collapse<'a>),
    Jam(Jam<'a>),
    Vectors,
}

impl Form<'_> {
    /// The weight of an estimate. Rows of three drawn kernels were estimated at 0.7 to 0.8 of one loop, and took 1.00
    /// to 1.14 of its time. Loops that became one have the least code and one set of guards, and rows fewer guards
    /// than vectors alone, so another form has to be cheaper by more than estimates err.
    fn weight(&self) -> u64 {
        match self {
            Form::Collapse(_) => 2,
            Form::Jam(_) => 3,
            Form::Vectors => 4,
        }
    }

    fn transformation(&self) -> Transformation {
        match self {
            Form::Collapse(_) => Transformation::Collapse,
            Form::Jam(_) => Transformation::Jam,
            Form::Vectors => Transformation::Vectors,
        }
    }
}

/// Makes the cheapest form that is possible. Whether there is one. `preheaders` are those of all loops.
pub(super) fn transform(
    graph: &mut Graph,
    candidate: &Candidate,
    preheaders: &[BlockIndex],
    users: &mut Option<Users>,
) -> bool {
    let around = LoopsAround::new(candidate, preheaders);
    let mut all = Vec::new();
    match Collapse::new(graph, candidate, &around) {
        Ok(collapse) => all.push(Form::Collapse(collapse)),
        Err(refusal) => graph.decisions.refuse(candidate.op, Transformation::Collapse, None, refusal),
    }
    match Jam::new(graph, candidate, &around) {
        Ok(jam) => all.push(Form::Jam(jam)),
        Err(refusal) => graph.decisions.refuse(candidate.op, Transformation::Jam, None, refusal),
    }
    all.push(Form::Vectors);
    // With one form there is nothing to choose, and its cost is only for people who ask.
    let all: Vec<(Form<'_>, Option<LoopEstimate>)> = match &all[..] {
        [Form::Vectors] if !graph.decisions.are_wanted => vec![(Form::Vectors, None)],
        _ => priced(graph, candidate, all),
    };
    let mut left = all.iter();
    for (form, estimate) in left.by_ref() {
        let is_made = match form {
            Form::Collapse(collapse) => collapse.make(graph, candidate, *estimate).is_some(),
            Form::Jam(jam) => {
                let is_made = jam.make(graph, candidate, *estimate).is_some();
                // Where it does everything, the loop that was there runs only if a guard fails, or near a limit.
                if is_made && !jam.leaves_nothing {
                    users.iter_mut().for_each(|users| users.update(graph));
                    let _ = vectorise(graph, candidate, Surroundings::Unknown, users.as_ref(), None);
                }
                is_made
            }
            Form::Vectors => {
                users.iter_mut().for_each(|users| users.update(graph));
                vectorise(graph, candidate, Surroundings::Unknown, users.as_ref(), *estimate).is_some()
            }
        };
        if is_made {
            for (form, estimate) in left {
                graph.decisions.refuse(candidate.op, form.transformation(), *estimate, Refusal::Costlier);
            }
            users.iter_mut().for_each(|users| users.update(graph));
            return true;
        }
        graph.decisions.refuse(candidate.op, form.transformation(), *estimate, Refusal::NotGuarded);
    }
    false
}

/// The forms with what they cost, the cheapest one first.
fn priced<'a>(graph: &Graph, candidate: &Candidate, all: Vec<Form<'a>>) -> Vec<(Form<'a>, Option<LoopEstimate>)> {
    let rows = all.iter().find_map(|form| match form {
        Form::Jam(jam) => Some(jam.rows),
        Form::Collapse(_) | Form::Vectors => None,
    });
    let is_shared = |id| rows.is_some_and(|rows| !rows.varies(id));
    let cost = LoopCost::new(graph, &candidate.nest, &candidate.shapes, &is_shared);
    let Trip { iterations, is_known } = cost.trip();
    let known = known_iterations(graph, &candidate.nest);
    let of = |surroundings, known, rows| forms(graph, candidate, surroundings, known, rows);
    let alone = cost.guards().saturating_add(cost.vectors(of(Surroundings::Unknown, known, 1), iterations));
    let mut priced: Vec<(Form<'a>, u64)> = Vec::new();
    for form in all {
        let (total, of_iterations) = match &form {
            Form::Vectors => (alone, iterations),
            Form::Collapse(collapse) => {
                let trip = collapse.trip();
                let known = Some(trip.iterations).filter(|_| trip.is_known);
                (cost.guarded(1, cost.vectors(of(COLLAPSED, known, 1), trip.iterations)), trip.iterations)
            }
            Form::Jam(Jam { outer, unrolling: Unrolling { rows, vectors }, .. }) => {
                let surroundings = Surroundings::Jammed { vectors: *vectors };
                let at_once = cost.vectors(of(surroundings, known, *rows), iterations);
                let (whole, left) = (outer.trip.iterations / rows, outer.trip.iterations % rows);
                let total = cost.guarded(whole, at_once).saturating_add(left.saturating_mul(alone));
                (total, iterations.saturating_mul(outer.trip.iterations))
            }
        };
        priced.push((form, per_thousand(total, of_iterations)));
    }
    priced.sort_by_key(|(form, transformed)| u128::from(*transformed) * u128::from(form.weight()));
    let scalar = per_thousand(cost.scalar(iterations), iterations);
    let estimate = |transformed| LoopEstimate { iterations, is_known, scalar, transformed };
    priced.into_iter().map(|(form, transformed)| (form, Some(estimate(transformed)))).collect()
}

/// The cost of a thousand iterations, if so many cost `total`.
fn per_thousand(total: u64, iterations: u64) -> u64 {
    (u128::from(total) * 1000 / u128::from(iterations.max(1))).try_into().unwrap_or(u64::MAX)
}
