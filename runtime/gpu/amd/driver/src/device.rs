//! A device ([`AmdDevice`]): one or several agents with their queues. Every operation becomes a submission of a queue.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::agent::GpuAgent;
use crate::agent_source::AgentSource;
use crate::allocator::AmdAllocator;
use crate::builtin::Builtins;
use crate::command_buffer::{AgentsCommandBuffer, AmdCommandBuffer, KernelSource, PacketRecorder, PublishedPool};
use crate::executable::{AmdExecutableCache, supports};
use crate::hal::{
    AllocaFlags, Allocator, Buffer, BufferParams, CommandBuffer, CommandBufferMode, CommandCategory, Device,
    DeviceCapabilities, DeviceCapabilityBits, DeviceCounter, DeviceTimes, ExecutableCache, OptionalMethod, Pool,
    QueryCategory, QueryKey, QueueAffinity, QueueOperation, Semaphore, SemaphoreCompatibility, SemaphoreFlags,
    SlabProvider, Timepoint, TimesObserver, TopologyEdge,
};
use crate::hal_driver::device_queue::{HostWorkers, SubmissionPoint};
use crate::hal_driver::device_state::{DeviceState, device_state_methods};
use crate::hal_driver::device_submission::{DeviceSubmission, end_queues, pool_backend};
use crate::hal_driver::device_timeline::{DeviceTimeline, own};
use crate::hal_driver::memory_source::DeviceMemory as TransientMemory;
use crate::hal_driver::queue::queue_of;
use crate::hal_driver::staging::StagingSlots;
use crate::links::{Edge, scheduling_word};
use crate::memory::Publication;
pub use crate::options::DeviceOptions;
use crate::queue::{HostQueue, PacketQueue, QueueClock};
use crate::status::{Result, Status, StatusCode};
use crate::symbols::PacketCounters;

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
    /// Whether the library counts kernels for this device.
    is_counted: AtomicBool,
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
            is_counted: AtomicBool::new(false),
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

    /// Calls `submit` with the queue of an affinity.
    fn with_queue<T>(
        &self,
        affinity: QueueAffinity,
        submit: impl FnOnce(DeviceSubmission<'_, PacketQueue, PacketRecorder>) -> T,
    ) -> T {
        let (physical, queue) = self.queue(affinity);
        let (core, target, workers) = (&queue.core(), &physical.source, &self.workers);
        submit(DeviceSubmission { core, affinity, target, workers })
    }
}

impl Drop for AmdDevice {
    fn drop(&mut self) {
        end_queues("amdgpu-end", &mut self.physical);
        self.count(false);
    }
}

impl DeviceTimes for AmdDevice {
    fn observe(&self, observer: Option<Arc<dyn TimesObserver>>) {
        let is_counted = observer.as_ref().is_some_and(|observer| observer.wants_counters());
        if is_counted {
            self.count(true);
        }
        let queues = self.physical.iter().flat_map(|physical| &physical.queues);
        queues.for_each(|queue| queue.observe(observer.clone()));
        if !is_counted {
            self.count(false);
        }
    }

    fn counters(&self) -> Vec<DeviceCounter> {
        self.packet_counters().map(PacketCounters::counters).unwrap_or_default()
    }
}

impl AmdDevice {
    /// The counters of the library; all agents of a device are of one.
    fn packet_counters(&self) -> Option<&dyn PacketCounters> {
        self.agents.first().and_then(|agent| agent.hsa().counters())
    }

    /// From here on kernels are counted for this device, or not any more.
    fn count(&self, is_counted: bool) {
        if let Some(counters) = self.packet_counters()
            && self.is_counted.swap(is_counted, Ordering::AcqRel) != is_counted
        {
            counters.enable(is_counted);
        }
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
        let memory = (&self.state.memory, self.zeroed_transients);
        self.with_queue(queue_affinity, |queue| {
            queue.alloca::<AmdAllocator>((wait, signal), memory, pool, (params, allocation_size, flags))
        })
    }

    fn queue_pool_backend(&self, queue_affinity: QueueAffinity) -> Result<Arc<dyn SlabProvider>> {
        pool_backend::<AmdAllocator>(&self.state.memory, queue_affinity)
    }

    fn submit(
        &self,
        queue_affinity: QueueAffinity,
        wait: &[Timepoint],
        signal: &[Timepoint],
        operation: QueueOperation<'_>,
    ) -> Result<()> {
        let affinity = queue_of(&operation, queue_affinity);
        let staging = (&self.own_memory, &self.staging);
        self.with_queue(affinity, |queue| queue.submit((wait, signal), operation, staging))
    }

    fn device_times(self: Arc<Self>) -> Option<Arc<dyn DeviceTimes>> {
        self.agents.iter().all(|agent| agent.hsa().has_times()).then_some(self)
    }
}
