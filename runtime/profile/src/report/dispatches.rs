//! Dispatches that a filter selects, on devices and on the host: sums of each function, of each execution of a command
//! buffer and of each submission, in the order in which they occur.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;
use std::io::Write;

use vireo_core::record_fields::json_text;
use vireo_core::record_file::ReadError;

use super::catalog::Catalog;
use super::{ReportFilter, each_record, list};
use crate::clock::ClockFit;
use crate::generated::contents::Content;
use crate::generated::format::QueueEventType;
use crate::generated::records::{DispatchEvent, HostExecutionEvent};
use crate::joins::duration;
use crate::reader::{OutputError, Reader, Record, TypedRecord};

/// The target of the number of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Dispatch,
    Executable,
    Command,
    Queue,
}

/// Values in the order of their first occurrence.
#[derive(Debug)]
pub(super) struct Ordered<K, V> {
    places: HashMap<K, usize>,
    pub(super) all: Vec<(K, V)>,
}

impl<K, V> Default for Ordered<K, V> {
    fn default() -> Self {
        Ordered { places: HashMap::new(), all: Vec::new() }
    }
}

impl<K: Copy + Eq + Hash, V: Default> Ordered<K, V> {
    pub(super) fn get(&mut self, key: K) -> &mut V {
        let place = *self.places.entry(key).or_insert_with(|| {
            self.all.push((key, V::default()));
            self.all.len() - 1
        });
        &mut self.all[place].1
    }

    /// The value of a key that has one.
    pub(super) fn peek(&self, key: K) -> Option<&V> {
        self.places.get(&key).map(|place| &self.all[*place].1)
    }
}

/// Spans, in ticks or in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Spans {
    pub(super) count: u64,
    pub(super) valid: u64,
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) min: u64,
    pub(super) max: u64,
    pub(super) total: u64,
    mean: f64,
    squares: f64,
    pub(super) tiles: u64,
    pub(super) tile_sum: i64,
    pub(super) last_count: [u32; 3],
    pub(super) last_size: [u32; 3],
}

impl Default for Spans {
    fn default() -> Self {
        Spans {
            count: 0,
            valid: 0,
            first: u64::MAX,
            last: 0,
            min: u64::MAX,
            max: 0,
            total: 0,
            mean: 0.0,
            squares: 0.0,
            tiles: 0,
            tile_sum: 0,
            last_count: [0; 3],
            last_size: [0; 3],
        }
    }
}

impl Spans {
    fn add(&mut self, times: Option<(u64, u64)>) {
        self.count += 1;
        let Some((start, end)) = times else { return };
        let span = end - start;
        self.valid += 1;
        (self.first, self.last) = (self.first.min(start), self.last.max(end));
        (self.min, self.max) = (self.min.min(span), self.max.max(span));
        self.total = self.total.saturating_add(span);
        let delta = span as f64 - self.mean;
        self.mean += delta / self.valid as f64;
        self.squares += delta * (span as f64 - self.mean);
    }

    pub(super) fn invalid(&self) -> u64 {
        self.count - self.valid
    }

    /// The least of them; 0 if there is none.
    pub(super) fn least(&self) -> u64 {
        if self.valid == 0 { 0 } else { self.min }
    }

    pub(super) fn average(&self) -> f64 {
        if self.valid == 0 { 0.0 } else { self.mean }
    }

    pub(super) fn deviation(&self) -> f64 {
        if self.valid < 2 { 0.0 } else { (self.squares / (self.valid - 1) as f64).sqrt() }
    }

    /// From the first beginning to the last end.
    pub(super) fn span(&self) -> u64 {
        if self.valid == 0 { 0 } else { self.last - self.first }
    }

    /// The least, the most and the sum in nanoseconds.
    pub(super) fn nanoseconds(&self, fit: Option<&ClockFit>) -> Option<(i64, i64, i64)> {
        let fit = fit.filter(|_| self.valid != 0)?;
        Some((fit.duration_ns(self.min)?, fit.duration_ns(self.max)?, fit.duration_ns(self.total)?))
    }
}

