//! Links ([`Link`]): how an agent reaches a memory pool, as the HSA library describes it, and what that means for an
//! edge between two devices of a topology (`scheduling_word`).

use std::fmt;

use vireo_hsa::hsa::{Agent, AgentMemoryPoolInfo, LinkInfo, LinkType, MemoryPool, MemoryPoolAccess};
use vireo_hsa::topology::{InteropMode, LinkClass, TopologyCosts, TopologyModes, TopologyScheduling};

use crate::status::Result;
use crate::symbols::Hsa;

/// Most hops of a link that are described.
const MAX_HOPS: usize = 8;

/// The distance of a memory node to itself.
const NEAREST: u32 = 10;

/// The link between an agent and the memory of another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Whether the agent may access the memory at all.
    pub is_accessible: bool,
    /// Whether it may without being allowed to.
    pub by_default: bool,
    /// The kind of each hop; none for an agent's own memory.
    pub hops: Vec<LinkType>,
    /// Distance of the memory nodes; 0 if that is not known.
    pub numa_distance: u32,
    /// Whether all hops are coherent.
    pub is_coherent: bool,
    /// Whether all hops have atomic operations of 64 bits.
    pub has_atomics: bool,
}

impl Link {
    /// Asks the library for the link from an agent to a pool.
    pub(crate) fn query(hsa: &Hsa, agent: Agent, pool: MemoryPool) -> Result<Link> {
        // SAFETY: the attributes are two `u32`.
        let (access, hops) = unsafe {
            (
                hsa.agent_pool_info::<u32>(agent, pool, AgentMemoryPoolInfo::ACCESS)?,
                hsa.agent_pool_info::<u32>(agent, pool, AgentMemoryPoolInfo::NUM_LINK_HOPS)?,
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
        if hops as usize > MAX_HOPS {
            // Of so long a way nothing good is promised.
            let hops = vec![LinkType(u32::MAX); MAX_HOPS];
            return Ok(Link { hops, is_coherent: false, has_atomics: false, ..link });
        }
        if hops == 0 {
            return Ok(link);
        }
        /// As many as are read.
        type Hops = [[u64; LinkInfo::SIZE / 8 + 1]; MAX_HOPS];
        const { assert!(LinkInfo::SIZE * MAX_HOPS <= size_of::<Hops>()) };
        // SAFETY: the attribute is a list of as many descriptions as there are hops, which has room.
        let words = unsafe { hsa.agent_pool_info::<Hops>(agent, pool, AgentMemoryPoolInfo::LINK_INFO) }?;
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

    /// Its class, between two GPUs whose host memory is on the same node or not.
    fn class(&self, same_host: bool) -> LinkClass {
        let all = |kinds: &[LinkType]| self.hops.iter().all(|hop| kinds.contains(hop));
        if !self.is_accessible {
            return LinkClass::HOST_STAGED;
        }
        match (self.hops.is_empty(), same_host) {
            (true, _) => LinkClass::SAME_DIE,
            _ if all(&[LinkType::XGMI]) => LinkClass::NVLINK_IF,
            (_, true) if all(&[LinkType::PCIE]) => LinkClass::PCIE_SAME_ROOT,
            _ if all(&[LinkType::PCIE, LinkType::QPI, LinkType::HYPERTRANSPORT]) => LinkClass::PCIE_CROSS_ROOT,
            _ if all(&[LinkType::INFINIBAND]) => LinkClass::FABRIC,
            _ => LinkClass::OTHER,
        }
    }

    /// The worse of two links in everything, but for the hops, which [`Link::class`] is about.
    fn worse(mut self, other: &Link) -> Link {
        self.is_accessible &= other.is_accessible;
        self.by_default &= other.by_default;
        self.is_coherent &= other.is_coherent;
        self.has_atomics &= other.has_atomics;
        self.numa_distance = self.numa_distance.max(other.numa_distance);
        self
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_accessible {
            return f.write_str("not accessible");
        }
        let name = |hop: &LinkType| match *hop {
            LinkType::HYPERTRANSPORT => "HyperTransport",
            LinkType::QPI => "QPI",
            LinkType::PCIE => "PCI Express",
            LinkType::INFINIBAND => "InfiniBand",
            LinkType::XGMI => "xGMI",
            _ => "an unknown link",
        };
        let hops: Vec<&str> = self.hops.iter().map(name).collect();
        let hops = if hops.is_empty() { "local".to_string() } else { hops.join(" and ") };
        let coherent = if self.is_coherent { ", coherent" } else { "" };
        let atomics = if self.has_atomics { ", atomics" } else { "" };
        let access = if self.by_default { "" } else { ", if allowed" };
        write!(f, "{hops}, distance {}{coherent}{atomics}{access}", self.numa_distance)
    }
}

/// An edge between two devices: how the agents of the target reach the memory of the source.
#[derive(Clone, Debug)]
pub(crate) struct Edge<'a> {
    /// From each agent of the target to the memory of each of the source; at least one.
    pub(crate) links: &'a [Link],
    /// Whether the nearest processor is the same for all.
    pub(crate) same_host: bool,
    /// Whether both are the same agents.
    pub(crate) is_same: bool,
    /// Whether the queues of the target wait for those of the source without the host.
    pub(crate) waits_on_device: bool,
    /// Whether the host needs not publish its writes to the memory of either.
    pub(crate) is_host_coherent: bool,
}

/// The cost of copies, and the class of latencies.
fn costs(class: LinkClass) -> (u8, u8) {
    match class {
        LinkClass::SAME_DIE => (0, 0),
        LinkClass::NVLINK_IF => (3, 3),
        LinkClass::PCIE_SAME_ROOT => (7, 6),
        LinkClass::PCIE_CROSS_ROOT => (9, 8),
        LinkClass::FABRIC => (11, 11),
        _ => (13, 10),
    }
}

/// The scheduling word of an edge.
///
/// # Errors
/// None: all values fit their fields.
pub(crate) fn scheduling_word(edge: &Edge<'_>) -> Result<u64> {
    let link = edge.links.iter().skip(1).fold(edge.links.first().cloned().unwrap_or_default(), Link::worse);
    let classes = edge.links.iter().map(|link| link.class(edge.same_host));
    let class = classes.max_by_key(|class| (costs(*class), *class == LinkClass::HOST_STAGED));
    let class = class.unwrap_or(LinkClass::HOST_STAGED);
    let class = if edge.is_same { LinkClass::SAME_DIE } else { class };
    let waits = if edge.waits_on_device { InteropMode::NATIVE } else { InteropMode::COPY };
    // Memory is allocated for the agents of one device. Others get copies.
    let buffers = if edge.is_same { InteropMode::NATIVE } else { InteropMode::COPY };
    let distance = link.numa_distance.max(NEAREST);
    let (copy_cost, latency) = costs(class);
    let wait_cost = match (edge.is_same, edge.waits_on_device) {
        (true, true) => 0,
        (false, true) => 2,
        (_, false) => 8,
    };
    let modes = TopologyModes::default()
        .with_wait_mode(waits)?
        .with_signal_mode(waits)?
        .with_buffer_read_mode(buffers)?
        .with_buffer_write_mode(buffers)?
        .with_same_runtime_domain(true)
        .with_unified_memory(edge.is_same)
        .with_peer_coherent(link.is_accessible && link.is_coherent)
        .with_host_coherent(edge.is_host_coherent)
        .with_p2p_copy(link.is_accessible)
        .with_concurrent_safe(true)
        .with_atomic_device(true)
        .with_atomic_system(link.is_accessible && link.has_atomics)
        .with_timeline_semaphore(true)
        .with_shared_virtual_address(true)
        .with_wait_cost(wait_cost)?
        .with_signal_cost(wait_cost)?;
    let costs = TopologyCosts::default()
        .with_copy_cost(copy_cost)?
        .with_latency_class(latency)?
        .with_numa_distance(u8::try_from(distance / NEAREST - 1).map_or(15, |distance| distance.min(15)))?
        .with_link_class(class)?;
    Ok(u64::from_le_bytes(TopologyScheduling { modes, costs }.to_bytes()))
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;

    fn link(hops: &[LinkType], numa_distance: u32) -> Link {
        Link {
            is_accessible: true,
            is_coherent: true,
            has_atomics: true,
            hops: hops.to_vec(),
            numa_distance,
            by_default: false,
        }
    }

    fn word(links: &[Link], same_host: bool) -> TopologyScheduling {
        let edge = Edge { links, same_host, is_same: false, waits_on_device: true, is_host_coherent: false };
        TopologyScheduling::read(&scheduling_word(&edge).expect("it fits").to_le_bytes())
    }

    #[test]
    fn the_class_of_an_edge_is_that_of_its_worst_link() {
        let (pcie, xgmi) = (link(&[LinkType::PCIE], 20), link(&[LinkType::XGMI], 15));
        let class = |links: &[Link], same_host| word(links, same_host).costs.link_class();
        assert_eq!(class(from_ref(&xgmi), false), LinkClass::NVLINK_IF);
        assert_eq!(class(from_ref(&pcie), true), LinkClass::PCIE_SAME_ROOT);
        assert_eq!(class(from_ref(&pcie), false), LinkClass::PCIE_CROSS_ROOT);
        let across = link(&[LinkType::PCIE, LinkType::QPI, LinkType::PCIE], 40);
        assert_eq!(class(&[pcie.clone(), across], true), LinkClass::PCIE_CROSS_ROOT);
        // In whatever order, and as long as each other.
        assert_eq!(class(&[xgmi.clone(), pcie.clone()], true), LinkClass::PCIE_SAME_ROOT);
        assert_eq!(class(&[pcie.clone(), xgmi], true), LinkClass::PCIE_SAME_ROOT);
        let unreachable = Link { is_accessible: false, ..pcie.clone() };
        assert_eq!(class(&[pcie, unreachable], true), LinkClass::HOST_STAGED);
        assert_eq!(class(&[link(&[LinkType(9)], 0)], true), LinkClass::OTHER);
        assert_eq!(class(&[link(&[LinkType::INFINIBAND], 0)], true), LinkClass::FABRIC);
    }

    #[test]
    fn the_capabilities_of_an_edge_are_those_of_all_its_links() {
        let whole = link(&[LinkType::PCIE], 32);
        let all = word(from_ref(&whole), true);
        assert!(all.modes.p2p_copy() && all.modes.peer_coherent() && all.modes.atomic_system());
        assert_eq!((all.costs.numa_distance(), all.modes.buffer_read_mode()), (2, InteropMode::COPY));
        let lacking = Link { is_coherent: false, has_atomics: false, ..whole.clone() };
        let some = word(&[whole, lacking], true);
        assert!(some.modes.p2p_copy() && !some.modes.peer_coherent() && !some.modes.atomic_system());
    }
}
