//! Agents with their instruction sets and memory pools, and the attributes of all of them, as bytes for queries.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use vireo_hsa::code_object::INSTRUCTION_SET_PREFIX;
use vireo_hsa::hsa::{
    Agent as AgentHandle, AgentInfo, AgentMemoryPoolInfo, DefaultFloatRoundingMode, DeviceType, HdpFlush, HsaStatus,
    Isa, IsaInfo, LinkInfo, LinkType, MemoryPool, MemoryPoolAccess, MemoryPoolFlags, MemoryPoolInfo, MemoryPoolSegment,
    Profile, RegionInfo,
};
use vireo_hsa::queue::{QueueFeatures, QueueType};
use vireo_soft::clock;
use vireo_soft::memory::GRANULE;

use crate::status::Result;
use crate::topology::{Feature, PeerLinks, Topology};

/// The upper halves of handles, by the kind of what they name; the lower half is an index.
const AGENTS: u64 = 0xa6e7 << 32;
const ISAS: u64 = 0x15a0 << 32;
const POOLS: u64 = 0x9001 << 32;

/// Pools of an agent at most.
const POOLS_OF_AGENT: u64 = 16;

/// Work-items of a work-group at most.
pub(crate) const MAX_WORKGROUP_SIZE: u32 = 1024;

/// Bytes of memory of a work-group at most.
pub(crate) const MAX_GROUP_MEMORY: u32 = 64 << 10;

/// Packets of a queue at least.
pub(crate) const MIN_QUEUE_SIZE: u32 = 16;

/// Bytes of a unique name with the zero at its end.
const UUID_BYTES: usize = 21;

/// `HSA_MACHINE_MODEL_LARGE`: addresses of 64 bits.
pub(crate) const LARGE_MODEL: u32 = 1;

/// A memory pool.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) handle: MemoryPool,
    /// The index of its agent.
    pub(crate) agent: u32,
    segment: MemoryPoolSegment,
    pub(crate) flags: MemoryPoolFlags,
    size: u64,
    /// Lengths are asked for in multiples of it.
    granule: u64,
    /// Bytes that are allocated; pools of one agent share its memory.
    pub(crate) used: Arc<AtomicU64>,
}

impl Pool {
    /// Whether it can be allocated from: memory of work-groups cannot.
    pub(crate) fn allocates(&self) -> bool {
        self.segment == MemoryPoolSegment::GLOBAL
    }

    /// Takes bytes from the memory of its agent, which [`Pool::release`] gives back.
    pub(crate) fn charge(&self, bytes: u64) -> Result<()> {
        let take = |used: u64| used.checked_add(bytes).filter(|used| *used <= self.size);
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.map(|_| ()).map_err(|_| HsaStatus::ERROR_OUT_OF_RESOURCES)
    }

    /// Gives bytes back.
    pub(crate) fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// An attribute.
    pub(crate) fn info(&self, attribute: MemoryPoolInfo) -> Result<Vec<u8>> {
        let [granule, alignment] = if self.allocates() { [self.granule, GRANULE] } else { [0, 0] };
        Ok(match attribute {
            MemoryPoolInfo::SEGMENT => bytes(self.segment.0),
            MemoryPoolInfo::GLOBAL_FLAGS => bytes(self.flags.0),
            MemoryPoolInfo::SIZE | MemoryPoolInfo::ALLOC_MAX_SIZE => self.size.to_ne_bytes().to_vec(),
            MemoryPoolInfo::RUNTIME_ALLOC_ALLOWED => vec![self.allocates().into()],
            MemoryPoolInfo::RUNTIME_ALLOC_ALIGNMENT => alignment.to_ne_bytes().to_vec(),
            MemoryPoolInfo::RUNTIME_ALLOC_GRANULE => granule.to_ne_bytes().to_vec(),
            MemoryPoolInfo::RUNTIME_ALLOC_REC_GRANULE => alignment.to_ne_bytes().to_vec(),
            MemoryPoolInfo::LOCATION => bytes(u32::from(self.agent != 0)),
            MemoryPoolInfo::ACCESSIBLE_BY_ALL => vec![(self.agent == 0).into()],
            _ => return Err(HsaStatus::ERROR_INVALID_ARGUMENT),
        })
    }

