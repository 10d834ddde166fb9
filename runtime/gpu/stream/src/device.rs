//! A device ([`StreamDevice`]): one or several GPUs of a library with their streams. Every operation becomes a
//! submission of a queue.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::allocator::StreamAllocator;
use crate::command_buffer::{Program, StreamCommandBuffer, StreamRecorder, StreamsCommandBuffer, Target};
use crate::context::{Context, LaunchLimits};
use crate::executable::{Export, LoadedKernel, StreamExecutable, StreamExecutableCache};
use crate::hal::{
    AllocaFlags, Allocator, Buffer, BufferBinding, BufferParams, BufferRef, CommandBuffer, CommandBufferMode,
    CommandCategory, Device, DeviceCapabilities, DeviceCapabilityBits, Executable, ExecutableCache, ExecutableFunction,
    MAX_UPDATE_SIZE, OptionalMethod, Pool, QueryCategory, QueryKey, QueueAffinity, QueueOperation, Semaphore,
    SemaphoreCompatibility, SemaphoreFlags, SlabProvider, Timepoint, TopologyEdge, check_range,
};
use crate::hal_driver::deferred::{DispatchRequest, Recorder as _};
use crate::hal_driver::device_alloca::{Begun, Source, own as own_allocator};
use crate::hal_driver::device_queue::{
    HostWorkers, Owner, Payload, Request, SubmissionPoint, is_driver_thread, refuse,
};
use crate::hal_driver::device_slabs::DeviceSlabs;
use crate::hal_driver::device_state::{DeviceState, device_state_methods};
use crate::hal_driver::device_timeline::{DeviceTimeline, own};
use crate::hal_driver::memory_source::DeviceMemory as TransientMemory;
use crate::hal_driver::queue::{WaitAndSignal, call_host, decommit, host_call_context, queue_of};
use crate::hal_driver::staging::{Staging, StagingSlots};
use crate::limits::scope::{self, Scope};
pub use crate::options::{DeviceOptions, UseGraphs};
use crate::queue::{QueueCore, StreamClock, StreamQueue};
use crate::staging::StreamStaging;
use crate::status::{Result, Status};

/// A program with its binding table.
type JobRef<'a> = (&'a Arc<Program>, &'a [BufferBinding]);

/// A GPU, for recorders.
#[derive(Debug)]
struct ContextTarget(Arc<Context>);

impl Target for ContextTarget {
    fn kernel<'a>(
        &self,
        executable: &'a Arc<dyn Executable>,
        function: ExecutableFunction,
    ) -> Result<(LoadedKernel, &'a Export)> {
        let any: &dyn Any = &**executable;
        let own: Option<&StreamExecutable> = any.downcast_ref();
        let own = own.ok_or_else(|| Status::invalid_argument("the executable is for another kind of device"))?;
        own.kernel(&self.0, function)
    }

    fn limits(&self) -> LaunchLimits {
        self.0.limits
    }
}

/// A GPU of a device.
#[derive(Debug)]
struct Physical {
    queues: Vec<Owner<StreamQueue>>,
    /// The GPU as its command buffers are recorded for it.
    target: Arc<dyn Target>,
}

/// A device of GPUs whose library has streams.
#[derive(Debug)]
pub struct StreamDevice {
    state: DeviceState,
    contexts: Vec<Arc<Context>>,
    physical: Vec<Physical>,
    workers: Arc<HostWorkers>,
    /// The allocator that the device began with, for memory of its own.
    own_memory: Arc<StreamAllocator>,
    staging: Arc<StagingSlots>,
    zeroed_transients: bool,
    native_code: bool,
}

