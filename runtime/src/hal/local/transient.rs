//! Buffers of queue allocations: there at once, with memory only between their allocation and their deallocation.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::hal::buffer::discard;
use crate::hal::transfer::check_range;
use crate::hal::{Buffer, BufferParams, BufferUsage, HeapBuffer, Mapping, MappingMode, MemoryAccess, MemoryType};
use crate::status::{Result, Status};

/// A transient buffer.
pub(super) struct TransientBuffer {
    params: BufferParams,
    length: u64,
    holders: AtomicU32,
    memory: RwLock<Memory>,
}

/// What a transient buffer has.
pub(super) enum Memory {
    /// Nothing yet.
    Reserved,
    /// Memory of the host's heap, without an object of its own.
    Heap(HeapBuffer),
    /// Memory of another allocator.
    Other(Arc<dyn Buffer>),
    /// Nothing any more.
    Returned,
}

impl TransientBuffer {
    /// A buffer with this memory, or without yet. `params` are what the allocator makes of the request.
    pub(super) fn new(params: BufferParams, length: u64, memory: Memory) -> TransientBuffer {
        TransientBuffer { params, length, holders: AtomicU32::new(1), memory: RwLock::new(memory) }
    }

    /// Gives it memory.
    pub(super) fn commit(&self, committed: Memory) {
        let mut memory = self.memory.write().unwrap_or_else(PoisonError::into_inner);
        if matches!(*memory, Memory::Reserved) {
            *memory = committed;
        }
    }

    /// Takes its memory away. Mappings in use keep it alive until they end.
    pub(super) fn decommit(&self) -> Result<()> {
        // The memory is freed after the lock is released.
        let before = {
            let mut memory = self.memory.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *memory, Memory::Returned)
        };
        match before {
            Memory::Returned => Err(Status::failed_precondition("the transient buffer was deallocated already")),
            Memory::Reserved | Memory::Heap(_) | Memory::Other(_) => Ok(()),
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
        // The lock is held meanwhile, which is cheaper than a share in the memory; mapping it waits for nothing.
        match &*self.memory.read().unwrap_or_else(PoisonError::into_inner) {
            Memory::Heap(buffer) => buffer.map_range(mode, access, offset, length),
            Memory::Other(buffer) => buffer.map_range(mode, access, offset, length),
            Memory::Reserved => {
                Err(Status::failed_precondition("the transient buffer has no memory yet: wait for its allocation"))
            }
            Memory::Returned => Err(Status::failed_precondition("the transient buffer was deallocated")),
        }
    }

    fn invalidate_range(&self, offset: u64, length: u64) -> Result<()> {
        check_range(self.length, offset, length).map(drop)
    }

    fn flush_range(&self, offset: u64, length: u64) -> Result<()> {
        check_range(self.length, offset, length).map(drop)
    }
}
