//! A session: the records of events, and of the objects that they name, until they are written: at each flush, at the
//! end, and by a thread that submits when there are many. Threads that complete work add events and never wait for the
//! sink; events beyond a bound are counted as dropped.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;
use vireo_core::glob;
use vireo_core::record_file::TrailingError;
use vireo_core::status::{Result, Status};
use vireo_hal::{
    ProfileCaptureFilter, ProfileCaptureFilterFlags, ProfileChunkFlags, ProfileChunkMetadata, ProfileSink,
    ProfilingDataFamilies, QueueAffinity,
};

use super::commands::KnownCommands;
use super::cpu_counters::CpuCounters;
use super::executables::KnownExecutable;
use super::host_clock::HostClock;
use super::metrics::Metrics;
use super::session_counters::SessionCounters;
use crate::generated::contents::Content;
use crate::generated::format::{CLOCK_DEVICE_TICK, CLOCK_HOST_BRACKET, CLOCK_HOST_CPU, CONTENT_TYPE_PREFIX, NONE};
use crate::generated::records::{
    ClockCorrelation, CommandBuffer, Counter, CounterSet, Device, Executable, ExecutableFunction, Queue,
};

/// Bytes of events from which on a thread that submits writes them.
const KEPT_BYTES: usize = 1 << 20;
/// Bytes of events from which on more are dropped.
const MOST_BYTES: usize = 16 << 20;
/// Queues of a device, at most: an affinity has a bit for each.
pub(super) const MAX_QUEUES: u32 = QueueAffinity::ANY.bits().count_ones();

/// The set of counters of a session, which has one at most.
pub(super) const COUNTER_SET: u64 = 1;

/// The content type of the records that begin and end a session.
const SESSION: &str = "session";

/// Numbers sessions of the process, so that objects know which one has their records.
static SESSIONS: AtomicU64 = AtomicU64::new(0);

/// The device of a session.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Its name.
    pub(super) name: String,
    /// Its place among the devices of the profile.
    pub(super) ordinal: u32,
    pub(super) queue_count: u32,
}

impl Place {
    /// The stream of a queue.
    pub(super) fn stream(&self, queue: u32) -> u64 {
        u64::from(self.ordinal) * u64::from(MAX_QUEUES) + u64::from(queue)
    }
}

/// The numbers of the allocations of a device.
#[derive(Debug, Default)]
pub(super) struct Allocations(AtomicU64);

impl Allocations {
    pub(super) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// An open session.
pub(super) struct Session {
    pub(super) place: Place,
    pub(super) families: ProfilingDataFamilies,
    pub(super) clock: HostClock,
    sink: Arc<dyn ProfileSink>,
    filter: ProfileCaptureFilter,
    /// Its number in this process.
    number: u64,
    submissions: AtomicU64,
    metrics: Option<Metrics>,
    counters: Option<SessionCounters>,
    /// Held while the sink writes, and then taken before `events`.
    output: Mutex<Output>,
    /// Never held while the sink writes.
    events: Mutex<Events>,
    /// Whether there are so many events that they are to be written.
    is_full: AtomicBool,
}

/// The output of a session.
#[derive(Default)]
struct Output {
    /// The first failure of the sink, after which nothing is written.
    failure: Option<Status>,
    last_clock: u64,
}

/// Records that are not written yet.
#[derive(Default)]
pub(super) struct Events {
    command_buffers: Vec<u8>,
    command_operations: Vec<u8>,
    pub(super) queue: Vec<u8>,
    pub(super) host_execution: Vec<u8>,
    pub(super) memory: Vec<u8>,
    pub(super) queue_device: Vec<u8>,
    pub(super) counter_samples: Vec<u8>,
    /// By queues, which the chunk names.
    pub(super) dispatch: BTreeMap<u32, Vec<u8>>,
    /// The first and the last tick of a device, each with a time of the host.
    pub(super) ticks: Option<((u64, i64), (u64, i64))>,
    /// Executables that events name and that no submission has named.
    executables: Vec<Arc<KnownExecutable>>,
    last: LastIds,
    /// The first failure of counters.
    failure: Option<Status>,
    /// Calls of [`Session::add`] whose events there was no room for.
    dropped: u64,
}

/// The last event of each type.
#[derive(Default)]
struct LastIds {
    queue: u64,
    host_execution: u64,
    memory: u64,
    queue_device: u64,
    dispatch: u64,
    counter_sample: u64,
}

impl Events {
    pub(super) fn next_queue_event(&mut self) -> u64 {
        next(&mut self.last.queue)
    }