impl StreamDevice {
    /// A device called `id` over some GPUs of one library, at least one.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for more streams than can be named, and those of the library.
    pub fn new(id: &str, contexts: Vec<Arc<Context>>, options: &DeviceOptions) -> Result<StreamDevice> {
        let count = contexts.len() * options.streams;
        if count == 0 || count > QueueAffinity::ANY.bits().count_ones() as usize {
            return Err(Status::invalid_argument(format!("{count} streams: expected from 1 to 64")));
        }
        let own_memory = Arc::new(StreamAllocator::new(&contexts, options)?);
        let physical = |(place, context): (usize, &Arc<Context>)| {
            let queue =
                |_| Owner::start(crate::queue::queue_of(context, &own_memory, place, count == 1, options.graphs)?);
            let queues = (0..options.streams).map(queue).collect::<Result<_>>()?;
            Ok(Physical { queues, target: Arc::new(ContextTarget(context.clone())) })
        };
        let physical = contexts.iter().enumerate().map(physical).collect::<Result<Vec<_>>>()?;
        let memory = TransientMemory::new(own_memory.clone());
        let memory = if options.zeroed_transients { memory.zeroed() } else { memory };
        Ok(StreamDevice {
            state: DeviceState::new(id, memory),
            contexts,
            physical,
            workers: Arc::new(HostWorkers::new("stream")),
            own_memory,
            staging: Arc::default(),
            zeroed_transients: options.zeroed_transients,
            native_code: options.native_code,
        })
    }

    /// The GPU and the queue for an affinity: the first of it, or the first of all if it names none that exists.
    fn queue(&self, affinity: QueueAffinity) -> (&Physical, &Arc<QueueCore>) {
        let queues =
            || self.physical.iter().flat_map(|physical| physical.queues.iter().map(move |queue| (physical, queue)));
        let index = affinity.bits().trailing_zeros() as usize;
        let first = &self.physical[0];
        let (physical, owner) = queues().nth(index).unwrap_or((first, &first.queues[0]));
        (physical, owner.core())
    }

    /// The GPUs that queues of an affinity belong to, as command buffers are recorded for them.
    fn targets(&self, affinity: QueueAffinity) -> Vec<Arc<dyn Target>> {
        let mut first = 0;
        let mut targets = Vec::new();
        for physical in &self.physical {
            let queues = first..first + physical.queues.len();
            first = queues.end;
            if queues.into_iter().any(|queue| affinity.bits() >> queue & 1 != 0) {
                targets.push(physical.target.clone());
            }
        }
        targets
    }

    fn submit_program(&self, affinity: QueueAffinity, points: WaitAndSignal<'_>, job: Option<JobRef<'_>>) {
        self.queue(affinity).1.submit_job(points, job, None, Scope::current(), true);
    }

    /// Records the commands of one submission and submits it.
    fn submit_recorded(
        &self,
        affinity: QueueAffinity,
        points: WaitAndSignal<'_>,
        record: impl FnOnce(&mut StreamRecorder, &Arc<dyn Target>) -> Result<()>,
    ) -> Result<()> {
        let (physical, _) = self.queue(affinity);
        let mut recorder = StreamRecorder::new(&physical.target, 0, false);
        record(&mut recorder, &physical.target)?;
        self.submit_program(affinity, points, Some((&recorder.finish(&physical.target)?, &[])));
        Ok(())
    }

    /// Something that the host does when all points are reached.
    fn submit_host(
        &self,
        affinity: QueueAffinity,
        points: WaitAndSignal<'_>,
        action: impl FnOnce(&[Timepoint]) -> Result<()> + Send + 'static,
    ) {
        let scope = Scope::current();
        let action = move |signal: &[Timepoint]| {
            let _entered = scope.enter();
            scope::check()?;
            action(signal)
        };
        let payload = Payload::Host(Box::new(action), self.workers.clone());
        let request = Request { wait: points.0.to_vec(), signal: points.1.to_vec(), payload, reclaim: None };
        self.queue(affinity).1.submit(request, Scope::current(), true);
    }

    /// Returns the memory of a transient buffer once all points are reached.
    fn dealloca(&self, affinity: QueueAffinity, points: WaitAndSignal<'_>, buffer: &Arc<dyn Buffer>) {
        let buffer = buffer.clone();
        let queue = self.queue(affinity).1;
        queue.submit_job(points, None, Some(Box::new(move || decommit(&buffer))), Scope::current(), true);
    }

