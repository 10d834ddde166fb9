//! Caches of blocks of memory: the free blocks that all of them have ([`FreeBlocks`]), and the cache of the host's
//! memory for transient buffers and slabs ([`BlockCache`]). A released block is cached for the next request, within
//! bounds.
//!
//! **Bounds**: at most so many bytes and blocks as the cache says; and cached blocks and those in use together have at
//! most as many bytes as were ever in use at once, an eighth of that, and a slack. So a cache does not raise the peak
//! memory of a process by more. Blocks that would exceed the bounds are freed, the oldest first. `trim` frees all of
//! them.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::heap_bytes::HeapBytes;
use crate::status::Result;

/// Most bytes that are cached.
pub const MAX_CACHED_BYTES: u64 = 64 << 20;

/// Most blocks that are cached.
pub const MAX_CACHED_BLOCKS: usize = 64;

/// By how many bytes the memory held may exceed the most that was ever in use, besides an eighth of that.
const SLACK: u64 = 1 << 20;

/// A cached block serves a request if it is larger by at most this part of the request, and as many bytes as [`SMALL`]:
/// a host may keep it.
const MAX_WASTE: u64 = 16;

/// See [`MAX_WASTE`].
const SMALL: u64 = 1 << 10;

/// Memory of the host's heap.
pub struct Block {
    bytes: HeapBytes,
    alignment: u64,
}

impl Block {
    /// New memory, which is zero.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if there is no memory.
    pub fn new(length: u64, alignment: u64) -> Result<Block> {
        Ok(Block { bytes: HeapBytes::allocate(length, alignment)?, alignment })
    }

    /// The memory.
    pub fn bytes(&self) -> &HeapBytes {
        &self.bytes
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block({} bytes)", self.bytes.size())
    }
}

/// Statistics of a block cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockStats {
    /// Bytes in use.
    pub in_use: u64,
    /// The most bytes that were in use at once.
    pub peak: u64,
    /// Bytes cached.
    pub cached_bytes: u64,
    /// Blocks cached.
    pub cached: usize,
    /// Blocks handed out so far.
    pub acquired: u64,
    /// Blocks released so far.
    pub released: u64,
    /// Blocks handed out that had been cached.
    pub hits: u64,
}

/// The bounds of a cache, besides that it holds little more than was ever in use.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// By how many bytes the memory held may exceed the most that was ever in use, besides an eighth of that.
    pub slack: u64,
    /// Most bytes that are cached.
    pub bytes: u64,
    /// Most blocks that are cached.
    pub blocks: usize,
}

/// A block of a cache.
pub trait CachedBlock {
    /// Bytes.
    fn size(&self) -> u64;
}

/// The free blocks of a cache, and what is known of those in use. What is removed is returned, for the caller to free
/// without the lock of the cache.
#[derive(Debug)]
pub struct FreeBlocks<B> {
    bounds: Bounds,
    /// The oldest first.
    blocks: VecDeque<B>,
    stats: BlockStats,
}

impl<B: CachedBlock> FreeBlocks<B> {
    /// No blocks.
    pub fn new(bounds: Bounds) -> FreeBlocks<B> {
        FreeBlocks { bounds, blocks: VecDeque::new(), stats: BlockStats::default() }
    }

    /// Removes the smallest block of at least `length` bytes that `fits`. It counts as handed out by the caller.
    pub fn take(&mut self, length: u64, fits: impl Fn(&B) -> bool) -> Option<B> {
        let mut best: Option<(usize, u64)> = None;
        // The newest one is most likely in the processor's caches.
        for (index, block) in self.blocks.iter().enumerate().rev() {
            let size = block.size();
            if size >= length && best.is_none_or(|(_, smallest)| size < smallest) && fits(block) {
                best = Some((index, size));
                if size - length < 64 {
                    break;
                }
            }
        }
        let (index, size) = best?;
        self.stats.cached_bytes -= size;
        self.blocks.remove(index)
    }

    /// Counts a block that was handed out, and whether it had been cached.
    pub fn handed_out(&mut self, size: u64, is_hit: bool) {
        self.stats.acquired += 1;
        self.stats.hits += u64::from(is_hit);
        self.stats.in_use = self.stats.in_use.saturating_add(size);
        self.stats.peak = self.stats.peak.max(self.stats.in_use);
    }