    pub(super) fn next_host_execution_event(&mut self) -> u64 {
        next(&mut self.last.host_execution)
    }

    pub(super) fn next_memory_event(&mut self) -> u64 {
        next(&mut self.last.memory)
    }

    pub(super) fn next_queue_device_event(&mut self) -> u64 {
        next(&mut self.last.queue_device)
    }

    pub(super) fn next_dispatch_event(&mut self) -> u64 {
        next(&mut self.last.dispatch)
    }

    pub(super) fn next_counter_sample(&mut self) -> u64 {
        next(&mut self.last.counter_sample)
    }

    /// Notes that counters failed. The session fails when it is flushed.
    pub(super) fn fail(&mut self, status: Status) {
        self.failure.get_or_insert(status);
    }

    /// Notes that an event names an executable, which is written before the event.
    pub(super) fn names(&mut self, executable: Arc<KnownExecutable>) {
        if !self.executables.iter().any(|other| Arc::ptr_eq(other, &executable)) {
            self.executables.push(executable);
        }
    }

    /// Each submission asks for them, so they are added up without an iterator.
    fn bytes(&self) -> usize {
        let of_commands = self.command_buffers.len() + self.command_operations.len();
        let of_host = self.queue.len() + self.host_execution.len() + self.memory.len();
        let of_device = self.queue_device.len() + self.counter_samples.len();
        let of_dispatches = match self.dispatch.is_empty() {
            true => 0,
            false => self.dispatch.values().map(Vec::len).sum(),
        };
        of_commands + of_host + of_device + of_dispatches
    }

    /// Takes all records out.
    fn take(&mut self) -> Events {
        // Numbers of events go on.
        let Events { last, .. } = self;
        let last = std::mem::take(last);
        std::mem::replace(self, Events { last, ..Events::default() })
    }
}

fn next(last: &mut u64) -> u64 {
    *last += 1;
    *last
}

impl Session {
    /// Begins one: the sink learns of the device and its queues.
    ///
    /// # Errors
    /// Those of the sink.
    pub(super) fn begin(
        place: Place,
        families: ProfilingDataFamilies,
        sink: Arc<dyn ProfileSink>,
        filter: ProfileCaptureFilter,
        metrics: Option<Metrics>,
        counters: Option<SessionCounters>,
    ) -> Result<Session> {
        let session = Session {
            place,
            families,
            clock: HostClock::new(),
            sink,
            filter,
            number: SESSIONS.fetch_add(1, Ordering::Relaxed) + 1,
            submissions: AtomicU64::new(0),
            metrics,
            counters,
            output: Mutex::default(),
            events: Mutex::default(),
            is_full: AtomicBool::new(false),
        };
        session.sink.begin_session(&session.metadata(SESSION, None))?;
        let ordinal = session.place.ordinal;
        let device = Device {
            record_length: Device::SIZE as u32,
            flags: 0,
            physical_device_ordinal: ordinal,
            queue_count: session.place.queue_count,
            physical_device_uuid: [0; 16],
        };
        session.write(Content::Devices, None, &device.to_bytes())?;
        let queue = |queue_ordinal: u32| Queue {
            record_length: Queue::SIZE as u32,
            physical_device_ordinal: ordinal,
            queue_ordinal,
            reserved0: 0,
            stream_id: session.place.stream(queue_ordinal),
        };
        let queues: Vec<u8> = (0..session.place.queue_count).flat_map(|ordinal| queue(ordinal).to_bytes()).collect();
        session.write(Content::Queues, None, &queues)?;
        if let Some(metrics) = &session.metrics {
            let (sources, descriptors) = metrics.descriptions(ordinal)?;
            session.write(Content::DeviceMetricSources, None, &sources)?;
            session.write(Content::DeviceMetricDescriptors, None, &descriptors)?;
            session.sample_metrics()?;
        }
        if let Some(counters) = &session.counters {
            session.describe_counters(counters)?;
        }
        Ok(session)
    }

    pub(super) fn has(&self, family: ProfilingDataFamilies) -> bool {
        self.families.contains(family)
    }

