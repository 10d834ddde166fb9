//! Makes the intermediate form smaller and loops lighter: parameters that always bring the same, values that are known already, what a
//! loop computes again each time, and what nobody needs.
//!
//! A check that moves in front of a loop leaves the code there if it fails, before anything of the loop has happened. So checks may be
//! made earlier than the program makes them: the interpreter then goes on, and finds out itself what is wrong, or that nothing is.

use smallvec::SmallVec;

use super::layout;
use super::promote;
use super::ranges::{self, Loop};
use super::skip::{self, Guarded};
use super::strength;
use super::vectorise;
use crate::analysis::dominators::{Dominators, Predecessors, predecessors};
use crate::analysis::verify::{RangeChecks, Verifier};
use crate::ir::bits::Bits;
use crate::ir::graph::{ExitId, Graph, Kind, NodeId, Nodes, Terminator};
use crate::ir::hash::Table;
use crate::ir::types::{Effect, Scalar, Ty};
use crate::processor::features::Features;

/// No block.
const NONE: usize = usize::MAX;

/// Runs all passes, for a processor with these features.
pub(crate) fn optimise(graph: &mut Graph, features: Features) {
    let verifier = Verifier::begin(graph);
    if (0..graph.blocks.len()).all(|block| graph.branches(block).is_empty()) {
        // What each block computes once is computed once.
        remove_dead(graph, true);
        return verifier.after("remove_dead", graph, RangeChecks::Exact);
    }
    let predecessors = predecessors(graph);
    parameters(graph, &predecessors);
    verifier.after("parameters", graph, RangeChecks::Exact);
    let tree = Dominators::with_predecessors(graph, predecessors);
    number(graph, &tree, Replaced::new(graph));
    verifier.after("number", graph, RangeChecks::Exact);
    // What only looks as if it was needed would keep loops from being simple.
    remove_dead(graph, true);
    verifier.after("remove_dead", graph, RangeChecks::Exact);
    if graph.blocks.iter().all(|block| block.preheader_exit.is_none()) {
        // There are no loops.
        return;
    }
    let tree = if vectorise::widen_loops(graph, features) { Dominators::new(graph) } else { tree };
    verifier.after("widen_loops", graph, RangeChecks::Guarded);
    let hoisted = hoist(graph, &tree);
    let tree = if skip::skip_guards(graph, hoisted.guarded) { Dominators::new(graph) } else { tree };
    let mut replaced = Replaced::new(graph);
    hoisted.products.iter().for_each(|(product, sum)| replaced.0[product.index()] = *sum);
    constants(graph, &mut replaced);
    // What was moved in front of loops may be there already.
    number(graph, &tree, replaced);
    // Up to here somebody may need a product whose place a parameter takes.
    verifier.after("hoist, skip_guards and number", graph, RangeChecks::Skipped);
    remove_dead(graph, false);
    layout::lay_out(graph);
    verifier.after("lay_out", graph, RangeChecks::Skipped);
}

/// What each node was replaced by.
struct Replaced(Vec<NodeId>);

impl Replaced {
    fn new(graph: &Graph) -> Replaced {
        Replaced((0..graph.nodes.len() as u32).map(NodeId).collect())
    }

    fn get(&self, mut id: NodeId) -> NodeId {
        while self.0[id.index()] != id {
            id = self.0[id.index()];
        }
        id
    }

    /// The same, and the way to it is short from now on: that of a parameter of loops in each other may be as long as they are deep.
    fn find(&mut self, id: NodeId) -> NodeId {
        let end = self.get(id);
        let mut at = id;
        while at != end {
            at = std::mem::replace(&mut self.0[at.index()], end);
        }
        end
    }

    fn apply(&self, graph: &mut Graph) {
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
        for block in 0..graph.blocks.len() {
            if let Terminator::Branch(test, ..) = &mut graph.blocks[block].terminator {
                *test = self.get(*test);
            }
            for branch in graph.branches_mut(block) {
                branch.args.iter_mut().for_each(|arg| *arg = self.get(*arg));
            }
        }
    }
}

/// Lets everything that needs one node need another one.
pub(super) fn replace(graph: &mut Graph, old: NodeId, new: NodeId) {
    let mut replaced = Replaced::new(graph);
    replaced.0[old.index()] = new;
    replaced.apply(graph);
}

