//! Typed liveness at each op of a block, from the first to the last. Liveness is computed backwards, so it is computed
//! once for the block with a log of its changes, and these are undone op by op as the builder goes forwards.

use std::ops::Range;

use smallvec::SmallVec;

use super::typed_liveness::{Read, TypedLiveness};
use crate::ir::bits::Bits;

/// The next reads of all slots at one program point.
#[derive(Default)]
pub(crate) struct SlotReads {
    pub reads: SmallVec<[Read; 64]>,
    /// The slots that are live.
    pub live: Bits,
}

impl SlotReads {
    fn find_live(&mut self) {
        self.live = Bits::new(self.reads.len());
        let live = self.reads.iter().enumerate().filter(|(_, read)| **read != Read::Never);
        live.for_each(|(slot, _)| self.live.insert(slot));
    }

    fn take(&mut self, changes: &[(usize, Read)]) {
        let reads = &mut self.reads[..];
        let changes = changes.iter().rev().map(|(slot, read)| {
            reads[*slot] = *read;
            (*slot, *read != Read::Never)
        });
        self.live.set_each(changes);
    }
}

/// The liveness before and after an op of a block.
#[derive(Default)]
pub(crate) struct BlockLiveness {
    pub before: SlotReads,
    /// Not set for the last op.
    pub after: SlotReads,
    /// The log: for each op, the next reads after it of the slots for which those before it differ. The last op comes
    /// first.
    changes: Vec<(usize, Read)>,
    /// Where the changes of each op begin, likewise.
    starts: Vec<usize>,
}

impl BlockLiveness {
    /// Begins at the first op of a block.
    pub fn begin(&mut self, liveness: &TypedLiveness<'_>, ops: Range<u32>, slots: usize) {
        let BlockLiveness { before, after, changes, starts } = self;
        changes.clear();
        starts.clear();
        before.reads.clear();
        before.reads.resize(slots, Read::Never);
        starts.reserve(ops.len());
        changes.reserve(4 * ops.len());
        for pc in ops.rev() {
            starts.push(changes.len());
            liveness.transfer(pc, &mut before.reads, |slot, read| changes.push((slot, read)));
        }
        before.find_live();
        after.reads = SmallVec::from_slice(&before.reads);
        after.live = before.live.clone();
        self.step_after();
    }

    /// Goes on to the next op.
    pub fn advance(&mut self) {
        if let Some(start) = self.starts.pop() {
            self.before.take(&self.changes[start..]);
            self.changes.truncate(start);
        }
        self.step_after();
    }

    fn step_after(&mut self) {
        if let Some(start) = self.starts.last() {
            self.after.take(&self.changes[*start..]);
        }
    }
}
