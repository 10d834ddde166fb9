//! The allocator of a device ([`AmdAllocator`]): chooses the class of memory for a buffer and takes it from the blocks
//! of the device, or allocates it where all agents of the device reach it that can.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::agent::GpuAgent;
use crate::hal::{
    Allocator, AllocatorStatistics, Buffer, BufferCompatibility, BufferParams, BufferPlacement, BufferUsage,
    ExternalBuffer, ExternalBufferType, MemoryAccess, MemoryHeap, MemoryType, QueueAffinity,
};
use crate::hal_driver::device_alloca::DeviceAllocator;
use crate::hal_driver::device_blocks::DeviceBlocks;
use crate::hal_driver::device_counters::DeviceCounters;
use crate::hal_driver::device_slabs::SlabAllocator;
use crate::hal_driver::device_submission::StagingAllocator;
use crate::hal_driver::pool::Notice;
use crate::limits::{Charge, MemoryBudget, OBJECT_BYTES};
use crate::memory::{AgentMask, DeviceBuffer, DeviceMemory, MemoryClass, Publication};
use crate::options::DeviceOptions;
use crate::status::{Result, Status, StatusCode};
use crate::symbols::LockedMemory;

/// Bytes that are zeroed at a time where the host does not reach the memory.
const ZERO_CHUNK: u64 = 1 << 20;

/// Alignment of imported memory, which kernels expect of buffers.
const IMPORT_ALIGNMENT: usize = 64;

/// Memory of the host that is pinned, with its owner.
struct Imported {
    /// Dropped before the memory goes.
    _locked: LockedMemory,
    _owner: Arc<dyn std::any::Any + Send + Sync>,
}

/// The origin of a block: an agent, by its place among those of a device, and a class of memory.
type Origin = (usize, MemoryClass);

/// An allocator of the memory of some agents.
#[derive(Debug)]
pub struct AmdAllocator {
    /// At least one.
    agents: Vec<Arc<GpuAgent>>,
    /// The others that reach the memory of each.
    peers: Vec<Vec<Arc<GpuAgent>>>,
    /// Queues of each agent.
    queues: usize,
    /// Bytes of the device and of the host.
    counters: Arc<DeviceCounters>,
    blocks: Arc<DeviceBlocks<Origin, DeviceMemory>>,
    /// The budget that all memory is charged to. With one no memory is used again.
    budget: Option<MemoryBudget>,
    /// Whether memory is used again.
    recycles: bool,
    /// Whether buffers that are not transient begin as zeros.
    zeroes: bool,
}

impl AmdAllocator {
    /// An allocator for the agents of a device with these options. The first agent has the memory where nothing else is
    /// asked for.
    ///
    /// # Errors
    /// Those of the HSA library.
    pub fn new(agents: Vec<Arc<GpuAgent>>, options: &DeviceOptions) -> Result<AmdAllocator> {
        let reaches = |other: &Arc<GpuAgent>, agent: &GpuAgent| {
            Ok::<_, Status>(other.ordinal != agent.ordinal && other.link_to(agent)?.is_accessible)
        };
        let peers_of = |agent: &Arc<GpuAgent>| {
            let mut peers = Vec::new();
            for other in &agents {
                if reaches(other, agent)? {
                    peers.push(other.clone());
                }
            }
            Ok::<_, Status>(peers)
        };
        let peers = agents.iter().map(peers_of).collect::<Result<_>>()?;
        Ok(AmdAllocator {
            agents,
            peers,
            queues: options.queues.max(1),
            counters: Arc::default(),
            blocks: Arc::default(),
            budget: options.memory.clone(),
            recycles: options.memory.is_none() && !options.new_memory,
            // A policy for which memory has to be zeroed counts more than a sanitizer.
            zeroes: options.zeroed_transients || !options.new_memory,
        })
    }

    /// The agent whose memory a buffer is in: the first that its queues belong to, if queues belong to one.
    fn agent_index(&self, affinity: QueueAffinity) -> usize {
        let index = affinity.bits().trailing_zeros() as usize / self.queues;
        if affinity == QueueAffinity::ANY || index >= self.agents.len() { 0 } else { index }
    }

