//! A session: the records of events until they are written, and what is written of objects when events first name
//! them. Events are written at each flush, at the end, and whenever there are many, so memory is bounded.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use vireo_core::glob;
use vireo_core::status::{Result, Status};
use vireo_hal::{
    ProfileCaptureFilter, ProfileCaptureFilterFlags, ProfileChunkMetadata, ProfileSink, ProfilingDataFamilies,
};

use super::commands::KnownCommands;
use super::executables::KnownExecutable;
use super::metrics::Metrics;
use crate::generated::contents::Content;
use crate::generated::format::{CONTENT_TYPE_PREFIX, NONE};
use crate::generated::records::{ClockCorrelation, CommandBuffer, Device, Executable, ExecutableFunction, Queue};

/// Bytes of events of a type that are kept before they are written.
const KEPT_BYTES: usize = 1 << 20;

/// The content type of the records that begin and end a session.
const SESSION: &str = "session";

/// Numbers sessions of the process, so that objects know which one has their records.
static SESSIONS: AtomicU64 = AtomicU64::new(0);

/// Moments as the profile has them: nanoseconds of the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostClock {
    moment: Instant,
    nanoseconds: i64,
}

impl HostClock {
    pub(super) fn new() -> HostClock {
        let moment = Instant::now();
        HostClock { moment, nanoseconds: monotonic_nanoseconds() }
    }

    /// A moment, which may be before the clock was made.
    pub(super) fn time(&self, moment: Instant) -> i64 {
        let nanoseconds = |span: std::time::Duration| i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
        match moment.checked_duration_since(self.moment) {
            Some(span) => self.nanoseconds.saturating_add(nanoseconds(span)),
            None => self.nanoseconds.saturating_sub(nanoseconds(self.moment.duration_since(moment))),
        }
    }

    pub(super) fn now(&self) -> i64 {
        self.time(Instant::now())
    }
}

/// Nanoseconds of the clock that `Instant` has, as other tools read it.
#[cfg(unix)]
fn monotonic_nanoseconds() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

/// Without such a clock times begin with the session.
#[cfg(not(unix))]
fn monotonic_nanoseconds() -> i64 {
    1
}

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
        u64::from(self.ordinal) * 64 + u64::from(queue)
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
    events: Mutex<Events>,
}

/// Records that are not written yet.
#[derive(Default)]
pub(super) struct Events {
    pub(super) queue: Vec<u8>,
    pub(super) host_execution: Vec<u8>,
    pub(super) memory: Vec<u8>,
    pub(super) queue_device: Vec<u8>,
    /// By queues, which the chunk names.
    pub(super) dispatch: BTreeMap<u32, Vec<u8>>,
    /// The first and the last tick of a device, each with a time of the host.
    pub(super) ticks: Option<((u64, i64), (u64, i64))>,
    last: LastIds,
    /// The first failure of the sink, after which nothing is written.
    failure: Option<Status>,
}

/// The last event of each type.
#[derive(Default)]
struct LastIds {
    queue: u64,
    host_execution: u64,
    memory: u64,
    queue_device: u64,
    dispatch: u64,
    clock: u64,
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

    fn is_full(&self) -> bool {
        let lists = [&self.queue, &self.host_execution, &self.memory, &self.queue_device];
        lists.into_iter().chain(self.dispatch.values()).any(|list| list.len() >= KEPT_BYTES)
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
            events: Mutex::default(),
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
        Ok(session)
    }

