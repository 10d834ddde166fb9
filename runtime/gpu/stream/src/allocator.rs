//! The allocator of a device ([`StreamAllocator`]): chooses the class of memory for a buffer and takes it from the
//! blocks of the device, or from the library.
//!
//! Memory of a GPU is from a pool of the library, in the order of a stream that has nothing else, so freeing it does
//! not wait for kernels; without pools it is allocated and freed at once. Memory of the host is pinned. Memory that is
//! to be both is managed, and moves to the side that accesses it.

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use vireo_cuda::types::{
    HOST_ALLOC_DEVICE_MAP, HOST_ALLOC_PORTABLE, HOST_REGISTER_DEVICE_MAP, HOST_REGISTER_PORTABLE, MEM_ATTACH_GLOBAL,
};

use crate::context::Context;
use crate::generated::api::CallGroup;
use crate::hal::{
    Allocator, AllocatorStatistics, Buffer, BufferCompatibility, BufferParams, BufferPlacement, BufferUsage,
    ExternalBuffer, ExternalBufferType, MemoryAccess, MemoryHeap, MemoryType, QueueAffinity,
};
use crate::hal_driver::device_alloca::DeviceAllocator;
use crate::hal_driver::device_blocks::DeviceBlocks;
use crate::hal_driver::device_counters::DeviceCounters;
use crate::hal_driver::device_slabs::{SlabAllocator, SlabMemory};
use crate::hal_driver::device_submission::StagingAllocator;
use crate::hal_driver::pool::Notice;
use crate::handles::{MemoryPool, Stream};
use crate::limits::{Charge, MemoryBudget, OBJECT_BYTES};
use crate::memory::{DeviceBuffer, DeviceMemory, DeviceSet, HostCopies};
use crate::options::DeviceOptions;
use crate::status::{Result, Status, StatusCode};

/// Alignment of all memory of the library.
const ALIGNMENT: u64 = 256;

/// Alignment that buffers may ask for at most.
const MAX_ALIGNMENT: u64 = 64 << 10;

/// Alignment of imported memory, which kernels expect of buffers.
const IMPORT_ALIGNMENT: usize = 64;

/// A class of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemoryClass {
    /// Memory of the GPU.
    Device,
    /// Pinned memory of the host.
    Host,
    /// Memory that moves between both.
    Managed,
}

/// An allocation of the library, which is freed when it is dropped. Nothing uses it then.
struct Allocation {
    context: Arc<Context>,
    /// The pool that it is from, if it is from one.
    pool: Option<Arc<MemoryPool>>,
    class: MemoryClass,
    address: u64,
    host: usize,
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let host = std::ptr::with_exposed_provenance_mut(self.host);
        // SAFETY: it was allocated so, and nothing uses it any more. A failure changes nothing here.
        let _ = self.context.call(|api| unsafe {
            match (self.class, &self.pool) {
                (MemoryClass::Host, _) => api.host_free(host),
                (MemoryClass::Device, Some(pool)) => api.pool_free(self.address, pool.stream.handle),
                (MemoryClass::Device | MemoryClass::Managed, _) => api.memory_free(self.address),
            }
        });
    }
}

/// Memory of the host that is pinned, with its owner.
struct Imported {
    context: Arc<Context>,
    host: usize,
    _owner: Arc<dyn Any + Send + Sync>,
}

impl Drop for Imported {
    fn drop(&mut self) {
        let host = std::ptr::with_exposed_provenance_mut(self.host);
        // SAFETY: it was registered so, and nothing uses it any more. A failure changes nothing here.
        let _ = self.context.call(|api| unsafe { api.host_unregister(host) });
    }
}

/// The origin of a block: a GPU, by its place among those of a device, and a class of memory.
type Origin = (usize, MemoryClass);

/// A GPU with what its memory is from.
#[derive(Debug)]
struct Source {
    context: Arc<Context>,
    pool: Option<Arc<MemoryPool>>,
    /// The stream that zeroes memory.
    stream: Stream,
    /// The devices that reach its memory.
    reached_by: DeviceSet,
}

