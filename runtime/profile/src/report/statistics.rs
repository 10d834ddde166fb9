//! `statistics`: sums of all events by what they are of.

use std::io::{self, Write};

use vireo_core::record_fields::{json_text, known};
use vireo_core::record_file::ReadError;
use vireo_core::visible_text::visible;

use super::catalog::Catalog;
use super::dispatches::Ordered;
use super::each_record;
use crate::ReportFormat;
use crate::generated::contents::Content;
use crate::generated::format::{MemoryEventType, NONE, QueueEventType};
use crate::generated::records::{DispatchEvent, HostExecutionEvent, MemoryEvent, QueueDeviceEvent, QueueEvent};
use crate::joins::duration;
use crate::reader::{OutputError, Reader, Record, TypedRecord};

/// The kind of events that a row is the sum of, with the numbers and names that the rows have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    DispatchFunction = 1,
    DispatchCommandBuffer = 2,
    DispatchCommandOperation = 3,
    QueueDeviceOperation = 4,
    QueueHostOperation = 5,
    HostExecutionFunction = 6,
    HostExecutionCommandBuffer = 7,
    HostExecutionCommandOperation = 8,
    HostExecutionQueueOperation = 9,
    MemoryLifecycle = 10,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::DispatchFunction => "dispatch_function",
            Kind::DispatchCommandBuffer => "dispatch_command_buffer",
            Kind::DispatchCommandOperation => "dispatch_command_operation",
            Kind::QueueDeviceOperation => "queue_device_operation",
            Kind::QueueHostOperation => "queue_host_operation",
            Kind::HostExecutionFunction => "host_execution_function",
            Kind::HostExecutionCommandBuffer => "host_execution_command_buffer",
            Kind::HostExecutionCommandOperation => "host_execution_command_operation",
            Kind::HostExecutionQueueOperation => "host_execution_queue_operation",
            Kind::MemoryLifecycle => "memory_lifecycle",
        }
    }

    /// The clock of its times, and the number and unit of that.
    fn domain(self) -> (&'static str, u32, &'static str) {
        match self {
            Kind::DispatchFunction
            | Kind::DispatchCommandBuffer
            | Kind::DispatchCommandOperation
            | Kind::QueueDeviceOperation => ("device_tick", 1, "device_tick"),
            Kind::MemoryLifecycle => ("none", 0, "none"),
            _ => ("iree_host_time_ns", 2, "ns"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    kind: Kind,
    device: u32,
    queue: u32,
    event_type: u32,
    executable: u64,
    command_buffer: u64,
    function: u32,
    command: u32,
}

impl Key {
    fn new(kind: Kind, device: u32, queue: u32) -> Key {
        let (event_type, executable, command_buffer, function, command) = (0, 0, 0, NONE, NONE);
        Key { kind, device, queue, event_type, executable, command_buffer, function, command }
    }
}

/// The sums of a row.
#[derive(Clone, Debug)]
struct Sums {
    samples: u64,
    invalid: u64,
    operations: u64,
    payload: u64,
    tiles: u64,
    tile_sum: u64,
    first: u64,
    last: u64,
    total: u64,
    min: u64,
    max: u64,
}

impl Default for Sums {
    fn default() -> Self {
        Sums {
            samples: 0,
            invalid: 0,
            operations: 0,
            payload: 0,
            tiles: 0,
            tile_sum: 0,
            first: u64::MAX,
            last: 0,
            total: 0,
            min: u64::MAX,
            max: 0,
        }
    }
}

/// An event as rows count it.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    times: Option<(u64, u64)>,
    operations: u64,
    payload: u64,
    tiles: u64,
    tile_sum: u64,
}

impl Sums {
    fn add(&mut self, sample: &Sample) {
        self.samples += 1;
        self.operations = self.operations.saturating_add(sample.operations);
        self.payload = self.payload.saturating_add(sample.payload);
        // Time of tiles counts with tiles alone.
        if sample.tiles != 0 {
            self.tiles = self.tiles.saturating_add(sample.tiles);
            self.tile_sum = self.tile_sum.saturating_add(sample.tile_sum);
        }
        let Some((start, end)) = sample.times else {
            self.invalid += 1;
            return;
        };
        (self.first, self.last) = (self.first.min(start), self.last.max(end));
        (self.min, self.max) = (self.min.min(end - start), self.max.max(end - start));
        self.total = self.total.saturating_add(end - start);
    }

    fn has_times(&self) -> bool {
        self.samples > self.invalid
    }
}

/// Writes sums of all events, as `iree-profile statistics` does.
///
/// # Errors
/// If the profile is damaged, or `out` fails.
pub fn statistics(reader: &mut Reader, format: ReportFormat, out: &mut dyn Write) -> Result<(), OutputError> {
    let catalog = Catalog::read(reader)?;
    let mut rows = Ordered::default();
    each_record(reader, |chunk, content, record| add(&mut rows, chunk, content, record))?;
    match format {
        ReportFormat::Text => text(&catalog, &rows.all, out)?,
        ReportFormat::Jsonl => {
            let (count, dropped) = (rows.all.len(), catalog.truncated(Content::ALL).1);
            writeln!(
                out,
                "{{\"type\":\"statistics_summary\",\"row_count\":{count},\"dropped_record_count\":{dropped}}}"
            )?;
            rows.all.iter().try_for_each(|(key, sums)| row(&catalog, key, sums, out))?;
        }
    }
    Ok(())
}

fn add(
    rows: &mut Ordered<Key, Sums>,
    chunk: &Record,
    content: Content,
    record: &mut TypedRecord<'_>,
) -> Result<(), ReadError> {
    match content {
        Content::DispatchEvents => {
            let event = DispatchEvent::read(&record.head()?);
            let (device, queue) = (chunk.header.physical_device_ordinal, chunk.header.queue_ordinal);
            let sample = Sample { times: ticks(event.start_tick, event.end_tick), ..Sample::default() };
            let function = |kind: Kind| Key {
                executable: event.executable_id,
                function: event.function_ordinal,
                ..Key::new(kind, device, queue)
            };
            rows.get(function(Kind::DispatchFunction)).add(&sample);
            let command_buffer = event.command_buffer_id;
            if command_buffer != 0 {
                let key = Key { command_buffer, ..Key::new(Kind::DispatchCommandBuffer, device, queue) };
                rows.get(key).add(&sample);
                if event.command_index != NONE {
                    let key = function(Kind::DispatchCommandOperation);
                    rows.get(Key { command_buffer, command: event.command_index, ..key }).add(&sample);
                }
            }
        }
        Content::QueueDeviceEvents => {
            let event = QueueDeviceEvent::read(&record.head()?);
            let key = Key {
                event_type: event.r#type.0,
                command_buffer: event.command_buffer_id,
                ..Key::new(Kind::QueueDeviceOperation, event.physical_device_ordinal, event.queue_ordinal)
            };
            rows.get(key).add(&Sample {
                times: ticks(event.start_tick, event.end_tick),
                operations: event.operation_count.into(),
                payload: event.payload_length,
                ..Sample::default()
            });
        }
        Content::QueueEvents => {
            let event = QueueEvent::read(&record.head()?);
            let key = Key {
                event_type: event.r#type.0,
                command_buffer: event.command_buffer_id,
                ..Key::new(Kind::QueueHostOperation, event.physical_device_ordinal, event.queue_ordinal)
            };
            let times =
                host_times(event.host_time_ns, event.ready_host_time_ns).filter(|_| event.ready_host_time_ns != 0);
            let (operations, payload) = (event.operation_count.into(), event.payload_length);
            rows.get(key).add(&Sample { times, operations, payload, ..Sample::default() });
        }
        Content::HostExecutionEvents => add_host(rows, &HostExecutionEvent::read(&record.head()?)),
        Content::MemoryEvents => {
            let event = MemoryEvent::read(&record.head()?);
            let key = Key {
                event_type: event.r#type.0,
                ..Key::new(Kind::MemoryLifecycle, event.physical_device_ordinal, event.queue_ordinal)
            };
            rows.get(key).add(&Sample { payload: event.length, ..Sample::default() });
        }
        _ => {}
    }
    Ok(())
}

fn add_host(rows: &mut Ordered<Key, Sums>, event: &HostExecutionEvent) {
    let (device, queue) = (event.physical_device_ordinal, event.queue_ordinal);
    let sample = Sample {
        times: host_times(event.start_host_time_ns, event.end_host_time_ns),
        operations: event.operation_count.into(),
        payload: event.payload_length,
        tiles: event.tile_count,
        tile_sum: u64::try_from(event.tile_duration_sum_ns).unwrap_or(0),
    };
    let command_buffer = event.command_buffer_id;
    let key = Key::new(Kind::HostExecutionQueueOperation, device, queue);
    rows.get(Key { event_type: event.r#type.0, command_buffer, ..key }).add(&sample);
    let function = |kind: Kind| Key {
        executable: event.executable_id,
        function: event.function_ordinal,
        ..Key::new(kind, device, queue)
    };
    if event.executable_id != 0 {
        rows.get(function(Kind::HostExecutionFunction)).add(&sample);
    }
    if command_buffer != 0 {
        let key = Key::new(Kind::HostExecutionCommandBuffer, device, queue);
        rows.get(Key { command_buffer, ..key }).add(&sample);
        if event.command_index != NONE {
            let key = function(Kind::HostExecutionCommandOperation);
            rows.get(Key { command_buffer, command: event.command_index, ..key }).add(&sample);
        }
    }
}

fn ticks(start: u64, end: u64) -> Option<(u64, u64)> {
    (start != 0 && end >= start).then_some((start, end))
}

fn host_times(start: i64, end: i64) -> Option<(u64, u64)> {
    duration(start, end).map(|_| (start.unsigned_abs(), end.unsigned_abs()))
}

/// The name of the event of a row.
fn event_name(key: &Key) -> Option<&'static str> {
    match key.kind {
        Kind::QueueDeviceOperation | Kind::QueueHostOperation | Kind::HostExecutionQueueOperation => {
            Some(known(QueueEventType(key.event_type).name()))
        }
        Kind::MemoryLifecycle => Some(known(MemoryEventType(key.event_type).name())),
        _ => None,
    }
}

/// A span of a row in nanoseconds.
fn nanoseconds(catalog: &Catalog, key: &Key, sums: &Sums, span: u64) -> Option<u64> {
    match key.kind.domain().1 {
        _ if !sums.has_times() => None,
        1 => catalog.fit(key.device)?.duration_ns(span)?.try_into().ok(),
        _ => Some(span),
    }
}

fn row(catalog: &Catalog, key: &Key, sums: &Sums, out: &mut dyn Write) -> io::Result<()> {
    let (domain, domain_value, unit) = key.kind.domain();
    let has = [sums.has_times(), sums.payload != 0, sums.operations != 0, sums.tiles != 0];
    let flags = has.iter().rev().fold(0, |flags, has| flags << 1 | u32::from(*has));
    let name = event_name(key).map_or_else(|| "null".to_string(), |name| format!("\"{name}\""));
    let function = catalog.model.function_name(key.executable, key.function);
    let function = function.map_or_else(|| "null".to_string(), json_text);
    let if_timed = |value: u64| if sums.has_times() { value } else { 0 };
    let nanoseconds = |span: u64| {
        let span = nanoseconds(catalog, key, sums, span);
        span.map_or_else(|| "null".to_string(), |span| span.to_string())
    };
    write!(
        out,
        "{{\"type\":\"statistics_row\",\"row_type\":\"{}\",\"row_type_value\":{},\"time_domain\":\"{domain}\",\
         \"time_domain_value\":{domain_value},\"duration_unit\":\"{unit}\",\"flags\":{flags},\"has_timing\":{},\
         \"has_payload_bytes\":{},\"has_operation_count\":{},\"has_tile_totals\":{}",
        key.kind.name(),
        key.kind as u32,
        has[0],
        has[1],
        has[2],
        has[3]
    )?;
    write!(
        out,
        ",\"physical_device_ordinal\":{},\"queue_ordinal\":{},\"event_type\":{},\"event_name\":{name},\
         \"executable_id\":{},\"command_buffer_id\":{},\"function_ordinal\":{},\"command_index\":{},\
         \"function_name\":{function}",
        key.device, key.queue, key.event_type, key.executable, key.command_buffer, key.function, key.command
    )?;
    writeln!(
        out,
        ",\"sample_count\":{},\"invalid_sample_count\":{},\"operation_count\":{},\"payload_bytes\":{},\
         \"tile_count\":{},\"tile_duration_sum_ns\":{},\"first_start_time\":{},\"last_end_time\":{},\
         \"total_duration\":{},\"minimum_duration\":{},\"maximum_duration\":{},\"total_duration_ns\":{},\
         \"minimum_duration_ns\":{},\"maximum_duration_ns\":{}}}",
        sums.samples,
        sums.invalid,
        sums.operations,
        sums.payload,
        sums.tiles,
        sums.tile_sum,
        if_timed(sums.first),
        if_timed(sums.last),
        sums.total,
        if_timed(sums.min),
        if_timed(sums.max),
        nanoseconds(sums.total),
        nanoseconds(sums.min),
        nanoseconds(sums.max)
    )
}

fn text(catalog: &Catalog, rows: &[(Key, Sums)], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\nIREE HAL device statistics:")?;
    let dropped = catalog.truncated(Content::ALL).1;
    if rows.is_empty() && dropped == 0 {
        return writeln!(out, "  no profiling records captured");
    }
    writeln!(out, "  aggregate_rows={}", rows.len())?;
    if dropped != 0 {
        writeln!(out, "  dropped_records={dropped}")?;
    }
    if rows.is_empty() {
        return Ok(());
    }
    for (label, kind) in [
        ("dispatch_function_total", Kind::DispatchFunction),
        ("host_execution_function_total", Kind::HostExecutionFunction),
        ("host_execution_queue_total", Kind::HostExecutionQueueOperation),
        ("device_queue_total", Kind::QueueDeviceOperation),
        ("host_queue_ready_total", Kind::QueueHostOperation),
    ] {
        let of_kind = rows.iter().filter(|(key, _)| key.kind == kind);
        let total = of_kind
            .filter_map(|(key, sums)| nanoseconds(catalog, key, sums, sums.total))
            .fold(0u64, u64::saturating_add);
        writeln!(out, "  {label}={}", time(total))?;
    }
    let is_unscaled =
        |(key, sums): &&(Key, Sums)| sums.has_times() && nanoseconds(catalog, key, sums, sums.total).is_none();
    let unscaled = rows.iter().filter(is_unscaled).count();
    if unscaled != 0 {
        writeln!(out, "  unscaled_timing_rows={unscaled}")?;
    }
    for (key, sums) in rows {
        let name = event_name(key).unwrap_or_default();
        let function = match catalog.model.function_name(key.executable, key.function) {
            Some(name) => visible(&String::from_utf8_lossy(name)).to_string(),
            None => format!("executable={} function={}", key.executable, key.function),
        };
        let place = format!("p={} q={}", key.device, key.queue);
        let label = match key.kind {
            Kind::DispatchFunction => format!("dispatch {function} "),
            Kind::HostExecutionFunction => format!("host_execute {function} "),
            Kind::QueueDeviceOperation => format!("device_queue {place} {name} "),
            Kind::QueueHostOperation => format!("host_queue {place} {name} "),
            Kind::HostExecutionQueueOperation => format!("host_execute_queue {place} {name} "),
            Kind::MemoryLifecycle => {
                writeln!(out, "  memory {place} {name} count={} bytes={}", sums.samples, sums.payload)?;
                continue;
            }
            _ => continue,
        };
        write!(out, "  {label} count={}", sums.samples)?;
        // The average is by all samples, also those without times.
        for (label, span) in [("total", sums.total), ("avg", sums.total / sums.samples.max(1))] {
            match nanoseconds(catalog, key, sums, span) {
                Some(span) => write!(out, " {label}={}", time(span))?,
                None if sums.has_times() => write!(out, " {label}={span} ticks")?,
                None => write!(out, " {label}=-")?,
            }
        }
        if sums.invalid != 0 {
            write!(out, " invalid={}", sums.invalid)?;
        }
        if sums.operations != 0 && !matches!(key.kind, Kind::HostExecutionFunction | Kind::DispatchFunction) {
            write!(out, " operations={}", sums.operations)?;
        }
        if sums.payload != 0 {
            write!(out, " payload={}B", sums.payload)?;
        }
        if sums.tiles != 0 {
            write!(out, " tiles={} tile_sum={}", sums.tiles, time(sums.tile_sum))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Nanoseconds in the unit that fits, with three digits that are cut off.
fn time(nanoseconds: u64) -> String {
    let (unit, factor) = match nanoseconds {
        0..1_000 => return format!("{nanoseconds} ns"),
        1_000..1_000_000 => ("us", 1_000),
        _ => ("ms", 1_000_000),
    };
    format!("{}.{:03} {unit}", nanoseconds / factor, nanoseconds % factor / (factor / 1000))
}
