//! A device ([`StreamDevice`]): one or several GPUs of a library with their streams. Every operation becomes a
//! submission of a queue.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use crate::allocator::StreamAllocator;
use crate::collectives::{self, CollectivesLibrary, LibrarySource};
use crate::command_buffer::{StreamCommandBuffer, StreamRecorder, StreamsCommandBuffer, Target};
use crate::context::{Context, LaunchLimits};
use crate::executable::{Export, KernelResources, LoadedKernel, StreamExecutable, StreamExecutableCache};
use crate::hal::{
    AllocaFlags, Allocator, Buffer, BufferParams, Channel, ChannelParams, ChannelProvider, CommandBuffer,
    CommandBufferMode, CommandCategory, Device, DeviceCapabilities, DeviceCapabilityBits, DeviceTimes, Executable,
    ExecutableCache, ExecutableFunction, GpuQueryCategory, GpuQueryKey, OptionalMethod, Pool, QueryCategory, QueryKey,
    QueueAffinity, QueueOperation, Semaphore, SemaphoreCompatibility, SemaphoreFlags, SlabProvider, Timepoint,
    TimesObserver, TopologyEdge,
};
use crate::hal_driver::device_queue::{HostWorkers, Owner, SubmissionPoint};
use crate::hal_driver::device_state::{DeviceState, device_state_methods};
use crate::hal_driver::device_submission::{DeviceSubmission, end_queues, pool_backend};
use crate::hal_driver::device_timeline::{DeviceTimeline, own};
use crate::hal_driver::memory_source::DeviceMemory as TransientMemory;
use crate::hal_driver::queue::queue_of;
use crate::hal_driver::staging::StagingSlots;
pub use crate::options::{DeviceOptions, UseGraphs};
use crate::queue::{Place, QueueCore, StreamClock, StreamQueue};
use crate::status::{Result, Status};
use crate::times::DeviceClock;

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

    fn context(&self) -> &Arc<Context> {
        &self.0
    }
}

