//! The `local-task` device: the host's processors, with worker threads.

mod options;
mod topology;

pub use options::TaskOptions;
pub use topology::{Caches, Group, Topology, pin_current_thread};
