//! The transient buffer: an object that exists at once, with memory only between its allocation and its deallocation on
//! a queue.
//!
//! Programs make several at each call, so both the objects and their memory are recycled. Objects go to a free list by
//! the size class of their resident memory: up to 64 KiB of memory stays with its object. A class has memory of all
//! sizes between two powers of two, and a buffer takes only memory that is little larger than itself, since a host may
//! keep it as long as it likes. More memory goes back to the [`BlockCache`] of the allocator when the buffer is
//! deallocated or dropped. Neither is used again while there is a reference or a mapping. The memory of a new transient
//! buffer has the contents of an earlier one, unless the device zeroes it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::accounting::Accounted;
use crate::allocation_state::{AllocationState, state_methods};
use crate::allocator::HEAP_BUFFER_ALIGNMENT;
use crate::block_cache::{Block, BlockCache};
use crate::recycle::{Unshared, free_list};
use crate::status::{Result, Status};
use crate::transfer::{check_range, unwatched};
use crate::{
    AllocaFlags, Buffer, BufferParams, HeapAllocator, HeapBuffer, Mapping, MappingMode, MemoryAccess, MemoryType,
    QueueAffinity, WHOLE_BUFFER,
};

/// Heap memory of up to this size, if it is allocated with the buffer, stays as long as the buffer itself. So a holder
/// of the buffer can use the memory without a reference of its own, which would cost two atomic operations for each
/// binding of each dispatch. Programs drop buffers soon after they deallocate them, so this hardly takes more memory.
const MAX_RESIDENT_SIZE: u64 = MIN_CLASS_SIZE << (SIZE_CLASSES - 1);

/// Size classes of resident memory end at this times powers of two, and sizes are multiples of this.
const MIN_CLASS_SIZE: u64 = 64;

/// By which part of its size the memory of a buffer may be larger than it has to be.
const MAX_WASTE: u64 = 16;

/// Number of size classes.
const SIZE_CLASSES: usize = 11;

/// Most free buffers of one size class for each thread.
const MAX_FREE: usize = 32;

/// Most bytes of free buffers of one size class for each thread.
const MAX_FREE_BYTES: u64 = 256 << 10;

/// The capacity of the free list for each size class, and for buffers without resident memory.
const CAPACITIES: [usize; SIZE_CLASSES + 1] = {
    let mut capacities = [MAX_FREE; SIZE_CLASSES + 1];
    let mut kind = 0;
    while kind < SIZE_CLASSES {
        let by_bytes = (MAX_FREE_BYTES / (MIN_CLASS_SIZE << kind)) as usize;
        if by_bytes < MAX_FREE {
            capacities[kind] = by_bytes;
        }
        kind += 1;
    }
    capacities
};

free_list! {
    /// Free buffers by the size class of their resident memory; the last kind has none.
    static FREE_BUFFERS: [Unshared<TransientBuffer>; SIZE_CLASSES + 1], CAPACITIES
}

/// A transient buffer. It has cache lines of its own, as it is written to at each call.
#[repr(align(64))]
pub struct TransientBuffer {
    state: AllocationState,
    /// Memory that stays with the buffer.
    resident: Option<ResidentMemory>,
    /// Whether the buffer was deallocated.
    deallocated: AtomicBool,
    /// Whether its memory stays as long as the buffer, whatever deallocates it.
    kept: AtomicBool,
    /// The queue that reserved it, as a [`QueueAffinity`].
    origin: AtomicU64,
    /// Memory that is released when the buffer is deallocated.
    memory: RwLock<Memory>,
}

/// Memory that stays as long as the buffer, also in the free list.
struct ResidentMemory {
    buffer: HeapBuffer,
    /// Bytes of it.
    size: u64,
    accounted: Accounted,
}

/// The size class of memory of so many bytes.
fn class_of(size: u64) -> usize {
    size.div_ceil(MIN_CLASS_SIZE).next_power_of_two().trailing_zeros() as usize
}

