//! The findings for people.

use std::io::{self, Write};

use vireo_core::visible_text::visible;

use super::findings::{DeviceRow, Findings, FunctionRow, QueueRow, pool_waits};
use crate::cat::status_name;
use crate::clock::ClockFit;
use crate::generated::format::{DependencyStrategy, QueueEventType};
use crate::report::dispatches::{FunctionKey, LongDispatch};

/// Writes all of them.
pub(super) fn write(findings: &Findings, out: &mut dyn Write) -> io::Result<()> {
    head(findings, out)?;
    writeln!(out, "devices:")?;
    findings.devices.iter().try_for_each(|row| device(row, out))?;
    writeln!(out, "queues:")?;
    findings.queues.iter().try_for_each(|row| queue(findings, row, out))?;
    writeln!(out, "top functions by total dispatch time:")?;
    findings.functions.iter().enumerate().try_for_each(|(index, row)| function(findings, index + 1, row, out))?;
    writeln!(out, "top individual dispatches:")?;
    findings.longest.iter().enumerate().try_for_each(|(index, row)| dispatch(findings, index + 1, row, out))?;
    operations(findings, out)?;
    writeln!(out, "memory pressure:")?;
    for (ordinal, device) in &findings.memory.devices.all {
        writeln!(
            out,
            "  device[{ordinal}]: slab_high_water={} pool_reserved_high_water={} pool_materialized_high_water={} \
             queue_inflight_high_water={} buffer_high_water={} pool_waits={}",
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

fn head(findings: &Findings, out: &mut dyn Write) -> io::Result<()> {
    let (summary, catalog) = (&findings.summary, &findings.catalog);
    writeln!(out, "IREE HAL profile explain")?;
    writeln!(
        out,
        "health: records={} chunks={} unknown_records={} unknown_chunks={} truncated_chunks={} dropped_records={}",
        summary.records,
        summary.chunks,
        summary.unknown_records,
        summary.unknown_chunks,
        summary.truncated_chunks,
        summary.dropped_records
    )?;
    if let Some(first) = &summary.first_failed {
        writeln!(
            out,
            "session_status: non_ok_session_end={} first_session_id={} first_stream_id={} first_event_id={} \
             first_status_code={} first_status={}",
            summary.failed_session_ends,
            first.session_id,
            first.stream_id,
            first.event_id,
            first.status_code,
            status_name(first.status_code)
        )?;
    }
    let (device, host) = (&findings.dispatches.device.all, &findings.dispatches.host.all);
    writeln!(
        out,
        "coverage: dispatches={} valid={} invalid={} host_dispatches={} valid_host={} invalid_host={} queues={} \
         queue_events={} command_buffers={} command_operations={} memory_events={}",
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
        findings.memory.matched
    )
}

fn device(row: &DeviceRow, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "  device[{}]: clock_fit={} clock_samples={} visible_span_ticks={:.3} active_dispatch_ticks={} \
         active_over_visible={:.3}",
        row.ordinal,
        row.fit.is_some(),
        row.samples,
        row.span,
        row.active,
        row.ratio()
    )?;
    if let (Some(fit), Some(active)) = (&row.fit, row.active_ns) {
        writeln!(
            out,
            "    visible_span_ns={:.3} active_dispatch_ns={active} tick_frequency_hz={:.3}",
            row.span * fit.ns_per_tick(),
            fit.tick_frequency_hz()
        )?;
    }
    Ok(())
}

fn queue(findings: &Findings, row: &QueueRow, out: &mut dyn Write) -> io::Result<()> {
    let (queue, scale) = (&row.queue, row.fit.as_ref().map(ClockFit::ns_per_tick));
    write!(
        out,
        "  queue device={} ordinal={} stream={}: submissions={} valid={} invalid={} busy_ticks={:.3} \
         total_dispatch_ticks={}",
        queue.physical_device_ordinal,
        queue.queue_ordinal,
        queue.stream_id,
        row.submissions,
        row.valid,
        row.invalid,
        row.busy,
        row.total
    )?;
    if let (Some(scale), Some(total)) = (scale, row.total_ns) {
        write!(out, " busy_ns={:.3} total_dispatch_ns={total}", row.busy * scale)?;
    }
    if findings.operations.events == 0 {
        return writeln!(out, " gaps=unavailable_without_queue_events");
    }
    let gaps = row.gaps;
    write!(out, " gaps={} total_gap_ticks={:.3} max_gap_ticks={:.3}", gaps.count, gaps.total, gaps.max)?;
    if let Some(scale) = scale {
        write!(out, " total_gap_ns={:.3} max_gap_ns={:.3}", gaps.total * scale, gaps.max * scale)?;
    }
    writeln!(out)
}

/// The name of a function, which may have anything in it.
fn name(findings: &Findings, (device, executable, function): FunctionKey) -> String {
    visible(&String::from_utf8_lossy(&findings.catalog.key(device, executable, function))).to_string()
}

fn function(findings: &Findings, rank: usize, row: &FunctionRow, out: &mut dyn Write) -> io::Result<()> {
    let (spans, (device, executable, function)) = (&row.spans, row.key);
    write!(
        out,
        "  #{rank} {} device={device} executable={executable} function={function} count={} valid={} invalid={} \
         timing_source={}",
        name(findings, row.key),
        spans.count,
        spans.valid,
        spans.invalid(),
        findings.timing_source()
    )?;
    match findings.of_host {
        true => write!(out, " total_tile_count={} total_tile_duration_sum_ns={}", spans.tiles, spans.tile_sum)?,
        false => write!(out, " total_ticks={} max_ticks={}", spans.total, spans.max)?,
    }
    if let Some((total, average, max)) = row.nanoseconds {
        write!(out, " total_ns={total} avg_ns={average:.3} max_ns={max}")?;
    }
    writeln!(out)
}

fn dispatch(findings: &Findings, rank: usize, row: &LongDispatch, out: &mut dyn Write) -> io::Result<()> {
    let (command_buffer, submission, device, queue, stream) = row.execution;
    write!(
        out,
        "  #{rank} event={} submission={submission} {} device={device} queue={queue} stream={stream} timing_source={}",
        row.event,
        name(findings, row.function),
        findings.timing_source()
    )?;
    if findings.of_host {
        write!(out, " duration_ns={} tile_count={} tile_duration_sum_ns={}", row.span, row.tiles, row.tile_sum)?;
        if command_buffer != 0 {
            write!(out, " command_buffer={command_buffer} command_index={}", row.command)?;
        }
        return writeln!(out);
    }
    write!(out, " duration_ticks={}", row.span)?;
    if let Some(nanoseconds) = findings.catalog.fit(device).and_then(|fit| fit.duration_ns(row.span)) {
        write!(out, " duration_ns={nanoseconds}")?;
    }
    writeln!(out)
}

fn operations(findings: &Findings, out: &mut dyn Write) -> io::Result<()> {
    let operations = &findings.operations;
    let strategy = |strategy: DependencyStrategy| operations.strategies[strategy.0 as usize];
    let bytes = |operation: QueueEventType| operations.bytes[operation.0 as usize];
    let count = |operation: QueueEventType| operations.counts[operation.0 as usize];
    writeln!(
        out,
        "queue operations: events={} strategies none/inline/device_barrier/software_defer={}/{}/{}/{}",
        operations.events,
        strategy(DependencyStrategy::NONE),
        strategy(DependencyStrategy::INLINE),
        strategy(DependencyStrategy::DEVICE_BARRIER),
        strategy(DependencyStrategy::SOFTWARE_DEFER)
    )?;
    writeln!(
        out,
        "  transfer_payload_bytes copy/fill/update/read/write={}/{}/{}/{}/{}",
        bytes(QueueEventType::COPY),
        bytes(QueueEventType::FILL),
        bytes(QueueEventType::UPDATE),
        bytes(QueueEventType::READ),
        bytes(QueueEventType::WRITE)
    )?;
    writeln!(
        out,
        "  operation_counts dispatch/execute/alloca/dealloca/host_call={}/{}/{}/{}/{}",
        count(QueueEventType::DISPATCH),
        count(QueueEventType::EXECUTE),
        count(QueueEventType::ALLOCA),
        count(QueueEventType::DEALLOCA),
        count(QueueEventType::HOST_CALL)
    )
}

fn hints(findings: &Findings, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "hints:")?;
    for hint in findings.hints() {
        match (hint, &findings.summary.first_failed) {
            (Some((severity, category, message)), _) => writeln!(out, "  [{severity}] {category}: {message}")?,
            (None, Some(first)) => writeln!(
                out,
                "  [error] session: {} profiling session end record(s) reported non-OK status; first session_id={} \
                 stream_id={} event_id={} status={}({})",
                findings.summary.failed_session_ends,
                first.session_id,
                first.stream_id,
                first.event_id,
                status_name(first.status_code),
                first.status_code
            )?,
            (None, None) => {}
        }
    }
    Ok(())
}
