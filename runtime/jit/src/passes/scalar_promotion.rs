//! Scalar promotion: an element of a buffer that a loop loads and stores in each iteration is kept in a register, such
//! as the sum of a matrix product.
//!
//! The element is loaded in the preheader and stored after the loop. That is the same if no other access in the loop
//! overlaps it and if the loop runs, which guards in the preheader make sure of: no byte is written that the program
//! does not write. The exit of the back edge, for the limits, has the store as a pending one. LICM runs this for each
//! loop.

use smallvec::smallvec;

use super::range_check_hoisting::{Guard, Loop, counted_loop, is_inside};
use crate::ir::graph::{BlockIndex, Branch, Graph, Kind, Node, NodeId, Terminator};
use crate::ir::types::{Effect, Ty};

/// A promotable element: its store and its load, and the other loads of the loop.
struct Promotable {
    store: NodeId,
    load: NodeId,
    others: Vec<NodeId>,
}

/// Promotes the element that the loop stores to, if it can be.
pub(super) fn promote(graph: &mut Graph, block_of: &mut Vec<BlockIndex>, of: &Loop<'_>) {
    let [latch] = *of.latches else { return };
    if of.body.len() != 2 || latch == of.header || !is_simple(graph, of, latch) {
        return;
    }
    let Some(counted) = counted_loop(graph, block_of, of).filter(|counted| counted.is_top_tested) else { return };
    let Some(found) = find(graph, block_of, of, latch) else { return };
    let mut guard = Guard::new(graph, block_of, of, counted);
    let indices: Vec<NodeId> = found.others.iter().map(|load| guard.graph.node(*load).args[1]).collect();
    if !indices.iter().all(|index| guard.is_linear(*index, 8)) {
        return;
    }
    guard.check_bounds();
    guard.check_runs();
    let store = guard.graph.node(found.store).clone();
    let (base, index, value) = (store.args[0], store.args[1], store.args[2]);
    let width = width(guard.graph, found.store);
    let own = guard.address(base, index, width);
    for (load, index) in found.others.iter().zip(indices) {
        let (base, size) = (guard.graph.node(*load).args[0], self::width(guard.graph, *load));
        guard.check_apart(own, width, base, index, size);
    }
    let load = guard.graph.node(found.load).clone();
    let first = guard.add(load.kind, load.ty, load.args.clone());
    let parameter = guard.push_to(of.header, Kind::Parameter, load.ty);
    graph.blocks[of.header].parameters.push(parameter);
    graph.branches_mut(of.preheader)[0].args.push(first);
    graph.branches_mut(latch)[0].args.push(value);
    graph.blocks[latch].nodes.retain(|id| *id != found.load && *id != found.store);
    let exit = graph.branches(latch)[0].limits_exit;
    replace_in_latch(graph, latch, found.load, parameter);
    if let Some(exit) = exit {
        // The value to store, as it is called after the replacement.
        let value = if value == found.load { parameter } else { value };
        let stored = store_of(graph, block_of, &store.kind, [base, index, value], of.header);
        graph.exits[exit.0 as usize].pending_stores.push(stored);
    }
    store_after_loop(graph, block_of, of, &store.kind, [base, index, parameter]);
}

/// Replaces a node of a latch. All its uses are there, since the latch dominates no other block and its nodes have no
/// exits.
fn replace_in_latch(graph: &mut Graph, latch: BlockIndex, old: NodeId, new: NodeId) {
    let replace = |id: &mut NodeId| {
        if *id == old {
            *id = new;
        }
    };
    for id in graph.blocks[latch].nodes.clone() {
        graph.nodes[id.index()].args.iter_mut().for_each(replace);
    }
    for branch in graph.branches_mut(latch) {
        branch.args.iter_mut().for_each(replace);
    }
}

