//! Memory: blocks of powers of two from one reserved range of addresses, so that a program that allocates and frees in
//! a loop allocates nothing from the host.

use std::sync::{Mutex, PoisonError};

use vireo_core::pages::PageMapping;

/// Bytes of addresses; pages that were never written take no memory.
const RANGE: usize = 1 << 38;
/// The alignment of addresses, and the bytes before each of them that have the size of its block.
const ALIGNMENT: usize = 256;

struct Memory {
    pages: PageMapping,
    used: usize,
    /// Free blocks by the logarithm of their size.
    free: [Vec<usize>; usize::BITS as usize],
}

static MEMORY: Mutex<Option<Memory>> = Mutex::new(None);

/// The address of so many bytes; none if there are not as many.
pub(crate) fn allocate(size: u64) -> Option<u64> {
    let block = usize::try_from(size).ok()?.checked_add(ALIGNMENT)?.checked_next_power_of_two()?;
    let class = block.trailing_zeros() as usize;
    let mut memory = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    if memory.is_none() {
        let pages = PageMapping::reserved(RANGE, "the null CUDA driver").ok()?;
        *memory = Some(Memory { pages, used: 0, free: [const { Vec::new() }; usize::BITS as usize] });
    }
    let memory = memory.as_mut()?;
    let offset = match memory.free[class].pop() {
        Some(offset) => offset,
        None => {
            let offset = memory.used;
            memory.used = offset.checked_add(block).filter(|end| *end <= RANGE)?;
            offset
        }
    };
    // SAFETY: the block lies in the range, is this caller's alone, and has room for the word.
    unsafe {
        let start = memory.pages.base().as_ptr().add(offset);
        start.cast::<usize>().write(class);
        Some(start.add(ALIGNMENT).expose_provenance() as u64)
    }
}

/// Frees what [`allocate`] returned. Other addresses are ignored.
pub(crate) fn free(address: u64) {
    let mut memory = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(memory) = memory.as_mut() else { return };
    let start = memory.pages.base().as_ptr().expose_provenance();
    let offset = (address as usize).wrapping_sub(ALIGNMENT).wrapping_sub(start);
    if offset < memory.used {
        // SAFETY: the offset is in the range that blocks have been taken from, whose pages can be read.
        let class = unsafe { memory.pages.base().as_ptr().add(offset).cast::<usize>().read_unaligned() };
        if let Some(free) = memory.free.get_mut(class) {
            free.push(offset);
        }
    }
}
