//! Pinned memory that a pending copy is to write ([`PoisonedHost`]), with `host=poisoned`: it is filled with a pattern
//! when the copy is submitted, so that a program which reads it before the copy is done finds the pattern and not what
//! happened to be there. When the copy runs, bytes that are no longer the pattern were written by the program, which is
//! told.
//!
//! The copy might run at once but for what is before it, so its target may change when it is submitted unless pending
//! work may use it: copies from and to there, kernels with an address of the allocation among their parameters, and
//! anything of a function of the host, a graph, or an operation on a value in memory.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::crew::Op;
use crate::memory::{Memory, Sort};
use crate::reports::tell;
use crate::sanitizer::{stream_name, unwritten_byte};

/// Host memory that an operation may use.
#[derive(Debug)]
pub(crate) enum Uses {
    /// These ranges, by start and length.
    Ranges(Vec<(u64, u64)>),
    /// It may be any.
    Any,
}

/// The pending operations that may use host memory.
#[derive(Debug, Default)]
pub(crate) struct PoisonedHost(Mutex<Vec<(Arc<Op>, Uses)>>);

/// The byte at an address.
///
/// # Safety
/// It is in an allocation that lives as long as the result is used, and all that access it are atomics or programs.
unsafe fn byte(address: u64) -> &'static AtomicU8 {
    // SAFETY: the caller vouches for it.
    unsafe { AtomicU8::from_ptr(std::ptr::with_exposed_provenance_mut(address as usize)) }
}

impl PoisonedHost {
    /// Notes what an operation may use until it is done.
    pub(crate) fn note(&self, op: &Arc<Op>, uses: Uses) {
        if !matches!(&uses, Uses::Ranges(ranges) if ranges.is_empty()) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push((op.clone(), uses));
        }
    }

    /// Whether pending work may use a range.
    fn may_use(&self, start: u64, length: u64) -> bool {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pending.retain(|(op, _)| !op.is_done());
        let overlaps = |(other, bytes): &(u64, u64)| *other < start.saturating_add(length) && start < other + bytes;
        pending.iter().any(|(_, uses)| match uses {
            Uses::Any => true,
            Uses::Ranges(ranges) => ranges.iter().any(overlaps),
        })
    }

    /// Fills the target of a copy that is submitted, unless pending work may use it. Returns whether it did.
    ///
    /// # Safety
    /// The range is in an allocation that lives until the copy is done.
    pub(crate) unsafe fn poison(&self, start: u64, length: u64) -> bool {
        if self.may_use(start, length) {
            return false;
        }
        for address in start..start + length {
            // SAFETY: the caller vouches for the range.
            unsafe { byte(address) }.store(unwritten_byte(address), Ordering::Relaxed);
        }
        true
    }
}

/// Tells the program of the first byte that it wrote in the target of a copy before that was done.
///
/// # Safety
/// The range is in an allocation that lives as long as this runs.
pub(crate) unsafe fn check(start: u64, length: u64, stream: u64) {
    // SAFETY: the caller vouches for the range.
    let is_changed = |address: &u64| unsafe { byte(*address) }.load(Ordering::Relaxed) != unwritten_byte(*address);
    if let Some(address) = (start..start + length).find(is_changed) {
        let (offset, stream) = (address - start, stream_name(stream));
        tell(format_args!(
            "host: the program wrote byte {offset} of the {length} bytes at 0x{start:x} before a copy to there in {stream} was done"
        ));
    }
}

/// The host memory that a kernel may use by the addresses among its parameters.
pub(crate) fn uses_of_parameters(memory: &Memory, parameters: &[u8]) -> Uses {
    let words = parameters.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
    let host = |address: u64| {
        let (start, detail) = memory.find(address)?;
        (detail.sort.is_host() || detail.sort == Sort::Managed).then_some((start, detail.size))
    };
    Uses::Ranges(words.filter_map(host).collect())
}