impl HostCopies for Source {
    unsafe fn copy_of(&self, address: u64, length: u64) -> Result<(NonNull<u8>, Arc<dyn Any + Send + Sync>)> {
        let words = usize::try_from(length.div_ceil(8)).unwrap_or(usize::MAX).max(1);
        let mut copy: Vec<u64> = Vec::new();
        copy.try_reserve_exact(words)
            .map_err(|_| Status::resource_exhausted(format!("no memory for a copy of {length} bytes")))?;
        copy.resize(words, 0);
        let target: *mut u64 = copy.as_mut_ptr();
        if length > 0 {
            let stream = self.stream.handle;
            // SAFETY: the copy has as many bytes, and the caller promises the same of the range until it has ended.
            self.context.call(|api| unsafe { api.copy_to_host(target.cast(), address, length, stream) })?;
            self.stream.synchronize()?;
        }
        let data = NonNull::new(target.cast()).unwrap_or(NonNull::dangling());
        Ok((data, Arc::new(copy)))
    }
}

/// An allocator of the memory of some GPUs.
pub struct StreamAllocator {
    /// At least one.
    sources: Vec<Arc<Source>>,
    /// Streams of each GPU.
    streams: usize,
    /// Bytes of the device and of the host.
    counters: Arc<DeviceCounters>,
    blocks: Arc<DeviceBlocks<Origin, DeviceMemory>>,
    /// The budget that all memory is charged to. With one no memory is used again.
    budget: Option<MemoryBudget>,
    recycles: bool,
    /// Whether buffers that are not transient begin as zeros.
    zeroes: bool,
}

impl fmt::Debug for StreamAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.sources.iter().map(|source| &source.context)).finish()
    }
}

impl StreamAllocator {
    /// An allocator for the GPUs of a device with these options. The first one has the memory where nothing else is
    /// asked for.
    ///
    /// # Errors
    /// Those of the library.
    pub fn new(contexts: &[Arc<Context>], options: &DeviceOptions) -> Result<StreamAllocator> {
        let source = |context: &Arc<Context>| {
            let peers = peers(context, contexts)?;
            let pool = if options.pools && context.has_pools {
                let pool = MemoryPool::new(context)?;
                pool.share_with(&peers)?;
                Some(Arc::new(pool))
            } else {
                None
            };
            let reached_by = peers.iter().fold(context.set(), |all, peer| all.with(peer.set()));
            Ok(Arc::new(Source { context: context.clone(), pool, stream: Stream::new(context)?, reached_by }))
        };
        Ok(StreamAllocator {
            sources: contexts.iter().map(source).collect::<Result<_>>()?,
            streams: options.streams.max(1),
            counters: Arc::default(),
            blocks: Arc::default(),
            budget: options.memory.clone(),
            recycles: options.memory.is_none() && !options.new_memory,
            // A policy for which memory has to be zeroed counts more than a sanitizer.
            zeroes: options.zeroed_transients || !options.new_memory,
        })
    }

    /// The GPU whose memory a buffer is in: the first that its streams belong to, if streams belong to one.
    fn index(&self, affinity: QueueAffinity) -> usize {
        let index = affinity.bits().trailing_zeros() as usize / self.streams;
        if affinity == QueueAffinity::ANY || index >= self.sources.len() { 0 } else { index }
    }

    /// The pool of the memory of a GPU, by its place.
    pub(crate) fn pool(&self, index: usize) -> Option<&Arc<MemoryPool>> {
        self.sources.get(index)?.pool.as_ref()
    }

