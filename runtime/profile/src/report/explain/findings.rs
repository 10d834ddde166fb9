//! The findings of `explain`, which `text` and `rows` write.

use std::collections::HashMap;

use vireo_core::record_file::ReadError;

use crate::clock::ClockFit;
use crate::generated::contents::Content;
use crate::generated::format::MemoryEventType;
use crate::generated::records::{ClockCorrelation, MemoryEvent, Queue, QueueEvent};
use crate::reader::{OutputError, Reader, TypedRecord};
use crate::report::catalog::Catalog;
use crate::report::dispatches::{Dispatches, FunctionKey, LongDispatch, Ordered, Spans, Subject};
use crate::report::lifecycles::{Memory, OfDevice};
use crate::report::submissions::{Sums, submissions};
use crate::report::{ReportFilter, each_record};
use crate::summary::Summary;

/// How many functions are listed.
const TOP_FUNCTIONS: usize = 10;

/// All that is written.
#[derive(Debug)]
pub(super) struct Findings {
    pub(super) catalog: Catalog,
    pub(super) summary: Summary,
    pub(super) dispatches: Dispatches,
    pub(super) devices: Vec<DeviceRow>,
    pub(super) queues: Vec<QueueRow>,
    pub(super) functions: Vec<FunctionRow>,
    pub(super) longest: Vec<LongDispatch>,
    /// Whether functions and dispatches are those of the host.
    pub(super) of_host: bool,
    pub(super) operations: Operations,
    pub(super) memory: Memory,
}

/// How busy a device was.
#[derive(Debug)]
pub(super) struct DeviceRow {
    pub(super) ordinal: u32,
    pub(super) samples: u64,
    pub(super) fit: Option<ClockFit>,
    /// From the first to the last tick of dispatches.
    pub(super) span: f64,
    pub(super) active: u64,
    pub(super) active_ns: Option<i64>,
}

impl DeviceRow {
    /// How many dispatches ran at once, on average over the span.
    pub(super) fn ratio(&self) -> f64 {
        if self.span > 0.0 { self.active as f64 / self.span } else { 0.0 }
    }
}

/// How busy a queue was.
#[derive(Debug)]
pub(super) struct QueueRow {
    pub(super) queue: Queue,
    pub(super) fit: Option<ClockFit>,
    pub(super) submissions: u64,
    pub(super) valid: u64,
    pub(super) invalid: u64,
    /// Ticks in which a submission ran.
    pub(super) busy: f64,
    pub(super) total: u64,
    pub(super) total_ns: Option<i64>,
    pub(super) gaps: Gaps,
}

/// Ticks between submissions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gaps {
    pub(super) count: u64,
    pub(super) total: f64,
    pub(super) max: f64,
}

/// The dispatches of a function.
#[derive(Debug)]
pub(super) struct FunctionRow {
    pub(super) key: FunctionKey,
    pub(super) spans: Spans,
    /// The sum, the average and the most in nanoseconds.
    pub(super) nanoseconds: Option<(i64, f64, i64)>,
}

/// Operations of queues, as hosts submitted them.
#[derive(Debug, Default)]
pub(super) struct Operations {
    pub(super) events: u64,
    /// By the numbers of types.
    pub(super) counts: [u64; 12],
    pub(super) bytes: [u64; 12],
    /// By the numbers of strategies.
    pub(super) strategies: [u64; 4],
}

