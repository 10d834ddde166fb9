//! Agents: the GPUs and processors that the HSA library knows ([`System`]), the memory pools of each by class, and what
//! is known of the links between them. Drivers make devices of one or several of them.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use vireo_hsa::hsa::{
    Agent, AgentInfo, DeviceType, HdpFlush, MemoryPool, MemoryPoolFlags, MemoryPoolInfo, MemoryPoolSegment,
};

use crate::links::Link;
use crate::memory::{AgentMask, DeviceMemory, HdpRegister, MemoryClass, Publication};
use crate::status::{Result, Status, StatusCode};
use crate::symbols::Hsa;
use vireo_hsa::target::TargetId;

/// GPUs at most: each has a bit of an [`AgentMask`].
const MAX_GPUS: usize = u64::BITS as usize;

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

/// The limits of a dispatch on a GPU.
#[derive(Clone, Copy, Debug)]
pub struct DispatchLimits {
    /// Bytes of memory of a work-group at most.
    pub group_memory: u32,
    /// Work-items of a work-group at most.
    pub workgroup_items: u32,
    /// The same along each dimension.
    pub workgroup_size: [u16; 3],
    /// Work-items of a grid along each dimension at most.
    pub grid_size: [u32; 3],
}

impl DispatchLimits {
    fn query(hsa: &Hsa, agent: Agent) -> Result<Option<DispatchLimits>> {
        for pool in hsa.pools(agent)? {
            // SAFETY: the attribute is a `u32`.
            let segment = MemoryPoolSegment(unsafe { hsa.pool_info::<u32>(pool, MemoryPoolInfo::SEGMENT) }?);
            if segment != MemoryPoolSegment::GROUP {
                continue;
            }
            // SAFETY: the attributes are a `u64`, a `u32`, three `u16` and three `u32`.
            let (size, workgroup_items, workgroup_size, grid_size) = unsafe {
                (
                    hsa.pool_info::<u64>(pool, MemoryPoolInfo::SIZE)?,
                    hsa.agent_info(agent, AgentInfo::WORKGROUP_MAX_SIZE)?,
                    hsa.agent_info(agent, AgentInfo::WORKGROUP_MAX_DIM)?,
                    hsa.agent_info(agent, AgentInfo::GRID_MAX_DIM)?,
                )
            };
            let group_memory = u32::try_from(size).unwrap_or(u32::MAX);
            return Ok(Some(DispatchLimits { group_memory, workgroup_items, workgroup_size, grid_size }));
        }
        Ok(None)
    }
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
    /// The limits of a dispatch.
    pub limits: DispatchLimits,
    /// Its own memory.
    pub local: Pool,
    /// The same, fine-grained, if it has such.
    pub fine: Option<Pool>,
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
    /// Its memory node.
    pub node: u32,
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

/// The agents that the HSA library knows.
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
        if agents.len() > MAX_GPUS {
            return Err(unavailable(format!(
                "the HSA library knows {} GPUs: at most {MAX_GPUS} are used",
                agents.len()
            )));
        }
        for agent in agents {
            let node = node(hsa, agent)?;
            // The processor on the same node, or else the first.
            let host = hosts.iter().find(|(_, other)| *other == node).or(hosts.first());
            let host = host.ok_or_else(|| unavailable("the HSA library knows no processor".to_string()))?.0;
            gpus.push(Arc::new(GpuAgent::describe(hsa, agent, gpus.len(), node, host)?));
        }
        let links = gpus.iter().map(|from| gpus.iter().map(|to| from.link_to(to)).collect());
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

impl GpuAgent {
    fn describe(hsa: &Arc<Hsa>, agent: Agent, ordinal: usize, node: u32, host: Agent) -> Result<GpuAgent> {
        let names = hsa.isa_names(agent)?;
        let name = names.first().ok_or_else(|| unavailable(format!("agent {ordinal} has no instruction set")))?;
        let target = TargetId::parse(name).map_err(|error| unavailable(format!("agent {ordinal}: {error}")))?;
        let missing = |what: &str| unavailable(format!("agent {ordinal} ({target}): there is no memory {what}"));
        let own = pools(hsa, agent)?;
        let local = own.iter().find(|pool| pool.flags.coarse_grained()).or(own.first());
        let fine_local = own.iter().find(|pool| pool.flags.fine_grained()).copied();
        let local = *local.ok_or_else(|| missing("of its own"))?;
        let of_host = pools(hsa, host)?;
        let find = |test: &dyn Fn(MemoryPoolFlags) -> bool| of_host.iter().find(|pool| test(pool.flags)).copied();
        let kernarg = find(&|flags| flags.kernarg_init()).ok_or_else(|| missing("for arguments"))?;
        let fine = find(&|flags| flags.fine_grained() && !flags.kernarg_init()).unwrap_or(kernarg);
        let coarse = find(&|flags| flags.coarse_grained());
        let local_is_host_visible = Link::query(hsa, host, local.pool)?.is_accessible;
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
            uuid: if_known(hsa.agent_text(agent, AgentInfo::UUID))?.unwrap_or_default(),
            target,
            compute_units,
            node,
            queue_max_size,
            limits: DispatchLimits::query(hsa, agent)?.ok_or_else(|| missing("of work-groups"))?,
            local,
            fine: fine_local,
            local_is_host_visible,
            publication: publication(hsa, agent)?,
            host: HostPools { agent: host, node: self::node(hsa, host)?, fine, coarse, kernarg },
            host_link: Link::query(hsa, agent, fine.pool)?,
        })
    }

    /// The library.
    pub fn hsa(&self) -> &Arc<Hsa> {
        &self.hsa
    }

    /// The link to the memory of another GPU, or to its own.
    ///
    /// # Errors
    /// Those of the HSA library.
    pub fn link_to(&self, other: &GpuAgent) -> Result<Link> {
        Link::query(&self.hsa, self.agent, other.local.pool)
    }

    /// The GPU in sets of GPUs.
    pub fn mask(&self) -> AgentMask {
        AgentMask(1 << self.ordinal)
    }

    /// The class of memory for arguments of kernels: that of the GPU, or the host's.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if the host does not reach the memory of the GPU.
    pub fn kernarg_class(&self, on_device: bool) -> Result<MemoryClass> {
        match (on_device, self.local_is_host_visible, self.fine) {
            (false, _, _) => Ok(MemoryClass::Kernarg),
            (true, true, Some(_)) => Ok(MemoryClass::DeviceFine),
            (true, true, None) => Ok(MemoryClass::DeviceLocal),
            (true, false, _) => {
                let message =
                    format!("the host does not reach the memory of {self:?}, so arguments of kernels cannot be there");
                Err(Status::failed_precondition(message))
            }
        }
    }

    /// The pool of a class. Classes that there are not have the memory of the next better one.
    pub fn pool(&self, class: MemoryClass) -> &Pool {
        match class {
            MemoryClass::DeviceLocal => &self.local,
            MemoryClass::DeviceFine => self.fine.as_ref().unwrap_or(&self.local),
            MemoryClass::HostFine => &self.host.fine,
            MemoryClass::HostCoarse => self.host.coarse.as_ref().unwrap_or(&self.host.fine),
            MemoryClass::Kernarg => &self.host.kernarg,
        }
    }

    /// Whether the host reaches memory of a class.
    pub fn is_host_visible(&self, class: MemoryClass) -> bool {
        !class.is_of_device() || self.local_is_host_visible
    }

    /// Allocates `length` bytes that this agent and `peers` reach. Their contents are undefined.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if there are not so many.
    pub fn allocate(&self, class: MemoryClass, length: u64, peers: &[Arc<GpuAgent>]) -> Result<DeviceMemory> {
        let pool = self.pool(class);
        let size = length.max(1).checked_next_multiple_of(pool.granule).filter(|size| *size <= pool.max_size);
        let size = size.ok_or_else(|| {
            Status::resource_exhausted(format!(
                "{length} bytes of {class:?} memory: at most {} can be allocated",
                pool.max_size
            ))
        })?;
        let mut agents = vec![self.agent];
        agents.extend(peers.iter().map(|peer| peer.agent).filter(|peer| *peer != self.agent));
        let reached_by = peers.iter().fold(self.mask(), |mask, peer| mask | peer.mask());
        if class.is_of_device() && self.local_is_host_visible {
            agents.push(self.host.agent);
        }
        let memory = self
            .hsa
            .allocate(pool.pool, size, &agents)
            .map_err(|status| status.context(format!("allocating {length} bytes of {class:?} memory of {self:?}")))?;
        let address = memory.address();
        let host = self.is_host_visible(class).then_some(address);
        let publication = if class.is_of_device() { self.publication } else { Publication::Coherent };
        let address = address.as_ptr().expose_provenance() as u64;
        Ok(DeviceMemory { address, length: size, host, publication, reached_by, owner: Arc::new(memory) })
    }
}

/// An attribute, unless the library is so old that it does not know it.
fn if_known<T>(value: Result<T>) -> Result<Option<T>> {
    match value {
        Err(status) if status.code() == StatusCode::InvalidArgument => Ok(None),
        value => value.map(Some),
    }
}

/// How writes of the host to memory of a GPU become visible.
fn publication(hsa: &Hsa, agent: Agent) -> Result<Publication> {
    // SAFETY: the attribute is two addresses.
    let words = if_known(unsafe { hsa.agent_info::<[u64; HdpFlush::SIZE / 8]>(agent, AgentInfo::HDP_FLUSH) })?;
    let address = words.map_or(0, |words| words[0] as usize);
    Ok(match NonNull::new(std::ptr::with_exposed_provenance_mut::<AtomicU32>(address)) {
        // SAFETY: the library names it, and stays initialised as long as memory of the agent is used.
        Some(register) => Publication::Hdp(unsafe { HdpRegister::new(register) }),
        None => Publication::Coherent,
    })
}