    /// The class of memory for a buffer, and its parameters with everything filled in.
    fn place(&self, mut params: BufferParams) -> Result<(MemoryClass, BufferParams)> {
        if params.usage.is_empty() {
            params.usage = BufferUsage::DEFAULT;
        }
        if params.access.is_empty() {
            params.access = MemoryAccess::ALL;
        }
        if params.queue_affinity.is_empty() {
            params.queue_affinity = QueueAffinity::ANY;
        }
        let context = &self.sources[self.index(params.queue_affinity)].context;
        let wanted = params.memory_type;
        let class = class(context, wanted, params.usage);
        params.memory_type = match class {
            MemoryClass::Device => MemoryType::DEVICE_LOCAL,
            MemoryClass::Host => MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE,
            MemoryClass::Managed => MemoryType::DEVICE_LOCAL | MemoryType::HOST_VISIBLE | MemoryType::HOST_COHERENT,
        };
        // Whether the host's accesses are cached is a wish: it costs time, and nothing else.
        let lacking = wanted - params.memory_type - MemoryType::OPTIMAL - MemoryType::HOST_CACHED;
        if !lacking.is_empty() && !wanted.contains(MemoryType::OPTIMAL) {
            let given = params.memory_type;
            let message = format!("{context:?} has no memory that is {wanted:?}: {given:?} lacks {lacking:?}");
            return Err(Status::invalid_argument(message));
        }
        params.usage |= BufferUsage::TRANSFER;
        // The host reads memory that it does not reach by a copy.
        params.usage |= match class {
            MemoryClass::Device => BufferUsage::MAPPING_SCOPED,
            MemoryClass::Host | MemoryClass::Managed => BufferUsage::MAPPING | BufferUsage::MAPPING_PERSISTENT,
        };
        if params.min_alignment > MAX_ALIGNMENT || !params.min_alignment.max(1).is_power_of_two() {
            let asked = params.min_alignment;
            let message = format!("alignment {asked}: expected a power of two up to {MAX_ALIGNMENT}");
            return Err(Status::invalid_argument(message));
        }
        params.min_alignment = params.min_alignment.max(ALIGNMENT);
        Ok((class, params))
    }

    /// Fills new memory with zeros.
    fn zero(&self, index: usize, memory: &DeviceMemory, length: u64) -> Result<()> {
        if length == 0 {
            return Ok(());
        }
        if let Some(host) = memory.host {
            // SAFETY: the memory has that many bytes, and nothing else uses it yet.
            unsafe { host.write_bytes(0, length as usize) };
            return Ok(());
        }
        let Source { context, stream, .. } = &*self.sources[index];
        // SAFETY: the memory has that many bytes, and nothing else uses it yet.
        context.call(|api| unsafe { api.fill_8(memory.address, 0, length, stream.handle) })?;
        stream.synchronize()
    }

    /// A new allocation of the library.
    fn allocate_new(&self, index: usize, class: MemoryClass, length: u64) -> Result<DeviceMemory> {
        let Source { context, pool, reached_by, .. } = &*self.sources[index];
        let of_host = HOST_ALLOC_PORTABLE | HOST_ALLOC_DEVICE_MAP;
        let pool = pool.as_ref().filter(|_| class == MemoryClass::Device);
        // SAFETY: the context is current; results are addresses of as many bytes.
        let allocated = context.call(|api| unsafe {
            match (class, pool) {
                (MemoryClass::Host, _) => {
                    let host = api.host_allocate(length, of_host)?;
                    let address = api.host_device_address(host, 0).inspect_err(|_| drop(api.host_free(host)))?;
                    Ok((address, host.expose_provenance()))
                }
                (MemoryClass::Device, Some(pool)) => {
                    Ok((api.pool_allocate(length, pool.handle, pool.stream.handle)?, 0))
                }
                (MemoryClass::Device, None) => Ok((api.memory_allocate(length)?, 0)),
                (MemoryClass::Managed, _) => {
                    let address = api.managed_allocate(length, MEM_ATTACH_GLOBAL)?;
                    Ok((address, address as usize))
                }
            }
        });
        let (address, host) = allocated.map_err(|status| self.exhausted(context, class, length, status))?;
        let allocation = Allocation { context: context.clone(), pool: pool.cloned(), class, address, host };
        if let Some(pool) = pool {
            // From here on every stream may use it.
            pool.stream.synchronize()?;
        }
        let reached_by = match class {
            MemoryClass::Device => *reached_by,
            MemoryClass::Host | MemoryClass::Managed => DeviceSet { devices: u64::MAX, ..*reached_by },
        };
        let host = NonNull::new(std::ptr::with_exposed_provenance_mut(host));
        let copies = (class == MemoryClass::Device).then(|| self.sources[index].clone() as Arc<dyn HostCopies>);
        Ok(DeviceMemory { address, length, host, copies, reached_by, owner: Arc::new(allocation) })
    }