/// Memory for a transient buffer.
pub enum Memory {
    /// None: not committed yet, or decommitted.
    None,
    /// Memory of the host's heap, without a buffer object of its own.
    Heap(HeapBuffer),
    /// The same in a block, which goes back to the block cache.
    Block(BlockMemory),
    /// A range of a pool, which is released when the reservation is dropped. A mapping keeps the memory of the pool,
    /// not the reservation.
    Reserved(HeapBuffer, Box<dyn Send + Sync>),
    /// Memory of another allocator.
    Other(Arc<dyn Buffer>),
}

impl Memory {
    /// Fills unused memory with zeros.
    ///
    /// # Errors
    /// Those of mapping memory that the host does not reach.
    pub fn zero(&self) -> Result<()> {
        match self {
            // SAFETY: the range was reserved for this, and its pool gives out memory to write to.
            Memory::Reserved(buffer, _) => unsafe { buffer.zero() },
            Memory::Other(buffer) => {
                unwatched::buffer_fill(&**buffer, 0, WHOLE_BUFFER, &[0])
                    .map_err(|status| status.context("zeroing the memory of a transient buffer"))?;
            }
            // The heap allocator returns zeroed memory where that is asked for.
            Memory::None | Memory::Heap(_) | Memory::Block(_) => {}
        }
        Ok(())
    }
}

/// A block in use by one buffer.
pub struct BlockMemory {
    /// None only while this is dropped.
    buffer: Option<HeapBuffer>,
    cache: Arc<BlockCache>,
    _accounted: Accounted,
}

impl BlockMemory {
    /// A block of `heap`, for `length` bytes, which are zero if `zeroed`. `params` are resolved.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if there is no memory, or the limits of the call allow no more.
    pub fn new(
        heap: &HeapAllocator,
        cache: &Arc<BlockCache>,
        params: BufferParams,
        length: u64,
        zeroed: bool,
    ) -> Result<BlockMemory> {
        let alignment = params.min_alignment;
        let block = if zeroed { cache.acquire_zeroed(length, alignment) } else { cache.acquire(length, alignment) }?;
        let accounted = heap.account_recycled(length, params.memory_type.contains(MemoryType::HOST_LOCAL));
        let buffer = Some(buffer_of(block, params, length));
        Ok(BlockMemory { buffer, cache: cache.clone(), _accounted: accounted })
    }
}

impl Drop for BlockMemory {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.cache.release(buffer.into_owner());
        }
    }
}

/// A buffer over a block of at least `length` bytes.
fn buffer_of(block: Arc<Block>, params: BufferParams, length: u64) -> HeapBuffer {
    let data = block.bytes().data();
    let BufferParams { memory_type, access, usage, .. } = params;
    // SAFETY: the block keeps that many bytes there, which are reached only through raw pointers.
    unsafe { HeapBuffer::wrap(block, data, length, memory_type, access, usage) }
}

fn state_of(params: BufferParams, length: u64) -> AllocationState {
    AllocationState::new(length, params.memory_type, params.access, params.usage)
}

impl TransientBuffer {
    /// A buffer with this memory, which may be none yet. `params` are resolved.
    pub fn new(params: BufferParams, length: u64, memory: Memory) -> Arc<TransientBuffer> {
        if let Some(mut buffer) = FREE_BUFFERS.pop(SIZE_CLASSES) {
            buffer.reset(params, length);
            *buffer.memory.get_mut().unwrap_or_else(PoisonError::into_inner) = memory;
            return buffer.into_shared();
        }
        Arc::new(TransientBuffer::of(params, length, None, memory))
    }

