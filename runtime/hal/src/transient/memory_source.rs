//! Where a device gets its memory. A host may replace the allocator, as long as the device itself has allocated nothing.

use std::any::Any;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::buffer::{BlockMemory, Memory, TransientBuffer};
use crate::allocator::HEAP_BUFFER_ALIGNMENT;
use crate::pool::{HostSlabProvider, MemoryPool};
use crate::status::{Result, Status};
use crate::{
    Allocator, BufferParams, BufferUsage, HeapAllocator, MemoryAccess, MemoryType, Pool, PoolAcquireResult,
    PoolCapabilities, PoolMaterializeFlags, PoolReserveFlags, SlabProvider, WHOLE_BUFFER, buffer_fill,
};

/// The allocator of a device.
#[derive(Debug)]
pub struct DeviceMemory {
    allocator: Mutex<Arc<dyn Allocator>>,
    /// Set with the first transient buffer. Then the allocator stays, and reading it takes no lock.
    used: OnceLock<MemorySource>,
    /// Whether the memory of transient buffers is zeroed.
    zeroed: bool,
}

impl DeviceMemory {
    /// Memory of `allocator`.
    pub fn new(allocator: Arc<dyn Allocator>) -> DeviceMemory {
        DeviceMemory { allocator: Mutex::new(allocator), used: OnceLock::new(), zeroed: false }
    }

    /// The same, with zeros in the memory of transient buffers.
    pub fn zeroed(self) -> DeviceMemory {
        DeviceMemory { zeroed: true, ..self }
    }

    /// The allocator.
    pub fn allocator(&self) -> Arc<dyn Allocator> {
        match self.used.get().and_then(MemorySource::allocator) {
            Some(allocator) => allocator,
            None => self.allocator.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Where transient buffers get their memory, from here on always.
    pub fn source(&self) -> &MemorySource {
        if let Some(source) = self.used.get() {
            return source;
        }
        // The lock is held until the source is set, so no allocator is replaced by one that nobody uses.
        let allocator = self.allocator.lock().unwrap_or_else(PoisonError::into_inner);
        self.used.get_or_init(|| MemorySource { origin: Origin::of_allocator(&allocator), zeroed: self.zeroed })
    }

    /// Where transient buffers that name a pool get theirs.
    pub fn pool_source(&self, pool: &Arc<dyn Pool>) -> MemorySource {
        MemorySource { origin: Origin::Pool(pool.clone()), zeroed: self.zeroed }
    }

    /// Makes `allocator` the one that is used.
    pub fn replace(&self, allocator: &Arc<dyn Allocator>) -> Result<()> {
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
pub struct MemorySource {
    origin: Origin,
    /// Whether their memory is zeroed before anybody gets it.
    zeroed: bool,
}

/// Where memory comes from.
#[derive(Clone, Debug)]
enum Origin {
    /// The host's heap, whose buffers need no object of their own.
    Heap(Arc<HeapAllocator>),
    /// Any other allocator.
    Other(Arc<dyn Allocator>),
    /// A pool that the host named.
    Pool(Arc<dyn Pool>),
}

impl Origin {
    fn of_allocator(allocator: &Arc<dyn Allocator>) -> Origin {
        let any: Arc<dyn Any + Send + Sync> = allocator.clone();
        match any.downcast() {
            Ok(heap) => Origin::Heap(heap),
            Err(_) => Origin::Other(allocator.clone()),
        }
    }
}

impl MemorySource {
    /// The pool, if memory comes from one.
    pub fn pool(&self) -> Option<&Arc<dyn Pool>> {
        match &self.origin {
            Origin::Pool(pool) => Some(pool),
            Origin::Heap(_) | Origin::Other(_) => None,
        }
    }

    /// What pools of the same memory can be made of.
    pub fn slabs(&self) -> Result<Arc<dyn SlabProvider>> {
        match &self.origin {
            Origin::Heap(heap) if !heap.is_limited() => {
                Ok(Arc::new(heap.blocks().map(|blocks| HostSlabProvider::new(blocks.clone())).unwrap_or_default()))
            }
            _ => Err(Status::unimplemented(
                "`device.queue_pool_backend`: the allocator of the device gives out no slabs",
            )),
        }
    }

    fn allocator(&self) -> Option<Arc<dyn Allocator>> {
        Some(match &self.origin {
            Origin::Heap(heap) => heap.clone(),
            Origin::Other(other) => other.clone(),
            Origin::Pool(_) => return None,
        })
    }

    /// What buffers with these parameters can be.
    fn resolve(&self, params: BufferParams, allocation_size: u64) -> Result<BufferParams> {
        match &self.origin {
            Origin::Heap(heap) => heap.resolve(params),
            Origin::Other(other) => Ok(other.buffer_compatibility(params, allocation_size).params),
            Origin::Pool(pool) => resolve_for_pool(&**pool, params),
        }
    }

    /// A transient buffer with its memory.
    #[inline]
    pub fn allocate_transient(&self, params: BufferParams, allocation_size: u64) -> Result<Arc<TransientBuffer>> {
        let params = self.resolve(params, allocation_size)?;
        match &self.origin {
            Origin::Heap(heap) => TransientBuffer::of_heap(heap, params, allocation_size, self.zeroed),
            Origin::Other(_) | Origin::Pool(_) => {
                Ok(TransientBuffer::new(params, allocation_size, self.allocate(params, allocation_size)?))
            }
        }
    }

    /// A transient buffer that gets its memory later, or never if there is no such memory.
    pub fn transient_without_memory(&self, params: BufferParams, allocation_size: u64) -> Arc<TransientBuffer> {
        let params = self.resolve(params, allocation_size).unwrap_or(params);
        TransientBuffer::new(params, allocation_size, Memory::None)
    }

    /// Memory for a transient buffer.
    pub fn allocate(&self, params: BufferParams, allocation_size: u64) -> Result<Memory> {
        let memory = match &self.origin {
            Origin::Heap(heap) => {
                return Ok(match heap.blocks() {
                    Some(blocks) => {
                        let params = heap.resolve(params)?;
                        Memory::Block(BlockMemory::new(heap, blocks, params, allocation_size, self.zeroed)?)
                    }
                    // Without blocks nothing is used again, and what is new is zero.
                    None => Memory::Heap(heap.allocate(params, allocation_size)?),
                });
            }
            Origin::Other(other) => Memory::Other(other.allocate_buffer(params, allocation_size)?),
            Origin::Pool(pool) => reserve_from_pool(&**pool, resolve_for_pool(&**pool, params)?, allocation_size)?,
        };
        if self.zeroed {
            memory.zero()?;
        }
        Ok(memory)
    }
}

impl Memory {
    /// Fills memory that nobody uses yet with zeros. Fails where the host does not reach it.
    fn zero(&self) -> Result<()> {
        match self {
            // SAFETY: the range was reserved for this, and its pool gives out memory to write to.
            Memory::Reserved(buffer, _) => unsafe { buffer.zero() },
            Memory::Other(buffer) => {
                buffer_fill(&**buffer, 0, WHOLE_BUFFER, &[0])
                    .map_err(|status| status.context("zeroing the memory of a transient buffer"))?;
            }
            // What the allocator of the heap makes is zero or made so by it.
            Memory::None | Memory::Heap(_) | Memory::Block(_) => {}
        }
        Ok(())
    }
}

/// The parameters of a buffer of a pool, or why it has no such memory.
fn resolve_for_pool(pool: &dyn Pool, mut params: BufferParams) -> Result<BufferParams> {
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
fn reserve_from_pool(pool: &dyn Pool, params: BufferParams, allocation_size: u64) -> Result<Memory> {
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
