//! The executor, as the driver has it, with workers that are bound to no processor.

#[path = "../../src/task/executor.rs"]
#[expect(dead_code, reason = "what devices use of executors, and the model does not")]
mod executor;
#[path = "../../src/task/fork_join.rs"]
mod fork_join;
#[path = "../../src/task/tile_range.rs"]
mod tile_range;

pub(crate) use executor::{Executor, Task};
pub(crate) use fork_join::TiledWork;

pub(crate) mod options {
    use std::time::Duration;

    /// The options of an executor.
    pub(crate) struct TaskOptions {
        pub(crate) worker_spin: Duration,
        pub(crate) handover_threshold: Duration,
        pub(crate) sharing_threshold: Duration,
        pub(crate) worker_stack_size: usize,
        pub(crate) worker_local_memory: u32,
    }
}

pub(crate) mod topology {
    /// Workers, by their names.
    pub(crate) struct Topology {
        pub(crate) groups: Vec<Group>,
    }

    /// A worker.
    pub(crate) struct Group {
        pub(crate) name: String,
    }

    pub(crate) fn bind_current_thread(_topology: &Topology) {}
}