    /// Submits what was recorded for the GPU of the queue.
    fn execute(
        &self,
        affinity: QueueAffinity,
        points: WaitAndSignal<'_>,
        command_buffer: &Arc<dyn CommandBuffer>,
        binding_table: &[BufferBinding],
    ) -> Result<()> {
        let any: &dyn Any = &**command_buffer;
        let target = &self.queue(affinity).0.target;
        let elsewhere =
            || Status::invalid_argument("the command buffer was recorded for other GPUs than that of the queue");
        if let Some(own) = any.downcast_ref::<StreamCommandBuffer>() {
            if !Arc::ptr_eq(own.device(), target) {
                return Err(elsewhere());
            }
            let program = own.take_program()?;
            self.submit_program(affinity, points, Some((&program, binding_table)));
            return Ok(());
        }
        let Some(own) = any.downcast_ref::<StreamsCommandBuffer>() else {
            return Err(Status::invalid_argument("the command buffer was recorded for another kind of device"));
        };
        if !own.device().iter().any(|other| Arc::ptr_eq(other, target)) {
            return Err(elsewhere());
        }
        let programs = own.take_program()?;
        let program = programs.of(target).ok_or_else(elsewhere)?;
        self.submit_program(affinity, points, Some((program, binding_table)));
        Ok(())
    }

    /// The staging memory of transfers between files and memory that the host does not reach.
    fn staging(&self, affinity: QueueAffinity) -> Staging<StreamStaging> {
        let (physical, queue) = self.queue(affinity);
        let (queue, target) = (queue.clone(), physical.target.clone());
        let queue = StreamStaging { queue, affinity, target, allocator: self.own_memory.clone() };
        Staging { queue, slots: self.staging.clone() }
    }
}

/// A range of a buffer.
fn range(buffer: &Arc<dyn Buffer>, offset: u64, length: u64) -> BufferRef {
    BufferRef { buffer: Some(buffer.clone()), slot: 0, offset, length }
}

/// A thread of a queue ends no device: what that takes is done by another thread, if there is one.
impl Drop for StreamDevice {
    fn drop(&mut self) {
        if is_driver_thread() {
            let physical = Arc::new(Mutex::new(std::mem::take(&mut self.physical)));
            let run = move || physical.lock().unwrap_or_else(PoisonError::into_inner).clear();
            // If there is no other, queues do not wait for their threads on this one.
            let _ = thread::Builder::new().name("stream-end".to_string()).spawn(run);
        }
    }
}

impl Device for StreamDevice {
    device_state_methods!();

    fn supports(&self, method: &str) -> bool {
        self.state.supports(method, &[OptionalMethod::DeviceQueuePoolBackend])
    }

    fn trim(&self) -> Result<()> {
        // The device's own memory, also if the host has put another allocator in the place of its allocator.
        self.own_memory.trim()?;
        self.state.trim()
    }

    fn query_i64(&self, category: &str, key: &str) -> Result<i64> {
        let names = self.contexts[0].api().names();
        let (major, minor) = self.contexts[0].description.capability;
        // The driver's own category, as programs name it.
        if category.strip_suffix(".device") == Some(names.driver) {
            match key {
                "compute_capability_major" => return Ok(major.into()),
                "compute_capability_minor" => return Ok(minor.into()),
                _ => return Err(self.state.unknown(category, key)),
            }
        }
        let property = QueryKey::from_name(key);
        let value = QueryCategory::from_name(category).and_then(|category| match category {
            QueryCategory::DeviceId => Some(vireo_core::glob::matches(key.as_bytes(), self.state.id.as_bytes()).into()),
            QueryCategory::ExecutableFormat => Some((self.native_code && key == names.format).into()),
            QueryCategory::Device => {
                let queues = self.physical.iter().map(|physical| physical.queues.len()).sum::<usize>();
                property.map(|QueryKey::Concurrency| queues as i64)
            }
            QueryCategory::Dispatch => property.map(|QueryKey::Concurrency| self.contexts[0].multiprocessors.into()),
            QueryCategory::Cpu => None,
        });
        value.ok_or_else(|| self.state.unknown(category, key))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let flags = DeviceCapabilityBits::TIMELINE_SEMAPHORES
            | DeviceCapabilityBits::CONCURRENT_SAFE
            | DeviceCapabilityBits::ATOMIC_SCOPE_DEVICE
            | DeviceCapabilityBits::SHARED_VIRTUAL_ADDRESS;
        let driver_device_handle = self.contexts[0].description.device.0 as u64;
        DeviceCapabilities { flags, driver_device_handle, ..DeviceCapabilities::default() }
    }

