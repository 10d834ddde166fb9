//! Stack mappings: the memory of VM stacks.
//!
//! A stack is one reserved mapping, so frames never move, and pages that no program has touched take no memory. They are mapped by `rustix`, which is
//! a dependency anyway. `stack.rs` keeps stacks with their mappings for the next calls.

use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::status::{Result, Status};

/// A readable and writable mapping. A recycled one holds the bytes of its last use.
#[derive(Debug)]
pub(super) struct StackMapping {
    base: NonNull<u8>,
    length: usize,
}

impl StackMapping {
    /// Maps at least `length` bytes.
    pub fn new(length: usize) -> Result<StackMapping> {
        let exhausted = || Status::resource_exhausted(format!("cannot reserve a stack of {length} bytes"));
        let length = length.max(1).checked_next_multiple_of(rustix::param::page_size()).ok_or_else(exhausted)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new private mapping at an address the system chooses touches no memory of ours.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), length, protection, flags) };
        let base = base.ok().and_then(|base| NonNull::new(base.cast())).ok_or_else(exhausted)?;
        Ok(StackMapping { base, length })
    }

    /// Its first byte, on a page boundary.
    #[inline]
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Bytes.
    #[inline]
    pub fn length(&self) -> usize {
        self.length
    }
}

impl Drop for StackMapping {
    fn drop(&mut self) {
        // SAFETY: the range is exactly one mapping of ours, and the stack that used it has no frames any more. Failure would mean that
        // it is not mapped, which leaves nothing to do.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.length) };
    }
}
