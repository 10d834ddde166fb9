//! The bytes of allocations ([`Backing`]), and copies between addresses that programs and kernels may write to at the
//! same time.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// The owner of the bytes of an allocation, until it is dropped.
pub struct Backing {
    _owner: Option<Arc<dyn Any + Send + Sync>>,
}

impl Backing {
    /// Memory of the program, which vouches for it.
    pub const PROGRAM: Backing = Backing { _owner: None };

    /// A part of something.
    pub fn of(owner: Arc<dyn Any + Send + Sync>) -> Self {
        Backing { _owner: Some(owner) }
    }
}

impl fmt::Debug for Backing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Backing")
    }
}

/// Copies bytes that others may access at the same time: aligned words of 8 bytes at once, others one by one. The
/// ranges may overlap.
///
/// # Safety
/// Both ranges are mapped, `to` is writable, and the only references to their bytes are to atomics.
pub unsafe fn copy(to: *mut u8, from: *const u8, length: usize) {
    let byte = |index: usize| {
        // SAFETY: the index is below the length, and the caller vouches for the ranges.
        unsafe {
            let value = AtomicU8::from_ptr(from.add(index).cast_mut()).load(Ordering::Relaxed);
            AtomicU8::from_ptr(to.add(index)).store(value, Ordering::Relaxed);
        }
    };
    let backwards = to.addr() > from.addr() && to.addr() - from.addr() < length;
    if backwards {
        (0..length).rev().for_each(byte);
    } else if to.addr() % 8 == from.addr() % 8 && !(to.addr() < from.addr() && from.addr() - to.addr() < 8) {
        let head = to.align_offset(8).min(length);
        let words = (length - head) / 8;
        (0..head).for_each(byte);
        for word in 0..words {
            let index = head + 8 * word;
            // SAFETY: the index is below the length, and the caller vouches for the ranges; both addresses are aligned,
            // since they have the same remainder.
            unsafe {
                let value = AtomicU64::from_ptr(from.add(index).cast_mut().cast()).load(Ordering::Relaxed);
                AtomicU64::from_ptr(to.add(index).cast()).store(value, Ordering::Relaxed);
            }
        }
        (head + 8 * words..length).for_each(byte);
    } else {
        (0..length).for_each(byte);
    }
}

/// Copies the bytes of `changed` that differ from those of `base` to `target` and to `base`: the changes of one side
/// since the last time.
///
/// # Safety
/// As [`copy`], for three ranges of this length that begin on a multiple of 8, as do their lengths, and do not overlap.
pub unsafe fn copy_changes(changed: *const u8, base: *mut u8, target: *mut u8, length: usize) {
    for word in 0..length / 8 {
        // SAFETY: the caller guarantees three ranges of this length that are mapped, aligned to 8 bytes, and do not
        // overlap.
        let (from, before, to) = unsafe {
            let word = |pointer: *mut u8| AtomicU64::from_ptr(pointer.cast::<u64>().add(word));
            (word(changed.cast_mut()), word(base), word(target))
        };
        let (new, old) = (from.load(Ordering::Relaxed), before.load(Ordering::Relaxed));
        if new == old {
            continue;
        }
        // Bytes that did not change keep what the other side wrote to them.
        let (now, then) = (new.to_ne_bytes(), old.to_ne_bytes());
        let mask = u64::from_ne_bytes(std::array::from_fn(|byte| if now[byte] == then[byte] { 0 } else { 0xff }));
        let merge = |value: u64| Some(value & !mask | new & mask);
        let _ = to.fetch_update(Ordering::Relaxed, Ordering::Relaxed, merge);
        before.store(new, Ordering::Relaxed);
    }
}
