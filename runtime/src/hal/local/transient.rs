//! Buffers of queue allocations: there at once, with memory only between their allocation and their deallocation.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::hal::buffer::discard;
use crate::hal::transfer::check_range;
use crate::hal::{Buffer, BufferParams, BufferUsage, HeapBuffer, Mapping, MappingMode, MemoryAccess, MemoryType};
use crate::status::{Result, Status};

/// Up to this size, memory of the heap that is there from the start stays until the buffer itself is gone. Then whoever holds the
/// buffer can use the memory without counting himself among those who keep it.
const MAX_LASTING_SIZE: u64 = 1024;

/// A transient buffer.
pub(super) struct TransientBuffer {
    params: BufferParams,
    length: u64,
    holders: AtomicU32,
    /// A little memory that is there from the start.
    lasting: Option<HeapBuffer>,
    /// Whether the buffer was deallocated.
    returned: AtomicBool,
    /// Memory that is given back when the buffer is deallocated.
    memory: RwLock<Memory>,
}

/// Memory for a transient buffer.
pub(super) enum Memory {
    /// None (yet, or any more).
    None,
    /// Memory of the host's heap, without an object of its own.
    Heap(HeapBuffer),
    /// Memory of another allocator.
    Other(Arc<dyn Buffer>),
}

impl TransientBuffer {
    /// A buffer with this memory, or without yet. `params` are what the allocator makes of the request.
    pub(super) fn new(params: BufferParams, length: u64, memory: Memory) -> TransientBuffer {
        let (lasting, memory) = match memory {
            Memory::Heap(heap) if length <= MAX_LASTING_SIZE => (Some(heap), Memory::None),
            memory => (None, memory),
        };
        let (holders, returned) = (AtomicU32::new(1), AtomicBool::new(false));
        TransientBuffer { params, length, holders, lasting, returned, memory: RwLock::new(memory) }
    }

    /// Gives it memory, unless it was deallocated already.
    pub(super) fn commit(&self, committed: Memory) {
        let mut memory = self.memory.write().unwrap_or_else(PoisonError::into_inner);
        // The flag is set before the memory is taken away under the lock, so none is left behind.
        if !self.returned.load(Ordering::Acquire) {
            *memory = committed;
        }
    }

    /// Takes its memory away. Mappings in use keep it alive until they end.
    pub(super) fn decommit(&self) -> Result<()> {
        if self.returned.swap(true, Ordering::AcqRel) {
            return Err(Status::failed_precondition("the transient buffer was deallocated already"));
        }
        if self.lasting.is_none() {
            // The memory is freed after the lock is released.
            let _memory = {
                let mut memory = self.memory.write().unwrap_or_else(PoisonError::into_inner);
                std::mem::replace(&mut *memory, Memory::None)
            };
        }
        Ok(())
    }

    /// The memory, if it stays as long as the buffer does; none if it does not, or cannot be used now.
    pub(super) fn lasting(&self) -> Option<&HeapBuffer> {
        self.lasting.as_ref().filter(|_| !self.returned.load(Ordering::Acquire))
    }

    #[cold]
    fn unusable(&self) -> Status {
        if self.returned.load(Ordering::Acquire) {
            Status::failed_precondition("the transient buffer was deallocated")
        } else {
            Status::failed_precondition("the transient buffer has no memory yet: wait for its allocation")
        }
    }
}

impl fmt::Debug for TransientBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transient buffer({} bytes)", self.length)
    }
}

impl Buffer for TransientBuffer {
    fn allocation(&self) -> Option<Arc<dyn Buffer>> {
        None
    }

    fn allocation_size(&self) -> u64 {
        self.length
    }

    fn byte_offset(&self) -> u64 {
        0
    }

    fn byte_length(&self) -> u64 {
        self.length
    }

    fn memory_type(&self) -> MemoryType {
        self.params.memory_type
    }

    fn allowed_access(&self) -> MemoryAccess {
        self.params.access
    }

    fn allowed_usage(&self) -> BufferUsage {
        self.params.usage
    }

    fn preserve(&self) {
        self.holders.fetch_add(1, Ordering::Relaxed);
    }

    fn discard(&self) -> bool {
        discard(&self.holders)
    }

    fn is_terminal(&self) -> bool {
        self.holders.load(Ordering::Acquire) == 1
    }

    fn map_range(&self, mode: MappingMode, access: MemoryAccess, offset: u64, length: u64) -> Result<Mapping> {
        if let Some(heap) = self.lasting() {
            return heap.map_range(mode, access, offset, length);
        }
        // The lock is held meanwhile, which is cheaper than a share in the memory; mapping it waits for nothing.
        match &*self.memory.read().unwrap_or_else(PoisonError::into_inner) {
            Memory::Heap(buffer) => buffer.map_range(mode, access, offset, length),
            Memory::Other(buffer) => buffer.map_range(mode, access, offset, length),
            Memory::None => Err(self.unusable()),
        }
    }

    fn invalidate_range(&self, offset: u64, length: u64) -> Result<()> {
        check_range(self.length, offset, length).map(drop)
    }

    fn flush_range(&self, offset: u64, length: u64) -> Result<()> {
        check_range(self.length, offset, length).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::{Allocator, HeapAllocator, WHOLE_BUFFER};

    fn map(buffer: &TransientBuffer) -> Result<Mapping> {
        buffer.map_range(MappingMode::SCOPED, MemoryAccess::READ, 0, WHOLE_BUFFER)
    }

    #[test]
    fn memory_is_there_from_its_allocation_to_its_deallocation() {
        let allocator = HeapAllocator::new();
        let params = BufferParams::default();
        for size in [4, MAX_LASTING_SIZE, MAX_LASTING_SIZE + 1] {
            let memory = || Memory::Heap(allocator.allocate(params, size).expect("allocates"));
            let late = TransientBuffer::new(params, size, Memory::None);
            assert!(map(&late).expect_err("no memory yet").message().contains("no memory yet"));
            late.commit(memory());
            for buffer in [late, TransientBuffer::new(params, size, memory())] {
                let mapping = map(&buffer).expect("has memory");
                assert_eq!(mapping.length, size);
                buffer.decommit().expect("for the first time");
                assert!(map(&buffer).expect_err("no memory any more").message().contains("was deallocated"));
                assert!(buffer.decommit().expect_err("a second time").message().contains("already"));
                assert!(buffer.lasting().is_none());
                drop(buffer);
                // SAFETY: the mapping keeps the bytes it points to.
                assert_eq!(unsafe { mapping.data.as_ptr().read() }, 0);
            }
        }
        let statistics = allocator.statistics();
        assert_eq!(statistics.device_bytes_allocated, statistics.device_bytes_freed);
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
}
