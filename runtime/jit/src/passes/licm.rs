//! Loop-invariant code motion, and the passes that are run for each loop with it.

use super::guard_sinking::Guarded;
use super::gvn::is_idempotent;
use super::range_check_hoisting::{self, Loop};
use super::{scalar_promotion, strength_reduction};
use crate::analysis::dominators::Dominators;
use crate::ir::graph::{ExitId, Graph, Kind, NodeId, Nodes};
use crate::ir::types::Ty;

/// No block.
const NONE: usize = usize::MAX;

/// What [`hoist`] leaves to do.
#[derive(Default)]
pub(super) struct Hoisted {
    /// The guards of loops that may not run.
    pub guarded: Vec<Guarded>,
    /// Products, and the parameters that take their place.
    pub products: Vec<(NodeId, NodeId)>,
}

/// Moves what is the same each time round in front of its loop. Sets how many loops each block is in.
pub(super) fn hoist_invariants(graph: &mut Graph, tree: &Dominators) -> Hoisted {
    let mut hoisted = Hoisted::default();
    let mut block_of = vec![NONE; graph.nodes.len()];
    for (block, content) in graph.blocks.iter().enumerate() {
        content.parameters.iter().chain(&content.nodes).for_each(|node| block_of[node.index()] = block);
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
            let is_in_each_iteration = |block: usize| latches.iter().all(|latch| tree.dominates(block, *latch));
            let mut after_test = Vec::new();
            for block in inside.iter().copied() {
                let (is_in_each_iteration, moved) = (is_in_each_iteration(block), graph.blocks[preheader].nodes.len());
                move_invariants(graph, &mut block_of, block, preheader, exit, is_in_each_iteration, &body);
                if block != header {
                    after_test.extend_from_slice(&graph.blocks[preheader].nodes[moved..]);
                }
            }
            // An outer loop is not given up for a check that may not be made in it.
            let is_outer = inside.iter().any(|block| graph.blocks[*block].preheader_exit.is_some());
            let checked: Vec<usize> =
                inside.iter().copied().filter(|block| !is_outer || is_in_each_iteration(*block)).collect();
            let this = Loop { preheader, header, latches: &latches, body: &inside, checked: &checked, exit };
            if let Some(mut guarded) = range_check_hoisting::move_checks(graph, &mut block_of, &this) {
                after_test.retain(|id| matches!(graph.node(*id).kind, Kind::IsMutable(_)));
                guarded.moved = after_test;
                hoisted.guarded.push(guarded);
            }
            scalar_promotion::promote(graph, &mut block_of, &this);
            hoisted.products.extend(strength_reduction::reduce(graph, &mut block_of, &this, &is_in_each_iteration));
        }
    }
    hoisted
}

fn move_invariants(
    graph: &mut Graph,
    block_of: &mut [usize],
    block: usize,
    preheader: usize,
    exit: ExitId,
    is_in_each_iteration: bool,
    body: &[bool],
) {
    let nodes = std::mem::take(&mut graph.blocks[block].nodes);
    let mut kept = Nodes::with_capacity(nodes.len());
    for id in nodes {
        let node = graph.node(id);
        let invariant = is_idempotent(node.kind)
            && node.ty != Ty::Truth
            && node.args.iter().all(|arg| !in_body(graph, block_of, *arg, body))
            && node.exit.is_none_or(|exit| is_in_each_iteration && graph.exit(exit).fallback.is_none());
        if !invariant {
            kept.push(id);
            continue;
        }
        if graph.node(id).exit.is_some() {
            graph.nodes[id.index()].exit = Some(exit);
        }
        // Truths that it is made of are made where it is.
        block_of[id.index()] = preheader;
        graph.blocks[preheader].nodes.push(id);
    }
    graph.blocks[block].nodes = kept;
}

/// Whether a value is computed in a loop. A truth is where its operands are.
fn in_body(graph: &Graph, block_of: &[usize], id: NodeId, body: &[bool]) -> bool {
    if graph.node(id).ty == Ty::Truth {
        return graph.node(id).args.iter().any(|arg| in_body(graph, block_of, *arg, body));
    }
    // Constants are nowhere.
    body.get(block_of[id.index()]).is_some_and(|inside| *inside)
}
