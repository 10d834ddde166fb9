//! Resolved options of a `local-task` device: topologies and thresholds, computed from a configuration on this machine.

use std::time::Duration;

use super::config::TaskConfig;
use super::selection;
use super::topology::Topology;
use crate::hal::StringPair;
use crate::status::Result;

/// Least stack of a worker, for its own frames and those of kernels.
const MIN_STACK_SIZE: u32 = 32 << 10;

/// Further bytes for the frames of unoptimised builds, which are many times as large: a worker may compile the function
/// of a kernel.
const UNOPTIMISED_FRAMES: usize = if cfg!(debug_assertions) { 512 << 10 } else { 0 };

/// Options of a `local-task` device, resolved on this machine.
#[derive(Clone, Debug)]
pub struct TaskOptions {
    /// One queue of the device each; at least one.
    pub topologies: Vec<Topology>,
    /// How long a worker spins for more work before it sleeps.
    pub worker_spin: Duration,
    /// Operations that are expected to take less than this run on the thread that makes them ready: waking a worker
    /// would take as long.
    pub handover_threshold: Duration,
    /// Workgroups that are expected to take less than this together are not shared with other workers.
    pub sharing_threshold: Duration,
    /// Bytes of the stack of a worker.
    pub worker_stack_size: usize,
    /// Limit of local memory of a workgroup in bytes; 0 for none.
    pub worker_local_memory: u32,
}

impl Default for TaskOptions {
    /// [`TaskConfig::default`] resolved, or unbound workers where it finds no processors.
    fn default() -> TaskOptions {
        let config = TaskConfig::default();
        let topologies = selection::topologies(&config).unwrap_or_else(|_| vec![selection::fallback(&config)]);
        config.with_topologies(topologies)
    }
}

impl TaskOptions {
    /// Resolves the parameters of a device URI on this machine.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` names the parameter that is wrong; else as [`TaskConfig::resolve`].
    pub fn from_params(params: &[StringPair]) -> Result<TaskOptions> {
        TaskConfig::default().with_params(params)?.resolve()
    }

    /// A description of the topologies for people, laid out as that of the reference runtime's tools.
    pub fn dump_topologies(&self) -> String {
        self.topologies.iter().enumerate().map(|(index, topology)| topology.dump(index)).collect()
    }
}

impl TaskConfig {
    /// Resolves the configuration on this machine.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if a parameter is wrong, `OUT_OF_RANGE` if a processor does not exist, `FAILED_PRECONDITION`
    /// if this process may not use it, `NOT_FOUND` if no processor matches.
    pub fn resolve(&self) -> Result<TaskOptions> {
        self.check()?;
        Ok(self.with_topologies(selection::topologies(self)?))
    }

    fn with_topologies(&self, topologies: Vec<Topology>) -> TaskOptions {
        TaskOptions {
            topologies,
            worker_spin: Duration::from_micros(self.worker_spin_us.into()),
            handover_threshold: Duration::from_micros(50),
            sharing_threshold: Duration::from_micros(4),
            worker_stack_size: self.worker_stack_size.max(MIN_STACK_SIZE) as usize + UNOPTIMISED_FRAMES,
            worker_local_memory: self.worker_local_memory,
        }
    }
}