/// A GPU of a device.
#[derive(Debug)]
struct Physical {
    queues: Vec<Owner<StreamQueue>>,
    /// The GPU as its command buffers are recorded for it.
    target: Arc<dyn Target>,
    clock: Arc<DeviceClock>,
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
    /// Where the library of collective operations is from, and whether its calls are traced.
    collectives: (LibrarySource, bool),
    /// The library, once a channel was created.
    collectives_library: OnceLock<Result<Arc<CollectivesLibrary>>>,
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
            let clock = Arc::new(DeviceClock::new(context));
            let queue = |index| {
                // There are at most 64.
                let ordinal = (place * options.streams + index) as u32;
                let place = Place { ordinal, gpu: place, clock: &clock };
                Owner::start(crate::queue::queue_of(context, &own_memory, place, options.graphs)?)
            };
            let queues = (0..options.streams).map(queue).collect::<Result<_>>()?;
            Ok(Physical { queues, target: Arc::new(ContextTarget(context.clone())), clock })
        };
        let physical = contexts.iter().enumerate().map(physical).collect::<Result<Vec<_>>>()?;
        let memory = TransientMemory::new(own_memory.clone());
        let memory = if options.zeroed_transients { memory.zeroed() } else { memory };
        let mut state = DeviceState::new(id, memory);
        state.collectives = options.collectives.clone();
        Ok(StreamDevice {
            state,
            contexts,
            physical,
            workers: Arc::new(HostWorkers::new("stream")),
            own_memory,
            staging: Arc::default(),
            zeroed_transients: options.zeroed_transients,
            native_code: options.native_code,
            collectives: (options.collectives_library.clone(), options.trace_collectives),
            collectives_library: OnceLock::new(),
        })
    }

    /// The resources that the kernels of an executable have on each of its GPUs, by their names. The code is loaded for
    /// that, and not run.
    pub fn resources(&self, data: &[u8]) -> Vec<(String, Result<Vec<KernelResources>>)> {
        let of = |context: &Arc<Context>| {
            if !self.native_code {
                return Err(Status::permission_denied("the security policy allows no machine code"));
            }
            StreamExecutable::load(std::slice::from_ref(context), 1, data)?.resources()
        };
        self.contexts.iter().map(|context| (format!("{context:?}"), of(context))).collect()
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

    /// Calls `submit` with the queue of an affinity.
    fn with_queue<T>(
        &self,
        affinity: QueueAffinity,
        submit: impl FnOnce(DeviceSubmission<'_, StreamQueue, StreamRecorder>) -> T,
    ) -> T {
        let (physical, queue) = self.queue(affinity);
        let (core, target, workers) = (queue, &physical.target, &self.workers);
        submit(DeviceSubmission { core, affinity, target, workers })
    }
}

impl Drop for StreamDevice {
    fn drop(&mut self) {
        end_queues("stream-end", &mut self.physical);
    }
}

impl DeviceTimes for StreamDevice {
    fn observe(&self, observer: Option<Arc<dyn TimesObserver>>) {
        for physical in &self.physical {
            physical.clock.set_observed(observer.is_some());
            physical.queues.iter().for_each(|queue| queue.core().hardware.observe(observer.clone()));
        }
    }
}

impl Device for StreamDevice {
    device_state_methods!();

    fn supports(&self, method: &str) -> bool {
        let more = [
            OptionalMethod::CommandBufferCollective,
            OptionalMethod::DeviceCreateChannel,
            OptionalMethod::DeviceQueuePoolBackend,
            OptionalMethod::DeviceReplaceChannelProvider,
            OptionalMethod::ExecutableLookupGlobal,
        ];
        self.state.supports(method, &more)
    }

    fn trim(&self) -> Result<()> {
        // The device's own memory, also if the host has put another allocator in the place of its allocator.
        self.own_memory.trim()?;
        self.state.trim()
    }

    fn query_i64(&self, category: &str, key: &str) -> Result<i64> {
        let names = self.contexts[0].api().names();
        let (major, minor) = self.contexts[0].description.capability;
        if GpuQueryCategory::from_name(category) == Some(names.queries) {
            return match GpuQueryKey::from_name(key) {
                Some(GpuQueryKey::ComputeCapabilityMajor) => Ok(major.into()),
                Some(GpuQueryKey::ComputeCapabilityMinor) => Ok(minor.into()),
                None => Err(self.state.unknown(category, key)),
            };
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

    fn create_channel(&self, queue_affinity: QueueAffinity, params: &ChannelParams) -> Result<Arc<dyn Channel>> {
        let (source, trace) = &self.collectives;
        // SAFETY: the library is that of the system, one that the user named for this, or part of the program; it is
        // trusted like the driver library.
        let library = self.collectives_library.get_or_init(|| unsafe { CollectivesLibrary::load(source, *trace) });
        let context = self.queue(queue_affinity).0.target.context();
        Ok(collectives::create(library.as_ref().map_err(Clone::clone)?, context, &self.state.collectives, params)?)
    }

    fn replace_channel_provider(&self, new_provider: &Arc<dyn ChannelProvider>) -> Result<()> {
        self.state.collectives.replace_provider(new_provider);
        Ok(())
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
        Ok(Arc::new(StreamExecutableCache::new(self.contexts.clone(), self.physical[0].queues.len(), self.native_code)))
    }

    fn create_semaphore(
        &self,
        _queue_affinity: QueueAffinity,
        initial_value: u64,
        _flags: SemaphoreFlags,
    ) -> Result<Arc<dyn Semaphore>> {
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
        let memory = (&self.state.memory, self.zeroed_transients);
        self.with_queue(queue_affinity, |queue| {
            queue.alloca::<StreamAllocator>((wait, signal), memory, pool, (params, allocation_size, flags))
        })
    }

    fn queue_pool_backend(&self, queue_affinity: QueueAffinity) -> Result<Arc<dyn SlabProvider>> {
        pool_backend::<StreamAllocator>(&self.state.memory, queue_affinity)
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
        Some(self)
    }
}
