//! Graphs that are broken in one way each.

use super::*;
use crate::ir::graph::{Entry, Exit, SideExitKind, SlotValue};

const I32: Ty = Ty::Scalar(Scalar::I32);
const I64: Ty = Ty::Scalar(Scalar::I64);

/// `buffer[i] = buffer[i]` of 32 bits, with all that belongs to it.
struct Copy {
    graph: Graph,
    exit: ExitId,
    is_buffer: NodeId,
    is_mutable: NodeId,
    in_range: NodeId,
    index: NodeId,
    load: NodeId,
    store: NodeId,
}

fn block(index: usize) -> BlockIndex {
    BlockIndex::new(index)
}

fn exit(graph: &mut Graph, values: &[(u16, NodeId)]) -> ExitId {
    let frame_state =
        values.iter().map(|(slot, node)| SlotValue { slot: *slot, node: *node, part: Part::Whole }).collect();
    graph.add_exit(Exit { pc: 0, frame_state, references: Vec::new(), pending_stores: Vec::new(), fallback: None })
}

fn entered(graph: &mut Graph) -> BlockIndex {
    let block = graph.add_block();
    graph.blocks[block].entry = Some(Entry { pc: 0, resumes: false, native: false });
    graph.order.push(block);
    block
}

fn copy() -> Copy {
    let mut graph = Graph::default();
    let block = entered(&mut graph);
    let index = graph.add_node(block, Kind::Slot(0), I64, &[]);
    let seven = graph.add_constant(Scalar::I32, 7);
    let leave = exit(&mut graph, &[(4, seven)]);
    let is_buffer = graph.add_node(block, Kind::IsBuffer(0), Ty::Nothing, &[]);
    let is_mutable = graph.add_node(block, Kind::IsMutable(0), Ty::Nothing, &[is_buffer]);
    let elements = graph.add_node(block, Kind::Elements(0, 2), I64, &[is_buffer]);
    let in_range = graph.add_node(block, Kind::InRange, Ty::Nothing, &[index, elements]);
    for check in [is_buffer, is_mutable, in_range] {
        graph.nodes[check.index()].exit = Some(leave);
    }
    let base = graph.add_node(block, Kind::Base(0), I64, &[is_buffer]);
    let load = graph.add_node(block, Kind::Primitive(Primitive::LoadI32, Scalar::I32), I32, &[base, index]);
    let kind = Kind::Primitive(Primitive::StoreI32, Scalar::I32);
    let store = graph.add_node(block, kind, Ty::Nothing, &[base, index, load]);
    graph.blocks[block].terminator = Terminator::SideExit(SideExitKind::Return, leave);
    Copy { graph, exit: leave, is_buffer, is_mutable, in_range, index, load, store }
}

/// A loop that counts down: its blocks are the preheader and the body.
fn counting() -> Graph {
    let mut graph = Graph::default();
    let preheader = entered(&mut graph);
    let start = graph.add_node(preheader, Kind::Slot(0), I32, &[]);
    let header = graph.add_block();
    graph.order.push(header);
    let count = graph.parameter(header, I32);
    let one = graph.add_constant(Scalar::I32, 1);
    let next = graph.add_node(header, Kind::Primitive(Primitive::WrappingSub, Scalar::I32), I32, &[count, one]);
    let test = graph.add_node(header, Kind::Primitive(Primitive::IsNonzero, Scalar::I32), Ty::Truth, &[next]);
    let after = graph.add_block();
    graph.order.push(after);
    let (limits, done) = (exit(&mut graph, &[]), exit(&mut graph, &[(0, next)]));
    let branch = |target, args: &[NodeId]| Branch { target, args: args.iter().copied().collect(), ..Branch::default() };
    graph.blocks[preheader].terminator = Terminator::Jump(branch(header, &[start]));
    let back = Branch { limits_exit: Some(limits), ..branch(header, &[next]) };
    graph.blocks[header].terminator = Terminator::Branch(test, [back, branch(after, &[])]);
    graph.blocks[after].terminator = Terminator::SideExit(SideExitKind::Return, done);
    graph
}

