//! The topology of a queue of a `local-task` device: one worker for each group, which may be bound to a processor.
//!
//! [`config`](super::config) is the request, and [`selection`](super::selection) finds the topologies of a machine for
//! it.

use std::fmt::{self, Write};

use crate::generated::hal::local_task::greatest;

/// Most workers of a queue.
pub const MAX_GROUPS: usize = greatest::MAX_GROUP_COUNT as usize;

/// The workers of one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// The NUMA node of all of them, if they are on one node.
    pub node: Option<u32>,
    /// One worker each; at least one, and at most [`MAX_GROUPS`].
    pub groups: Vec<Group>,
}

/// A worker and its processor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// The name of its thread.
    pub name: String,
    /// The logical processor that the worker is for. Workers run on the processors of their topology; without any the
    /// scheduler decides.
    pub processor: Option<u32>,
    /// The NUMA node of that processor, if it is known.
    pub node: Option<u32>,
    /// Its cluster, of cores that share more than the socket, if that is known.
    pub cluster: Option<u32>,
    /// Its socket, if that is known.
    pub package: Option<u32>,
    /// The caches of its processor, or those of a typical one.
    pub caches: Caches,
    /// The groups of the topology, by index and with this one, that share its last level of cache. `None` if that is
    /// not known.
    pub sharing: Option<Vec<usize>>,
}

/// Sizes in bytes of the data caches that a processor has or shares. 0 where there is none, or it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the caches")]
pub struct Caches {
    pub l1_data: u64,
    pub l2_data: u64,
    pub l3_data: u64,
}

impl Topology {
    /// `count` workers that are bound to no processor; at least one, and at most [`MAX_GROUPS`].
    pub fn unpinned(count: usize, caches: Caches) -> Topology {
        let group = |index| Group { name: worker_name(index), caches, ..Group::default() };
        Topology { node: None, groups: (0..count.clamp(1, MAX_GROUPS)).map(group).collect() }
    }

    /// A description for people, laid out as that of the reference runtime's tools.
    pub fn dump(&self, index: usize) -> String {
        const LINE: &str = "# ===------------------------------------------------------------------------===\n";
        let or = |number: Option<u32>, text: &str| number.map_or(text.to_string(), |number| number.to_string());
        let mut text = LINE.to_string();
        let (count, node) = (self.groups.len(), or(self.node, "any"));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# topology[{index}]: {count} worker groups, numa node: {node}");
        text += LINE;
        text += "#\n";
        for (index, group) in self.groups.iter().enumerate() {
            let _ = writeln!(text, "# group[{index}]: '{}'", group.name);
            let _ = writeln!(text, "#      processor: {}", or(group.processor, "any"));
            if let Some(processor) = group.processor {
                let (cluster, package) = (or(group.cluster, "n/a"), or(group.package, "n/a"));
                let _ = writeln!(text, "#     hardware ids: cluster_id={cluster}, physical_package_id={package}");
                let _ = writeln!(text, "#       affinity: group={}, id={processor}, smt=0", group.node.unwrap_or(0));
            } else {
                text += "#       affinity: (unspecified)\n";
            }
            let _ = writeln!(text, "#  caches: l1d={}, l2d={}", group.caches.l1_data, group.caches.l2_data);
            text += "#  last level cache sharing: ";
            match (&group.sharing, group.processor) {
                (Some(sharing), _) => {
                    let groups = sharing.iter().map(usize::to_string).collect::<Vec<_>>();
                    let _ = writeln!(text, "{} group(s): {}", groups.len(), groups.join(", "));
                }
                (None, Some(_)) => text += "(none)\n",
                (None, None) => text += "(all/undefined)\n",
            }
            text += "#\n";
        }
        text
    }
}

/// One line: `2 workers on processors 0,1 of NUMA node 0`.
impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let processors = self.groups.iter().filter_map(|group| group.processor);
        let processors = processors.map(|processor| processor.to_string()).collect::<Vec<_>>();
        let plural = |count| if count == 1 { "" } else { "s" };
        write!(f, "{} worker{}", self.groups.len(), plural(self.groups.len()))?;
        match processors.len() {
            0 => f.write_str(" on any processor")?,
            count => write!(f, " on processor{} {}", plural(count), processors.join(","))?,
        }
        match self.node {
            Some(node) => write!(f, " of NUMA node {node}"),
            None => Ok(()),
        }
    }
}

/// The name of a thread, which Linux cuts after 15 bytes.
pub(super) fn worker_name(index: usize) -> String {
    format!("vireo-task-{index}")
}

/// Binds the calling thread to the set of processors of the topology, if all of its groups have one. A worker is not
/// bound to a single processor, because the host thread that leads runs on one of them too, and only the scheduler
/// knows which are free when a worker wakes. Binding only improves speed, so a failure, because processors are offline
/// or forbidden, is ignored.
pub fn bind_current_thread(topology: &Topology) {
    let processors: Option<Vec<u32>> = topology.groups.iter().map(|group| group.processor).collect();
    if let Some(processors) = processors {
        bind(&processors);
    }
}

#[cfg(target_os = "linux")]
fn bind(processors: &[u32]) {
    use rustix::thread::{CpuSet, sched_setaffinity};

    let mut set = CpuSet::new();
    for processor in processors {
        if let Ok(processor) = usize::try_from(*processor)
            && processor < CpuSet::MAX_CPU
        {
            set.set(processor);
        }
    }
    let _ = sched_setaffinity(None, &set);
}

#[cfg(not(target_os = "linux"))]
fn bind(_processors: &[u32]) {}