/// Device, executable and function.
pub(super) type FunctionKey = (u32, u64, u32);
/// Command buffer, submission, device, queue and stream.
pub(super) type ExecutionKey = (u64, u64, u32, u32, u64);

/// A dispatch with its span, as `explain` lists the longest ones.
#[derive(Clone, Debug)]
pub(super) struct LongDispatch {
    pub(super) event: u64,
    pub(super) function: FunctionKey,
    pub(super) execution: ExecutionKey,
    pub(super) command: u32,
    pub(super) span: u64,
    pub(super) tiles: u64,
    pub(super) tile_sum: i64,
}

/// The longest dispatches. Which of equally long ones are there, and in which order, is as in `iree-profile`: the first
/// of the shortest makes room for a longer one and gives it its place.
#[derive(Debug, Default)]
pub(super) struct Longest(Vec<LongDispatch>);

impl Longest {
    const COUNT: usize = 8;

    fn add(&mut self, dispatch: LongDispatch) {
        if self.0.len() < Longest::COUNT {
            self.0.push(dispatch);
            return;
        }
        if let Some(shortest) = self.0.iter_mut().min_by_key(|known| known.span)
            && shortest.span < dispatch.span
        {
            *shortest = dispatch;
        }
    }

    /// The longest one first.
    pub(super) fn sorted(&self) -> Vec<LongDispatch> {
        let mut sorted = self.0.clone();
        sorted.sort_by_key(|dispatch| Reverse(dispatch.span));
        sorted
    }
}

/// The dispatches of a device, or those of the host.
#[derive(Debug, Default)]
pub(super) struct Side {
    pub(super) total: u64,
    pub(super) all: Spans,
    pub(super) functions: Ordered<FunctionKey, Spans>,
    /// With command buffer 0 for those without.
    pub(super) executions: Ordered<ExecutionKey, Spans>,
    pub(super) longest: Longest,
}

/// All dispatches that the filter selects.
#[derive(Debug, Default)]
pub(super) struct Dispatches {
    pub(super) device: Side,
    pub(super) host: Side,
}

impl Dispatches {
    /// Reads them. With `rows` each one is written there, too.
    pub(super) fn read(
        reader: &mut Reader,
        catalog: &Catalog,
        filter: &ReportFilter,
        subject: Subject,
        mut rows: Option<&mut dyn Write>,
    ) -> Result<Dispatches, OutputError> {
        let mut dispatches = Dispatches::default();
        let mut failure = None;
        each_record(reader, |chunk, content, record| {
            let row = match content {
                Content::DispatchEvents => dispatches.add_device(chunk, record, catalog, filter, subject)?,
                Content::HostExecutionEvents => dispatches.add_host(record, catalog, filter, subject)?,
                _ => None,
            };
            if let (Some(row), Some(rows), None) = (row, rows.as_mut(), &failure) {
                failure = rows.write_all(row.as_bytes()).err();
            }
            Ok(())
        })?;
        failure.map_or(Ok(dispatches), |error| Err(error.into()))
    }

