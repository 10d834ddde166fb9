//! The wrapper of a device that has profiles.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use vireo_core::address_map::AddressMap;
use vireo_core::status::{Result, Status};
use vireo_hal::forward::{ForwardCommandBuffer as _, ForwardDevice, ForwardExecutable as _};
use vireo_hal::timepoints::reached;
use vireo_hal::{
    AllocaFlags, Allocator, Buffer, BufferParams, CommandBuffer, CommandBufferMode, CommandCategory, Device,
    DeviceCounter, ExecutableCache, Forward, Pool, ProfilingDataFamilies, ProfilingFlags, ProfilingOptions,
    QueryCategory, QueryKey, QueueAffinity, QueueOperation, Timepoint,
};

use super::buffers::ProfiledAllocator;
use super::commands::{KnownCommands, ProfiledCommandBuffer, known_commands};
use super::cpu_counters::CpuCounters;
use super::device_events::DeviceEvents;
use super::executables::{Functions, Ids, ProfiledCache, ProfiledExecutable, known};
use super::metrics::Metrics;
use super::open::{Open, OpenSession};
use super::session::{Allocations, MAX_QUEUES, Place, Session};
use super::session_counters::SessionCounters;
use super::work::{Memory, Submitted, Work};
use crate::generated::format::{MemoryEventType, QueueEventType};

/// The methods that the wrapper adds.
const METHODS: [&str; 3] = ["device.profiling_begin", "device.profiling_flush", "device.profiling_end"];

/// The measurements that the host makes for every device.
const OF_HOST: ProfilingDataFamilies = ProfilingDataFamilies::QUEUE_EVENTS
    .union(ProfilingDataFamilies::EXECUTABLE_METADATA)
    .union(ProfilingDataFamilies::MEMORY_EVENTS)
    .union(ProfilingDataFamilies::DEVICE_METRICS);

/// Those of a device whose dispatches run on the processor.
const OF_PROCESSOR: ProfilingDataFamilies =
    ProfilingDataFamilies::HOST_EXECUTION_EVENTS.union(ProfilingDataFamilies::COUNTER_SAMPLES);

/// Those of a device that measures times itself.
const OF_DEVICE: ProfilingDataFamilies =
    ProfilingDataFamilies::DEVICE_QUEUE_EVENTS.union(ProfilingDataFamilies::DISPATCH_EVENTS);

/// Wraps the devices of a profile, so that their numbers in it differ. The methods of profiling of a wrapper work; all
/// others are those of the device. Command buffers and executables that are made through a wrapper are for wrappers of
/// the same device alone.
///
/// A device that runs kernels on the host has events of queues, of the host's work and of memory, and the metadata of
/// executables. One that measures times itself ([`DeviceTimes`](vireo_hal::DeviceTimes)) has events of its dispatches
/// and of its queue in place of the host's work, and counters if it counts what kernels do. Metrics of the machine are
/// there where the operating system has files of them.
#[derive(Debug, Default)]
pub struct ProfiledDevices {
    ids: Arc<Ids>,
    count: u32,
}

impl ProfiledDevices {
    /// Devices of a profile.
    pub fn new() -> ProfiledDevices {
        ProfiledDevices::default()
    }

    /// The device with profiles. It is the next one of the profile.
    pub fn device(&mut self, device: &Arc<dyn Device>) -> Arc<dyn Device> {
        let queues = device.query_i64(QueryCategory::Device.name(), QueryKey::Concurrency.name());
        let queue_count = queues.ok().and_then(|count| u32::try_from(count).ok()).unwrap_or(1).clamp(1, MAX_QUEUES);
        let place = Place { name: device.id().to_string(), ordinal: self.count, queue_count };
        self.count += 1;
        Arc::new(Forward(ProfiledDevice {
            inner: device.clone(),
            ids: self.ids.clone(),
            place,
            functions: Arc::default(),
            open: Arc::default(),
            allocator: Mutex::default(),
            allocations: Mutex::default(),
            last_allocation: Arc::default(),
        }))
    }
}