    /// The number of the session in this process, and the counters of the processor that it has.
    pub(super) fn cpu_counters(&self) -> Option<(u64, &CpuCounters)> {
        match self.counters.as_ref()? {
            SessionCounters::Processor(counters) => Some((self.number, counters)),
            SessionCounters::Device(_) => None,
        }
    }

    /// The counters that it has.
    pub(super) fn counters(&self) -> Option<&SessionCounters> {
        self.counters.as_ref()
    }

    /// Writes the set of counters, and each of them.
    fn describe_counters(&self, counters: &SessionCounters) -> Result<()> {
        let described = counters.described();
        let count = u32::try_from(described.len()).unwrap_or(u32::MAX);
        let too_long = |error: TrailingError| Status::out_of_range(error.to_string());
        let set = CounterSet {
            counter_set_id: COUNTER_SET,
            physical_device_ordinal: self.place.ordinal,
            counter_count: count,
            sample_value_count: count,
            ..CounterSet::read(&[0; CounterSet::SIZE])
        };
        let mut records = Vec::new();
        set.write(&mut records, counters.set_name().as_bytes()).map_err(too_long)?;
        self.write(Content::CounterSets, None, &records)?;
        records.clear();
        for (ordinal, counter) in (0..).zip(&described) {
            let record = Counter {
                unit: counter.unit.0,
                physical_device_ordinal: self.place.ordinal,
                counter_set_id: COUNTER_SET,
                counter_ordinal: ordinal,
                sample_value_offset: ordinal,
                sample_value_count: 1,
                ..Counter::read(&[0; Counter::SIZE])
            };
            let [block, name, description] = [counter.block, counter.name, counter.description].map(str::as_bytes);
            record.write(&mut records, block, name, description).map_err(too_long)?;
        }
        self.write(Content::Counters, None, &records)
    }