impl Findings {
    pub(super) fn read(reader: &mut Reader, summary: Summary, filter: &ReportFilter) -> Result<Findings, OutputError> {
        let catalog = Catalog::read(reader)?;
        let dispatches = Dispatches::read(reader, &catalog, filter, Subject::Dispatch, None)?;
        let (mut operations, mut memory) = (Operations::default(), Memory::default());
        // Devices that have clocks come before those that have dispatches alone.
        let (mut clocks, mut others): (Ordered<u32, ()>, Ordered<u32, ()>) = Default::default();
        each_record(reader, |chunk, content, record| {
            match content {
                Content::ClockCorrelations => {
                    clocks.get(ClockCorrelation::read(&record.head()?).physical_device_ordinal);
                }
                Content::DispatchEvents => {
                    others.get(chunk.header.physical_device_ordinal);
                }
                Content::QueueEvents => operations.add(&catalog, record)?,
                Content::MemoryEvents => {
                    memory.matched += 1;
                    memory.add(&MemoryEvent::read(&record.head()?));
                }
                _ => {}
            }
            Ok(())
        })?;
        others.all.iter().for_each(|(ordinal, ())| *clocks.get(*ordinal) = ());
        let of_host = dispatches.device.all.valid == 0 && dispatches.host.all.valid != 0;
        let devices = clocks.all.iter().map(|(ordinal, ())| device_row(*ordinal, &catalog, &dispatches)).collect();
        let queues = queue_rows(&catalog, &dispatches);
        let functions = function_rows(&catalog, &dispatches, of_host);
        let longest = dispatches.device.longest.sorted();
        let longest = if longest.is_empty() { dispatches.host.longest.sorted() } else { longest };
        Ok(Findings { catalog, summary, dispatches, devices, queues, functions, longest, of_host, operations, memory })
    }

    /// The clock that dispatches have their times of.
    pub(super) fn timing_source(&self) -> &'static str {
        if self.of_host { "host_execution_event" } else { "device_dispatch_event" }
    }

    /// The hints, each with its severity and category; None stands for the one about sessions that failed.
    pub(super) fn hints(&self) -> Vec<Option<(&'static str, &'static str, &'static str)>> {
        let (device, host) = (&self.dispatches.device.all, &self.dispatches.host.all);
        let waits = self.memory.devices.all.iter().any(|(_, device)| pool_waits(device) != 0);
        let mut hints = Vec::new();
        let mut add = |applies: bool, hint| {
            if applies {
                hints.push(hint);
            }
        };
        add(
            self.summary.unknown_records != 0 || self.summary.unknown_chunks != 0,
            Some((
                "warning",
                "format",
                "unknown records or chunks were present; newer producer data may be missing from this analysis",
            )),
        );
        add(
            self.summary.truncated_chunks != 0,
            Some(("error", "format", "truncated chunks were present; timing and lifecycle totals may be incomplete")),
        );
        add(self.summary.first_failed.is_some(), None);
        add(
            device.invalid() != 0,
            Some((
                "warning",
                "dispatch",
                "some dispatch events had missing or reversed timestamps and were excluded from timing totals",
            )),
        );
        add(
            host.invalid() != 0,
            Some((
                "warning",
                "dispatch",
                "some host execution dispatch spans had missing or reversed timestamps and were excluded from timing \
                 totals",
            )),
        );
        add(
            self.operations.events == 0,
            Some((
                "info",
                "queue",
                "queue event records are absent; queue dependency and gap hints are limited to dispatch timestamp \
                 intervals",
            )),
        );
        add(
            waits,
            Some((
                "warning",
                "memory",
                "pool wait events were observed; allocation readiness affected the captured queue schedule",
            )),
        );
        add(
            self.of_host,
            Some((
                "info",
                "dispatch",
                "device dispatch events are absent; top dispatch analysis is using host execution dispatch spans",
            )),
        );
        add(
            device.valid == 0 && host.valid == 0,
            Some((
                "info",
                "dispatch",
                "no valid dispatch events were captured; enable queue profiling on a producer that emits device \
                 timestamps",
            )),
        );
        hints
    }
}

impl Operations {
    fn add(&mut self, catalog: &Catalog, record: &mut TypedRecord<'_>) -> Result<(), ReadError> {
        let event = QueueEvent::read(&record.head()?);
        let (device, queue) = (event.physical_device_ordinal, event.queue_ordinal);
        if !catalog.has_queue(device, queue, event.stream_id) {
            let message = format!("an event is of queue {queue} of device {device}: expected a known one");
            return Err(record.damaged(message));
        }
        self.events += 1;
        let operation = event.r#type.0 as usize;
        if let (Some(count), Some(bytes)) = (self.counts.get_mut(operation), self.bytes.get_mut(operation)) {
            *count += 1;
            *bytes = bytes.wrapping_add(event.payload_length);
        }
        if let Some(count) = self.strategies.get_mut(event.dependency_strategy.0 as usize) {
            *count += 1;
        }
        Ok(())
    }
}

/// Events that waited for memory of a pool.
pub(super) fn pool_waits(device: &OfDevice) -> u64 {
    device.types[MemoryEventType::POOL_WAIT.0 as usize]
}

