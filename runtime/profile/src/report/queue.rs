//! `queue`: operations of queues, as hosts and devices see them.

use std::collections::BTreeMap;
use std::io::{self, Write};

use vireo_core::record_fields::{json_text, known};
use vireo_core::record_file::ReadError;

use super::catalog::Catalog;
use super::dispatches::{Dispatches, Subject, matched_device, matched_host};
use super::submissions::{SubmissionKey, Sums, submissions};
use super::{ReportFilter, dispatch, each_record};
use crate::ReportFormat;
use crate::clock::ClockFit;
use crate::generated::contents::Content;
use crate::generated::format::QueueEventType;
use crate::generated::records::{HostExecutionEvent, Queue, QueueDeviceEvent, QueueEvent};
use crate::joins::duration;
use crate::reader::{OutputError, Reader, TypedRecord};

/// Writes the operations of queues, as `iree-profile queue` does.
///
/// # Errors
/// If the profile is damaged, or `out` fails.
pub fn queue(
    reader: &mut Reader,
    filter: &ReportFilter,
    format: ReportFormat,
    out: &mut dyn Write,
) -> Result<(), OutputError> {
    let catalog = Catalog::read(reader)?;
    if filter.dispatch_events {
        return dispatch::events(reader, &catalog, filter, Subject::Queue, out);
    }
    let dispatches = Dispatches::read(reader, &catalog, filter, Subject::Queue, None)?;
    let mut counts = [0u64; 3];
    let contents = [Content::QueueEvents, Content::QueueDeviceEvents, Content::HostExecutionEvents];
    each_record(reader, |_, content, record| {
        if let Some(place) = contents.iter().position(|wanted| *wanted == content) {
            let (operation, submission, of_queue) = subject(content, record)?;
            if !catalog.has_queue(of_queue.0, of_queue.1, of_queue.2) {
                let message =
                    format!("an event is of queue {} of device {}: expected a known one", of_queue.1, of_queue.0);
                return Err(record.damaged(message));
            }
            counts[place] += u64::from(is_selected(filter, operation, submission));
        }
        Ok(())
    })?;
    let submissions = submissions(&dispatches);
    let (device, host) = (&dispatches.device.all, &dispatches.host.all);
    let of_buffers = dispatches.host.executions.all.iter().filter(|(key, _)| key.0 != 0).count();
    let (queues, count) = (catalog.queues.len(), submissions.all.len());
    let (truncated, dropped) = catalog.truncated(&contents);
    let [queue_events, device_events, host_events] = counts;
    match format {
        ReportFormat::Text => {
            writeln!(out, "IREE HAL profile queue summary")?;
            writeln!(out, "filter: {}", filter.pattern)?;
            writeln!(
                out,
                "queues={queues} queue_events={queue_events} queue_device_events={device_events} \
                 host_execution_events={host_events} truncated_chunks={truncated} dropped_records={dropped} \
                 submissions={count} matched_dispatches={} valid={} invalid={}",
                device.count,
                device.valid,
                device.invalid()
            )?;
            writeln!(
                out,
                "host_dispatches: matched={} valid={} invalid={} command_executions={of_buffers}",
                host.count,
                host.valid,
                host.invalid()
            )?;
        }
        ReportFormat::Jsonl => writeln!(
            out,
            "{{\"type\":\"queue_summary\",\"filter\":{},\"queues\":{queues},\"queue_events\":{queue_events},\
             \"queue_device_events\":{device_events},\"host_execution_events\":{host_events},\
             \"truncated_chunks\":{truncated},\"dropped_records\":{dropped},\"submissions\":{count},{},{},\
             \"host_command_executions\":{of_buffers}}}",
            json_text(filter.pattern.as_bytes()),
            matched_device(device),
            matched_host(host)
        )?,
    }
    if format == ReportFormat::Jsonl {
        catalog.queues.iter().try_for_each(|queue| head(queue, format, out))?;
        for (key, sums) in &submissions.all {
            submission(*key, sums, catalog.fit(key.1).as_ref(), format, out)?;
        }
        return [Content::QueueDeviceEvents, Content::HostExecutionEvents, Content::QueueEvents]
            .into_iter()
            .try_for_each(|content| events(reader, &catalog, filter, content, None, format, out));
    }
    for queue in &catalog.queues {
        head(queue, format, out)?;
        let own = (queue.physical_device_ordinal, queue.queue_ordinal, queue.stream_id);
        for (key, sums) in submissions.all.iter().filter(|(key, _)| (key.1, key.2, key.3) == own) {
            submission(*key, sums, catalog.fit(key.1).as_ref(), format, out)?;
        }
        for content in [Content::QueueDeviceEvents, Content::HostExecutionEvents, Content::QueueEvents] {
            events(reader, &catalog, filter, content, Some(own), format, out)?;
        }
    }
    Ok(())
}

/// The operation, the submission and the queue of an event: device, ordinal and stream.
type Subjects = (QueueEventType, u64, (u32, u32, u64));

