//! The allocator of a device ([`AmdAllocator`]): chooses the class of memory for a buffer and allocates it where all agents of the device reach it.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vireo_hsa::hsa::Agent;

use crate::agent::{GpuAgent, MemoryClass};
use crate::hal::{
    Allocator, AllocatorStatistics, Buffer, BufferCompatibility, BufferParams, BufferPlacement, BufferUsage,
    ExternalBuffer, ExternalBufferType, MemoryAccess, MemoryHeap, MemoryType, QueueAffinity,
};
use crate::memory::{DeviceBuffer, DeviceMemory, Publication};
use crate::status::{Result, Status, StatusCode};
use crate::symbols::LockedMemory;

/// Bytes that are zeroed at a time where the host does not reach the memory.
const ZERO_CHUNK: u64 = 1 << 20;

/// What imported memory is aligned to, as kernels expect of buffers.
const IMPORT_ALIGNMENT: usize = 64;

/// Bytes in use, of one kind of memory.
#[derive(Debug, Default)]
struct Counter {
    allocated: AtomicU64,
    freed: AtomicU64,
    peak: AtomicU64,
}

impl Counter {
    fn add(&self, bytes: u64) {
        let allocated = self.allocated.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(allocated.saturating_sub(self.freed.load(Ordering::Relaxed)), Ordering::Relaxed);
    }
}

/// Counts bytes until it is dropped, and keeps their memory.
struct Counted {
    counters: Arc<[Counter; 2]>,
    is_host: bool,
    bytes: u64,
    _memory: Arc<dyn std::any::Any + Send + Sync>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.counters[usize::from(self.is_host)].freed.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

/// Memory of the host that is pinned, and whoever owns it.
struct Imported {
    /// Dropped before the memory goes.
    _locked: LockedMemory,
    _owner: Arc<dyn std::any::Any + Send + Sync>,
}

/// An allocator of the memory of some agents.
#[derive(Debug)]
pub struct AmdAllocator {
    /// At least one.
    agents: Vec<Arc<GpuAgent>>,
    /// Queues of each agent.
    queues: usize,
    /// Of the device and of the host.
    counters: Arc<[Counter; 2]>,
}

impl AmdAllocator {
    /// An allocator for the agents of a device with so many queues each. The first one has the memory where nothing else is asked for.
    pub fn new(agents: Vec<Arc<GpuAgent>>, queues: usize) -> AmdAllocator {
        AmdAllocator { agents, queues: queues.max(1), counters: Arc::default() }
    }

    fn handles(&self) -> Vec<Agent> {
        self.agents.iter().map(|agent| agent.agent).collect()
    }

    /// The agent whose memory a buffer is in: the first that its queues belong to, if queues belong to one.
    fn agent(&self, affinity: QueueAffinity) -> &Arc<GpuAgent> {
        let index = affinity.bits().trailing_zeros() as usize / self.queues;
        self.agents.get(index).filter(|_| affinity != QueueAffinity::ANY).unwrap_or(&self.agents[0])
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
        let wanted = params.memory_type;
        let agent = self.agent(params.queue_affinity);
        let maps = params.usage.intersects(BufferUsage::MAPPING_SCOPED | BufferUsage::MAPPING_PERSISTENT)
            && !params.usage.contains(BufferUsage::MAPPING_OPTIONAL);
        let for_host = wanted.contains(MemoryType::HOST_VISIBLE) || maps;
        let class = if wanted.contains(MemoryType::HOST_LOCAL) {
            MemoryClass::HostFine
        } else if for_host && !agent.local_is_host_visible {
            if wanted.contains(MemoryType::DEVICE_LOCAL) && !wanted.contains(MemoryType::OPTIMAL) && !maps {
                return Err(Status::invalid_argument(format!(
                    "the host does not reach the memory of {agent:?}, so there is none that is {wanted:?}"
                )));
            }
            MemoryClass::HostFine
        } else {
            MemoryClass::DeviceLocal
        };
        params.memory_type = match class {
            MemoryClass::DeviceLocal if agent.local_is_host_visible => {
                MemoryType::DEVICE_LOCAL | MemoryType::HOST_VISIBLE
            }
            MemoryClass::DeviceLocal => MemoryType::DEVICE_LOCAL,
            _ => MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE,
        };
        params.usage |= BufferUsage::TRANSFER;
        if agent.is_host_visible(class) {
            params.usage |= BufferUsage::MAPPING | BufferUsage::MAPPING_PERSISTENT;
        }
        let alignment = agent.pool(class).alignment.max(64);
        if params.min_alignment > alignment || !params.min_alignment.max(1).is_power_of_two() {
            let asked = params.min_alignment;
            return Err(Status::invalid_argument(format!("alignment {asked}: memory is aligned to {alignment} bytes")));
        }
        params.min_alignment = alignment;
        Ok((class, params))
    }

    /// Fills new memory with zeros.
    fn zero(&self, agent: &GpuAgent, memory: &DeviceMemory, length: u64) -> Result<()> {
        if let Some(host) = memory.host {
            // SAFETY: the memory has that many bytes, and nothing else uses it yet.
            unsafe { host.write_bytes(0, length as usize) };
            memory.publication.publish();
            return Ok(());
        }
        let zeros = agent.allocate(MemoryClass::HostFine, length.min(ZERO_CHUNK), &[])?;
        let chunk = length.min(ZERO_CHUNK);
        let host = zeros.host.ok_or_else(|| Status::internal("the host does not reach its own memory"))?;
        // SAFETY: it has that many bytes, and nothing else uses it.
        unsafe { host.write_bytes(0, chunk as usize) };
        let mut done = 0;
        while done < length {
            let part = chunk.min(length - done);
            // SAFETY: both ranges are within their memory, which is held, and nothing else uses the target yet.
            unsafe { agent.hsa().copy(memory.address + done, zeros.address, part) }?;
            done += part;
        }
        Ok(())
    }
}

impl Allocator for AmdAllocator {
    fn trim(&self) -> Result<()> {
        Ok(())
    }

