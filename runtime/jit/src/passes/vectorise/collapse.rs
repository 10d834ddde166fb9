//! Collapsed loops: a short loop and those around it become one, if what they access lies as one row after the other.
//!
//! ```text
//! for i in 0..m:                                     i = 0
//!   for j in 0..5:                           -->     for j in 0..5 * m:
//!     out[5*i + j] = max(a[5*i + j], 0)                out[5*i + j] = max(a[5*i + j], 0)
//! ```
//!
//! An index that grows by as much in an iteration of the loop around as in all iterations of the short one together is
//! the same number in both forms, so each element is computed as before, and vectors of several rows are full. Steps
//! are counted at once for all iterations. As in a jammed loop, guards stand before it, and the loop that was there
//! runs if one of them fails, or if the steps are not left. The vectoriser calls this for the loops that it takes.

use smallvec::SmallVec;

use super::around::{LoopsAround, Outer};
use super::candidate::{Candidate, Remainder, attempt};
use super::factor::Surroundings;
use super::guarded_loop::{GuardedLoop, guard};
use super::guards::Guards;
use super::loop_sequence::vectorise;
use super::rows::{Rows, RowsBuilder};
use crate::analysis::cost::{Trip, known_iterations, limits};
use crate::analysis::loop_nest::{Item, addend};
use crate::analysis::shapes::{Role, Shape, access};
use crate::generated::vm::primitive::Primitive;
use crate::interp::code::loops::{LoopEstimate, Outcome, Refusal, Transformation};
use crate::ir::graph::{BlockIndex, Graph, Kind, NodeId, Nodes};
use crate::ir::types::{Scalar, Ty};

/// The surroundings of the one loop. Without steps to count, it has little else to do, and more vectors would take
/// longer to compile.
pub(super) const COLLAPSED: Surroundings = Surroundings::Jammed { vectors: 2 };

/// A loop around the candidate that becomes one with it.
struct Level<'a> {
    outer: &'a Outer,
    /// Not of the outermost one, if its bound is known only when it runs.
    iterations: Option<u64>,
}

/// The loops that may become one.
pub(super) struct Collapse<'a> {
    /// Those around the candidate, the innermost one first.
    levels: SmallVec<[Level<'a>; limits::LEVELS]>,
    /// How the values of the outermost one differ between its iterations.
    rows: &'a Rows,
    /// The iterations of all of them, as far as they are known.
    pub iterations: u64,
}

