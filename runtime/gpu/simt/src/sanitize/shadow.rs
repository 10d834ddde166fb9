//! Shadow memory ([`Shadow`]): for chunks of memory that kernels accessed, which bytes were written, and the last
//! accesses to each word.
//!
//! A chunk has a cell for each word of four bytes until something smaller is accessed in it, then one for each byte. A
//! cell has the last write and two reads of different waves, from different work-groups if there are such: a write that
//! races with any read of the same kernel races with one of these two, unless barriers or atomic accesses order just
//! these. A store that leaves the bytes as they are counts among the reads.

use std::collections::HashMap;
use std::ops::Range;

/// Bytes of memory of a chunk, by their logarithm.
const CHUNK_SHIFT: u32 = 12;
const CHUNK: u64 = 1 << CHUNK_SHIFT;
/// Bits for the number of a site.
const SITE_BITS: u32 = 25;
/// The bit of an access that was made before the last write, and the first bit of the lane.
const STALE_BIT: u32 = SITE_BITS;
const LANE_BIT: u32 = SITE_BITS + 1;
/// Sites at most.
pub(super) const MAX_SITES: u32 = 1 << SITE_BITS;

/// An access that a cell remembers: the wave, of which zero is none, the lane, whether it was atomic, whether the word
/// has been written since, and the site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Epoch(u64);

impl Epoch {
    pub(super) const NONE: Epoch = Epoch(0);

    /// The access of a lane. Waves count from 1.
    pub(super) fn new(wave: u32, site: u32, lane: u32, atomic: bool) -> Self {
        Epoch(u64::from(wave) << 32 | u64::from(atomic) << 31 | u64::from(lane) << LANE_BIT | u64::from(site))
    }

    pub(super) fn is_none(self) -> bool {
        self.0 == 0
    }

    pub(super) fn wave(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(super) fn atomic(self) -> bool {
        self.0 >> 31 & 1 == 1
    }

    pub(super) fn lane(self) -> u32 {
        (self.0 >> LANE_BIT) as u32 & 31
    }

    /// It once the word has been written with other bytes.
    pub(super) fn made_stale(self) -> Self {
        if self.is_none() { self } else { Epoch(self.0 | 1 << STALE_BIT) }
    }

    /// True if the word has been written with other bytes since.
    pub(super) fn is_stale(self) -> bool {
        self.0 >> STALE_BIT & 1 == 1
    }

    pub(super) fn site(self) -> u32 {
        self.0 as u32 & (MAX_SITES - 1)
    }
}

/// The last accesses to a word or a byte.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    pub(super) write: Epoch,
    /// Accesses that left the bytes as they were.
    pub(super) reads: [Epoch; 2],
}

/// Cells of a chunk.
struct Cells {
    all: Box<[Cell]>,
    /// Bytes of a cell, by their logarithm: 2 or 0.
    shift: u32,
}

/// Which bytes of a chunk were written.
enum Written {
    Bits(Box<[u64; CHUNK as usize / 64]>),
    All,
}

#[derive(Default)]
struct Chunk {
    written: Option<Written>,
    cells: Option<Cells>,
}

/// The error for memory that is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exhausted;

/// Shadow memory of addresses, or of offsets.
pub(super) struct Shadow {
    chunks: HashMap<u64, Chunk>,
    bytes: u64,
    most: u64,
}

/// The bytes that a chunk counts without its bits and cells, and those that its bits count.
const CHUNK_BYTES: u64 = 64;
const BITS_BYTES: u64 = CHUNK / 8;

impl Cells {
    fn bytes(&self) -> u64 {
        size_of_val(&*self.all) as u64
    }
}

impl Chunk {
    fn bytes(&self) -> u64 {
        let bits = if matches!(self.written, Some(Written::Bits(_))) { BITS_BYTES } else { 0 };
        bits + self.cells.as_ref().map_or(0, Cells::bytes) + CHUNK_BYTES
    }
}

