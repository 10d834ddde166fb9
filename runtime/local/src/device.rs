//! The device of the host's processors ([`LocalDevice`]): as `local-sync` it runs operations on the thread that submits
//! them or makes them ready, as `local-task` it has worker threads, and as `null` it runs no kernels.

use std::any::Any;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use super::command_buffer::{Execution, LocalCommandBuffer, LocalCommandProgram, LocalCommands};
use super::executable::LocalExecutableCache;
use super::queue::{LocalDiscipline, Queue};
use super::task::{Executor, TaskOptions, Topology};
use crate::glob;
use crate::hal::host_kernels;
use crate::hal::transient::TransientBuffer;
use crate::hal::{
    AllocaFlags, Allocator, Buffer, BufferBinding, BufferParams, Channel, ChannelParams, CommandBuffer,
    CommandBufferMode, CommandCategory, Device, DeviceCapabilities, DeviceCapabilityBits, DeviceTopologyInfo, Event,
    EventFlags, ExecutableCache, ExecutableCachingMode, ExecutableLoader, ExternalFile, ExternalFileFlags, File,
    MemoryAccess, OptionalMethod, Pool, QueryCategory, QueryKey, QueueAffinity, QueueOperation, SecurityPolicy,
    Semaphore, SemaphoreCompatibility, SemaphoreFlags, SlabProvider, Timepoint, TopologyEdge, semaphore,
};
use crate::hal_driver::deferred::{DeferredEvent, DispatchRequest};
use crate::hal_driver::host_file;
use crate::hal_driver::memory_source::DeviceMemory;
use crate::hal_driver::queue::{
    Held, WaitAndSignal, Weight, alloca, dealloca, host_call_context, queue_of_dealloca, submit_host_call,
};
use crate::heap_bytes;
use crate::status::{Result, Status};

