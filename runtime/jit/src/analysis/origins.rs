//! Origins of values: the operation that computes a value, seen through the parameters of blocks. The verifier and the
//! emitter find by it which buffer an access is to.

use std::collections::HashMap;

use crate::ir::graph::{BlockIndex, Graph, Kind, NodeId};

/// The arguments of branches for each parameter of a block.
pub(crate) struct Origins(HashMap<NodeId, Vec<NodeId>>);

impl Origins {
    /// The arguments of the branches of these blocks. Branches to a block that does not exist are left out.
    pub fn new(graph: &Graph, blocks: &[BlockIndex]) -> Origins {
        let mut brought: HashMap<NodeId, Vec<NodeId>> = HashMap::new();
        for block in blocks {
            let fallbacks = graph.blocks[*block].nodes.iter().filter_map(|id| graph.node(*id).exit);
            let fallbacks = fallbacks.filter_map(|exit| graph.exits.get(exit.0 as usize)?.fallback.as_ref());
            for branch in graph.branches(*block).iter().chain(fallbacks) {
                let Some(target) = graph.blocks.get(branch.target) else { continue };
                for (parameter, arg) in target.parameters.iter().zip(&branch.args) {
                    brought.entry(*parameter).or_default().push(*arg);
                }
            }
        }
        Origins(brought)
    }

    /// The operation that computes a value: of a parameter, that of all its arguments, if it is the same.
    pub fn of(&self, graph: &Graph, id: NodeId) -> Kind {
        let (mut seen, mut pending, mut origin) = (vec![id], vec![id], None);
        while let Some(id) = pending.pop() {
            let Some(node) = graph.nodes.get(id.index()) else { return Kind::Parameter };
            match (node.kind, self.0.get(&id)) {
                (Kind::Parameter, Some(brought)) => {
                    let new: Vec<NodeId> = brought.iter().copied().filter(|id| !seen.contains(id)).collect();
                    seen.extend(&new);
                    pending.extend(new);
                }
                (kind, _) if origin.is_none_or(|origin| origin == kind) => origin = Some(kind),
                _ => return Kind::Parameter,
            }
        }
        origin.unwrap_or(Kind::Parameter)
    }
}