/// The parts of a range in chunks: the number of the chunk, and the bytes in it.
fn parts(start: u64, length: u64) -> impl Iterator<Item = (u64, Range<u64>)> {
    let end = start.saturating_add(length);
    let mut at = start;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let (number, offset) = (at >> CHUNK_SHIFT, at & (CHUNK - 1));
        let bytes = (CHUNK - offset).min(end - at);
        at += bytes;
        Some((number, offset..offset + bytes))
    })
}

impl Shadow {
    /// Shadow memory of at most so many bytes.
    pub(super) fn new(most: u64) -> Self {
        Shadow { chunks: HashMap::new(), bytes: 0, most }
    }

    /// Forgets everything of a range.
    pub(super) fn forget(&mut self, start: u64, length: u64) {
        let end = start.saturating_add(length);
        // Chunks that are in the range as a whole go; of the others a part is cleared.
        let (first, last) = (start.div_ceil(CHUNK), end / CHUNK);
        let inside = |number: u64| first <= number && number < last;
        if last.saturating_sub(first) > self.chunks.len() as u64 {
            let gone = self.chunks.iter().filter(|(key, _)| inside(**key)).map(|(_, chunk)| chunk.bytes());
            self.bytes -= gone.sum::<u64>();
            self.chunks.retain(|number, _| !inside(*number));
        } else {
            for number in first..last {
                self.bytes -= self.chunks.remove(&number).map_or(0, |chunk| chunk.bytes());
            }
        }
        let head = (start, (first * CHUNK).min(end) - start.min(first * CHUNK));
        let tail_start = (last * CHUNK).max(start).max(head.0 + head.1);
        for (start, length) in [head, (tail_start, end.saturating_sub(tail_start))] {
            self.forget_accesses(start, length);
            self.unwrite(start, length);
        }
    }

    /// Forgets the accesses to a range, but not what was written.
    pub(super) fn forget_accesses(&mut self, start: u64, length: u64) {
        if length > self.chunks.len() as u64 * CHUNK {
            let (first, last) = (start >> CHUNK_SHIFT, start.saturating_add(length) >> CHUNK_SHIFT);
            for (_, chunk) in self.chunks.iter_mut().filter(|(number, _)| (first..=last).contains(*number)) {
                self.bytes -= chunk.cells.take().map_or(0, |cells| cells.bytes());
            }
            return;
        }
        for (number, bytes) in parts(start, length) {
            let Some(cells) = self.chunks.get_mut(&number).and_then(|chunk| chunk.cells.as_mut()) else { continue };
            let shift = cells.shift;
            let range = (bytes.start >> shift) as usize..((bytes.end + (1 << shift) - 1) >> shift) as usize;
            cells.all[range].fill(Cell::default());
        }
    }

    fn charge(&mut self, bytes: u64) -> Result<(), Exhausted> {
        self.bytes = self.bytes.checked_add(bytes).filter(|bytes| *bytes <= self.most).ok_or(Exhausted)?;
        Ok(())
    }

    /// Notes that a range was written, unless there is no memory for that.
    pub(super) fn set_written(&mut self, start: u64, length: u64) -> Result<(), Exhausted> {
        for (number, bytes) in parts(start, length) {
            let whole = bytes == (0..CHUNK);
            let known = self.chunks.get(&number);
            let needs_bits = !whole && known.is_none_or(|chunk| chunk.written.is_none());
            let cost = if known.is_none() { CHUNK_BYTES } else { 0 } + if needs_bits { BITS_BYTES } else { 0 };
            if cost > 0 {
                self.charge(cost)?;
            }
            let chunk = self.chunks.entry(number).or_default();
            if whole {
                if matches!(chunk.written, Some(Written::Bits(_))) {
                    self.bytes -= BITS_BYTES;
                }
                chunk.written = Some(Written::All);
                continue;
            }
            if chunk.written.is_none() {
                chunk.written = Some(Written::Bits(Box::new([0; CHUNK as usize / 64])));
            }
            let Some(Written::Bits(bits)) = &mut chunk.written else { continue };
            for byte in bytes {
                bits[(byte / 64) as usize] |= 1 << (byte % 64);
            }
        }
        Ok(())
    }

