//! Agents: the GPUs and processors that the HSA library knows ([`System`]), the memory pools of each by class, and what is known of the links
//! between them. Drivers make devices of one or several of them.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use vireo_hsa::hsa::{
    Agent, AgentInfo, AgentMemoryPoolInfo, DeviceType, HdpFlush, LinkInfo, MemoryPool, MemoryPoolAccess,
    MemoryPoolFlags, MemoryPoolInfo, MemoryPoolSegment,
};

use crate::memory::{DeviceMemory, HdpRegister, Publication};
use crate::status::{Result, Status, StatusCode};
use crate::symbols::Hsa;
use crate::target::TargetId;

/// Most links between an agent and a pool that are described.
const MAX_LINKS: usize = 8;

/// A class of memory, by what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryClass {
    /// Memory of the GPU for its kernels alone. The host reaches it only where the link lets it.
    DeviceLocal,
    /// Memory of the host that GPUs see each write of while kernels run.
    HostFine,
    /// Memory of the host that GPUs see writes of between kernels.
    HostCoarse,
    /// Memory of the host for arguments of kernels.
    Kernarg,
}

/// A memory pool.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    pool: MemoryPool,
    /// Allocations are multiples of this.
    granule: u64,
    /// Allocations are aligned to this.
    pub alignment: u64,
    /// Most bytes of an allocation.
    pub max_size: u64,
    flags: MemoryPoolFlags,
}

/// The link between an agent and the memory of another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Whether the agent may access the memory at all.
    pub is_accessible: bool,
    /// Whether it may without being allowed to.
    pub by_default: bool,
    /// The kind of each hop, as the HSA library numbers it: 2 is PCI Express, 4 is xGMI.
    pub hops: Vec<u32>,
    /// Distance of the memory nodes; 0 if that is not known.
    pub numa_distance: u32,
    /// Whether all hops are coherent.
    pub is_coherent: bool,
    /// Whether all hops have atomic operations of 64 bits.
    pub has_atomics: bool,
}

/// A GPU.
pub struct GpuAgent {
    hsa: Arc<Hsa>,
    /// Its handle.
    pub agent: Agent,
    /// Its place among the visible GPUs.
    pub ordinal: usize,
    /// The name of the product.
    pub product: String,
    /// Its unique name, `GPU-...`.
    pub uuid: String,
    /// Its target.
    pub target: TargetId,
    /// Its compute units.
    pub compute_units: u32,
    /// Its memory node.
    pub node: u32,
    /// Most packets of a queue.
    pub queue_max_size: u32,
    /// Its own memory.
    pub local: Pool,
    /// Whether the host reaches its memory.
    pub local_is_host_visible: bool,
    /// How writes of the host to its memory become visible.
    pub publication: Publication,
    /// The memory of the nearest processor.
    pub host: HostPools,
    /// The link to that memory.
    pub host_link: Link,
}

/// The pools of a processor.
#[derive(Clone, Copy, Debug)]
pub struct HostPools {
    /// The processor.
    pub agent: Agent,
    /// Memory that all see each write of.
    pub fine: Pool,
    /// Memory that is coherent between kernels.
    pub coarse: Option<Pool>,
    /// Memory for arguments.
    pub kernarg: Pool,
}

impl fmt::Debug for GpuAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "agent {} ({}, {})", self.ordinal, self.target, self.product)
    }
}

/// What the HSA library knows.
#[derive(Debug)]
pub struct System {
    /// The library.
    pub hsa: Arc<Hsa>,
    /// The GPUs that can run kernels, in the order of the library.
    pub gpus: Vec<Arc<GpuAgent>>,
    /// The links from each GPU (row) to the memory of each (column).
    pub links: Vec<Vec<Link>>,
}

impl System {
    /// Finds the agents.
    ///
    /// # Errors
    /// UNAVAILABLE if there is no processor with the memory that queues need, or an agent is of an unknown target.
    pub fn discover(hsa: &Arc<Hsa>) -> Result<System> {
        let (mut hosts, mut agents) = (Vec::new(), Vec::new());
        for agent in hsa.agents()? {
            // SAFETY: the attribute is a `u32`.
            match DeviceType(unsafe { hsa.agent_info(agent, AgentInfo::DEVICE) }?) {
                DeviceType::CPU => hosts.push((agent, node(hsa, agent)?)),
                DeviceType::GPU => agents.push(agent),
                _ => {}
            }
        }
        let mut gpus = Vec::new();
        for agent in agents {
            let node = node(hsa, agent)?;
            // The processor on the same node, or else the first.
            let host = hosts.iter().find(|(_, other)| *other == node).or(hosts.first());
            let host = host.ok_or_else(|| unavailable("the HSA library knows no processor".to_string()))?.0;
            gpus.push(Arc::new(GpuAgent::describe(hsa, agent, gpus.len(), node, host)?));
        }
        let links = gpus.iter().map(|from| gpus.iter().map(|to| link(hsa, from.agent, &to.local)).collect());
        let links = links.collect::<Result<_>>()?;
        Ok(System { hsa: hsa.clone(), gpus, links })
    }
}

