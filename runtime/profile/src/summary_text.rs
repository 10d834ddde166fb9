//! The two forms of summaries.

use std::io::{self, Write};

use crate::ReportFormat;
use crate::cat::status_name;
use crate::generated::contents::Content;
use crate::reader::OutputError;
use crate::summary::{DeviceSummary, Summary};

/// The types of chunks in the order of the summary for people, each with its name there.
const CHUNKS: [(&str, Content); 23] = [
    ("devices", Content::Devices),
    ("queues", Content::Queues),
    ("executables", Content::Executables),
    ("executable_code_objects", Content::ExecutableCodeObjects),
    ("executable_code_object_loads", Content::ExecutableCodeObjectLoads),
    ("executable_functions", Content::ExecutableFunctions),
    ("command_buffers", Content::CommandBuffers),
    ("command_operations", Content::CommandOperations),
    ("clock_correlations", Content::ClockCorrelations),
    ("dispatch_events", Content::DispatchEvents),
    ("queue_events", Content::QueueEvents),
    ("queue_device_events", Content::QueueDeviceEvents),
    ("host_execution_events", Content::HostExecutionEvents),
    ("command_region_events", Content::CommandRegionEvents),
    ("memory_events", Content::MemoryEvents),
    ("event_relationships", Content::EventRelationships),
    ("counter_sets", Content::CounterSets),
    ("counters", Content::Counters),
    ("counter_samples", Content::CounterSamples),
    ("device_metric_sources", Content::DeviceMetricSources),
    ("device_metric_descriptors", Content::DeviceMetricDescriptors),
    ("device_metric_samples", Content::DeviceMetricSamples),
    ("executable_traces", Content::ExecutableTraces),
];

/// The times of the dispatches of a device.
struct Timing {
    average_ticks: f64,
    ns_per_tick: f64,
    tick_frequency_hz: f64,
    has_fit: bool,
    /// The least, the most and all of them in nanoseconds.
    dispatch_ns: Option<(i64, i64, i64)>,
}

impl Timing {
    fn new(device: &DeviceSummary) -> Timing {
        let (fit, valid) = (device.clock(), device.valid_dispatches());
        let average_ticks = if valid == 0 { 0.0 } else { device.total_ticks as f64 / valid as f64 };
        let dispatch_ns = fit.filter(|_| valid != 0).and_then(|fit| {
            let (least, most) = device.dispatch_ticks;
            Some((fit.duration_ns(least)?, fit.duration_ns(most)?, fit.duration_ns(device.total_ticks)?))
        });
        Timing {
            average_ticks,
            ns_per_tick: fit.map_or(0.0, |fit| fit.ns_per_tick()),
            tick_frequency_hz: fit.map_or(0.0, |fit| fit.tick_frequency_hz()),
            has_fit: fit.is_some(),
            dispatch_ns,
        }
    }
}

impl Summary {
    /// Writes it as `iree-profile summary` does.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, format: ReportFormat, out: &mut dyn Write) -> Result<(), OutputError> {
        match format {
            ReportFormat::Text => text(self, out)?,
            ReportFormat::Jsonl => jsonl(self, out)?,
        }
        Ok(())
    }
}

/// The summary for people.
fn text(summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    let records = |content| summary.counts(content).records;
    writeln!(out, "IREE HAL profile summary")?;
    writeln!(
        out,
        "records: file={} session_begin={} chunks={} session_end={} non_ok_session_end={} unknown={}",
        summary.records,
        summary.session_begins,
        summary.chunks,
        summary.session_ends,
        summary.failed_session_ends,
        summary.unknown_records
    )?;
    if let Some(failed) = &summary.first_failed {
        writeln!(
            out,
            "session_status: first_non_ok_session_id={} first_non_ok_stream_id={} first_non_ok_event_id={} \
             first_non_ok_status_code={} first_non_ok_status={}",
            failed.session_id,
            failed.stream_id,
            failed.event_id,
            failed.status_code,
            status_name(failed.status_code)
        )?;
    }
    write!(out, "chunks:")?;
    for (name, content) in CHUNKS {
        write!(out, " {name}={}", summary.counts(content).chunks)?;
    }
    writeln!(
        out,
        " unknown={} truncated={} dropped_records={}",
        summary.unknown_chunks, summary.truncated_chunks, summary.dropped_records
    )?;
    write!(out, "metadata_records:")?;
    for (name, content) in &CHUNKS[2..8] {
        write!(out, " {name}={}", records(*content))?;
    }
    writeln!(out)?;
    writeln!(
        out,
        "event_records: queue_events={} queue_device_events={} host_execution_events={} \
         invalid_host_execution_events={} host_execution_duration_ns={} memory_events={} command_region_events={} \
         invalid_command_region_events={} command_region_duration_ns={} event_relationships={} counter_samples={} \
         executable_traces={}",
        records(Content::QueueEvents),
        records(Content::QueueDeviceEvents),
        records(Content::HostExecutionEvents),
        summary.host_execution.invalid,
        summary.host_execution.total_ns,
        records(Content::MemoryEvents),
        records(Content::CommandRegionEvents),
        summary.command_regions.invalid,
        summary.command_regions.total_ns,
        records(Content::EventRelationships),
        records(Content::CounterSamples),
        records(Content::ExecutableTraces)
    )?;
    writeln!(
        out,
        "trace_data_bytes: code_objects={} executable_traces={}",
        summary.code_object_bytes, summary.trace_bytes
    )?;
    writeln!(
        out,
        "counter_records: counter_sets={} counters={}",
        records(Content::CounterSets),
        records(Content::Counters)
    )?;
    writeln!(
        out,
        "device_metric_records: sources={} descriptors={} samples={} values={} invalid_samples={}",
        records(Content::DeviceMetricSources),
        records(Content::DeviceMetricDescriptors),
        records(Content::DeviceMetricSamples),
        summary.metrics.values,
        summary.metrics.invalid
    )?;
    writeln!(out, "devices:")?;
    summary.devices.iter().try_for_each(|device| device_text(device, out))
}