    /// A buffer with memory of `heap`, which is zero if `zeroed`. `params` are resolved.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if there is no memory or a limit is reached.
    pub fn of_heap(
        heap: &HeapAllocator,
        params: BufferParams,
        length: u64,
        zeroed: bool,
    ) -> Result<Arc<TransientBuffer>> {
        let Some(blocks) = heap.blocks() else {
            let memory = Memory::Heap(heap.allocate(params, length)?);
            return Ok(TransientBuffer::new(params, length, memory));
        };
        if length > MAX_RESIDENT_SIZE || params.min_alignment > HEAP_BUFFER_ALIGNMENT {
            let memory = Memory::Block(BlockMemory::new(heap, blocks, params, length, zeroed)?);
            return Ok(TransientBuffer::new(params, length, memory));
        }
        let host_local = params.memory_type.contains(MemoryType::HOST_LOCAL);
        let size = length.max(1).next_multiple_of(MIN_CLASS_SIZE);
        let fits = size..=size + size / MAX_WASTE;
        let has_fitting = |buffer: &Unshared<TransientBuffer>| {
            buffer.resident.as_ref().is_some_and(|resident| fits.contains(&resident.size))
        };
        if let Some(mut buffer) = FREE_BUFFERS.pop_where(class_of(size), has_fitting)
            && let Some(resident) = &mut buffer.resident
        {
            let BufferParams { memory_type, access, usage, .. } = params;
            // SAFETY: the memory has `resident.size` bytes, of which `has_fitting` says that they are at least
            // `length`.
            unsafe { resident.buffer.reset(length, memory_type, access, usage) };
            if zeroed {
                // SAFETY: the memory is the heap's, and there are no other references to a free buffer.
                unsafe { resident.buffer.zero() };
            }
            heap.recount(&mut resident.accounted, length, host_local);
            buffer.reset(params, length);
            return Ok(buffer.into_shared());
        }
        let block = Arc::new(Block::new(size, HEAP_BUFFER_ALIGNMENT)?);
        let resident = ResidentMemory {
            buffer: buffer_of(block, params, length),
            size,
            accounted: heap.account_recycled(length, host_local),
        };
        Ok(Arc::new(TransientBuffer::of(params, length, Some(resident), Memory::None)))
    }

    fn of(params: BufferParams, length: u64, resident: Option<ResidentMemory>, memory: Memory) -> TransientBuffer {
        let (state, deallocated) = (state_of(params, length), AtomicBool::new(false));
        let (kept, origin) = (AtomicBool::new(false), AtomicU64::new(QueueAffinity::ANY.bits()));
        TransientBuffer { state, resident, deallocated, kept, origin, memory: RwLock::new(memory) }
    }

    /// Resets the state for a new use.
    fn reset(&mut self, params: BufferParams, length: u64) {
        self.state = state_of(params, length);
        *self.deallocated.get_mut() = false;
        *self.kept.get_mut() = false;
        *self.origin.get_mut() = QueueAffinity::ANY.bits();
    }

    /// Notes which queue reserves a buffer, and how long its memory stays. Devices say so before they hand out the
    /// buffer.
    pub fn reserved_by(&self, queue_affinity: QueueAffinity, flags: AllocaFlags) {
        self.origin.store(queue_affinity.bits(), Ordering::Relaxed);
        self.kept.store(flags.contains(AllocaFlags::INDETERMINATE_LIFETIME), Ordering::Relaxed);
    }

    /// The queue that reserved the buffer.
    pub fn origin(&self) -> QueueAffinity {
        QueueAffinity::from_bits_retain(self.origin.load(Ordering::Relaxed))
    }

    /// Frees the free buffers of the calling thread and of workers.
    pub fn trim() {
        FREE_BUFFERS.trim();
    }

    /// Commits memory, unless the buffer was deallocated already.
    pub fn commit(&self, committed: Memory) {
        let mut memory = self.memory.write().unwrap_or_else(PoisonError::into_inner);
        // `decommit` sets the flag before it removes the memory under the lock, so no memory stays in a deallocated
        // buffer.
        if !self.deallocated.load(Ordering::Acquire) {
            *memory = committed;
        }
    }