    fn agent(&self, affinity: QueueAffinity) -> &Arc<GpuAgent> {
        &self.agents[self.agent_index(affinity)]
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
        let class = AmdAllocator::class(agent, wanted, params.usage)?;
        let local = if agent.local_is_host_visible {
            MemoryType::DEVICE_LOCAL | MemoryType::HOST_VISIBLE
        } else {
            MemoryType::DEVICE_LOCAL
        };
        params.memory_type = match class {
            MemoryClass::DeviceLocal => local,
            MemoryClass::DeviceFine => local | MemoryType::HOST_COHERENT,
            MemoryClass::HostCoarse => MemoryType::HOST_VISIBLE | MemoryType::HOST_CACHED | MemoryType::DEVICE_VISIBLE,
            MemoryClass::HostFine | MemoryClass::Kernarg => MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE,
        };
        // Whether the host's accesses are cached is a wish: it costs time, and nothing else.
        let lacking = wanted - params.memory_type - MemoryType::OPTIMAL - MemoryType::HOST_CACHED;
        if !lacking.is_empty() && !wanted.contains(MemoryType::OPTIMAL) {
            let given = params.memory_type;
            let message = format!("{agent:?} has no memory that is {wanted:?}: {given:?} lacks {lacking:?}");
            return Err(Status::invalid_argument(message));
        }
        params.usage |= BufferUsage::TRANSFER;
        if agent.is_host_visible(class) {
            params.usage |= BufferUsage::MAPPING;
        }
        // While it is used, writes to coarse-grained memory of the host are seen too late.
        if agent.is_host_visible(class) && class != MemoryClass::HostCoarse {
            params.usage |= BufferUsage::MAPPING_PERSISTENT;
        }
        let alignment = agent.pool(class).alignment.max(64);
        if params.min_alignment > alignment || !params.min_alignment.max(1).is_power_of_two() {
            let asked = params.min_alignment;
            return Err(Status::invalid_argument(format!("alignment {asked}: memory is aligned to {alignment} bytes")));
        }
        params.min_alignment = alignment;
        Ok((class, params))
    }

    /// The class of memory for a buffer of an agent.
    fn class(agent: &GpuAgent, wanted: MemoryType, usage: BufferUsage) -> Result<MemoryClass> {
        let missing = |why: &str| {
            if wanted.contains(MemoryType::OPTIMAL) {
                return Ok(MemoryClass::HostFine);
            }
            Err(Status::invalid_argument(format!("{why} the memory of {agent:?}, so there is none that is {wanted:?}")))
        };
        if wanted.contains(MemoryType::HOST_LOCAL) {
            return Ok(MemoryClass::HostFine);
        }
        let maps = usage.intersects(BufferUsage::MAPPING_SCOPED | BufferUsage::MAPPING_PERSISTENT)
            && !usage.contains(BufferUsage::MAPPING_OPTIONAL);
        let (is_local, is_coherent) =
            (wanted.contains(MemoryType::DEVICE_LOCAL), wanted.contains(MemoryType::HOST_COHERENT));
        if is_local && is_coherent {
            let published = matches!(agent.publication, Publication::Coherent);
            if agent.local_is_host_visible && published && agent.fine.is_some() {
                return Ok(MemoryClass::DeviceFine);
            }
            return missing("the host is not coherent with");
        }
        if is_coherent {
            return Ok(MemoryClass::HostFine);
        }
        let for_host = wanted.contains(MemoryType::HOST_VISIBLE) || maps;
        if for_host && wanted.contains(MemoryType::HOST_CACHED) && !is_local {
            let scoped = !usage.contains(BufferUsage::MAPPING_PERSISTENT);
            let is_coarse = scoped && agent.host.coarse.is_some();
            return Ok(if is_coarse { MemoryClass::HostCoarse } else { MemoryClass::HostFine });
        }
        if for_host && !agent.local_is_host_visible {
            return if is_local && !maps { missing("the host does not reach") } else { Ok(MemoryClass::HostFine) };
        }
        Ok(MemoryClass::DeviceLocal)
    }

