//! `command`: command buffers, their commands, and how long the dispatches of each execution took.

use std::io::Write;

use vireo_core::record_fields::{json_text, known};
use vireo_core::visible_text::visible;

use super::catalog::Catalog;
use super::dispatches::{Dispatches, ExecutionKey, Side, Spans, Subject, matched_device, matched_host};
use super::{ReportFilter, dispatch, list};
use crate::ReportFormat;
use crate::generated::format::{BLOCK_STRUCTURE, CommandOperationType, NONE};
use crate::generated::records::{CommandBuffer, CommandOperation};
use crate::reader::{OutputError, Reader};

/// Writes command buffers and their commands, as `iree-profile command` does.
///
/// # Errors
/// If the profile is damaged, or `out` fails.
pub fn command(
    reader: &mut Reader,
    filter: &ReportFilter,
    format: ReportFormat,
    out: &mut dyn Write,
) -> Result<(), OutputError> {
    let catalog = Catalog::read(reader)?;
    if filter.dispatch_events {
        return dispatch::events(reader, &catalog, filter, Subject::Command, out);
    }
    let dispatches = Dispatches::read(reader, &catalog, filter, Subject::Command, None)?;
    let executions = |side: &Side| side.executions.all.iter().filter(|(key, _)| key.0 != 0).count();
    let matched = catalog.operations.iter().filter(|operation| is_selected(&catalog, filter, operation)).count();
    let (device, host) = (&dispatches.device, &dispatches.host);
    let (command_buffers, operations) = (catalog.command_buffers.len(), catalog.operations.len());
    let (on_device, on_host) = (executions(device), executions(host));
    match format {
        ReportFormat::Text => {
            writeln!(out, "IREE HAL profile command-buffer summary")?;
            writeln!(out, "filter: {}", filter.pattern)?;
            writeln!(
                out,
                "command_buffers={command_buffers} executions={on_device} host_executions={on_host} \
                 command_operations={operations} matched_command_operations={matched} matched_dispatches={} valid={} \
                 invalid={} matched_host_dispatches={} host_valid={} host_invalid={}",
                device.all.count,
                device.all.valid,
                device.all.invalid(),
                host.all.count,
                host.all.valid,
                host.all.invalid()
            )?;
        }
        ReportFormat::Jsonl => writeln!(
            out,
            "{{\"type\":\"command_summary\",\"filter\":{},\"command_buffers\":{command_buffers},\
             \"executions\":{on_device},\"host_executions\":{on_host},\"command_operations\":{operations},\
             \"matched_command_operations\":{matched},{},{}}}",
            json_text(filter.pattern.as_bytes()),
            matched_device(&device.all),
            matched_host(&host.all)
        )?,
    }
    let selected = |known: &&CommandBuffer| filter.is(known.command_buffer_id);
    let operations = |id: Option<u64>| {
        let own = move |operation: &&CommandOperation| id.is_none_or(|id| operation.command_buffer_id == id);
        catalog.operations.iter().filter(own).filter(|operation| is_selected(&catalog, filter, operation))
    };
    if format == ReportFormat::Jsonl {
        catalog.command_buffers.iter().filter(selected).try_for_each(|known| head(known, format, out))?;
        operations(None).try_for_each(|operation| operation_row(&catalog, operation, out))?;
        for (key, spans) in device.executions.all.iter().filter(|(key, _)| key.0 != 0) {
            device_execution(&catalog, *key, spans, format, out)?;
        }
        for (key, spans) in host.executions.all.iter().filter(|(key, _)| key.0 != 0) {
            host_execution(*key, spans, format, out)?;
        }
        return Ok(());
    }
    for command_buffer in catalog.command_buffers.iter().filter(selected) {
        head(command_buffer, format, out)?;
        let id = command_buffer.command_buffer_id;
        operations(Some(id)).try_for_each(|operation| operation_text(&catalog, operation, out))?;
        for (key, spans) in device.executions.all.iter().filter(|(key, _)| key.0 == id) {
            device_execution(&catalog, *key, spans, format, out)?;
        }
        for (key, spans) in host.executions.all.iter().filter(|(key, _)| key.0 == id) {
            host_execution(*key, spans, format, out)?;
        }
    }
    Ok(())
}

