//! The worker threads of `local-task` devices.
//!
//! A queue hands what is ready to an `Executor`. The thread that runs something large *leads*: it opens one region of tiles after the
//! other, and workers that have nothing better to do help with them. Tiles are dealt out in contiguous parts, so that a thread works
//! on the same part of a tensor from one dispatch to the next, and who has none left steals half of what another has left.
//!
//! Nothing here knows what tiles are. No lock is held while anything runs, and nobody waits for anything but the tiles that others
//! have begun.

pub(crate) mod config;
mod executor;
mod fork_join;
mod options;
mod selection;
mod sysfs;
mod tile_range;
mod topology;

#[cfg(test)]
mod tests;

pub use config::{
    Distribution, Favor, MAX_TOPOLOGIES, Nodes, PerformanceLevel, ProcessorList, TaskConfig, TaskOption, TopologyMode,
};
pub(super) use executor::{Executor, Leader, Task};
pub(super) use fork_join::TiledWork;
pub use options::TaskOptions;
pub use topology::{Caches, Group, MAX_GROUPS, Topology, bind_current_thread};
