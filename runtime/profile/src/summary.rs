//! `summary`: how many records of each type a profile has, and how long dispatches of each device took.

use std::collections::BTreeMap;

use vireo_core::record_file::ReadError;

use crate::clock::ClockFit;
use crate::generated::contents::Content;
use crate::generated::format::{CLOCK_DEVICE_TICK, CLOCK_HOST_BRACKET, CLOCK_UNALIGNED, RecordType, TRUNCATED_CHUNK};
use crate::generated::records::{
    ClockCorrelation, CommandRegionEvent, CounterParts, CounterSample, CounterSetParts, Device,
    DeviceMetricDescriptorParts, DeviceMetricSample, DeviceMetricSourceParts, DispatchEvent, ExecutableCodeObject,
    ExecutableTrace, HostExecutionEvent, Queue,
};
use crate::joins::duration;
use crate::model::Clocks;
use crate::reader::{Reader, Record, TypedRecord};

/// Chunks of a type, and the records in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Chunks.
    pub chunks: u64,
    /// Records.
    pub records: u64,
}

/// Spans of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    /// Those that end before they begin.
    pub invalid: u64,
    /// The sum of the others in nanoseconds.
    pub total_ns: u64,
}

/// Samples of metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetricCounts {
    /// Samples.
    pub samples: u64,
    /// Values of all samples.
    pub values: u64,
    /// Samples that end before they begin.
    pub invalid: u64,
}

/// The first session that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedSession {
    /// The session.
    pub session_id: u64,
    /// Its stream.
    pub stream_id: u64,
    /// Its event.
    pub event_id: u64,
    /// Its status.
    pub status_code: u32,
}

/// The summary of a device.
#[derive(Clone, Debug)]
pub struct DeviceSummary {
    /// The device.
    pub ordinal: u32,
    /// Records of the device itself.
    pub records: u32,
    /// Records of its queues.
    pub queue_records: u32,
    /// Queues that it has by its own record.
    pub queues: u32,
    /// Samples of its clocks.
    pub clocks: Clocks,
    /// The least and the most uncertainty of a sample in nanoseconds.
    pub uncertainty_ns: Option<(i64, i64)>,
    /// Dispatches.
    pub dispatches: u64,
    /// Dispatches without a span of ticks.
    pub invalid_dispatches: u64,
    /// The first and the last tick of dispatches.
    pub tick_range: (u64, u64),
    /// The shortest and the longest dispatch in ticks.
    pub dispatch_ticks: (u64, u64),
    /// All dispatches together in ticks.
    pub total_ticks: u64,
    /// Samples of its metrics.
    pub metrics: MetricCounts,
}

/// The summary of a profile.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Records of the file.
    pub records: u64,
    /// Beginnings of sessions.
    pub session_begins: u64,
    /// Ends of sessions.
    pub session_ends: u64,
    /// Ends of sessions that failed.
    pub failed_session_ends: u64,
    /// The first of them.
    pub first_failed: Option<FailedSession>,
    /// Chunks.
    pub chunks: u64,
    /// Records of types that are not known.
    pub unknown_records: u64,
    /// Chunks of types that are not known.
    pub unknown_chunks: u64,
    /// Chunks that lack records.
    pub truncated_chunks: u64,
    /// Records that they lack.
    pub dropped_records: u64,
    /// Chunks and records of each type.
    pub contents: BTreeMap<Content, Counts>,
    /// Bytes of the code of executables.
    pub code_object_bytes: u64,
    /// Bytes of traces.
    pub trace_bytes: u64,
    /// Work of the host.
    pub host_execution: Spans,
    /// Regions of commands.
    pub command_regions: Spans,
    /// Samples of metrics of all devices.
    pub metrics: MetricCounts,
    /// Devices, in the order in which they occur.
    pub devices: Vec<DeviceSummary>,
}

impl Summary {
    /// Reads all records of `reader`.
    ///
    /// # Errors
    /// Those of records, and OUT_OF_RANGE if a sum does not fit 64 bits.
    pub fn read(reader: &mut Reader) -> Result<Summary, ReadError> {
        let mut summary = Summary::default();
        while let Some(record) = reader.next_record()? {
            summary.records += 1;
            match RecordType(record.header.record_type) {
                RecordType::SESSION_BEGIN => summary.session_begins += 1,
                RecordType::SESSION_END => summary.end_session(&record),
                RecordType::CHUNK => summary.add_chunk(reader, &record)?,
                _ => summary.unknown_records += 1,
            }
        }
        Ok(summary)
    }