    fn add_device(
        &mut self,
        chunk: &Record,
        record: &mut TypedRecord<'_>,
        catalog: &Catalog,
        filter: &ReportFilter,
        subject: Subject,
    ) -> Result<Option<String>, ReadError> {
        let event = DispatchEvent::read(&record.head()?);
        self.device.total += 1;
        let place = (chunk.header.physical_device_ordinal, chunk.header.queue_ordinal, chunk.header.stream_id);
        let ids = (event.event_id, event.executable_id, event.command_buffer_id, event.submission_id);
        if !filter.is(id_of(subject, ids)) {
            return Ok(None);
        }
        check_place(catalog, record, place, (subject, event.command_buffer_id))?;
        let key = catalog.key(place.0, event.executable_id, event.function_ordinal);
        if !filter.matches(&key) {
            return Ok(None);
        }
        let is_valid = event.start_tick != 0 && event.end_tick >= event.start_tick;
        let times = is_valid.then_some((event.start_tick, event.end_tick));
        let function = (place.0, event.executable_id, event.function_ordinal);
        let execution = (event.command_buffer_id, event.submission_id, place.0, place.1, place.2);
        self.device.all.add(times);
        let spans = self.device.functions.get(function);
        spans.add(times);
        (spans.last_count, spans.last_size) = (event.workgroup_count, event.workgroup_size);
        self.device.executions.get(execution).add(times);
        if let Some((start, end)) = times {
            self.device.longest.add(LongDispatch {
                event: event.event_id,
                function,
                execution,
                command: event.command_index,
                span: end - start,
                tiles: 0,
                tile_sum: 0,
            });
        }
        if !filter.dispatch_events {
            return Ok(None);
        }
        let ticks = times.map_or(0, |(start, end)| end - start);
        let fit = catalog.fit(place.0);
        let nanoseconds = fit.as_ref().filter(|_| is_valid).and_then(|fit| fit.duration_ns(ticks)).unwrap_or(0);
        Ok(Some(format!(
            "{{\"type\":\"dispatch_event\",\"physical_device_ordinal\":{},\"queue_ordinal\":{},\"stream_id\":{},\
             \"event_id\":{},\"submission_id\":{},\"command_buffer_id\":{},\"command_index\":{},\"executable_id\":{},\
             \"function_ordinal\":{},\"key\":{},\"flags\":{},\"workgroup_count\":{},\"workgroup_size\":{},\
             \"start_tick\":{},\"end_tick\":{},\"duration_ticks\":{ticks},\"valid\":{is_valid},\
             \"clock_fit_available\":{},\"device_tick_domain\":\"device_tick\",\
             \"duration_time_domain\":\"device_tick_duration_ns\",\"duration_ns\":{nanoseconds}}}\n",
            place.0,
            place.1,
            place.2,
            event.event_id,
            event.submission_id,
            event.command_buffer_id,
            event.command_index,
            event.executable_id,
            event.function_ordinal,
            json_text(&key),
            event.flags,
            list(event.workgroup_count),
            list(event.workgroup_size),
            event.start_tick,
            event.end_tick,
            fit.is_some()
        )))
    }

