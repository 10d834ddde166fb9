//! The findings as JSON, a row on each line.

use std::io::{self, Write};

use vireo_core::record_fields::json_text;

use super::findings::{DeviceRow, Findings, FunctionRow, Gaps, QueueRow, pool_waits};
use crate::cat::status_name;
use crate::clock::ClockFit;
use crate::generated::format::{DependencyStrategy, QueueEventType};
use crate::report::dispatches::{FunctionKey, LongDispatch};
use crate::summary::FailedSession;

/// Writes all of them.
pub(super) fn write(findings: &Findings, out: &mut dyn Write) -> io::Result<()> {
    summary(findings, out)?;
    findings.devices.iter().try_for_each(|row| device(row, out))?;
    findings.queues.iter().try_for_each(|row| queue(findings, row, out))?;
    findings.functions.iter().enumerate().try_for_each(|(index, row)| function(findings, index + 1, row, out))?;
    findings.longest.iter().enumerate().try_for_each(|(index, row)| dispatch(findings, index + 1, row, out))?;
    operations(findings, out)?;
    for (ordinal, device) in &findings.memory.devices.all {
        writeln!(
            out,
            "{{\"type\":\"explain_memory_pressure\",\"physical_device_ordinal\":{ordinal},\
             \"slab_high_water_bytes\":{},\"pool_reserved_high_water_bytes\":{},\
             \"pool_materialized_high_water_bytes\":{},\"queue_inflight_high_water_bytes\":{},\
             \"buffer_high_water_bytes\":{},\"pool_waits\":{}}}",
            device.slabs.most_bytes,
            device.reserved.most_bytes,
            device.materialized.most_bytes,
            device.queue.most_bytes,
            device.buffers.most_bytes,
            pool_waits(device)
        )?;
    }
    hints(findings, out)
}

/// The first session that failed.
fn failure(first: &FailedSession) -> String {
    format!(
        ",\"first_non_ok_session_id\":{},\"first_non_ok_stream_id\":{},\"first_non_ok_event_id\":{},\
         \"first_non_ok_status_code\":{},\"first_non_ok_status\":\"{}\"",
        first.session_id,
        first.stream_id,
        first.event_id,
        first.status_code,
        status_name(first.status_code)
    )
}

fn summary(findings: &Findings, out: &mut dyn Write) -> io::Result<()> {
    let (summary, catalog) = (&findings.summary, &findings.catalog);
    let (device, host) = (&findings.dispatches.device.all, &findings.dispatches.host.all);
    writeln!(
        out,
        "{{\"type\":\"explain_summary\",\"file_records\":{},\"chunk_records\":{},\"unknown_records\":{},\
         \"unknown_chunks\":{},\"truncated_chunks\":{},\"dropped_records\":{},\"non_ok_session_end_records\":{},\
         \"dispatches\":{},\"valid_dispatches\":{},\"invalid_dispatches\":{},\"host_dispatches\":{},\
         \"valid_host_dispatches\":{},\"invalid_host_dispatches\":{},\"queues\":{},\"queue_events\":{},\
         \"command_buffers\":{},\"command_operations\":{},\"memory_events\":{}{}}}",
        summary.records,
        summary.chunks,
        summary.unknown_records,
        summary.unknown_chunks,
        summary.truncated_chunks,
        summary.dropped_records,
        summary.failed_session_ends,
        device.count,
        device.valid,
        device.invalid(),
        host.count,
        host.valid,
        host.invalid(),
        catalog.queues.len(),
        findings.operations.events,
        catalog.command_buffers.len(),
        catalog.operations.len(),
        findings.memory.matched,
        summary.first_failed.as_ref().map(failure).unwrap_or_default()
    )
}

fn device(row: &DeviceRow, out: &mut dyn Write) -> io::Result<()> {
    let (frequency, scale) = row.fit.map_or((0.0, 0.0), |fit| (fit.tick_frequency_hz(), fit.ns_per_tick()));
    writeln!(
        out,
        "{{\"type\":\"explain_device\",\"physical_device_ordinal\":{},\"clock_fit_available\":{},\
         \"clock_samples\":{},\"visible_span_ticks\":{:.3},\"active_dispatch_ticks\":{},\
         \"active_over_visible\":{:.6},\"tick_frequency_hz\":{frequency:.3},\"visible_span_ns\":{:.3},\
         \"active_dispatch_time_ns_available\":{},\"active_dispatch_ns\":{}}}",
        row.ordinal,
        row.fit.is_some(),
        row.samples,
        row.span,
        row.active,
        row.ratio(),
        row.span * scale,
        row.active_ns.is_some(),
        row.active_ns.unwrap_or(0)
    )
}

fn queue(findings: &Findings, row: &QueueRow, out: &mut dyn Write) -> io::Result<()> {
    let (queue, scale) = (&row.queue, row.fit.as_ref().map_or(0.0, ClockFit::ns_per_tick));
    let has_gaps = findings.operations.events != 0;
    let gaps = if has_gaps { row.gaps } else { Gaps::default() };
    writeln!(
        out,
        "{{\"type\":\"explain_queue\",\"physical_device_ordinal\":{},\"queue_ordinal\":{},\"stream_id\":{},\
         \"submissions\":{},\"valid_submissions\":{},\"invalid_submissions\":{},\"busy_ticks\":{:.3},\
         \"total_dispatch_ticks\":{},\"clock_fit_available\":{},\"busy_ns\":{:.3},\
         \"total_dispatch_time_ns_available\":{},\"total_dispatch_ns\":{},\"gap_analysis_available\":{has_gaps},\
         \"gaps\":{},\"total_gap_ticks\":{:.3},\"max_gap_ticks\":{:.3},\"total_gap_ns\":{:.3},\"max_gap_ns\":{:.3}}}",
        queue.physical_device_ordinal,
        queue.queue_ordinal,
        queue.stream_id,
        row.submissions,
        row.valid,
        row.invalid,
        row.busy,
        row.total,
        row.fit.is_some(),
        row.busy * scale,
        row.total_ns.is_some(),
        row.total_ns.unwrap_or(0),
        gaps.count,
        gaps.total,
        gaps.max,
        gaps.total * scale,
        gaps.max * scale
    )
}

