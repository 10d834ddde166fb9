//! Predecessors and dominators of the blocks of a graph, whose roots are the blocks that are entered from outside.

use smallvec::SmallVec;

use crate::ir::bits::Bits;
use crate::ir::graph::Graph;

/// No block.
const NONE: usize = usize::MAX;

/// The branches that lead to a block: the block each is in, and which of its branches.
pub(crate) type Predecessors = SmallVec<[(usize, usize); 2]>;

/// The branches that lead to each block.
pub(crate) fn predecessors(graph: &Graph) -> Vec<Predecessors> {
    let mut predecessors = vec![Predecessors::new(); graph.blocks.len()];
    for block in 0..graph.blocks.len() {
        for (which, branch) in graph.branches(block).iter().enumerate() {
            predecessors[branch.target].push((block, which));
        }
    }
    predecessors
}

/// Which blocks every path to a block passes.
pub(crate) struct Dominators {
    /// Blocks in an order in which parents come first.
    order: Vec<usize>,
    /// The numbers of a block and those that it dominates follow each other: the first one, and the one behind the last.
    numbers: Vec<(usize, usize)>,
    /// The branches that lead to each block.
    pub predecessors: Vec<Predecessors>,
}

impl Dominators {
    pub fn new(graph: &Graph) -> Dominators {
        Dominators::with_predecessors(graph, predecessors(graph))
    }

    /// The same where the predecessors are known.
    pub fn with_predecessors(graph: &Graph, predecessors: Vec<Predecessors>) -> Dominators {
        let count = graph.blocks.len();
        let order = reverse_postorder(graph);
        let mut position: SmallVec<[usize; 16]> = SmallVec::from_elem(NONE, count);
        order.iter().enumerate().for_each(|(index, block)| position[*block] = index);
        // The outside has number `count`.
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

    /// The blocks that are come to, parents first.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    pub fn dominates(&self, block: usize, other: usize) -> bool {
        let (first, end) = self.numbers[block];
        block == other || (first..end).contains(&self.numbers[other].0)
    }
}

/// The blocks that are come to, in reverse postorder from an outside that branches to all entries.
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

/// Numbers the blocks of a tree so that each block and those below it have a range. What is not part of it has none.
fn numbers(parent: &[usize], order: &[usize]) -> Vec<(usize, usize)> {
    // First how many there are of each block and below it.
    let mut numbers = vec![(NONE, 1); parent.len()];
    for block in order.iter().rev().filter(|block| parent[**block] != NONE) {
        numbers[parent[*block]].1 += numbers[*block].1;
    }
    // The next number below each block, and below none.
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
