//! Dead-code elimination: removes nodes without effects whose values neither live nodes nor terminators nor exits use. It runs between
//! passes, and is all that baseline mode runs.

use smallvec::SmallVec;

use crate::ir::bits::Bits;
use crate::ir::graph::{ExitId, Graph, Kind, NodeId, Terminator};
use crate::ir::types::Effect;

/// Removes dead nodes. `keeps_header_states` keeps the frame states of loop headers alive, which vectorisation uses.
pub(crate) fn remove_dead_nodes(graph: &mut Graph, keeps_header_states: bool) {
    let (mut live, mut exits) = (Bits::new(graph.nodes.len()), Bits::new(graph.exits.len()));
    let mut pending: SmallVec<[NodeId; 64]> = SmallVec::new();
    let mut leaves: SmallVec<[ExitId; 16]> = SmallVec::new();
    pending
        .extend(graph.native_terminators.values().flat_map(|terminator| &terminator.values).map(|(value, _)| *value));
    for block in graph.blocks.indices() {
        let keeps = |id: &&NodeId| {
            let node = graph.node(**id);
            node.exit.is_some()
                || matches!(node.kind, Kind::StoreLanes(..) | Kind::UncountStep)
                || matches!(node.kind, Kind::Primitive(primitive, _) if primitive.effect() == Effect::Store)
        };
        pending.extend(graph.blocks[block].nodes.iter().filter(keeps).copied());
        leaves.extend(graph.blocks[block].header_exit.filter(|_| keeps_header_states));
        match &graph.blocks[block].terminator {
            Terminator::SideExit(_, exit) => leaves.push(*exit),
            Terminator::Branch(test, ..) => pending.push(*test),
            Terminator::Jump(_) | Terminator::Guarded(..) | Terminator::Open => {}
        }
        for branch in graph.branches(block) {
            // Arguments stay alive: a dead parameter is rare, and costs one move.
            pending.extend_from_slice(&branch.args);
            leaves.extend(branch.limits_exit);
        }
    }
    loop {
        while let Some(id) = pending.pop() {
            if !live.insert_new(id.index()) {
                continue;
            }
            let node = graph.node(id);
            pending.extend_from_slice(&node.args);
            leaves.extend(node.exit);
        }
        let Some(exit) = leaves.pop() else { break };
        if exits.insert_new(exit.0 as usize) {
            graph.for_each_exit_use(exit, &mut |id| {
                if !live.contains(id.index()) {
                    pending.push(id);
                }
            });
        }
    }
    for block in graph.blocks.iter_mut() {
        block.nodes.retain(|id| live.contains(id.index()));
    }
}
