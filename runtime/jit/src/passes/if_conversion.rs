//! If-conversion: a branch on loaded data around a few pure nodes becomes selections. Such a branch is taken by chance,
//! as in a binary search, and a wrong prediction costs more than the nodes of both sides together. It runs before the
//! passes for loops, to which a loop without the branch is simpler.
//!
//! A branch that does not depend on a load is left: most are predicted, and a selection would wait for its operands.

use smallvec::SmallVec;

use super::replacements::Replacements;
use crate::analysis::dominators::{Predecessors, predecessors};
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{BlockIndex, Branch, Graph, Kind, NodeId, Nodes, Terminator};
use crate::ir::per_block::PerBlock;
use crate::ir::types::{Effect, Ty};

/// Most nodes of both sides together, and most selections.
const MAX_NODES: usize = 4;
const MAX_SELECTIONS: usize = 3;
/// So many operations are followed from a test to a load.
const MAX_DISTANCE: usize = 3;

/// A branch that can be replaced.
struct Conversion {
    block: BlockIndex,
    test: NodeId,
    /// The blocks of the sides, none for one that leads to the join itself.
    sides: [Option<BlockIndex>; 2],
    join: BlockIndex,
    /// The arguments for the join from each side.
    args: [Nodes; 2],
}

/// Replaces branches by selections. Whether there were some.
pub(super) fn convert_branches(graph: &mut Graph) -> bool {
    let mut predecessors = predecessors(graph);
    let mut converted = false;
    // Inner branches come after outer ones, which may be converted once the inner ones are.
    for block in graph.order.clone().into_iter().rev() {
        if !graph.effort.spend(1) {
            break;
        }
        while let Some(conversion) = find(graph, &predecessors, block) {
            if !graph.effort.spend(graph.nodes.len() + graph.order.len()) {
                return converted;
            }
            convert(graph, &mut predecessors, &conversion);
            converted = true;
        }
    }
    converted
}

/// The branch at the end of a block, if it can be replaced.
fn find(graph: &Graph, predecessors: &PerBlock<Predecessors>, block: BlockIndex) -> Option<Conversion> {
    let Terminator::Branch(test, branches) = &graph.blocks[block].terminator else { return None };
    if branches.iter().any(|branch| branch.limits_exit.is_some()) || !is_unpredictable(graph, *test, MAX_DISTANCE) {
        return None;
    }
    // A side is a block that only this branch leads to, or the join.
    let sides = [0, 1].map(|index| side(graph, predecessors, &branches[index]));
    let ends = [0, 1].map(|index| match sides[index] {
        Some(side) => graph.branches(side).first(),
        None => Some(&branches[index]),
    });
    let [Some(then), Some(otherwise)] = ends else { return None };
    let join = then.target;
    let target = &graph.blocks[join];
    let differing = then.args.iter().zip(&otherwise.args).filter(|(a, b)| a != b);
    let is_integer = |(a, _): (&NodeId, &NodeId)| matches!(graph.node(*a).ty, Ty::Scalar(of) if !of.is_float());
    let nodes = sides.iter().flatten().flat_map(|side| &graph.blocks[*side].nodes);
    let fits = nodes.filter(|id| graph.node(**id).ty != Ty::Truth).count() <= MAX_NODES
        && differing.clone().count() <= MAX_SELECTIONS
        && differing.clone().all(is_integer);
    let is_join = otherwise.target == join && target.entry.is_none() && target.header_exit.is_none() && join != block;
    (fits && is_join && (sides[0].is_some() || sides[1].is_some())).then(|| Conversion {
        block,
        test: *test,
        sides,
        join,
        args: [then.args.clone(), otherwise.args.clone()],
    })
}

/// The block that a branch leads to, if it has only pure nodes, jumps, and nothing else leads to it.
fn side(graph: &Graph, predecessors: &PerBlock<Predecessors>, branch: &Branch) -> Option<BlockIndex> {
    let block = &graph.blocks[branch.target];
    let is_plain = block.entry.is_none() && block.preheader_exit.is_none() && block.header_exit.is_none();
    let Terminator::Jump(end) = &block.terminator else { return None };
    (is_plain
        && predecessors[branch.target].len() == 1
        && block.parameters.is_empty()
        && end.limits_exit.is_none()
        && block.nodes.iter().all(|id| is_cheap(graph, *id)))
    .then_some(branch.target)
}

