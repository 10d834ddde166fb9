//! Predecessors and dominators of the blocks of a graph. Blocks with an entry are children of a virtual root. Passes and the verifier use it.

use smallvec::SmallVec;

use crate::ir::bits::Bits;
use crate::ir::graph::Graph;

/// No block.
const NONE: usize = usize::MAX;

/// The incoming edges of a block: the block that each is from, and the number of the branch there.
pub(crate) type Predecessors = SmallVec<[(usize, usize); 2]>;

/// The incoming edges of each block.
pub(crate) fn predecessors(graph: &Graph) -> Vec<Predecessors> {
    let mut predecessors = vec![Predecessors::new(); graph.blocks.len()];
    for block in 0..graph.blocks.len() {
        for (which, branch) in graph.branches(block).iter().enumerate() {
            predecessors[branch.target].push((block, which));
        }
    }
    predecessors
}

/// The dominator tree.
pub(crate) struct Dominators {
    /// The reachable blocks in reverse postorder.
    order: Vec<usize>,
    /// For each block the range of preorder numbers of its subtree: the first number, and the one after the last.
    numbers: Vec<(usize, usize)>,
    /// The incoming edges of each block.
    pub predecessors: Vec<Predecessors>,
}

impl Dominators {
    pub fn new(graph: &Graph) -> Dominators {
        Dominators::with_predecessors(graph, predecessors(graph))
    }

    /// The same with predecessors that were computed before.
    pub fn with_predecessors(graph: &Graph, predecessors: Vec<Predecessors>) -> Dominators {
        let count = graph.blocks.len();
        let order = reverse_postorder(graph);
        let mut position: SmallVec<[usize; 16]> = SmallVec::from_elem(NONE, count);
        order.iter().enumerate().for_each(|(index, block)| position[*block] = index);
        // The virtual root has number `count`.
        let mut parent: SmallVec<[usize; 16]> = SmallVec::from_elem(NONE, count + 1);
        parent[count] = count;
        let rank = |block: usize| if block == count { 0 } else { position[block] + 1 };
        loop {
            let mut changed = false;
            for block in &order {
                let mut new = if graph.blocks[*block].entry.is_some() { count } else { NONE };
                for (from, _) in &predecessors[*block] {
                    if parent[*from] == NONE {
                        continue;
                    }
                    new = if new == NONE {
                        *from
                    } else {
                        let (mut a, mut b) = (new, *from);
                        while a != b {
                            while rank(a) > rank(b) {
                                a = parent[a];
                            }
                            while rank(b) > rank(a) {
                                b = parent[b];
                            }
                        }
                        a
                    };
                }
                if new != NONE && parent[*block] != new {
                    parent[*block] = new;
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
        parent.truncate(count);
        parent.iter_mut().filter(|parent| **parent == count).for_each(|parent| *parent = NONE);
        let numbers = numbers(&parent, &order);
        Dominators { order, numbers, predecessors }
    }

    /// The reachable blocks in reverse postorder.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    pub fn dominates(&self, block: usize, other: usize) -> bool {
        let (first, end) = self.numbers[block];
        block == other || (first..end).contains(&self.numbers[other].0)
    }
}

/// The reachable blocks in reverse postorder from the virtual root.
fn reverse_postorder(graph: &Graph) -> Vec<usize> {
    let count = graph.blocks.len();
    let (mut order, mut seen) = (Vec::with_capacity(count), Bits::new(count));
    let mut stack: SmallVec<[(usize, usize); 16]> = SmallVec::new();
    for root in (0..count).filter(|block| graph.blocks[*block].entry.is_some()) {
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
fn numbers(parent: &[usize], order: &[usize]) -> Vec<(usize, usize)> {
    // First the sizes of the subtrees.
    let mut numbers = vec![(NONE, 1); parent.len()];
    for block in order.iter().rev().filter(|block| parent[**block] != NONE) {
        numbers[parent[*block]].1 += numbers[*block].1;
    }
    // The next number of a child of each block, and of the root.
    let (mut next, mut next_root): (SmallVec<[usize; 16]>, _) = (SmallVec::from_elem(0, parent.len()), 0);
    for block in order {
        let counter = if parent[*block] == NONE { &mut next_root } else { &mut next[parent[*block]] };
        let (first, size) = (*counter, numbers[*block].1);
        *counter += size;
        numbers[*block] = (first, first + size);
        next[*block] = first + 1;
    }
    numbers
}
