//! The time line of a profile: spans and moments of lanes, and values of tracks, for `render`.
//!
//! The file is read twice: once for where the time line begins, and once for the events, which are handed on one by one
//! in the order of the file. Nothing of an event is kept.

use std::collections::HashMap;

use vireo_core::record_fields::known;
use vireo_core::record_file::ReadError;

use super::catalog::Catalog;
use super::each_record;
use super::lifecycles::{Kind, Memory};
use crate::clock::TickScale;
use crate::generated::contents::Content;
use crate::generated::format::{MemoryEventType, MetricValueKind, NONE, QueueEventType};
use crate::generated::records::{
    CommandRegionEvent, DeviceMetricSampleParts, DispatchEvent, HostExecutionEvent, MemoryEvent, QueueDeviceEvent,
    QueueEvent,
};
use crate::joins::duration;
use crate::reader::{OutputError, Reader, Record, TypedRecord};

/// The events of a lane, in the order in which lanes are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Family {
    /// Operations from their submission until all that they wait for is there.
    Queue,
    /// Submissions by the clock of the device.
    QueueDevice,
    /// Dispatches by the clock of the device.
    Dispatch,
    /// Work of the host, such as its calls and dispatches.
    Host,
    /// Regions of commands of the scheduler of IREE.
    Region,
    /// Changes of memory.
    Memory,
}

impl Family {
    /// The name of its lanes.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Family::Queue => "queue operations",
            Family::QueueDevice => "device submissions",
            Family::Dispatch => "device dispatches",
            Family::Host => "host execution",
            Family::Region => "command regions",
            Family::Memory => "memory events",
        }
    }
}

/// A lane: device, queue and stream of events of one kind. Memory has no stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Lane {
    pub(crate) device: u32,
    pub(crate) queue: u32,
    pub(crate) stream: u64,
    pub(crate) family: Family,
}

impl Lane {
    /// Its name for people.
    pub(crate) fn name(&self) -> String {
        let Lane { device, queue, stream, family } = self;
        let name = family.name();
        match (*queue, *stream) {
            (NONE, _) => format!("{name}: device {device}"),
            (queue, 0) => format!("{name}: device {device}, queue {queue}"),
            (queue, stream) => format!("{name}: device {device}, queue {queue}, stream {stream}"),
        }
    }
}

/// The name of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Name {
    Operation(QueueEventType),
    Function(u32, u64, u32),
    Region(i32),
    Memory(MemoryEventType),
}

impl Name {
    /// Its bytes, which need not be UTF-8.
    pub(crate) fn bytes(self, catalog: &Catalog) -> Vec<u8> {
        match self {
            Name::Operation(operation) => known(operation.name()).as_bytes().to_vec(),
            Name::Function(device, executable, function) => catalog.key(device, executable, function),
            Name::Region(index) => format!("region {index}").into_bytes(),
            Name::Memory(event) => known(event.name()).as_bytes().to_vec(),
        }
    }
}

/// An event. Fields that it does not have are 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) lane: Lane,
    pub(crate) name: Name,
    /// Nanoseconds since the begin of the time line.
    pub(crate) start: i64,
    /// Nanoseconds, 0 for a moment; None if its times are missing or reversed.
    pub(crate) duration: Option<u64>,
    pub(crate) event: u64,
    pub(crate) submission: u64,
    pub(crate) command_buffer: u64,
    /// [`NONE`] if it is of no command.
    pub(crate) command: u32,
    pub(crate) allocation: u64,
    pub(crate) bytes: u64,
    pub(crate) workgroups: [u32; 3],
    pub(crate) tiles: u64,
}

/// A value over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Track {
    /// Bytes of a kind of memory of a device.
    Memory(u32, &'static str),
    /// A metric: device, source and metric.
    Metric(u32, u64, u64),
}

impl Track {
    /// Its name for people and its unit.
    pub(crate) fn name(self, catalog: &Catalog) -> (String, String) {
        match self {
            Track::Memory(device, kind) => (format!("memory: device {device}, {kind}"), "bytes".to_string()),
            Track::Metric(device, source, metric) => match catalog.model.metric(source, metric) {
                Some(known_metric) => {
                    let name = String::from_utf8_lossy(&known_metric.name);
                    (format!("metric: device {device}, {name}"), known(known_metric.record.unit.name()).to_string())
                }
                None => (format!("metric: device {device}, {source}/{metric}"), String::new()),
            },
        }
    }
}