    /// Chunks and records of a type.
    pub fn counts(&self, content: Content) -> Counts {
        self.contents.get(&content).copied().unwrap_or_default()
    }

    fn end_session(&mut self, record: &Record) {
        self.session_ends += 1;
        let header = &record.header;
        if header.session_status_code != 0 {
            self.failed_session_ends += 1;
            self.first_failed.get_or_insert(FailedSession {
                session_id: header.session_id,
                stream_id: header.stream_id,
                event_id: header.event_id,
                status_code: header.session_status_code,
            });
        }
    }

    fn add_chunk(&mut self, reader: &mut Reader, chunk: &Record) -> Result<(), ReadError> {
        self.chunks += 1;
        if chunk.header.chunk_flags & TRUNCATED_CHUNK != 0 {
            self.truncated_chunks += 1;
            self.dropped_records = self.dropped_records.wrapping_add(chunk.header.dropped_record_count);
        }
        let Some(content) = chunk.content() else {
            self.unknown_chunks += 1;
            return Ok(());
        };
        self.contents.entry(content).or_default().chunks += 1;
        if content == Content::DispatchEvents {
            // A device occurs with its first chunk, also if that is empty.
            self.device(chunk.header.physical_device_ordinal);
        }
        let mut records = reader.typed(chunk, content);
        while let Some(record) = records.next_record()? {
            self.contents.entry(content).or_default().records += 1;
            self.add_record(content, record, chunk)?;
        }
        Ok(())
    }

    fn device(&mut self, ordinal: u32) -> &mut DeviceSummary {
        let index = self.devices.iter().position(|device| device.ordinal == ordinal).unwrap_or_else(|| {
            self.devices.push(DeviceSummary::new(ordinal));
            self.devices.len() - 1
        });
        &mut self.devices[index]
    }

