//! A device ([`AmdDevice`]): one or several agents with their queues. Every operation becomes a submission of a queue.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::agent::GpuAgent;
use crate::agent_source::AgentSource;
use crate::allocator::AmdAllocator;
use crate::builtin::Builtins;
use crate::command_buffer::{
    AgentsCommandBuffer, AmdCommandBuffer, KernelSource, PacketRecorder, Program, PublishedPool,
};
use crate::executable::{AmdExecutableCache, supports};
use crate::hal::{
    AllocaFlags, Allocator, Buffer, BufferBinding, BufferParams, BufferRef, CommandBuffer, CommandBufferMode,
    CommandCategory, Device, DeviceCapabilities, DeviceCapabilityBits, DeviceTimes, ExecutableCache, MAX_UPDATE_SIZE,
    OptionalMethod, Pool, QueryCategory, QueryKey, QueueAffinity, QueueOperation, Semaphore, SemaphoreCompatibility,
    SemaphoreFlags, SlabProvider, Timepoint, TimesObserver, TopologyEdge, check_range,
};
use crate::hal_driver::deferred::{DispatchRequest, Recorder as _};
use crate::hal_driver::device_alloca::{Begun, Source, own as own_allocator};
use crate::hal_driver::device_queue::{HostWorkers, Payload, Request, SubmissionPoint, is_driver_thread, refuse};
use crate::hal_driver::device_slabs::DeviceSlabs;
use crate::hal_driver::device_state::{DeviceState, device_state_methods};
use crate::hal_driver::device_timeline::{DeviceTimeline, own};
use crate::hal_driver::memory_source::DeviceMemory as TransientMemory;
use crate::hal_driver::queue::{WaitAndSignal, call_host, decommit, host_call_context, queue_of};
use crate::hal_driver::staging::{Staging, StagingSlots};
use crate::limits::scope::{self, Scope};
use crate::links::{Edge, scheduling_word};
use crate::memory::Publication;
pub use crate::options::DeviceOptions;
use crate::queue::{HostQueue, QueueClock};
use crate::staging::AgentStaging;
use crate::status::{Result, Status, StatusCode};

/// A program with its binding table.
type JobRef<'a> = (&'a Arc<Program>, &'a [BufferBinding]);

/// An agent of a device.
#[derive(Debug)]
struct Physical {
    queues: Vec<HostQueue>,
    /// The kernels that its command buffers are recorded with.
    source: Arc<dyn KernelSource>,
}

/// A device of AMD GPUs.
#[derive(Debug)]
pub struct AmdDevice {
    state: DeviceState,
    agents: Vec<Arc<GpuAgent>>,
    physical: Vec<Physical>,
    workers: Arc<HostWorkers>,
    /// The allocator that the device began with, for memory of its own.
    own_memory: Arc<AmdAllocator>,
    staging: Arc<StagingSlots>,
    zeroed_transients: bool,
    native_code: bool,
}

impl AmdDevice {
    /// A device called `id` over some agents, at least one.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for more queues than can be named, and those of the HSA library.
    pub fn new(id: &str, agents: Vec<Arc<GpuAgent>>, options: &DeviceOptions) -> Result<AmdDevice> {
        let count = agents.len() * options.queues;
        if count == 0 || count > QueueAffinity::ANY.bits().count_ones() as usize {
            return Err(Status::invalid_argument(format!("{count} queues: expected from 1 to 64")));
        }
        let physical = |(place, agent): (usize, &Arc<GpuAgent>)| {
            let builtins = match Builtins::load(agent, options.kernels) {
                // Without them the device dispatches kernels of programs, and refuses to fill and copy.
                Err(status) if status.code() == StatusCode::Unimplemented => Err(status),
                builtins => Ok(builtins?),
            };
            let kernargs = agent.kernarg_class(options.queue.kernargs_on_device)?;
            let published = PublishedPool::default();
            let source: Arc<dyn KernelSource> =
                Arc::new(AgentSource { agent: agent.clone(), kernargs, builtins, published });
            let ordinals = place * options.queues..(place + 1) * options.queues;
            let queues = ordinals.map(|ordinal| HostQueue::new(agent, options.queue, ordinal as u32, source.clone()));
            Ok(Physical { queues: queues.collect::<Result<_>>()?, source })
        };
        let physical = agents.iter().enumerate().map(physical).collect::<Result<Vec<_>>>()?;
        let own_memory = Arc::new(AmdAllocator::new(agents.clone(), options)?);
        let memory = TransientMemory::new(own_memory.clone());
        let memory = if options.zeroed_transients { memory.zeroed() } else { memory };
        Ok(AmdDevice {
            state: DeviceState::new(id, memory),
            agents,
            physical,
            workers: Arc::new(HostWorkers::new("amdgpu")),
            own_memory,
            staging: Arc::default(),
            zeroed_transients: options.zeroed_transients,
            native_code: options.native_code,
        })
    }

