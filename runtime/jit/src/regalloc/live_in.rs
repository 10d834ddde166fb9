//! The values that are live where blocks begin, for the live ranges of the allocator and for its check.

use crate::ir::bits;
use crate::ir::graph::{BlockIndex, ExitId, Graph, NodeId, Terminator};
use crate::ir::types::Ty;
use crate::ir::visits::Visits;

/// No number.
const NONE: u32 = u32::MAX;

/// Whether a value has a location. Constants, truth values and folded loads are computed where they are used.
pub(super) fn has_location(graph: &Graph, id: NodeId) -> bool {
    matches!(graph.node(id).ty, Ty::Scalar(_) | Ty::Lanes(..)) && graph.constant(id).is_none() && !graph.is_folded(id)
}

/// Calls `visit` with the values that the terminator of a block uses.
pub(super) fn terminator_uses(graph: &Graph, block: BlockIndex, visit: &mut impl FnMut(NodeId)) {
    match &graph.blocks[block].terminator {
        Terminator::SideExit(_, exit) => graph.for_each_exit_use(*exit, visit),
        Terminator::Branch(test, ..) => graph.for_each_operand(*test, visit),
        Terminator::Jump(_) | Terminator::Guarded(..) | Terminator::Open => {}
    }
    if let Some(terminator) = graph.native_terminators.get(block) {
        terminator.values.iter().for_each(|(value, _)| visit(*value));
    }
    for branch in graph.branches(block) {
        branch.args.iter().for_each(|arg| visit(*arg));
        if let Some(exit) = branch.limits_exit {
            graph.for_each_exit_use(exit, visit);
        }
    }
}

/// The live-in set of each block: a bit set over the values that are live into any block.
pub(super) struct LiveInSets {
    pub values: Vec<NodeId>,
    /// Words for each block.
    pub words: usize,
    bits: Vec<u64>,
}

impl LiveInSets {
    pub fn none() -> LiveInSets {
        LiveInSets { values: Vec::new(), words: 0, bits: Vec::new() }
    }

    pub fn words(&self, block: BlockIndex) -> impl Iterator<Item = u64> {
        let begin = block.index() * self.words;
        self.bits[begin..begin + self.words].iter().copied()
    }

    pub fn of(&self, block: BlockIndex) -> impl Iterator<Item = NodeId> {
        bits::numbers(self.words(block)).map(|number| self.values[number])
    }

    pub fn word(&self, block: BlockIndex, word: usize) -> u64 {
        self.bits[block.index() * self.words + word]
    }
}

/// Computes the live-in set of each block. None if that takes more visits than are left.
pub(super) fn live_in_sets(graph: &Graph) -> Option<LiveInSets> {
    if graph.blocks.indices().all(|block| graph.branches(block).is_empty()) {
        return Some(LiveInSets::none());
    }
    // The block of each value, and then its number among those that are used in other blocks.
    let mut block_of = vec![BlockIndex::NONE; graph.nodes.len()];
    for block in &graph.order {
        let content = &graph.blocks[*block];
        content.parameters.iter().chain(&content.nodes).for_each(|id| block_of[id.index()] = *block);
    }
    let mut number = vec![NONE; graph.nodes.len()];
    let (mut values, mut uses) = (Vec::with_capacity(graph.nodes.len() / 4), Vec::with_capacity(graph.nodes.len()));
    // Edges to the blocks that exits fall back to.
    let mut fallbacks = Vec::new();
    // The block in which an exit was seen last: many nodes of a block may have one.
    let mut seen = vec![BlockIndex::NONE; graph.exits.len()];
    for block in &graph.order {
        let mut note = |id: NodeId| {
            if block_of[id.index()] == *block || !has_location(graph, id) {
                return;
            }
            if number[id.index()] == NONE {
                number[id.index()] = values.len() as u32;
                values.push(id);
            }
            uses.push((*block, number[id.index()] as usize));
        };
        let mut fall_back = |exit: ExitId| {
            fallbacks.extend(graph.exit(exit).fallback.as_ref().map(|branch| (*block, branch.target)));
        };
        for id in &graph.blocks[*block].nodes {
            graph.for_each_operand(*id, &mut note);
            if let Some(exit) = graph.node(*id).exit
                && std::mem::replace(&mut seen[exit.0 as usize], *block) != *block
            {
                graph.for_each_exit_use(exit, &mut note);
                fall_back(exit);
            }
        }
        terminator_uses(graph, *block, &mut note);
        graph.branches(*block).iter().filter_map(|branch| branch.limits_exit).for_each(&mut fall_back);
    }
    let words = values.len().div_ceil(64);
    let mut live = LiveInSets { values, words, bits: vec![0; words * graph.blocks.len()] };
    if words == 0 {
        return Some(live);
    }
    for (block, value) in uses {
        live.bits[block.index() * words + value / 64] |= 1 << (value % 64);
    }
    let mut defined = vec![0_u64; live.bits.len()];
    for (value, id) in live.values.iter().enumerate() {
        let block = block_of[id.index()];
        if block != BlockIndex::NONE {
            defined[block.index() * words + value / 64] |= 1 << (value % 64);
        }
    }
    // The edges, those from the last block first, as liveness goes backwards.
    let mut fallbacks = fallbacks.into_iter().rev().peekable();
    let mut edges = Vec::with_capacity(2 * graph.order.len());
    for block in graph.order.iter().rev() {
        edges.extend(graph.branches(*block).iter().map(|branch| (*block, branch.target)));
        edges.extend(std::iter::from_fn(|| fallbacks.next_if(|(from, _)| from == block)));
    }
    let mut visits = Visits::new(edges.len(), graph.blocks.len());
    loop {
        let mut changed = false;
        for (edge, (block, target)) in edges.iter().enumerate() {
            if !visits.begin(edge, [target.index()].into_iter()) {
                continue;
            }
            if !graph.effort.spend(words) {
                return None;
            }
            let (own, there) = (block.index() * words, target.index() * words);
            let mut differs = false;
            for word in 0..words {
                let at = own + word;
                let new = live.bits[at] | live.bits[there + word] & !defined[at];
                differs |= new != live.bits[at];
                live.bits[at] = new;
            }
            if differs {
                visits.change(block.index());
                changed = true;
            }
        }
        if !changed {
            return Some(live);
        }
    }
}