    fn add_record(&mut self, content: Content, mut record: TypedRecord<'_>, chunk: &Record) -> Result<(), ReadError> {
        match content {
            Content::Devices => {
                let device = Device::read(&record.head()?);
                let summary = self.device(device.physical_device_ordinal);
                summary.records = summary.records.wrapping_add(1);
                summary.queues = device.queue_count;
            }
            Content::Queues => {
                let queue = Queue::read(&record.head()?);
                let summary = self.device(queue.physical_device_ordinal);
                summary.queue_records = summary.queue_records.wrapping_add(1);
            }
            Content::ExecutableCodeObjects => {
                let code = ExecutableCodeObject::read(&record.head()?);
                let ranges = record.check_parts(code.ranges())?;
                check_end(&record, ranges.end)?;
                add(&mut self.code_object_bytes, code.data_length, &record)?;
            }
            Content::ExecutableTraces => {
                let trace = ExecutableTrace::read(&record.head()?);
                if trace.data_length != record.rest() {
                    let message = format!("a trace has {} bytes: expected {}", record.rest(), trace.data_length);
                    return Err(record.damaged(message));
                }
                add(&mut self.trace_bytes, trace.data_length, &record)?;
            }
            Content::ClockCorrelations => {
                let sample = ClockCorrelation::read(&record.head()?);
                self.device(sample.physical_device_ordinal).add_clock(&sample);
            }
            Content::DispatchEvents => {
                let event = DispatchEvent::read(&record.head()?);
                self.device(chunk.header.physical_device_ordinal).add_dispatch(&event, &record)?;
            }
            Content::HostExecutionEvents => {
                let event = HostExecutionEvent::read(&record.head()?);
                self.host_execution.add(event.start_host_time_ns, event.end_host_time_ns, &record)?;
            }
            Content::CommandRegionEvents => {
                let region = CommandRegionEvent::read(&record.head()?).command_region;
                self.command_regions.add(region.start_host_time_ns, region.end_host_time_ns, &record)?;
            }
            Content::DeviceMetricSamples => {
                let sample = DeviceMetricSample::read(&record.head()?);
                let ranges = record.check_parts(sample.ranges())?;
                check_end(&record, ranges.end)?;
                self.metrics.add(&sample, &record)?;
                self.device(sample.physical_device_ordinal).metrics.add(&sample, &record)?;
            }
            Content::CounterSamples => {
                let sample = CounterSample::read(&record.head()?);
                let ranges = record.check_parts(sample.ranges())?;
                check_end(&record, ranges.end)?;
            }
            Content::CounterSets => {
                let bytes = record.bytes()?;
                record.check_parts(CounterSetParts::read(&bytes).map(drop))?;
            }
            Content::Counters => {
                let bytes = record.bytes()?;
                record.check_parts(CounterParts::read(&bytes).map(drop))?;
            }
            Content::DeviceMetricSources => {
                let bytes = record.bytes()?;
                record.check_parts(DeviceMetricSourceParts::read(&bytes).map(drop))?;
            }
            Content::DeviceMetricDescriptors => {
                let bytes = record.bytes()?;
                record.check_parts(DeviceMetricDescriptorParts::read(&bytes).map(drop))?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Refuses a record that does not end where its parts end.
fn check_end(record: &TypedRecord<'_>, end: u64) -> Result<(), ReadError> {
    match end == u64::from(record.length()) {
        true => Ok(()),
        false => Err(record.damaged(format!("a record has {} bytes: expected {end}", record.length()))),
    }
}

/// Adds to a sum.
fn add(sum: &mut u64, value: u64, record: &TypedRecord<'_>) -> Result<(), ReadError> {
    *sum = sum.checked_add(value).ok_or_else(|| record.out_of_range("a sum is too large: expected 64 bits"))?;
    Ok(())
}

impl Spans {
    fn add(&mut self, start: i64, end: i64, record: &TypedRecord<'_>) -> Result<(), ReadError> {
        match duration(start, end) {
            Some(duration) => add(&mut self.total_ns, duration.unsigned_abs(), record),
            None => {
                self.invalid += 1;
                Ok(())
            }
        }
    }
}

impl MetricCounts {
    fn add(&mut self, sample: &DeviceMetricSample, record: &TypedRecord<'_>) -> Result<(), ReadError> {
        self.samples += 1;
        self.invalid += u64::from(duration(sample.host_time_begin_ns, sample.host_time_end_ns).is_none());
        add(&mut self.values, u64::from(sample.value_count), record)
    }
}

impl DeviceSummary {
    fn new(ordinal: u32) -> Self {
        DeviceSummary {
            ordinal,
            records: 0,
            queue_records: 0,
            queues: 0,
            clocks: Clocks::default(),
            uncertainty_ns: None,
            dispatches: 0,
            invalid_dispatches: 0,
            tick_range: (u64::MAX, 0),
            dispatch_ticks: (u64::MAX, 0),
            total_ticks: 0,
            metrics: MetricCounts::default(),
        }
    }

    fn add_clock(&mut self, sample: &ClockCorrelation) {
        self.clocks.add(sample);
        if sample.flags & CLOCK_HOST_BRACKET != 0 && sample.host_time_end_ns >= sample.host_time_begin_ns {
            let span = sample.host_time_end_ns.wrapping_sub(sample.host_time_begin_ns);
            let (least, most) = self.uncertainty_ns.unwrap_or((i64::MAX, 0));
            self.uncertainty_ns = Some((least.min(span), most.max(span)));
        }
    }

    fn add_dispatch(&mut self, event: &DispatchEvent, record: &TypedRecord<'_>) -> Result<(), ReadError> {
        self.dispatches += 1;
        if event.start_tick == 0 || event.end_tick < event.start_tick {
            self.invalid_dispatches += 1;
            return Ok(());
        }
        let ticks = event.end_tick - event.start_tick;
        add(&mut self.total_ticks, ticks, record)?;
        let (range, spans) = (&mut self.tick_range, &mut self.dispatch_ticks);
        *range = (range.0.min(event.start_tick), range.1.max(event.end_tick));
        *spans = (spans.0.min(ticks), spans.1.max(ticks));
        Ok(())
    }

    /// Dispatches with a span of ticks.
    pub fn valid_dispatches(&self) -> u64 {
        self.dispatches - self.invalid_dispatches
    }

    /// The clock of the device.
    pub fn clock(&self) -> Option<ClockFit> {
        ClockFit::new(&self.clocks)
    }

    /// Whether all dispatches lie between the first and the last sample of clocks.
    pub fn clock_covers_dispatches(&self) -> bool {
        let (Some(first), Some(last)) = (&self.clocks.first, &self.clocks.last) else { return false };
        let has_ticks = |flags: u32| flags & CLOCK_DEVICE_TICK != 0 && flags & CLOCK_UNALIGNED == 0;
        self.clocks.samples >= 2
            && self.clocks.unaligned == 0
            && self.valid_dispatches() != 0
            && has_ticks(first.flags)
            && has_ticks(last.flags)
            && first.device_tick <= self.tick_range.0
            && self.tick_range.1 <= last.device_tick
    }
}