    /// The agent and the queue for an affinity: the first of it, or the first of all if it names none that exists.
    fn queue(&self, affinity: QueueAffinity) -> (&Physical, &HostQueue) {
        let queues =
            || self.physical.iter().flat_map(|physical| physical.queues.iter().map(move |queue| (physical, queue)));
        let index = affinity.bits().trailing_zeros() as usize;
        let first = &self.physical[0];
        queues().nth(index).unwrap_or((first, &first.queues[0]))
    }

    /// The agents that queues of an affinity belong to, as command buffers are recorded for them.
    fn sources(&self, affinity: QueueAffinity) -> Vec<Arc<dyn KernelSource>> {
        let mut first = 0;
        let mut sources = Vec::new();
        for physical in &self.physical {
            let queues = first..first + physical.queues.len();
            first = queues.end;
            if queues.into_iter().any(|queue| affinity.bits() >> queue & 1 != 0) {
                sources.push(physical.source.clone());
            }
        }
        sources
    }

    /// The agent that all queues of an affinity are of; none if they are of several.
    fn only_agent(&self, affinity: QueueAffinity) -> Option<&Arc<GpuAgent>> {
        let each = self.physical.first()?.queues.len();
        let is_named = |queue: usize| affinity.bits() >> queue & 1 != 0;
        let mut named =
            self.agents.iter().enumerate().filter(|(place, _)| (place * each..(place + 1) * each).any(is_named));
        let (_, agent) = named.next()?;
        named.next().is_none().then_some(agent)
    }

    fn submit_program(&self, affinity: QueueAffinity, points: WaitAndSignal<'_>, job: Option<JobRef<'_>>) {
        self.queue(affinity).1.core().submit_job(points, job, None, Scope::current(), true);
    }

    /// Records the commands of one submission and submits it.
    fn submit_recorded(
        &self,
        affinity: QueueAffinity,
        points: WaitAndSignal<'_>,
        record: impl FnOnce(&mut PacketRecorder, &Arc<dyn KernelSource>) -> Result<()>,
    ) -> Result<()> {
        let (physical, _) = self.queue(affinity);
        let mut recorder = PacketRecorder::new(&physical.source, 0, false);
        record(&mut recorder, &physical.source)?;
        self.submit_program(affinity, points, Some((&recorder.finish(&physical.source)?, &[])));
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
        self.queue(affinity).1.core().submit(request, Scope::current(), true);
    }

    /// Returns the memory of a transient buffer once all points are reached.
    fn dealloca(&self, affinity: QueueAffinity, points: WaitAndSignal<'_>, buffer: &Arc<dyn Buffer>) {
        let buffer = buffer.clone();
        let queue = self.queue(affinity).1.core();
        queue.submit_job(points, None, Some(Box::new(move || decommit(&buffer))), Scope::current(), true);
    }

    /// Submits what was recorded for the agent of the queue.
    fn execute(
        &self,
        affinity: QueueAffinity,
        points: WaitAndSignal<'_>,
        command_buffer: &Arc<dyn CommandBuffer>,
        binding_table: &[BufferBinding],
    ) -> Result<()> {
        let any: &dyn Any = &**command_buffer;
        let source = &self.queue(affinity).0.source;
        let elsewhere =
            || Status::invalid_argument("the command buffer was recorded for other agents than that of the queue");
        if let Some(own) = any.downcast_ref::<AmdCommandBuffer>() {
            if !Arc::ptr_eq(own.device(), source) {
                return Err(elsewhere());
            }
            let program = own.take_program()?;
            self.submit_program(affinity, points, Some((&program, binding_table)));
            return Ok(());
        }
        let Some(own) = any.downcast_ref::<AgentsCommandBuffer>() else {
            return Err(Status::invalid_argument("the command buffer was recorded for another kind of device"));
        };
        if !own.device().iter().any(|agent| Arc::ptr_eq(agent, source)) {
            return Err(elsewhere());
        }
        let programs = own.take_program()?;
        let program = programs.of(source).ok_or_else(elsewhere)?;
        self.submit_program(affinity, points, Some((program, binding_table)));
        Ok(())
    }

