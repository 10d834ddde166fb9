//! Where a device gets its memory. A host may replace the allocator, as long as the device itself has allocated nothing.

use std::any::Any;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::transient::{BlockMemory, Memory, TransientBuffer};
use crate::hal::{Allocator, BufferParams, HeapAllocator};
use crate::status::{Result, Status};

/// The allocator of a device.
#[derive(Debug)]
pub(super) struct DeviceMemory {
    allocator: Mutex<Arc<dyn Allocator>>,
    /// Set with the first transient buffer. Then the allocator stays, and reading it takes no lock.
    used: OnceLock<MemorySource>,
}

impl DeviceMemory {
    pub(super) fn new(allocator: Arc<dyn Allocator>) -> DeviceMemory {
        DeviceMemory { allocator: Mutex::new(allocator), used: OnceLock::new() }
    }

    /// The allocator.
    pub(super) fn allocator(&self) -> Arc<dyn Allocator> {
        match self.used.get() {
            Some(source) => source.allocator(),
            None => self.allocator.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Where transient buffers get their memory, from here on always.
    pub(super) fn source(&self) -> &MemorySource {
        if let Some(source) = self.used.get() {
            return source;
        }
        // The lock is held until the source is set, so no allocator is replaced by one that nobody uses.
        let allocator = self.allocator.lock().unwrap_or_else(PoisonError::into_inner);
        self.used.get_or_init(|| MemorySource::new(&allocator))
    }

    /// Makes `allocator` the one that is used.
    pub(super) fn replace(&self, allocator: &Arc<dyn Allocator>) -> Result<()> {
        let mut current = self.allocator.lock().unwrap_or_else(PoisonError::into_inner);
        if self.used.get().is_some() {
            return Err(Status::failed_precondition(
                "the allocator of a device cannot be replaced after the device has allocated",
            ));
        }
        *current = allocator.clone();
        Ok(())
    }
}

/// What transient buffers are made from.
#[derive(Clone, Debug)]
pub(super) enum MemorySource {
    /// The host's heap, whose buffers need no object of their own.
    Heap(Arc<HeapAllocator>),
    /// Any other allocator.
    Other(Arc<dyn Allocator>),
}

impl MemorySource {
    fn new(allocator: &Arc<dyn Allocator>) -> MemorySource {
        let any: Arc<dyn Any + Send + Sync> = allocator.clone();
        match any.downcast() {
            Ok(heap) => MemorySource::Heap(heap),
            Err(_) => MemorySource::Other(allocator.clone()),
        }
    }

    fn allocator(&self) -> Arc<dyn Allocator> {
        match self {
            MemorySource::Heap(heap) => heap.clone(),
            MemorySource::Other(other) => other.clone(),
        }
    }

    /// What buffers with these parameters can be.
    fn resolve(&self, params: BufferParams, allocation_size: u64) -> Result<BufferParams> {
        match self {
            MemorySource::Heap(heap) => heap.resolve(params),
            MemorySource::Other(other) => Ok(other.buffer_compatibility(params, allocation_size).params),
        }
    }

    /// A transient buffer with its memory.
    pub(super) fn transient(&self, params: BufferParams, allocation_size: u64) -> Result<Arc<TransientBuffer>> {
        let params = self.resolve(params, allocation_size)?;
        match self {
            MemorySource::Heap(heap) => TransientBuffer::of_heap(heap, params, allocation_size),
            MemorySource::Other(_) => {
                Ok(TransientBuffer::new(params, allocation_size, self.allocate(params, allocation_size)?))
            }
        }
    }

    /// A transient buffer that gets its memory later, or never if there is no such memory.
    pub(super) fn reserve(&self, params: BufferParams, allocation_size: u64) -> Arc<TransientBuffer> {
        let params = self.resolve(params, allocation_size).unwrap_or(params);
        TransientBuffer::new(params, allocation_size, Memory::None)
    }

    /// Memory for a transient buffer.
    pub(super) fn allocate(&self, params: BufferParams, allocation_size: u64) -> Result<Memory> {
        Ok(match self {
            MemorySource::Heap(heap) => match heap.blocks() {
                Some(blocks) => Memory::Block(BlockMemory::new(heap, blocks, heap.resolve(params)?, allocation_size)?),
                None => Memory::Heap(heap.allocate(params, allocation_size)?),
            },
            MemorySource::Other(other) => Memory::Other(other.allocate_buffer(params, allocation_size)?),
        })
    }
}
