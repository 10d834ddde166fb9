//! Folding: finds the nodes that need no instruction of their own, and marks them as folded. The plan of a function
//! calls it after the proof, since it changes no node. The emitter and the register allocator read the marks.
//!
//! A zero-extended `i32` has the same bits in its register as the number that it extends, since the upper half of that
//! register is zero. Each access at an index of 32 bits has such a node, which would take a move and a register. Where
//! a branch or a selection asks whether a number has some of the bits of another one, an instruction asks that of both.

use crate::generated::vm::primitive::Primitive;
use crate::ir::bits::Bits;
use crate::ir::graph::{BlockIndex, Graph, Kind, NodeId, Terminator};

/// So many nodes before a test are looked at for its operand.
const MAX_DISTANCE: usize = 8;

/// Marks what is folded. No pass may come after this one.
pub(crate) fn fold(graph: &mut Graph) {
    let mut folded: Option<Bits> = None;
    let mut tested = Vec::new();
    for (block, content) in graph.blocks.indexed() {
        for id in content.nodes.iter().filter(|id| graph.is_extension(**id)) {
            folded.get_or_insert_with(|| Bits::new(graph.nodes.len())).insert(id.index());
        }
        tested_bits(graph, block, &mut tested);
    }
    if let Some(folded) = &mut folded {
        // Values that branches and calls pass are moved from locations of their own.
        let mut keep = |id: &NodeId| folded.remove(id.index());
        let blocks = graph.blocks.indices();
        blocks.flat_map(|block| graph.branches(block)).flat_map(|branch| &branch.args).for_each(&mut keep);
        let fallbacks = graph.exits.iter().filter_map(|exit| exit.fallback.as_ref());
        fallbacks.flat_map(|branch| &branch.args).for_each(&mut keep);
        graph.native_terminators.values().flat_map(|terminator| &terminator.values).for_each(|(id, _)| keep(id));
    }
    retain_used_once(graph, &mut tested);
    if folded.is_none() && tested.is_empty() {
        return;
    }
    let mut folded = folded.unwrap_or_else(|| Bits::new(graph.nodes.len()));
    graph.folded.iter().chain(tested.iter().map(|(bits, _)| bits.index())).for_each(|number| folded.insert(number));
    graph.folded = folded;
}

/// The bits that the tests of a block ask for, if it computes them shortly before, and the tests.
fn tested_bits(graph: &Graph, block: BlockIndex, found: &mut Vec<(NodeId, NodeId)>) {
    let content = &graph.blocks[block];
    let mut note = |test: NodeId, before: &[NodeId]| {
        let truth = graph.node(test);
        if !matches!(truth.kind, Kind::Primitive(Primitive::IsNonzero, _)) {
            return;
        }
        let bits = truth.args[0];
        let is_computed = || before.iter().rev().take(MAX_DISTANCE).any(|id| *id == bits);
        if matches!(graph.node(bits).kind, Kind::Primitive(Primitive::And, _)) && is_computed() {
            found.push((bits, test));
        }
    };
    for (index, id) in content.nodes.iter().enumerate() {
        if let Kind::Primitive(Primitive::Select, _) = graph.node(*id).kind {
            note(graph.node(*id).args[0], &content.nodes[..index]);
        }
    }
    if let Terminator::Branch(test, _) = &content.terminator {
        note(*test, &content.nodes);
    }
}

/// Keeps those bits that only their test uses, where only one branch or selection uses that.
fn retain_used_once(graph: &Graph, tested: &mut Vec<(NodeId, NodeId)>) {
    if tested.is_empty() {
        return;
    }
    let mut uses = vec![0_u8; graph.nodes.len()];
    let mut note = |id: &NodeId| uses[id.index()] = uses[id.index()].saturating_add(1);
    graph.nodes.iter().flat_map(|node| &node.args).for_each(&mut note);
    for block in graph.blocks.indices() {
        if let Terminator::Branch(test, _) = &graph.blocks[block].terminator {
            note(test);
        }
        graph.branches(block).iter().flat_map(|branch| &branch.args).for_each(&mut note);
    }
    for exit in &graph.exits {
        exit.frame_state.iter().for_each(|slot_value| note(&slot_value.node));
        exit.fallback.iter().flat_map(|branch| &branch.args).for_each(&mut note);
    }
    graph.native_terminators.values().flat_map(|terminator| &terminator.values).for_each(|(id, _)| note(id));
    tested.retain(|(bits, test)| uses[bits.index()] == 1 && uses[test.index()] == 1);
}
