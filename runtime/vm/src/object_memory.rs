//! The allocator of heap objects, wait sources and the bytes of buffers: per-thread free lists by size class, because
//! programs make and drop several objects at each call, and a kernel the buffers that it computes in for each
//! workgroup.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::{NonNull, null_mut};

use crate::limits;

/// Blocks begin at a cache line and have a multiple of one, because a thread writes to its objects at each call: what
/// other threads read must not lie on the same lines.
const LINE: usize = 64;
/// Between two powers of two there are four size classes, so that a block has at most a quarter more bytes than it
/// needs.
const CLASSES_PER_OCTAVE: usize = 4;
/// The first octave begins after this many bytes; up to there the size classes are multiples of a line.
const FIRST_OCTAVE: usize = LINE * CLASSES_PER_OCTAVE;
const OCTAVES: usize = 8;
const CLASSES: usize = CLASSES_PER_OCTAVE * (1 + OCTAVES);
/// Still larger blocks come from the system allocator.
const MAX_BYTES: usize = FIRST_OCTAVE << OCTAVES;

/// Most blocks in the free list of a size class.
const MAX_FREE_BLOCKS: u32 = 128;
/// Most bytes in the free lists of all blocks that are larger than the first octave.
const MAX_FREE_BYTES: usize = 256 << 10;

/// A block in a free list.
struct FreeBlock {
    next: *mut FreeBlock,
}

/// The free list of a size class.
struct FreeList {
    first: Cell<*mut FreeBlock>,
    count: Cell<u32>,
}

/// The free lists of a thread, and the bytes in those of blocks larger than the first octave.
struct FreeLists([FreeList; CLASSES], Cell<usize>);

thread_local! {
    static FREE_LISTS: FreeLists = const {
        let empty = [const { FreeList { first: Cell::new(null_mut()), count: Cell::new(0) } }; CLASSES];
        FreeLists(empty, Cell::new(0))
    };
}

/// The size class of a layout, if it has one.
#[inline]
const fn size_class(layout: Layout) -> Option<usize> {
    if layout.size() == 0 || layout.size() > MAX_BYTES || layout.align() > LINE {
        return None;
    }
    if layout.size() <= FIRST_OCTAVE {
        return Some((layout.size() - 1) / LINE);
    }
    let octave = ((layout.size() - 1) / FIRST_OCTAVE).ilog2() as usize;
    let begin = FIRST_OCTAVE << octave;
    Some(CLASSES_PER_OCTAVE * (1 + octave) + (layout.size() - 1 - begin) / (begin / CLASSES_PER_OCTAVE))
}

/// The layout of the blocks of a size class.
#[inline]
const fn layout_of(size_class: usize) -> Layout {
    let (octave, step) = (size_class / CLASSES_PER_OCTAVE, size_class % CLASSES_PER_OCTAVE + 1);
    let (begin, unit) = match octave {
        0 => (0, LINE),
        _ => (FIRST_OCTAVE << (octave - 1), LINE << (octave - 1)),
    };
    match Layout::from_size_align(begin + step * unit, LINE) {
        Ok(layout) => layout,
        Err(_) => unreachable!(),
    }
}

/// The bytes for which a block in a free list of this size class counts in [`MAX_FREE_BYTES`].
#[inline]
const fn counted_bytes(size_class: usize) -> usize {
    if size_class < CLASSES_PER_OCTAVE { 0 } else { layout_of(size_class).size() }
}

/// Bytes that a block of a layout takes, for the charge of its owner.
pub(super) fn block_bytes(layout: Layout) -> u64 {
    let block = size_class(layout).map_or(layout, layout_of);
    limits::block_bytes(block.size() as u64, block.align() as u64)
}

/// Allocates a block, not initialised.
#[inline]
pub(super) fn allocate(layout: Layout) -> NonNull<u8> {
    try_allocate(layout).unwrap_or_else(|| handle_alloc_error(layout))
}

/// As `allocate`; none if there is no memory. `layout` has at least one byte.
#[inline]
pub(super) fn try_allocate(layout: Layout) -> Option<NonNull<u8>> {
    let Some(index) = size_class(layout) else { return allocate_from_system(layout) };
    let reused = FREE_LISTS.try_with(|lists| {
        let list = &lists.0[index];
        let first = NonNull::new(list.first.get())?;
        // SAFETY: blocks in a free list are owned by it and hold a `FreeBlock`.
        list.first.set(unsafe { first.as_ref() }.next);
        list.count.set(list.count.get() - 1);
        lists.1.set(lists.1.get() - counted_bytes(index));
        Some(first.cast())
    });
    match reused {
        Ok(Some(block)) => Some(block),
        // The list is empty, or the thread is at its end.
        _ => allocate_from_system(layout_of(index)),
    }
}

