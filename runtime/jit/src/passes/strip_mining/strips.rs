//! Strips: the loop over them that comes before a loop, with its guards.

use smallvec::SmallVec;

use super::copy::{Copier, Rectangle};
use crate::analysis::loop_nest::LoopNest;
use crate::generated::vm::primitive::Primitive;
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

/// Adds the strips before a loop: the rows of a rectangle if they have so many `columns`.
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
