//! How a `local-task` device runs its work.

use std::time::Duration;

use super::config::TaskConfig;
use super::selection;
use super::topology::Topology;
use crate::hal::StringPair;
use crate::status::Result;

/// Least stack of a worker: kernels take theirs from it, and so do a worker's own frames.
const MIN_STACK_SIZE: u32 = 32 << 10;

/// How a `local-task` device runs its work: what was asked for, made out on this machine.
#[derive(Clone, Debug)]
pub struct TaskOptions {
    /// One queue of the device each; at least one.
    pub topologies: Vec<Topology>,
    /// How long a worker looks for more work before it sleeps.
    pub worker_spin: Duration,
    /// What is expected to take less than this runs on the thread that makes it ready: a worker would take as long to wake.
    pub handover_threshold: Duration,
    /// Workgroups that are expected to take less than this together are not shared with other workers.
    pub sharing_threshold: Duration,
    /// Bytes of the stack of a worker.
    pub worker_stack_size: usize,
    /// Bytes of local memory that each worker has for kernels; 0 for as many as they need.
    pub worker_local_memory: u32,
}

impl Default for TaskOptions {
    /// What [`TaskConfig::default`] comes to, or unbound workers where that finds none.
    fn default() -> TaskOptions {
        let config = TaskConfig::default();
        let topologies = selection::topologies(&config).unwrap_or_else(|_| vec![selection::fallback(&config)]);
        config.with_topologies(topologies)
    }
}

impl TaskOptions {
    /// The options that the parameters of a device URI ask for, on this machine. INVALID_ARGUMENT names the parameter that is wrong.
    pub fn from_params(params: &[StringPair]) -> Result<TaskOptions> {
        TaskConfig::default().with_params(params)?.resolve()
    }

    /// A description of the topologies for people, laid out as the reference tool does.
    pub fn dump_topologies(&self) -> String {
        self.topologies.iter().enumerate().map(|(index, topology)| topology.dump(index)).collect()
    }
}

impl TaskConfig {
    /// Makes out on this machine what is asked for. INVALID_ARGUMENT if a parameter is wrong, OUT_OF_RANGE or FAILED_PRECONDITION if there
    /// is no such processor or this process may not use it, NOT_FOUND if no processor is as they ask for.
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
            worker_stack_size: self.worker_stack_size.max(MIN_STACK_SIZE) as usize,
            worker_local_memory: self.worker_local_memory,
        }
    }
}