    /// The staging memory of transfers between files and memory that the host does not reach.
    fn staging(&self, affinity: QueueAffinity) -> Staging<AgentStaging> {
        let (physical, queue) = self.queue(affinity);
        let (queue, source) = (queue.core().clone(), physical.source.clone());
        let queue = AgentStaging { queue, affinity, source, allocator: self.own_memory.clone() };
        Staging { queue, slots: self.staging.clone() }
    }
}

/// A range of a buffer.
fn range(buffer: &Arc<dyn Buffer>, offset: u64, length: u64) -> BufferRef {
    BufferRef { buffer: Some(buffer.clone()), slot: 0, offset, length }
}

/// A thread of a queue ends no device: what that takes is done by another thread, if there is one.
impl Drop for AmdDevice {
    fn drop(&mut self) {
        if is_driver_thread() {
            let physical = Arc::new(Mutex::new(std::mem::take(&mut self.physical)));
            let run = move || physical.lock().unwrap_or_else(PoisonError::into_inner).clear();
            // If there is no other, queues do not wait for their threads on this one.
            let _ = thread::Builder::new().name("amdgpu-end".to_string()).spawn(run);
        }
    }
}

impl DeviceTimes for AmdDevice {
    fn observe(&self, observer: Option<Arc<dyn TimesObserver>>) {
        let queues = self.physical.iter().flat_map(|physical| &physical.queues);
        queues.for_each(|queue| queue.observe(observer.clone()));
    }
}

