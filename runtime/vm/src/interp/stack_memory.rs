//! Stack mappings: the memory of VM stacks, and a per-thread free list of them. `stack.rs` takes one for each invocation.
//!
//! A stack is one reserved mapping, so frames never move, and pages that no program has touched take no memory. A mapping costs more than most
//! calls, so each thread keeps two for the next invocations: kernels of a program may be programs themselves, which run inside of one. They are
//! mapped by `rustix`, which is a dependency anyway.

use std::cell::Cell;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::status::{Result, Status};

/// A mapping above this size is unmapped, not put into the free list.
const MAX_FREE_BYTES: usize = 8 << 20;

/// Length of the free list of a thread.
const MAX_FREE_MAPPINGS: usize = 2;

thread_local! {
    static FREE_MAPPINGS: [Cell<Option<StackMapping>>; MAX_FREE_MAPPINGS] = const { [const { Cell::new(None) }; MAX_FREE_MAPPINGS] };
}

/// A readable and writable mapping. A recycled one holds the bytes of its last use.
#[derive(Debug)]
pub(super) struct StackMapping {
    base: NonNull<u8>,
    length: usize,
}

impl StackMapping {
    /// Takes a mapping of at least `length` bytes from the free list, or maps one.
    pub fn take(length: usize) -> Result<StackMapping> {
        let free = FREE_MAPPINGS
            .try_with(|free| free.iter().find_map(|slot| slot.take().filter(|free| free.length >= length)));
        if let Ok(Some(free)) = free {
            return Ok(free);
        }
        let exhausted = || Status::resource_exhausted(format!("cannot reserve a stack of {length} bytes"));
        let length = length.max(1).checked_next_multiple_of(rustix::param::page_size()).ok_or_else(exhausted)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new private mapping at an address the system chooses touches no memory of ours.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), length, protection, flags) };
        let base = base.ok().and_then(|base| NonNull::new(base.cast())).ok_or_else(exhausted)?;
        Ok(StackMapping { base, length })
    }

    /// Puts the mapping into the free list of this thread, or unmaps it.
    pub fn recycle(self) {
        if self.length <= MAX_FREE_BYTES {
            let mut mapping = Some(self);
            // At the end of a thread the free list is gone; then the mapping is dropped here, as it is if the list is full.
            let _ = FREE_MAPPINGS.try_with(|free| {
                for slot in free {
                    let other = slot.replace(mapping.take());
                    if other.is_none() {
                        break;
                    }
                    mapping = other;
                }
            });
        }
    }

    /// Its first byte, on a page boundary.
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }
}

impl Drop for StackMapping {
    fn drop(&mut self) {
        // SAFETY: the range is exactly one mapping of ours, and the stack that used it has no frames any more. Failure would mean that
        // it is not mapped, which leaves nothing to do.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.length) };
    }
}
