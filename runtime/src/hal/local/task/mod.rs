//! The `local-task` device: the host's processors, with worker threads.

mod config;
mod options;
mod select;
mod sysfs;
mod topology;

pub use config::{
    Distribution, Favor, MAX_TOPOLOGIES, Nodes, PerformanceLevel, ProcessorList, TaskConfig, TopologyMode,
};
pub use options::TaskOptions;
pub use topology::{Caches, Group, MAX_GROUPS, Topology, pin_current_thread};
