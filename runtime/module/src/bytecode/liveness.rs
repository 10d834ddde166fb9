//! Liveness analysis: the registers that are live at the entry of each block. The verifier runs it; the interpreter and
//! the JIT use the result.
//!
//! A slot that is dead at a block need not be written when machine code is entered or left there. A slot that is dead
//! at the entry of the function need not be zeroed, because every read is preceded by a write (definite assignment).
//! The analysis runs after verification, so all indices are in range. It is skipped where its tables would be out of
//! proportion to the bytes of the function; then every register counts as live.
//!
//! It is the usual backward data-flow analysis. The sets are rows of words in one allocation rather than those of a
//! crate, because a pass combines three rows and finds in the same loop whether anything changed.

use std::convert::Infallible;

use smallvec::SmallVec;

use super::decoded::Decoded;
use super::operands::{AnyReg, BlockId, CallId, CasesId, EdgeId, ListId, RefReg, Reg};
use super::visit::{CallForm, OperandVisitor};
use crate::convention::Kind;
use crate::generated::vm::verify;

/// Most words of tables for one function (8 MiB).
const MAX_WORDS: usize = 1 << 20;
/// Most passes. Code of compilers reaches the fixed point after a few; only code that was made for it needs more.
const MAX_PASSES: usize = 32;

/// The live registers at the start of each block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Liveness {
    words: usize,
    slots: usize,
    live: Vec<u64>,
}

/// The kinds of the operands of calls and returns, which are in conventions, not in the bytecode. The verifier provides
/// them.
pub(super) trait CallKinds {
    /// Kinds of the operands and of the results of a call.
    fn of_call(&self, call: CallId) -> (SmallVec<[Kind; 16]>, SmallVec<[Kind; 4]>);
    /// Kinds of the values that the function returns.
    fn of_return(&self) -> &[Kind];
}

impl Liveness {
    /// True if slot `reg` may be read in `block` or after it before it is written.
    pub fn is_slot_live(&self, block: BlockId, reg: Reg) -> bool {
        self.bit(block, reg.index())
    }

    /// True if reference register `index` may be read in `block` or after it before it is written.
    pub fn is_ref_live(&self, block: BlockId, index: usize) -> bool {
        self.bit(block, self.slots + index)
    }

    fn bit(&self, block: BlockId, index: usize) -> bool {
        let word = self.live[block.index() * self.words + index / 64];
        word >> (index % 64) & 1 != 0
    }

    /// Runs the analysis. None if the function is out of proportion or needs too many passes.
    pub(super) fn new(decoded: &Decoded, slots: usize, refs: usize, kinds: &dyn CallKinds) -> Option<Liveness> {
        let words = (slots + refs).div_ceil(64);
        let rows = decoded.blocks.len() + decoded.edges.len();
        if rows.checked_mul(words)? > MAX_WORDS {
            return None;
        }
        let blocks: Vec<BlockSummary> =
            (0..decoded.blocks.len()).map(|block| BlockSummary::new(decoded, block, slots, words, kinds)).collect();
        let mut live = vec![0_u64; decoded.blocks.len() * words];
        let mut end = vec![0_u64; words];
        let mut through = vec![0_u64; words];
        for _ in 0..MAX_PASSES {
            let mut changed = false;
            for (index, block) in blocks.iter().enumerate().rev() {
                end.fill(0);
                for (target, edge) in &block.successors {
                    through.copy_from_slice(&live[target.index() * words..][..words]);
                    if let Some(edge) = edge {
                        before_copies(decoded, *edge, slots, &mut through);
                    }
                    end.iter_mut().zip(&through).for_each(|(end, through)| *end |= through);
                }
                for (word, live) in live[index * words..][..words].iter_mut().enumerate() {
                    let new = block.reads[word] | (end[word] & !block.writes[word]);
                    changed |= new != *live;
                    *live = new;
                }
            }
            if !changed {
                return Some(Liveness { words, slots, live });
            }
        }
        None
    }
}

/// Turns the set that is live after the copies of a branch into the one that is live before them.
fn before_copies(decoded: &Decoded, edge: EdgeId, slots: usize, live: &mut [u64]) {
    for remap in decoded.remaps(decoded.edge(edge)).iter().rev() {
        let target = position(remap.target, slots);
        live[target / 64] &= !(1 << (target % 64));
        // The source is live whether or not the target is, because dead copies are executed all the same.
        let source = position(remap.source, slots);
        live[source / 64] |= 1 << (source % 64);
    }
}

fn position(reg: AnyReg, slots: usize) -> usize {
    if reg.is_ref() { slots + reg.ref_reg().index() } else { reg.reg().index() }
}