/// The name of the function of a dispatch, or that of the command.
fn key(catalog: &Catalog, operation: &CommandOperation) -> Vec<u8> {
    if operation.r#type != CommandOperationType::DISPATCH {
        return known(operation.r#type.name()).as_bytes().to_vec();
    }
    let device = catalog.model.command_buffer_device(operation.command_buffer_id).unwrap_or(NONE);
    catalog.key(device, operation.executable_id, operation.function_ordinal)
}

fn is_selected(catalog: &Catalog, filter: &ReportFilter, operation: &CommandOperation) -> bool {
    filter.is(operation.command_buffer_id)
        && (filter.matches(known(operation.r#type.name()).as_bytes()) || filter.matches(&key(catalog, operation)))
}

fn head(command_buffer: &CommandBuffer, format: ReportFormat, out: &mut dyn Write) -> std::io::Result<()> {
    let CommandBuffer { command_buffer_id, mode, command_categories, queue_affinity, physical_device_ordinal, .. } =
        command_buffer;
    match format {
        ReportFormat::Text => writeln!(
            out,
            "command_buffer {command_buffer_id}: device={physical_device_ordinal} mode={mode} \
             categories={command_categories} queue_affinity={queue_affinity}"
        ),
        ReportFormat::Jsonl => writeln!(
            out,
            "{{\"type\":\"command_buffer\",\"command_buffer_id\":{command_buffer_id},\
             \"physical_device_ordinal\":{physical_device_ordinal},\"mode\":{mode},\
             \"command_categories\":{command_categories},\"queue_affinity\":{queue_affinity}}}"
        ),
    }
}

fn operation_text(catalog: &Catalog, operation: &CommandOperation, out: &mut dyn Write) -> std::io::Result<()> {
    let CommandOperation { command_index, flags, executable_id, function_ordinal, binding_count, .. } = operation;
    write!(out, "    command[{command_index}]: op={} flags={flags:#x}", known(operation.r#type.name()))?;
    if flags & BLOCK_STRUCTURE != 0 {
        write!(out, " block={} local={}", operation.block_ordinal, operation.block_command_ordinal)?;
    }
    match operation.r#type {
        CommandOperationType::DISPATCH => write!(
            out,
            " executable={executable_id} function={function_ordinal} key={} bindings={binding_count} workgroups={} \
             workgroup_size={}",
            visible(&String::from_utf8_lossy(&key(catalog, operation))),
            list(operation.workgroup_count),
            list(operation.workgroup_size)
        )?,
        CommandOperationType::FILL | CommandOperationType::UPDATE => write!(
            out,
            " target={} target_offset={} length={}",
            operation.target_ordinal, operation.target_offset, operation.length
        )?,
        CommandOperationType::COPY => write!(
            out,
            " source={} source_offset={} target={} target_offset={} length={}",
            operation.source_ordinal,
            operation.source_offset,
            operation.target_ordinal,
            operation.target_offset,
            operation.length
        )?,
        _ => {}
    }
    writeln!(out)
}

fn operation_row(catalog: &Catalog, operation: &CommandOperation, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(
        out,
        "{{\"type\":\"command_operation\",\"command_buffer_id\":{},\"command_index\":{},\"op\":\"{}\",\"flags\":{},\
         \"block_structure\":{},\"block_ordinal\":{},\"block_command_ordinal\":{},\"key\":{},\"executable_id\":{},\
         \"function_ordinal\":{},\"binding_count\":{},\"workgroup_count\":{},\"workgroup_size\":{},\
         \"source_ordinal\":{},\"target_ordinal\":{},\"source_offset\":{},\"target_offset\":{},\"length\":{},\
         \"target_block_ordinal\":{},\"alternate_block_ordinal\":{}}}",
        operation.command_buffer_id,
        operation.command_index,
        known(operation.r#type.name()),
        operation.flags,
        operation.flags & BLOCK_STRUCTURE != 0,
        operation.block_ordinal,
        operation.block_command_ordinal,
        json_text(&key(catalog, operation)),
        operation.executable_id,
        operation.function_ordinal,
        operation.binding_count,
        list(operation.workgroup_count),
        list(operation.workgroup_size),
        operation.source_ordinal,
        operation.target_ordinal,
        operation.source_offset,
        operation.target_offset,
        operation.length,
        operation.target_block_ordinal,
        operation.alternate_block_ordinal
    )
}

fn device_execution(
    catalog: &Catalog,
    (command_buffer, submission, device, queue, stream): ExecutionKey,
    spans: &Spans,
    format: ReportFormat,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let fit = catalog.fit(device);
    let total_ns = spans.nanoseconds(fit.as_ref()).map(|(_, _, total)| total);
    let scale = fit.as_ref().map_or(0.0, |fit| fit.ns_per_tick());
    let Spans { count, valid, total, .. } = spans;
    let (invalid, span) = (spans.invalid(), spans.span() as f64);
    match format {
        ReportFormat::Text => {
            write!(
                out,
                "  submission={submission} queue={queue} stream={stream} dispatches={count} valid={valid} \
                 invalid={invalid} span_ticks={span:.3} total_dispatch_ticks={total}"
            )?;
            if let Some(total_ns) = total_ns {
                write!(out, " span_ns={:.3} total_dispatch_ns={total_ns}", span * scale)?;
            }
            writeln!(out)
        }
        ReportFormat::Jsonl => writeln!(
            out,
            "{{\"type\":\"command_execution\",\"command_buffer_id\":{command_buffer},\"submission_id\":{submission},\
             \"physical_device_ordinal\":{device},\"queue_ordinal\":{queue},\"stream_id\":{stream},\
             \"dispatches\":{count},\"valid\":{valid},\"invalid\":{invalid},\"span_ticks\":{span:.3},\
             \"total_dispatch_ticks\":{total},\"clock_fit_available\":{},\"total_dispatch_time_ns_available\":{},\
             \"span_ns\":{:.3},\"total_dispatch_ns\":{}}}",
            fit.is_some(),
            total_ns.is_some(),
            span * scale,
            total_ns.unwrap_or(0)
        ),
    }
}

fn host_execution(
    (command_buffer, submission, device, queue, stream): ExecutionKey,
    spans: &Spans,
    format: ReportFormat,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let Spans { count, valid, total, tiles, tile_sum, .. } = spans;
    let (invalid, span) = (spans.invalid(), spans.span());
    match format {
        ReportFormat::Text => writeln!(
            out,
            "  host_submission={submission} queue={queue} stream={stream} dispatches={count} valid={valid} \
             invalid={invalid} span_ns={span} total_dispatch_ns={total} tile_count={tiles} tile_sum_ns={tile_sum}"
        ),
        ReportFormat::Jsonl => writeln!(
            out,
            "{{\"type\":\"command_host_execution\",\"timing_source\":\"host_execution_event\",\
             \"time_domain\":\"iree_host_time_ns\",\"duration_time_domain\":\"iree_host_duration_ns\",\
             \"command_buffer_id\":{command_buffer},\"submission_id\":{submission},\
             \"physical_device_ordinal\":{device},\"queue_ordinal\":{queue},\"stream_id\":{stream},\
             \"dispatches\":{count},\"valid\":{valid},\"invalid\":{invalid},\"span_ns\":{span},\
             \"total_dispatch_ns\":{total},\"total_tile_count\":{tiles},\"total_tile_duration_sum_ns\":{tile_sum}}}"
        ),
    }
}