fn device_row(ordinal: u32, catalog: &Catalog, dispatches: &Dispatches) -> DeviceRow {
    let executions =
        dispatches.device.executions.all.iter().filter(|(key, spans)| key.2 == ordinal && spans.valid != 0);
    let (first, last) =
        executions.fold((u64::MAX, 0), |(first, last), (_, spans)| (first.min(spans.first), last.max(spans.last)));
    let functions = dispatches.device.functions.all.iter().filter(|(key, _)| key.0 == ordinal);
    let active = functions.fold(0u64, |sum, (_, spans)| sum.saturating_add(spans.total));
    let fit = catalog.fit(ordinal);
    DeviceRow {
        ordinal,
        samples: catalog.model.clocks(ordinal).map_or(0, |clocks| clocks.samples),
        span: last.saturating_sub(first) as f64,
        active,
        active_ns: fit.as_ref().filter(|_| active != 0).and_then(|fit| fit.duration_ns(active)),
        fit,
    }
}

fn queue_rows(catalog: &Catalog, dispatches: &Dispatches) -> Vec<QueueRow> {
    let mut by_queue: HashMap<_, Vec<Sums>> = HashMap::new();
    for ((_, device, queue, stream), sums) in submissions(dispatches).all {
        by_queue.entry((device, queue, stream)).or_default().push(sums);
    }
    let row = |queue: &Queue| {
        let fit = catalog.fit(queue.physical_device_ordinal);
        let mut row = QueueRow {
            queue: *queue,
            fit,
            submissions: 0,
            valid: 0,
            invalid: 0,
            busy: 0.0,
            total: 0,
            total_ns: None,
            gaps: Gaps::default(),
        };
        let own = (queue.physical_device_ordinal, queue.queue_ordinal, queue.stream_id);
        let mut intervals = Vec::new();
        for sums in by_queue.get(&own).into_iter().flatten() {
            row.submissions += 1;
            row.total = row.total.saturating_add(sums.total);
            row.invalid += u64::from(sums.valid != sums.count);
            if sums.valid != 0 {
                row.valid += 1;
                intervals.push((sums.first, sums.last));
            }
        }
        row.merge(intervals);
        row.total_ns = row.fit.as_ref().filter(|_| row.valid != 0).and_then(|fit| fit.duration_ns(row.total));
        row
    };
    catalog.queues.iter().map(row).collect()
}

impl QueueRow {
    /// Adds up the ticks in which something ran, and those between.
    fn merge(&mut self, mut intervals: Vec<(u64, u64)>) {
        intervals.sort_unstable();
        let mut intervals = intervals.into_iter();
        let Some((mut start, mut end)) = intervals.next() else { return };
        for next in intervals {
            if next.0 <= end {
                end = end.max(next.1);
                continue;
            }
            let gap = (next.0 - end) as f64;
            self.busy += (end - start) as f64;
            self.gaps.count += 1;
            self.gaps.total += gap;
            self.gaps.max = self.gaps.max.max(gap);
            (start, end) = next;
        }
        self.busy += (end - start) as f64;
    }
}

/// The functions that took most time.
fn function_rows(catalog: &Catalog, dispatches: &Dispatches, of_host: bool) -> Vec<FunctionRow> {
    let side = if of_host { &dispatches.host } else { &dispatches.device };
    let row = |(key, spans): &(FunctionKey, Spans)| {
        let nanoseconds = match of_host {
            true => Some((spans.total.cast_signed(), spans.average(), spans.max.cast_signed())),
            false => catalog.fit(key.0).and_then(|fit| {
                let (_, max, total) = spans.nanoseconds(Some(&fit))?;
                Some((total, spans.average() * fit.ns_per_tick(), max))
            }),
        };
        FunctionRow { key: *key, spans: spans.clone(), nanoseconds }
    };
    let mut rows: Vec<_> = side.functions.all.iter().filter(|(_, spans)| spans.valid != 0).map(row).collect();
    let time = |row: &FunctionRow| row.nanoseconds.map_or(row.spans.total as f64, |(total, ..)| total as f64);
    rows.sort_by(|a, b| time(b).total_cmp(&time(a)));
    rows.truncate(TOP_FUNCTIONS);
    rows
}