    /// Says who holds the memory, where there is none left.
    #[cold]
    fn exhausted(&self, context: &Context, class: MemoryClass, length: u64, status: Status) -> Status {
        if status.code() != StatusCode::ResourceExhausted {
            return status;
        }
        // SAFETY: the context is current.
        let left = context.call(|api| unsafe { api.memory_info() });
        let left = left.map_or_else(|_| String::new(), |(free, total)| format!("; {free} of {total} bytes are free"));
        let (device, host) = self.counters.in_use();
        status.context(format!(
            "{length} bytes of {class:?} memory: buffers of this device hold {device} bytes of GPUs and {host} of the host{left}"
        ))
    }

    /// Memory of a class for the GPU with this index, with any contents: an earlier buffer may have had it.
    fn acquire(&self, origin: Origin, length: u64) -> Result<DeviceMemory> {
        let (index, class) = origin;
        let bytes = length.saturating_add(OBJECT_BYTES);
        let charge = Charge::new(self.budget.as_ref(), bytes, "a buffer of a device")?;
        let options = (self.recycles, charge);
        let size = length.max(1).checked_next_multiple_of(ALIGNMENT).unwrap_or(length);
        let memory = self.blocks.acquire(origin, size, options, || self.allocate_new(index, class, size))?;
        let is_host = class == MemoryClass::Host;
        let owner = self.counters.count(is_host, length, memory.owner.clone());
        Ok(DeviceMemory { owner, ..memory })
    }

    /// The same at a multiple of `alignment`: a part of more memory, where that is more than all memory has.
    fn aligned(&self, origin: Origin, length: u64, alignment: u64) -> Result<DeviceMemory> {
        if alignment <= ALIGNMENT {
            return self.acquire(origin, length);
        }
        let memory = self.acquire(origin, length.saturating_add(alignment))?;
        let skipped = memory.address.next_multiple_of(alignment) - memory.address;
        // SAFETY: the memory has as many bytes more as may be skipped.
        Ok(unsafe { memory.part(skipped, memory.length - skipped) })
    }

    fn buffer(&self, params: BufferParams, length: u64, zeroed: bool) -> Result<DeviceBuffer> {
        let (class, params) = self.place(params)?;
        let index = self.index(params.queue_affinity);
        let memory = self.aligned((index, class), length, params.min_alignment)?;
        if zeroed {
            self.zero(index, &memory, length)?;
        }
        // SAFETY: the block has that many bytes, and only this buffer and what refers to it use them while its owner is
        // held.
        Ok(unsafe { DeviceBuffer::new(memory, length, params.memory_type, params.access, params.usage) })
    }

    /// Pinned memory of the host.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if there is none.
    pub(crate) fn pinned(&self, index: usize, length: u64) -> Result<DeviceMemory> {
        self.acquire((index, MemoryClass::Host), length)
    }
}