/// The target of an event.
fn subject(content: Content, record: &mut TypedRecord<'_>) -> Result<Subjects, ReadError> {
    Ok(match content {
        Content::QueueEvents => {
            let event = QueueEvent::read(&record.head()?);
            let place = (event.physical_device_ordinal, event.queue_ordinal, event.stream_id);
            (event.r#type, event.submission_id, place)
        }
        Content::QueueDeviceEvents => {
            let event = QueueDeviceEvent::read(&record.head()?);
            let place = (event.physical_device_ordinal, event.queue_ordinal, event.stream_id);
            (event.r#type, event.submission_id, place)
        }
        _ => {
            let event = HostExecutionEvent::read(&record.head()?);
            let place = (event.physical_device_ordinal, event.queue_ordinal, event.stream_id);
            (event.r#type, event.submission_id, place)
        }
    })
}

fn is_selected(filter: &ReportFilter, operation: QueueEventType, submission: u64) -> bool {
    filter.is(submission) && filter.matches(known(operation.name()).as_bytes())
}

fn head(queue: &Queue, format: ReportFormat, out: &mut dyn Write) -> io::Result<()> {
    let Queue { physical_device_ordinal, queue_ordinal, stream_id, .. } = queue;
    match format {
        ReportFormat::Text => {
            writeln!(out, "queue device={physical_device_ordinal} ordinal={queue_ordinal} stream={stream_id}")
        }
        ReportFormat::Jsonl => writeln!(
            out,
            "{{\"type\":\"queue\",\"physical_device_ordinal\":{physical_device_ordinal},\
             \"queue_ordinal\":{queue_ordinal},\"stream_id\":{stream_id}}}"
        ),
    }
}

fn submission(
    (id, device, queue, stream): SubmissionKey,
    sums: &Sums,
    fit: Option<&ClockFit>,
    format: ReportFormat,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Sums { count, valid, total, .. } = sums;
    let invalid = count - valid;
    let span = if *valid == 0 { 0.0 } else { (sums.last - sums.first) as f64 };
    let total_ns = fit.filter(|_| *valid != 0).and_then(|fit| fit.duration_ns(*total));
    let span_ns = span * fit.map_or(0.0, ClockFit::ns_per_tick);
    match format {
        ReportFormat::Text => {
            write!(
                out,
                "  submission={id} dispatches={count} valid={valid} invalid={invalid} span_ticks={span:.3} \
                 total_dispatch_ticks={total}"
            )?;
            if let Some(total_ns) = total_ns {
                write!(out, " span_ns={span_ns:.3} total_dispatch_ns={total_ns}")?;
            }
            writeln!(out)
        }
        ReportFormat::Jsonl => writeln!(
            out,
            "{{\"type\":\"queue_submission\",\"submission_id\":{id},\"physical_device_ordinal\":{device},\
             \"queue_ordinal\":{queue},\"stream_id\":{stream},\"dispatches\":{count},\"valid\":{valid},\
             \"invalid\":{invalid},\"span_ticks\":{span:.3},\"total_dispatch_ticks\":{total},\
             \"clock_fit_available\":{},\"total_dispatch_time_ns_available\":{},\"span_ns\":{span_ns:.3},\
             \"total_dispatch_ns\":{}}}",
            fit.is_some(),
            total_ns.is_some(),
            total_ns.unwrap_or(0)
        ),
    }
}

/// Writes the events of a type, of one queue or of all.
fn events(
    reader: &mut Reader,
    catalog: &Catalog,
    filter: &ReportFilter,
    wanted: Content,
    of: Option<(u32, u32, u64)>,
    format: ReportFormat,
    out: &mut dyn Write,
) -> Result<(), OutputError> {
    let mut failure = None;
    let mut fits = BTreeMap::new();
    each_record(reader, |_, content, record| {
        if content != wanted || failure.is_some() {
            return Ok(());
        }
        let (operation, submission, place) = subject(content, record)?;
        if !is_selected(filter, operation, submission) || of.is_some_and(|of| of != place) {
            return Ok(());
        }
        let op = known(operation.name());
        let written = match content {
            Content::QueueEvents => queue_event(&QueueEvent::read(&record.head()?), op, format, out),
            Content::QueueDeviceEvents => {
                let fit = fits.entry(place.0).or_insert_with(|| catalog.fit(place.0));
                device_event(&QueueDeviceEvent::read(&record.head()?), op, fit.as_ref(), format, out)
            }
            _ => host_event(&HostExecutionEvent::read(&record.head()?), op, format, out),
        };
        failure = written.err();
        Ok(())
    })?;
    failure.map_or(Ok(()), |error| Err(error.into()))
}

fn queue_event(event: &QueueEvent, op: &str, format: ReportFormat, out: &mut dyn Write) -> io::Result<()> {
    let strategy = known(event.dependency_strategy.name());
    match format {
        ReportFormat::Text => writeln!(
            out,
            "  event={} type={op} submission={} strategy={strategy} submit={} ready={} waits={} signals={} barriers={} \
             ops={} bytes={}",
            event.event_id,
            event.submission_id,
            event.host_time_ns,
            event.ready_host_time_ns,
            event.wait_count,
            event.signal_count,
            event.barrier_count,
            event.operation_count,
            event.payload_length
        ),
        ReportFormat::Jsonl => writeln!(
            out,
            "{{\"type\":\"queue_event\",\"event_id\":{},\"op\":\"{op}\",\"flags\":{},\
             \"dependency_strategy\":\"{strategy}\",\"submission_id\":{},\"command_buffer_id\":{},\
             \"allocation_id\":{},\"physical_device_ordinal\":{},\"queue_ordinal\":{},\"stream_id\":{},\
             \"host_time_ns\":{},\"ready_host_time_ns\":{},\"host_time_domain\":\"iree_host_time_ns\",\
             \"wait_count\":{},\"signal_count\":{},\"barrier_count\":{},\"operation_count\":{},\"payload_length\":{}}}",
            event.event_id,
            event.flags,
            event.submission_id,
            event.command_buffer_id,
            event.allocation_id,
            event.physical_device_ordinal,
            event.queue_ordinal,
            event.stream_id,
            event.host_time_ns,
            event.ready_host_time_ns,
            event.wait_count,
            event.signal_count,
            event.barrier_count,
            event.operation_count,
            event.payload_length
        ),
    }
}

fn device_event(
    event: &QueueDeviceEvent,
    op: &str,
    fit: Option<&ClockFit>,
    format: ReportFormat,
    out: &mut dyn Write,
) -> io::Result<()> {
    let is_valid = event.start_tick != 0 && event.end_tick >= event.start_tick;
    let ticks = if is_valid { event.end_tick - event.start_tick } else { 0 };
    let nanoseconds = fit.filter(|_| is_valid).and_then(|fit| fit.duration_ns(ticks));
    match format {
        ReportFormat::Text => {
            write!(
                out,
                "  device_event={} type={op} submission={} command_buffer={} allocation={} ops={} ticks={ticks} \
                 valid={is_valid}",
                event.event_id,
                event.submission_id,
                event.command_buffer_id,
                event.allocation_id,
                event.operation_count
            )?;
            if let Some(nanoseconds) = nanoseconds {
                write!(out, " ns={nanoseconds}")?;
            }
            writeln!(out)
        }
        ReportFormat::Jsonl => writeln!(
            out,
            "{{\"type\":\"queue_device_event\",\"event_id\":{},\"op\":\"{op}\",\"flags\":{},\"submission_id\":{},\
             \"command_buffer_id\":{},\"allocation_id\":{},\"physical_device_ordinal\":{},\"queue_ordinal\":{},\
             \"stream_id\":{},\"operation_count\":{},\"payload_length\":{},\"start_tick\":{},\"end_tick\":{},\
             \"duration_ticks\":{ticks},\"valid\":{is_valid},\"clock_fit_available\":{},\"duration_ns\":{}}}",
            event.event_id,
            event.flags,
            event.submission_id,
            event.command_buffer_id,
            event.allocation_id,
            event.physical_device_ordinal,
            event.queue_ordinal,
            event.stream_id,
            event.operation_count,
            event.payload_length,
            event.start_tick,
            event.end_tick,
            fit.is_some(),
            nanoseconds.unwrap_or(0)
        ),
    }
}

fn host_event(event: &HostExecutionEvent, op: &str, format: ReportFormat, out: &mut dyn Write) -> io::Result<()> {
    let span = duration(event.start_host_time_ns, event.end_host_time_ns);
    let (nanoseconds, is_valid) = (span.unwrap_or(0), span.is_some());
    match format {
        ReportFormat::Text => writeln!(
            out,
            "  host_execution_event={} type={op} submission={} command_buffer={} allocation={} ops={} tiles={} \
             ns={nanoseconds} tile_sum_ns={} valid={is_valid}",
            event.event_id,
            event.submission_id,
            event.command_buffer_id,
            event.allocation_id,
            event.operation_count,
            event.tile_count,
            event.tile_duration_sum_ns
        ),
        ReportFormat::Jsonl => writeln!(
            out,
            "{{\"type\":\"host_execution_event\",\"event_id\":{},\"op\":\"{op}\",\"flags\":{},\"status_code\":{},\
             \"submission_id\":{},\"command_buffer_id\":{},\"command_index\":{},\"executable_id\":{},\
             \"function_ordinal\":{},\"allocation_id\":{},\"physical_device_ordinal\":{},\"queue_ordinal\":{},\
             \"stream_id\":{},\"operation_count\":{},\"payload_length\":{},\"tile_count\":{},\
             \"tile_duration_sum_ns\":{},\"host_time_domain\":\"iree_host_time_ns\",\"start_host_time_ns\":{},\
             \"end_host_time_ns\":{},\"duration_ns\":{nanoseconds},\"valid\":{is_valid}}}",
            event.event_id,
            event.flags,
            event.status_code,
            event.submission_id,
            event.command_buffer_id,
            event.command_index,
            event.executable_id,
            event.function_ordinal,
            event.allocation_id,
            event.physical_device_ordinal,
            event.queue_ordinal,
            event.stream_id,
            event.operation_count,
            event.payload_length,
            event.tile_count,
            event.tile_duration_sum_ns,
            event.start_host_time_ns,
            event.end_host_time_ns
        ),
    }
}
