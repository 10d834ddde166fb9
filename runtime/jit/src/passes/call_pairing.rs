//! Call pairing: two calls of one function for vectors become one call for both, which computes with them at a time.
//! The operands of the second call are moved before the first one.
//!
//! A loop calls `exp` for four vectors one after the other, and adds up the results in their order. The operations of a
//! call depend on each other, and processors see too few operations ahead to begin with the next call meanwhile.

use crate::ir::graph::{Graph, Kind, NodeId};
use crate::ir::types::{Effect, Width};
use crate::math::vector;

/// Marks the first node of each pair, and moves the second one after it. Later passes leave nothing between them.
pub(super) fn pair_calls(graph: &mut Graph) {
    for block in graph.blocks.indices() {
        let mut calls = graph.blocks[block].nodes.iter().filter(|id| is_for_pairs(graph, **id));
        if calls.nth(1).is_none() {
            continue;
        }
        let mut nodes = std::mem::take(&mut graph.blocks[block].nodes);
        let mut begin = 0;
        while let Some((first, second)) = next_calls(graph, &nodes, begin) {
            begin = second;
            if let Some(needed) = needed_between(graph, &nodes[first..=second]) {
                let others = nodes[first + 1..second].iter().copied().filter(|id| !needed.contains(id));
                let call = nodes[first];
                let order: Vec<NodeId> = needed.iter().copied().chain([call, nodes[second]]).chain(others).collect();
                nodes[first..=second].copy_from_slice(&order);
                let node = &mut graph.nodes[call.index()];
                if let Kind::Lanes(primitive, of) = node.kind {
                    node.kind = Kind::FirstOfPair(primitive, of);
                }
                // The others may be after the next call.
                begin = first;
            }
        }
        graph.blocks[block].nodes = nodes;
    }
}

/// Whether there is code for two nodes like this one.
fn is_for_pairs(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    let Kind::Lanes(primitive, _) = node.kind else { return false };
    node.width() == Some(Width::Eight) && primitive.function_of_lanes().and_then(vector::pair_code).is_some()
}

/// The positions of the next two calls of one function.
fn next_calls(graph: &Graph, nodes: &[NodeId], begin: usize) -> Option<(usize, usize)> {
    let mut calls = (begin..nodes.len()).filter(|index| {
        // The second one of a pair is a call like those without a partner.
        let is_second = |index: usize| matches!(graph.node(nodes[index]).kind, Kind::FirstOfPair(..));
        is_for_pairs(graph, nodes[*index]) && !index.checked_sub(1).is_some_and(is_second)
    });
    let mut first = calls.next()?;
    calls.find_map(|second| {
        let is_same = graph.node(nodes[first]).kind == graph.node(nodes[second]).kind;
        is_same.then_some((first, second)).or_else(|| {
            first = second;
            None
        })
    })
}

/// The nodes between the first and the last one that the last one needs. None if it needs the first one, or if they may
/// not be moved before it.
fn needed_between(graph: &Graph, nodes: &[NodeId]) -> Option<Vec<NodeId>> {
    let [first, between @ .., last] = nodes else { return None };
    let mut needed = graph.node(*last).args.to_vec();
    for id in between.iter().rev() {
        if needed.contains(id) {
            needed.extend(&graph.node(*id).args);
        }
    }
    if needed.contains(first) {
        return None;
    }
    let moved: Vec<NodeId> = between.iter().copied().filter(|id| needed.contains(id)).collect();
    (moved.is_empty() || between.iter().all(|id| may_be_crossed(graph, *id))).then_some(moved)
}

