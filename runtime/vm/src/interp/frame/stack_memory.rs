//! Stack mappings: the memory of VM stacks.
//!
//! A stack is one reserved mapping, so frames never move, and pages that no program has touched take no memory.
//! `stack.rs` keeps stacks with their mappings for the next calls.

use crate::pages::PageMapping;
use crate::status::Result;

/// A readable and writable mapping. A recycled one holds the bytes of its last use.
#[derive(Debug)]
pub(in crate::interp) struct StackMapping(PageMapping);

impl StackMapping {
    /// Maps at least `length` bytes.
    pub fn new(length: usize) -> Result<StackMapping> {
        PageMapping::reserved(length, "a stack").map(StackMapping)
    }

    /// Its first byte, on a page boundary.
    #[inline]
    pub fn base(&self) -> *mut u8 {
        self.0.base().as_ptr()
    }

    /// Bytes.
    #[inline]
    pub fn length(&self) -> usize {
        self.0.length()
    }
}
