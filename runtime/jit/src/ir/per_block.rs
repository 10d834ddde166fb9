//! Tables and sets by block: vectors and bits that only a [`BlockIndex`] is a key of. The graph keeps its blocks in
//! one, and analyses, passes, the register allocator and the emitter keep what they know of them.

use std::ops::{Index, IndexMut};

use super::bits::Bits;
use super::block_index::BlockIndex;

/// Blocks with numbers from zero on: a graph.
pub(crate) trait Blocks {
    /// How many there are.
    fn count(&self) -> usize;
}

/// A value for each block.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PerBlock<T>(Vec<T>);

impl<T> PerBlock<T> {
    /// The same value for each block of a graph.
    pub fn new(graph: &impl Blocks, value: T) -> PerBlock<T>
    where
        T: Clone,
    {
        PerBlock(vec![value; graph.count()])
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn reserve(&mut self, additional: usize) {
        self.0.reserve(additional);
    }

    /// Adds the value of the next block. Gives that block.
    pub fn push(&mut self, value: T) -> BlockIndex {
        self.0.push(value);
        BlockIndex::new(self.0.len() - 1)
    }

    /// Removes the blocks that were added after the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    /// The value of a block, which need not exist.
    pub fn get(&self, block: BlockIndex) -> Option<&T> {
        self.0.get(block.index())
    }

    /// The blocks, in order. Those that are added meanwhile are not among them.
    pub fn indices(&self) -> impl Iterator<Item = BlockIndex> + use<T> {
        (0..self.0.len()).map(BlockIndex::new)
    }

    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }

    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.0.iter_mut()
    }

    /// The values with their blocks, in order.
    pub fn indexed(&self) -> impl Iterator<Item = (BlockIndex, &T)> {
        self.0.iter().enumerate().map(|(index, value)| (BlockIndex::new(index), value))
    }
}

impl<T> Default for PerBlock<T> {
    fn default() -> PerBlock<T> {
        PerBlock(Vec::new())
    }
}

/// One value after the other, in the order of the blocks.
impl<T> FromIterator<T> for PerBlock<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> PerBlock<T> {
        PerBlock(values.into_iter().collect())
    }
}

impl<T> Index<BlockIndex> for PerBlock<T> {
    type Output = T;

    fn index(&self, block: BlockIndex) -> &T {
        &self.0[block.index()]
    }
}

impl<T> IndexMut<BlockIndex> for PerBlock<T> {
    fn index_mut(&mut self, block: BlockIndex) -> &mut T {
        &mut self.0[block.index()]
    }
}

/// A set of blocks.
pub(crate) struct BlockSet(Bits);

impl BlockSet {
    /// An empty set of blocks of a graph.
    pub fn new(graph: &impl Blocks) -> BlockSet {
        BlockSet(Bits::new(graph.count()))
    }

    pub fn insert(&mut self, block: BlockIndex) {
        self.0.insert(block.index());
    }

    /// Adds a block. Whether the set did not have it.
    pub fn insert_new(&mut self, block: BlockIndex) -> bool {
        self.0.insert_new(block.index())
    }

    /// Whether it has a block, which may have been added to the graph later.
    pub fn contains(&self, block: BlockIndex) -> bool {
        self.0.contains(block.index())
    }

    /// The blocks, in order.
    pub fn iter(&self) -> impl Iterator<Item = BlockIndex> {
        self.0.iter().map(BlockIndex::new)
    }
}
