//! Global value numbering.

use smallvec::SmallVec;

use super::replacements::Replacements;
use crate::analysis::dominators::Dominators;
use crate::ir::graph::{Graph, Kind, NodeId};
use crate::ir::hash::Table;
use crate::ir::types::{Effect, Scalar, Ty};

/// Whether two nodes of this kind with the same operands give the same.
pub(super) fn is_idempotent(kind: Kind) -> bool {
    match kind {
        Kind::Primitive(primitive, _) => matches!(primitive.effect(), Effect::Pure | Effect::Call),
        Kind::Lanes(primitive, _) => matches!(primitive.effect(), Effect::Pure | Effect::Call),
        Kind::Constant(_) | Kind::Parameter | Kind::Slot(_) | Kind::Passed(_) => false,
        Kind::LoadLanes(..) | Kind::StoreLanes(..) | Kind::Gather(..) => false,
        _ => true,
    }
}

/// Vectors of one value may have different numbers of lanes.
type Key = (Kind, Ty, SmallVec<[NodeId; 3]>);

/// Lets constants that passes have made of the same number be one.
pub(super) fn merge_constants(graph: &Graph, replacements: &mut Replacements) {
    let mut constants: Table<(u64, Scalar), NodeId> = Table::default();
    for (index, node) in graph.nodes.iter().enumerate() {
        if let (Kind::Constant(bits), Ty::Scalar(of)) = (node.kind, node.ty) {
            replacements.0[index] = *constants.entry((bits, of)).or_insert(NodeId(index as u32));
        }
    }
}

/// Of nodes that give the same in blocks none of which comes before another one, so many are looked at.
const MAX_CANDIDATES: usize = 32;

/// Replaces nodes by others that give the same and were made before on every path, besides those that are replaced anyway.
pub(super) fn number_values(graph: &mut Graph, tree: &Dominators, mut replacements: Replacements) {
    let mut known: Table<Key, SmallVec<[(usize, NodeId); 1]>> = Table::default();
    for block in tree.order() {
        let mut nodes = std::mem::take(&mut graph.blocks[*block].nodes);
        nodes.retain(|id| {
            let node = &mut graph.nodes[id.index()];
            node.args.iter_mut().for_each(|arg| *arg = replacements.get(*arg));
            if !is_idempotent(node.kind) {
                return true;
            }
            let entry = known.entry((node.kind, node.ty, SmallVec::from_slice(&node.args))).or_default();
            let mut candidates = entry.iter().rev().take(MAX_CANDIDATES);
            if let Some((_, other)) = candidates.find(|(from, _)| tree.dominates(*from, *block)) {
                replacements.0[id.index()] = *other;
                return false;
            }
            entry.push((*block, *id));
            true
        });
        graph.blocks[*block].nodes = nodes;
    }
    replacements.apply(graph);
}
