//! The selection of processors for workers: matches a configuration with the processors that exist and that this
//! process may use.

use std::collections::BTreeSet;

use super::config::names::{CPU_IDS, GROUP_COUNT, NODES, PERFORMANCE_LEVEL};
use super::config::{Distribution, MAX_TOPOLOGIES, Nodes, PerformanceLevel, ProcessorList, TaskConfig, TopologyMode};
use super::sysfs::{Machine, Node, ProcessorSet, list_text};
use super::topology::{Caches, Group, Topology, worker_name};
use crate::status::{Result, Status};

/// Assumed caches of an unknown processor.
const TYPICAL_CACHES: Caches = Caches { l1_data: 32 << 10, l2_data: 128 << 10, l3_data: 0 };

/// The topologies of a configuration on this machine; at least one, and each with at least one group.
pub(super) fn topologies(config: &TaskConfig) -> Result<Vec<Topology>> {
    let machine = match config.snapshot.as_os_str().is_empty() {
        true => Machine::host(),
        false => Machine::snapshot(&config.snapshot)?,
    };
    Selection { config, nodes: machine.nodes(), machine }.topologies()
}

/// Unbound workers, for a machine that does not match the configuration.
pub(super) fn fallback(config: &TaskConfig) -> Topology {
    let select = Selection { config, nodes: Vec::new(), machine: Machine::host() };
    Topology::unpinned(select.limit(), TYPICAL_CACHES)
}

struct Selection<'a> {
    config: &'a TaskConfig,
    machine: Machine,
    nodes: Vec<Node>,
}

/// The processors that workers of a queue may use.
struct Placement {
    /// The NUMA node, if it is one.
    node: Option<u32>,
    /// The processors; none for all.
    processors: Option<ProcessorSet>,
}