/// The name of a function, in quotes.
fn name(findings: &Findings, (device, executable, function): FunctionKey) -> String {
    json_text(&findings.catalog.key(device, executable, function)).to_string()
}

fn function(findings: &Findings, rank: usize, row: &FunctionRow, out: &mut dyn Write) -> io::Result<()> {
    let (spans, (device, executable, function)) = (&row.spans, row.key);
    let (total, average, max) = row.nanoseconds.unwrap_or((0, 0.0, 0));
    // Spans of the host are not in ticks, and those of devices have no tiles.
    let (ticks, tiles) = match findings.of_host {
        true => ((0, 0), (spans.tiles, spans.tile_sum)),
        false => ((spans.total, spans.max), (0, 0)),
    };
    writeln!(
        out,
        "{{\"type\":\"explain_top_function\",\"rank\":{rank},\"physical_device_ordinal\":{device},\
         \"executable_id\":{executable},\"function_ordinal\":{function},\"key\":{},\"dispatches\":{},\"valid\":{},\
         \"invalid\":{},\"total_ticks\":{},\"max_ticks\":{},\"timing_source\":\"{}\",\"duration_ns_available\":{},\
         \"total_ns\":{total},\"avg_ns\":{average:.3},\"max_ns\":{max},\"total_tile_count\":{},\
         \"total_tile_duration_sum_ns\":{}}}",
        name(findings, row.key),
        spans.count,
        spans.valid,
        spans.invalid(),
        ticks.0,
        ticks.1,
        findings.timing_source(),
        row.nanoseconds.is_some(),
        tiles.0,
        tiles.1
    )
}

fn dispatch(findings: &Findings, rank: usize, row: &LongDispatch, out: &mut dyn Write) -> io::Result<()> {
    let (command_buffer, submission, device, queue, stream) = row.execution;
    write!(
        out,
        "{{\"type\":\"explain_top_dispatch\",\"rank\":{rank},\"event_id\":{},\"submission_id\":{submission},\
         \"physical_device_ordinal\":{device},\"queue_ordinal\":{queue},\"stream_id\":{stream}",
        row.event
    )?;
    if findings.of_host {
        write!(out, ",\"command_buffer_id\":{command_buffer},\"command_index\":{}", row.command)?;
    }
    let (ticks, nanoseconds) = match findings.of_host {
        true => (0, Some(row.span.cast_signed())),
        false => (row.span, findings.catalog.fit(device).and_then(|fit| fit.duration_ns(row.span))),
    };
    writeln!(
        out,
        ",\"key\":{},\"timing_source\":\"{}\",\"duration_ticks\":{ticks},\"duration_ns_available\":{},\
         \"duration_ns\":{},\"tile_count\":{},\"tile_duration_sum_ns\":{}}}",
        name(findings, row.function),
        findings.timing_source(),
        nanoseconds.is_some(),
        nanoseconds.unwrap_or(0),
        row.tiles,
        row.tile_sum
    )
}

fn operations(findings: &Findings, out: &mut dyn Write) -> io::Result<()> {
    let operations = &findings.operations;
    write!(out, "{{\"type\":\"explain_queue_operations\",\"events\":{}", operations.events)?;
    for (name, strategy) in [
        ("strategy_none", DependencyStrategy::NONE),
        ("strategy_inline", DependencyStrategy::INLINE),
        ("strategy_device_barrier", DependencyStrategy::DEVICE_BARRIER),
        ("strategy_software_defer", DependencyStrategy::SOFTWARE_DEFER),
    ] {
        write!(out, ",\"{name}\":{}", operations.strategies[strategy.0 as usize])?;
    }
    for (name, operation) in [
        ("copy_bytes", QueueEventType::COPY),
        ("fill_bytes", QueueEventType::FILL),
        ("update_bytes", QueueEventType::UPDATE),
        ("read_bytes", QueueEventType::READ),
        ("write_bytes", QueueEventType::WRITE),
    ] {
        write!(out, ",\"{name}\":{}", operations.bytes[operation.0 as usize])?;
    }
    for (name, operation) in [
        ("dispatches", QueueEventType::DISPATCH),
        ("executes", QueueEventType::EXECUTE),
        ("allocas", QueueEventType::ALLOCA),
        ("deallocas", QueueEventType::DEALLOCA),
        ("host_calls", QueueEventType::HOST_CALL),
    ] {
        write!(out, ",\"{name}\":{}", operations.counts[operation.0 as usize])?;
    }
    writeln!(out, "}}")
}

fn hints(findings: &Findings, out: &mut dyn Write) -> io::Result<()> {
    for hint in findings.hints() {
        match (hint, &findings.summary.first_failed) {
            (Some((severity, category, message)), _) => writeln!(
                out,
                "{{\"type\":\"explain_hint\",\"severity\":\"{severity}\",\"category\":\"{category}\",\
                 \"message\":\"{message}\"}}"
            )?,
            (None, Some(first)) => writeln!(
                out,
                "{{\"type\":\"explain_hint\",\"severity\":\"error\",\"category\":\"session\",\
                 \"message\":\"profiling session end records reported non-OK status\",\
                 \"non_ok_session_end_records\":{}{}}}",
                findings.summary.failed_session_ends,
                failure(first)
            )?,
            (None, None) => {}
        }
    }
    Ok(())
}