    /// Counts a block that came back.
    pub fn came_back(&mut self, size: u64) {
        self.stats.in_use = self.stats.in_use.saturating_sub(size);
        self.stats.released += 1;
    }

    /// Adds a block that came back.
    pub fn put(&mut self, block: B) {
        self.stats.cached_bytes += block.size();
        self.blocks.push_back(block);
    }

    /// Removes the oldest blocks, as many as exceed the bounds once `more` bytes are taken into use.
    pub fn evict_for(&mut self, more: u64) -> Vec<B> {
        let peak = self.stats.peak;
        let limit = (peak + peak / 8).saturating_add(self.bounds.slack);
        let held = self.stats.in_use.saturating_add(more);
        self.keep(limit.saturating_sub(held).min(self.bounds.bytes), self.bounds.blocks)
    }

    /// Removes the oldest blocks, so that at most so many bytes and blocks are cached.
    fn keep(&mut self, bytes: u64, blocks: usize) -> Vec<B> {
        let (mut cached, mut removed) = (self.stats.cached_bytes, 0);
        while cached > bytes || self.blocks.len() - removed > blocks {
            cached -= self.blocks[removed].size();
            removed += 1;
        }
        self.stats.cached_bytes = cached;
        // An empty vector allocates nothing.
        if removed == 0 { Vec::new() } else { self.blocks.drain(..removed).collect() }
    }

    /// Removes all blocks.
    pub fn clear(&mut self) -> Vec<B> {
        self.keep(0, 0)
    }

    /// The statistics so far.
    pub fn stats(&self) -> BlockStats {
        BlockStats { cached: self.blocks.len(), ..self.stats }
    }
}

impl CachedBlock for Arc<Block> {
    fn size(&self) -> u64 {
        self.bytes.size()
    }
}

/// A cache of blocks, from which blocks are acquired and to which they are released. There are no other references to
/// those that are cached.
pub struct BlockCache(Mutex<FreeBlocks<Arc<Block>>>);

impl Default for BlockCache {
    fn default() -> BlockCache {
        let bounds = Bounds { slack: SLACK, bytes: MAX_CACHED_BYTES, blocks: MAX_CACHED_BLOCKS };
        BlockCache(Mutex::new(FreeBlocks::new(bounds)))
    }
}

impl BlockCache {
    fn lock(&self) -> MutexGuard<'_, FreeBlocks<Arc<Block>>> {
        // Nothing under the lock can panic between two changes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block of at least `length` bytes, with contents left over from its last user.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if there is no memory.
    pub fn acquire(&self, length: u64, alignment: u64) -> Result<Arc<Block>> {
        Ok(self.obtain(length, alignment)?.0)
    }

    /// The same, with zeros in the first `length` bytes.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if there is no memory.
    pub fn acquire_zeroed(&self, length: u64, alignment: u64) -> Result<Arc<Block>> {
        let (block, is_new) = self.obtain(length, alignment)?;
        if !is_new {
            // SAFETY: the block has at least `length` bytes, and there are no other references to one that was cached.
            unsafe { block.bytes.data().write_bytes(0, length as usize) };
        }
        Ok(block)
    }

    /// A block, and whether it is new and therefore zero.
    fn obtain(&self, length: u64, alignment: u64) -> Result<(Arc<Block>, bool)> {
        let mut free = self.lock();
        let most = length.saturating_add(length / MAX_WASTE + SMALL);
        let fits = |block: &Arc<Block>| block.size() <= most && block.alignment >= alignment;
        if let Some(block) = free.take(length, fits) {
            free.handed_out(block.size(), true);
            return Ok((block, false));
        }
        // Evicted blocks are freed first, so that the process never holds both.
        let evicted = free.evict_for(length);
        drop(free);
        drop(evicted);
        let block = Arc::new(Block::new(length, alignment)?);
        self.lock().handed_out(block.size(), false);
        Ok((block, true))
    }