    /// An attribute of the region that is this pool for programs of the specification without pools.
    pub(crate) fn region_info(&self, attribute: RegionInfo) -> Result<Vec<u8>> {
        match attribute {
            // The segments of both have the same numbers, as far as pools have them.
            RegionInfo::SEGMENT => self.info(MemoryPoolInfo::SEGMENT),
            RegionInfo::GLOBAL_FLAGS => self.info(MemoryPoolInfo::GLOBAL_FLAGS),
            RegionInfo::SIZE => self.info(MemoryPoolInfo::SIZE),
            RegionInfo::ALLOC_MAX_SIZE => Ok((if self.allocates() { self.size } else { 0 }).to_ne_bytes().to_vec()),
            RegionInfo::RUNTIME_ALLOC_ALLOWED => self.info(MemoryPoolInfo::RUNTIME_ALLOC_ALLOWED),
            RegionInfo::RUNTIME_ALLOC_GRANULE => self.info(MemoryPoolInfo::RUNTIME_ALLOC_GRANULE),
            RegionInfo::RUNTIME_ALLOC_ALIGNMENT => self.info(MemoryPoolInfo::RUNTIME_ALLOC_ALIGNMENT),
            RegionInfo::ALLOC_MAX_PRIVATE_WORKGROUP_SIZE => Ok(bytes(MAX_GROUP_MEMORY)),
            _ => Err(HsaStatus::ERROR_INVALID_ARGUMENT),
        }
    }
}

/// An agent: the processor, whose index is 0, or a GPU.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) index: u32,
    pub(crate) pools: Vec<Pool>,
    /// The registers that publish writes of the host, at addresses that programs get.
    pub(crate) flush: Arc<[AtomicU32; 2]>,
    /// Held while a queue does what the register asks for: another queue begins its packet after that.
    pub(crate) flushing: Mutex<()>,
    /// Queues that are there.
    pub(crate) queues: AtomicU32,
}

/// An attribute of 32 bits.
fn bytes(value: u32) -> Vec<u8> {
    value.to_ne_bytes().to_vec()
}

/// A text in a field of 64 characters.
fn name(text: &str) -> Vec<u8> {
    let mut field = text.as_bytes().to_vec();
    field.truncate(63);
    field.resize(64, 0);
    field
}

/// A mask with a bit for each extension.
pub(crate) fn extensions(numbers: &[u16]) -> Vec<u8> {
    let mut mask = vec![0; 128];
    for number in numbers {
        if let Some(byte) = mask.get_mut(usize::from(number / 8)) {
            *byte |= 1 << (number % 8);
        }
    }
    mask
}

impl Agent {
    /// The agent with this index of a machine.
    pub(crate) fn new(index: u32, topology: &Topology) -> Self {
        let flags = |kernarg, fine| {
            MemoryPoolFlags(0).with_kernarg_init(kernarg).with_fine_grained(fine).with_coarse_grained(!fine)
        };
        let (global, group) = (MemoryPoolSegment::GLOBAL, MemoryPoolSegment::GROUP);
        let memory = if index == 0 { topology.host_memory } else { topology.memory };
        let group_memory = u64::from(MAX_GROUP_MEMORY);
        let mut pools = Vec::new();
        if index == 0 {
            pools.extend([(global, flags(false, true), memory), (global, flags(true, true), memory)]);
            pools.push((global, flags(false, false), memory));
        } else {
            pools.push((global, flags(false, false), memory));
            if topology.has(Feature::FineGrained) {
                pools.push((global, flags(false, true), memory));
            }
            pools.push((group, MemoryPoolFlags(0), group_memory));
        }
        let used = Arc::new(AtomicU64::new(0));
        let pools = pools.into_iter().enumerate().map(|(number, (segment, flags, size))| Pool {
            handle: MemoryPool(POOLS + u64::from(index) * POOLS_OF_AGENT + number as u64),
            agent: index,
            segment,
            flags,
            size,
            // Drivers that round to what they are told would hide the end of a buffer from the sanitizer.
            granule: if topology.sanitize.memory { 1 } else { GRANULE },
            used: used.clone(),
        });
        Agent {
            index,
            pools: pools.collect(),
            flush: Arc::default(),
            flushing: Mutex::default(),
            queues: AtomicU32::new(0),
        }
    }