    fn refine_topology_edge(&self, _target: &Arc<dyn Device>, edge: TopologyEdge) -> Result<TopologyEdge> {
        Ok(edge)
    }

    fn create_command_buffer(
        &self,
        mode: CommandBufferMode,
        command_categories: CommandCategory,
        queue_affinity: QueueAffinity,
        binding_capacity: u32,
    ) -> Result<Arc<dyn CommandBuffer>> {
        let targets = self.targets(queue_affinity);
        if targets.len() > 1 {
            let targets = targets.into();
            return Ok(StreamsCommandBuffer::new(targets, mode, command_categories, queue_affinity, binding_capacity)?);
        }
        let target = self.queue(queue_affinity).0.target.clone();
        Ok(StreamCommandBuffer::new(target, mode, command_categories, queue_affinity, binding_capacity)?)
    }

    fn create_executable_cache(&self, _identifier: &str) -> Result<Arc<dyn ExecutableCache>> {
        Ok(Arc::new(StreamExecutableCache::new(self.contexts.clone(), self.native_code)))
    }

    fn create_semaphore(
        &self,
        queue_affinity: QueueAffinity,
        initial_value: u64,
        flags: SemaphoreFlags,
    ) -> Result<Arc<dyn Semaphore>> {
        let (_, _) = (queue_affinity, flags);
        Ok(Arc::new(DeviceTimeline::<SubmissionPoint<StreamClock>>::new(initial_value)))
    }

    fn semaphore_compatibility(&self, semaphore: &Arc<dyn Semaphore>) -> SemaphoreCompatibility {
        let point = Timepoint { semaphore: semaphore.clone(), value: 0 };
        match own::<SubmissionPoint<StreamClock>>(&point) {
            Some(_) => SemaphoreCompatibility::all(),
            None => SemaphoreCompatibility::HOST_WAIT | SemaphoreCompatibility::HOST_SIGNAL,
        }
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
        let source = Source::<StreamAllocator>::new(&self.state.memory, self.zeroed_transients, pool);
        let is_first = wait.iter().all(|point| point.semaphore.query().is_ok_and(|value| value >= point.value));
        let may_wait = flags.contains(AllocaFlags::ALLOW_POOL_WAIT_FRONTIER);
        scope::check()?;
        let (transient, begun) = Begun::attempt(source, params, allocation_size, (is_first, may_wait));
        transient.reserved_by(queue_affinity, flags);
        match begun {
            Begun::Done => self.submit_program(queue_affinity, (wait, signal), None),
            Begun::Later(allocation) => {
                self.submit_host(queue_affinity, (wait, signal), |signal| allocation.run(signal));
            }
            Begun::Refused(status) => refuse(signal, status)?,
        }
        Ok(transient)
    }

    fn queue_pool_backend(&self, queue_affinity: QueueAffinity) -> Result<Arc<dyn SlabProvider>> {
        let own = own_allocator::<StreamAllocator>(&self.state.memory.allocator());
        let own = own.ok_or_else(|| {
            Status::unimplemented("`device.queue_pool_backend`: the allocator of the device gives out no slabs")
        })?;
        Ok(Arc::new(DeviceSlabs::new(own, queue_affinity)?))
    }