impl Selection<'_> {
    fn topologies(&self) -> Result<Vec<Topology>> {
        if !self.config.cpu_ids.is_empty() {
            return self.config.cpu_ids.iter().map(|list| self.listed(list)).collect();
        }
        let placements = self.placements()?;
        if self.config.group_count != 0 {
            if placements.len() > 1 {
                let message = format!(
                    "{GROUP_COUNT} gives workers that are on no node, but {NODES}={} is several; use task_topology_max_group_count \
                     for a number on each",
                    self.config.nodes
                );
                return Err(Status::invalid_argument(message));
            }
            return Ok(vec![Topology::unpinned(self.config.group_count as usize, self.typical_caches())]);
        }
        match self.config.mode {
            TopologyMode::PhysicalCores => self.physical_cores(&placements),
        }
    }

    /// A topology with a worker for each processor of a list.
    fn listed(&self, list: &ProcessorList) -> Result<Topology> {
        let (present, allowed) = (self.machine.present(), self.machine.allowed.as_ref());
        for processor in list.processors() {
            if let Some(present) = present.as_ref().filter(|present| !present.contains(processor)) {
                let there = list_text(present);
                return Err(Status::out_of_range(format!("{CPU_IDS}: there is no processor {processor}, but {there}")));
            }
            if let Some(allowed) = allowed.filter(|allowed| !allowed.contains(processor)) {
                let allowed = list_text(allowed);
                return Err(Status::failed_precondition(format!(
                    "{CPU_IDS}: this process may not run on processor {processor}, but on {allowed}"
                )));
            }
        }
        Ok(self.pinned(None, list.processors()))
    }

    /// Topologies with a worker for each core of the placements; placements without usable cores are left out.
    fn physical_cores(&self, placements: &[Placement]) -> Result<Vec<Topology>> {
        let Some(usable) = self.machine.usable() else {
            return Ok(vec![Topology::unpinned(self.limit(), self.typical_caches())]);
        };
        if !usable.iter().any(|processor| self.machine.core(*processor).is_some()) {
            // Without core ids, binding workers to processors could put two workers on one core.
            return Ok(vec![Topology::unpinned(self.limit().min(usable.len()), self.typical_caches())]);
        }
        let (level, distribution) = self.config.preference();
        let usable = self.of_level(&usable, level);
        let topologies = placements.iter().filter_map(|placement| {
            let processors = match &placement.processors {
                Some(processors) => &usable & processors,
                None => usable.clone(),
            };
            let mut cores = self.cores(&processors);
            if distribution == Distribution::Scatter {
                cores = self.scatter(cores);
            }
            if cores.is_empty() { None } else { Some(self.pinned(placement.node, &cores)) }
        });
        let topologies = topologies.collect::<Vec<_>>();
        if topologies.is_empty() {
            let allowed = self.machine.allowed.as_ref().map_or("all".to_string(), list_text);
            return Err(Status::not_found(format!(
                "there is no processor for {NODES}={} and {PERFORMANCE_LEVEL}={level} among those that this process may run on ({allowed})",
                self.config.nodes
            )));
        }
        Ok(topologies)
    }

    /// The placement of each queue.
    fn placements(&self) -> Result<Vec<Placement>> {
        let on = |node: &Node| Placement { node: Some(node.id), processors: Some(node.processors.clone()) };
        let anywhere = Placement { node: None, processors: None };
        Ok(match (&self.config.nodes, self.nodes.as_slice()) {
            (Nodes::Current | Nodes::Each | Nodes::All, []) => vec![anywhere],
            (Nodes::Current, [first, ..]) => {
                let current = |node: &&Node| self.machine.current.is_some_and(|now| node.processors.contains(&now));
                vec![on(self.nodes.iter().find(current).unwrap_or(first))]
            }
            (Nodes::All, [only]) => vec![on(only)],
            (Nodes::All, _) => vec![anywhere],
            (Nodes::Each, nodes) => {
                if nodes.len() > MAX_TOPOLOGIES {
                    let count = nodes.len();
                    let message = format!("{NODES}=numa: {count} nodes; a device has at most {MAX_TOPOLOGIES} queues");
                    return Err(Status::invalid_argument(message));
                }
                nodes.iter().map(on).collect()
            }
            (Nodes::Ids(ids), nodes) => {
                let placement = |id: &u32| match nodes.iter().find(|node| node.id == *id) {
                    Some(node) => Ok(on(node)),
                    None if nodes.is_empty() && *id == 0 => Ok(Placement { node: None, processors: None }),
                    None => {
                        let known =
                            if nodes.is_empty() { [0].into() } else { nodes.iter().map(|node| node.id).collect() };
                        let known = list_text(&known);
                        Err(Status::invalid_argument(format!("{NODES}: there is no NUMA node {id}, but {known}")))
                    }
                };
                ids.iter().map(placement).collect::<Result<_>>()?
            }
        })
    }

    /// Most workers of a topology. More threads than can run at a time would preempt each other.
    fn limit(&self) -> usize {
        let most = self.config.max_group_count as usize;
        most.min(self.machine.parallelism.unwrap_or(usize::MAX))
    }

    /// The processors of a performance level, on machines with several levels.
    fn of_level(&self, usable: &ProcessorSet, level: PerformanceLevel) -> ProcessorSet {
        /// A core is fast if its capacity is at least this part of the highest.
        const FAST: (u64, u64) = (3, 4);
        if level == PerformanceLevel::Any {
            return usable.clone();
        }
        // Unusable processors count too: slow cores are slow even where only they may be used.
        let present = self.machine.present().unwrap_or_default();
        let capacities = present.iter().filter_map(|processor| self.machine.capacity(*processor));
        let capacities = capacities.filter(|capacity| *capacity > 0).collect::<BTreeSet<_>>();
        let (Some(least), Some(most)) = (capacities.first(), capacities.last()) else { return usable.clone() };
        if least == most {
            return usable.clone();
        }
        let is_fast =
            |processor| u64::from(self.machine.capacity(processor).unwrap_or(0)) * FAST.1 >= u64::from(*most) * FAST.0;
        let wanted = level == PerformanceLevel::High;
        usable.iter().copied().filter(|processor| is_fast(*processor) == wanted).collect()
    }

    /// The first processor of each core, up to the limit of workers.
    fn cores(&self, processors: &ProcessorSet) -> Vec<u32> {
        let mut seen = BTreeSet::new();
        let first = |processor: &u32| self.machine.core(*processor).is_some_and(|core| seen.insert(core));
        processors.iter().copied().filter(first).take(self.limit()).collect()
    }

    /// The same processors, round-robin over last-level caches.
    fn scatter(&self, cores: Vec<u32>) -> Vec<u32> {
        let mut domains: Vec<(ProcessorSet, Vec<u32>)> = Vec::new();
        for &core in &cores {
            let Some(sharing) = self.machine.sharing(core) else { return cores };
            match domains.iter_mut().find(|(domain, _)| *domain == sharing) {
                Some((_, members)) => members.push(core),
                None => domains.push((sharing, vec![core])),
            }
        }
        let longest = domains.iter().map(|(_, members)| members.len()).max().unwrap_or(0);
        let turn = |index| domains.iter().filter_map(move |(_, members): &(_, Vec<u32>)| members.get(index).copied());
        (0..longest).flat_map(turn).collect()
    }

    /// A topology of bound workers, in this order.
    fn pinned(&self, node: Option<u32>, processors: &[u32]) -> Topology {
        let group = |(index, &processor): (usize, &u32)| {
            let sharing = self.machine.sharing(processor).map(|sharing| {
                let shares = |(_, other): &(usize, &u32)| sharing.contains(other);
                processors.iter().enumerate().filter(shares).map(|(index, _)| index).collect()
            });
            Group {
                name: worker_name(index),
                processor: Some(processor),
                node: self.nodes.iter().find(|node| node.processors.contains(&processor)).map(|node| node.id),
                cluster: self.machine.cluster(processor),
                package: self.machine.package(processor),
                caches: self.machine.caches(processor),
                sharing,
            }
        };
        Topology { node, groups: processors.iter().enumerate().map(group).collect() }
    }

    /// The caches of the current processor, since those of others are likely the same.
    fn typical_caches(&self) -> Caches {
        let processor = self.machine.current.or_else(|| self.machine.usable()?.first().copied());
        let caches = processor.map(|processor| self.machine.caches(processor)).unwrap_or_default();
        let or = |size, typical| if size == 0 { typical } else { size };
        Caches {
            l1_data: or(caches.l1_data, TYPICAL_CACHES.l1_data),
            l2_data: or(caches.l2_data, TYPICAL_CACHES.l2_data),
            l3_data: caches.l3_data,
        }
    }
}

#[cfg(test)]
mod tests;
