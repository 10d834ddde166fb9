//! How a `local-task` device runs its work.

use std::time::Duration;

use super::topology::Topology;
use crate::hal::StringPair;
use crate::status::{Result, Status};

/// How a `local-task` device runs its work.
#[derive(Clone, Debug)]
pub struct TaskOptions {
    /// One queue of the device each; at least one.
    pub topologies: Vec<Topology>,
    /// How long a worker looks for more work before it sleeps. The reference runtime's workers sleep at once, which makes every
    /// call pay for waking them; ours look for work for a while, which is bounded so that an idle device uses no processor.
    pub worker_spin: Duration,
    /// Bytes of the stack of a worker.
    pub worker_stack_size: usize,
    /// Bytes of local memory that each worker has for kernels; 0 for as many as they need.
    pub worker_local_memory: u32,
}

impl Default for TaskOptions {
    fn default() -> TaskOptions {
        TaskOptions {
            topologies: vec![Topology::fallback()],
            worker_spin: Duration::from_micros(50),
            worker_stack_size: 128 << 10,
            worker_local_memory: 0,
        }
    }
}

impl TaskOptions {
    /// The options that parameters of a device URI ask for. INVALID_ARGUMENT names what is wrong with one.
    pub fn from_params(params: &[StringPair]) -> Result<TaskOptions> {
        match params.first() {
            None => Ok(TaskOptions::default()),
            Some(param) => Err(Status::invalid_argument(format!("there is no parameter `{}`", param.key))),
        }
    }
}