#[derive(Debug)]
struct ProfiledDevice {
    inner: Arc<dyn Device>,
    ids: Arc<Ids>,
    place: Place,
    functions: Arc<Functions>,
    open: Arc<OpenSession>,
    /// The wrapper of the device's allocator.
    allocator: Mutex<Option<Arc<Forward<ProfiledAllocator>>>>,
    /// Transient buffers by their addresses, until they are deallocated.
    allocations: Mutex<AddressMap<Allocated>>,
    last_allocation: Arc<Allocations>,
}

/// A transient buffer.
#[derive(Clone, Copy, Debug)]
struct Allocated {
    id: u64,
    length: u64,
    memory: Memory,
}

/// Most transient buffers that are remembered. Programs that leave more to their references lose names of allocations.
const REMEMBERED: usize = 1 << 16;

impl ProfiledDevice {
    fn opened(&self) -> Result<Open> {
        self.open.get().ok_or_else(|| Status::failed_precondition("no profile of the device is open"))
    }

    fn queue(&self, affinity: QueueAffinity) -> u32 {
        let first = affinity.bits().trailing_zeros();
        if first < self.place.queue_count { first } else { 0 }
    }

    fn allocation(&self, buffer: &Arc<dyn Buffer>) -> Option<Allocated> {
        self.allocations.lock().unwrap_or_else(PoisonError::into_inner).remove(&address(buffer))
    }

    /// Submits what `submitted` describes, and has it observed.
    fn watched<T>(
        &self,
        open: Open,
        submitted: Submitted,
        submit: impl FnOnce() -> Result<T>,
        describe: impl FnOnce(&T, &Submitted),
    ) -> Result<T> {
        let Open { session, device_events } = open;
        if let Some(events) = &device_events {
            events.submitted(&submitted);
        }
        let work = Arc::new(Work::new(session, submitted));
        let outcome = work.submit(submit);
        if let Ok(value) = &outcome {
            describe(value, &work.submitted);
        }
        // A device that is no host does not say when it begins.
        if device_events.is_some() {
            work.write_submitted();
        }
        work.session.write_if_full();
        outcome
    }
}

fn address(buffer: &Arc<dyn Buffer>) -> usize {
    Arc::as_ptr(buffer).cast::<()>().addr()
}

/// The type of an operation, its bytes and the number of its commands.
fn measures(operation: &QueueOperation<'_>) -> (QueueEventType, u64, u32) {
    match operation {
        QueueOperation::Dealloca { .. } => (QueueEventType::DEALLOCA, 0, 1),
        QueueOperation::Fill { length, .. } => (QueueEventType::FILL, *length, 1),
        QueueOperation::Update { source, .. } => (QueueEventType::UPDATE, source.len() as u64, 1),
        QueueOperation::Copy { length, .. } => (QueueEventType::COPY, *length, 1),
        QueueOperation::Read { length, .. } => (QueueEventType::READ, *length, 1),
        QueueOperation::Write { length, .. } => (QueueEventType::WRITE, *length, 1),
        QueueOperation::HostCall { .. } => (QueueEventType::HOST_CALL, 0, 1),
        QueueOperation::Dispatch { .. } => (QueueEventType::DISPATCH, 0, 1),
        QueueOperation::Execute { .. } => (QueueEventType::EXECUTE, 0, 0),
        QueueOperation::Barrier { .. } => (QueueEventType::BARRIER, 0, 0),
    }
}

fn count(points: &[Timepoint]) -> u32 {
    u32::try_from(points.len()).unwrap_or(u32::MAX)
}

/// The counters that the options select, of those of the device if it has some.
fn selected(options: &ProfilingOptions, of_device: &[DeviceCounter]) -> Result<SessionCounters> {
    let names: Vec<String> = options.counter_sets.iter().flat_map(|set| set.counter_names.iter().cloned()).collect();
    if names.is_empty() {
        return Err(Status::invalid_argument("a profile of counters needs the names of some"));
    }
    match of_device {
        [] => CpuCounters::select(&names).map(SessionCounters::Processor),
        counters => SessionCounters::of_device(counters, &names),
    }
}

