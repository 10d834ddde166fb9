//! Numbers of the blocks of a graph.

use std::fmt;

/// A block of a graph, as opposed to one of the bytecode, which is a `BlockId`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BlockIndex(u32);

impl BlockIndex {
    /// No block: that of constants, and the target of a branch that is not connected yet.
    pub const NONE: BlockIndex = BlockIndex(u32::MAX);

    /// The block of a number. A graph has a few blocks for each op, and functions of more than 2^17 ops are not
    /// compiled, so it fits.
    pub fn new(index: usize) -> BlockIndex {
        BlockIndex(index as u32)
    }

    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for BlockIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}", self.0)
    }
}