    /// Bytes of a range count as unwritten again.
    pub(super) fn unwrite(&mut self, start: u64, length: u64) {
        for (number, bytes) in parts(start, length) {
            let Some(chunk) = self.chunks.get_mut(&number) else { continue };
            if matches!(chunk.written, Some(Written::All)) {
                // Seldom for more than two chunks of a range, so a limit that is reached is exceeded by little.
                self.bytes += BITS_BYTES;
                chunk.written = Some(Written::Bits(Box::new([u64::MAX; CHUNK as usize / 64])));
            }
            let Some(Written::Bits(bits)) = &mut chunk.written else { continue };
            for byte in bytes {
                bits[(byte / 64) as usize] &= !(1 << (byte % 64));
            }
        }
    }

    /// Whether all bytes of a range were written.
    pub(super) fn is_written(&self, start: u64, length: u64) -> bool {
        parts(start, length).all(|(number, mut bytes)| {
            match self.chunks.get(&number).and_then(|c| c.written.as_ref()) {
                Some(Written::All) => true,
                Some(Written::Bits(bits)) => bytes.all(|byte| bits[(byte / 64) as usize] >> (byte % 64) & 1 == 1),
                None => false,
            }
        })
    }

    /// Shows the cells of a range to `visit`, each with its bytes, counted from the start of the range.
    pub(super) fn cells(
        &mut self,
        start: u64,
        length: u64,
        mut visit: impl FnMut(&mut Cell, Range<usize>),
    ) -> Result<(), Exhausted> {
        let mut done = 0;
        let words = start.is_multiple_of(4) && length.is_multiple_of(4);
        for (number, bytes) in parts(start, length) {
            let known = self.chunks.get(&number).and_then(|chunk| chunk.cells.as_ref()).map(|cells| cells.shift);
            let shift = if words { known.unwrap_or(2) } else { 0 };
            if known != Some(shift) {
                self.divide(number, shift)?;
            }
            let Some(cells) = self.chunks.get_mut(&number).and_then(|chunk| chunk.cells.as_mut()) else { continue };
            let range = (bytes.start >> shift) as usize..(bytes.end >> shift) as usize;
            for cell in &mut cells.all[range] {
                visit(cell, done..done + (1 << shift));
                done += 1 << shift;
            }
        }
        Ok(())
    }

    /// Shows the cells of a range that were accessed to `visit`, each with its first address.
    pub(super) fn known_cells(&mut self, start: u64, length: u64, mut visit: impl FnMut(&mut Cell, u64)) {
        let end = start.saturating_add(length);
        for (number, chunk) in &mut self.chunks {
            let base = number << CHUNK_SHIFT;
            let Some(cells) = chunk.cells.as_mut().filter(|_| base < end && base + CHUNK > start) else { continue };
            for (index, cell) in cells.all.iter_mut().enumerate() {
                let address = base + ((index as u64) << cells.shift);
                if (start..end).contains(&address) {
                    visit(cell, address);
                }
            }
        }
    }

