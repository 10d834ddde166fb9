//! An allocator that tells what is allocated and freed, for programs that count it. It leaves everything to the
//! system's allocator.

use std::alloc::{GlobalAlloc, Layout, System};

/// Functions that are called for each block, by any thread. They must not allocate, unless they allow for being called
/// again.
pub struct Counting {
    pub allocated: fn(Layout),
    pub freed: fn(Layout),
}

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        (self.allocated)(layout);
        // SAFETY: the caller guarantees that the layout is not empty, as the system's allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        (self.allocated)(layout);
        // SAFETY: the caller guarantees that the layout is not empty, as the system's allocator requires.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        (self.freed)(layout);
        if let Ok(other) = Layout::from_size_align(size, layout.align()) {
            (self.allocated)(other);
        }
        // SAFETY: the caller guarantees that `block` is of this allocator, and so of the system's, with this layout,
        // and that `size` is not zero.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        (self.freed)(layout);
        // SAFETY: the caller guarantees that `block` is of this allocator, and so of the system's, with this layout.
        unsafe { System.dealloc(block, layout) };
    }
}
