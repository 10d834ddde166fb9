//! The caching allocator: keeps the memory of freed buffers in pools and hands it out for requests of the same size and
//! type.
//!
//! For devices whose allocations are slow, and for programs that allocate the same sizes again and again. Each pool
//! serves the requests that one heap of the device can serve, up to a size, and bounds what it holds. Requests that no
//! pool serves go to the device's allocator: memory to be exported or shared without changes, which is often imported
//! rather than allocated, and memory that may not be written. Memory that the host cannot map is not cached, since it
//! could not be zeroed.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::loan::{Lender, LentBuffer};
use crate::hal::forward::ForwardAllocator;
use crate::hal::transfer::unwatched::buffer_fill;
use crate::hal::{
    Allocator, Buffer, BufferCompatibility, BufferParams, BufferUsage, Forward, MemoryAccess, MemoryHeap, MemoryType,
    WHOLE_BUFFER,
};
use crate::status::{Result, StatusCode};

/// Most free buffers of a pool that states no number.
const DEFAULT_FREE_BUFFERS: usize = 64;

/// Usages of buffers that are not cached: their memory may be reached by others, or is imported from a file.
const UNCACHED: BufferUsage =
    BufferUsage::SHARING_EXPORT.union(BufferUsage::SHARING_IMMUTABLE).union(BufferUsage::SHARING_REPLICATE);

/// The buffers that a pool serves, and how much memory it holds.
#[derive(Clone, Copy, Debug)]
pub struct CachePool {
    /// The heap whose requests it serves.
    pub heap: MemoryHeap,
    /// Larger buffers are not cached.
    pub max_allocation_size: u64,
    /// Most bytes of the pool, those in use and those that are free together, at which free ones are kept.
    pub max_capacity: u64,
    /// Most free buffers.
    pub max_free_buffers: usize,
}

impl CachePool {
    /// A pool of a heap with no other bounds than those of the heap, and 64 free buffers.
    pub fn of_heap(heap: MemoryHeap) -> CachePool {
        CachePool {
            heap,
            max_allocation_size: heap.max_allocation_size,
            max_capacity: u64::MAX,
            max_free_buffers: DEFAULT_FREE_BUFFERS,
        }
    }

    /// Whether it serves a request. `params` are resolved.
    fn serves(&self, params: &BufferParams, size: u64) -> bool {
        self.heap.memory_type.contains(params.memory_type)
            && self.heap.allowed_usage.contains(params.usage)
            && size <= self.max_allocation_size
    }
}

/// The contents of a pool, and counters of its requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatistics {
    /// Bytes in use and free.
    pub bytes: u64,
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Buffers that are free.
    pub free_buffers: usize,
    /// Requests that got memory that was free.
    pub hits: u64,
    /// Requests that got new memory.
    pub misses: u64,
}

/// An allocator that keeps freed memory of another allocator.
pub struct CachingAllocator {
    inner: Arc<dyn Allocator>,
    pools: Vec<Arc<Pool>>,
}

impl CachingAllocator {
    /// Keeps memory of `inner` in `pools`. A request goes to the first pool that serves its size and type.
    pub fn new(
        inner: Arc<dyn Allocator>,
        pools: impl IntoIterator<Item = CachePool>,
    ) -> Arc<Forward<CachingAllocator>> {
        let pool = |bounds| Arc::new(Pool { bounds, state: Mutex::default() });
        Arc::new(Forward(CachingAllocator { inner, pools: pools.into_iter().map(pool).collect() }))
    }

    /// The pools with their contents and counters.
    pub fn pools(&self) -> impl Iterator<Item = (CachePool, CacheStatistics)> {
        self.pools.iter().map(|pool| (pool.bounds, pool.lock().statistics()))
    }

    /// The pool for a request. `params` are resolved.
    fn pool_for(&self, params: &BufferParams, size: u64) -> Option<&Arc<Pool>> {
        let is_cached = !params.usage.intersects(UNCACHED)
            && params.memory_type.contains(MemoryType::HOST_VISIBLE)
            && params.usage.contains(BufferUsage::MAPPING_SCOPED)
            && params.access.contains(MemoryAccess::WRITE);
        self.pools.iter().find(|pool| is_cached && pool.bounds.serves(params, size))
    }
}

impl fmt::Debug for CachingAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachingAllocator").field("inner", &self.inner).field("pools", &self.pools).finish()
    }
}

impl ForwardAllocator for CachingAllocator {
    fn inner(&self) -> &Arc<dyn Allocator> {
        &self.inner
    }

    fn trim(&self) -> Result<()> {
        self.pools.iter().for_each(|pool| drop(pool.take_all()));
        self.inner.trim()
    }