fn unavailable(message: String) -> Status {
    Status::new(StatusCode::Unavailable, message)
}

fn node(hsa: &Hsa, agent: Agent) -> Result<u32> {
    // SAFETY: the attribute is a `u32`.
    unsafe { hsa.agent_info(agent, AgentInfo::NODE) }
}

/// The pools of an agent that can be allocated from.
fn pools(hsa: &Hsa, agent: Agent) -> Result<Vec<Pool>> {
    let mut pools = Vec::new();
    for pool in hsa.pools(agent)? {
        // SAFETY: the attributes are a `u32`, a `bool`, a `u32` and three `u64`.
        let (segment, allowed, flags, granule, alignment, max_size) = unsafe {
            (
                hsa.pool_info::<u32>(pool, MemoryPoolInfo::SEGMENT)?,
                hsa.pool_info::<u8>(pool, MemoryPoolInfo::RUNTIME_ALLOC_ALLOWED)?,
                hsa.pool_info::<u32>(pool, MemoryPoolInfo::GLOBAL_FLAGS)?,
                hsa.pool_info::<u64>(pool, MemoryPoolInfo::RUNTIME_ALLOC_GRANULE)?,
                hsa.pool_info::<u64>(pool, MemoryPoolInfo::RUNTIME_ALLOC_ALIGNMENT)?,
                hsa.pool_info::<u64>(pool, MemoryPoolInfo::ALLOC_MAX_SIZE)?,
            )
        };
        if MemoryPoolSegment(segment) == MemoryPoolSegment::GLOBAL && allowed != 0 {
            let (granule, flags) = (granule.max(1), MemoryPoolFlags(flags));
            pools.push(Pool { pool, granule, alignment, max_size, flags });
        }
    }
    Ok(pools)
}

/// What is known of the way from an agent to a pool.
fn link(hsa: &Hsa, agent: Agent, pool: &Pool) -> Result<Link> {
    // SAFETY: the attributes are two `u32`.
    let (access, hops) = unsafe {
        (
            hsa.agent_pool_info::<u32>(agent, pool.pool, AgentMemoryPoolInfo::ACCESS)?,
            hsa.agent_pool_info::<u32>(agent, pool.pool, AgentMemoryPoolInfo::NUM_LINK_HOPS)?,
        )
    };
    let access = MemoryPoolAccess(access);
    let mut link = Link {
        is_accessible: access != MemoryPoolAccess::NEVER_ALLOWED,
        by_default: access == MemoryPoolAccess::ALLOWED_BY_DEFAULT,
        is_coherent: true,
        has_atomics: true,
        ..Link::default()
    };
    if hops == 0 || hops as usize > MAX_LINKS {
        return Ok(link);
    }
    /// As many as are read.
    type Hops = [[u64; LinkInfo::SIZE / 8 + 1]; MAX_LINKS];
    const { assert!(LinkInfo::SIZE * MAX_LINKS <= size_of::<Hops>()) };
    // SAFETY: the attribute is a list of as many descriptions as there are hops, which has room.
    let words = unsafe { hsa.agent_pool_info::<Hops>(agent, pool.pool, AgentMemoryPoolInfo::LINK_INFO) }?;
    let bytes: Vec<u8> = words.iter().flatten().flat_map(|word| word.to_ne_bytes()).collect();
    for bytes in bytes.as_chunks::<{ LinkInfo::SIZE }>().0.iter().take(hops as usize) {
        let hop = LinkInfo::read(bytes);
        link.hops.push(hop.link_type);
        link.numa_distance = link.numa_distance.max(hop.numa_distance);
        link.is_coherent &= hop.coherent_support.0 != 0;
        link.has_atomics &= hop.atomic_support_64bit.0 != 0;
    }
    Ok(link)
}