/// Makes a store, which the caller inserts.
fn store_of(
    graph: &mut Graph,
    block_of: &mut Vec<BlockIndex>,
    kind: &Kind,
    args: [NodeId; 3],
    block: BlockIndex,
) -> NodeId {
    graph.nodes.push(Node { kind: *kind, ty: Ty::Nothing, args: smallvec![args[0], args[1], args[2]], exit: None });
    block_of.push(block);
    NodeId(graph.nodes.len() as u32 - 1)
}

/// Stores the element in a new block on the exit edge of the loop.
fn store_after_loop(graph: &mut Graph, block_of: &mut Vec<BlockIndex>, of: &Loop<'_>, kind: &Kind, args: [NodeId; 3]) {
    let new = graph.add_block();
    let store = store_of(graph, block_of, kind, args, new);
    let depth = graph.blocks[of.header].depth.saturating_sub(1);
    let Terminator::Branch(_, [_, otherwise]) = &mut graph.blocks[of.header].terminator else { return };
    let onward = std::mem::replace(otherwise, Branch { target: new, ..Branch::default() });
    let block = &mut graph.blocks[new];
    (block.nodes, block.terminator, block.depth) = (smallvec![store], Terminator::Jump(onward), depth);
    // Right after the header: after the body, the live ranges of the base and the index would include that.
    let at = graph.order.iter().position(|block| *block == of.header);
    graph.order.insert(at.map_or(graph.order.len(), |at| at + 1), new);
}

/// Whether the loop is a header that tests and a latch without checks, whose only exit is that of its countdown.
fn is_simple(graph: &Graph, of: &Loop<'_>, latch: BlockIndex) -> bool {
    let is_truth = |id: &NodeId| graph.node(*id).ty == Ty::Truth;
    let Terminator::Branch(_, [then, otherwise]) = &graph.blocks[of.header].terminator else { return false };
    graph.blocks[of.header].nodes.iter().all(is_truth)
        && then.target == latch
        && otherwise.limits_exit.is_none()
        && matches!(graph.blocks[latch].terminator, Terminator::Jump(_))
        && graph.blocks[latch].nodes.iter().all(|id| graph.node(*id).exit.is_none())
}

fn find(graph: &Graph, block_of: &[BlockIndex], of: &Loop<'_>, latch: BlockIndex) -> Option<Promotable> {
    let (mut store, mut loads) = (None, Vec::new());
    for id in &graph.blocks[latch].nodes {
        let Kind::Primitive(primitive, _) = graph.node(*id).kind else { continue };
        match primitive.effect() {
            Effect::Store if store.is_some() => return None,
            Effect::Store => store = Some((*id, primitive)),
            // A load after the store would find what was stored.
            Effect::Load if store.is_some() => return None,
            Effect::Load => loads.push(*id),
            Effect::Pure | Effect::Call | Effect::Trap => {}
        }
    }
    let (store, primitive) = store?;
    let args = &graph.node(store).args;
    let (wanted, of_load) = primitive.whole_load()?;
    if is_inside(graph, block_of, of, args[0]) || is_inside(graph, block_of, of, args[1]) {
        return None;
    }
    let same = |id: &NodeId| {
        let node = graph.node(*id);
        node.kind == Kind::Primitive(wanted, of_load) && node.args[..2] == args[..2]
    };
    // GVN does not merge loads, so there may be several of the element. Such a loop is left alone.
    let [load] = loads.iter().copied().filter(|id| same(id)).collect::<Vec<_>>()[..] else { return None };
    let others: Vec<NodeId> = loads.into_iter().filter(|id| *id != load).collect();
    let invariant = others.iter().all(|id| !is_inside(graph, block_of, of, graph.node(*id).args[0]));
    invariant.then_some(Promotable { store, load, others })
}

/// Bytes of the element of a load or store.
fn width(graph: &Graph, id: NodeId) -> u64 {
    match graph.node(id).kind {
        Kind::Primitive(primitive, _) => 1 << primitive.element_shift(),
        kind => unreachable!("{kind:?} accesses no element"),
    }
}