/// A value at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) track: Track,
    pub(crate) time: i64,
    pub(crate) value: f64,
}

/// The receiver of a time line.
pub(crate) trait Visit {
    /// The next event of the file.
    fn event(&mut self, event: &Event) -> Result<(), OutputError>;
    /// The next value of the file.
    fn sample(&mut self, sample: &Sample) -> Result<(), OutputError>;
}

/// Where the time line of a profile begins, and what is known about it.
#[derive(Debug)]
pub(crate) struct Timeline {
    pub(crate) catalog: Catalog,
    /// The first time of the host.
    pub(crate) start: i64,
    /// Devices with ticks of their own, which begin at the start of the time line.
    pub(crate) own_ticks: Vec<u32>,
    scales: HashMap<u32, TickScale>,
}

/// The first tick of each device, and the first time of the host.
#[derive(Debug, Default)]
struct Starts {
    host: Option<i64>,
    ticks: HashMap<u32, u64>,
}

impl Starts {
    fn host(&mut self, time: i64) {
        if time >= 0 {
            self.host = Some(self.host.map_or(time, |first| first.min(time)));
        }
    }

    fn ticks(&mut self, device: u32, start: u64, end: u64) {
        let first = self.ticks.entry(device).or_insert(u64::MAX);
        if start != 0 && end >= start {
            *first = (*first).min(start);
        }
    }
}

impl Timeline {
    /// Reads where everything begins.
    ///
    /// # Errors
    /// If the profile is damaged.
    pub(crate) fn read(reader: &mut Reader) -> Result<Timeline, ReadError> {
        let catalog = Catalog::read(reader)?;
        let mut starts = Starts::default();
        each_record(reader, |chunk, content, record| {
            match content {
                Content::QueueEvents => starts.host(QueueEvent::read(&record.head()?).host_time_ns),
                Content::MemoryEvents => starts.host(MemoryEvent::read(&record.head()?).host_time_ns),
                Content::HostExecutionEvents => {
                    starts.host(HostExecutionEvent::read(&record.head()?).start_host_time_ns);
                }
                Content::CommandRegionEvents => {
                    starts.host(CommandRegionEvent::read(&record.head()?).command_region.start_host_time_ns);
                }
                Content::DeviceMetricSamples => {
                    let bytes = record.bytes()?;
                    let sample = record.check_parts(DeviceMetricSampleParts::read(&bytes))?;
                    starts.host(sample.head.host_time_begin_ns);
                }
                Content::DispatchEvents => {
                    let event = DispatchEvent::read(&record.head()?);
                    starts.ticks(chunk.header.physical_device_ordinal, event.start_tick, event.end_tick);
                }
                Content::QueueDeviceEvents => {
                    let event = QueueDeviceEvent::read(&record.head()?);
                    starts.ticks(event.physical_device_ordinal, event.start_tick, event.end_tick);
                }
                _ => {}
            }
            Ok(())
        })?;
        let mut scales = HashMap::new();
        for (device, first) in &starts.ticks {
            let scale = TickScale::new(catalog.model.clocks(*device)).unwrap_or(TickScale::ticks(*first));
            if scale.is_host && *first != u64::MAX {
                starts.host = Some(starts.host.unwrap_or(i64::MAX).min(scale.time_ns(*first)));
            }
            scales.insert(*device, scale);
        }
        let mut own_ticks: Vec<u32> =
            scales.iter().filter(|(_, scale)| !scale.is_host).map(|(device, _)| *device).collect();
        own_ticks.sort_unstable();
        Ok(Timeline { catalog, start: starts.host.unwrap_or(0), own_ticks, scales })
    }

