//! Bytes on the heap of the host at an alignment: memory of devices, of module files that were read, and of what both copy.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use crate::status::{Result, Status};

/// Bytes on the host's heap, freed with the last reference to them. Mappings hold them too, so they outlive a buffer that is still
/// mapped.
pub struct HeapBytes {
    data: NonNull<u8>,
    block: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the bytes are reached only through raw pointers, and stay where they are until the last reference is gone.
unsafe impl Send for HeapBytes {}
// SAFETY: as above; no Rust reference to the bytes exists.
unsafe impl Sync for HeapBytes {}

/// What every allocation of the heap is aligned to.
const HEAP_ALIGNMENT: usize = 16;

/// Up to this alignment, blocks are allocated with room to align the bytes in: the system's allocator is faster for blocks that ask for
/// no alignment, and only then it knows which pages are zero anyway.
const MAX_PADDED_ALIGNMENT: usize = 64;

/// Up to this size, filling with zeros is faster than to ask for zeros.
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
            // SAFETY: the block is that large.
            unsafe { block.write_bytes(0, layout.size()) };
            block
        } else {
            // SAFETY: the layout's size is at least one.
            NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(exhausted)?
        };
        // SAFETY: a padded block is aligned to `HEAP_ALIGNMENT` and so much larger than `size` that the bytes fit after the next
        // multiple of the alignment; otherwise the block is aligned, and nothing is added.
        let data = unsafe { block.add(block.align_offset(alignment)) };
        Ok(HeapBytes { data, block, layout })
    }

    /// How many there are at least.
    #[inline]
    pub fn size(&self) -> u64 {
        let padding = self.data.as_ptr().addr() - self.block.as_ptr().addr();
        (self.layout.size() - padding) as u64
    }

    /// Where they start.
    #[inline]
    pub fn data(&self) -> NonNull<u8> {
        self.data
    }
}

impl Drop for HeapBytes {
    fn drop(&mut self) {
        // SAFETY: the block was allocated with exactly this layout, and nothing refers to it any more.
        unsafe { dealloc(self.block.as_ptr(), self.layout) };
    }
}
