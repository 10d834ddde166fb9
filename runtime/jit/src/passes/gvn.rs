//! Global value numbering: a node is replaced by one with the same operation and operands in a dominating block. Checks are nodes, so a check
//! that was made before is removed like any other. It runs before the passes for loops, and again after them.

use std::hash::{Hash, Hasher};

use smallvec::SmallVec;

use super::replacements::Replacements;
use crate::analysis::dominators::Dominators;
use crate::ir::graph::{BlockIndex, Graph, Kind, Node, NodeId};
use crate::ir::hash::{self, Table};
use crate::ir::types::{Effect, Scalar, Ty};

/// Whether two nodes of this kind with the same operands have the same value and effect.
pub(super) fn is_idempotent(kind: Kind) -> bool {
    match kind {
        Kind::Primitive(primitive, _) => matches!(primitive.effect(), Effect::Pure | Effect::Call),
        Kind::Lanes(primitive, _) => matches!(primitive.effect(), Effect::Pure | Effect::Call),
        Kind::Constant(_) | Kind::Parameter | Kind::Slot(_) | Kind::Passed(_) => false,
        Kind::LoadLanes(..) | Kind::StoreLanes(..) | Kind::Gather(..) | Kind::LoadRows(..) | Kind::LoadSplat(..) => {
            false
        }
        Kind::LoadEven(..) | Kind::LoadBytes(..) | Kind::GatherBytes(..) => false,
        Kind::CountSteps | Kind::UncountStep => false,
        _ => true,
    }
}

/// The operation, the type and the operands. The type counts since vectors of one value may have different widths.
#[derive(PartialEq, Eq)]
struct Key {
    kind: Kind,
    ty: Ty,
    /// No node follows them.
    operands: [NodeId; MAX_OPERANDS],
}

/// Most operands of a node that is looked for.
const MAX_OPERANDS: usize = 4;

impl Key {
    /// None if there are too many operands.
    fn of(node: &Node) -> Option<Key> {
        let mut operands = [NodeId(u32::MAX); MAX_OPERANDS];
        operands.get_mut(..node.args.len())?.copy_from_slice(&node.args);
        Some(Key { kind: node.kind, ty: node.ty, operands })
    }
}

impl Hash for Key {
    /// Leaves out the type, which hardly ever differs, and takes operands two at a time.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [a, b, c, d] = self.operands.map(|id| u64::from(id.0));
        self.kind.hash(state);
        state.write_u64(a | b << 32);
        state.write_u64(c | d << 32);
    }
}

/// Replaces constants with the same bits by one: passes make new ones without looking.
pub(super) fn merge_constants(graph: &Graph, replacements: &mut Replacements) {
    let mut constants: Table<(u64, Scalar), NodeId> = Table::default();
    for (index, node) in graph.nodes.iter().enumerate() {
        if let (Kind::Constant(bits), Ty::Scalar(of)) = (node.kind, node.ty) {
            replacements.0[index] = *constants.entry((bits, of)).or_insert(NodeId(index as u32));
        }
    }
}

/// GVN keeps several candidates per key where none dominates the others; at most this many are tested.
const MAX_CANDIDATES: usize = 32;

/// Numbers the values of a graph, and applies the replacements that were found before, too.
pub(super) fn number_values(graph: &mut Graph, tree: &Dominators, mut replacements: Replacements) {
    let nodes = graph.blocks.iter().map(|block| block.nodes.len()).sum();
    let mut known: Table<Key, SmallVec<[(BlockIndex, NodeId); 1]>> = hash::with_room(nodes);
    for block in tree.order() {
        let mut nodes = std::mem::take(&mut graph.blocks[*block].nodes);
        nodes.retain(|id| {
            let node = &mut graph.nodes[id.index()];
            node.args.iter_mut().for_each(|arg| *arg = replacements.get(*arg));
            if !is_idempotent(node.kind) {
                return true;
            }
            let Some(key) = Key::of(node) else { return true };
            let entry = known.entry(key).or_default();
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