fn device_text(device: &DeviceSummary, out: &mut dyn Write) -> io::Result<()> {
    let timing = Timing::new(device);
    let (least, most) = device.uncertainty_ns.unwrap_or((0, 0));
    writeln!(
        out,
        "  device[{}]: device_records={} queues={}/{}",
        device.ordinal, device.records, device.queue_records, device.queues
    )?;
    writeln!(
        out,
        "    clock_samples={} min_uncertainty_ns={} max_uncertainty_ns={most} invalid_alignment_samples={}",
        device.clocks.samples,
        if least == i64::MAX { 0 } else { least },
        device.clocks.unaligned
    )?;
    if device.clocks.unaligned != 0 {
        writeln!(
            out,
            "    warning: device clock samples are not aligned with profiled event ticks; raw device events are \
             retained, but host timeline correlation is disabled"
        )?;
    }
    match (&device.clocks.first, &device.clocks.last) {
        (Some(first), Some(last)) if timing.has_fit => writeln!(
            out,
            "    clock_fit: ns_per_tick={:.9} tick_frequency_hz={:.3} device_delta_ticks={} host_delta_ns={}",
            timing.ns_per_tick,
            timing.tick_frequency_hz,
            last.device_tick.wrapping_sub(first.device_tick),
            last.host_cpu_timestamp_ns.wrapping_sub(first.host_cpu_timestamp_ns)
        )?,
        _ => writeln!(out, "    clock_fit: unavailable")?,
    }
    writeln!(
        out,
        "    dispatches={} valid={} invalid={}",
        device.dispatches,
        device.valid_dispatches(),
        device.invalid_dispatches
    )?;
    if device.valid_dispatches() != 0 {
        writeln!(
            out,
            "    dispatch_tick_range: start={} end={} covered_by_clock_samples={}",
            device.tick_range.0,
            device.tick_range.1,
            device.clock_covers_dispatches()
        )?;
        writeln!(
            out,
            "    dispatch_ticks: min={} avg={:.3} max={} total={}",
            device.dispatch_ticks.0, timing.average_ticks, device.dispatch_ticks.1, device.total_ticks
        )?;
        match timing.dispatch_ns {
            Some((least, most, total)) => writeln!(
                out,
                "    dispatch_time_ns: min={least} avg={:.3} max={most} total={total}",
                timing.average_ticks * timing.ns_per_tick
            )?,
            None if timing.has_fit => writeln!(out, "    dispatch_time_ns: unavailable")?,
            None => {}
        }
    }
    writeln!(
        out,
        "    device_metrics: samples={} values={} invalid_samples={}",
        device.metrics.samples, device.metrics.values, device.metrics.invalid
    )
}