impl ForwardDevice for ProfiledDevice {
    fn inner(&self) -> &Arc<dyn Device> {
        &self.inner
    }

    fn supports(&self, method: &str) -> bool {
        METHODS.contains(&method) || self.inner.supports(method)
    }

    fn allocator(&self) -> Arc<dyn Allocator> {
        let mut known = self.allocator.lock().unwrap_or_else(PoisonError::into_inner);
        ProfiledAllocator::of(self.inner.allocator(), &mut known, (&self.open, &self.last_allocation))
    }

    fn create_executable_cache(&self, identifier: &str) -> Result<Arc<dyn ExecutableCache>> {
        let inner = self.inner.create_executable_cache(identifier)?;
        let (ids, all) = (self.ids.clone(), self.functions.clone());
        Ok(Arc::new(Forward(ProfiledCache { inner, ids, all })))
    }

    fn create_command_buffer(
        &self,
        mode: CommandBufferMode,
        command_categories: CommandCategory,
        queue_affinity: QueueAffinity,
        binding_capacity: u32,
    ) -> Result<Arc<dyn CommandBuffer>> {
        let inner = self.inner.create_command_buffer(mode, command_categories, queue_affinity, binding_capacity)?;
        let known = Arc::new(KnownCommands {
            id: self.ids.next_command_buffer(),
            mode: mode.bits().into(),
            categories: command_categories.bits().into(),
            queue_affinity: queue_affinity.bits(),
            commands: Mutex::default(),
            session: AtomicU64::new(0),
        });
        Ok(Arc::new(Forward(ProfiledCommandBuffer { inner, known })))
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
        let submit = || self.inner.queue_alloca(queue_affinity, wait, signal, pool, params, allocation_size, flags);
        let Some(open) = self.open.get() else { return submit() };
        let memory = Memory {
            memory_type: params.memory_type.bits().into(),
            usage: params.usage.bits().into(),
            alignment: params.min_alignment.max(1),
        };
        let submitted = Submitted {
            id: open.session.next_submission(),
            r#type: QueueEventType::ALLOCA,
            queue: self.queue(queue_affinity),
            commands: None,
            function: None,
            allocation: self.last_allocation.next(),
            memory: Some((MemoryEventType::QUEUE_ALLOCA, memory)),
            payload_length: allocation_size,
            operation_count: 1,
            counts: (count(wait), count(signal)),
            time: open.session.clock.now(),
            is_deferred: !matches!(reached(wait), Ok(true)),
        };
        self.watched(open, submitted, submit, |buffer, submitted| {
            let mut allocations = self.allocations.lock().unwrap_or_else(PoisonError::into_inner);
            if allocations.len() >= REMEMBERED {
                allocations.clear();
            }
            let allocated = Allocated { id: submitted.allocation, length: allocation_size, memory };
            allocations.insert(address(buffer), allocated);
        })
    }

