//! The worker threads of `local-task` devices, and the options that choose them. Queues hand operations to them, and
//! executions of command programs share tiles with them.
//!
//! A queue hands ready operations to an `Executor`. A thread that runs a large operation *leads* (`fork_join`): it
//! opens one parallel region of tiles after the other, and idle workers help. Tiles are distributed in contiguous
//! ranges, so that a thread works on the same part of a tensor from one dispatch to the next; a thread without tiles
//! steals half of those of another.
//!
//! Nothing here knows what tiles are. No lock is held while a tile runs, and a leader waits only for tiles that helpers
//! have begun.

pub(crate) mod config;
mod crew;
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
pub(super) use fork_join::{TiledWork, even_cut};
pub use options::TaskOptions;
pub use topology::{Caches, Group, MAX_GROUPS, Topology, bind_current_thread};