/// The other contexts of a device that may access the memory of one; access is enabled where that is needed.
fn peers(context: &Arc<Context>, contexts: &[Arc<Context>]) -> Result<Vec<Arc<Context>>> {
    let mut peers = Vec::new();
    for other in contexts.iter().filter(|other| !Arc::ptr_eq(other, context)) {
        if !other.api().has(CallGroup::Peers) {
            continue;
        }
        let (from, to) = (other.description.device, context.description.device);
        // SAFETY: both are devices of the library.
        if other.call(|api| unsafe { api.can_access_peer(from, to) })? == 0 {
            continue;
        }
        // Another user of the context may have enabled it before.
        // SAFETY: both are contexts of the library.
        match other.enter().and_then(|_current| unsafe { other.api().enable_peer(context.context, 0) }) {
            Err(error) if error.code != vireo_cuda::result::CuResult::ERROR_PEER_ACCESS_ALREADY_ENABLED.0 => {
                return Err(other.failed(error));
            }
            _ => peers.push(other.clone()),
        }
    }
    Ok(peers)
}

/// The class of memory for a buffer of a GPU.
fn class(context: &Context, wanted: MemoryType, usage: BufferUsage) -> MemoryClass {
    if wanted.contains(MemoryType::HOST_LOCAL) {
        return MemoryClass::Host;
    }
    let maps = usage.intersects(BufferUsage::MAPPING_SCOPED | BufferUsage::MAPPING_PERSISTENT)
        && !usage.contains(BufferUsage::MAPPING_OPTIONAL);
    let is_local = wanted.contains(MemoryType::DEVICE_LOCAL) && !wanted.contains(MemoryType::OPTIMAL);
    let for_host = maps || wanted.intersects(MemoryType::HOST_VISIBLE | MemoryType::HOST_COHERENT);
    match (for_host, is_local) {
        (false, _) => MemoryClass::Device,
        (true, true) if context.has_managed => MemoryClass::Managed,
        (true, _) => MemoryClass::Host,
    }
}

impl DeviceAllocator for StreamAllocator {
    fn resolve(&self, params: BufferParams) -> Result<BufferParams> {
        Ok(self.place(params)?.1)
    }

    fn allocate(&self, params: BufferParams, length: u64, zeroed: bool) -> Result<Arc<dyn Buffer>> {
        Ok(Arc::new(self.buffer(params, length, zeroed)?))
    }

    fn releases(&self) -> u64 {
        self.blocks.releases()
    }

    fn notify(&self, releases: u64, waiter: Box<dyn FnOnce() + Send>) -> Notice {
        self.blocks.notify(releases, waiter)
    }
}

/// Memory of the host for transfers that the GPU of a queue and the host take part in.
impl StagingAllocator for StreamAllocator {
    fn staging_memory(&self, affinity: QueueAffinity, length: u64) -> Result<Arc<dyn Buffer>> {
        let memory = self.pinned(self.index(affinity), length)?;
        let memory_type = MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE;
        let usage = BufferUsage::TRANSFER | BufferUsage::MAPPING;
        // SAFETY: the block has `length` bytes, and only this buffer and what refers to it use them while its owner is
        // held.
        Ok(Arc::new(unsafe { DeviceBuffer::new(memory, length, memory_type, MemoryAccess::ALL, usage) }))
    }
}

impl SlabAllocator for StreamAllocator {
    type Memory = DeviceMemory;

    fn slab(&self, queue_affinity: QueueAffinity, length: u64) -> Result<DeviceMemory> {
        self.acquire((self.index(queue_affinity), MemoryClass::Device), length)
    }
}

impl Allocator for StreamAllocator {
    fn trim(&self) -> Result<()> {
        self.blocks.trim();
        self.sources.iter().filter_map(|source| source.pool.as_ref()).try_for_each(|pool| pool.trim())
    }

    fn statistics(&self) -> AllocatorStatistics {
        self.counters.statistics()
    }

