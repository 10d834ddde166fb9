//! The nodes and exits of a graph that something refers to. Passes leave others, which its text leaves out. The graph
//! may be broken: what it refers to and does not have is none of them.

use crate::ir::bits::Bits;
use crate::ir::graph::{Branch, ExitId, Graph, NodeId, Terminator};

/// The nodes and exits that something refers to.
pub(super) struct Used<'g> {
    graph: &'g Graph,
    pub nodes: Bits,
    pub exits: Bits,
    /// The nodes in blocks, with their parameters.
    pub placed: Bits,
    pending: Vec<NodeId>,
    pending_exits: Vec<ExitId>,
}

impl<'g> Used<'g> {
    pub fn new(graph: &'g Graph) -> Used<'g> {
        let mut used = Used {
            graph,
            nodes: Bits::new(graph.nodes.len()),
            exits: Bits::new(graph.exits.len()),
            placed: Bits::new(graph.nodes.len()),
            pending: Vec::new(),
            pending_exits: Vec::new(),
        };
        for content in graph.blocks.iter() {
            for id in content.parameters.iter().chain(&content.nodes) {
                if id.index() < graph.nodes.len() {
                    used.placed.insert(id.index());
                }
                used.node(*id);
            }
            match &content.terminator {
                Terminator::Branch(test, _) => used.node(*test),
                Terminator::SideExit(_, exit) => used.exit(*exit),
                Terminator::Jump(_) | Terminator::Guarded(_) | Terminator::Open => {}
            }
            content.terminator.branches().iter().for_each(|branch| used.branch(branch));
            content.preheader_exit.iter().chain(&content.header_exit).for_each(|exit| used.exit(*exit));
        }
        for (value, _) in graph.native_terminators.values().flat_map(|terminator| &terminator.values) {
            used.node(*value);
        }
        loop {
            if let Some(id) = used.pending.pop() {
                let node = graph.node(id);
                node.args.iter().for_each(|arg| used.node(*arg));
                node.exit.iter().for_each(|exit| used.exit(*exit));
            } else if let Some(id) = used.pending_exits.pop() {
                let exit = graph.exit(id);
                exit.frame_state.iter().for_each(|slot_value| used.node(slot_value.node));
                exit.pending_stores.iter().for_each(|store| used.node(*store));
                exit.fallback.iter().for_each(|branch| used.branch(branch));
            } else {
                break used;
            }
        }
    }

    fn node(&mut self, id: NodeId) {
        if id.index() < self.graph.nodes.len() && self.nodes.insert_new(id.index()) {
            self.pending.push(id);
        }
    }

    fn exit(&mut self, id: ExitId) {
        if (id.0 as usize) < self.graph.exits.len() && self.exits.insert_new(id.0 as usize) {
            self.pending_exits.push(id);
        }
    }

    fn branch(&mut self, branch: &Branch) {
        branch.args.iter().for_each(|arg| self.node(*arg));
        branch.limits_exit.iter().for_each(|exit| self.exit(*exit));
    }
}