    pub(crate) fn handle(&self) -> AgentHandle {
        AgentHandle(AGENTS + u64::from(self.index))
    }

    /// The index that a handle names; there may be no such agent.
    pub(crate) fn index_of(handle: AgentHandle) -> Option<usize> {
        handle.0.checked_sub(AGENTS).and_then(|index| usize::try_from(index).ok())
    }

    /// The indices of the agent and of the pool that a handle names; there may be no such pool.
    pub(crate) fn pool_of(handle: MemoryPool) -> Option<(usize, usize)> {
        let index = handle.0.checked_sub(POOLS)?;
        Some(((index / POOLS_OF_AGENT).try_into().ok()?, (index % POOLS_OF_AGENT).try_into().ok()?))
    }

    pub(crate) fn is_gpu(&self) -> bool {
        self.index != 0
    }

    /// The instruction set; the processor has none that kernels could be in.
    pub(crate) fn isa(&self) -> Isa {
        Isa(if self.is_gpu() { ISAS + u64::from(self.index) } else { 0 })
    }

    /// The index of the agent whose instruction set this is.
    pub(crate) fn index_of_isa(isa: Isa) -> Option<usize> {
        isa.0.checked_sub(ISAS).filter(|index| *index != 0).and_then(|index| usize::try_from(index).ok())
    }

    /// Addresses of the registers that publish writes of the host.
    pub(crate) fn flush_addresses(&self) -> [u64; 2] {
        [0, 1].map(|register: usize| self.flush[register].as_ptr().expose_provenance() as u64)
    }

