//! Dead-code elimination: removes nodes without effects whose values neither live nodes nor terminators nor exits use.
//! It runs between passes, and is all that baseline mode runs.

use crate::ir::bits::Bits;
use crate::ir::graph::{Branch, ExitId, Graph, Kind, NodeId, Terminator};
use crate::ir::types::Effect;

/// Removes dead nodes. `keeps_header_states` keeps the frame states of loop headers alive, which vectorisation uses.
pub(crate) fn remove_dead_nodes(graph: &mut Graph, keeps_header_states: bool) {
    let mut found = Found {
        live: Bits::new(graph.nodes.len()),
        exits: Bits::new(graph.exits.len()),
        pending: Vec::with_capacity(graph.nodes.len()),
        pending_exits: Vec::with_capacity(graph.exits.len()),
    };
    for terminator in graph.native_terminators.values() {
        terminator.values.iter().for_each(|(value, _)| found.node(*value));
    }
    for content in graph.blocks.iter() {
        for id in &content.nodes {
            let node = graph.node(*id);
            let is_kept = node.exit.is_some()
                || matches!(node.kind, Kind::StoreLanes(..) | Kind::UncountStep)
                || matches!(node.kind, Kind::Primitive(primitive, _) if primitive.effect() == Effect::Store);
            if is_kept {
                found.node(*id);
            }
        }
        if let Some(exit) = content.header_exit.filter(|_| keeps_header_states) {
            found.exit(exit);
        }
        match &content.terminator {
            Terminator::SideExit(_, exit) => found.exit(*exit),
            Terminator::Branch(test, _) => found.node(*test),
            Terminator::Jump(_) | Terminator::Guarded(_) | Terminator::Open => {}
        }
        content.terminator.branches().iter().for_each(|branch| found.branch(branch));
    }
    loop {
        while let Some(id) = found.pending.pop() {
            let node = graph.node(id);
            node.args.iter().for_each(|arg| found.node(*arg));
            if let Some(exit) = node.exit {
                found.exit(exit);
            }
        }
        let Some(exit) = found.pending_exits.pop() else { break };
        graph.for_each_exit_use(exit, &mut |id| found.node(id));
    }
    for block in graph.blocks.iter_mut() {
        block.nodes.retain(|id| found.live.contains(id.index()));
    }
}

/// The worklist of liveness: nodes and exits that are known to be live, and those of them whose operands are pending.
struct Found {
    live: Bits,
    exits: Bits,
    pending: Vec<NodeId>,
    pending_exits: Vec<ExitId>,
}

impl Found {
    fn node(&mut self, id: NodeId) {
        if self.live.insert_new(id.index()) {
            self.pending.push(id);
        }
    }

    fn exit(&mut self, exit: ExitId) {
        if self.exits.insert_new(exit.0 as usize) {
            self.pending_exits.push(exit);
        }
    }

    /// Arguments stay alive: a dead parameter is rare, and costs one move.
    fn branch(&mut self, branch: &Branch) {
        branch.args.iter().for_each(|arg| self.node(*arg));
        if let Some(exit) = branch.limits_exit {
            self.exit(exit);
        }
    }
}
