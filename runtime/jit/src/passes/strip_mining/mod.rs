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

mod copy;
mod rectangles;

use smallvec::SmallVec;

use crate::analysis::loop_nest::{Item, LoopNest};
use crate::analysis::shapes::Shapes;
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{Block, BlockIndex, Branch, Exit, ExitId, Graph, Kind, NodeId, Nodes, Terminator};
use crate::ir::hash::Table;
use crate::ir::types::{Scalar, Ty};
use crate::processor::features::Features;
use copy::{Copier, Rectangle};

/// Most loops of a function that become strips: each takes time in proportion to the whole function.
const MAX_LOOPS: usize = 32;
/// Most nodes of a loop that is copied.
const MAX_NODES: usize = 400;
/// Fewest iterations of a whole strip: those of the shortest vector.
const MIN_STRIP: u64 = 8;
/// Starts, bounds and divisors are less than this, so that no sum of a few of them wraps.
const SMALL: u64 = 1 << 31;
/// Dividends are less than this in the first iteration.
const LARGE: u64 = 1 << 62;

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
        // The iterations of an outer loop take long, so its divisions matter only if they keep it from being
        // vectorised.
        if !is_candidate(graph, &nest) || (nest.is_outer() && !has_vectors) {
            continue;
        }
        if attempts == MAX_LOOPS || !graph.effort.spend(2 * graph.nodes.len()) {
            break;
        }
        attempts += 1;
        is_any_split |= try_split(graph, &nest);
    }
    is_any_split
}

/// Which division a node is, if it is one of `i64`: whether its value is the quotient, and not the remainder.
fn division(graph: &Graph, id: NodeId) -> Option<bool> {
    match graph.node(id).kind {
        Kind::Primitive(Primitive::CheckedDivS | Primitive::CheckedDivU, Scalar::I64) => Some(true),
        Kind::Primitive(Primitive::CheckedRemS | Primitive::CheckedRemU, Scalar::I64) => Some(false),
        _ => None,
    }
}

/// Whether a loop counts up by one, and divides anything in each iteration. Each strip ends with a run of the header of
/// its own, so a header that stores would store once more than it may.
fn is_candidate(graph: &Graph, nest: &LoopNest) -> bool {
    let mut nodes = 0;
    nest.for_each_node(graph, &mut |_| nodes += 1);
    let divides = nest.body.iter().any(|item| match item {
        Item::Nodes(block) => graph.blocks[*block].nodes.iter().any(|id| division(graph, *id).is_some()),
        Item::Loop(_) => false,
    });
    divides && nest.is_top_tested && !nest.has_header_effects(graph) && nest.step == 1 && nodes <= MAX_NODES
}

/// Splits a loop. If that is not possible or not worthwhile, the graph is as it was, but for nodes and exits without a
/// use.
fn try_split(graph: &mut Graph, nest: &LoopNest) -> bool {
    let mut columns = rectangles::columns(graph, nest);
    // A rectangle that is known is one on every path, so nothing is lost if its loops are not long.
    let is_known = columns.is_some_and(|columns| rectangles::is_known(graph, nest, columns));
    // Rows around inner loops may share vectors, and be computed together then.
    let is_likely = |columns: &NodeId| nest.is_outer() && !is_known && rectangles::is_likely(graph, nest, *columns);
    if let Some(likely) = columns.filter(is_likely) {
        let before = Before::new(graph, nest);
        if rectangles::split(graph, nest, likely) {
            return true;
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
                if has_vectors(graph, split.strip) || (columns.is_none() && !nest.is_outer()) {
                    return true;
                }
                has_strips = true;
                before.restore(graph, nest);
            }
            None => before.restore(graph, nest),
        }
    }
    let Some(columns) = columns else { return false };
    let before = Before::new(graph, nest);
    if rectangles::split(graph, nest, columns) {
        return true;
    }
    before.restore(graph, nest);
    // In an innermost loop, divisions are much of the time.
    let is_split = has_strips && !nest.is_outer() && split(graph, nest, None).is_some();
    if is_split {
        super::dce::remove_dead_nodes(graph, true);
    }
    is_split
}

/// A snapshot of the graph before a loop was split, to restore it from.
struct Before {
    blocks: usize,
    order: Vec<BlockIndex>,
    preheader: Block,
}

impl Before {
    fn new(graph: &Graph, nest: &LoopNest) -> Before {
        let preheader = graph.blocks[nest.preheader].clone();
        Before { blocks: graph.blocks.len(), order: graph.order.clone(), preheader }
    }

    fn restore(self, graph: &mut Graph, nest: &LoopNest) {
        graph.blocks.truncate(self.blocks);
        graph.blocks[nest.preheader] = self.preheader;
        graph.order = self.order;
    }
}

/// Whether the loop of a preheader can be vectorised, and is not known to be short.
fn has_vectors(graph: &Graph, preheader: BlockIndex) -> bool {
    LoopNest::parse(graph, preheader).is_some_and(|nest| is_long(graph, &nest) && Shapes::new(graph, &nest).is_some())
}

/// Whether a loop is not known to make fewer iterations than the shortest vector has lanes.
fn is_long(graph: &Graph, nest: &LoopNest) -> bool {
    match (graph.constant(nest.start[nest.induction]), graph.constant(nest.bound)) {
        (Some(start), Some(bound)) => bound.saturating_sub(start) >= MIN_STRIP,
        _ => true,
    }
}