    /// An attribute.
    pub(crate) fn info(&self, attribute: AgentInfo, topology: &Topology) -> Result<Vec<u8>> {
        let gpu = self.is_gpu();
        let for_gpu = |value: u32| bytes(if gpu { value } else { 0 });
        let near = DefaultFloatRoundingMode::NEAR.0;
        Ok(match attribute {
            AgentInfo::NAME => name(if gpu { &topology.isa } else { std::env::consts::ARCH }),
            AgentInfo::VENDOR_NAME => name(if gpu { "AMD" } else { "CPU" }),
            AgentInfo::PRODUCT_NAME => name(if gpu { "Vireo software agent" } else { "Host" }),
            AgentInfo::FEATURE => for_gpu(QueueFeatures(0).with_kernel_dispatch(true).0),
            AgentInfo::MACHINE_MODEL => bytes(LARGE_MODEL),
            AgentInfo::PROFILE => bytes(if gpu { Profile::BASE.0 } else { Profile::FULL.0 }),
            AgentInfo::DEFAULT_FLOAT_ROUNDING_MODE | AgentInfo::BASE_PROFILE_DEFAULT_FLOAT_ROUNDING_MODES => {
                for_gpu(near)
            }
            AgentInfo::FAST_F16_OPERATION => vec![gpu.into()],
            AgentInfo::WAVEFRONT_SIZE => for_gpu(topology.wave_size()),
            AgentInfo::WORKGROUP_MAX_DIM => max_workgroup(gpu),
            AgentInfo::WORKGROUP_MAX_SIZE => for_gpu(MAX_WORKGROUP_SIZE),
            AgentInfo::GRID_MAX_DIM => for_gpu(u32::MAX).repeat(3),
            AgentInfo::GRID_MAX_SIZE => for_gpu(u32::MAX),
            AgentInfo::FBARRIER_MAX_SIZE => bytes(0),
            AgentInfo::QUEUES_MAX => for_gpu(topology.queues),
            AgentInfo::QUEUE_MIN_SIZE => for_gpu(MIN_QUEUE_SIZE),
            AgentInfo::QUEUE_MAX_SIZE => for_gpu(topology.queue_size),
            AgentInfo::QUEUE_TYPE => bytes(QueueType::MULTI.0),
            AgentInfo::NODE | AgentInfo::DRIVER_NODE_ID => bytes(self.index),
            AgentInfo::DEVICE => bytes(if gpu { DeviceType::GPU.0 } else { DeviceType::CPU.0 }),
            AgentInfo::CACHE_SIZE => vec![0; 16],
            AgentInfo::ISA => self.isa().0.to_ne_bytes().to_vec(),
            AgentInfo::EXTENSIONS => extensions(&[]),
            AgentInfo::VERSION_MAJOR | AgentInfo::VERSION_MINOR => 1u16.to_ne_bytes().to_vec(),
            AgentInfo::COMPUTE_UNIT_COUNT if !gpu => bytes(
                std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX)),
            ),
            AgentInfo::COMPUTE_UNIT_COUNT => bytes(topology.compute_units),
            AgentInfo::CACHELINE_SIZE => bytes(64),
            AgentInfo::BDFID => bytes(self.index << 8),
            AgentInfo::MAX_WAVES_PER_CU => for_gpu(MAX_WORKGROUP_SIZE / topology.wave_size()),
            AgentInfo::NUM_SIMDS_PER_CU | AgentInfo::NUM_SHADER_ENGINES | AgentInfo::NUM_SHADER_ARRAYS_PER_SE => {
                for_gpu(1)
            }
            AgentInfo::HDP_FLUSH if gpu => {
                let [mem_flush, reg_flush] = if topology.has(Feature::Hdp) { self.flush_addresses() } else { [0, 0] };
                HdpFlush { mem_flush, reg_flush }.to_bytes().to_vec()
            }
            // There are no clocks, buses, watch points or revisions to tell of.
            AgentInfo::CHIP_ID
            | AgentInfo::MAX_CLOCK_FREQUENCY
            | AgentInfo::MAX_ADDRESS_WATCH_POINTS
            | AgentInfo::MEMORY_WIDTH
            | AgentInfo::MEMORY_MAX_FREQUENCY
            | AgentInfo::DOMAIN
            | AgentInfo::ASIC_REVISION
            | AgentInfo::COOPERATIVE_COMPUTE_UNIT_COUNT => bytes(0),
            AgentInfo::NUM_SDMA_ENG | AgentInfo::NUM_SDMA_XGMI_ENG | AgentInfo::IOMMU_SUPPORT => bytes(0),
            AgentInfo::NUM_XCC => for_gpu(1),
            AgentInfo::DRIVER_UID => bytes(self.index),
            AgentInfo::NEAREST_CPU => AgentHandle(AGENTS).0.to_ne_bytes().to_vec(),
            AgentInfo::MEMORY_PROPERTIES | AgentInfo::AQL_EXTENSIONS => vec![0; 8],
            AgentInfo::TIMESTAMP_FREQUENCY => clock::FREQUENCY.to_ne_bytes().to_vec(),
            AgentInfo::MEMORY_AVAIL => {
                let free = self.pools.first().map_or(0, |pool| pool.size - pool.used.load(Ordering::Relaxed));
                free.to_ne_bytes().to_vec()
            }
            AgentInfo::COOPERATIVE_QUEUES => vec![0],
            AgentInfo::SVM_DIRECT_HOST_ACCESS => vec![(gpu && topology.has(Feature::LargeBar)).into()],
            AgentInfo::UUID => {
                let mut text = if gpu { format!("GPU-{:016x}", self.index) } else { "CPU-XX".to_string() }.into_bytes();
                text.resize(UUID_BYTES, 0);
                text
            }
            _ => return Err(HsaStatus::ERROR_INVALID_ARGUMENT),
        })
    }

    /// The name of the instruction set.
    pub(crate) fn isa_name(topology: &Topology) -> String {
        format!("{INSTRUCTION_SET_PREFIX}{}", topology.isa)
    }

    /// An attribute of the instruction set.
    pub(crate) fn isa_info(attribute: IsaInfo, topology: &Topology) -> Result<Vec<u8>> {
        let text = Self::isa_name(topology);
        Ok(match attribute {
            // Both count the zero at the end.
            IsaInfo::NAME_LENGTH => bytes(text.len() as u32 + 1),
            IsaInfo::NAME => [text.as_bytes(), &[0]].concat(),
            IsaInfo::CALL_CONVENTION_COUNT => bytes(1),
            IsaInfo::MACHINE_MODELS => vec![0, 1],
            IsaInfo::PROFILES => vec![1, 0],
            IsaInfo::DEFAULT_FLOAT_ROUNDING_MODES | IsaInfo::BASE_PROFILE_DEFAULT_FLOAT_ROUNDING_MODES => vec![0, 0, 1],
            IsaInfo::FAST_F16_OPERATION => vec![1],
            IsaInfo::WORKGROUP_MAX_DIM => max_workgroup(true),
            IsaInfo::WORKGROUP_MAX_SIZE => bytes(MAX_WORKGROUP_SIZE),
            IsaInfo::GRID_MAX_DIM => bytes(u32::MAX).repeat(3),
            IsaInfo::GRID_MAX_SIZE => u64::from(u32::MAX).to_ne_bytes().to_vec(),
            IsaInfo::FBARRIER_MAX_SIZE => bytes(0),
            _ => return Err(HsaStatus::ERROR_INVALID_ARGUMENT),
        })
    }

    /// The access that this agent may have to a pool.
    pub(crate) fn access(&self, pool: &Pool, topology: &Topology) -> MemoryPoolAccess {
        let reachable = match (self.index, pool.agent) {
            _ if !pool.allocates() => self.index == pool.agent,
            (_, 0) => true,
            (0, _) => topology.has(Feature::LargeBar),
            (own, other) => own == other || topology.has(Feature::Peers),
        };
        match reachable {
            false => MemoryPoolAccess::NEVER_ALLOWED,
            true if self.index == pool.agent => MemoryPoolAccess::ALLOWED_BY_DEFAULT,
            true => MemoryPoolAccess::DISALLOWED_BY_DEFAULT,
        }
    }

    /// An attribute of a pool for this agent.
    pub(crate) fn pool_info(
        &self,
        pool: &Pool,
        attribute: AgentMemoryPoolInfo,
        topology: &Topology,
    ) -> Result<Vec<u8>> {
        let access = self.access(pool, topology);
        let hops = u32::from(access == MemoryPoolAccess::DISALLOWED_BY_DEFAULT);
        match attribute {
            AgentMemoryPoolInfo::ACCESS => Ok(bytes(access.0)),
            AgentMemoryPoolInfo::NUM_LINK_HOPS => Ok(bytes(hops)),
            AgentMemoryPoolInfo::LINK_INFO => {
                let mut link = LinkInfo::default();
                link.atomic_support_32bit.0 = topology.has(Feature::Atomics).into();
                link.atomic_support_64bit.0 = topology.has(Feature::Atomics).into();
                link.coherent_support.0 = topology.has(Feature::Coherency).into();
                let is_xgmi = topology.peer_links == PeerLinks::Xgmi && self.is_gpu() && pool.agent != 0;
                (link.link_type, link.numa_distance) =
                    if is_xgmi { (LinkType::XGMI, 15) } else { (LinkType::PCIE, 20) };
                Ok(link.to_bytes().repeat(hops as usize))
            }
            _ => Err(HsaStatus::ERROR_INVALID_ARGUMENT),
        }
    }
}

/// Work-items of a work-group along each dimension at most.
fn max_workgroup(gpu: bool) -> Vec<u8> {
    let size = if gpu { MAX_WORKGROUP_SIZE as u16 } else { 0 };
    size.to_ne_bytes().repeat(3)
}