impl<'a> Collapse<'a> {
    /// The loop of a candidate and those around it, if they can become one.
    pub fn new(graph: &Graph, candidate: &Candidate, around: &'a LoopsAround) -> Result<Collapse<'a>, Refusal> {
        let own = known_iterations(graph, &candidate.nest).filter(|own| *own < limits::COLLAPSED_ITERATIONS);
        let own = own.ok_or(Refusal::TooManyIterations)?;
        if candidate.shapes.sequential
            || candidate.shapes.sums
            || candidate.shapes.moves_stores
            || candidate.shapes.bytes.is_some()
            || !candidate.nest.is_top_tested
            || candidate.shapes.roles.contains(&Role::Reduction)
        {
            return Err(Refusal::OtherLanes);
        }
        let mut levels: SmallVec<[Level; limits::LEVELS]> = SmallVec::new();
        let mut outermost = None;
        let mut all = own;
        let mut refusal = Refusal::NotNested;
        for number in 0..around.len().min(limits::LEVELS) {
            let inside = levels.last().map_or(candidate.nest.preheader, |level| level.outer.nest.preheader);
            let (outer, rows) = match level(graph, around.get(graph, number), inside, candidate, all) {
                Ok(level) => level,
                Err(reason) => {
                    refusal = reason;
                    break;
                }
            };
            let known = known_iterations(graph, &outer.nest);
            refusal = Refusal::TooManyIterations;
            if let Some(known) = known {
                let product = all.checked_mul(known).filter(|product| *product <= limits::ITERATIONS_AT_ONCE);
                let Some(product) = product else { break };
                all = product;
            } else if outer.nest.step != 1 || limits::ITERATIONS_AT_ONCE / all < 2 {
                break;
            }
            levels.push(Level { outer, iterations: known });
            outermost = Some(rows);
            if known.is_none() {
                break;
            }
        }
        Ok(Collapse { levels, rows: outermost.ok_or(refusal)?, iterations: all })
    }

    /// The iterations of all loops together, known or assumed.
    pub fn trip(&self) -> Trip {
        match self.levels.last() {
            Some(Level { outer, iterations: None }) => {
                Trip { iterations: self.iterations.saturating_mul(outer.trip.iterations), is_known: false }
            }
            _ => Trip { iterations: self.iterations, is_known: true },
        }
    }

    /// Makes one loop, with vectors. None if that is not possible, and nothing that is reached has changed then.
    pub fn make(&self, graph: &mut Graph, candidate: &Candidate, estimate: Option<LoopEstimate>) -> Option<()> {
        attempt(graph, |graph| make(graph, self, candidate, estimate))
    }
}

/// A loop, if there is nothing in it but the loop `inside`, and if all indices of the candidate grow by as much in one
/// of its iterations as in `inner` iterations of the candidate.
fn level<'a>(
    graph: &Graph,
    outer: Option<&'a Outer>,
    inside: BlockIndex,
    candidate: &Candidate,
    inner: u64,
) -> Result<(&'a Outer, &'a Rows), Refusal> {
    let outer = outer.ok_or(Refusal::NotNested)?;
    let nest = &outer.nest;
    let mut loops = nest.body.iter().filter_map(|item| match item {
        Item::Loop(own) => Some(own.preheader),
        Item::Nodes(_) => None,
    });
    if loops.next() != Some(inside) || loops.next().is_some() || !nest.is_top_tested {
        return Err(Refusal::NotNested);
    }
    let own = nest.body.iter().filter_map(|item| match item {
        Item::Nodes(block) => Some(*block),
        Item::Loop(_) => None,
    });
    for block in own {
        if graph.blocks[block].nodes.iter().any(|id| access(graph, *id).is_some()) {
            return Err(Refusal::NotNested);
        }
    }
    let rows = outer.rows(graph).ok_or(Refusal::DependentRows)?;
    let mut fits = true;
    candidate.nest.for_each_node(graph, &mut |id| {
        fits &= match access(graph, id) {
            Some(((_, index), ..)) => grows_alike(rows, candidate, index, inner),
            None => is_independent(graph, rows, candidate, id),
        };
    });
    if fits { Ok((outer, rows)) } else { Err(Refusal::NotRows) }
}

/// Whether an index grows by as much in an iteration of the loop around as in so many of the candidate.
fn grows_alike(rows: &Rows, candidate: &Candidate, index: NodeId, inner: u64) -> bool {
    let by = match candidate.shapes.get(index) {
        Shape::Uniform => 0,
        Shape::Strided(by) => by as u64,
        Shape::Varying | Shape::Sequential | Shape::Unknown => return false,
    };
    rows.stride(index) == Some(by.wrapping_mul(inner))
}

/// Whether a node depends on the iteration of the loop around by what it loads, or as a part of an index.
fn is_independent(graph: &Graph, rows: &Rows, candidate: &Candidate, id: NodeId) -> bool {
    let node = graph.node(id);
    // Guards take the place of checks, and vector loops have tests of their own.
    if matches!(node.kind, Kind::InRange) || id == candidate.nest.test || candidate.shapes.get(id) == Shape::Unknown {
        return true;
    }
    let is_part = |arg: &NodeId| rows.varies(*arg) && rows.stride(*arg).is_some();
    rows.stride(id).is_some() || !node.args.iter().any(is_part)
}