    /// Decommits its memory, which mappings keep alive until they end. Memory of an indeterminate lifetime stays until
    /// the buffer is dropped.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` if it was deallocated before.
    pub fn decommit(&self) -> Result<()> {
        if self.kept.load(Ordering::Relaxed) {
            return Ok(());
        }
        if self.deallocated.swap(true, Ordering::AcqRel) {
            return Err(Status::failed_precondition("the transient buffer was deallocated already"));
        }
        if self.resident.is_none() {
            // The memory is freed after the lock is released.
            let _memory = {
                let mut memory = self.memory.write().unwrap_or_else(PoisonError::into_inner);
                std::mem::replace(&mut *memory, Memory::None)
            };
        }
        Ok(())
    }

    /// The resident memory; none if there is none or the buffer was deallocated.
    pub fn resident(&self) -> Option<&HeapBuffer> {
        let resident = self.resident.as_ref().filter(|_| !self.deallocated.load(Ordering::Acquire))?;
        Some(&resident.buffer)
    }

    /// The buffer that it has as its memory now. Drivers whose kernels cannot reach the host's heap use it.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if there is none: it is not allocated yet, was deallocated, or its memory is the heap's.
    pub fn committed(&self) -> Result<Arc<dyn Buffer>> {
        match &*self.memory.read().unwrap_or_else(PoisonError::into_inner) {
            Memory::Other(buffer) => Ok(buffer.clone()),
            Memory::Heap(_) | Memory::Block(_) | Memory::Reserved(..) => {
                Err(Status::failed_precondition("the memory of the transient buffer is the host's"))
            }
            Memory::None => Err(self.unusable()),
        }
    }

    /// Its memory, if that is the heap's and the buffer's alone.
    pub fn exclusive_memory(&mut self) -> Option<&mut HeapBuffer> {
        if *self.deallocated.get_mut() {
            return None;
        }
        if let Some(resident) = &mut self.resident {
            return Some(&mut resident.buffer);
        }
        match self.memory.get_mut().unwrap_or_else(PoisonError::into_inner) {
            Memory::Heap(buffer) | Memory::Block(BlockMemory { buffer: Some(buffer), .. }) => Some(buffer),
            // A pool has references to its memory.
            Memory::None | Memory::Block(_) | Memory::Reserved(..) | Memory::Other(_) => None,
        }
    }

    #[cold]
    fn unusable(&self) -> Status {
        if self.deallocated.load(Ordering::Acquire) {
            Status::failed_precondition("the transient buffer was deallocated")
        } else {
            Status::failed_precondition("the transient buffer has no memory yet: wait for its allocation")
        }
    }
}

impl fmt::Debug for TransientBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transient buffer({} bytes)", self.state.length)
    }
}

impl TransientBuffer {
    /// Does something with memory of an allocator that the driver does not know, which may have caches of its own.
    /// Memory of the heap has none.
    fn with_other(&self, run: impl FnOnce(&dyn Buffer) -> Result<()>) -> Result<()> {
        if self.resident().is_some() {
            return Ok(());
        }
        match &*self.memory.read().unwrap_or_else(PoisonError::into_inner) {
            Memory::Other(buffer) => run(&**buffer),
            Memory::Heap(_) | Memory::Block(_) | Memory::Reserved(..) | Memory::None => Ok(()),
        }
    }
}

impl Buffer for TransientBuffer {
    state_methods!();

    fn allocation_size(&self) -> u64 {
        self.state.length
    }

    fn invalidate_range(&self, offset: u64, length: u64) -> Result<()> {
        let length = check_range(self.state.length, offset, length)?;
        self.with_other(|buffer| buffer.invalidate_range(offset, length))
    }

    fn flush_range(&self, offset: u64, length: u64) -> Result<()> {
        let length = check_range(self.state.length, offset, length)?;
        self.with_other(|buffer| buffer.flush_range(offset, length))
    }

