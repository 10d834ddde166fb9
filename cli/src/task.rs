//! Flags of the workers of `local-task` devices. Names and values are those of the reference tools; the runtime reads and checks the
//! values, and says what they come to.

use std::ffi::OsString;

use clap::Args;
use vireo::hal::local::task::{Distribution, Favor, Nodes, PerformanceLevel, ProcessorList, TaskConfig, TopologyMode};

use crate::exit::Exit;
use crate::failure::Failure;

/// What these flags stand under in the help.
const HEADING: &str = "Workers of local-task devices";

/// The flags `--task_*`. The URI of a device may say otherwise for that device.
#[derive(Args, Debug)]
pub struct TaskArguments {
    /// How long a worker looks for more work before it sleeps, in microseconds. Less saves power, more answers faster.
    #[arg(long, help_heading = HEADING, default_value_t = default().worker_spin_us, value_name = "TIME")]
    pub task_worker_spin_us: u32,
    /// Least bytes of a worker's stack.
    #[arg(long, help_heading = HEADING, default_value_t = default().worker_stack_size, value_name = "BYTES")]
    pub task_worker_stack_size: u32,
    /// Bytes of local memory that each worker has for kernels, which fail if they need more; 0 for as many as they need.
    #[arg(long, help_heading = HEADING, default_value_t = default().worker_local_memory, value_name = "BYTES")]
    pub task_worker_local_memory: u32,
    /// How workers are found if neither of the next two flags says so: `physical_cores`, one for each core.
    #[arg(long, help_heading = HEADING, default_value_t = default().mode, value_name = "MODE")]
    pub task_topology_mode: TopologyMode,
    /// If not 0, how many workers there are. They are bound to no processor.
    #[arg(long, help_heading = HEADING, default_value_t = default().group_count, value_name = "COUNT")]
    pub task_topology_group_count: u32,
    /// The processors that workers are bound to, such as `0,2` or `0-3`. Repeat it for several queues with workers of their own.
    #[arg(long, help_heading = HEADING, value_name = "LIST")]
    pub task_topology_cpu_ids: Vec<ProcessorList>,
    /// Most workers of a queue that are found by the mode.
    #[arg(long, help_heading = HEADING, default_value_t = default().max_group_count, value_name = "COUNT")]
    pub task_topology_max_group_count: u32,
    /// NUMA nodes that workers are on: `current`, that of the calling thread; `numa`, each with a queue of its own; `all`, all with
    /// one queue; or numbers of nodes such as `0,2`, with a queue each.
    #[arg(long, help_heading = HEADING, default_value_t = default().nodes, value_name = "NODES")]
    pub task_topology_nodes: Nodes,
    /// The kind of cores, where there are several: `any`, `low` (or `efficiency`), `high` (or `performance`).
    #[arg(long, help_heading = HEADING, default_value_t = default().performance_level, value_name = "LEVEL")]
    pub task_topology_performance_level: PerformanceLevel,
    /// In which order cores are taken: `compact`, all that share a cache and then the next; `scatter`, one of each cache in turn.
    #[arg(long, help_heading = HEADING, default_value_t = default().distribution, value_name = "ORDER")]
    pub task_topology_distribution: Distribution,
    /// Overrides the last two: `latency` (compact, high), `throughput` (scatter, any), `efficiency` (compact, low).
    #[arg(long, help_heading = HEADING, default_value_t = default().favor, hide_default_value = true, value_name = "WHAT")]
    pub task_topology_favor: Favor,
    /// Find workers on the machine that this copy of a /sys/devices/system is of, to see what they would be there.
    #[arg(long, help_heading = HEADING, default_value = "", hide_default_value = true, value_name = "FOLDER")]
    pub task_topology_snapshot: OsString,
    /// Print the workers that these flags give, and exit.
    #[arg(long, help_heading = HEADING, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub dump_task_topologies: bool,
}

fn default() -> TaskConfig {
    TaskConfig::default()
}

impl TaskArguments {
    /// What the flags ask for.
    pub fn config(&self) -> Result<TaskConfig, Failure> {
        let config = TaskConfig {
            worker_spin_us: self.task_worker_spin_us,
            worker_stack_size: self.task_worker_stack_size,
            worker_local_memory: self.task_worker_local_memory,
            mode: self.task_topology_mode,
            group_count: self.task_topology_group_count,
            max_group_count: self.task_topology_max_group_count,
            cpu_ids: self.task_topology_cpu_ids.clone(),
            nodes: self.task_topology_nodes.clone(),
            performance_level: self.task_topology_performance_level,
            distribution: self.task_topology_distribution,
            favor: self.task_topology_favor,
            snapshot: self.task_topology_snapshot.clone().into(),
        };
        match config.check() {
            Ok(()) => Ok(config),
            Err(status) => Err(Failure::new(Exit::Usage, "invalid command line").because(status)),
        }
    }

    /// The workers that they give, if that is asked for.
    pub fn dump(&self) -> Result<Option<String>, Failure> {
        if !self.dump_task_topologies {
            return Ok(None);
        }
        let options = self.config()?.resolve();
        let options = options.map_err(|status| Failure::new(Exit::Usage, "cannot find the workers").because(status))?;
        Ok(Some(options.dump_topologies()))
    }
}
