//! Predecessors and dominators of the blocks of a graph. Blocks with an entry are children of a virtual root. Passes and the verifier use it.

use smallvec::SmallVec;

use crate::ir::graph::{BlockIndex, Graph};
use crate::ir::per_block::{BlockSet, PerBlock};

/// The incoming edges of a block: the block that each is from, and the number of the branch there.
pub(crate) type Predecessors = SmallVec<[(BlockIndex, usize); 2]>;

/// The incoming edges of each block.
pub(crate) fn predecessors(graph: &Graph) -> PerBlock<Predecessors> {
    let mut predecessors: PerBlock<Predecessors> = graph.blocks.iter().map(|_| Predecessors::new()).collect();
    for block in graph.blocks.indices() {
        for (which, branch) in graph.branches(block).iter().enumerate() {
            predecessors[branch.target].push((block, which));
        }
    }
    predecessors
}

/// The dominator tree.
pub(crate) struct Dominators {
    /// The reachable blocks in reverse postorder.
    order: Vec<BlockIndex>,
    /// For each block the range of preorder numbers of its subtree: the first number, and the one after the last.
    numbers: PerBlock<(usize, usize)>,
    /// The incoming edges of each block.
    pub predecessors: PerBlock<Predecessors>,
}

impl Dominators {
    pub fn new(graph: &Graph) -> Dominators {
        Dominators::with_predecessors(graph, predecessors(graph))
    }

    /// The same with predecessors that were computed before.
    pub fn with_predecessors(graph: &Graph, predecessors: PerBlock<Predecessors>) -> Dominators {
        let count = graph.blocks.len();
        let order = reverse_postorder(graph);
        let mut position: SmallVec<[usize; 16]> = SmallVec::from_elem(usize::MAX, count);
        order.iter().enumerate().for_each(|(index, block)| position[block.index()] = index);
        // The virtual root has the number after that of the last block.
        let root = BlockIndex::new(count);
        let mut parent: SmallVec<[BlockIndex; 16]> = SmallVec::from_elem(BlockIndex::NONE, count + 1);
        parent[root.index()] = root;
        let rank = |block: BlockIndex| if block == root { 0 } else { position[block.index()] + 1 };
        loop {
            let mut changed = false;
            for block in &order {
                let mut new = if graph.blocks[*block].entry.is_some() { root } else { BlockIndex::NONE };
                for (from, _) in &predecessors[*block] {
                    if parent[from.index()] == BlockIndex::NONE {
                        continue;
                    }
                    new = if new == BlockIndex::NONE {
                        *from
                    } else {
                        let (mut a, mut b) = (new, *from);
                        while a != b {
                            while rank(a) > rank(b) {
                                a = parent[a.index()];
                            }
                            while rank(b) > rank(a) {
                                b = parent[b.index()];
                            }
                        }
                        a
                    };
                }
                if new != BlockIndex::NONE && parent[block.index()] != new {
                    parent[block.index()] = new;
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
        parent.truncate(count);
        parent.iter_mut().filter(|parent| **parent == root).for_each(|parent| *parent = BlockIndex::NONE);
        let numbers = numbers(graph, &parent, &order);
        Dominators { order, numbers, predecessors }
    }

    /// The reachable blocks in reverse postorder.
    pub fn order(&self) -> &[BlockIndex] {
        &self.order
    }

    pub fn dominates(&self, block: BlockIndex, other: BlockIndex) -> bool {
        let (first, end) = self.numbers[block];
        block == other || (first..end).contains(&self.numbers[other].0)
    }
}

/// The reachable blocks in reverse postorder from the virtual root.
fn reverse_postorder(graph: &Graph) -> Vec<BlockIndex> {
    let (mut order, mut seen) = (Vec::with_capacity(graph.blocks.len()), BlockSet::new(graph));
    let mut stack: SmallVec<[(BlockIndex, usize); 16]> = SmallVec::new();
    for (root, _) in graph.blocks.indexed().filter(|(_, content)| content.entry.is_some()) {
        if !seen.insert_new(root) {
            continue;
        }
        stack.push((root, 0));
        while let Some((block, next)) = stack.pop() {
            let target = graph.branches(block).get(next).map(|branch| branch.target);
            match target {
                Some(target) => {
                    stack.push((block, next + 1));
                    if seen.insert_new(target) {
                        stack.push((target, 0));
                    }
                }
                None => order.push(block),
            }
        }
    }
    order.reverse();
    order
}

/// The ranges of preorder numbers of a tree. Blocks that are not in it have none.
fn numbers(graph: &Graph, parent: &[BlockIndex], order: &[BlockIndex]) -> PerBlock<(usize, usize)> {
    // First the sizes of the subtrees.
    let mut numbers = PerBlock::new(graph, (usize::MAX, 1));
    for block in order.iter().rev().filter(|block| parent[block.index()] != BlockIndex::NONE) {
        numbers[parent[block.index()]].1 += numbers[*block].1;
    }
    // The next number of a child of each block, and of the root.
    let (mut next, mut next_root): (SmallVec<[usize; 16]>, _) = (SmallVec::from_elem(0, parent.len()), 0);
    for block in order {
        let parent = parent[block.index()];
        let counter = if parent == BlockIndex::NONE { &mut next_root } else { &mut next[parent.index()] };
        let (first, size) = (*counter, numbers[*block].1);
        *counter += size;
        numbers[*block] = (first, first + size);
        next[block.index()] = first + 1;
    }
    numbers
}