    fn allocate_buffer(&self, params: BufferParams, allocation_size: u64) -> Result<Arc<dyn Buffer>> {
        let placement = self.inner.buffer_compatibility(params, allocation_size);
        let resolved =
            BufferParams { memory_type: placement.params.memory_type - MemoryType::OPTIMAL, ..placement.params };
        let allocatable = placement.compatibility.contains(BufferCompatibility::ALLOCATABLE);
        match self.pool_for(&resolved, allocation_size).filter(|_| allocatable) {
            Some(pool) => pool.allocate(&*self.inner, resolved, allocation_size),
            // The inner allocator refuses a buffer that cannot be allocated.
            None => self.inner.allocate_buffer(params, allocation_size),
        }
    }
}

/// Buffers of one heap.
struct Pool {
    bounds: CachePool,
    state: Mutex<PoolState>,
}

#[derive(Default)]
struct PoolState {
    /// The free buffers, oldest first. There are no other references to them.
    free: Vec<FreeBuffer>,
    free_bytes: u64,
    /// Bytes in use and free.
    bytes: u64,
    hits: u64,
    misses: u64,
}

/// A buffer that nothing uses.
struct FreeBuffer {
    buffer: Arc<dyn Buffer>,
    /// The alignment of its address, in bytes.
    alignment: u64,
}

impl PoolState {
    fn statistics(&self) -> CacheStatistics {
        let PoolState { free, free_bytes, bytes, hits, misses } = self;
        CacheStatistics {
            bytes: *bytes,
            free_bytes: *free_bytes,
            free_buffers: free.len(),
            hits: *hits,
            misses: *misses,
        }
    }

    /// Removes the newest buffer that serves a request: its memory is most likely in the processor's caches.
    fn take(&mut self, params: &BufferParams, size: u64) -> Option<FreeBuffer> {
        let fits = |free: &FreeBuffer| {
            free.buffer.byte_length() == size
                && free.alignment >= params.min_alignment
                && free.buffer.memory_type().contains(params.memory_type)
                && free.buffer.allowed_usage().contains(params.usage)
        };
        let index = self.free.iter().rposition(fits)?;
        self.free_bytes -= size;
        Some(self.free.remove(index))
    }

    /// Removes the oldest buffers until the bounds are kept, for the caller to free without the lock.
    fn evict(&mut self, bounds: &CachePool) -> Vec<FreeBuffer> {
        let (mut count, mut bytes) = (0, 0);
        for free in &self.free {
            let fits = self.bytes - bytes <= bounds.max_capacity;
            if fits && self.free.len() - count <= bounds.max_free_buffers {
                break;
            }
            count += 1;
            bytes += free.buffer.byte_length();
        }
        self.bytes -= bytes;
        self.free_bytes -= bytes;
        self.free.drain(..count).collect()
    }
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        // Nothing under the lock can panic between two changes.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes all free buffers.
    fn take_all(&self) -> Vec<FreeBuffer> {
        let mut state = self.lock();
        state.bytes -= std::mem::take(&mut state.free_bytes);
        std::mem::take(&mut state.free)
    }

    /// A buffer for a request that the pool serves, with zeros in it.
    fn allocate(self: &Arc<Pool>, inner: &dyn Allocator, params: BufferParams, size: u64) -> Result<Arc<dyn Buffer>> {
        let mut state = self.lock();
        if let Some(FreeBuffer { buffer, alignment }) = state.take(&params, size) {
            state.hits += 1;
            drop(state);
            let lent = self.lend(buffer, alignment, params.access);
            // No program may read what an earlier one has left. Should this fail, the memory goes back.
            buffer_fill(lent.memory(), 0, WHOLE_BUFFER, &[0])?;
            return Ok(Arc::new(lent));
        }
        // More than there can be is refused there.
        let Some(bytes) = state.bytes.checked_add(size) else { return inner.allocate_buffer(params, size) };
        // Counted before it is allocated, so that requests of other threads keep the bound as well.
        state.bytes = bytes;
        state.misses += 1;
        let evicted = state.evict(&self.bounds);
        drop(state);
        // Freed first, so that the process never holds both.
        drop(evicted);
        // One buffer may be read-only and the next one not.
        let wanted = BufferParams { access: MemoryAccess::ALL, ..params };
        let allocated = match inner.allocate_buffer(wanted, size) {
            // Free memory counts towards the limits of the device.
            Err(status) if status.code() == StatusCode::ResourceExhausted => {
                let freed = self.take_all();
                if freed.is_empty() {
                    Err(status)
                } else {
                    drop(freed);
                    inner.allocate_buffer(wanted, size)
                }
            }
            other => other,
        };
        match allocated {
            Ok(buffer) if buffer.byte_length() == size => {
                Ok(Arc::new(self.lend(buffer, params.min_alignment, params.access)))
            }
            // A buffer of another size than it was asked for would upset the counts.
            other => {
                self.lock().bytes -= size;
                other
            }
        }
    }

