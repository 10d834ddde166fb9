//! [`Decoded`]: the decoded form of a function, with ops of 16 bytes and side tables for longer operands. The reader
//! fills it; the verifier, the interpreter, the JIT and the disassembler read it.

use std::ops::Range;

use super::operands::{AnyReg, BlockId, CallId, CasesId, EdgeId, FunctionId, ImportId, ListId, SegmentsId, StringId};
use crate::generated::vm::decode::Op;

/// A decoded function. Block markers are not ops; [`blocks`](Self::blocks) says where blocks start.
///
/// In a [`VerifiedFunction`](super::VerifiedFunction) every index into a table is in range.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decoded {
    /// The ops of all blocks in the order of the stream; each block ends in a terminator.
    pub ops: Vec<Op>,
    /// For each op, its offset from the start of the function in bytes.
    pub offsets: Vec<u32>,
    /// The blocks in the order of the stream; the first is the entry.
    pub blocks: Vec<Block>,
    pub(super) edges: Vec<Edge>,
    pub(super) remaps: Vec<Remap>,
    pub(super) registers: Vec<AnyReg>,
    pub(super) lists: Vec<Range<u32>>,
    pub(super) segment_values: Vec<u16>,
    pub(super) segments: Vec<Range<u32>>,
    pub(super) cases: Vec<Range<u32>>,
    pub(super) text: Vec<u8>,
    pub(super) strings: Vec<Range<u32>>,
    pub(super) calls: Vec<CallSite>,
}

/// A block of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Offset of its marker from the start of the function.
    pub offset: u32,
    /// Its ops, as indices into [`Decoded::ops`]. The last is a terminator.
    pub ops: Range<u32>,
}

/// A branch: the remap pairs are executed in order, then execution goes on at the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The block that it leads to.
    pub target: BlockId,
    /// Index of the first op of the target.
    pub entry: u32,
    pub(super) remap: Range<u32>,
}

impl Edge {
    /// True if the branch has remap pairs.
    #[inline]
    pub fn has_copies(&self) -> bool {
        !self.remap.is_empty()
    }
}

/// One copy of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remap {
    /// The register that is read; a reference may be moved out of it.
    pub source: AnyReg,
    /// The register that is written, in the same bank.
    pub target: AnyReg,
}

/// The callee of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callee {
    /// A function of the module.
    Function(FunctionId),
    /// An import.
    Import(ImportId),
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSite {
    /// The callee.
    pub callee: Callee,
    /// For a variadic call, one entry for each top-level argument: `NOT_A_SPAN` for a single value, else the number of
    /// tuples.
    pub segments: Option<SegmentsId>,
    /// One register for each value, typed by the convention of the callee.
    pub operands: ListId,
    /// One register for each result.
    pub results: ListId,
    /// For a yieldable call, the block at which execution goes on.
    pub resume: Option<BlockId>,
}

fn range(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}

impl Decoded {
    /// A branch.
    #[inline]
    pub fn edge(&self, id: EdgeId) -> &Edge {
        &self.edges[id.index()]
    }

    /// The copies of a branch, in the order in which they are executed.
    #[inline]
    pub fn remaps(&self, edge: &Edge) -> &[Remap] {
        &self.remaps[range(&edge.remap)]
    }

    /// The branches of the function.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// A register list.
    #[inline]
    pub fn list(&self, id: ListId) -> &[AnyReg] {
        &self.registers[range(&self.lists[id.index()])]
    }

    /// The segment sizes of a variadic call.
    #[inline]
    pub fn segments(&self, id: SegmentsId) -> &[u16] {
        &self.segment_values[range(&self.segments[id.index()])]
    }

    /// Case `index` of a branch table, if it has that many.
    #[inline]
    pub fn case(&self, id: CasesId, index: u32) -> Option<EdgeId> {
        let cases = &self.cases[id.index()];
        (index < cases.end - cases.start).then(|| EdgeId(cases.start + index))
    }

    /// The branches of a branch table, case by case.
    pub fn case_edges(&self, id: CasesId) -> impl Iterator<Item = EdgeId> + use<> {
        range(&self.cases[id.index()]).map(|index| EdgeId(index as u32))
    }

    /// The bytes of a string.
    #[inline]
    pub fn string(&self, id: StringId) -> &[u8] {
        &self.text[range(&self.strings[id.index()])]
    }

    /// A call.
    #[inline]
    pub fn call(&self, id: CallId) -> &CallSite {
        &self.calls[id.index()]
    }

    /// All calls.
    pub fn calls(&self) -> &[CallSite] {
        &self.calls
    }

    /// A block.
    #[inline]
    pub fn block(&self, id: BlockId) -> &Block {
        &self.blocks[id.index()]
    }

    /// Index of the first op of a block.
    #[inline]
    pub fn entry(&self, id: BlockId) -> usize {
        self.blocks[id.index()].ops.start as usize
    }
}