    /// Takes a block back, if that is what `owner` is. It is cached if there is no other reference to it and the bounds
    /// allow it.
    pub fn release(&self, owner: Arc<dyn Any + Send + Sync>) {
        let Ok(mut block) = owner.downcast::<Block>() else { return };
        let unused = Arc::get_mut(&mut block).is_some();
        let mut free = self.lock();
        free.came_back(block.size());
        if unused && block.size() <= MAX_CACHED_BYTES {
            if free.blocks.capacity() == 0 {
                // Later calls allocate nothing.
                free.blocks.reserve_exact(MAX_CACHED_BLOCKS + 1);
            }
            free.put(block);
            let evicted = free.evict_for(0);
            drop(free);
            drop(evicted);
        }
    }

    /// Frees cached blocks: all of them, or with `all` false those beyond half of the bounds.
    pub fn trim(&self, all: bool) {
        let mut free = self.lock();
        let (bytes, blocks) = if all { (0, 0) } else { (MAX_CACHED_BYTES / 2, MAX_CACHED_BLOCKS / 2) };
        let removed = free.keep(bytes, blocks);
        if all {
            // The past peak says nothing about later use.
            free.stats.peak = free.stats.in_use;
        }
        drop(free);
        drop(removed);
    }

    /// The statistics so far.
    pub fn stats(&self) -> BlockStats {
        self.lock().stats()
    }
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BlockStats { in_use, cached, cached_bytes, .. } = self.stats();
        write!(f, "blocks({in_use} bytes in use, {cached_bytes} in {cached} blocks cached)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_same_requests_get_the_same_blocks() {
        let blocks = BlockCache::default();
        for round in 0..10 {
            let held: Vec<_> =
                [4000, 100_000, 3 * MIB].iter().map(|size| blocks.acquire(*size, 64).expect("allocates")).collect();
            assert_eq!(blocks.stats().hits, 3 * round);
            held.into_iter().for_each(|block| blocks.release(block));
        }
        let stats = blocks.stats();
        assert_eq!((stats.cached, stats.in_use, stats.acquired, stats.released), (3, 0, 30, 30));
        blocks.trim(true);
        assert_eq!((blocks.stats().cached, blocks.stats().cached_bytes), (0, 0));
    }

    #[test]
    fn the_cache_holds_little_more_than_the_peak() {
        let blocks = BlockCache::default();
        // One after the other, each too large for the blocks cached before.
        for size in [1, 3, 7, 16, 40].map(|size| size * MIB) {
            let block = blocks.acquire(size, 64).expect("allocates");
            let stats = blocks.stats();
            assert!(stats.in_use + stats.cached_bytes <= stats.peak + stats.peak / 8 + SLACK, "{stats:?}");
            blocks.release(block);
        }
        // A little request does not take a large block away from the next large one.
        let small = blocks.acquire(64, 64).expect("allocates");
        assert!(small.bytes().size() < MIB);
        blocks.release(small);
    }

    #[test]
    fn more_than_the_bounds_is_not_kept() {
        let blocks = BlockCache::default();
        let held: Vec<_> = (0..2 * MAX_CACHED_BLOCKS).map(|_| blocks.acquire(2000, 64).expect("allocates")).collect();
        held.into_iter().for_each(|block| blocks.release(block));
        assert_eq!(blocks.stats().cached, MAX_CACHED_BLOCKS);
        blocks.trim(false);
        assert_eq!(blocks.stats().cached, MAX_CACHED_BLOCKS / 2);
        let huge = blocks.acquire(MAX_CACHED_BYTES + 1, 64).expect("allocates");
        blocks.release(huge);
        assert!(blocks.stats().cached_bytes <= MAX_CACHED_BYTES);
    }

    #[test]
    fn blocks_that_others_hold_and_alignments_that_do_not_fit_are_not_used_again() {
        let blocks = BlockCache::default();
        let held = blocks.acquire(5000, 64).expect("allocates");
        blocks.release(held.clone());
        assert_eq!((blocks.stats().cached, blocks.stats().in_use), (0, 0));
        blocks.release(blocks.acquire(5000, 64).expect("allocates"));
        assert_eq!(blocks.stats().cached, 1);
        let aligned = blocks.acquire(5000, 4096).expect("allocates");
        assert_eq!((aligned.bytes().data().as_ptr().addr() % 4096, blocks.stats().hits), (0, 0));
    }
}