/// The data-flow sets of a block (`reads` before a write, `writes`) and its successors.
struct BlockSummary {
    reads: Vec<u64>,
    writes: Vec<u64>,
    successors: SmallVec<[(BlockId, Option<EdgeId>); 2]>,
}

impl BlockSummary {
    fn new(decoded: &Decoded, block: usize, slots: usize, words: usize, kinds: &dyn CallKinds) -> BlockSummary {
        let summary = BlockSummary { reads: vec![0; words], writes: vec![0; words], successors: SmallVec::new() };
        let mut visitor = SummaryVisitor { decoded, slots, kinds, summary };
        let ops = &decoded.blocks[block].ops;
        for op in &decoded.ops[ops.start as usize..ops.end as usize] {
            let Ok(()) = verify::visit_operands(*op, &mut visitor);
        }
        visitor.summary
    }
}

struct SummaryVisitor<'a> {
    decoded: &'a Decoded,
    slots: usize,
    kinds: &'a dyn CallKinds,
    summary: BlockSummary,
}

impl SummaryVisitor<'_> {
    fn reads(&mut self, index: usize) {
        let (word, bit) = (index / 64, 1 << (index % 64));
        self.summary.reads[word] |= bit & !self.summary.writes[word];
    }

    fn writes(&mut self, index: usize) {
        self.summary.writes[index / 64] |= 1 << (index % 64);
    }

    /// The bits of a register that holds a value of `kind`.
    fn bits(&self, reg: AnyReg, kind: Kind) -> std::ops::Range<usize> {
        let first = position(reg, self.slots);
        first..first + kind.slots().max(1) as usize
    }

    fn reads_all(&mut self, list: ListId, kinds: &[Kind]) {
        for (register, kind) in self.decoded.list(list).iter().zip(kinds) {
            self.bits(*register, *kind).for_each(|index| self.reads(index));
        }
    }
}

impl OperandVisitor for SummaryVisitor<'_> {
    type Error = Infallible;

    fn read(&mut self, reg: Reg, kind: Kind) -> Result<(), Infallible> {
        (reg.index()..reg.index() + kind.slots() as usize).for_each(|index| self.reads(index));
        Ok(())
    }

    fn write(&mut self, reg: Reg, kind: Kind) -> Result<(), Infallible> {
        (reg.index()..reg.index() + kind.slots() as usize).for_each(|index| self.writes(index));
        Ok(())
    }

    fn read_ref(&mut self, reg: RefReg, _movable: bool) -> Result<(), Infallible> {
        self.reads(self.slots + reg.index());
        Ok(())
    }

    fn write_ref(&mut self, reg: RefReg) -> Result<(), Infallible> {
        // The write releases the old reference, so even a dead register must hold null or a valid reference.
        self.writes(self.slots + reg.index());
        Ok(())
    }

    fn read_list(&mut self, list: ListId, kind: Kind, _movable: bool) -> Result<(), Infallible> {
        for register in self.decoded.list(list) {
            self.bits(*register, kind).for_each(|index| self.reads(index));
        }
        Ok(())
    }

    fn read_any(&mut self, list: ListId) -> Result<(), Infallible> {
        for register in self.decoded.list(list) {
            let first = position(*register, self.slots);
            self.reads(first);
            // A value of unknown kind may have 64 bits.
            if !register.is_ref() && first + 1 < self.slots {
                self.reads(first + 1);
            }
        }
        Ok(())
    }

    fn return_values(&mut self, list: ListId) -> Result<(), Infallible> {
        let kinds = self.kinds;
        self.reads_all(list, kinds.of_return());
        Ok(())
    }

    fn edge(&mut self, edge: EdgeId) -> Result<(), Infallible> {
        self.summary.successors.push((self.decoded.edge(edge).target, Some(edge)));
        Ok(())
    }

    fn target(&mut self, block: BlockId) -> Result<(), Infallible> {
        self.summary.successors.push((block, None));
        Ok(())
    }

    fn cases(&mut self, cases: CasesId) -> Result<(), Infallible> {
        self.decoded.case_edges(cases).try_for_each(|edge| self.edge(edge))
    }

    fn call(&mut self, call: CallId, _form: CallForm) -> Result<(), Infallible> {
        let site = self.decoded.call(call);
        let (operands, results) = self.kinds.of_call(call);
        self.reads_all(site.operands, &operands);
        for (register, kind) in self.decoded.list(site.results).iter().zip(results) {
            self.bits(*register, kind).for_each(|index| self.writes(index));
        }
        match site.resume {
            Some(block) => self.target(block),
            None => Ok(()),
        }
    }
}
