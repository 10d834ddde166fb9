//! Splats of loads: a value that is loaded and then splat is one load, which writes it to all lanes.
//!
//! A product of matrices splats an element for every few vectors that it computes. Copying it from a register takes one
//! of the two units that multiply and add vectors; a load that splats takes neither. A constant that is added to the
//! index becomes part of the address, so rows that are computed together need no register each for it. This comes after
//! LICM and GVN, which have found what is computed once. A splat with one user is then loaded where that is.

use smallvec::SmallVec;

use crate::generated::vm::primitive::Primitive;
use crate::ir::bits::Bits;
use crate::ir::graph::{BlockIndex, Graph, Kind, NodeId, Nodes};
use crate::ir::hash::Table;
use crate::ir::types::{Effect, Scalar, Width};

use super::replacements::Replacements;

/// Most elements that a constant adds to an index: their bytes fit the displacement of an address.
const MAX_DISPLACEMENT: i64 = 1 << 28;

/// Replaces splats of values that their block loads. The loads stay, and are dead if they have no other use.
pub(super) fn fold_loads(graph: &mut Graph) {
    let mut replacements: Option<Replacements> = None;
    for block in graph.blocks.indices() {
        for (splat, load) in splats_of_loads(graph, block) {
            let Kind::Primitive(primitive, _) = graph.node(load).kind else { continue };
            let (base, index) = (graph.node(load).args[0], graph.node(load).args[1]);
            let (index, displacement) = without_constant(graph, index);
            let kind = Kind::LoadSplat(primitive, displacement);
            let ty = graph.node(splat).ty;
            let folded = graph.add_node(block, kind, ty, &[base, index]);
            // It comes where the load is: a store may follow.
            let nodes = &mut graph.blocks[block].nodes;
            nodes.pop();
            let at = nodes.iter().position(|id| *id == load).unwrap_or(nodes.len());
            nodes.insert(at, folded);
            let replacements = replacements.get_or_insert_with(|| Replacements::new(graph));
            replacements.0.resize(graph.nodes.len(), folded);
            replacements.0[splat.index()] = folded;
        }
    }
    if let Some(replacements) = replacements {
        replacements.apply(graph);
    }
}

/// Marks the splats that one node uses, before anything is stored, as folded: they are loaded where that node is, to a
/// register that holds no other value. The rows of a product need one register less then. Nodes are neither added nor
/// removed after this.
pub(super) fn fold_into_users(graph: &mut Graph) {
    let mut uses: Table<NodeId, u32> = Table::default();
    for content in graph.blocks.iter() {
        for id in content.nodes.iter().filter(|id| matches!(graph.node(**id).kind, Kind::LoadSplat(..))) {
            uses.insert(*id, 0);
        }
    }
    if uses.is_empty() {
        return;
    }
    let mut note = |id: &NodeId| {
        if let Some(count) = uses.get_mut(id) {
            *count += 1;
        }
    };
    for block in graph.blocks.indices() {
        graph.blocks[block].nodes.iter().for_each(|id| graph.node(*id).args.iter().for_each(&mut note));
        graph.branches(block).iter().for_each(|branch| branch.args.iter().for_each(&mut note));
    }
    let fallbacks = graph.exits.iter().filter_map(|exit| exit.fallback.as_ref());
    fallbacks.for_each(|branch| branch.args.iter().for_each(&mut note));
    let mut folded = Bits::new(graph.nodes.len());
    for content in graph.blocks.iter() {
        // The splats that have been loaded since something was stored.
        let mut loaded: SmallVec<[NodeId; 16]> = SmallVec::new();
        for id in &content.nodes {
            let node = graph.node(*id);
            match node.kind {
                Kind::LoadSplat(..) if uses.get(id) == Some(&1) => loaded.push(*id),
                Kind::StoreLanes(..) => loaded.clear(),
                Kind::Primitive(primitive, _) if primitive.effect() == Effect::Store => loaded.clear(),
                Kind::Lanes(primitive, _) if primitive.effect() == Effect::Pure => {
                    node.args.iter().filter(|arg| loaded.contains(arg)).for_each(|arg| folded.insert(arg.index()));
                }
                _ => {}
            }
        }
    }
    graph.folded = folded;
}

/// The splats of values that the same block has loaded, with the loads: of 32 bits, or of 64 where that is the size of
/// lanes. No load splats a byte.
fn splats_of_loads(graph: &Graph, block: BlockIndex) -> Vec<(NodeId, NodeId)> {
    let nodes: &Nodes = &graph.blocks[block].nodes;
    let is_load = |id: NodeId| match graph.node(id).kind {
        Kind::Primitive(primitive, _) => {
            primitive.effect() == Effect::Load && matches!(primitive.element_shift(), 2 | 3)
        }
        _ => false,
    };
    // Only blocks of vector loops have splats, and those have few nodes.
    let mut found = Vec::new();
    for (index, id) in nodes.iter().enumerate() {
        let node = graph.node(*id);
        if node.kind == Kind::Splat
            && (!node.scalar().is_wide() || node.width() == Some(Width::Four))
            && !node.width().is_some_and(Width::has_bytes)
            && is_load(node.args[0])
            && nodes[..index].contains(&node.args[0])
        {
            found.push((*id, node.args[0]));
        }
    }
    found
}

/// An index without a constant that is added to it, and that constant.
fn without_constant(graph: &Graph, index: NodeId) -> (NodeId, i32) {
    let node = graph.node(index);
    if node.kind != Kind::Primitive(Primitive::WrappingAdd, Scalar::I64) {
        return (index, 0);
    }
    for (constant, other) in [(node.args[1], node.args[0]), (node.args[0], node.args[1])] {
        let constant = graph.constant(constant).map(|bits| bits as i64);
        if let Some(constant) = constant.filter(|constant| (-MAX_DISPLACEMENT..MAX_DISPLACEMENT).contains(constant)) {
            return (other, constant as i32);
        }
    }
    (index, 0)
}