fn make(graph: &mut Graph, of: &Collapse<'_>, candidate: &Candidate, estimate: Option<LoopEstimate>) -> Option<()> {
    let Collapse { levels, rows, iterations: all } = of;
    let (rows, all) = (*rows, *all);
    let outermost = levels.last()?;
    let outer = &outermost.outer.nest;
    let scalar_loop = Remainder::new(graph, outer)?;
    let exit = scalar_loop.exit_of_guards(graph);
    let Remainder { block: remainder, state, enter } = scalar_loop;
    let checks = graph.add_block();
    let mut guards = Guards::new(graph, &rows.defined, checks, exit);
    let steps = guards.check(outer)?;
    guards.check_iterations_are_apart(outer)?;
    let initial_values = guards.initial_values();
    let steps = graph.constant(steps)?;
    let i64 = Ty::Scalar(Scalar::I64);
    let first = |id: NodeId| initial_values.get(&id).copied().unwrap_or(id);
    // How often the outermost loop runs, all together, and the steps of that.
    let (times, total, steps) = match outermost.iterations {
        Some(times) => {
            let steps = steps.checked_mul(times).filter(|steps| *steps < limits::STEPS_AT_ONCE)?;
            [times, all, steps].map(|bits| graph.add_constant(Scalar::I64, bits)).into()
        }
        None => {
            let args = [first(outer.bound), first(outer.start[outer.induction])];
            let times = graph.add_node(checks, Kind::Primitive(Primitive::WrappingSub, Scalar::I64), i64, &args);
            let most = (limits::ITERATIONS_AT_ONCE / all).min(limits::STEPS_AT_ONCE / steps.max(1));
            let most = graph.add_constant(Scalar::I64, most);
            let check = graph.add_node(checks, Kind::InRange, Ty::Nothing, &[times, most]);
            graph.nodes[check.index()].exit = Some(exit);
            let mut product = |bits: u64| {
                let bits = graph.add_constant(Scalar::I64, bits);
                graph.add_node(checks, Kind::Primitive(Primitive::WrappingMul, Scalar::I64), i64, &[times, bits])
            };
            (times, product(all), product(steps))
        }
    };

    // A loop that runs once counts them. What is in it begins where the loops did, and does not need its parameters.
    let made = GuardedLoop::begin(graph, outer, (checks, state), steps);
    // Each loop around runs once, and the candidate as often as all together.
    let mut bounds = Vec::new();
    for Level { outer, .. } in &levels[..levels.len() - 1] {
        let nest = &outer.nest;
        let after_first = graph.constant(nest.start[nest.induction])?.checked_add(nest.step)?;
        bounds.push((nest.header, graph.add_constant(Scalar::I64, after_first)));
    }
    if candidate.nest.step != 1 || graph.constant(candidate.nest.start[candidate.nest.induction])? != 0 {
        return None;
    }
    bounds.push((candidate.nest.header, total));
    let mut builder = RowsBuilder::new(graph, rows, &initial_values, 1, made.body, state);
    builder.set_bounds(bounds);
    let (_, preheader) = builder.build(outer, &outer.start, candidate.nest.header)?;
    let last = builder.block();
    let mut after = Nodes::new();
    for (index, parameter) in graph.blocks[outer.header].parameters.clone().iter().enumerate() {
        let by = addend(graph, *parameter, outer.next[index])?;
        let grows = graph.add_node(last, Kind::Primitive(Primitive::WrappingMul, Scalar::I64), i64, &[by, times]);
        let sum = Kind::Primitive(Primitive::WrappingAdd, Scalar::I64);
        after.push(graph.add_node(last, sum, i64, &[outer.start[index], grows]));
    }
    made.end(graph, outer, first(outer.bound), (last, after), remainder)?;

    let outcome = || Outcome::Collapsed { loops: levels.len(), iterations: all };
    graph.decisions.note(candidate.op, Transformation::Collapse, estimate, outcome);
    let copy = Candidate::new(graph, preheader, candidate.largest).ok()?;
    let collapsed = Candidate { op: candidate.op, ..copy };
    vectorise(graph, &collapsed, COLLAPSED, None, None)?;
    guard(graph, outer, checks, enter);
    Some(())
}