    fn submit(
        &self,
        queue_affinity: QueueAffinity,
        wait: &[Timepoint],
        signal: &[Timepoint],
        operation: QueueOperation<'_>,
    ) -> Result<()> {
        // The device gets its own objects.
        let own = match operation {
            QueueOperation::Execute { command_buffer, binding_table, flags } => QueueOperation::Execute {
                command_buffer: ProfiledCommandBuffer::inner_of(command_buffer),
                binding_table,
                flags,
            },
            QueueOperation::Dispatch { executable, function, config, constants, bindings, flags } => {
                let executable = ProfiledExecutable::inner_of(executable);
                QueueOperation::Dispatch { executable, function, config, constants, bindings, flags }
            }
            operation => operation,
        };
        let submit = || self.inner.submit(queue_affinity, wait, signal, own);
        let Some(open) = self.open.get() else { return submit() };
        let (r#type, payload_length, operation_count) = measures(&operation);
        let mut submitted = Submitted {
            id: open.session.next_submission(),
            r#type,
            queue: self.queue(queue_affinity),
            commands: None,
            function: None,
            allocation: 0,
            memory: None,
            payload_length,
            operation_count,
            counts: (count(wait), count(signal)),
            time: open.session.clock.now(),
            is_deferred: !matches!(reached(wait), Ok(true)),
        };
        match operation {
            QueueOperation::Execute { command_buffer, .. } => {
                if let Some(commands) = known_commands(command_buffer) {
                    open.session.note_commands(commands);
                    let recorded = commands.recorded();
                    submitted.operation_count = u32::try_from(recorded.operations.len()).unwrap_or(u32::MAX);
                    drop(recorded);
                    submitted.commands = Some(commands.clone());
                }
            }
            QueueOperation::Dispatch { executable, function, .. } => {
                if let Some(executable) = known(executable) {
                    open.session.note_executable(executable);
                    let ordinal = executable.ordinal(function);
                    submitted.function = ordinal.map(|ordinal| (executable.clone(), ordinal));
                }
            }
            QueueOperation::Dealloca { buffer, .. } => {
                if let Some(Allocated { id, length, memory }) = self.allocation(buffer) {
                    (submitted.allocation, submitted.payload_length) = (id, length);
                    submitted.memory = Some((MemoryEventType::QUEUE_DEALLOCA, memory));
                }
            }
            _ => {}
        }
        self.watched(open, submitted, submit, |(), _| ())
    }

    fn profiling_begin(&self, options: &ProfilingOptions) -> Result<()> {
        let mut locked = self.open.lock();
        if locked.is_some() {
            return Err(Status::failed_precondition("a profile of the device is open already"));
        }
        if options.flags.contains(ProfilingFlags::LIGHTWEIGHT_STATISTICS) {
            return Err(Status::unimplemented("sums alone (`lightweight_statistics`) are no profile of this device"));
        }
        let times = self.inner.clone().device_times();
        let mut families = options.data_families;
        let mut supported = OF_HOST;
        let device_counters = times.as_ref().map(|times| times.counters()).unwrap_or_default();
        supported |= match &times {
            None => OF_PROCESSOR,
            Some(_) if device_counters.is_empty() => OF_DEVICE,
            Some(_) => OF_DEVICE | ProfilingDataFamilies::COUNTER_SAMPLES,
        };
        let refused = families - supported;
        if !refused.is_empty() {
            let message =
                format!("the device `{}` has no measurements of {refused:?}: it has {supported:?}", self.inner.id());
            return Err(Status::unimplemented(message));
        }
        let Some(sink) = &options.sink else {
            let message = format!("a profile of {families:?} needs a sink");
            return if families.is_empty() { Ok(()) } else { Err(Status::invalid_argument(message)) };
        };
        let counters = match families.contains(ProfilingDataFamilies::COUNTER_SAMPLES) {
            true => Some(selected(options, &device_counters)?),
            false => None,
        };
        if families.intersects(OF_PROCESSOR | OF_DEVICE) {
            families |= ProfilingDataFamilies::EXECUTABLE_METADATA;
        }
        let metrics = match families.contains(ProfilingDataFamilies::DEVICE_METRICS) {
            true => Some(Metrics::find()?),
            false => None,
        };
        let filter = options.capture_filter.clone();
        let begun = Arc::new(Session::begin(self.place.clone(), families, sink.clone(), filter, metrics, counters)?);
        let is_observed = families.intersects(OF_DEVICE | ProfilingDataFamilies::COUNTER_SAMPLES);
        let device_events = times.filter(|_| is_observed).map(|times| {
            let events = Arc::new(DeviceEvents::new(begun.clone(), self.functions.clone()));
            times.observe(Some(events.clone()));
            events
        });
        self.open.begin(&mut locked, Open { session: begun, device_events });
        Ok(())
    }

    fn profiling_flush(&self) -> Result<()> {
        self.opened()?.session.flush()
    }

    fn profiling_end(&self) -> Result<()> {
        self.opened()?;
        let Some(Open { session, device_events }) = self.open.end() else { return Ok(()) };
        if device_events.is_some()
            && let Some(times) = self.inner.clone().device_times()
        {
            times.observe(None);
        }
        session.end()
    }
}
