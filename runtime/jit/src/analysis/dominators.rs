//! Predecessors and dominators of the blocks of a graph. Blocks with an entry are children of a virtual root. Passes
//! and the verifier use it.

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
        let search = Search::new(graph);
        let parent = immediate_dominators(graph, &predecessors, &search);
        let order = search.reverse_postorder;
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

/// A depth-first search from the virtual root.
struct Search {
    reverse_postorder: Vec<BlockIndex>,
    /// The reachable blocks in preorder. The number of a block is one more than its index here; that of the virtual
    /// root is 0.
    preorder: Vec<BlockIndex>,
    /// For each number that of the block from which the search came there.
    parents: Vec<u32>,
}

impl Search {
    fn new(graph: &Graph) -> Search {
        let count = graph.blocks.len();
        let (mut order, mut preorder, mut parents) =
            (Vec::with_capacity(count), Vec::with_capacity(count), Vec::with_capacity(count + 1));
        parents.push(0);
        let mut seen = BlockSet::new(graph);
        // Blocks with their numbers, and the next of their branches.
        let mut stack: SmallVec<[(BlockIndex, u32, usize); 16]> = SmallVec::new();
        for (root, _) in graph.blocks.indexed().filter(|(_, content)| content.entry.is_some()) {
            let mut found = seen.insert_new(root).then_some((root, 0));
            loop {
                if let Some((block, parent)) = found {
                    preorder.push(block);
                    parents.push(parent);
                    stack.push((block, preorder.len() as u32, 0));
                }
                let Some((block, number, next)) = stack.last_mut() else { break };
                match graph.branches(*block).get(*next) {
                    Some(branch) => {
                        *next += 1;
                        found = seen.insert_new(branch.target).then_some((branch.target, *number));
                    }
                    None => {
                        order.push(*block);
                        stack.pop();
                        found = None;
                    }
                }
            }
        }
        order.reverse();
        Search { reverse_postorder: order, preorder, parents }
    }
}

/// The immediate dominator of each reachable block, by the algorithm of Lengauer and Tarjan. Blocks that only the
/// virtual root dominates have none. Its time hardly grows faster than the number of edges, whatever their shape: with
/// n blocks that all branch to one, a walk from each of them up the tree would take n * n steps.
fn immediate_dominators(graph: &Graph, predecessors: &PerBlock<Predecessors>, search: &Search) -> PerBlock<BlockIndex> {
    let count = search.preorder.len();
    let mut number = PerBlock::new(graph, 0);
    (1..).zip(&search.preorder).for_each(|(index, block)| number[*block] = index);
    let mut forest = Forest::new(count);
    let mut dominators = vec![0_u32; count + 1];
    // The blocks of each semidominator: the first one, and the next one of each.
    let (mut first, mut next) = (vec![0_u32; count + 1], vec![0_u32; count + 1]);
    for own in (1..=count).rev() {
        let block = search.preorder[own - 1];
        let mut least = if graph.blocks[block].entry.is_some() { 0 } else { own as u32 };
        for (from, _) in &predecessors[block] {
            let from: u32 = number[*from];
            // Other blocks are not reached.
            if from != 0 {
                let best = forest.best(from);
                least = least.min(forest.semidominators[best as usize]);
            }
        }
        forest.semidominators[own] = least;
        next[own] = std::mem::replace(&mut first[least as usize], own as u32);
        let parent = search.parents[own];
        forest.ancestors[own] = Some(parent);
        let mut at = std::mem::take(&mut first[parent as usize]);
        while at != 0 {
            let best = forest.best(at);
            let is_less = forest.semidominators[best as usize] < forest.semidominators[at as usize];
            dominators[at as usize] = if is_less { best } else { parent };
            at = next[at as usize];
        }
    }
    let mut immediate = PerBlock::new(graph, BlockIndex::NONE);
    for own in 1..=count {
        let dominator = dominators[own];
        if dominator != forest.semidominators[own] {
            dominators[own] = dominators[dominator as usize];
        }
        if let Some(above) = (dominators[own] as usize).checked_sub(1) {
            immediate[search.preorder[own - 1]] = search.preorder[above];
        }
    }
    immediate
}

/// The part of the search tree whose semidominators are known.
struct Forest {
    semidominators: Vec<u32>,
    /// A block above each in the tree, nearer to the root with each compression.
    ancestors: Vec<Option<u32>>,
    /// The block with the least semidominator between each block and its ancestor.
    bests: Vec<u32>,
    path: Vec<u32>,
}

impl Forest {
    fn new(count: usize) -> Forest {
        let own: Vec<u32> = (0..=count as u32).collect();
        Forest { semidominators: own.clone(), ancestors: vec![None; count + 1], bests: own, path: Vec::new() }
    }

    /// The block with the least semidominator on the path to a block, without the root of its tree.
    fn best(&mut self, block: u32) -> u32 {
        let mut at = block;
        while let Some(above) = self.ancestors[at as usize]
            && self.ancestors[above as usize].is_some()
        {
            self.path.push(at);
            at = above;
        }
        while let Some(below) = self.path.pop() {
            let Some(above) = self.ancestors[below as usize] else { continue };
            let (own, other) = (self.bests[below as usize], self.bests[above as usize]);
            if self.semidominators[other as usize] < self.semidominators[own as usize] {
                self.bests[below as usize] = other;
            }
            self.ancestors[below as usize] = self.ancestors[above as usize];
        }
        self.bests[block as usize]
    }
}

/// The ranges of preorder numbers of a tree. Blocks that are not in it have none.
fn numbers(graph: &Graph, parent: &PerBlock<BlockIndex>, order: &[BlockIndex]) -> PerBlock<(usize, usize)> {
    // First the sizes of the subtrees.
    let mut numbers = PerBlock::new(graph, (usize::MAX, 1));
    for block in order.iter().rev().filter(|block| parent[**block] != BlockIndex::NONE) {
        numbers[parent[*block]].1 += numbers[*block].1;
    }
    // The next number of a child of each block, and of the root.
    let (mut next, mut next_root): (SmallVec<[usize; 16]>, _) = (SmallVec::from_elem(0, parent.len()), 0);
    for block in order {
        let parent = parent[*block];
        let counter = if parent == BlockIndex::NONE { &mut next_root } else { &mut next[parent.index()] };
        let (first, size) = (*counter, numbers[*block].1);
        *counter += size;
        numbers[*block] = (first, first + size);
        next[block.index()] = first + 1;
    }
    numbers
}
