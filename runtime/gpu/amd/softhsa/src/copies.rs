//! Asynchronous copies: a thread waits for the signals that a copy depends on. A copy that depends on nothing is done
//! at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use vireo_hsa::hsa::HsaStatus;
use vireo_soft::clock;

use crate::signals::Signal;
use crate::status::{Result, tell};
use crate::system::System;

/// The value of a completion signal after an error.
const FAILED: i64 = -1;

/// A copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    pub(crate) to: u64,
    pub(crate) from: u64,
    pub(crate) size: u64,
}

/// The place of a box in memory: the address of its first byte, and the bytes from a row, and from a slice, to the next
/// one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pitched {
    pub(crate) start: u64,
    pub(crate) pitch: u64,
    pub(crate) slice: u64,
}

impl Pitched {
    /// The address of the byte that is `offset` bytes, rows and slices after the first byte of a box.
    pub(crate) fn at(self, offset: [u32; 3]) -> Option<Self> {
        let [x, y, z] = offset.map(u64::from);
        let skipped = y.checked_mul(self.pitch)?.checked_add(z.checked_mul(self.slice)?)?.checked_add(x)?;
        Some(Pitched { start: self.start.checked_add(skipped)?, ..self })
    }

    /// The bytes from the first one of a box to its end. There are none if two rows share bytes, or if the box leaves
    /// the addresses: so it has no more rows than memory has bytes.
    fn span(self, range: [u32; 3]) -> Option<u64> {
        let [x, y, z] = range.map(u64::from);
        let slice = self.pitch.checked_mul(y - 1)?.checked_add(x)?;
        let span = self.slice.checked_mul(z - 1)?.checked_add(slice)?;
        let apart = (y == 1 || self.pitch >= x) && (z == 1 || self.slice >= slice);
        self.start.checked_add(span)?;
        apart.then_some(span)
    }
}

/// The copies of the rows of a box of `range` bytes, rows and slices; none if it is empty. `is_whole` says whether
/// bytes are in one allocation, or are the program's: a row after the end of an allocation would pass for the latter.
pub(crate) fn rows(
    to: Pitched,
    from: Pitched,
    range: [u32; 3],
    is_whole: &dyn Fn(u64, u64) -> bool,
) -> Result<impl Iterator<Item = Copy> + Send + use<>> {
    let empty = range.contains(&0);
    if !empty {
        for place in [to, from] {
            let span = place.span(range).ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
            if !is_whole(place.start, span) {
                return Err(HsaStatus::ERROR_INVALID_ALLOCATION);
            }
        }
    }
    let [size, rows, slices] = range.map(u64::from);
    let slices = if empty { 0 } else { slices };
    Ok((0..slices).flat_map(move |z| {
        (0..rows).map(move |y| {
            let row = |place: Pitched| place.start + z * place.slice + y * place.pitch;
            Copy { to: row(to), from: row(from), size }
        })
    }))
}

/// Makes all copies in their order, and decrements `completion`, once all of `waits` are zero.
///
/// # Safety
/// The program vouches for memory that the map does not know, until the completion signal changes.
pub(crate) unsafe fn start(
    system: &Arc<System>,
    copies: impl IntoIterator<Item = Copy> + Send + 'static,
    waits: Vec<Arc<Signal>>,
    completion: Arc<Signal>,
) -> Result<()> {
    let run = move |system: &System| {
        let begin = clock::now();
        // SAFETY: the program vouches for memory that the map does not know, until the completion signal changes.
        let copied = copies.into_iter().try_for_each(|copy| unsafe { system.copy(copy.to, copy.from, copy.size) });
        if system.copy_profiling.load(Ordering::Relaxed) {
            completion.set_copy_times(begin, clock::now());
        }
        system.update_signal(&completion, |value| if copied.is_ok() { value.wrapping_sub(1) } else { FAILED });
        copied
    };
    let is_open = |signal: &Arc<Signal>| signal.load() != 0 && !signal.is_destroyed();
    if !waits.iter().any(is_open) {
        return run(system);
    }
    let shared = system.clone();
    let wait = move || {
        let go = shared.signals.bell.wait(None, || {
            let stopped = shared.stop.requested();
            (stopped || !waits.iter().any(is_open)).then_some(!stopped)
        });
        if go == Some(true) && run(&shared).is_err() {
            tell(format_args!("an asynchronous copy leaves its allocations"));
        }
    };
    let thread = std::thread::Builder::new().name("softhsa-copy".to_string()).spawn(wait);
    let thread = thread.map_err(|_| HsaStatus::ERROR_OUT_OF_RESOURCES)?;
    system.add_helper(thread);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(start: u64, pitch: u64, slice: u64) -> Pitched {
        Pitched { start, pitch, slice }
    }

    #[test]
    fn a_box_is_copied_row_by_row() {
        let to = place(1000, 10, 100).at([1, 2, 3]).expect("an address");
        let all: Vec<Copy> = rows(to, place(5000, 4, 8), [3, 2, 2], &|_, _| true).expect("a box").collect();
        let copy = |to, from| Copy { to, from, size: 3 };
        assert_eq!(all, [copy(1321, 5000), copy(1331, 5004), copy(1421, 5008), copy(1431, 5012)]);
        for range in [[0, 2, 2], [3, 0, 2], [3, 2, 0]] {
            let empty = rows(place(0, 0, 0), place(0, 0, 0), range, &|_, _| false).expect("it is empty");
            assert_eq!(empty.count(), 0, "{range:?}");
        }
        // A single row and a single slice need no pitch.
        assert!(rows(place(0, 0, 0), place(0, 0, 0), [3, 1, 1], &|_, _| true).is_ok());
    }

    #[test]
    fn boxes_whose_rows_overlap_or_leave_the_addresses_are_refused() {
        let good = place(0, 4, 8);
        assert!(rows(good, good, [4, 2, 2], &|_, _| true).is_ok());
        for bad in
            [place(0, 3, 8), place(0, 4, 7), place(u64::MAX - 15, 4, 8), place(0, u64::MAX, 8), place(0, 4, u64::MAX)]
        {
            assert!(rows(bad, good, [4, 2, 2], &|_, _| true).is_err(), "{bad:?}");
            assert!(rows(good, bad, [4, 2, 2], &|_, _| true).is_err(), "{bad:?}");
        }
        assert!(place(0, u64::MAX, 0).at([0, 2, 0]).is_none());
        assert!(place(u64::MAX, 0, 0).at([1, 0, 0]).is_none());
    }
}