    /// Hands on the events, or the values, or both.
    ///
    /// # Errors
    /// If the profile is damaged, and those of `visit`.
    pub(crate) fn visit(&self, reader: &mut Reader, visit: &mut dyn Visit) -> Result<(), OutputError> {
        let mut memory = Memory::default();
        let mut failure = None;
        each_record(reader, |chunk, content, record| {
            if failure.is_some() {
                return Ok(());
            }
            match content {
                Content::MemoryEvents => {
                    let event = MemoryEvent::read(&record.head()?);
                    memory.add(&event);
                    failure = visit
                        .event(&self.memory_event(&event))
                        .and_then(|()| self.memory_samples(&memory, &event, visit))
                        .err();
                }
                Content::DeviceMetricSamples => failure = self.metric_samples(record, visit)?.err(),
                _ => {
                    if let Some(event) = self.event(chunk, content, record)? {
                        failure = visit.event(&event).err();
                    }
                }
            }
            Ok(())
        })?;
        failure.map_or(Ok(()), Err)
    }

    /// The event of a record that has one.
    fn event(
        &self,
        chunk: &Record,
        content: Content,
        record: &mut TypedRecord<'_>,
    ) -> Result<Option<Event>, ReadError> {
        let none = |family: Family, device: u32, queue: u32, stream: u64, name: Name| Event {
            lane: Lane { device, queue, stream, family },
            name,
            start: 0,
            duration: None,
            event: 0,
            submission: 0,
            command_buffer: 0,
            command: NONE,
            allocation: 0,
            bytes: 0,
            workgroups: [0; 3],
            tiles: 0,
        };
        Ok(Some(match content {
            Content::QueueEvents => {
                let event = QueueEvent::read(&record.head()?);
                let (device, queue) = (event.physical_device_ordinal, event.queue_ordinal);
                let ready = duration(event.host_time_ns, event.ready_host_time_ns);
                Event {
                    start: self.since(event.host_time_ns),
                    duration: ready.map(i64::unsigned_abs),
                    event: event.event_id,
                    submission: event.submission_id,
                    command_buffer: event.command_buffer_id,
                    allocation: event.allocation_id,
                    bytes: event.payload_length,
                    ..none(Family::Queue, device, queue, event.stream_id, Name::Operation(event.r#type))
                }
            }
            Content::QueueDeviceEvents => {
                let event = QueueDeviceEvent::read(&record.head()?);
                let (device, queue) = (event.physical_device_ordinal, event.queue_ordinal);
                let (start, duration) = self.ticks(device, event.start_tick, event.end_tick);
                Event {
                    start,
                    duration,
                    event: event.event_id,
                    submission: event.submission_id,
                    command_buffer: event.command_buffer_id,
                    allocation: event.allocation_id,
                    bytes: event.payload_length,
                    ..none(Family::QueueDevice, device, queue, event.stream_id, Name::Operation(event.r#type))
                }
            }
            Content::DispatchEvents => {
                let event = DispatchEvent::read(&record.head()?);
                let header = &chunk.header;
                let (device, queue) = (header.physical_device_ordinal, header.queue_ordinal);
                let (start, duration) = self.ticks(device, event.start_tick, event.end_tick);
                let name = Name::Function(device, event.executable_id, event.function_ordinal);
                Event {
                    start,
                    duration,
                    event: event.event_id,
                    submission: event.submission_id,
                    command_buffer: event.command_buffer_id,
                    command: event.command_index,
                    workgroups: event.workgroup_count,
                    ..none(Family::Dispatch, device, queue, header.stream_id, name)
                }
            }
            Content::HostExecutionEvents => {
                let event = HostExecutionEvent::read(&record.head()?);
                let (device, queue) = (event.physical_device_ordinal, event.queue_ordinal);
                let (start, duration) = self.span(event.start_host_time_ns, event.end_host_time_ns);
                let name = match (event.r#type, event.executable_id, event.function_ordinal) {
                    (operation, 0, _) | (operation, _, NONE) => Name::Operation(operation),
                    (_, executable, function) => Name::Function(device, executable, function),
                };
                Event {
                    start,
                    duration,
                    event: event.event_id,
                    submission: event.submission_id,
                    command_buffer: event.command_buffer_id,
                    command: event.command_index,
                    allocation: event.allocation_id,
                    bytes: event.payload_length,
                    workgroups: event.workgroup_count,
                    tiles: event.tile_count,
                    ..none(Family::Host, device, queue, event.stream_id, name)
                }
            }
            Content::CommandRegionEvents => {
                let event = CommandRegionEvent::read(&record.head()?);
                let (region, queue) = (&event.command_region, &event.queue);
                let (start, duration) = self.span(region.start_host_time_ns, region.end_host_time_ns);
                let (device, queue) = (queue.physical_device_ordinal, queue.queue_ordinal);
                Event {
                    start,
                    duration,
                    event: event.event_id,
                    submission: event.submission_id,
                    command_buffer: event.command_buffer_id,
                    tiles: region.tile_count.into(),
                    ..none(Family::Region, device, queue, event.stream_id, Name::Region(region.index))
                }
            }
            _ => return Ok(None),
        }))
    }

    fn memory_event(&self, event: &MemoryEvent) -> Event {
        let lane = Lane { device: event.physical_device_ordinal, queue: NONE, stream: 0, family: Family::Memory };
        Event {
            lane,
            name: Name::Memory(event.r#type),
            start: self.since(event.host_time_ns),
            duration: Some(0),
            event: event.event_id,
            submission: event.submission_id,
            command_buffer: 0,
            command: NONE,
            allocation: event.allocation_id,
            bytes: event.length,
            workgroups: [0; 3],
            tiles: 0,
        }
    }

    /// The bytes of the device after an event.
    fn memory_samples(&self, memory: &Memory, event: &MemoryEvent, visit: &mut dyn Visit) -> Result<(), OutputError> {
        let (ordinal, time) = (event.physical_device_ordinal, self.since(event.host_time_ns));
        let Some(device) = memory.devices.peek(ordinal) else { return Ok(()) };
        let wanted: &[&str] = match Kind::of(event) {
            Some(Kind::Slab) => &["slab"],
            Some(Kind::Reservation) => &["pool_reserved", "pool_materialized"],
            Some(Kind::Queue) => &["queue_inflight"],
            Some(Kind::Buffer) => &["buffer"],
            Some(Kind::Import) => &["imported_buffer"],
            None => &[],
        };
        for (name, _, balance) in device.balances() {
            if wanted.contains(&name) {
                let track = Track::Memory(ordinal, name);
                visit.sample(&Sample { track, time, value: balance.bytes as f64 })?;
            }
        }
        Ok(())
    }

    fn metric_samples(
        &self,
        record: &mut TypedRecord<'_>,
        visit: &mut dyn Visit,
    ) -> Result<Result<(), OutputError>, ReadError> {
        let bytes = record.bytes()?;
        let sample = record.check_parts(DeviceMetricSampleParts::read(&bytes))?;
        let (head, device) = (&sample.head, sample.head.physical_device_ordinal);
        let time = self.since(head.host_time_begin_ns.midpoint(head.host_time_end_ns));
        for value in sample.values.iter() {
            let bits = value.value_bits;
            let kind =
                self.catalog.model.metric(head.source_id, value.metric_id).map(|metric| metric.record.value_kind);
            let number = match kind {
                Some(MetricValueKind::I64) => bits.cast_signed() as f64,
                Some(MetricValueKind::F64) => f64::from_bits(bits),
                _ => bits as f64,
            };
            let track = Track::Metric(device, head.source_id, value.metric_id);
            if let Err(error) = visit.sample(&Sample { track, time, value: number }) {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }

    /// A time of the host on the time line. Times that no clock has are at its beginning.
    fn since(&self, time: i64) -> i64 {
        if time < 0 { 0 } else { time.saturating_sub(self.start) }
    }

    fn span(&self, start: i64, end: i64) -> (i64, Option<u64>) {
        (self.since(start), duration(start, end).map(i64::unsigned_abs))
    }

    fn ticks(&self, device: u32, start: u64, end: u64) -> (i64, Option<u64>) {
        let Some(scale) = self.scales.get(&device).filter(|_| start != 0 && end >= start) else { return (0, None) };
        let (begin, end) = (scale.time_ns(start), scale.time_ns(end));
        let begin_since = if scale.is_host { begin.saturating_sub(self.start) } else { begin };
        (begin_since, Some(end.abs_diff(begin)))
    }
}