    fn statistics(&self) -> AllocatorStatistics {
        let [device, host] = &*self.counters;
        let load = |value: &AtomicU64| value.load(Ordering::Relaxed);
        AllocatorStatistics {
            host_bytes_peak: load(&host.peak),
            host_bytes_allocated: load(&host.allocated),
            host_bytes_freed: load(&host.freed),
            device_bytes_peak: load(&device.peak),
            device_bytes_allocated: load(&device.allocated),
            device_bytes_freed: load(&device.freed),
        }
    }

    fn memory_heaps(&self) -> Vec<MemoryHeap> {
        let agent = &self.agents[0];
        let heap = |class: MemoryClass, memory_type: MemoryType| MemoryHeap {
            memory_type,
            allowed_usage: BufferUsage::all(),
            max_allocation_size: agent.pool(class).max_size,
            min_alignment: agent.pool(class).alignment.max(64),
        };
        let visible = if agent.local_is_host_visible { MemoryType::HOST_VISIBLE } else { MemoryType::empty() };
        vec![
            heap(MemoryClass::DeviceLocal, MemoryType::DEVICE_LOCAL | visible),
            heap(MemoryClass::HostFine, MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE),
        ]
    }

    fn buffer_compatibility(&self, params: BufferParams, allocation_size: u64) -> BufferPlacement {
        let transfers = BufferCompatibility::QUEUE_TRANSFER | BufferCompatibility::QUEUE_DISPATCH;
        let Ok((class, params)) = self.place(params) else {
            return BufferPlacement { compatibility: BufferCompatibility::empty(), params, allocation_size };
        };
        let mut compatibility = transfers;
        if allocation_size <= self.agent(params.queue_affinity).pool(class).max_size {
            compatibility |= BufferCompatibility::ALLOCATABLE;
        }
        if class == MemoryClass::HostFine {
            compatibility |= BufferCompatibility::IMPORTABLE | BufferCompatibility::LOW_PERFORMANCE;
        }
        BufferPlacement { compatibility, params, allocation_size }
    }

    fn allocate_buffer(&self, params: BufferParams, allocation_size: u64) -> Result<Arc<dyn Buffer>> {
        let (class, params) = self.place(params)?;
        let agent = self.agent(params.queue_affinity);
        let memory = agent.allocate(class, allocation_size, &self.handles())?;
        self.zero(agent, &memory, allocation_size)?;
        let is_host = class != MemoryClass::DeviceLocal;
        self.counters[usize::from(is_host)].add(allocation_size);
        let counters = self.counters.clone();
        let owner = Arc::new(Counted { counters, is_host, bytes: allocation_size, _memory: memory.owner.clone() });
        let memory = DeviceMemory { owner, ..memory };
        // SAFETY: the allocation has that many bytes, and only buffers over it refer to them.
        let buffer =
            unsafe { DeviceBuffer::new(memory, allocation_size, params.memory_type, params.access, params.usage) };
        Ok(Arc::new(buffer))
    }

    unsafe fn import_buffer(&self, params: BufferParams, external: &ExternalBuffer) -> Result<Arc<dyn Buffer>> {
        if external.r#type != ExternalBufferType::HostAllocation {
            let message = "memory of another API cannot be imported as memory of an AMD GPU";
            return Err(Status::new(StatusCode::Unavailable, message));
        }
        if params.memory_type.contains(MemoryType::DEVICE_LOCAL) && !params.memory_type.contains(MemoryType::OPTIMAL) {
            let message = "memory of the host is not local to the device";
            return Err(Status::new(StatusCode::Unavailable, message));
        }
        if !external.data.addr().get().is_multiple_of(IMPORT_ALIGNMENT) {
            let message =
                format!("memory at a multiple of {IMPORT_ALIGNMENT} bytes can be imported, not at {:p}", external.data);
            return Err(Status::new(StatusCode::Unavailable, message));
        }
        let host = BufferParams { memory_type: MemoryType::HOST_LOCAL, min_alignment: 0, ..params };
        let (_, params) = self.place(host)?;
        let mut agents = self.handles();
        let hsa = self.agents[0].hsa();
        // SAFETY: the caller guarantees that the memory stays as long as its owner, which is held with the lock.
        let locked = unsafe { hsa.lock(external.data, external.size.max(1), &mut agents) }.map_err(|status| {
            Status::new(StatusCode::Unavailable, "the memory cannot be pinned").with_source(status)
        })?;
        let address = locked.address;
        let owner = Arc::new(Imported { _locked: locked, _owner: external.owner.clone() });
        let host: Option<NonNull<u8>> = Some(external.data);
        let memory = DeviceMemory { address, length: external.size, host, publication: Publication::Coherent, owner };
        // SAFETY: the caller guarantees it.
        let buffer =
            unsafe { DeviceBuffer::new(memory, external.size, params.memory_type, params.access, params.usage) };
        Ok(Arc::new(buffer))
    }
}
