//! What a queue of a `local-task` device runs on: one worker for each group, which may be bound to a processor.
//!
//! Where topologies come from is [`options`](super::options).

use std::thread;

use rustix::thread::{CpuSet, sched_setaffinity};

/// Most workers of a queue.
pub const MAX_GROUPS: usize = 256;

/// The workers of one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// The NUMA node that they are on, if it is one.
    pub node: Option<u32>,
    /// One worker each; at least one, and at most [`MAX_GROUPS`].
    pub groups: Vec<Group>,
}

/// What a worker runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What its thread is called.
    pub name: String,
    /// The logical processor that the worker is bound to. Without one the system decides, each time it runs.
    pub processor: Option<u32>,
    /// The caches of its processor, or those of a typical one.
    pub caches: Caches,
    /// The groups of the topology, by index and with this one, that share its last level of cache. `None` if that is not known.
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
    /// `count` workers that are bound to no processor, and at most [`MAX_GROUPS`].
    pub fn unpinned(count: usize, caches: Caches) -> Topology {
        let group = |index| Group { name: worker_name(index), processor: None, caches, sharing: None };
        Topology { node: None, groups: (0..count.clamp(1, MAX_GROUPS)).map(group).collect() }
    }

    /// As many unbound workers as threads can run at a time, for systems that do not tell more.
    pub fn fallback() -> Topology {
        Topology::unpinned(thread::available_parallelism().map_or(1, usize::from), Caches::default())
    }
}

/// The name of a thread, which Linux cuts after 15 bytes.
pub(super) fn worker_name(index: usize) -> String {
    format!("vireo-task-{index}")
}

/// Binds the calling thread to the processor of the group, if it has one. Where the system does not know how, or refuses because the
/// processor is gone or forbidden, the thread goes on where it is: binding makes things faster, not right.
pub fn pin_current_thread(group: &Group) {
    let Some(processor) = group.processor.and_then(|processor| usize::try_from(processor).ok()) else { return };
    if processor < CpuSet::MAX_CPU {
        let mut set = CpuSet::new();
        set.set(processor);
        let _ = sched_setaffinity(None, &set);
    }
}