    fn lend(self: &Arc<Pool>, memory: Arc<dyn Buffer>, alignment: u64, access: MemoryAccess) -> LentBuffer<PoolLender> {
        LentBuffer::new(memory, access, PoolLender { pool: Arc::downgrade(self), alignment })
    }

    /// Keeps a buffer that nothing uses any more, or frees it.
    fn keep(&self, mut buffer: Arc<dyn Buffer>, alignment: u64) {
        let size = buffer.byte_length();
        let is_unused = Arc::get_mut(&mut buffer).is_some();
        let mut state = self.lock();
        if !is_unused {
            state.bytes -= size;
            return;
        }
        state.free.push(FreeBuffer { buffer, alignment });
        state.free_bytes += size;
        let evicted = state.evict(&self.bounds);
        drop(state);
        drop(evicted);
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock().statistics().fmt(f)
    }
}

/// Where a buffer of a pool goes back to, unless the allocator is gone.
struct PoolLender {
    pool: Weak<Pool>,
    alignment: u64,
}

impl Lender for PoolLender {
    fn take_back(&self, memory: Arc<dyn Buffer>) {
        if let Some(pool) = self.pool.upgrade() {
            pool.keep(memory, self.alignment);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::{HeapAllocator, MappingMode, buffer_to_vec, buffer_write, subspan};

    fn caching(heap: &Arc<HeapAllocator>, bounds: impl Fn(&mut CachePool)) -> Arc<Forward<CachingAllocator>> {
        let mut pool = CachePool::of_heap(heap.memory_heaps()[0]);
        bounds(&mut pool);
        CachingAllocator::new(heap.clone(), [pool])
    }

    fn statistics(allocator: &Forward<CachingAllocator>) -> CacheStatistics {
        allocator.0.pools().next().expect("there is one").1
    }

    fn allocate(allocator: &Forward<CachingAllocator>, size: u64) -> Arc<dyn Buffer> {
        allocator.allocate_buffer(BufferParams::default(), size).expect("allocates")
    }

    fn address(buffer: &Arc<dyn Buffer>) -> usize {
        let mapping = buffer.map_range(MappingMode::SCOPED, MemoryAccess::READ, 0, WHOLE_BUFFER).expect("is mapped");
        mapping.data.as_ptr().addr()
    }

    fn live(heap: &HeapAllocator) -> u64 {
        let statistics = heap.statistics();
        statistics.device_bytes_allocated - statistics.device_bytes_freed
    }

    #[test]
    fn the_same_size_and_type_gets_the_same_memory_with_zeros() {
        let heap = Arc::<HeapAllocator>::default();
        let allocator = caching(&heap, |_| {});
        let first = allocate(&allocator, 1000);
        let before = address(&first);
        buffer_write(&*first, 0, &[7; 1000]).expect("may be written");
        first.preserve();
        drop(first);
        assert_eq!((live(&heap), statistics(&allocator).free_bytes), (1000, 1000));
        let again = allocate(&allocator, 1000);
        assert_eq!(address(&again), before);
        assert_eq!(buffer_to_vec(&*again, 1000).expect("is mapped"), [0; 1000]);
        assert!(again.is_terminal(), "holders of the last buffer do not count");
        drop(again);
        // Another size, a larger alignment, and a use that is not cached.
        drop(allocate(&allocator, 999));
        let aligned = BufferParams { min_alignment: 4096, ..BufferParams::default() };
        assert_eq!(address(&allocator.allocate_buffer(aligned, 1000).expect("allocates")) % 4096, 0);
        let expected = CacheStatistics { bytes: 2999, free_bytes: 2999, free_buffers: 3, hits: 1, misses: 3 };
        assert_eq!(statistics(&allocator), expected);
        let usage = BufferUsage::DEFAULT | BufferUsage::SHARING_EXPORT;
        let host = BufferParams { memory_type: MemoryType::HOST_LOCAL, ..BufferParams::default() };
        for params in [BufferParams { usage, ..BufferParams::default() }, host] {
            drop(allocator.allocate_buffer(params, 1000).expect("allocates"));
        }
        assert_eq!(statistics(&allocator), expected);
    }

    #[test]
    fn access_is_that_of_the_request_and_read_only_memory_is_not_cached() {
        let heap = Arc::<HeapAllocator>::default();
        let allocator = caching(&heap, |_| {});
        let discarding = BufferParams { access: MemoryAccess::WRITE, ..BufferParams::default() };
        let buffer = allocator.allocate_buffer(discarding, 10).expect("allocates");
        assert!(buffer_to_vec(&*buffer, 10).is_err(), "the host may only write it");
        drop(buffer);
        assert_eq!(buffer_to_vec(&*allocate(&allocator, 10), 10).expect("is mapped"), [0; 10]);
        assert_eq!(statistics(&allocator).hits, 1);
        let reading = BufferParams { access: MemoryAccess::READ, ..BufferParams::default() };
        drop(allocator.allocate_buffer(reading, 10).expect("allocates"));
        assert_eq!((statistics(&allocator).hits, statistics(&allocator).misses), (1, 1));
    }

    #[test]
    fn memory_is_not_used_again_while_something_refers_to_it() {
        let heap = Arc::<HeapAllocator>::default();
        let allocator = caching(&heap, |_| {});
        let buffer = allocate(&allocator, 100);
        let part = subspan(&buffer, 10, 20).expect("in range");
        drop(buffer);
        assert_eq!(statistics(&allocator).free_buffers, 0);
        let mapping = part.map_range(MappingMode::PERSISTENT, MemoryAccess::READ, 0, WHOLE_BUFFER).expect("is mapped");
        drop(part);
        assert_eq!(statistics(&allocator).free_buffers, 0);
        drop(mapping);
        assert_eq!(statistics(&allocator).free_buffers, 1);
        // Memory that outlives the allocator is freed.
        let last = allocate(&allocator, 100);
        drop(allocator);
        assert_eq!(live(&heap), 100);
        drop(last);
        assert_eq!(live(&heap), 0);
    }

    #[test]
    fn bounds_are_kept_and_the_oldest_goes_first() {
        let heap = Arc::<HeapAllocator>::default();
        let allocator = caching(&heap, |pool| {
            (pool.max_allocation_size, pool.max_capacity, pool.max_free_buffers) = (500, 1000, 3);
        });
        drop(allocate(&allocator, 501));
        assert_eq!((statistics(&allocator), live(&heap)), (CacheStatistics::default(), 0));
        let held = [100, 200, 300, 400].map(|size| allocate(&allocator, size));
        assert_eq!(statistics(&allocator).bytes, 1000);
        drop(held);
        let state = statistics(&allocator);
        assert_eq!((state.free_buffers, state.bytes, live(&heap)), (3, 900, 900));
        // A new buffer takes the room of the oldest free ones.
        let more = allocate(&allocator, 350);
        let state = statistics(&allocator);
        assert_eq!((state.bytes, state.free_bytes, live(&heap)), (750, 400, 750));
        drop(more);
        // Memory in use may exceed the capacity; then nothing is kept until there is room.
        let held = [500, 500, 500].map(|size| allocate(&allocator, size));
        assert_eq!((statistics(&allocator).bytes, statistics(&allocator).free_bytes), (1500, 0));
        let [first, second, third] = held;
        drop(first);
        assert_eq!((statistics(&allocator).bytes, statistics(&allocator).free_bytes), (1000, 0));
        drop((second, third));
        assert_eq!((statistics(&allocator).bytes, statistics(&allocator).free_bytes), (1000, 1000));
        allocator.trim().expect("has nothing to say");
        assert_eq!((statistics(&allocator).bytes, live(&heap)), (0, 0));
    }

    #[test]
    fn free_memory_makes_room_under_a_limit_of_the_device() {
        let heap = Arc::new(HeapAllocator::with_limit(100));
        let allocator = caching(&heap, |_| {});
        drop(allocate(&allocator, 60));
        let large = allocate(&allocator, 80);
        assert_eq!((statistics(&allocator).bytes, live(&heap)), (80, 80));
        let error = allocator.allocate_buffer(BufferParams::default(), 30).expect_err("there is no room");
        assert_eq!((error.code(), statistics(&allocator).bytes), (StatusCode::ResourceExhausted, 80));
        assert!(allocator.allocate_buffer(BufferParams::default(), u64::MAX).is_err());
        drop(large);
        assert_eq!(statistics(&allocator).bytes, 80);
    }

    #[test]
    fn threads_share_a_pool() {
        let heap = Arc::<HeapAllocator>::default();
        let allocator = caching(&heap, |pool| pool.max_free_buffers = 2);
        std::thread::scope(|scope| {
            for size in 1..4 {
                let allocator = &allocator;
                scope.spawn(move || {
                    for _ in 0..200 {
                        let buffer = allocate(allocator, 64 * size);
                        assert_eq!(buffer_to_vec(&*buffer, 64 * size).expect("is mapped"), vec![0; 64 * size as usize]);
                        buffer_write(&*buffer, 0, &vec![1; 64 * size as usize]).expect("may be written");
                    }
                });
            }
        });
        let state = statistics(&allocator);
        assert_eq!((state.hits + state.misses, state.bytes, state.bytes), (600, state.free_bytes, live(&heap)));
        assert!(state.free_buffers <= 2, "{state:?}");
    }
}
