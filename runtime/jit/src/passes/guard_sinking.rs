//! Guard sinking: the guards of an inner loop that may run no iteration move from its preheader to a block that only a
//! loop which runs reaches.
//!
//! ```text
//! preheader: live-ins             preheader: live-ins; does it run? --no--+
//!            guards                            | yes                      |
//!   |                      -->     guards: they know that it runs         |
//!   v                                          v                          |
//! header                         header <---------------------------------+
//! ```
//!
//! Only guards that replace checks inside the loop move: if it does not run, nothing inside is accessed. The values
//! that the loop uses stay in the preheader, so they are defined on both paths. The pass runs once, after LICM.

use std::ops::Range;

use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{BlockIndex, Branch, Graph, Kind, Node, NodeId, Nodes, Terminator};
use crate::ir::types::{Effect, Scalar, Ty};

/// Fewer checks cost little more than the test that would skip them.
const MIN_CHECKS: usize = 3;

/// The guards of a loop that is tested at its top.
pub(super) struct Guarded {
    /// The preheader, which has the guards.
    pub preheader: BlockIndex,
    /// The loop runs if the first one is less than the second one.
    pub test: [NodeId; 2],
    /// The nodes that were made for the guards.
    pub made: Range<u32>,
    /// Checks that buffers may be written, which were after the test of the loop.
    pub moved: Vec<NodeId>,
}

/// Sinks the guards for which that is worthwhile. Whether there are new blocks.
pub(super) fn sink_guards(graph: &mut Graph, mut guarded: Vec<Guarded>) -> bool {
    guarded.retain(|one| is_worthwhile(graph, one));
    if guarded.is_empty() {
        return false;
    }
    let mut needed = used_elsewhere(graph);
    for one in &guarded {
        split(graph, one, &mut needed);
    }
    true
}

/// Whether a node is one of the guards.
fn is_guard(graph: &Graph, guarded: &Guarded, id: NodeId) -> bool {
    graph.node(id).kind == Kind::InRange && guarded.made.contains(&id.0) || guarded.moved.contains(&id)
}

fn is_worthwhile(graph: &Graph, guarded: &Guarded) -> bool {
    let content = &graph.blocks[guarded.preheader];
    // Guards that are invariant in the loop around have been hoisted to its preheader by now.
    let guards = content.nodes.iter().filter(|id| is_guard(graph, guarded, **id)).count();
    let is_known = guarded.test.iter().all(|id| graph.constant(*id).is_some());
    content.depth > 0 && guards >= MIN_CHECKS && !is_known && matches!(content.terminator, Terminator::Jump(_))
}

/// For each node whether it is used in another block, by the terminator of its own, or by an exit.
fn used_elsewhere(graph: &Graph) -> Vec<bool> {
    let mut block_of = vec![BlockIndex::NONE; graph.nodes.len()];
    for (block, content) in graph.blocks.indexed() {
        content.nodes.iter().for_each(|id| block_of[id.index()] = block);
    }
    let mut needed = vec![false; graph.nodes.len()];
    let mut need = |id: NodeId| {
        needed[id.index()] = true;
        graph.for_each_operand(id, &mut |operand| needed[operand.index()] = true);
    };
    for (block, content) in graph.blocks.indexed() {
        for id in &content.nodes {
            graph.node(*id).args.iter().filter(|arg| block_of[arg.index()] != block).for_each(|arg| need(*arg));
        }
        if let Terminator::Branch(test, ..) = &content.terminator {
            need(*test);
        }
        graph.branches(block).iter().flat_map(|branch| &branch.args).for_each(|arg| need(*arg));
    }
    for (value, _) in graph.native_terminators.values().flat_map(|terminator| &terminator.values) {
        need(*value);
    }
    for exit in &graph.exits {
        exit.frame_state.iter().for_each(|slot_value| need(slot_value.node));
        exit.pending_stores.iter().for_each(|store| need(*store));
        exit.fallback.iter().flat_map(|branch| &branch.args).for_each(|arg| need(*arg));
    }
    needed
}

/// Moves the guards, and nodes that only they use, to a block of their own.
fn split(graph: &mut Graph, guarded: &Guarded, needed: &mut [bool]) {
    let preheader = guarded.preheader;
    let Terminator::Jump(into) = graph.blocks[preheader].terminator.clone() else { return };
    let nodes = std::mem::take(&mut graph.blocks[preheader].nodes);
    let (mut kept, mut moved) = (Nodes::new(), Vec::new());
    // Uses come after definitions, so backwards all uses of a node are seen before it.
    for id in nodes.into_iter().rev() {
        let node = graph.node(id);
        let is_pure = matches!(node.kind, Kind::Primitive(primitive, _) if primitive.effect() == Effect::Pure);
        if is_guard(graph, guarded, id) || is_pure && !needed[id.index()] {
            moved.push(id);
        } else {
            node.args.iter().for_each(|arg| needed[arg.index()] = true);
            kept.push(id);
        }
    }
    kept.reverse();
    graph.blocks[preheader].nodes = kept;
    let guards = graph.add_block();
    graph.blocks[guards].depth = graph.blocks[preheader].depth;
    graph.blocks[guards].terminator = Terminator::Jump(into.clone());
    let test = graph.add_node(preheader, LESS, Ty::Truth, &guarded.test);
    let to_guards = Branch { target: guards, ..Branch::default() };
    let skips_header_test = graph.blocks[into.target].nodes.iter().all(|id| graph.node(*id).ty == Ty::Truth);
    graph.blocks[preheader].terminator = Terminator::Branch(test, [to_guards, Branch { skips_header_test, ..into }]);
    let at = graph.order.iter().position(|block| *block == preheader);
    graph.order.insert(at.map_or(graph.order.len(), |at| at + 1), guards);
    // The nodes that move have no other uses, so they may be simplified in place.
    let mut same: Vec<(NodeId, NodeId)> = Vec::new();
    for id in moved.into_iter().rev() {
        for arg in &mut graph.nodes[id.index()].args {
            *arg = same.iter().find(|(old, _)| old == arg).map_or(*arg, |(_, new)| *new);
        }
        match known(graph, guarded, id) {
            Some(new) => same.push((id, new)),
            None => graph.blocks[guards].nodes.push(id),
        }
    }
}

const LESS: Kind = Kind::Primitive(Primitive::LtS, Scalar::I64);

/// The node that one is equal to, given that the loop runs.
fn known(graph: &Graph, guarded: &Guarded, id: NodeId) -> Option<NodeId> {
    let [start, bound] = guarded.test;
    let node = graph.node(id);
    match node.kind {
        Kind::Primitive(Primitive::Select, _) => {
            let test = graph.node(node.args[0]);
            (test.kind == LESS && test.args.as_slice() == guarded.test).then(|| node.args[1])
        }
        // The iterations after the first one, which are not negative. That the bounds are small has been checked.
        Kind::Primitive(Primitive::MaxS, Scalar::I64) if graph.constant(node.args[1]) == Some(0) => {
            let is_difference = |node: &Node| node.kind == Kind::Primitive(Primitive::WrappingSub, Scalar::I64);
            let iterations = graph.node(node.args[0]);
            let all = graph.node(*iterations.args.first()?);
            let are_iterations = is_difference(iterations)
                && graph.constant(iterations.args[1]) == Some(1)
                && is_difference(all)
                && all.args.as_slice() == [bound, start];
            are_iterations.then(|| node.args[0])
        }
        _ => None,
    }
}