    /// Fills new memory with zeros.
    fn zero(&self, agent: &GpuAgent, is_of_device: bool, memory: &DeviceMemory, length: u64) -> Result<()> {
        // SAFETY: allocations begin and end on pages, and nothing else uses this one yet.
        if is_of_device && unsafe { agent.hsa().zero(memory.address, length.div_ceil(4)) }? {
            return Ok(());
        }
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

    /// Memory of a class for the agent with this index, with any contents: an earlier buffer may have had it.
    fn acquire(&self, (index, class): (usize, MemoryClass), length: u64) -> Result<DeviceMemory> {
        let (agent, peers) = (&self.agents[index], &self.peers[index]);
        let bytes = length.saturating_add(OBJECT_BYTES);
        let charge = Charge::new(self.budget.as_ref(), bytes, "a buffer of a device")?;
        // All agents reach the memory of the host.
        let peers = if class.is_of_device() { peers } else { &self.agents };
        let options = (self.recycles, charge);
        let memory =
            self.blocks.acquire((index, class), length.max(1), options, || agent.allocate(class, length, peers))?;
        let is_host = !class.is_of_device();
        let owner = self.counters.count(is_host, length, memory.owner.clone());
        Ok(DeviceMemory { owner, ..memory })
    }

    /// A buffer, with zeros in it or with what an earlier one has left.
    fn buffer(&self, params: BufferParams, length: u64, zeroed: bool) -> Result<DeviceBuffer> {
        let (class, params) = self.place(params)?;
        let index = self.agent_index(params.queue_affinity);
        let memory = self.acquire((index, class), length)?;
        if zeroed {
            self.zero(&self.agents[index], class.is_of_device(), &memory, length)?;
        }
        // SAFETY: the block has that many bytes, and only this buffer and what refers to it use them while its owner is
        // held.
        Ok(unsafe { DeviceBuffer::new(memory, length, params.memory_type, params.access, params.usage) })
    }
}

impl DeviceAllocator for AmdAllocator {
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
impl StagingAllocator for AmdAllocator {
    fn staging_memory(&self, affinity: QueueAffinity, length: u64) -> Result<Arc<dyn Buffer>> {
        let memory = self.acquire((self.agent_index(affinity), MemoryClass::HostCoarse), length)?;
        let memory_type = MemoryType::HOST_VISIBLE | MemoryType::HOST_CACHED | MemoryType::DEVICE_VISIBLE;
        let usage = BufferUsage::TRANSFER | BufferUsage::MAPPING;
        // SAFETY: the block has `length` bytes, and only this buffer and what refers to it use them while its owner is
        // held.
        Ok(Arc::new(unsafe { DeviceBuffer::new(memory, length, memory_type, MemoryAccess::ALL, usage) }))
    }
}

impl SlabAllocator for AmdAllocator {
    type Memory = DeviceMemory;

    fn slab(&self, queue_affinity: QueueAffinity, length: u64) -> Result<DeviceMemory> {
        self.acquire((self.agent_index(queue_affinity), MemoryClass::DeviceLocal), length)
    }
}

impl Allocator for AmdAllocator {
    fn trim(&self) -> Result<()> {
        self.blocks.trim();
        Ok(())
    }

    fn statistics(&self) -> AllocatorStatistics {
        self.counters.statistics()
    }

    fn memory_heaps(&self) -> Vec<MemoryHeap> {
        let agent = &self.agents[0];
        let heap = |class: MemoryClass, memory_type: MemoryType| MemoryHeap {
            memory_type,
            allowed_usage: BufferUsage::all(),
            max_allocation_size: agent.pool(class).max_size,
            min_alignment: agent.pool(class).alignment.max(64),
        };
        let wanted = [
            MemoryType::DEVICE_LOCAL,
            MemoryType::DEVICE_LOCAL | MemoryType::HOST_COHERENT | MemoryType::HOST_VISIBLE,
            MemoryType::HOST_LOCAL,
            MemoryType::HOST_VISIBLE | MemoryType::HOST_CACHED,
        ];
        let mut heaps: Vec<MemoryHeap> = Vec::new();
        for memory_type in wanted {
            // Kinds that the agent does not have are another one's, or none.
            let Ok((class, params)) = self.place(BufferParams { memory_type, ..BufferParams::default() }) else {
                continue;
            };
            if heaps.iter().all(|known| known.memory_type != params.memory_type) {
                heaps.push(heap(class, params.memory_type));
            }
        }
        heaps
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
        if !class.is_of_device() {
            compatibility |= BufferCompatibility::IMPORTABLE | BufferCompatibility::LOW_PERFORMANCE;
        }
        BufferPlacement { compatibility, params, allocation_size }
    }

    fn allocate_buffer(&self, params: BufferParams, allocation_size: u64) -> Result<Arc<dyn Buffer>> {
        DeviceAllocator::allocate(self, params, allocation_size, self.zeroes)
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
        let mut agents: Vec<_> = self.agents.iter().map(|agent| agent.agent).collect();
        let hsa = self.agents[0].hsa();
        // SAFETY: the caller guarantees that the memory stays as long as its owner, which is held with the lock.
        let locked = unsafe { hsa.lock(external.data, external.size.max(1), &mut agents) }.map_err(|status| {
            Status::new(StatusCode::Unavailable, "the memory cannot be pinned").with_source(status)
        })?;
        let address = locked.address;
        let owner = Arc::new(Imported { _locked: locked, _owner: external.owner.clone() });
        let host: Option<NonNull<u8>> = Some(external.data);
        let reached_by = self.agents.iter().fold(AgentMask(0), |mask, agent| mask | agent.mask());
        let (length, publication) = (external.size, Publication::Coherent);
        let memory = DeviceMemory { address, length, host, publication, reached_by, owner };
        // SAFETY: the caller guarantees that the memory has `external.size` bytes as long as its owner, which the
        // buffer holds, and that no Rust reference to them exists.
        let buffer =
            unsafe { DeviceBuffer::new(memory, external.size, params.memory_type, params.access, params.usage) };
        Ok(Arc::new(buffer))
    }
}