/// Removes parameters to which all branches bring one value.
fn parameters(graph: &mut Graph, predecessors: &[Predecessors]) {
    if graph.blocks.iter().all(|block| block.parameters.is_empty()) {
        return;
    }
    let mut replaced = Replaced::new(graph);
    loop {
        let mut changed = false;
        for block in graph.order.iter().copied() {
            for (index, parameter) in graph.blocks[block].parameters.iter().copied().enumerate() {
                if replaced.find(parameter) != parameter {
                    continue;
                }
                let mut values: SmallVec<[NodeId; 4]> = SmallVec::new();
                for (from, which) in &predecessors[block] {
                    let value = replaced.find(graph.branches(*from)[*which].args[index]);
                    if value != parameter && !values.contains(&value) {
                        values.push(value);
                    }
                }
                if let [only] = values.as_slice() {
                    replaced.0[parameter.index()] = *only;
                    changed = true;
                }
            }
        }
        if !changed {
            break;
        }
    }
    for (block, predecessors) in predecessors.iter().enumerate() {
        if graph.blocks[block].parameters.iter().all(|parameter| replaced.get(*parameter) == *parameter) {
            continue;
        }
        let kept: SmallVec<[bool; 16]> =
            graph.blocks[block].parameters.iter().map(|parameter| replaced.get(*parameter) == *parameter).collect();
        for (from, which) in predecessors {
            let mut index = 0;
            graph.branches_mut(*from)[*which].args.retain(|_| {
                index += 1;
                kept[index - 1]
            });
        }
        let mut index = 0;
        graph.blocks[block].parameters.retain(|_| {
            index += 1;
            kept[index - 1]
        });
    }
    replaced.apply(graph);
}

