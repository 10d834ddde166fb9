//! The allocator of heap objects and wait sources: per-thread free lists by size class, because programs make and drop several objects at each
//! call.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::{NonNull, null_mut};

/// Size classes are multiples of this.
const GRANULE: usize = 16;

/// Number of size classes; larger blocks come from the system allocator.
const SIZE_CLASSES: usize = 16;

/// Most blocks in the free list of a size class.
const MAX_FREE_BLOCKS: u32 = 64;

/// A block in a free list.
struct FreeBlock {
    next: *mut FreeBlock,
}

/// The free list of a size class.
struct FreeList {
    first: Cell<*mut FreeBlock>,
    count: Cell<u32>,
}

/// The free lists of a thread.
struct FreeLists([FreeList; SIZE_CLASSES]);

thread_local! {
    static FREE_LISTS: FreeLists = const { FreeLists([const { FreeList { first: Cell::new(null_mut()), count: Cell::new(0) } }; SIZE_CLASSES]) };
}

/// The size class of a layout, if it has one.
const fn size_class(layout: Layout) -> Option<usize> {
    let index = layout.size().div_ceil(GRANULE).wrapping_sub(1);
    if index < SIZE_CLASSES && layout.align() <= GRANULE { Some(index) } else { None }
}

/// The layout of the blocks of a size class.
const fn layout_of(size_class: usize) -> Layout {
    match Layout::from_size_align((size_class + 1) * GRANULE, GRANULE) {
        Ok(layout) => layout,
        Err(_) => unreachable!(),
    }
}

/// Allocates a block, not initialised.
#[inline]
pub(super) fn allocate(layout: Layout) -> NonNull<u8> {
    let Some(index) = size_class(layout) else { return allocate_from_system(layout) };
    let reused = FREE_LISTS.try_with(|lists| {
        let list = &lists.0[index];
        let first = NonNull::new(list.first.get())?;
        // SAFETY: blocks in a free list are owned by it and hold a `FreeBlock`.
        list.first.set(unsafe { first.as_ref() }.next);
        list.count.set(list.count.get() - 1);
        Some(first.cast())
    });
    match reused {
        Ok(Some(block)) => block,
        // The list is empty, or the thread is at its end.
        _ => allocate_from_system(layout_of(index)),
    }
}

#[cold]
fn allocate_from_system(layout: Layout) -> NonNull<u8> {
    // SAFETY: callers ask for at least one byte: objects have a header, and `wait_source` rounds up.
    NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Frees a block.
///
/// # Safety
/// It must come from [`allocate`] with the same layout, and nothing may refer to it any more.
#[inline]
pub(super) unsafe fn free(block: NonNull<u8>, layout: Layout) {
    let Some(index) = size_class(layout) else {
        // SAFETY: it was allocated with this layout.
        return unsafe { dealloc(block.as_ptr(), layout) };
    };
    let is_kept = FREE_LISTS.try_with(|lists| {
        let list = &lists.0[index];
        if list.count.get() >= MAX_FREE_BLOCKS {
            return false;
        }
        let block = block.cast::<FreeBlock>();
        // SAFETY: a block is at least as large and aligned as a `FreeBlock`, and nothing uses it any more.
        unsafe { block.write(FreeBlock { next: list.first.get() }) };
        list.first.set(block.as_ptr());
        list.count.set(list.count.get() + 1);
        true
    });
    if is_kept != Ok(true) {
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(block.as_ptr(), layout_of(index)) };
    }
}

impl Drop for FreeLists {
    fn drop(&mut self) {
        for (index, list) in self.0.iter().enumerate() {
            while let Some(first) = NonNull::new(list.first.get()) {
                // SAFETY: blocks in a free list are owned by it, hold a `FreeBlock`, and have the layout of the size class.
                unsafe {
                    list.first.set(first.as_ref().next);
                    dealloc(first.as_ptr().cast(), layout_of(index));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_by_size_and_not_more_than_some() {
        let small = Layout::new::<[u64; 3]>();
        let large = Layout::new::<[u64; 1000]>();
        for layout in [small, large] {
            let blocks: Vec<_> = (0..2 * MAX_FREE_BLOCKS).map(|_| allocate(layout)).collect();
            for block in &blocks {
                // SAFETY: all of it is ours; it is written to find overlaps under a sanitizer.
                unsafe { block.write_bytes(0xAA, layout.size()) };
            }
            // SAFETY: they were allocated with this layout.
            blocks.iter().for_each(|block| unsafe { free(*block, layout) });
        }
        let count = |layout| size_class(layout).map(|index| FREE_LISTS.with(|lists| lists.0[index].count.get()));
        assert_eq!((count(small), count(large)), (Some(MAX_FREE_BLOCKS), None));
        let block = allocate(small);
        assert_eq!(count(small), Some(MAX_FREE_BLOCKS - 1));
        // SAFETY: as above.
        unsafe { free(block, small) };
        let other = Layout::new::<[u64; 4]>();
        assert_eq!(allocate(other), block, "of the same step");
        // SAFETY: as above.
        unsafe { free(block, other) };
    }
}