/// Whether loads may be moved before the node, and it before a call.
fn may_be_crossed(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    let is_store = match node.kind {
        Kind::StoreLanes(..) | Kind::FlushToSlots | Kind::CountSteps | Kind::UncountStep => true,
        Kind::Primitive(primitive, _) => matches!(primitive.effect(), Effect::Store | Effect::Call | Effect::Trap),
        _ => false,
    };
    !is_store && node.exit.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::vm::primitive::Primitive;
    use crate::ir::graph::BlockIndex;
    use crate::ir::types::{Scalar, Ty};

    const LANES: Ty = Ty::Lanes(Scalar::F32, Width::Eight);

    struct Block {
        graph: Graph,
        block: BlockIndex,
        loaded: NodeId,
    }

    impl Block {
        fn new() -> Block {
            let mut graph = Graph::default();
            let block = graph.add_block();
            let loaded = graph.add_node(block, Kind::LoadLanes(Primitive::LoadF32, 0), LANES, &[]);
            Block { graph, block, loaded }
        }

        fn lanes(&mut self, primitive: Primitive, args: &[NodeId]) -> NodeId {
            self.graph.add_node(self.block, Kind::Lanes(primitive, Scalar::F32), LANES, args)
        }

        fn store(&mut self, value: NodeId) -> NodeId {
            self.graph.add_node(self.block, Kind::StoreLanes(Primitive::StoreF32, 0), Ty::Nothing, &[value])
        }

        /// The nodes after the load, once calls are paired, and whether each is the first one of a pair.
        fn paired(mut self) -> Vec<(NodeId, bool)> {
            pair_calls(&mut self.graph);
            let nodes = self.graph.blocks[self.block].nodes.iter().skip(1);
            let is_first = |id: &NodeId| matches!(self.graph.node(*id).kind, Kind::FirstOfPair(..));
            nodes.map(|id| (*id, is_first(id))).collect()
        }
    }

    fn has_no_pairs() -> bool {
        let is_missing = Primitive::Exp.function_of_lanes().and_then(vector::pair_code).is_none();
        if is_missing {
            println!("skipped: this processor has no vectors of 8 lanes");
        }
        is_missing
    }

    #[test]
    fn what_the_second_call_needs_comes_before_the_first_one() {
        if has_no_pairs() {
            return;
        }
        let mut block = Block::new();
        let mut sum = block.loaded;
        let mut steps = Vec::new();
        for _ in 0..3 {
            let number = block.lanes(Primitive::Fneg, &[block.loaded]);
            let power = block.lanes(Primitive::Exp, &[number]);
            sum = block.lanes(Primitive::Fadd, &[sum, power]);
            steps.push([number, power, sum]);
        }
        let [one, two, three] = steps[..] else { unreachable!() };
        let order = [one[0], two[0], one[1], two[1], one[2], two[2], three[0], three[1], three[2]];
        let expected: Vec<_> = order.map(|id| (id, id == one[1])).to_vec();
        assert_eq!(block.paired(), expected);
    }

    #[test]
    fn four_calls_are_two_pairs() {
        if has_no_pairs() {
            return;
        }
        let mut block = Block::new();
        let calls = [(); 4].map(|()| block.lanes(Primitive::Exp, &[block.loaded]));
        assert_eq!(block.paired(), [0, 1, 2, 3].map(|index| (calls[index], index % 2 == 0)));
    }

    #[test]
    fn calls_stay_that_depend_on_each_other_or_on_what_is_stored() {
        let mut block = Block::new();
        let first = block.lanes(Primitive::Exp, &[block.loaded]);
        let second = block.lanes(Primitive::Exp, &[first]);
        assert_eq!(block.paired(), [first, second].map(|id| (id, false)));

        let mut block = Block::new();
        let first = block.lanes(Primitive::Exp, &[block.loaded]);
        let store = block.store(first);
        let number = block.lanes(Primitive::Fneg, &[block.loaded]);
        let second = block.lanes(Primitive::Exp, &[number]);
        assert_eq!(block.paired(), [first, store, number, second].map(|id| (id, false)));

        let mut block = Block::new();
        let first = block.lanes(Primitive::Exp, &[block.loaded]);
        let other = block.lanes(Primitive::Tanh, &[block.loaded]);
        assert_eq!(block.paired(), [first, other].map(|id| (id, false)));
    }
}