    /// Gives a chunk cells of this size.
    #[cold]
    fn divide(&mut self, number: u64, shift: u32) -> Result<(), Exhausted> {
        let count = (CHUNK >> shift) as usize;
        let new_chunk = if self.chunks.contains_key(&number) { 0 } else { CHUNK_BYTES };
        self.charge((count * size_of::<Cell>()) as u64 + new_chunk)?;
        let chunk = self.chunks.entry(number).or_default();
        let old = chunk.cells.take();
        self.bytes -= old.as_ref().map_or(0, Cells::bytes);
        let all = match &old {
            Some(old) => (0..count).map(|index| old.all[index << shift >> old.shift]).collect(),
            None => vec![Cell::default(); count].into(),
        };
        chunk.cells = Some(Cells { all, shift });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_divide_where_bytes_are_accessed() {
        let mut shadow = Shadow::new(1 << 20);
        let (one, two) = (Epoch::new(1, 5, 3, false), Epoch::new(2, 6, 31, true));
        assert_eq!((one.wave(), one.site(), one.lane(), one.atomic()), (1, 5, 3, false));
        assert_eq!((two.wave(), two.site(), two.lane(), two.atomic()), (2, 6, 31, true));
        let stale = Epoch::new(7, MAX_SITES - 1, 31, true).made_stale();
        assert_eq!((stale.wave(), stale.site(), stale.lane(), stale.atomic()), (7, MAX_SITES - 1, 31, true));
        assert!(stale.is_stale() && !two.is_stale() && Epoch::NONE.made_stale().is_none());
        let mut bytes = Vec::new();
        shadow.cells(0x2FFC, 8, |_, range| bytes.push(range)).unwrap();
        assert_eq!(bytes, [0..4, 4..8]);
        shadow.forget(0x2000, 0x2000);
        // Across two chunks.
        shadow.cells(0xFFC, 8, |cell, _| cell.write = one).unwrap();
        let mut seen = Vec::new();
        shadow.cells(0xFFD, 2, |cell, _| seen.push(std::mem::replace(&mut cell.write, two))).unwrap();
        assert_eq!(seen, [one, one]);
        seen.clear();
        shadow.cells(0xFFC, 8, |cell, _| seen.push(cell.write)).unwrap();
        assert_eq!(seen, [one, two, two, one, one]);
        let used = shadow.bytes;
        shadow.forget_accesses(0xFFC, 2);
        seen.clear();
        shadow.cells(0xFFC, 4, |cell, _| seen.push(cell.write)).unwrap();
        assert_eq!(seen, [Epoch::NONE, Epoch::NONE, two, one]);
        assert_eq!(shadow.bytes, used);
        shadow.forget(0, 0x2000);
        assert_eq!(shadow.bytes, 0);
    }

    #[test]
    fn written_bytes_are_counted_one_by_one_and_by_chunks() {
        let mut shadow = Shadow::new(1 << 20);
        assert!(!shadow.is_written(0x1000, 1) && shadow.is_written(0x1000, 0));
        shadow.set_written(0x1002, 3).unwrap();
        assert!(shadow.is_written(0x1002, 3) && !shadow.is_written(0x1001, 2) && !shadow.is_written(0x1004, 2));
        shadow.set_written(0x1800, 0x2000).unwrap();
        assert!(shadow.is_written(0x1800, 0x2000) && !shadow.is_written(0x17FF, 2) && !shadow.is_written(0x3800, 1));
        shadow.set_written(0x1000, 0x1000).unwrap();
        assert!(shadow.is_written(0x1000, 0x1000));
        shadow.forget(0, u64::MAX);
        assert!(!shadow.is_written(0x2000, 1));
        assert_eq!(shadow.bytes, 0);
    }

    /// A write is noted after an access, before it, and as a whole chunk.
    #[test]
    fn all_that_is_forgotten_was_counted() {
        let mut shadow = Shadow::new(1 << 20);
        for whole in [false, true] {
            shadow.cells(0x1000, 4, |_, _| {}).unwrap();
            shadow.set_written(0x1008, if whole { 0 } else { 4 }).unwrap();
            shadow.set_written(0x1000, if whole { CHUNK } else { 1 }).unwrap();
            shadow.set_written(0x3000, 1).unwrap();
            shadow.cells(0x3001, 1, |_, _| {}).unwrap();
            shadow.forget(0x1800, 4);
            shadow.forget(0, 0x2000);
            shadow.forget(0x3000, 0x1000);
            assert_eq!(shadow.bytes, 0);
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut shadow = Shadow::new(1 << 16);
        let mut count = 0;
        while shadow.cells(count * CHUNK, 4, |_, _| {}).is_ok() {
            count += 1;
        }
        assert_eq!(count, 2);
    }
}