    pub(super) fn has(&self, family: ProfilingDataFamilies) -> bool {
        self.families.contains(family)
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

    /// Adds records of events. If there are many by now they are written.
    pub(super) fn add(&self, add: impl FnOnce(&mut Events)) {
        let mut events = self.events();
        add(&mut events);
        if events.is_full() {
            self.write_events(&mut events);
        }
    }

    /// Writes what events will name, unless this session has it: a command buffer, and its executables.
    pub(super) fn note_commands(&self, known: &KnownCommands) {
        if known.session.swap(self.number, Ordering::Relaxed) == self.number {
            return;
        }
        let mut events = self.events();
        let recorded = known.recorded();
        for executable in &recorded.executables {
            self.write_executable(&mut events, executable);
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
        let operations: Vec<u8> = recorded.operations.iter().flat_map(|operation| operation.to_bytes()).collect();
        self.attempt(&mut events, Content::CommandBuffers, None, &command_buffer.to_bytes());
        if !operations.is_empty() {
            self.attempt(&mut events, Content::CommandOperations, None, &operations);
        }
    }

    /// The same for an executable.
    pub(super) fn note_executable(&self, known: &KnownExecutable) {
        if known.session.load(Ordering::Relaxed) != self.number {
            self.write_executable(&mut self.events(), known);
        }
    }

    fn write_executable(&self, events: &mut Events, known: &KnownExecutable) {
        if known.session.swap(self.number, Ordering::Relaxed) == self.number {
            return;
        }
        let executable = Executable {
            record_length: Executable::SIZE as u32,
            executable_id: known.id,
            function_count: u32::try_from(known.functions.len()).unwrap_or(u32::MAX),
            ..Executable::read(&[0; Executable::SIZE])
        };
        self.attempt(events, Content::Executables, None, &executable.to_bytes());
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
                events.failure.get_or_insert_with(|| Status::out_of_range(error.to_string()));
            }
        }
        if !functions.is_empty() {
            self.attempt(events, Content::ExecutableFunctions, None, &functions);
        }
    }

    /// Writes all events so far.
    ///
    /// # Errors
    /// The first one of the sink since the last flush.
    pub(super) fn flush(&self) -> Result<()> {
        let mut events = self.events();
        self.write_events(&mut events);
        events.failure.take().map_or(Ok(()), Err)?;
        drop(events);
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

    fn events(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_events(&self, events: &mut Events) {
        if let Some((first, last)) = events.ticks.take() {
            let samples: Vec<u8> = [first, last]
                .into_iter()
                .flat_map(|(tick, time)| {
                    let sample = ClockCorrelation {
                        record_length: ClockCorrelation::SIZE as u32,
                        // A tick, a time of the host, and the span in which both were read.
                        flags: 1 | 2 | 8,
                        physical_device_ordinal: self.place.ordinal,
                        sample_id: next(&mut events.last.clock),
                        device_tick: tick,
                        host_cpu_timestamp_ns: time.max(0).cast_unsigned(),
                        host_time_begin_ns: time,
                        host_time_end_ns: time,
                        ..ClockCorrelation::read(&[0; ClockCorrelation::SIZE])
                    };
                    sample.to_bytes()
                })
                .collect();
            self.attempt(events, Content::ClockCorrelations, None, &samples);
        }
        let mut lists = [
            (Content::QueueEvents, std::mem::take(&mut events.queue)),
            (Content::HostExecutionEvents, std::mem::take(&mut events.host_execution)),
            (Content::MemoryEvents, std::mem::take(&mut events.memory)),
            (Content::QueueDeviceEvents, std::mem::take(&mut events.queue_device)),
        ];
        for (content, list) in &mut lists {
            if !list.is_empty() {
                self.attempt(events, *content, None, list);
                list.clear();
            }
        }
        // The memory is used again.
        let [queue, host_execution, memory, queue_device] = lists.map(|(_, list)| list);
        (events.queue, events.host_execution) = (queue, host_execution);
        (events.memory, events.queue_device) = (memory, queue_device);
        for (queue, list) in std::mem::take(&mut events.dispatch) {
            self.attempt(events, Content::DispatchEvents, Some(queue), &list);
        }
    }

    /// Writes a chunk unless writing has failed before.
    fn attempt(&self, events: &mut Events, content: Content, queue: Option<u32>, records: &[u8]) {
        if events.failure.is_none() {
            events.failure = self.write(content, queue, records).err();
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
