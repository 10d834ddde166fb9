//! The device of the host's processors ([`LocalDevice`]): as `local-sync` it runs operations on the thread that submits
//! them or makes them ready, as `local-task` it has worker threads, and as `null` it runs no kernels.

use std::sync::Arc;

use super::command_buffer::LocalCommands;
use super::executable::LocalExecutableCache;
use super::queue::{LocalDiscipline, Queue};
use super::task::{Executor, TaskOptions, Topology};
use crate::glob;
use crate::hal::host_kernels;
use crate::hal::{
    Allocator, Device, DeviceCapabilities, DeviceCapabilityBits, ExecutableCache, ExecutableCachingMode,
    ExecutableLoader, QueryCategory, QueryKey, QueueAffinity, SecurityPolicy,
};
use crate::hal_driver::collectives::Collectives;
use crate::hal_driver::device_state::{DeviceState, host_device_methods};
use crate::hal_driver::memory_source::DeviceMemory;
use crate::status::{Result, Status};

/// A device that runs on the host's processors.
#[derive(Debug)]
pub struct LocalDevice {
    state: DeviceState,
    loaders: Arc<[Arc<dyn ExecutableLoader>]>,
    /// Whether executables may be machine code.
    native_code: bool,
    /// At least one.
    queues: Box<[Arc<Queue>]>,
    /// Whether it is the null device, which runs no kernels.
    null: bool,
    answers_to: AnswersTo,
}

/// Whether a device id matches the pattern by which a program asks for devices.
type AnswersTo = fn(id: &str, pattern: &str) -> bool;

impl LocalDevice {
    /// A device called `id`, whose buffers `allocator` allocates and whose executables `loaders` load.
    pub fn new(id: &str, allocator: Arc<dyn Allocator>, loaders: Vec<Arc<dyn ExecutableLoader>>) -> LocalDevice {
        LocalDevice::of(id, allocator, loaders, false, matches)
    }

    /// A device for programs under `policy`, with the allocator of the policy. `loaders` are those that the policy
    /// allows.
    pub fn with_policy(id: &str, policy: &SecurityPolicy, loaders: Vec<Arc<dyn ExecutableLoader>>) -> LocalDevice {
        let device = LocalDevice::new(id, Arc::new(policy.allocator()), loaders);
        let device = if policy.zeroed_memory { device.with_zeroed_transients() } else { device };
        if policy.native_code { device } else { device.without_native_code() }
    }

    /// The same device with worker threads, which are started when they are first needed: a queue for each topology.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if there is no topology, or more than queues can be named.
    pub fn with_workers(self, options: &TaskOptions) -> Result<LocalDevice> {
        let count = options.topologies.len();
        if count == 0 || count > QueueAffinity::ANY.bits().count_ones() as usize {
            return Err(Status::invalid_argument(format!("{count} topologies: expected from 1 to 64")));
        }
        let queue = |topology: &Topology| {
            let executor = Executor::new(topology.clone(), options);
            executor.register_for_forks();
            Arc::new(Queue::new(LocalDiscipline::Workers(Arc::new(executor))))
        };
        Ok(LocalDevice { queues: options.topologies.iter().map(queue).collect(), ..self })
    }

    /// The same device with zeroed memory in every transient buffer (`queue_alloca`), so that no program reads what
    /// another one, or an earlier call, left there. Memory of pools and of other allocators is zeroed too; where the
    /// host does not reach it, the allocation fails.
    pub fn with_zeroed_transients(self) -> LocalDevice {
        let DeviceState { id, memory, collectives, .. } = self.state;
        let mut state = DeviceState::new(&id, memory.zeroed());
        state.collectives = collectives;
        LocalDevice { state, ..self }
    }

    /// The same device, whose channels find the other ranks as `collectives` say. Without that, ranks that say their
    /// number find each other in this process.
    pub fn with_collectives(mut self, collectives: Collectives) -> LocalDevice {
        self.state.collectives = collectives;
        self
    }

    /// The same device, whose errors say that the policy refuses machine code. It has no loader for machine code.
    pub fn without_native_code(self) -> LocalDevice {
        LocalDevice { native_code: false, ..self }
    }

    /// The null device. Its `loaders` make executables that do nothing, and `answers_to` decides which device patterns
    /// it matches.
    pub fn null(
        id: &str,
        allocator: Arc<dyn Allocator>,
        loaders: Vec<Arc<dyn ExecutableLoader>>,
        answers_to: AnswersTo,
    ) -> LocalDevice {
        LocalDevice::of(id, allocator, loaders, true, answers_to)
    }

    fn of(
        id: &str,
        allocator: Arc<dyn Allocator>,
        loaders: Vec<Arc<dyn ExecutableLoader>>,
        null: bool,
        answers_to: AnswersTo,
    ) -> LocalDevice {
        let state = DeviceState::new(id, DeviceMemory::new(allocator));
        let (loaders, queues) = (loaders.into(), [Arc::default()].into());
        LocalDevice { state, loaders, native_code: true, queues, null, answers_to }
    }

    /// The queue for an affinity: the first queue of it, or the first of all if it names none that exists.
    fn queue(&self, affinity: QueueAffinity) -> &Arc<Queue> {
        let index = affinity.bits().trailing_zeros() as usize;
        self.queues.get(index).unwrap_or(&self.queues[0])
    }

    /// The kind of device that commands are recorded for.
    fn commands(&self) -> LocalCommands {
        LocalCommands { null: self.null }
    }

    /// The most threads that run workgroups of one dispatch at once.
    fn concurrency(&self) -> usize {
        self.queues
            .iter()
            .filter_map(|queue| queue.discipline().executor())
            .map(|executor| executor.concurrency())
            .max()
            .unwrap_or(1)
    }
}

/// Whether `text` matches `pattern`, in which `*` matches any characters and `?` one byte.
fn matches(text: &str, pattern: &str) -> bool {
    glob::matches(pattern.as_bytes(), text.as_bytes())
}

impl Device for LocalDevice {
    host_device_methods!();

    fn query_i64(&self, category: &str, key: &str) -> Result<i64> {
        let property = QueryKey::from_name(key);
        let value = QueryCategory::from_name(category).and_then(|category| match category {
            QueryCategory::DeviceId => Some((self.answers_to)(&self.state.id, key).into()),
            QueryCategory::ExecutableFormat => {
                let mode = ExecutableCachingMode::empty();
                Some(self.loaders.iter().any(|loader| loader.supports(mode, key)).into())
            }
            QueryCategory::Device => property.map(|QueryKey::Concurrency| self.queues.len() as i64),
            QueryCategory::Dispatch => property.map(|QueryKey::Concurrency| self.concurrency() as i64),
            QueryCategory::Cpu => host_kernels::feature(key).map(i64::from),
        });
        value.ok_or_else(|| self.state.unknown(category, key))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let flags = DeviceCapabilityBits::TIMELINE_SEMAPHORES
            | DeviceCapabilityBits::UNIFIED_MEMORY
            | DeviceCapabilityBits::HOST_COHERENT
            | DeviceCapabilityBits::HOST_ZERO_COPY_OK
            | DeviceCapabilityBits::CONCURRENT_SAFE;
        DeviceCapabilities { flags, ..DeviceCapabilities::default() }
    }

    fn create_executable_cache(&self, _identifier: &str) -> Result<Arc<dyn ExecutableCache>> {
        Ok(Arc::new(LocalExecutableCache::new(self.loaders.clone(), self.native_code)))
    }
}