    fn submit(
        &self,
        queue_affinity: QueueAffinity,
        wait: &[Timepoint],
        signal: &[Timepoint],
        operation: QueueOperation<'_>,
    ) -> Result<()> {
        let (points, queue_affinity) = ((wait, signal), queue_of(&operation, queue_affinity));
        match operation {
            QueueOperation::Dealloca { buffer, flags: _ } => {
                self.dealloca(queue_affinity, points, buffer);
                Ok(())
            }
            QueueOperation::Fill { target_buffer, target_offset, length, pattern, flags: _ } => {
                let target = range(target_buffer, target_offset, length);
                let record = |recorder: &mut StreamRecorder, _: &Arc<dyn Target>| recorder.fill(&target, pattern);
                self.submit_recorded(queue_affinity, points, record).or_else(|status| refuse(signal, status))
            }
            QueueOperation::Update { source, target_buffer, target_offset, flags: _ } => {
                let record = |recorder: &mut StreamRecorder, _: &Arc<dyn Target>| {
                    // In pieces that fit a block.
                    for (index, piece) in source.chunks(MAX_UPDATE_SIZE as usize).enumerate() {
                        let offset = target_offset.saturating_add(index as u64 * MAX_UPDATE_SIZE);
                        recorder.update(piece, &range(target_buffer, offset, piece.len() as u64))?;
                    }
                    Ok(())
                };
                self.submit_recorded(queue_affinity, points, record).or_else(|status| refuse(signal, status))
            }
            QueueOperation::Copy { source_buffer, source_offset, target_buffer, target_offset, length, flags: _ } => {
                // The rest of the source, if the length does not say more.
                let length = match check_range(source_buffer.byte_length(), source_offset, length) {
                    Ok(length) => length,
                    Err(status) => return refuse(signal, status),
                };
                let source = range(source_buffer, source_offset, length);
                let target = range(target_buffer, target_offset, length);
                let record = |recorder: &mut StreamRecorder, _: &Arc<dyn Target>| recorder.copy(&source, &target);
                self.submit_recorded(queue_affinity, points, record).or_else(|status| refuse(signal, status))
            }
            QueueOperation::Read { source_file, source_offset, target_buffer, target_offset, length, flags: _ } => {
                let (file, buffer, staging) =
                    (source_file.clone(), target_buffer.clone(), self.staging(queue_affinity));
                self.submit_host(queue_affinity, points, move |_| {
                    staging.read((&file, source_offset), (&buffer, target_offset), length)
                });
                Ok(())
            }
            QueueOperation::Write { source_buffer, source_offset, target_file, target_offset, length, flags: _ } => {
                let (file, buffer, staging) =
                    (target_file.clone(), source_buffer.clone(), self.staging(queue_affinity));
                self.submit_host(queue_affinity, points, move |_| {
                    staging.write((&buffer, source_offset), (&file, target_offset), length)
                });
                Ok(())
            }
            QueueOperation::HostCall { call, args, flags } => {
                let (call, context) = (call.clone(), host_call_context(queue_affinity, args)?);
                self.submit_host(queue_affinity, points, move |signal| call_host(&*call, context, flags, signal));
                Ok(())
            }
            QueueOperation::Dispatch { executable, function, config, constants, bindings, flags } => {
                let request = DispatchRequest { executable, function, config, constants, bindings, flags };
                let record =
                    |recorder: &mut StreamRecorder, source: &Arc<dyn Target>| recorder.dispatch(source, request);
                self.submit_recorded(queue_affinity, points, record)
            }
            QueueOperation::Execute { command_buffer, binding_table, flags: _ } => {
                self.execute(queue_affinity, points, command_buffer, binding_table)
            }
            QueueOperation::Barrier { flags: _ } => {
                self.submit_program(queue_affinity, points, None);
                Ok(())
            }
        }
    }
}
