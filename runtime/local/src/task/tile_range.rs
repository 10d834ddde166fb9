//! Ranges of tiles for work stealing: each seat of a fork-join has one, from which its owner takes and other threads
//! steal.

use std::ops::Range;

use crate::sync::atomic::{AtomicU64, Ordering};

/// A range of tiles. Its owner takes tiles from the front, others steal from the back. Both are one
/// compare-and-exchange of one word, so no tile is handed out twice and none is lost.
///
/// There is no ABA problem: tiles that left a range never come back to it while a region is open.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct TileRange(AtomicU64);

fn pack(range: &Range<u32>) -> u64 {
    u64::from(range.start) << 32 | u64::from(range.end)
}

fn unpack(word: u64) -> Range<u32> {
    (word >> 32) as u32..word as u32
}

impl TileRange {
    /// Replaces the range. Only its owner calls this, and only while the range is empty or the region closed.
    pub(super) fn set(&self, range: Range<u32>) {
        self.0.store(pack(&range), Ordering::Release);
    }

    /// Number of tiles left.
    pub(super) fn len(&self) -> u32 {
        unpack(self.0.load(Ordering::Relaxed)).len() as u32
    }

    /// Takes the first tile.
    pub(super) fn take(&self) -> Option<u32> {
        self.update(|range| (range.start + 1..range.end, range.start))
    }

    /// Takes the second half, rounded up.
    pub(super) fn steal(&self) -> Option<Range<u32>> {
        self.update(|range| {
            let middle = range.start + range.len() as u32 / 2;
            (range.start..middle, middle..range.end)
        })
    }

    /// Splits a nonempty range into the rest and what is taken.
    fn update<T>(&self, split: impl Fn(Range<u32>) -> (Range<u32>, T)) -> Option<T> {
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            let range = unpack(word);
            if range.is_empty() {
                return None;
            }
            let (rest, taken) = split(range);
            match self.0.compare_exchange_weak(word, pack(&rest), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(taken),
                Err(other) => word = other,
            }
        }
    }
}
