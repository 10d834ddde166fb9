//! Where a device gets its memory. A host may replace the allocator, as long as the device itself has allocated nothing.

use std::any::Any;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::transient::{BlockMemory, Memory, TransientBuffer};
use crate::hal::allocator::HEAP_BUFFER_ALIGNMENT;
use crate::hal::pool::{HostSlabProvider, MemoryPool};
use crate::hal::{
    Allocator, BufferParams, BufferUsage, HeapAllocator, MemoryAccess, MemoryType, Pool, PoolAcquireResult,
    PoolCapabilities, PoolMaterializeFlags, PoolReserveFlags, SlabProvider,
};
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
        match self.used.get().and_then(MemorySource::allocator) {
            Some(allocator) => allocator,
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
    /// A pool that the host named.
    Pool(Arc<dyn Pool>),
}

impl MemorySource {
    fn new(allocator: &Arc<dyn Allocator>) -> MemorySource {
        let any: Arc<dyn Any + Send + Sync> = allocator.clone();
        match any.downcast() {
            Ok(heap) => MemorySource::Heap(heap),
            Err(_) => MemorySource::Other(allocator.clone()),
        }
    }

    /// What pools of the same memory can be made of.
    pub(super) fn slabs(&self) -> Result<Arc<dyn SlabProvider>> {
        match self {
            MemorySource::Heap(heap) if !heap.is_limited() => {
                Ok(Arc::new(heap.blocks().map(|blocks| HostSlabProvider::new(blocks.clone())).unwrap_or_default()))
            }
            _ => Err(Status::unimplemented(
                "`device.queue_pool_backend`: the allocator of the device gives out no slabs",
            )),
        }
    }

    fn allocator(&self) -> Option<Arc<dyn Allocator>> {
        Some(match self {
            MemorySource::Heap(heap) => heap.clone(),
            MemorySource::Other(other) => other.clone(),
            MemorySource::Pool(_) => return None,
        })
    }

    /// What buffers with these parameters can be.
    fn resolve(&self, params: BufferParams, allocation_size: u64) -> Result<BufferParams> {
        match self {
            MemorySource::Heap(heap) => heap.resolve(params),
            MemorySource::Other(other) => Ok(other.buffer_compatibility(params, allocation_size).params),
            MemorySource::Pool(pool) => of_pool(&**pool, params),
        }
    }

    /// A transient buffer with its memory.
    pub(super) fn transient(&self, params: BufferParams, allocation_size: u64) -> Result<Arc<TransientBuffer>> {
        let params = self.resolve(params, allocation_size)?;
        match self {
            MemorySource::Heap(heap) => TransientBuffer::of_heap(heap, params, allocation_size),
            MemorySource::Other(_) | MemorySource::Pool(_) => {
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
            MemorySource::Pool(pool) => take(&**pool, of_pool(&**pool, params)?, allocation_size)?,
        })
    }
}

/// The parameters of a buffer of a pool, or why it has no such memory.
fn of_pool(pool: &dyn Pool, mut params: BufferParams) -> Result<BufferParams> {
    let PoolCapabilities { memory_type, supported_usage, .. } = pool.capabilities();
    if params.usage.is_empty() {
        params.usage = BufferUsage::DEFAULT;
    }
    if params.access.is_empty() {
        params.access = MemoryAccess::ALL;
    }
    let wanted = params.memory_type - MemoryType::OPTIMAL;
    if !memory_type.contains(wanted) || !supported_usage.contains(params.usage) {
        let usage = params.usage;
        return Err(Status::invalid_argument(format!(
            "{pool:?} has {memory_type:?} memory for {supported_usage:?}, not {wanted:?} for {usage:?}"
        )));
    }
    params.memory_type = memory_type;
    // What is copied and mapped anyway, as the device's own memory is.
    params.usage |= supported_usage & (BufferUsage::MAPPING | BufferUsage::MAPPING_PERSISTENT | BufferUsage::TRANSFER);
    Ok(params)
}

/// Memory of a pool. `params` are resolved.
fn take(pool: &dyn Pool, params: BufferParams, allocation_size: u64) -> Result<Memory> {
    let alignment = params.min_alignment.max(HEAP_BUFFER_ALIGNMENT);
    // Operations of this device run when all before them have, so there are no points to tell the pool about, and none to wait for.
    let answer = pool.acquire_reservation(allocation_size.max(1), alignment, &[], PoolReserveFlags::empty())?;
    let reservation = answer.reservation;
    match answer.result {
        PoolAcquireResult::OK | PoolAcquireResult::OK_FRESH => {}
        PoolAcquireResult::EXHAUSTED | PoolAcquireResult::OVER_BUDGET => {
            let why = answer.result;
            let message = format!("{pool:?} cannot give {allocation_size} bytes now: {why:?}");
            return Err(Status::resource_exhausted(message));
        }
        other => {
            pool.release_reservation(reservation, &answer.wait_frontier);
            return Err(Status::internal(format!("{pool:?} answered {other:?} though nobody can wait")));
        }
    }
    let any: &dyn Any = pool;
    if let Some(own) = any.downcast_ref::<MemoryPool>() {
        let reservation = own.reserve(reservation)?;
        if let Some(buffer) = reservation.buffer(params, allocation_size) {
            return Ok(Memory::Reserved(buffer, reservation));
        }
        return Err(Status::invalid_argument(format!("{pool:?}: the host does not reach its memory")));
    }
    let transfer = PoolMaterializeFlags::TRANSFER_RESERVATION_OWNERSHIP;
    let buffer = pool.materialize_reservation(params, reservation, transfer);
    Ok(Memory::Other(buffer.inspect_err(|_| pool.release_reservation(reservation, &[]))?))
}