/// Whether two nodes of this kind with the same operands give the same.
fn is_repeatable(kind: Kind) -> bool {
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
fn constants(graph: &Graph, replaced: &mut Replaced) {
    let mut constants: Table<(u64, Scalar), NodeId> = Table::default();
    for (index, node) in graph.nodes.iter().enumerate() {
        if let (Kind::Constant(bits), Ty::Scalar(of)) = (node.kind, node.ty) {
            replaced.0[index] = *constants.entry((bits, of)).or_insert(NodeId(index as u32));
        }
    }
}

/// Of nodes that give the same in blocks none of which comes before another one, so many are looked at.
const MOST_LOOKED_AT: usize = 32;

/// Replaces nodes by others that give the same and were made before on every path, besides those that are replaced anyway.
fn number(graph: &mut Graph, tree: &Dominators, mut replaced: Replaced) {
    let mut known: Table<Key, SmallVec<[(usize, NodeId); 1]>> = Table::default();
    for block in tree.order() {
        let mut nodes = std::mem::take(&mut graph.blocks[*block].nodes);
        nodes.retain(|id| {
            let node = &mut graph.nodes[id.index()];
            node.args.iter_mut().for_each(|arg| *arg = replaced.get(*arg));
            if !is_repeatable(node.kind) {
                return true;
            }
            let entry = known.entry((node.kind, node.ty, SmallVec::from_slice(&node.args))).or_default();
            let mut recent = entry.iter().rev().take(MOST_LOOKED_AT);
            if let Some((_, other)) = recent.find(|(from, _)| tree.dominates(*from, *block)) {
                replaced.0[id.index()] = *other;
                return false;
            }
            entry.push((*block, *id));
            true
        });
        graph.blocks[*block].nodes = nodes;
    }
    replaced.apply(graph);
}

/// What [`hoist`] leaves to do.
#[derive(Default)]
struct Hoisted {
    /// The guards of loops that may not run.
    guarded: Vec<Guarded>,
    /// Products, and the parameters that take their place.
    products: Vec<(NodeId, NodeId)>,
}

/// Moves what is the same each time round in front of its loop. Sets how many loops each block is in.
fn hoist(graph: &mut Graph, tree: &Dominators) -> Hoisted {
    let mut hoisted = Hoisted::default();
    let mut home = vec![NONE; graph.nodes.len()];
    for (block, content) in graph.blocks.iter().enumerate() {
        content.parameters.iter().chain(&content.nodes).for_each(|node| home[node.index()] = block);
    }
    // Inner loops come later, and what leaves them may leave the outer one as well.
    for preheader in tree.order().iter().rev().copied() {
        let Some(exit) = graph.blocks[preheader].preheader_exit else { continue };
        let Some(header) = graph.branches(preheader).first().map(|branch| branch.target) else { continue };
        let latches: Vec<usize> =
            tree.predecessors[header].iter().map(|(from, _)| *from).filter(|from| *from != preheader).collect();
        // The blocks from which a branch back is reached without passing the head.
        let mut body = vec![false; graph.blocks.len()];
        body[header] = true;
        let mut pending = latches.clone();
        while let Some(block) = pending.pop() {
            if !std::mem::replace(&mut body[block], true) {
                pending.extend(tree.predecessors[block].iter().map(|(from, _)| *from));
            }
        }
        let inside: Vec<usize> = tree.order().iter().copied().filter(|block| body[*block]).collect();
        for block in &inside {
            graph.blocks[*block].depth += 1;
        }
        if inside.iter().all(|block| tree.dominates(header, *block)) {
            let always = |block: usize| latches.iter().all(|latch| tree.dominates(block, *latch));
            let mut behind_test = Vec::new();
            for block in inside.iter().copied() {
                let (always, moved) = (always(block), graph.blocks[preheader].nodes.len());
                move_invariants(graph, &mut home, block, preheader, exit, always, &body);
                if block != header {
                    behind_test.extend_from_slice(&graph.blocks[preheader].nodes[moved..]);
                }
            }
            // An outer loop is not given up for a check that may not be made in it.
            let is_outer = inside.iter().any(|block| graph.blocks[*block].preheader_exit.is_some());
            let checked: Vec<usize> = inside.iter().copied().filter(|block| !is_outer || always(*block)).collect();
            let this = Loop { preheader, header, latches: &latches, body: &inside, checked: &checked, exit };
            if let Some(mut guarded) = ranges::move_checks(graph, &mut home, &this) {
                behind_test.retain(|id| matches!(graph.node(*id).kind, Kind::IsMutable(_)));
                guarded.moved = behind_test;
                hoisted.guarded.push(guarded);
            }
            promote::promote(graph, &mut home, &this);
            hoisted.products.extend(strength::reduce(graph, &mut home, &this, &always));
        }
    }
    hoisted
}

fn move_invariants(
    graph: &mut Graph,
    home: &mut [usize],
    block: usize,
    preheader: usize,
    exit: ExitId,
    always: bool,
    body: &[bool],
) {
    let nodes = std::mem::take(&mut graph.blocks[block].nodes);
    let mut kept = Nodes::with_capacity(nodes.len());
    for id in nodes {
        let node = graph.node(id);
        let invariant = is_repeatable(node.kind)
            && node.ty != Ty::Truth
            && node.args.iter().all(|arg| !in_body(graph, home, *arg, body))
            && node.exit.is_none_or(|exit| always && graph.exit(exit).fallback.is_none());
        if !invariant {
            kept.push(id);
            continue;
        }
        if graph.node(id).exit.is_some() {
            graph.nodes[id.index()].exit = Some(exit);
        }
        // Truths that it is made of are made where it is.
        home[id.index()] = preheader;
        graph.blocks[preheader].nodes.push(id);
    }
    graph.blocks[block].nodes = kept;
}

/// Whether a value is computed in a loop. A truth is where its operands are.
fn in_body(graph: &Graph, home: &[usize], id: NodeId, body: &[bool]) -> bool {
    if graph.node(id).ty == Ty::Truth {
        return graph.node(id).args.iter().any(|arg| in_body(graph, home, *arg, body));
    }
    // Constants are nowhere.
    body.get(home[id.index()]).is_some_and(|inside| *inside)
}

/// Removes nodes whose values nobody needs. What slots hold at the beginning of loops may be needed yet.
pub(crate) fn remove_dead(graph: &mut Graph, with_states: bool) {
    let (mut live, mut exits) = (Bits::new(graph.nodes.len()), Bits::new(graph.exits.len()));
    let mut pending: SmallVec<[NodeId; 64]> = SmallVec::new();
    let mut leaves: SmallVec<[ExitId; 16]> = SmallVec::new();
    pending
        .extend(graph.native_terminators.values().flat_map(|terminator| &terminator.values).map(|(value, _)| *value));
    for block in 0..graph.blocks.len() {
        let keeps = |id: &&NodeId| {
            let node = graph.node(**id);
            node.exit.is_some()
                || matches!(node.kind, Kind::StoreLanes(..))
                || matches!(node.kind, Kind::Primitive(primitive, _) if primitive.effect() == Effect::Store)
        };
        pending.extend(graph.blocks[block].nodes.iter().filter(keeps).copied());
        leaves.extend(graph.blocks[block].header_exit.filter(|_| with_states));
        match &graph.blocks[block].terminator {
            Terminator::SideExit(_, exit) => leaves.push(*exit),
            Terminator::Branch(test, ..) => pending.push(*test),
            Terminator::Jump(_) | Terminator::Guarded(..) | Terminator::Open => {}
        }
        for branch in graph.branches(block) {
            // A parameter that nobody needs is rare, and costs a move.
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
    for block in &mut graph.blocks {
        block.nodes.retain(|id| live.contains(id.index()));
    }
}