    fn memory_heaps(&self) -> Vec<MemoryHeap> {
        let max_allocation_size = self.sources[0].context.description.memory;
        let wanted = [
            MemoryType::DEVICE_LOCAL,
            MemoryType::DEVICE_LOCAL | MemoryType::HOST_COHERENT | MemoryType::HOST_VISIBLE,
            MemoryType::HOST_LOCAL,
        ];
        let mut heaps: Vec<MemoryHeap> = Vec::new();
        for memory_type in wanted {
            // Kinds that the device does not have are another one's, or none.
            let Ok((class, params)) = self.place(BufferParams { memory_type, ..BufferParams::default() }) else {
                continue;
            };
            if heaps.iter().all(|known| known.memory_type != params.memory_type) {
                heaps.push(MemoryHeap {
                    memory_type: params.memory_type,
                    allowed_usage: BufferUsage::all(),
                    // The host may have more.
                    max_allocation_size: if class == MemoryClass::Host { u64::MAX } else { max_allocation_size },
                    min_alignment: ALIGNMENT,
                });
            }
        }
        heaps
    }

    fn buffer_compatibility(&self, params: BufferParams, allocation_size: u64) -> BufferPlacement {
        let transfers = BufferCompatibility::QUEUE_TRANSFER | BufferCompatibility::QUEUE_DISPATCH;
        let Ok((class, params)) = self.place(params) else {
            return BufferPlacement { compatibility: BufferCompatibility::empty(), params, allocation_size };
        };
        let mut compatibility = transfers | BufferCompatibility::ALLOCATABLE;
        if class == MemoryClass::Host {
            compatibility |= BufferCompatibility::IMPORTABLE | BufferCompatibility::LOW_PERFORMANCE;
        }
        BufferPlacement { compatibility, params, allocation_size }
    }

    fn allocate_buffer(&self, params: BufferParams, allocation_size: u64) -> Result<Arc<dyn Buffer>> {
        DeviceAllocator::allocate(self, params, allocation_size, self.zeroes)
    }

    unsafe fn import_buffer(&self, params: BufferParams, external: &ExternalBuffer) -> Result<Arc<dyn Buffer>> {
        let refused = |message: String| Err(Status::new(StatusCode::Unavailable, message));
        if external.r#type != ExternalBufferType::HostAllocation {
            return refused("memory of another API cannot be imported as memory of a GPU".to_string());
        }
        if params.memory_type.contains(MemoryType::DEVICE_LOCAL) && !params.memory_type.contains(MemoryType::OPTIMAL) {
            return refused("memory of the host is not local to the device".to_string());
        }
        if !external.data.addr().get().is_multiple_of(IMPORT_ALIGNMENT) {
            return refused(format!(
                "memory at a multiple of {IMPORT_ALIGNMENT} bytes can be imported, not at {:p}",
                external.data
            ));
        }
        let host = BufferParams { memory_type: MemoryType::HOST_LOCAL, min_alignment: 0, ..params };
        let (_, params) = self.place(host)?;
        let context = &self.sources[self.index(params.queue_affinity)].context;
        let (data, size) = (external.data.as_ptr(), external.size.max(1));
        let flags = HOST_REGISTER_PORTABLE | HOST_REGISTER_DEVICE_MAP;
        // SAFETY: the caller guarantees that the memory stays as long as its owner, which is held with it.
        let registered = context.call(|api| unsafe {
            api.host_register(data.cast(), size, flags)?;
            api.host_device_address(data.cast(), 0).inspect_err(|_| drop(api.host_unregister(data.cast())))
        });
        let address = registered.map_err(|status| {
            Status::new(StatusCode::Unavailable, "the memory cannot be pinned").with_source(status)
        })?;
        let (context, host, _owner) = (context.clone(), data.expose_provenance(), external.owner.clone());
        let owner = Arc::new(Imported { context: context.clone(), host, _owner });
        let reached_by = DeviceSet { devices: u64::MAX, ..context.set() };
        let (length, host) = (external.size, Some(external.data));
        let memory = DeviceMemory { address, length, host, copies: None, reached_by, owner };
        // SAFETY: the caller guarantees that the memory has `external.size` bytes as long as its owner, which the
        // buffer holds, and that no Rust reference to them exists.
        let buffer =
            unsafe { DeviceBuffer::new(memory, external.size, params.memory_type, params.access, params.usage) };
        Ok(Arc::new(buffer))
    }
}