impl GpuAgent {
    fn describe(hsa: &Arc<Hsa>, agent: Agent, ordinal: usize, node: u32, host: Agent) -> Result<GpuAgent> {
        let names = hsa.isa_names(agent)?;
        let name = names.first().ok_or_else(|| unavailable(format!("agent {ordinal} has no instruction set")))?;
        let target = TargetId::parse(name).map_err(|error| unavailable(format!("agent {ordinal}: {error}")))?;
        let missing = |what: &str| unavailable(format!("agent {ordinal} ({target}): there is no memory {what}"));
        let own = pools(hsa, agent)?;
        let local = own.iter().find(|pool| pool.flags.coarse_grained()).or(own.first());
        let local = *local.ok_or_else(|| missing("of its own"))?;
        let of_host = pools(hsa, host)?;
        let find = |test: &dyn Fn(MemoryPoolFlags) -> bool| of_host.iter().find(|pool| test(pool.flags)).copied();
        let kernarg = find(&|flags| flags.kernarg_init()).ok_or_else(|| missing("for arguments"))?;
        let fine = find(&|flags| flags.fine_grained() && !flags.kernarg_init()).unwrap_or(kernarg);
        let coarse = find(&|flags| flags.coarse_grained());
        let local_is_host_visible = link(hsa, host, &local)?.is_accessible;
        // SAFETY: the attributes are a `u32` each.
        let (compute_units, queue_max_size) = unsafe {
            (hsa.agent_info(agent, AgentInfo::COMPUTE_UNIT_COUNT)?, hsa.agent_info(agent, AgentInfo::QUEUE_MAX_SIZE)?)
        };
        Ok(GpuAgent {
            hsa: hsa.clone(),
            agent,
            ordinal,
            product: hsa.agent_text(agent, AgentInfo::PRODUCT_NAME)?,
            // Older libraries do not know it.
            uuid: hsa.agent_text(agent, AgentInfo::UUID).unwrap_or_default(),
            target,
            compute_units,
            node,
            queue_max_size,
            local,
            local_is_host_visible,
            publication: publication(hsa, agent),
            host: HostPools { agent: host, fine, coarse, kernarg },
            host_link: link(hsa, agent, &fine)?,
        })
    }

    /// The library.
    pub fn hsa(&self) -> &Arc<Hsa> {
        &self.hsa
    }

    /// The pool of a class.
    pub fn pool(&self, class: MemoryClass) -> &Pool {
        match class {
            MemoryClass::DeviceLocal => &self.local,
            MemoryClass::HostFine => &self.host.fine,
            MemoryClass::HostCoarse => self.host.coarse.as_ref().unwrap_or(&self.host.fine),
            MemoryClass::Kernarg => &self.host.kernarg,
        }
    }

    /// Whether the host reaches memory of a class.
    pub fn is_host_visible(&self, class: MemoryClass) -> bool {
        class != MemoryClass::DeviceLocal || self.local_is_host_visible
    }

    /// Allocates `length` bytes that this agent and `peers` reach. Their contents are undefined.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if there are not so many.
    pub fn allocate(&self, class: MemoryClass, length: u64, peers: &[Agent]) -> Result<DeviceMemory> {
        let pool = self.pool(class);
        let size = length.max(1).checked_next_multiple_of(pool.granule).filter(|size| *size <= pool.max_size);
        let size = size.ok_or_else(|| {
            Status::resource_exhausted(format!(
                "{length} bytes of {class:?} memory: at most {} can be allocated",
                pool.max_size
            ))
        })?;
        let mut agents = vec![self.agent];
        agents.extend(peers.iter().filter(|peer| **peer != self.agent));
        if class == MemoryClass::DeviceLocal && self.local_is_host_visible {
            agents.push(self.host.agent);
        }
        let memory = self
            .hsa
            .allocate(pool.pool, size, &agents)
            .map_err(|status| status.context(format!("allocating {length} bytes of {class:?} memory of {self:?}")))?;
        let address = memory.address();
        let host = self.is_host_visible(class).then_some(address);
        let publication = if class == MemoryClass::DeviceLocal { self.publication } else { Publication::Coherent };
        let address = address.as_ptr().expose_provenance() as u64;
        Ok(DeviceMemory { address, length: size, host, publication, owner: Arc::new(memory) })
    }
}

/// How writes of the host to memory of a GPU become visible.
fn publication(hsa: &Hsa, agent: Agent) -> Publication {
    // SAFETY: the attribute is two addresses.
    let Ok(words) = (unsafe { hsa.agent_info::<[u64; HdpFlush::SIZE / 8]>(agent, AgentInfo::HDP_FLUSH) }) else {
        return Publication::Coherent;
    };
    let register = NonNull::new(std::ptr::with_exposed_provenance_mut::<AtomicU32>(words[0] as usize));
    match register {
        // SAFETY: the library names it, and stays initialised as long as memory of the agent is used.
        Some(register) => Publication::Hdp(unsafe { HdpRegister::new(register) }),
        None => Publication::Coherent,
    }
}
