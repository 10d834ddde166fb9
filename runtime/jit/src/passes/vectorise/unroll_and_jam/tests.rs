//! The guard that iterations of a loop do not store to one element.

use super::*;
use crate::ir::graph::{BlockIndex, Branch, Exit, ExitId, NodeId, Terminator};

const I64: Ty = Ty::Scalar(Scalar::I64);

/// `for i in 0..rows { for j in 0..columns { buffer[i * factor + j] = 7 } }`, with tests at the end.
struct Nest {
    graph: Graph,
    preheader: BlockIndex,
    exit: ExitId,
}

fn integer(graph: &mut Graph, block: BlockIndex, primitive: Primitive, args: &[NodeId]) -> NodeId {
    graph.add_node(block, Kind::Primitive(primitive, Scalar::I64), I64, args)
}

fn branch(target: BlockIndex, args: &[NodeId]) -> Branch {
    Branch { target, args: args.iter().copied().collect(), ..Branch::default() }
}

/// The nest with a factor that is constant, or else an argument.
fn nest(rows: u64, columns: u64, factor: Option<u64>) -> Nest {
    let mut graph = Graph::default();
    let [preheader, outer, inner, latch, after] = std::array::from_fn(|_| graph.add_block());
    let state =
        Exit { pc: 0, frame_state: Vec::new(), references: Vec::new(), pending_stores: Vec::new(), fallback: None };
    let exit = graph.add_exit(state);
    let factor = match factor {
        Some(factor) => graph.add_constant(Scalar::I64, factor),
        None => graph.add_node(preheader, Kind::Slot(0), I64, &[]),
    };
    let [zero, one, rows, columns] = [0, 1, rows, columns].map(|bits| graph.add_constant(Scalar::I64, bits));
    let seven = graph.add_constant(Scalar::I32, 7);
    graph.blocks[preheader].terminator = Terminator::Jump(branch(outer, &[zero]));
    graph.blocks[preheader].preheader_exit = Some(exit);
    let row = graph.parameter(outer, I64);
    graph.blocks[outer].terminator = Terminator::Jump(branch(inner, &[zero]));
    graph.blocks[outer].preheader_exit = Some(exit);
    let column = graph.parameter(inner, I64);
    let index = integer(&mut graph, inner, Primitive::WrappingMulAdd, &[row, factor, column]);
    let is_buffer = graph.add_node(inner, Kind::IsBuffer(0), Ty::Nothing, &[]);
    let base = graph.add_node(inner, Kind::Base(0), I64, &[is_buffer]);
    let kind = Kind::Primitive(Primitive::StoreI32, Scalar::I32);
    graph.add_node(inner, kind, Ty::Nothing, &[base, index, seven]);
    let next = integer(&mut graph, inner, Primitive::WrappingAdd, &[column, one]);
    let less = Kind::Primitive(Primitive::LtS, Scalar::I64);
    let again = graph.add_node(inner, less, Ty::Truth, &[next, columns]);
    graph.blocks[inner].terminator = Terminator::Branch(again, [branch(inner, &[next]), branch(latch, &[])]);
    let next = integer(&mut graph, latch, Primitive::WrappingAdd, &[row, one]);
    let again = graph.add_node(latch, less, Ty::Truth, &[next, rows]);
    graph.blocks[latch].terminator = Terminator::Branch(again, [branch(outer, &[next]), branch(after, &[])]);
    Nest { graph, preheader, exit }
}

/// The checks that the guard adds, as pairs of what is below what, if iterations are not known to overlap.
fn checks(Nest { mut graph, preheader, exit }: Nest) -> Option<Vec<(NodeId, NodeId, Graph)>> {
    let nest = LoopNest::parse(&graph, preheader).expect("it is a nest");
    let rows = Rows::new(&graph, &nest).expect("iterations do not depend on each other");
    let block = graph.add_block();
    let mut guards = Guards::new(&mut graph, &rows.defined, block, exit);
    guards.check(&nest).expect("all of it can be checked");
    let mark = guards.graph().blocks[block].nodes.len();
    guards.check_iterations_are_apart(&nest)?;
    let made = graph.blocks[block].nodes[mark..].to_vec();
    let in_range = made.into_iter().filter(|id| graph.node(*id).kind == Kind::InRange);
    Some(in_range.map(|id| (graph.node(id).args[0], graph.node(id).args[1], graph.clone())).collect())
}

#[test]
fn known_rows_are_apart_if_none_is_longer_than_their_distance() {
    for (columns, factor, apart) in [(64, 64, true), (64, 65, true), (64, 63, false), (1, 1, true), (1, 0, false)] {
        let found = checks(nest(8, columns, Some(factor)));
        assert_eq!(found.map(|checks| checks.len()), apart.then_some(0), "{columns} columns, {factor} apart");
    }
}

#[test]
fn the_distance_of_rows_is_checked_if_it_is_not_known() {
    let found = checks(nest(8, 64, None)).expect("they may be apart");
    let is_checked = |bound: u64| {
        found.iter().any(|(value, distance, graph)| {
            graph.constant(*value) == Some(bound) && graph.node(*distance).kind == Kind::Slot(0)
        })
    };
    assert!(is_checked(63), "a row is as long as 64 elements");
    // The distance is small, so that nothing wraps.
    assert!(found.iter().any(|(value, bound, graph)| {
        graph.node(*value).kind == Kind::Slot(0) && graph.constant(*bound) == Some(1 << 31)
    }));
}

#[test]
fn rows_that_all_store_to_one_element_are_never_jammed() {
    let Nest { mut graph, preheader, .. } = nest(8, 64, Some(64));
    let nest = LoopNest::parse(&graph, preheader).expect("it is a nest");
    let zero = graph.add_constant(Scalar::I64, 0);
    let mut stores = Vec::new();
    nest.for_each_node(&graph, &mut |id| stores.extend(access(&graph, id).map(|_| id)));
    stores.iter().for_each(|id| graph.nodes[id.index()].args[1] = zero);
    assert!(Rows::new(&graph, &nest).is_none());
}