    fn map_range(&self, mode: MappingMode, access: MemoryAccess, offset: u64, length: u64) -> Result<Mapping> {
        if let Some(heap) = self.resident() {
            let mapping = heap.map_range(mode, access, offset, length)?;
            return Ok(self.state.watched(mode, access, offset, mapping));
        }
        // The memory may be larger than the buffer.
        let length = check_range(self.state.length, offset, length)?;
        // The lock is held while the memory is mapped, which is cheaper than a reference to it; mapping waits for
        // nothing.
        let mapping = match &*self.memory.read().unwrap_or_else(PoisonError::into_inner) {
            Memory::Heap(buffer)
            | Memory::Block(BlockMemory { buffer: Some(buffer), .. })
            | Memory::Reserved(buffer, _) => buffer.map_range(mode, access, offset, length),
            Memory::Other(buffer) => buffer.map_range(mode, access, offset, length),
            Memory::None | Memory::Block(_) => Err(self.unusable()),
        }?;
        Ok(self.state.watched(mode, access, offset, mapping))
    }

    fn recycle(self: Arc<Self>) {
        let Some(mut buffer) = Unshared::new(self) else { return };
        // A free buffer keeps no watcher.
        buffer.state.watch.clear();
        *buffer.memory.get_mut().unwrap_or_else(PoisonError::into_inner) = Memory::None;
        if let Some(resident) = &mut buffer.resident {
            resident.accounted.release();
            // There may still be mappings of it.
            if Arc::get_mut(resident.buffer.owner_mut()).is_none() {
                buffer.resident = None;
            }
        }
        let kind = buffer.resident.as_ref().map_or(SIZE_CLASSES, |resident| class_of(resident.size));
        FREE_BUFFERS.push(kind, buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::Ref;
    use crate::{Allocator, Handle, WHOLE_BUFFER};

    fn map(buffer: &TransientBuffer) -> Result<Mapping> {
        buffer.map_range(MappingMode::SCOPED, MemoryAccess::READ, 0, WHOLE_BUFFER)
    }

    fn allocate(allocator: &HeapAllocator, size: u64) -> Arc<TransientBuffer> {
        let params = allocator.resolve(BufferParams::default()).expect("the default is fine");
        TransientBuffer::of_heap(allocator, params, size, false).expect("allocates")
    }

    /// As programs do.
    fn release(buffer: Arc<TransientBuffer>) {
        let buffer: Arc<dyn Buffer> = buffer;
        drop(Ref::new(Handle(buffer)));
    }

    #[test]
    fn memory_exists_from_allocation_to_deallocation() {
        for allocator in [HeapAllocator::new(), HeapAllocator::with_limit(1 << 20)] {
            let params = BufferParams::default();
            for size in [4, MAX_RESIDENT_SIZE, MAX_RESIDENT_SIZE + 1] {
                let late = TransientBuffer::new(params, size, Memory::None);
                assert!(map(&late).expect_err("no memory yet").message().contains("no memory yet"));
                late.commit(Memory::Heap(allocator.allocate(params, size).expect("allocates")));
                for buffer in [late, allocate(&allocator, size)] {
                    let mapping = map(&buffer).expect("has memory");
                    assert_eq!(mapping.length, size);
                    buffer.decommit().expect("for the first time");
                    assert!(map(&buffer).expect_err("no memory any more").message().contains("was deallocated"));
                    assert!(buffer.decommit().expect_err("a second time").message().contains("already"));
                    assert!(buffer.resident().is_none());
                    release(buffer);
                    // No other buffer gets the memory as long as it is mapped.
                    let others = [allocate(&allocator, size), allocate(&allocator, size)];
                    assert!(others.iter().all(|other| map(other).expect("has memory").data != mapping.data));
                    // SAFETY: the mapping keeps the bytes it points to.
                    unsafe { mapping.data.as_ptr().read() };
                    others.into_iter().for_each(release);
                }
            }
            let statistics = allocator.statistics();
            assert_eq!(statistics.device_bytes_allocated, statistics.device_bytes_freed);
        }
    }

    #[test]
    fn memory_that_comes_too_late_is_freed_at_once() {
        let allocator = HeapAllocator::new();
        let params = BufferParams::default();
        let buffer = TransientBuffer::new(params, 4096, Memory::None);
        buffer.decommit().expect("for the first time");
        buffer.commit(Memory::Heap(allocator.allocate(params, 4096).expect("allocates")));
        assert_eq!(allocator.statistics().device_bytes_freed, 4096);
        assert!(map(&buffer).is_err());
    }

    #[test]
    fn recycled_buffers_are_reset() {
        TransientBuffer::trim();
        let allocator = HeapAllocator::new();
        let first = allocate(&allocator, 100);
        let address = map(&first).expect("has memory").data;
        first.preserve();
        first.decommit().expect("for the first time");
        release(first);
        // Another length, another allocator: the same object.
        let other = HeapAllocator::new();
        let second = allocate(&other, 65);
        let mapping = map(&second).expect("not deallocated");
        assert_eq!((mapping.data, mapping.length), (address, 65));
        assert!(second.is_terminal());
        drop(mapping);
        assert_eq!((allocator.statistics().device_bytes_freed, other.statistics().device_bytes_allocated), (100, 65));
        assert!(second.map_range(MappingMode::SCOPED, MemoryAccess::READ, 0, 66).is_err(), "beyond its end");
        // Dropping a reference without recycling frees it.
        drop(second);
        assert_eq!(other.statistics().device_bytes_freed, 65);
        assert_eq!(FREE_BUFFERS.local_len(), 0);
    }

    /// Sizes of all residues: memory of another buffer serves only if it is hardly larger, and a full list makes room
    /// for new sizes.
    #[test]
    fn memory_is_little_larger_than_its_buffer() {
        TransientBuffer::trim();
        let allocator = HeapAllocator::new();
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut held = Vec::new();
        for round in 0..3000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // Log-uniform up to the largest resident size.
            let bits = random % 17;
            let length = ((1 << bits) + (random >> 40) % (1 << bits)).min(MAX_RESIDENT_SIZE);
            let buffer = allocate(&allocator, length);
            let size = buffer.resident.as_ref().expect("it is small").size;
            let least = length.next_multiple_of(MIN_CLASS_SIZE);
            assert!((least..=least + least / MAX_WASTE).contains(&size), "{size} bytes for {length}, round {round}");
            held.push(buffer);
            if held.len() == 64 {
                held.drain(..).for_each(release);
            }
        }
        // The same size again and again takes the same memory, however many other sizes there were.
        let address = |buffer: &TransientBuffer| map(buffer).expect("has memory").data;
        let first = allocate(&allocator, 40_000);
        let place = address(&first);
        release(first);
        let second = allocate(&allocator, 40_000);
        assert_eq!(address(&second), place);
        drop(second);
        held.clear();
        TransientBuffer::trim();
    }

    #[test]
    fn memory_of_an_indeterminate_lifetime_stays() {
        let allocator = HeapAllocator::new();
        for size in [100, 1 << 20] {
            let buffer = allocate(&allocator, size);
            buffer.reserved_by(QueueAffinity::from_bits_retain(4), AllocaFlags::INDETERMINATE_LIFETIME);
            buffer.decommit().expect("is ignored");
            buffer.decommit().expect("is ignored again");
            assert_eq!((map(&buffer).expect("stays").length, buffer.origin().bits()), (size, 4));
            release(buffer);
            let next = allocate(&allocator, size);
            next.decommit().expect("for the first time");
            assert!(map(&next).is_err() && next.origin() == QueueAffinity::ANY);
        }
    }

    #[test]
    fn large_memory_goes_back_when_it_is_deallocated() {
        let allocator = HeapAllocator::new();
        let buffer = allocate(&allocator, 1 << 20);
        buffer.decommit().expect("for the first time");
        let blocks = allocator.blocks().expect("there is no limit");
        assert_eq!((blocks.stats().cached_bytes >= 1 << 20, blocks.stats().in_use), (true, 0));
        let again = allocate(&allocator, 1 << 20);
        assert_eq!(blocks.stats().hits, 1);
        drop((buffer, again));
        assert_eq!(blocks.stats().cached, 1);
        allocator.trim().expect("has nothing to say");
        assert_eq!(blocks.stats().cached_bytes, 0);
    }
}
