//! `dispatch`: how long dispatches of each function took.

use std::io::Write;

use vireo_core::record_fields::json_text;
use vireo_core::visible_text::visible;

use super::catalog::Catalog;
use super::dispatches::{Dispatches, FunctionKey, Side, Spans, Subject};
use super::{ReportFilter, by, list};
use crate::ReportFormat;
use crate::reader::{OutputError, Reader};

/// Writes how long the dispatches of each function took, as `iree-profile dispatch` does.
///
/// # Errors
/// If the profile is damaged, or `out` fails.
pub fn dispatch(
    reader: &mut Reader,
    filter: &ReportFilter,
    format: ReportFormat,
    out: &mut dyn Write,
) -> Result<(), OutputError> {
    let catalog = Catalog::read(reader)?;
    if filter.dispatch_events {
        return events(reader, &catalog, filter, Subject::Dispatch, out);
    }
    let dispatches = Dispatches::read(reader, &catalog, filter, Subject::Dispatch, None)?;
    let Dispatches { device, host } = &dispatches;
    match format {
        ReportFormat::Text => {
            writeln!(out, "IREE HAL profile dispatch summary")?;
            writeln!(out, "filter: {}", filter.pattern)?;
            let counts = |side: &Side| {
                let Spans { count, valid, .. } = side.all;
                let (total, groups) = (side.total, side.functions.all.len());
                format!("total={total} matched={count} valid={valid} invalid={} groups={groups}", count - valid)
            };
            writeln!(out, "dispatches: {}", counts(device))?;
            writeln!(out, "host_dispatches: {}", counts(host))?;
            writeln!(out, "groups:")?;
        }
        ReportFormat::Jsonl => out.write_all(dispatches.summary_row("aggregate", filter).as_bytes())?,
    }
    for (key, spans) in &device.functions.all {
        match format {
            ReportFormat::Text => device_text(&catalog, *key, spans, out)?,
            ReportFormat::Jsonl => device_row(&catalog, *key, spans, out)?,
        }
    }
    for (key, spans) in &host.functions.all {
        match format {
            ReportFormat::Text => host_text(&catalog, *key, spans, out)?,
            ReportFormat::Jsonl => host_row(&catalog, *key, spans, out)?,
        }
    }
    Ok(())
}

/// Writes a row for each dispatch, and counts of them.
pub(super) fn events(
    reader: &mut Reader,
    catalog: &Catalog,
    filter: &ReportFilter,
    subject: Subject,
    out: &mut dyn Write,
) -> Result<(), OutputError> {
    let dispatches = Dispatches::read(reader, catalog, filter, subject, Some(out))?;
    Ok(out.write_all(dispatches.summary_row("events", filter).as_bytes())?)
}

fn device_text(
    catalog: &Catalog,
    (device, executable, function): FunctionKey,
    spans: &Spans,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    writeln!(out, "  {}", visible(&String::from_utf8_lossy(&catalog.key(device, executable, function))))?;
    writeln!(
        out,
        "    device={device} executable={executable} function={function} count={} valid={} invalid={}",
        spans.count,
        spans.valid,
        spans.invalid()
    )?;
    if spans.valid != 0 {
        writeln!(
            out,
            "    ticks: min={} avg={:.3} stddev={:.3} max={} total={}",
            spans.min,
            spans.average(),
            spans.deviation(),
            spans.max,
            spans.total
        )?;
        let fit = catalog.fit(device);
        if let (Some(fit), Some((min, max, total))) = (&fit, spans.nanoseconds(fit.as_ref())) {
            let scale = fit.ns_per_tick();
            writeln!(
                out,
                "    time_ns: min={min} avg={:.3} stddev={:.3} max={max} total={total}",
                spans.average() * scale,
                spans.deviation() * scale
            )?;
        } else {
            writeln!(out, "    time_ns: unavailable")?;
        }
    }
    geometry(spans, out)
}

fn host_text(
    catalog: &Catalog,
    (device, executable, function): FunctionKey,
    spans: &Spans,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    writeln!(out, "  {}", visible(&String::from_utf8_lossy(&catalog.key(device, executable, function))))?;
    writeln!(
        out,
        "    timing=host_execution device={device} executable={executable} function={function} count={} valid={} \
         invalid={}",
        spans.count,
        spans.valid,
        spans.invalid()
    )?;
    if spans.valid != 0 {
        writeln!(
            out,
            "    time_ns: min={} avg={:.3} stddev={:.3} max={} total={} tile_count={} tile_sum_ns={}",
            spans.min,
            spans.average(),
            spans.deviation(),
            spans.max,
            spans.total,
            spans.tiles,
            spans.tile_sum
        )?;
    }
    geometry(spans, out)
}

fn geometry(spans: &Spans, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "    last_geometry: workgroup_count={} workgroup_size={}", by(spans.last_count), by(spans.last_size))
}

fn device_row(
    catalog: &Catalog,
    (device, executable, function): FunctionKey,
    spans: &Spans,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let fit = catalog.fit(device);
    let times = spans.nanoseconds(fit.as_ref());
    let (min, max, total) = times.unwrap_or((0, 0, 0));
    let scale = fit.as_ref().filter(|_| times.is_some()).map_or(0.0, |fit| fit.ns_per_tick());
    writeln!(
        out,
        "{{\"type\":\"dispatch_group\",\"physical_device_ordinal\":{device},\"executable_id\":{executable},\
         \"function_ordinal\":{function},\"key\":{},\"count\":{},\"valid\":{},\"invalid\":{},\"min_ticks\":{},\
         \"avg_ticks\":{:.3},\"stddev_ticks\":{:.3},\"max_ticks\":{},\"total_ticks\":{},\"clock_fit_available\":{},\
         \"time_ns_available\":{},\"min_ns\":{min},\"avg_ns\":{:.3},\"stddev_ns\":{:.3},\"max_ns\":{max},\
         \"total_ns\":{total},\"last_workgroup_count\":{},\"last_workgroup_size\":{}}}",
        json_text(&catalog.key(device, executable, function)),
        spans.count,
        spans.valid,
        spans.invalid(),
        spans.least(),
        spans.average(),
        spans.deviation(),
        spans.max,
        spans.total,
        fit.is_some(),
        times.is_some(),
        spans.average() * scale,
        spans.deviation() * scale,
        list(spans.last_count),
        list(spans.last_size)
    )
}

fn host_row(
    catalog: &Catalog,
    (device, executable, function): FunctionKey,
    spans: &Spans,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    writeln!(
        out,
        "{{\"type\":\"host_dispatch_group\",\"timing_source\":\"host_execution_event\",\
         \"time_domain\":\"iree_host_time_ns\",\"duration_time_domain\":\"iree_host_duration_ns\",\
         \"physical_device_ordinal\":{device},\"executable_id\":{executable},\"function_ordinal\":{function},\
         \"key\":{},\"count\":{},\"valid\":{},\"invalid\":{},\"min_ns\":{},\"avg_ns\":{:.3},\"stddev_ns\":{:.3},\
         \"max_ns\":{},\"total_ns\":{},\"total_tile_count\":{},\"total_tile_duration_sum_ns\":{},\
         \"last_workgroup_count\":{},\"last_workgroup_size\":{}}}",
        json_text(&catalog.key(device, executable, function)),
        spans.count,
        spans.valid,
        spans.invalid(),
        spans.least(),
        spans.average(),
        spans.deviation(),
        spans.max,
        spans.total,
        spans.tiles,
        spans.tile_sum,
        list(spans.last_count),
        list(spans.last_size)
    )
}