fn problem_of(graph: &Graph, ranges: RangeChecks) -> String {
    match Verifier::default().verify(graph, ranges) {
        Ok(()) => "nothing".to_string(),
        Err(Problem { block, node, what }) => {
            format!("{block}{}: {what}", node.map_or(String::new(), |node| format!(", v{}", node.0)))
        }
    }
}

#[track_caller]
fn fails(graph: &Graph, ranges: RangeChecks, expected: &str) {
    let found = problem_of(graph, ranges);
    assert!(found.contains(expected), "found: {found}");
}

fn remove(graph: &mut Graph, node: NodeId) {
    graph.blocks[block(0)].nodes.retain(|id| *id != node);
}

#[test]
fn whole_graphs_have_no_problem() {
    assert_eq!(problem_of(&copy().graph, RangeChecks::Exact), "nothing");
    assert_eq!(problem_of(&counting(), RangeChecks::Exact), "nothing");
}

#[test]
fn values_are_there_before_they_are_used() {
    let Copy { mut graph, load, .. } = copy();
    let at = graph.blocks[block(0)].nodes.iter().position(|id| *id == load).unwrap();
    graph.blocks[block(0)].nodes.swap(at, at + 1);
    fails(&graph, RangeChecks::Exact, &format!("it needs v{}, which is not there on every path", load.0));

    // A value that one of two branches computes.
    let mut graph = counting();
    let other = graph.add_block();
    graph.order.push(other);
    let value = graph.add_node(other, Kind::Slot(3), I32, &[]);
    graph.blocks[other].terminator = Terminator::Jump(Branch { target: block(2), ..Branch::default() });
    let test = graph.blocks[block(1)].nodes[1];
    let to = |target| Branch { target, ..Branch::default() };
    graph.blocks[block(1)].terminator = Terminator::Branch(test, [to(other), to(block(2))]);
    let done = exit(&mut graph, &[(1, value)]);
    graph.blocks[block(2)].terminator = Terminator::SideExit(SideExitKind::Return, done);
    fails(&graph, RangeChecks::Exact, "b2: it needs v");

    let Copy { mut graph, load, .. } = copy();
    graph.blocks[block(0)].nodes.push(load);
    fails(&graph, RangeChecks::Exact, "it is computed twice");
}

#[test]
fn operands_are_of_the_types_that_are_taken() {
    let Copy { mut graph, store, index, .. } = copy();
    graph.nodes[store.index()].args[2] = index;
    fails(
        &graph,
        RangeChecks::Exact,
        "Primitive(StoreI32, I32) of [Scalar(I64), Scalar(I64), Scalar(I64)] is not Nothing",
    );
    let Copy { mut graph, in_range, .. } = copy();
    graph.nodes[in_range.index()].args.pop();
    fails(&graph, RangeChecks::Exact, "InRange of [Scalar(I64)] is not Nothing");
}

#[test]
fn accesses_come_behind_their_checks() {
    let all = [RangeChecks::Exact, RangeChecks::Guarded, RangeChecks::Skipped];
    let Copy { mut graph, in_range, .. } = copy();
    remove(&mut graph, in_range);
    all.iter().for_each(|ranges| fails(&graph, *ranges, "nobody knows that its index is in the buffer in register 0"));

    // A check of elements of another size, or of another index.
    let Copy { mut graph, in_range, .. } = copy();
    let elements = graph.node(in_range).args[1];
    graph.nodes[elements.index()].kind = Kind::Elements(0, 0);
    all.iter().for_each(|ranges| fails(&graph, *ranges, "nobody knows that its index is in the buffer"));
    let Copy { mut graph, in_range, .. } = copy();
    graph.nodes[in_range.index()].args[0] = graph.add_constant(Scalar::I64, 0);
    fails(&graph, RangeChecks::Exact, "nobody knows that its index is in the buffer");
    assert_eq!(problem_of(&graph, RangeChecks::Guarded), "nothing");

    let Copy { mut graph, is_mutable, .. } = copy();
    remove(&mut graph, is_mutable);
    all.iter().for_each(|ranges| fails(&graph, *ranges, "nobody knows that the buffer in register 0 may be written"));

    let Copy { mut graph, is_buffer, .. } = copy();
    graph.nodes[is_buffer.index()].kind = Kind::IsBuffer(1);
    fails(&graph, RangeChecks::Exact, "nobody knows that register 0 holds a buffer");

    let Copy { mut graph, is_mutable, .. } = copy();
    graph.nodes[is_mutable.index()].exit = None;
    fails(&graph, RangeChecks::Exact, "it is a check, and cannot leave");

    let Copy { mut graph, load, index, .. } = copy();
    graph.nodes[load.index()].args[0] = index;
    fails(&graph, RangeChecks::Exact, "its address is neither in a buffer nor in the globals");
}

