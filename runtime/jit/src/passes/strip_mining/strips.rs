//! Strips: the loop over them that comes before a loop, with its guards.

use smallvec::SmallVec;

use super::candidates::{MIN_STRIP, division, finest};
use super::copy::{Copier, Rectangle};
use crate::analysis::loop_nest::{Item, LoopNest};
use crate::generated::vm::primitive::Primitive;
use crate::ir::bits::Bits;
use crate::ir::graph::{BlockIndex, Branch, Exit, ExitId, Graph, Kind, NodeId, Nodes, Terminator};
use crate::ir::types::{Scalar, Ty};

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
pub(super) struct Split {
    /// The preheader of the outer loop, and that of the inner one.
    pub checks: BlockIndex,
    pub strip: BlockIndex,
}

/// The number of columns if the strips of a loop end where rows of so many do: it divides its induction variable, or
/// what such a division leaves of that, by this number, which is known before it, and else by multiples. By what it
/// divides quotients and sums does not matter.
fn columns_of_rows(graph: &Graph, nest: &LoopNest, defined: &Bits) -> Option<NodeId> {
    let mut in_rows: SmallVec<[NodeId; 8]> = SmallVec::new();
    in_rows.push(graph.blocks[nest.header].parameters[nest.induction]);
    let mut divisors: SmallVec<[NodeId; 8]> = SmallVec::new();
    let own = nest.body.iter().filter_map(|item| match item {
        Item::Nodes(block) => Some(*block),
        Item::Loop(_) => None,
    });
    for id in own.flat_map(|block| &graph.blocks[block].nodes) {
        let node = graph.node(*id);
        let is_in_rows = match division(graph, *id) {
            Some(is_quotient) if in_rows.contains(&node.args[0]) => {
                divisors.push(node.args[1]);
                !is_quotient
            }
            // Remainders that are not negative are not corrected.
            _ => matches!(node.kind, Kind::Primitive(Primitive::Select, _)) && in_rows.contains(&node.args[2]),
        };
        if is_in_rows {
            in_rows.push(*id);
        }
    }
    let columns = finest(graph, &divisors).filter(|columns| !defined.contains(columns.index()))?;
    graph.constant(columns).is_none_or(|columns| columns >= MIN_STRIP).then_some(columns)
}

/// Adds the strips before a loop: the rows of a rectangle if they have so many `columns`.
///
/// Strips that end where rows do are counted, so the number of the row is known without a division, on which the next
/// strip would have to wait. The first strip may begin in the middle of a row. Others do so only if strips end where
/// something else than rows does, too: then the row ends with a strip if no iteration of it is left.
pub(super) fn split(graph: &mut Graph, nest: &LoopNest, columns: Option<NodeId>) -> Option<Split> {
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
        references: Vec::new(),
        pending_stores: Vec::new(),
        fallback: Some(to_original(&nest.start)),
    });

    let counter = current[nest.induction];
    let of_rows = columns.or_else(|| columns_of_rows(graph, nest, &defined));
    let row = of_rows.map(|columns| (graph.parameter(strips, Ty::Scalar(Scalar::I64)), columns));
    let is_rectangle = columns.is_some();
    let copier = Copier::new(graph, nest, defined, checks, exit, (strip, at_strip, counter), (row, is_rectangle));
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
            let mut next = graph.blocks[copied.header].parameters.clone();
            let inner = next[nest.induction];
            if let Some((row, columns)) = row {
                let [zero, one] = [0, 1].map(|bits| graph.add_constant(Scalar::I64, bits));
                let start = nest.start[nest.induction];
                into_first.push(if graph.constant(start) == Some(0) {
                    zero
                } else {
                    let first = integer(graph, checks, Primitive::CheckedDivS, &[start, columns]);
                    graph.nodes[first.index()].exit = Some(exit);
                    first
                });
                let mut next_row = integer(graph, after, Primitive::WrappingAdd, &[row, one]);
                if let Some(row_end) = copied.row_end {
                    let is_left = graph.add_node(after, less, Ty::Truth, &[inner, row_end]);
                    next_row = integer(graph, after, Primitive::Select, &[is_left, row, next_row]);
                }
                next.push(next_row);
            }
            (next, (inner, copied.end), (counter, nest.bound))
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