    fn add_host(
        &mut self,
        record: &mut TypedRecord<'_>,
        catalog: &Catalog,
        filter: &ReportFilter,
        subject: Subject,
    ) -> Result<Option<String>, ReadError> {
        let event = HostExecutionEvent::read(&record.head()?);
        if event.r#type != QueueEventType::DISPATCH {
            return Ok(None);
        }
        self.host.total += 1;
        let place = (event.physical_device_ordinal, event.queue_ordinal, event.stream_id);
        let ids = (event.event_id, event.executable_id, event.command_buffer_id, event.submission_id);
        if !filter.is(id_of(subject, ids)) {
            return Ok(None);
        }
        check_place(catalog, record, place, (subject, event.command_buffer_id))?;
        let key = catalog.key(place.0, event.executable_id, event.function_ordinal);
        if !filter.matches(&key) {
            return Ok(None);
        }
        let span = duration(event.start_host_time_ns, event.end_host_time_ns);
        let times = span.map(|_| (event.start_host_time_ns.unsigned_abs(), event.end_host_time_ns.unsigned_abs()));
        let function = (place.0, event.executable_id, event.function_ordinal);
        let execution = (event.command_buffer_id, event.submission_id, place.0, place.1, place.2);
        let add = |spans: &mut Spans| {
            spans.add(times);
            if times.is_some() {
                spans.tiles = spans.tiles.wrapping_add(event.tile_count);
                spans.tile_sum = spans.tile_sum.wrapping_add(event.tile_duration_sum_ns);
            }
            (spans.last_count, spans.last_size) = (event.workgroup_count, event.workgroup_size);
        };
        add(&mut self.host.all);
        add(self.host.functions.get(function));
        add(self.host.executions.get(execution));
        if let Some((start, end)) = times {
            self.host.longest.add(LongDispatch {
                event: event.event_id,
                function,
                execution,
                command: event.command_index,
                span: end - start,
                tiles: event.tile_count,
                tile_sum: event.tile_duration_sum_ns,
            });
        }
        if !filter.dispatch_events {
            return Ok(None);
        }
        Ok(Some(format!(
            "{{\"type\":\"host_dispatch_event\",\"timing_source\":\"host_execution_event\",\
             \"time_domain\":\"iree_host_time_ns\",\"duration_time_domain\":\"iree_host_duration_ns\",\
             \"physical_device_ordinal\":{},\"queue_ordinal\":{},\"stream_id\":{},\"event_id\":{},\"submission_id\":{},\
             \"command_buffer_id\":{},\"command_index\":{},\"executable_id\":{},\"function_ordinal\":{},\"key\":{},\
             \"flags\":{},\"status_code\":{},\"workgroup_count\":{},\"workgroup_size\":{},\"start_host_time_ns\":{},\
             \"end_host_time_ns\":{},\"duration_ns\":{},\"valid\":{},\"tile_count\":{},\"tile_duration_sum_ns\":{}}}\n",
            place.0,
            place.1,
            place.2,
            event.event_id,
            event.submission_id,
            event.command_buffer_id,
            event.command_index,
            event.executable_id,
            event.function_ordinal,
            json_text(&key),
            event.flags,
            event.status_code,
            list(event.workgroup_count),
            list(event.workgroup_size),
            event.start_host_time_ns,
            event.end_host_time_ns,
            span.unwrap_or(0),
            span.is_some(),
            event.tile_count,
            event.tile_duration_sum_ns
        )))
    }

    /// The row that ends a list of dispatches.
    pub(super) fn summary_row(&self, mode: &str, filter: &ReportFilter) -> String {
        let (device, host) = (&self.device, &self.host);
        let groups = |side: &Side| if filter.dispatch_events { 0 } else { side.functions.all.len() };
        format!(
            "{{\"type\":\"dispatch_summary\",\"mode\":\"{mode}\",\"filter\":{},\"total_dispatches\":{},{},\
             \"aggregate_groups\":{},\"total_host_dispatches\":{},{},\"host_aggregate_groups\":{}}}\n",
            json_text(filter.pattern.as_bytes()),
            device.total,
            matched_device(&device.all),
            groups(device),
            host.total,
            matched_host(&host.all),
            groups(host)
        )
    }
}

/// The counts of dispatches of devices, as all summaries have them.
pub(super) fn matched_device(spans: &Spans) -> String {
    format!(
        "\"matched_dispatches\":{},\"valid_dispatches\":{},\"invalid_dispatches\":{}",
        spans.count,
        spans.valid,
        spans.invalid()
    )
}

/// The same of the host.
pub(super) fn matched_host(spans: &Spans) -> String {
    format!(
        "\"matched_host_dispatches\":{},\"valid_host_dispatches\":{},\"invalid_host_dispatches\":{}",
        spans.count,
        spans.valid,
        spans.invalid()
    )
}

fn id_of(subject: Subject, (event, executable, command_buffer, submission): (u64, u64, u64, u64)) -> u64 {
    match subject {
        Subject::Dispatch => event,
        Subject::Executable => executable,
        Subject::Command => command_buffer,
        Subject::Queue => submission,
    }
}

/// An event is of a queue that the file describes, and of a command buffer if the report is about those.
fn check_place(
    catalog: &Catalog,
    record: &TypedRecord<'_>,
    (device, queue, stream): (u32, u32, u64),
    (subject, command_buffer): (Subject, u64),
) -> Result<(), ReadError> {
    if !catalog.has_queue(device, queue, stream) {
        let message =
            format!("a dispatch is of queue {queue} (stream {stream}) of device {device}: expected a known one");
        return Err(record.damaged(message));
    }
    let is_known = command_buffer == 0 || catalog.model.command_buffer_device(command_buffer).is_some();
    if subject == Subject::Command && !is_known {
        let message = format!("a dispatch is of the command buffer {command_buffer}: expected one that is known");
        return Err(record.damaged(message));
    }
    Ok(())
}