impl Device for AmdDevice {
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
        let property = QueryKey::from_name(key);
        let value = QueryCategory::from_name(category).and_then(|category| match category {
            QueryCategory::DeviceId => Some(vireo_core::glob::matches(key.as_bytes(), self.state.id.as_bytes()).into()),
            QueryCategory::ExecutableFormat => Some((self.native_code && supports(&self.agents, key)).into()),
            QueryCategory::Device => {
                let queues = self.physical.iter().map(|physical| physical.queues.len()).sum::<usize>();
                property.map(|QueryKey::Concurrency| queues as i64)
            }
            QueryCategory::Dispatch => property.map(|QueryKey::Concurrency| self.agents[0].compute_units.into()),
            QueryCategory::Cpu => None,
        });
        value.ok_or_else(|| self.state.unknown(category, key))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut flags = DeviceCapabilityBits::TIMELINE_SEMAPHORES
            | DeviceCapabilityBits::CONCURRENT_SAFE
            | DeviceCapabilityBits::ATOMIC_SCOPE_DEVICE
            | DeviceCapabilityBits::SHARED_VIRTUAL_ADDRESS;
        if self.agents.iter().all(|agent| agent.host_link.is_coherent) {
            flags |= DeviceCapabilityBits::HOST_COHERENT;
        }
        if self.agents.iter().all(|agent| agent.host_link.has_atomics) {
            flags |= DeviceCapabilityBits::ATOMIC_SCOPE_SYSTEM;
        }
        let first = &self.agents[0];
        // The node of the host whose memory is nearest.
        let numa_node = u8::try_from(first.host.node).unwrap_or(u8::MAX);
        DeviceCapabilities { flags, numa_node, driver_device_handle: first.agent.0, ..DeviceCapabilities::default() }
    }

    fn refine_topology_edge(&self, target: &Arc<dyn Device>, edge: TopologyEdge) -> Result<TopologyEdge> {
        let any: &dyn Any = &**target;
        // Wrappers of devices hide what they are.
        let Some(target) = any.downcast_ref::<AmdDevice>() else { return Ok(edge) };
        // Handles of one HSA library mean nothing to another one.
        if !Arc::ptr_eq(self.agents[0].hsa(), target.agents[0].hsa()) {
            return Ok(edge);
        }
        let ordinals = |device: &AmdDevice| device.agents.iter().map(|agent| agent.ordinal).collect::<Vec<_>>();
        let mut links = Vec::new();
        for agent in &target.agents {
            for source in &self.agents {
                links.push(agent.link_to(source)?);
            }
        }
        let both = || self.agents.iter().chain(&target.agents);
        let known = Edge {
            links: &links,
            same_host: both().all(|agent| agent.host.agent == self.agents[0].host.agent),
            is_same: ordinals(self) == ordinals(target),
            waits_on_device: target
                .physical
                .iter()
                .all(|physical| physical.queues.iter().all(HostQueue::waits_on_device)),
            is_host_coherent: both()
                .all(|agent| agent.local_is_host_visible && matches!(agent.publication, Publication::Coherent)),
        };
        Ok(TopologyEdge { scheduling_word: scheduling_word(&known)?, ..edge })
    }

    fn create_command_buffer(
        &self,
        mode: CommandBufferMode,
        command_categories: CommandCategory,
        queue_affinity: QueueAffinity,
        binding_capacity: u32,
    ) -> Result<Arc<dyn CommandBuffer>> {
        let sources = self.sources(queue_affinity);
        if sources.len() > 1 {
            let agents = sources.into();
            return Ok(AgentsCommandBuffer::new(agents, mode, command_categories, queue_affinity, binding_capacity)?);
        }
        let source = self.queue(queue_affinity).0.source.clone();
        Ok(AmdCommandBuffer::new(source, mode, command_categories, queue_affinity, binding_capacity)?)
    }

    fn create_executable_cache(&self, _identifier: &str) -> Result<Arc<dyn ExecutableCache>> {
        Ok(Arc::new(AmdExecutableCache::new(self.agents.clone(), self.native_code)))
    }

    fn create_semaphore(
        &self,
        queue_affinity: QueueAffinity,
        initial_value: u64,
        flags: SemaphoreFlags,
    ) -> Result<Arc<dyn Semaphore>> {
        type Timeline = DeviceTimeline<SubmissionPoint<QueueClock>>;
        let public =
            SemaphoreFlags::HOST_INTERRUPT | SemaphoreFlags::EXPORTABLE | SemaphoreFlags::EXPORTABLE_TIMEPOINTS;
        let is_private = flags.contains(SemaphoreFlags::DEVICE_LOCAL) && !flags.intersects(public);
        let agent = self.only_agent(queue_affinity).filter(|_| is_private);
        Ok(Arc::new(
            agent
                .map_or_else(|| Timeline::new(initial_value), |agent| Timeline::of_agent(initial_value, agent.agent.0)),
        ))
    }

    fn semaphore_compatibility(&self, semaphore: &Arc<dyn Semaphore>) -> SemaphoreCompatibility {
        let point = Timepoint { semaphore: semaphore.clone(), value: 0 };
        match own::<SubmissionPoint<QueueClock>>(&point) {
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
        let source = Source::<AmdAllocator>::new(&self.state.memory, self.zeroed_transients, pool);
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
        let own = own_allocator::<AmdAllocator>(&self.state.memory.allocator());
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
                let record = |recorder: &mut PacketRecorder, _: &Arc<dyn KernelSource>| recorder.fill(&target, pattern);
                self.submit_recorded(queue_affinity, points, record).or_else(|status| refuse(signal, status))
            }
            QueueOperation::Update { source, target_buffer, target_offset, flags: _ } => {
                let record = |recorder: &mut PacketRecorder, _: &Arc<dyn KernelSource>| {
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
                let record = |recorder: &mut PacketRecorder, _: &Arc<dyn KernelSource>| recorder.copy(&source, &target);
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
                    |recorder: &mut PacketRecorder, source: &Arc<dyn KernelSource>| recorder.dispatch(source, request);
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

    fn device_times(self: Arc<Self>) -> Option<Arc<dyn DeviceTimes>> {
        self.agents.iter().all(|agent| agent.hsa().has_times()).then_some(self)
    }
}