/// A device that runs on the host's processors.
#[derive(Debug)]
pub struct LocalDevice {
    id: String,
    memory: DeviceMemory,
    loaders: Arc<[Arc<dyn ExecutableLoader>]>,
    /// Whether executables may be machine code.
    native_code: bool,
    /// At least one.
    queues: Box<[Arc<Queue>]>,
    /// Whether it is the null device, which runs no kernels.
    null: bool,
    answers_to: AnswersTo,
    topology: OnceLock<DeviceTopologyInfo>,
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
            Arc::new(Queue::new(LocalDiscipline::Workers(Arc::new(executor))))
        };
        Ok(LocalDevice { queues: options.topologies.iter().map(queue).collect(), ..self })
    }

    /// The same device with zeroed memory in every transient buffer (`queue_alloca`), so that no program reads what
    /// another one, or an earlier call, left there. Memory of pools and of other allocators is zeroed too; where the
    /// host does not reach it, the allocation fails.
    pub fn with_zeroed_transients(self) -> LocalDevice {
        LocalDevice { memory: self.memory.zeroed(), ..self }
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
        let (id, loaders, queues) = (id.to_string(), loaders.into(), [Arc::default()].into());
        let memory = DeviceMemory::new(allocator);
        let topology = OnceLock::new();
        let native_code = true;
        LocalDevice { id, memory, loaders, native_code, queues, null, answers_to, topology }
    }

    /// The queue for an affinity: the first queue of it, or the first of all if it names none that exists.
    fn queue(&self, affinity: QueueAffinity) -> &Arc<Queue> {
        let index = affinity.bits().trailing_zeros() as usize;
        self.queues.get(index).unwrap_or(&self.queues[0])
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

/// The optional methods of local devices and of what they make.
const SUPPORTED: [OptionalMethod; 17] = [
    OptionalMethod::AllocatorExportBuffer,
    OptionalMethod::CommandBufferSignalEvent,
    OptionalMethod::CommandBufferResetEvent,
    OptionalMethod::CommandBufferWaitEvents,
    OptionalMethod::CommandBufferFlushBuffer,
    OptionalMethod::CommandBufferInvalidateBuffer,
    OptionalMethod::DeviceReplaceAllocator,
    OptionalMethod::DeviceRefineTopologyEdge,
    OptionalMethod::DeviceAssignTopologyInfo,
    OptionalMethod::DeviceCreateEvent,
    OptionalMethod::DeviceImportFile,
    OptionalMethod::DeviceQueuePoolBackend,
    OptionalMethod::DeviceQueueRead,
    OptionalMethod::DeviceQueueWrite,
    OptionalMethod::DeviceQueueHostCall,
    OptionalMethod::FileRead,
    OptionalMethod::FileWrite,
];

impl Device for LocalDevice {
    fn supports(&self, method: &str) -> bool {
        // A host may have replaced the allocator by one without slabs.
        let is_there = |supported: &OptionalMethod| match supported {
            OptionalMethod::DeviceQueuePoolBackend => self.memory.has_slabs(),
            _ => true,
        };
        SUPPORTED.iter().any(|supported| supported.name() == method && is_there(supported))
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn allocator(&self) -> Arc<dyn Allocator> {
        self.memory.allocator()
    }

    fn replace_allocator(&self, new_allocator: &Arc<dyn Allocator>) -> Result<()> {
        self.memory.replace(new_allocator)
    }

    fn trim(&self) -> Result<()> {
        TransientBuffer::trim();
        self.memory.allocator().trim()?;
        heap_bytes::trim();
        Ok(())
    }

    fn query_i64(&self, category: &str, key: &str) -> Result<i64> {
        let property = QueryKey::from_name(key);
        let value = QueryCategory::from_name(category).and_then(|category| match category {
            QueryCategory::DeviceId => Some((self.answers_to)(&self.id, key).into()),
            QueryCategory::ExecutableFormat => {
                let mode = ExecutableCachingMode::empty();
                Some(self.loaders.iter().any(|loader| loader.supports(mode, key)).into())
            }
            QueryCategory::Device => property.map(|QueryKey::Concurrency| self.queues.len() as i64),
            QueryCategory::Dispatch => property.map(|QueryKey::Concurrency| self.concurrency() as i64),
            QueryCategory::Cpu => host_kernels::feature(key).map(i64::from),
        });
        value.ok_or_else(|| {
            Status::not_found(format!("device `{}` has no configuration `{category} :: {key}`", self.id))
        })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let flags = DeviceCapabilityBits::TIMELINE_SEMAPHORES
            | DeviceCapabilityBits::UNIFIED_MEMORY
            | DeviceCapabilityBits::HOST_COHERENT
            | DeviceCapabilityBits::HOST_ZERO_COPY_OK
            | DeviceCapabilityBits::CONCURRENT_SAFE;
        DeviceCapabilities { flags, ..DeviceCapabilities::default() }
    }

    fn topology_info(&self) -> DeviceTopologyInfo {
        self.topology.get().copied().unwrap_or_default()
    }

    fn refine_topology_edge(&self, _target: &Arc<dyn Device>, edge: TopologyEdge) -> Result<TopologyEdge> {
        // The capabilities of devices that share the host's memory determine the edge already.
        Ok(edge)
    }

    fn assign_topology_info(&self, topology_info: DeviceTopologyInfo) -> Result<()> {
        self.topology
            .set(topology_info)
            .map_err(|_| Status::failed_precondition(format!("device `{}` is part of a topology already", self.id)))
    }

    fn create_command_buffer(
        &self,
        mode: CommandBufferMode,
        command_categories: CommandCategory,
        queue_affinity: QueueAffinity,
        binding_capacity: u32,
    ) -> Result<Arc<dyn CommandBuffer>> {
        let device = LocalCommands { null: self.null };
        Ok(LocalCommandBuffer::new(device, mode, command_categories, queue_affinity, binding_capacity)?)
    }

    fn create_channel(&self, _queue_affinity: QueueAffinity, _params: &ChannelParams) -> Result<Arc<dyn Channel>> {
        Err(Status::unimplemented(format!(
            "`device.create_channel` of `{}`: local devices have no way to exchange data with the other participants of a collective operation",
            self.id
        )))
    }

    fn create_event(&self, _queue_affinity: QueueAffinity, _flags: EventFlags) -> Result<Arc<dyn Event>> {
        Ok(Arc::new(DeferredEvent))
    }

    unsafe fn import_file(
        &self,
        _queue_affinity: QueueAffinity,
        access: MemoryAccess,
        external_file: &ExternalFile,
        _flags: ExternalFileFlags,
    ) -> Result<Arc<dyn File>> {
        // SAFETY: the caller guarantees that the memory or descriptor is there as long as its owner.
        unsafe { host_file::import(access, external_file) }
    }

    fn create_executable_cache(&self, _identifier: &str) -> Result<Arc<dyn ExecutableCache>> {
        Ok(Arc::new(LocalExecutableCache::new(self.loaders.clone(), self.native_code)))
    }

    fn create_semaphore(
        &self,
        _queue_affinity: QueueAffinity,
        initial_value: u64,
        _flags: SemaphoreFlags,
    ) -> Result<Arc<dyn Semaphore>> {
        Ok(semaphore::timeline(initial_value))
    }

    fn semaphore_compatibility(&self, _semaphore: &Arc<dyn Semaphore>) -> SemaphoreCompatibility {
        // Waiting and signaling go through methods that every semaphore has.
        SemaphoreCompatibility::all()
    }

    fn queue_pool_backend(&self, _queue_affinity: QueueAffinity) -> Result<Arc<dyn SlabProvider>> {
        self.memory.source().slabs()
    }

    fn queue_alloca(
        &self,
        queue_affinity: QueueAffinity,
        wait: &[Timepoint],
        signal: &[Timepoint],
        pool: Option<&Arc<dyn Pool>>,
        params: BufferParams,
        allocation_size: u64,
        flags: AllocaFlags,
    ) -> Result<Arc<dyn Buffer>> {
        let queue = self.queue(queue_affinity);
        let waits = flags.contains(AllocaFlags::ALLOW_POOL_WAIT_FRONTIER);
        let transient = match pool {
            Some(pool) => {
                let source = self.memory.pool_source(pool);
                alloca(queue, &source, (wait, signal), waits, params, allocation_size)?
            }
            None => alloca(queue, self.memory.source(), (wait, signal), waits, params, allocation_size)?,
        };
        transient.reserved_by(queue_affinity, flags);
        Ok(transient)
    }

    fn submit(
        &self,
        queue_affinity: QueueAffinity,
        wait: &[Timepoint],
        signal: &[Timepoint],
        operation: QueueOperation<'_>,
    ) -> Result<()> {
        let (queue, points) = (self.queue(queue_affinity), (wait, signal));
        match operation {
            QueueOperation::Dealloca { buffer, flags } => {
                let queue_affinity = queue_of_dealloca(buffer, queue_affinity, flags);
                dealloca(self.queue(queue_affinity), points, buffer)
            }
            QueueOperation::Fill { target_buffer, target_offset, length, pattern, flags: _ } => {
                queue.fill(points, (target_buffer, target_offset), length, pattern)
            }
            QueueOperation::Update { source, target_buffer, target_offset, flags: _ } => {
                queue.update(points, source, (target_buffer, target_offset))
            }
            QueueOperation::Copy { source_buffer, source_offset, target_buffer, target_offset, length, flags: _ } => {
                queue.copy(points, (source_buffer, source_offset), (target_buffer, target_offset), length)
            }
            QueueOperation::Read { source_file, source_offset, target_buffer, target_offset, length, flags: _ } => {
                queue.read(points, (source_file, source_offset), (target_buffer, target_offset), length)
            }
            QueueOperation::Write { source_buffer, source_offset, target_file, target_offset, length, flags: _ } => {
                queue.write(points, (source_buffer, source_offset), (target_file, target_offset), length)
            }
            QueueOperation::HostCall { call, args, flags } => {
                submit_host_call(queue, points, call, host_call_context(queue_affinity, args)?, flags)
            }
            QueueOperation::Dispatch { executable, function, config, constants, bindings, flags } => {
                // There is no binding table, so no slots.
                let mut program = LocalCommandProgram::new(0);
                let request = DispatchRequest { executable, function, config, constants, bindings, flags };
                program.dispatch(LocalCommands { null: self.null }, request)?;
                execute(queue, points, Cow::Borrowed(&Arc::new(program)), &[])
            }
            QueueOperation::Execute { command_buffer, binding_table, flags: _ } => {
                let any: &dyn Any = &**command_buffer;
                let local = any.downcast_ref::<LocalCommandBuffer>().ok_or_else(|| {
                    Status::invalid_argument("the command buffer was recorded for another kind of device")
                })?;
                execute(queue, points, local.take_program()?, binding_table)
            }
            QueueOperation::Barrier { flags: _ } => queue.barrier(points),
        }
    }

    fn queue_flush(&self, _queue_affinity: QueueAffinity) -> Result<()> {
        Ok(())
    }
}

/// Executes commands on a queue, with the time that they took before as the weight.
fn execute(
    queue: &Arc<Queue>,
    points: WaitAndSignal<'_>,
    program: Held<'_, LocalCommandProgram>,
    binding_table: &[BufferBinding],
) -> Result<()> {
    let weight = Weight::Time(Execution(&program).expected_time(queue.discipline().executor()));
    queue.execute(points, weight, program, binding_table)
}