/// The state of a loop at the beginning of an iteration, with these values of its parameters.
fn state(graph: &mut Graph, nest: &LoopNest, header_exit: ExitId, values: &[NodeId]) -> ExitId {
    let mut state = graph.exit(header_exit).clone();
    let parameters = &graph.blocks[nest.header].parameters;
    for slot_value in &mut state.frame_state {
        if let Some(index) = parameters.iter().position(|id| *id == slot_value.node) {
            slot_value.node = values[index];
        }
    }
    graph.add_exit(state)
}

/// A loop that was split.
struct Split {
    /// The preheader of the outer loop, and that of the inner one.
    checks: BlockIndex,
    strip: BlockIndex,
}

/// Adds the strips before a loop: the rows of a rectangle if they have so many `columns`.
fn split(graph: &mut Graph, nest: &LoopNest, columns: Option<NodeId>) -> Option<Split> {
    let header_exit = graph.blocks[nest.header].header_exit?;
    let defined = nest.defined(graph);
    if defined.contains(nest.bound.index()) {
        return None;
    }
    let [checks, strips, strip] = [(); 3].map(|()| graph.add_block());
    let types: SmallVec<[Ty; 8]> = graph.blocks[nest.header].parameters.iter().map(|id| graph.node(*id).ty).collect();
    let parameters = |graph: &mut Graph, block: BlockIndex| -> Nodes {
        types.iter().map(|ty| graph.parameter(block, *ty)).collect()
    };
    let current = parameters(graph, strips);
    let at_start = state(graph, nest, header_exit, &nest.start);
    let at_strip = state(graph, nest, header_exit, &current);
    graph.blocks[checks].preheader_exit = Some(at_start);
    graph.blocks[strip].preheader_exit = Some(at_strip);
    let original = graph.add_block();
    let own = parameters(graph, original);
    let at_original = state(graph, nest, header_exit, &own);
    graph.blocks[original].preheader_exit = Some(at_original);
    graph.blocks[original].terminator =
        Terminator::Jump(Branch { target: nest.header, args: own, ..Branch::default() });
    let to_original = |args: &Nodes| Branch { target: original, args: args.clone(), ..Branch::default() };
    let exit = graph.add_exit(Exit {
        pc: 0,
        frame_state: Vec::new(),
        pending_stores: Vec::new(),
        fallback: Some(to_original(&nest.start)),
    });

    let counter = current[nest.induction];
    let row = columns.map(|columns| (graph.parameter(strips, Ty::Scalar(Scalar::I64)), columns));
    let copier = Copier::new(graph, nest, defined, checks, exit, (strip, at_strip, counter), row);
    let copied = copier.copy()?;

    let after = graph.add_block();
    let latch = graph.branches(copied.latch).first()?.clone();
    let limits_exit = graph.exit(latch.limits_exit?).clone();
    let limits_exit = graph.add_exit(limits_exit);
    // Each iteration has counted its back edge, as it does in the original loop, and there are no others.
    graph.add_node(after, Kind::UncountStep, Ty::Nothing, &[]);
    let less = Kind::Primitive(Primitive::LtS, Scalar::I64);
    let to = |target: BlockIndex| Branch { target, ..Branch::default() };
    let (mut into_first, mut into_strip) = (nest.start.clone(), current.clone());
    let (next, test, test_of_strips) = match (row, copied.rectangle) {
        (Some((row, _)), Some(Rectangle { rows, columns, column, steps })) => {
            let [zero, one] = [0, 1].map(|bits| graph.add_constant(Scalar::I64, bits));
            graph.blocks[strips].header_exit = Some(at_strip);
            into_first.push(zero);
            into_strip.push(zero);
            let next_column = integer(graph, copied.latch, Primitive::WrappingAdd, &[column, one]);
            graph.branches_mut(copied.latch).first_mut()?.args.push(next_column);
            let next = current.iter().copied().chain([row]).zip(steps.into_iter().chain([one]));
            let next = next.map(|(value, by)| integer(graph, after, Primitive::WrappingAdd, &[value, by])).collect();
            (next, (column, columns), (row, rows))
        }
        _ => {
            let own = graph.blocks[copied.header].parameters.clone();
            let inner = own[nest.induction];
            (own, (inner, copied.end), (counter, nest.bound))
        }
    };
    graph.blocks[after].terminator =
        Terminator::Jump(Branch { target: strips, args: next, limits_exit: Some(limits_exit), ..Branch::default() });
    let test = graph.add_node(copied.header, less, Ty::Truth, &[test.0, test.1]);
    graph.blocks[copied.header].terminator = Terminator::Branch(test, [to(copied.body), to(after)]);
    graph.blocks[strip].terminator =
        Terminator::Jump(Branch { target: copied.header, args: into_strip, ..Branch::default() });
    let test = graph.add_node(strips, less, Ty::Truth, &[test_of_strips.0, test_of_strips.1]);
    graph.blocks[strips].terminator = Terminator::Branch(test, [to(strip), to_original(&current)]);
    graph.blocks[checks].terminator =
        Terminator::Jump(Branch { target: strips, args: into_first, ..Branch::default() });
    graph.blocks[nest.preheader].terminator = Terminator::Guarded([to(checks), to_original(&nest.start)]);
    graph.blocks[nest.preheader].preheader_exit = None;
    let new = [checks, strips, strip].into_iter().chain(copied.blocks).chain([after, original]);
    let at = graph.order.iter().position(|block| *block == nest.preheader)?;
    graph.order.splice(at + 1..at + 1, new);
    Some(Split { checks, strip })
}

fn integer(graph: &mut Graph, block: BlockIndex, primitive: Primitive, args: &[NodeId]) -> NodeId {
    graph.add_node(block, Kind::Primitive(primitive, Scalar::I64), Ty::Scalar(Scalar::I64), args)
}
