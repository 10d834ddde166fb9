//! The work of long operations between two looks at the limits of a call: kernels, fills and copies count it while they
//! run.
//!
//! A look takes about as long as a hundred additions, so it cannot be taken at each element, and an operation on all
//! the memory of a program takes seconds, so it cannot be taken once for each operation either. [`WorkCount`] is
//! counted in nanoseconds that a part of it takes at most, for the type, the distances between elements and the slowest
//! vector registers. Operations call it once for each small part.

use std::ops::Range;

use super::scope;
use crate::status::Result;

/// Counted work between two looks, in nanoseconds. Counts are generous: parts take a tenth of them where nothing misses
/// a cache.
const BETWEEN_LOOKS: u64 = 8_000_000;

/// Most bytes that a fill or a copy moves between two looks. Memory that the system has not provided yet is the
/// slowest: about 4 ns for 16 bytes.
pub const BYTES_BETWEEN_LOOKS: usize = 4 << 20;

/// Counts the work of one operation, and looks at the limits that are in force on the thread each time that enough of
/// it has added up.
#[derive(Debug)]
pub struct WorkCount {
    left: u64,
    looks: u64,
}

impl Default for WorkCount {
    fn default() -> WorkCount {
        WorkCount { left: BETWEEN_LOOKS, looks: 0 }
    }
}

impl WorkCount {
    /// Counts a part that is about to be done.
    ///
    /// # Errors
    /// Those of the limits: the part must not be done then.
    #[inline(always)]
    pub fn add(&mut self, nanoseconds: u64) -> Result<()> {
        match self.left.checked_sub(nanoseconds) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => self.look(nanoseconds),
        }
    }

    #[cold]
    #[inline(never)]
    fn look(&mut self, nanoseconds: u64) -> Result<()> {
        self.left = BETWEEN_LOOKS.saturating_sub(nanoseconds);
        self.looks += 1;
        scope::check()
    }

    /// How often it has looked, for tests.
    pub fn looks(&self) -> u64 {
        self.looks
    }
}

/// Calls `part` for the parts of `length` bytes, in order, each at most [`BYTES_BETWEEN_LOOKS`] long, and looks at the
/// limits between them.
///
/// # Errors
/// Those of the limits; the parts after that are left out.
#[inline]
pub fn in_parts(length: usize, mut part: impl FnMut(Range<usize>)) -> Result<()> {
    let mut start = 0usize;
    loop {
        let end = length.min(start.saturating_add(BYTES_BETWEEN_LOOKS));
        part(start..end);
        if end == length {
            return Ok(());
        }
        scope::check()?;
        start = end;
    }
}

/// Copies bytes in parts. Ranges that overlap are copied as if through a temporary buffer.
///
/// # Errors
/// As [`in_parts`].
///
/// # Safety
/// `length` bytes must be readable at `from` and writable at `to`, and no Rust reference to them may exist.
#[inline]
pub unsafe fn copy_bytes(from: *const u8, to: *mut u8, length: usize) -> Result<()> {
    // A target that begins inside of the source is written from its end on, so that no part overwrites what later ones
    // read.
    let is_backward = to.addr().wrapping_sub(from.addr()) < length;
    in_parts(length, |part| {
        let start = if is_backward { length - part.end } else { part.start };
        // SAFETY: the part is inside of both ranges, and `copy_to` allows overlap.
        unsafe { from.add(start).copy_to(to.add(start), part.len()) };
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{Cancellation, Limits};

    #[test]
    fn work_is_looked_at_before_it_adds_up() {
        let mut work = WorkCount::default();
        let mut since = 0;
        for index in 0..100_000 {
            let (before, part) = (work.looks(), index % 977 * 31);
            work.add(part).expect("nothing is limited");
            since = if work.looks() == before { since + part } else { part };
            assert!(since <= BETWEEN_LOOKS);
        }
        assert!(work.looks() > 50);
        // A part that is too long alone still has a look before it.
        work.add(u64::MAX).expect("nothing is limited");
        let looks = work.looks();
        work.add(1).expect("nothing is limited");
        assert_eq!(work.looks(), looks + 1);
    }

    #[test]
    fn parts_stop_at_a_limit() {
        let cancellation = Cancellation::default();
        let limits = Limits { cancellation: Some(cancellation.clone()), ..Limits::default() };
        let _started = scope::start(&limits);
        let (mut parts, length) = (vec![], BYTES_BETWEEN_LOOKS * 3 + 5);
        in_parts(length, |part| parts.push(part)).expect("nothing is reached");
        assert_eq!(parts.iter().map(Range::len).sum::<usize>(), length);
        assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start) && parts.len() == 4);
        cancellation.cancel();
        let mut done = 0;
        in_parts(length, |part| done += part.len()).expect_err("the call was cancelled");
        assert_eq!(done, BYTES_BETWEEN_LOOKS);
        in_parts(5, |part| done += part.len()).expect("short ranges take no look");
    }

    #[test]
    fn copies_in_parts_may_overlap() {
        let length = BYTES_BETWEEN_LOOKS * 2 + 77;
        for distance in [0, 1, 4096, BYTES_BETWEEN_LOOKS, BYTES_BETWEEN_LOOKS + 3] {
            for backward in [false, true] {
                let mut bytes: Vec<u8> = (0..length + distance).map(|index| (index * 31 / 7) as u8).collect();
                let expected = bytes.clone();
                let (from, to) = if backward { (0, distance) } else { (distance, 0) };
                let data = bytes.as_mut_ptr();
                // SAFETY: both ranges are inside of `bytes`.
                unsafe { copy_bytes(data.add(from), data.add(to), length) }.expect("nothing is limited");
                assert!(bytes[to..][..length] == expected[from..][..length], "{distance} {backward}");
            }
        }
    }
}
