//! The memory of cells. A thread keeps some of what it frees for the next ones, because programs make and drop several objects at each
//! call.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::{NonNull, null_mut};

/// Cells are kept by size, in steps of this.
const STEP: usize = 16;

/// Number of sizes that are kept.
const SIZES: usize = 16;

/// Most cells of one size that a thread keeps.
const MAX_KEPT: u32 = 64;

/// A cell that is kept.
struct Free {
    next: *mut Free,
}

/// The cells of one size.
struct List {
    first: Cell<*mut Free>,
    count: Cell<u32>,
}

/// What a thread keeps.
struct FreeList([List; SIZES]);

thread_local! {
    static KEPT: FreeList = const { FreeList([const { List { first: Cell::new(null_mut()), count: Cell::new(0) } }; SIZES]) };
}

/// Which list cells of a layout are in, if they are kept.
const fn list_of(layout: Layout) -> Option<usize> {
    let index = layout.size().div_ceil(STEP).wrapping_sub(1);
    if index < SIZES && layout.align() <= STEP { Some(index) } else { None }
}

/// The layout of the cells in a list.
const fn layout_of(list: usize) -> Layout {
    match Layout::from_size_align((list + 1) * STEP, STEP) {
        Ok(layout) => layout,
        Err(_) => unreachable!(),
    }
}

/// Memory for a cell, not initialised.
#[inline]
pub(super) fn allocate(layout: Layout) -> NonNull<u8> {
    let Some(index) = list_of(layout) else { return system(layout) };
    let kept = KEPT.try_with(|kept| {
        let list = &kept.0[index];
        let first = NonNull::new(list.first.get())?;
        // SAFETY: what is in a list is memory of ours that holds a `Free`.
        list.first.set(unsafe { first.as_ref() }.next);
        list.count.set(list.count.get() - 1);
        Some(first.cast())
    });
    match kept {
        Ok(Some(kept)) => kept,
        // There is none, or the thread is at its end.
        _ => system(layout_of(index)),
    }
}

#[cold]
fn system(layout: Layout) -> NonNull<u8> {
    // SAFETY: a cell has a header, so its size is not zero.
    NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Takes back the memory of a cell.
///
/// # Safety
/// It must come from [`allocate`] with the same layout, and nothing may refer to it any more.
#[inline]
pub(super) unsafe fn free(cell: NonNull<u8>, layout: Layout) {
    let Some(index) = list_of(layout) else {
        // SAFETY: it was allocated with this layout.
        return unsafe { dealloc(cell.as_ptr(), layout) };
    };
    let kept = KEPT.try_with(|kept| {
        let list = &kept.0[index];
        if list.count.get() >= MAX_KEPT {
            return false;
        }
        let free = cell.cast::<Free>();
        // SAFETY: a cell is at least as large and aligned as a `Free`, and nobody uses it.
        unsafe { free.write(Free { next: list.first.get() }) };
        list.first.set(free.as_ptr());
        list.count.set(list.count.get() + 1);
        true
    });
    if kept != Ok(true) {
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(cell.as_ptr(), layout_of(index)) };
    }
}

impl Drop for FreeList {
    fn drop(&mut self) {
        for (index, list) in self.0.iter().enumerate() {
            while let Some(first) = NonNull::new(list.first.get()) {
                // SAFETY: what is in a list is memory of ours that holds a `Free`, of the list's layout.
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
            let cells: Vec<_> = (0..2 * MAX_KEPT).map(|_| allocate(layout)).collect();
            for cell in &cells {
                // SAFETY: all of it is ours; it is written to find overlaps under a sanitizer.
                unsafe { cell.write_bytes(0xAA, layout.size()) };
            }
            // SAFETY: they were allocated with this layout.
            cells.iter().for_each(|cell| unsafe { free(*cell, layout) });
        }
        let count = |layout| list_of(layout).map(|index| KEPT.with(|kept| kept.0[index].count.get()));
        assert_eq!((count(small), count(large)), (Some(MAX_KEPT), None));
        let cell = allocate(small);
        assert_eq!(count(small), Some(MAX_KEPT - 1));
        // SAFETY: as above.
        unsafe { free(cell, small) };
        let other = Layout::new::<[u64; 4]>();
        assert_eq!(allocate(other), cell, "of the same step");
        // SAFETY: as above.
        unsafe { free(cell, other) };
    }
}
