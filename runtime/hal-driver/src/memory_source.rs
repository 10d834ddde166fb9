//! The allocator of a device ([`DeviceMemory`]), which a host may replace until the device has allocated, and the
//! source of memory for transient buffers ([`MemorySource`]): that allocator or a pool. Devices own the former, queue
//! allocations use the latter.

use std::any::Any;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::hal::transient::{BlockMemory, Memory, TransientBuffer};
use crate::hal::{
    Allocator, BufferParams, BufferUsage, HEAP_BUFFER_ALIGNMENT, HeapAllocator, MemoryAccess, MemoryType, Pool,
    PoolAcquireResult, PoolCapabilities, PoolMaterializeFlags, PoolReserveFlags, SlabProvider,
};
use crate::pool::{HostSlabProvider, MemoryPool};
use crate::status::{Result, Status};

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

    /// The current allocator.
    pub fn allocator(&self) -> Arc<dyn Allocator> {
        match self.used.get().and_then(MemorySource::allocator) {
            Some(allocator) => allocator,
            None => self.allocator.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Whether there are slabs for pools of the host. Unlike [`DeviceMemory::source`] this leaves the allocator
    /// replaceable.
    pub fn has_slabs(&self) -> bool {
        Origin::of_allocator(&self.allocator()).has_slabs()
    }

    /// The source of memory for transient buffers. From the first call on the allocator cannot be replaced.
    pub fn source(&self) -> &MemorySource {
        if let Some(source) = self.used.get() {
            return source;
        }
        // The lock is held until the source is set, so that `replace` either comes before or fails.
        let allocator = self.allocator.lock().unwrap_or_else(PoisonError::into_inner);
        self.used.get_or_init(|| MemorySource { origin: Origin::of_allocator(&allocator), zeroed: self.zeroed })
    }

    /// The source of memory for transient buffers of a pool.
    pub fn pool_source(&self, pool: &Arc<dyn Pool>) -> MemorySource {
        MemorySource { origin: Origin::Pool(pool.clone()), zeroed: self.zeroed }
    }

    /// Replaces the allocator.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` if memory of the current one is in use.
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

/// A source of memory for transient buffers.
#[derive(Clone, Debug)]
pub struct MemorySource {
    origin: Origin,
    /// Whether memory is zeroed before it is handed out.
    zeroed: bool,
}

/// The kinds of sources.
#[derive(Clone, Debug)]
enum Origin {
    /// The host's heap, whose memory needs no buffer object of its own.
    Heap(Arc<HeapAllocator>),
    /// Any other allocator.
    Other(Arc<dyn Allocator>),
    /// A pool that the host names.
    Pool(Arc<dyn Pool>),
}

impl Origin {
    /// Whether it gives out slabs.
    fn has_slabs(&self) -> bool {
        matches!(self, Origin::Heap(heap) if !heap.is_limited())
    }

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

    /// A provider of slabs of the same memory, for pools of the host.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` for memory that has no slabs.
    pub fn slabs(&self) -> Result<Arc<dyn SlabProvider>> {
        match &self.origin {
            Origin::Heap(heap) if self.origin.has_slabs() => {
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

    /// The parameters of a buffer with defaults filled in.
    fn resolve(&self, params: BufferParams, allocation_size: u64) -> Result<BufferParams> {
        match &self.origin {
            Origin::Heap(heap) => heap.resolve(params),
            Origin::Other(other) => Ok(other.buffer_compatibility(params, allocation_size).params),
            Origin::Pool(pool) => resolve_for_pool(&**pool, params),
        }
    }

    /// A transient buffer with its memory.
    ///
    /// # Errors
    /// Those of the allocator or the pool, such as `RESOURCE_EXHAUSTED`.
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

    /// A transient buffer whose memory is committed later, or never if there is no such memory.
    pub fn transient_without_memory(&self, params: BufferParams, allocation_size: u64) -> Arc<TransientBuffer> {
        let params = self.resolve(params, allocation_size).unwrap_or(params);
        TransientBuffer::new(params, allocation_size, Memory::None)
    }

    /// Memory for a transient buffer.
    ///
    /// # Errors
    /// Those of the allocator or the pool, such as `RESOURCE_EXHAUSTED`.
    pub fn allocate(&self, params: BufferParams, allocation_size: u64) -> Result<Memory> {
        let memory = match &self.origin {
            Origin::Heap(heap) => {
                return Ok(match heap.blocks() {
                    Some(blocks) => {
                        let params = heap.resolve(params)?;
                        Memory::Block(BlockMemory::new(heap, blocks, params, allocation_size, self.zeroed)?)
                    }
                    // Without a block cache no memory is used again, and new memory is zero.
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

/// The parameters of a buffer of a pool; INVALID_ARGUMENT if it has no such memory.
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
    // Transfers and mappings are always allowed, as for the device's own memory.
    params.usage |= supported_usage & (BufferUsage::MAPPING | BufferUsage::MAPPING_PERSISTENT | BufferUsage::TRANSFER);
    Ok(params)
}

/// Reserves memory of a pool. `params` are resolved.
fn reserve_from_pool(pool: &dyn Pool, params: BufferParams, allocation_size: u64) -> Result<Memory> {
    let alignment = params.min_alignment.max(HEAP_BUFFER_ALIGNMENT);
    // This runs when the operations before it have completed, so the requester frontier is empty and no wait is
    // allowed.
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
    if let Some(own) = any.downcast_ref::<MemoryPool>()
        && own.is_on_host(reservation)?
    {
        let reservation = own.reserve(reservation)?;
        if let Some(buffer) = reservation.buffer(params, allocation_size) {
            return Ok(Memory::Reserved(buffer, Box::new(reservation)));
        }
        return Err(Status::internal(format!("{pool:?}: a reservation of less than {allocation_size} bytes")));
    }
    let transfer = PoolMaterializeFlags::TRANSFER_RESERVATION_OWNERSHIP;
    let buffer = pool.materialize_reservation(params, reservation, transfer);
    Ok(Memory::Other(buffer.inspect_err(|_| pool.release_reservation(reservation, &[]))?))
}