#[test]
fn branches_bring_what_is_taken() {
    let mut graph = counting();
    graph.branches_mut(block(0))[0].args.clear();
    fails(&graph, RangeChecks::Exact, "b0: it brings 0 values to b1, which takes 1");
    let mut graph = counting();
    let wide = graph.add_constant(Scalar::I64, 5);
    graph.branches_mut(block(0))[0].args[0] = wide;
    fails(&graph, RangeChecks::Exact, "b0: it brings Scalar(I64) as v");
    let mut graph = counting();
    graph.branches_mut(block(0))[0].target = block(9);
    fails(&graph, RangeChecks::Exact, "b0: it branches to b9, which is not there");
    let mut graph = counting();
    graph.blocks[block(2)].terminator = Terminator::Open;
    fails(&graph, RangeChecks::Exact, "b2: it has no end");
}

#[test]
fn loops_count_against_the_limits() {
    let mut graph = counting();
    graph.branches_mut(block(1))[0].limits_exit = None;
    fails(&graph, RangeChecks::Exact, "b1: its branch back to b1 is not counted");
}

#[test]
fn vector_loops_count_their_steps_instead() {
    let mut graph = counting();
    let limits = graph.branches_mut(block(1))[0].limits_exit.take();
    let steps = graph.add_constant(Scalar::I64, 8);
    let count = graph.add_node(block(1), Kind::CountSteps, Ty::Nothing, &[steps]);
    fails(&graph, RangeChecks::Exact, "it is a check, and cannot leave");
    graph.nodes[count.index()].exit = limits;
    assert_eq!(problem_of(&graph, RangeChecks::Exact), "nothing");
    // The count has to be in the loop.
    graph.blocks[block(1)].nodes.retain(|id| *id != count);
    graph.blocks[block(0)].nodes.push(count);
    fails(&graph, RangeChecks::Exact, "b1: its branch back to b1 is not counted");
}

#[test]
fn exits_forget_no_slot() {
    let Copy { mut graph, exit: leave, load, .. } = copy();
    let verifier = Verifier { slots: graph.exits.iter().map(|_| vec![4]).collect() };
    assert_eq!(verifier.verify(&graph, RangeChecks::Exact), Ok(()));
    let before = graph.exits[leave.0 as usize].frame_state.clone();
    graph.exits[leave.0 as usize].frame_state.clear();
    let found = verifier.verify(&graph, RangeChecks::Exact).unwrap_err();
    assert_eq!(found.what, "exit 0 forgets slot 4");

    // A value that is not computed yet where code is left.
    graph.exits[leave.0 as usize].frame_state = before;
    graph.exits[leave.0 as usize].frame_state[0].node = load;
    fails(&graph, RangeChecks::Exact, &format!("it needs v{}, which is not there on every path", load.0));
}

#[test]
#[should_panic(expected = "after the pass `gvn`: b1: its branch back to b1 is not counted")]
fn a_problem_is_told_with_the_pass_and_the_graph() {
    let mut graph = counting();
    graph.branches_mut(block(1))[0].limits_exit = None;
    always();
    Verifier::default().after("gvn", &graph, RangeChecks::Exact);
}