/// The summary for programs.
fn jsonl(summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    write!(
        out,
        "{{\"type\":\"summary\",\"file_records\":{},\"session_begin_records\":{},\"chunk_records\":{},\
         \"session_end_records\":{},\"non_ok_session_end_records\":{},\"unknown_records\":{}",
        summary.records,
        summary.session_begins,
        summary.chunks,
        summary.session_ends,
        summary.failed_session_ends,
        summary.unknown_records
    )?;
    if let Some(failed) = &summary.first_failed {
        write!(
            out,
            ",\"first_non_ok_session_id\":{},\"first_non_ok_stream_id\":{},\"first_non_ok_event_id\":{},\
             \"first_non_ok_status_code\":{},\"first_non_ok_status\":\"{}\"",
            failed.session_id,
            failed.stream_id,
            failed.event_id,
            failed.status_code,
            status_name(failed.status_code)
        )?;
    }
    for (name, content) in CHUNKS {
        let singular = name.strip_suffix('s').unwrap_or(name);
        let counts = summary.counts(content);
        write!(out, ",\"{singular}_chunks\":{}", counts.chunks)?;
        let has_records = !matches!(
            content,
            Content::Devices | Content::Queues | Content::ClockCorrelations | Content::DispatchEvents
        );
        if has_records {
            write!(out, ",\"{singular}_records\":{}", counts.records)?;
        }
        match content {
            Content::ExecutableCodeObjects => {
                write!(out, ",\"executable_code_object_data_bytes\":{}", summary.code_object_bytes)?;
            }
            Content::HostExecutionEvents => write!(
                out,
                ",\"invalid_host_execution_event_records\":{},\"total_host_execution_duration_ns\":{}",
                summary.host_execution.invalid, summary.host_execution.total_ns
            )?,
            Content::CommandRegionEvents => write!(
                out,
                ",\"invalid_command_region_event_records\":{},\"total_command_region_duration_ns\":{}",
                summary.command_regions.invalid, summary.command_regions.total_ns
            )?,
            Content::DeviceMetricSamples => write!(
                out,
                ",\"device_metric_values\":{},\"invalid_device_metric_sample_records\":{}",
                summary.metrics.values, summary.metrics.invalid
            )?,
            Content::ExecutableTraces => write!(out, ",\"executable_trace_data_bytes\":{}", summary.trace_bytes)?,
            _ => {}
        }
    }
    writeln!(
        out,
        ",\"unknown_chunks\":{},\"truncated_chunks\":{},\"dropped_records\":{}}}",
        summary.unknown_chunks, summary.truncated_chunks, summary.dropped_records
    )?;
    summary.devices.iter().try_for_each(|device| device_jsonl(device, out))
}

fn device_jsonl(device: &DeviceSummary, out: &mut dyn Write) -> io::Result<()> {
    let timing = Timing::new(device);
    let (least, most) = device.uncertainty_ns.unwrap_or((0, 0));
    let valid = device.valid_dispatches();
    let if_valid = |value: u64| if valid == 0 { 0 } else { value };
    write!(
        out,
        "{{\"type\":\"device_summary\",\"physical_device_ordinal\":{},\"device_records\":{},\"queue_records\":{},\
         \"queues\":{},\"clock_samples\":{},\"invalid_clock_alignment_samples\":{},\"clock_fit_available\":{},\
         \"ns_per_tick\":{:.9},\"tick_frequency_hz\":{:.3},\"min_clock_uncertainty_ns\":{},\
         \"max_clock_uncertainty_ns\":{most}",
        device.ordinal,
        device.records,
        device.queue_records,
        device.queues,
        device.clocks.samples,
        device.clocks.unaligned,
        timing.has_fit,
        timing.ns_per_tick,
        timing.tick_frequency_hz,
        if least == i64::MAX { 0 } else { least }
    )?;
    write!(
        out,
        ",\"dispatches\":{},\"valid_dispatches\":{valid},\"invalid_dispatches\":{},\"min_dispatch_ticks\":{},\
         \"avg_dispatch_ticks\":{:.3},\"max_dispatch_ticks\":{},\"total_dispatch_ticks\":{},\
         \"earliest_dispatch_start_tick\":{},\"latest_dispatch_end_tick\":{},\
         \"dispatch_ticks_covered_by_clock_samples\":{},\"dispatch_time_available\":{}",
        device.dispatches,
        device.invalid_dispatches,
        if_valid(device.dispatch_ticks.0),
        timing.average_ticks,
        if_valid(device.dispatch_ticks.1),
        device.total_ticks,
        if_valid(device.tick_range.0),
        if_valid(device.tick_range.1),
        device.clock_covers_dispatches(),
        timing.dispatch_ns.is_some()
    )?;
    let average = timing.dispatch_ns.map_or(0.0, |_| timing.average_ticks * timing.ns_per_tick);
    let (least, most, total) = timing.dispatch_ns.unwrap_or((0, 0, 0));
    writeln!(
        out,
        ",\"min_dispatch_ns\":{least},\"avg_dispatch_ns\":{average:.3},\"max_dispatch_ns\":{most},\
         \"total_dispatch_ns\":{total},\"device_metric_samples\":{},\"device_metric_values\":{},\
         \"invalid_device_metric_samples\":{}}}",
        device.metrics.samples, device.metrics.values, device.metrics.invalid
    )
}
