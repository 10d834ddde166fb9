//! [`HeapBytes`]: zeroed, aligned bytes on the heap of the host. Local devices and the reader of module files allocate
//! with it.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use crate::status::{Result, Status};

/// Bytes on the host's heap. Owners share them by reference counts; a mapping is an owner, so the bytes outlive a
/// buffer that is still mapped.
pub struct HeapBytes {
    data: NonNull<u8>,
    block: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the bytes are accessed only through raw pointers, and do not move until they are freed.
unsafe impl Send for HeapBytes {}
// SAFETY: the bytes are accessed only through raw pointers, and do not move until they are freed; no Rust reference to
// the bytes exists.
unsafe impl Sync for HeapBytes {}

/// The alignment of every allocation of the heap.
const HEAP_ALIGNMENT: usize = 16;

/// Up to this alignment, blocks are allocated with padding instead: the system's allocator is faster without an
/// alignment, and only then knows which pages are zero already.
const MAX_PADDED_ALIGNMENT: usize = 64;

/// Up to this size, filling with zeros is faster than `alloc_zeroed`.
const MAX_FILLED_SIZE: usize = 1024;

impl HeapBytes {
    /// Allocates zeroed bytes. `alignment` is a power of two.
    pub fn allocate(length: u64, alignment: u64) -> Result<HeapBytes> {
        let exhausted = || Status::resource_exhausted(format!("cannot allocate a buffer of {length} bytes"));
        let size = usize::try_from(length.max(1)).map_err(|_| exhausted())?;
        let alignment = usize::try_from(alignment).map_err(|_| exhausted())?;
        let padded = alignment > HEAP_ALIGNMENT && alignment <= MAX_PADDED_ALIGNMENT;
        let layout = if padded {
            let size = size.checked_add(alignment - HEAP_ALIGNMENT).ok_or_else(exhausted)?;
            Layout::from_size_align(size, HEAP_ALIGNMENT)
        } else {
            Layout::from_size_align(size, alignment)
        };
        let layout = layout.map_err(|_| exhausted())?;
        let block = if layout.size() <= MAX_FILLED_SIZE {
            // SAFETY: the layout's size is at least one.
            let block = NonNull::new(unsafe { alloc(layout) }).ok_or_else(exhausted)?;
            // SAFETY: the block has the size of the layout.
            unsafe { block.write_bytes(0, layout.size()) };
            block
        } else {
            // SAFETY: the layout's size is at least one.
            NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(exhausted)?
        };
        // SAFETY: a padded block is aligned to `HEAP_ALIGNMENT` and so much larger than `size` that the bytes fit after
        // the next multiple of the alignment; otherwise the block is aligned, and nothing is added.
        let data = unsafe { block.add(block.align_offset(alignment)) };
        Ok(HeapBytes { data, block, layout })
    }

    /// A lower bound of the number of bytes; at least the length that was asked for.
    #[inline]
    pub fn size(&self) -> u64 {
        let padding = self.data.as_ptr().addr() - self.block.as_ptr().addr();
        (self.layout.size() - padding) as u64
    }

    /// The address of the first byte.
    #[inline]
    pub fn data(&self) -> NonNull<u8> {
        self.data
    }
}

/// Gives memory that is free back to the system, where the system's allocator keeps it. That of the GNU C library keeps
/// all that is below the last allocation in use, which may be most of what a host has dropped.
pub fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes nothing but how much to leave, and moves no memory that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

impl Drop for HeapBytes {
    fn drop(&mut self) {
        // SAFETY: the block was allocated with exactly this layout, and nothing refers to it any more.
        unsafe { dealloc(self.block.as_ptr(), self.layout) };
    }
}
