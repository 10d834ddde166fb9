//! Allocations ([`Blocks`]): those in use, and freed ones in quarantine, whose addresses are not given out until there
//! are too many bytes of them.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::report::AllocationNote;
use crate::memory::is_widened;

/// An allocation that kernels may access.
#[derive(Clone, Debug)]
pub struct BlockInfo {
    /// The address of its first byte.
    pub start: u64,
    /// Bytes that were asked for.
    pub length: u64,
    /// Bytes after those that an aligned load may read which begins before, as [`Region`](crate::Region) has them.
    pub padding: u64,
    /// Unallocated bytes up to the next thing in memory.
    pub reserved: u64,
    /// True if it was filled with [`poison`](super::poison), so that it is known what was written.
    pub poisoned: bool,
    /// The name of the memory, for reports.
    pub what: String,
}

struct Freed {
    block: BlockInfo,
    by: String,
    _keep: Arc<dyn Any + Send + Sync>,
}

/// The memory at an address.
pub(super) enum Found<'a> {
    /// All bytes are in this allocation.
    Inside(&'a BlockInfo),
    /// The first byte is in an allocation or in what is reserved for it, and not all are in it.
    Past,
    /// It was freed.
    Freed,
    /// No allocation that this knows of.
    Unknown,
}

/// All allocations.
#[derive(Default)]
pub(super) struct Blocks {
    live: BTreeMap<u64, BlockInfo>,
    freed: BTreeMap<u64, Freed>,
    /// Freed ones, the oldest first, and their bytes.
    order: VecDeque<u64>,
    bytes: u64,
}

impl Blocks {
    pub(super) fn insert(&mut self, block: BlockInfo) {
        self.live.insert(block.start, block);
    }

    /// Moves an allocation to the quarantine. Returns those that leave it.
    pub(super) fn free(
        &mut self,
        start: u64,
        by: String,
        keep: Arc<dyn Any + Send + Sync>,
        most: u64,
    ) -> Vec<(u64, u64)> {
        let Some(block) = self.live.remove(&start) else { return Vec::new() };
        self.bytes += block.reserved;
        self.order.push_back(start);
        self.freed.insert(start, Freed { block, by, _keep: keep });
        let mut left = Vec::new();
        while self.bytes > most {
            let Some(freed) = self.order.pop_front().and_then(|oldest| self.freed.remove(&oldest)) else { break };
            self.bytes -= freed.block.reserved;
            left.push((freed.block.start, freed.block.length));
        }
        left
    }

    /// Whether the allocation at this address is one that is in use.
    pub(super) fn holds(&self, address: u64) -> bool {
        self.at(address).is_some()
    }

    /// Whether all of these bytes are in an allocation that was poisoned.
    pub(super) fn is_poisoned(&self, address: u64, length: u64) -> bool {
        let fits = |block: &BlockInfo| {
            address - block.start <= block.length && block.length - (address - block.start) >= length
        };
        self.at(address).is_some_and(|block| block.poisoned && fits(block))
    }

    fn at(&self, address: u64) -> Option<&BlockInfo> {
        let (_, block) = self.live.range(..=address).next_back()?;
        (address - block.start < block.reserved).then_some(block)
    }

    fn freed_at(&self, address: u64) -> Option<&Freed> {
        let (_, freed) = self.freed.range(..=address).next_back()?;
        (address - freed.block.start < freed.block.reserved).then_some(freed)
    }

    /// How many bytes of a load are in the allocation where it begins, if it may pass the end of that.
    pub(super) fn widened(&self, address: u64, length: u32) -> Option<u32> {
        let block = self.at(address)?;
        let room = block.length.saturating_sub(address - block.start);
        let is_it = room < length.into() && is_widened(address, length.into(), room, block.padding);
        is_it.then_some(room as u32)
    }

    /// The memory at these bytes.
    pub(super) fn find(&self, address: u64, length: u32) -> Found<'_> {
        match self.at(address) {
            Some(block) => {
                let offset = address - block.start;
                let fits = offset < block.length && block.length - offset >= u64::from(length);
                if fits { Found::Inside(block) } else { Found::Past }
            }
            None if self.freed_at(address).is_some() => Found::Freed,
            None => Found::Unknown,
        }
    }

    /// The allocation that an address is in, was in, or is nearest to.
    pub(super) fn note(&self, address: u64) -> Option<AllocationNote> {
        let note = |block: &BlockInfo, freed_by: Option<&String>| AllocationNote {
            what: block.what.clone(),
            start: block.start,
            length: block.length,
            offset: address.wrapping_sub(block.start) as i64,
            freed_by: freed_by.cloned(),
        };
        if let Some(block) = self.at(address) {
            return Some(note(block, None));
        }
        if let Some(freed) = self.freed_at(address) {
            return Some(note(&freed.block, Some(&freed.by)));
        }
        let before = self.live.range(..=address).next_back().map(|(_, block)| block);
        let after = self.live.range(address..).next().map(|(_, block)| block);
        let past = before.map(|block| address - block.start - block.length);
        let nearest = match (past, after) {
            (Some(past), Some(next)) if next.start - address < past => after,
            (None, after) => after,
            _ => before,
        };
        nearest.map(|block| note(block, None))
    }
}