/// Whether a node takes a cycle or a few, and does nothing else.
fn is_cheap(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    let is_integer = node.ty == Ty::Truth || matches!(node.ty, Ty::Scalar(of) if !of.is_float());
    is_integer
        && node.exit.is_none()
        && match node.kind {
            Kind::Primitive(primitive, of) => primitive.effect() == Effect::Pure && !of.is_float(),
            Kind::Number | Kind::Low | Kind::High | Kind::Pair | Kind::Cast => true,
            _ => false,
        }
}

/// Whether the value of a node follows from a load within a few operations, or a test is one of bits.
fn is_unpredictable(graph: &Graph, id: NodeId, distance: usize) -> bool {
    let node = graph.node(id);
    match node.kind {
        Kind::Primitive(primitive, of) if primitive.effect() == Effect::Load => !of.is_float(),
        Kind::Primitive(Primitive::And, _) if distance + 1 >= MAX_DISTANCE => true,
        Kind::Primitive(primitive, _) if primitive.effect() != Effect::Pure => false,
        Kind::Primitive(..) | Kind::Number | Kind::Low | Kind::Cast => {
            distance > 0 && node.args.iter().any(|arg| is_unpredictable(graph, *arg, distance - 1))
        }
        _ => false,
    }
}

fn convert(graph: &mut Graph, predecessors: &mut PerBlock<Predecessors>, conversion: &Conversion) {
    let Conversion { block, test, sides, join, args } = conversion;
    for side in sides.iter().flatten() {
        let nodes = std::mem::take(&mut graph.blocks[*side].nodes);
        graph.blocks[*block].nodes.extend(nodes);
        graph.blocks[*side].terminator = Terminator::Open;
        predecessors[*side].clear();
    }
    let chosen: SmallVec<[NodeId; 8]> = args[0]
        .iter()
        .zip(&args[1])
        .map(|(then, otherwise)| {
            let Ty::Scalar(of) = graph.node(*then).ty else { return *then };
            let kind = Kind::Primitive(Primitive::Select, of);
            if then == otherwise {
                *then
            } else {
                graph.add_node(*block, kind, Ty::Scalar(of), &[*test, *then, *otherwise])
            }
        })
        .collect();
    let is_gone = |from: BlockIndex| from == *block || sides.iter().flatten().any(|side| *side == from);
    predecessors[*join].retain(|(from, _)| !is_gone(*from));
    let removed: SmallVec<[BlockIndex; 2]> = sides.iter().flatten().copied().collect();
    graph.order.retain(|block| !removed.contains(block));
    let is_plain = {
        let target = &graph.blocks[*join];
        let is_branch = !target.terminator.branches().is_empty();
        is_branch && target.preheader_exit.is_none() && target.header_exit.is_none() && target.entry.is_none()
    };
    if !predecessors[*join].is_empty() || !is_plain {
        predecessors[*join].push((*block, 0));
        let args = chosen.into_iter().collect();
        graph.blocks[*block].terminator = Terminator::Jump(Branch { target: *join, args, ..Branch::default() });
        return;
    }
    // Nothing else leads to the join, so the block goes on with what it does.
    let mut replacements = Replacements::new(graph);
    let content = &mut graph.blocks[*join];
    let parameters = std::mem::take(&mut content.parameters);
    let nodes = std::mem::take(&mut content.nodes);
    let terminator = std::mem::replace(&mut content.terminator, Terminator::Open);
    parameters.iter().zip(chosen).for_each(|(parameter, node)| replacements.0[parameter.index()] = node);
    graph.blocks[*block].nodes.extend(nodes);
    graph.blocks[*block].terminator = terminator;
    for branch in 0..graph.branches(*block).len() {
        let target = graph.branches(*block)[branch].target;
        let from = predecessors[target].iter_mut().find(|from| **from == (*join, branch));
        from.into_iter().for_each(|from| from.0 = *block);
    }
    graph.order.retain(|block| block != join);
    graph.terminator_ops.iter_mut().filter(|(of, _)| of == join).for_each(|(of, _)| *of = *block);
    replacements.apply(graph);
}