/// Whether blocks of a layout come from free lists, in which they hold what was in them.
#[inline]
pub(super) fn is_recycled(layout: Layout) -> bool {
    size_class(layout).is_some()
}

#[cold]
fn allocate_from_system(layout: Layout) -> Option<NonNull<u8>> {
    // SAFETY: callers ask for at least one byte: objects have a header, `wait_source` and buffers round up.
    NonNull::new(unsafe { alloc(layout) })
}

/// Frees a block.
///
/// # Safety
/// It must come from [`allocate`] or [`try_allocate`] with the same layout, and nothing may refer to it any more.
#[inline]
pub(super) unsafe fn free(block: NonNull<u8>, layout: Layout) {
    let Some(index) = size_class(layout) else {
        // SAFETY: it was allocated with this layout.
        return unsafe { dealloc(block.as_ptr(), layout) };
    };
    let is_kept = FREE_LISTS.try_with(|lists| {
        let list = &lists.0[index];
        let bytes = lists.1.get() + counted_bytes(index);
        if list.count.get() >= MAX_FREE_BLOCKS || bytes > MAX_FREE_BYTES {
            return false;
        }
        let block = block.cast::<FreeBlock>();
        // SAFETY: a block is at least as large and aligned as a `FreeBlock`, and nothing uses it any more.
        unsafe { block.write(FreeBlock { next: list.first.get() }) };
        list.first.set(block.as_ptr());
        list.count.set(list.count.get() + 1);
        lists.1.set(bytes);
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
                // SAFETY: blocks in a free list are owned by it, hold a `FreeBlock`, and have the layout of the size
                // class.
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
        let line = Layout::from_size_align(2000, 64).unwrap();
        let large = Layout::from_size_align(MAX_BYTES + 1, 16).unwrap();
        for layout in [small, line, large] {
            let blocks: Vec<_> = (0..3 * MAX_FREE_BLOCKS).map(|_| allocate(layout)).collect();
            for block in &blocks {
                assert!(block.as_ptr().addr().is_multiple_of(size_class(layout).map_or(layout.align(), |_| LINE)));
                // SAFETY: all of it is ours; it is written to find overlaps under a sanitizer.
                unsafe { block.write_bytes(0xAA, layout.size()) };
            }
            // SAFETY: they were allocated with this layout.
            blocks.iter().for_each(|block| unsafe { free(*block, layout) });
        }
        let count = |layout| size_class(layout).map(|index| FREE_LISTS.with(|lists| lists.0[index].count.get()));
        assert_eq!((count(small), count(line), count(large)), (Some(MAX_FREE_BLOCKS), Some(MAX_FREE_BLOCKS), None));
        let block = allocate(small);
        assert_eq!(count(small), Some(MAX_FREE_BLOCKS - 1));
        // SAFETY: they were allocated with this layout.
        unsafe { free(block, small) };
        let other = Layout::new::<[u64; 4]>();
        assert_eq!(allocate(other), block, "of the same step");
        // SAFETY: they were allocated with this layout.
        unsafe { free(block, other) };
    }

    #[test]
    fn free_lists_have_few_bytes() {
        let layout = Layout::from_size_align(MAX_BYTES, 64).unwrap();
        let blocks: Vec<_> = (0..9).map(|_| allocate(layout)).collect();
        // SAFETY: they were allocated with this layout.
        blocks.iter().for_each(|block| unsafe { free(*block, layout) });
        FREE_LISTS.with(|lists| {
            assert_eq!(lists.1.get(), MAX_FREE_BYTES);
            assert_eq!(lists.0[CLASSES - 1].count.get() as usize, MAX_FREE_BYTES / MAX_BYTES);
        });
        let block = allocate(layout);
        assert_eq!(FREE_LISTS.with(|lists| lists.1.get()), MAX_FREE_BYTES - MAX_BYTES);
        // SAFETY: they were allocated with this layout.
        unsafe { free(block, layout) };
    }

    #[test]
    fn a_block_of_a_size_class_is_large_enough_and_not_much_larger() {
        for alignment in [1, 16, 64] {
            for size in 1..=MAX_BYTES + 1 {
                let layout = Layout::from_size_align(size, alignment).unwrap();
                let Some(index) = size_class(layout) else {
                    assert_eq!(size, MAX_BYTES + 1);
                    continue;
                };
                let block = layout_of(index);
                assert!(block.size() >= size && block.align() >= alignment, "{layout:?}: {block:?}");
                assert!(block.size() < size + LINE || 4 * block.size() <= 5 * size + 4, "{layout:?}: {block:?}");
                // The one before is too small.
                let before = index.checked_sub(1).map(layout_of);
                assert!(before.is_none_or(|before| before.size() < size), "{layout:?}: {before:?}");
            }
        }
        assert_eq!(size_class(Layout::from_size_align(64, 128).unwrap()), None);
    }
}