    pub(super) fn next_submission(&self) -> u64 {
        self.submissions.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether the filter selects a dispatch.
    pub(super) fn selects(&self, queue: u32, command_buffer: u64, command: u32, function: &str) -> bool {
        let ProfileCaptureFilter { flags, executable_function_pattern, .. } = &self.filter;
        let is = |flag: ProfileCaptureFilterFlags, matches: bool| !flags.contains(flag) || matches;
        flags.is_empty()
            || (is(
                ProfileCaptureFilterFlags::EXECUTABLE_FUNCTION_PATTERN,
                glob::matches(executable_function_pattern.as_bytes(), function.as_bytes()),
            ) && is(ProfileCaptureFilterFlags::COMMAND_BUFFER_ID, self.filter.command_buffer_id == command_buffer)
                && is(ProfileCaptureFilterFlags::COMMAND_INDEX, self.filter.command_index == command)
                && is(
                    ProfileCaptureFilterFlags::PHYSICAL_DEVICE_ORDINAL,
                    self.filter.physical_device_ordinal == self.place.ordinal,
                )
                && is(ProfileCaptureFilterFlags::QUEUE_ORDINAL, self.filter.queue_ordinal == queue))
    }

    /// Adds records of events, if there is room for them.
    pub(super) fn add(&self, add: impl FnOnce(&mut Events)) {
        let mut events = self.events();
        let bytes = events.bytes();
        if bytes >= MOST_BYTES {
            events.dropped += 1;
            return;
        }
        add(&mut events);
        if bytes >= KEPT_BYTES {
            self.is_full.store(true, Ordering::Relaxed);
        }
    }

    /// Writes the events if there are many. Called by threads that submit.
    pub(super) fn write_if_full(&self) {
        if self.is_full.load(Ordering::Relaxed) {
            self.write_events(&mut self.output());
        }
    }

    /// Adds the records of what events will name, unless this session has them: a command buffer, and its executables.
    pub(super) fn note_commands(&self, known: &KnownCommands) {
        if known.session.load(Ordering::Relaxed) == self.number {
            return;
        }
        let is_new = |executable: &&Arc<KnownExecutable>| executable.session.load(Ordering::Relaxed) != self.number;
        // Events are added while commands are held, so commands are not held while an executable is written.
        let executables: SmallVec<[Arc<KnownExecutable>; 2]> =
            known.recorded().executables.iter().filter(is_new).cloned().collect();
        for executable in &executables {
            self.note_executable(executable);
        }
        // Programs record a command buffer for each call, so its records wait for a chunk with those of others. They
        // are not dropped: the thread that submits writes them.
        let mut events = self.events();
        if known.session.swap(self.number, Ordering::Relaxed) == self.number {
            return;
        }
        let command_buffer = CommandBuffer {
            record_length: CommandBuffer::SIZE as u32,
            command_buffer_id: known.id,
            mode: known.mode,
            command_categories: known.categories,
            queue_affinity: known.queue_affinity,
            physical_device_ordinal: self.place.ordinal,
            ..CommandBuffer::read(&[0; CommandBuffer::SIZE])
        };
        events.command_buffers.extend_from_slice(&command_buffer.to_bytes());
        for operation in &known.recorded().operations {
            events.command_operations.extend_from_slice(&operation.to_bytes());
        }
    }

    /// The same for an executable.
    pub(super) fn note_executable(&self, known: &KnownExecutable) {
        if known.session.load(Ordering::Relaxed) != self.number {
            self.write_executable(&mut self.output(), known);
        }
    }

    fn write_executable(&self, output: &mut Output, known: &KnownExecutable) {
        if known.session.swap(self.number, Ordering::Relaxed) == self.number {
            return;
        }
        let executable = Executable {
            record_length: Executable::SIZE as u32,
            executable_id: known.id,
            function_count: u32::try_from(known.functions.len()).unwrap_or(u32::MAX),
            ..Executable::read(&[0; Executable::SIZE])
        };
        self.attempt(output, Content::Executables, None, &executable.to_bytes());
        let mut functions = Vec::new();
        for (ordinal, info) in (0..).zip(&known.functions) {
            let function = ExecutableFunction {
                executable_id: known.id,
                function_ordinal: ordinal,
                constant_count: info.constant_count.into(),
                binding_count: info.binding_count.into(),
                parameter_count: info.parameter_count.into(),
                workgroup_size: info.workgroup_size,
                ..ExecutableFunction::read(&[0; ExecutableFunction::SIZE])
            };
            if let Err(error) = function.write(&mut functions, info.name.as_bytes()) {
                output.failure.get_or_insert_with(|| Status::out_of_range(error.to_string()));
            }
        }
        if !functions.is_empty() {
            self.attempt(output, Content::ExecutableFunctions, None, &functions);
        }
    }

    /// Writes all events so far.
    ///
    /// # Errors
    /// The first one of the sink since the last flush.
    pub(super) fn flush(&self) -> Result<()> {
        let mut output = self.output();
        self.write_events(&mut output);
        output.failure.take().map_or(Ok(()), Err)?;
        drop(output);
        self.sample_metrics()
    }

    /// Ends it.
    ///
    /// # Errors
    /// Those of the sink.
    pub(super) fn end(&self) -> Result<()> {
        let outcome = self.flush();
        let status = outcome.as_ref().err().map_or(0, |status| status.code() as u32);
        let ended = self.sink.end_session(&self.metadata(SESSION, None), status);
        outcome.and(ended)
    }

    fn sample_metrics(&self) -> Result<()> {
        let Some(metrics) = &self.metrics else { return Ok(()) };
        let sample = metrics.sample(self.place.ordinal, &self.clock)?;
        self.write(Content::DeviceMetricSamples, None, &sample)
    }

    fn output(&self) -> MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn events(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_events(&self, output: &mut Output) {
        let events = {
            let mut events = self.events();
            self.is_full.store(false, Ordering::Relaxed);
            events.take()
        };
        for executable in &events.executables {
            self.write_executable(output, executable);
        }
        if let Some(failure) = events.failure {
            output.failure.get_or_insert(failure);
        }
        if let Some((first, last)) = events.ticks {
            let samples = [first, last].map(|(tick, time)| ClockCorrelation {
                record_length: ClockCorrelation::SIZE as u32,
                flags: CLOCK_DEVICE_TICK | CLOCK_HOST_CPU | CLOCK_HOST_BRACKET,
                physical_device_ordinal: self.place.ordinal,
                sample_id: next(&mut output.last_clock),
                device_tick: tick,
                host_cpu_timestamp_ns: time.max(0).cast_unsigned(),
                host_time_begin_ns: time,
                host_time_end_ns: time,
                ..ClockCorrelation::read(&[0; ClockCorrelation::SIZE])
            });
            let samples: Vec<u8> = samples.iter().flat_map(ClockCorrelation::to_bytes).collect();
            self.attempt(output, Content::ClockCorrelations, None, &samples);
        }
        let lists = [
            // First: events name them.
            (Content::CommandBuffers, &events.command_buffers),
            (Content::CommandOperations, &events.command_operations),
            (Content::QueueEvents, &events.queue),
            (Content::HostExecutionEvents, &events.host_execution),
            (Content::MemoryEvents, &events.memory),
            (Content::QueueDeviceEvents, &events.queue_device),
            (Content::CounterSamples, &events.counter_samples),
        ];
        let lists = lists.into_iter().map(|(content, list)| (content, None, list));
        let dispatches = events.dispatch.iter().map(|(queue, list)| (Content::DispatchEvents, Some(*queue), list));
        let mut dropped = events.dropped;
        for (content, queue, list) in lists.chain(dispatches).filter(|(.., list)| !list.is_empty()) {
            if output.failure.is_none() {
                let mut metadata = self.metadata(content.text(), queue);
                // Told once, of the first type that there is.
                metadata.dropped_record_count = std::mem::take(&mut dropped);
                if metadata.dropped_record_count > 0 {
                    metadata.flags |= ProfileChunkFlags::TRUNCATED;
                }
                output.failure = self.sink.write(&metadata, &[list]).err();
            }
        }
    }

    /// Writes a chunk unless writing has failed before.
    fn attempt(&self, output: &mut Output, content: Content, queue: Option<u32>, records: &[u8]) {
        if output.failure.is_none() {
            output.failure = self.write(content, queue, records).err();
        }
    }

    fn write(&self, content: Content, queue: Option<u32>, records: &[u8]) -> Result<()> {
        self.sink.write(&self.metadata(content.text(), queue), &[records])
    }

    fn metadata(&self, content: &str, queue: Option<u32>) -> ProfileChunkMetadata {
        ProfileChunkMetadata {
            content_type: format!("{CONTENT_TYPE_PREFIX}{content}"),
            name: self.place.name.clone(),
            session_id: u64::from(self.place.ordinal) + 1,
            stream_id: queue.map_or(0, |queue| self.place.stream(queue)),
            physical_device_ordinal: queue.map_or(NONE, |_| self.place.ordinal),
            queue_ordinal: queue.unwrap_or(NONE),
            ..ProfileChunkMetadata::default()
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "profile of {}", self.place.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps the types of chunks of events, with the count of what was dropped and whether that is flagged.
    #[derive(Debug, Default)]
    struct Kept(Mutex<Vec<(String, u64, bool)>>);

    impl ProfileSink for Kept {
        fn begin_session(&self, _: &ProfileChunkMetadata) -> Result<()> {
            Ok(())
        }

        fn write(&self, metadata: &ProfileChunkMetadata, _: &[&[u8]]) -> Result<()> {
            let is_truncated = metadata.flags.contains(ProfileChunkFlags::TRUNCATED);
            let name = metadata.content_type.trim_start_matches(CONTENT_TYPE_PREFIX).to_string();
            self.0.lock().unwrap().push((name, metadata.dropped_record_count, is_truncated));
            Ok(())
        }

        fn end_session(&self, _: &ProfileChunkMetadata, _: u32) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn events_that_are_not_written_are_bounded_and_counted() {
        let kept = Arc::new(Kept::default());
        let place = Place { name: "device".to_string(), ordinal: 0, queue_count: 1 };
        let families = ProfilingDataFamilies::QUEUE_EVENTS;
        let filter = ProfileCaptureFilter::default();
        let session = Session::begin(place, families, kept.clone(), filter, None, None).unwrap();
        let first = kept.0.lock().unwrap().len();
        for _ in 0..MOST_BYTES / KEPT_BYTES + 3 {
            session.add(|events| events.memory.resize(events.memory.len() + KEPT_BYTES, 0));
        }
        assert_eq!(kept.0.lock().unwrap().len(), first, "threads that add write nothing");
        session.write_if_full();
        session.write_if_full();
        session.add(|events| events.queue.push(0));
        session.flush().unwrap();
        let chunks = kept.0.lock().unwrap()[first..].to_vec();
        let (memory, queue) = (Content::MemoryEvents.text(), Content::QueueEvents.text());
        assert_eq!(chunks, [(memory.to_string(), 3, true), (queue.to_string(), 0, false)]);
    }
}
