//! Replacement of nodes: passes collect what each node is replaced by, and apply it to all uses at once.

use crate::ir::graph::{Graph, NodeId, Terminator};

/// For each node the one that replaces it, or itself.
pub(super) struct Replacements(pub Vec<NodeId>);

impl Replacements {
    pub fn new(graph: &Graph) -> Replacements {
        Replacements((0..graph.nodes.len() as u32).map(NodeId).collect())
    }

    pub fn get(&self, mut id: NodeId) -> NodeId {
        while self.0[id.index()] != id {
            id = self.0[id.index()];
        }
        id
    }

    /// The same with path compression: the chain of a parameter may be as long as its loops are nested.
    pub fn find(&mut self, id: NodeId) -> NodeId {
        let end = self.get(id);
        let mut at = id;
        while at != end {
            at = std::mem::replace(&mut self.0[at.index()], end);
        }
        end
    }

    pub fn apply(&self, graph: &mut Graph) {
        if self.0.iter().enumerate().all(|(index, id)| id.index() == index) {
            return;
        }
        for node in &mut graph.nodes {
            node.args.iter_mut().for_each(|arg| *arg = self.get(*arg));
        }
        for exit in &mut graph.exits {
            exit.frame_state.iter_mut().for_each(|slot_value| slot_value.node = self.get(slot_value.node));
            exit.pending_stores.iter_mut().for_each(|store| *store = self.get(*store));
            exit.fallback.iter_mut().flat_map(|branch| &mut branch.args).for_each(|arg| *arg = self.get(*arg));
        }
        for terminator in graph.native_terminators.values_mut() {
            terminator.values.iter_mut().for_each(|(value, _)| *value = self.get(*value));
        }
        for block in graph.blocks.indices() {
            if let Terminator::Branch(test, ..) = &mut graph.blocks[block].terminator {
                *test = self.get(*test);
            }
            for branch in graph.branches_mut(block) {
                branch.args.iter_mut().for_each(|arg| *arg = self.get(*arg));
            }
        }
    }
}
