//! `executable`: executables and their functions, each with how long its dispatches took.

use std::io::Write;

use vireo_core::record_fields::json_text;
use vireo_core::visible_text::visible;

use super::catalog::Catalog;
use super::dispatches::{Dispatches, Spans, Subject, matched_device, matched_host};
use super::{ReportFilter, by, dispatch, hash, list};
use crate::ReportFormat;
use crate::generated::format::NONE;
use crate::generated::records::{Executable, ExecutableFunction};
use crate::reader::{OutputError, Reader};

/// Writes executables and their functions, as `iree-profile executable` does.
///
/// # Errors
/// If the profile is damaged, or `out` fails.
pub fn executable(
    reader: &mut Reader,
    filter: &ReportFilter,
    format: ReportFormat,
    out: &mut dyn Write,
) -> Result<(), OutputError> {
    let catalog = Catalog::read(reader)?;
    if filter.dispatch_events {
        return dispatch::events(reader, &catalog, filter, Subject::Executable, out);
    }
    let dispatches = Dispatches::read(reader, &catalog, filter, Subject::Executable, None)?;
    let (device, host) = (&dispatches.device.all, &dispatches.host.all);
    let (executables, functions) = (catalog.executables.len(), catalog.functions.len());
    match format {
        ReportFormat::Text => {
            writeln!(out, "IREE HAL profile executable summary")?;
            writeln!(out, "filter: {}", filter.pattern)?;
            writeln!(
                out,
                "executables={executables} functions={functions} matched_dispatches={} valid={} invalid={} \
                 matched_host_dispatches={} host_valid={} host_invalid={}",
                device.count,
                device.valid,
                device.invalid(),
                host.count,
                host.valid,
                host.invalid()
            )?;
        }
        ReportFormat::Jsonl => writeln!(
            out,
            "{{\"type\":\"executable_summary\",\"filter\":{},\"executables\":{executables},\"functions\":{functions},\
             {},{}}}",
            json_text(filter.pattern.as_bytes()),
            matched_device(device),
            matched_host(host)
        )?,
    }
    for executable in catalog.executables.iter().filter(|executable| filter.is(executable.executable_id)) {
        head(executable, format, out)?;
        let own = |function: &&ExecutableFunction| function.executable_id == executable.executable_id;
        for function in catalog.functions.iter().filter(own) {
            let key = catalog.key(NONE, function.executable_id, function.function_ordinal);
            if filter.matches(&key) {
                self::function(function, &key, format, out)?;
                groups(&catalog, &dispatches, function, &key, format, out)?;
            }
        }
    }
    Ok(())
}

fn head(executable: &Executable, format: ReportFormat, out: &mut dyn Write) -> std::io::Result<()> {
    let hash = hash(executable.flags, executable.code_object_hash);
    let Executable { executable_id, flags, function_count, .. } = executable;
    match format {
        ReportFormat::Text => writeln!(
            out,
            "executable {executable_id}: functions={function_count} flags={flags} code_object_hash={}",
            hash.as_deref().unwrap_or("unavailable")
        ),
        ReportFormat::Jsonl => writeln!(
            out,
            "{{\"type\":\"executable\",\"executable_id\":{executable_id},\"flags\":{flags},\
             \"function_count\":{function_count},\"code_object_hash_present\":{},\"code_object_hash\":{}}}",
            hash.is_some(),
            quoted(hash.as_deref())
        ),
    }
}

fn quoted(text: Option<&str>) -> String {
    text.map_or_else(|| "null".to_string(), |text| format!("\"{text}\""))
}

fn function(
    function: &ExecutableFunction,
    key: &[u8],
    format: ReportFormat,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let hash = hash(function.flags, function.function_hash);
    let ExecutableFunction {
        executable_id,
        function_ordinal,
        flags,
        constant_count,
        binding_count,
        parameter_count,
        workgroup_size,
        ..
    } = function;
    match format {
        ReportFormat::Text => writeln!(
            out,
            "  function {function_ordinal}: {} flags={flags} constants={constant_count} bindings={binding_count} \
             parameters={parameter_count} workgroup_size={} function_hash={}",
            visible(&String::from_utf8_lossy(key)),
            by(*workgroup_size),
            hash.as_deref().unwrap_or("unavailable")
        ),
        ReportFormat::Jsonl => writeln!(
            out,
            "{{\"type\":\"executable_function\",\"executable_id\":{executable_id},\
             \"function_ordinal\":{function_ordinal},\"flags\":{flags},\"key\":{},\"constant_count\":{constant_count},\
             \"binding_count\":{binding_count},\"parameter_count\":{parameter_count},\"workgroup_size\":{},\
             \"function_hash_present\":{},\"function_hash\":{}}}",
            json_text(key),
            list(*workgroup_size),
            hash.is_some(),
            quoted(hash.as_deref())
        ),
    }
}

/// The dispatches of a function on each device.
fn groups(
    catalog: &Catalog,
    dispatches: &Dispatches,
    function: &ExecutableFunction,
    key: &[u8],
    format: ReportFormat,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let (id, ordinal) = (function.executable_id, function.function_ordinal);
    let key = json_text(key);
    let is_own = |(_, executable, function): &(u32, u64, u32)| (*executable, *function) == (id, ordinal);
    let sides = [&dispatches.device.functions.all, &dispatches.host.functions.all];
    if format == ReportFormat::Text && !sides.into_iter().flatten().any(|(function, _)| is_own(function)) {
        writeln!(out, "    dispatches=0")?;
    }
    for ((device, executable, function), spans) in &dispatches.device.functions.all {
        if (*executable, *function) == (id, ordinal) {
            device_group(catalog, (*device, id, ordinal), (&key, spans), format, out)?;
        }
    }
    for ((device, executable, function), spans) in &dispatches.host.functions.all {
        if (*executable, *function) != (id, ordinal) {
            continue;
        }
        let Spans { count, valid, max, total, tiles, tile_sum, .. } = spans;
        let (invalid, min, average) = (spans.invalid(), spans.least(), spans.average());
        match format {
            ReportFormat::Text => writeln!(
                out,
                "    timing=host_execution device={device} dispatches={count} valid={valid} invalid={invalid} \
                 ns[min/avg/max/total]={min}/{average:.3}/{max}/{total} tile_count={tiles} tile_sum_ns={tile_sum}"
            )?,
            ReportFormat::Jsonl => writeln!(
                out,
                "{{\"type\":\"executable_function_host_dispatch_group\",\"timing_source\":\"host_execution_event\",\
                 \"time_domain\":\"iree_host_time_ns\",\"duration_time_domain\":\"iree_host_duration_ns\",\
                 \"physical_device_ordinal\":{device},\"executable_id\":{id},\"function_ordinal\":{ordinal},\
                 \"key\":{key},\"dispatches\":{count},\"valid\":{valid},\"invalid\":{invalid},\"min_ns\":{min},\
                 \"avg_ns\":{average:.3},\"stddev_ns\":{:.3},\"max_ns\":{max},\"total_ns\":{total},\
                 \"total_tile_count\":{tiles},\"total_tile_duration_sum_ns\":{tile_sum}}}",
                spans.deviation()
            )?,
        }
    }
    Ok(())
}

fn device_group(
    catalog: &Catalog,
    (device, id, ordinal): (u32, u64, u32),
    (key, spans): (&str, &Spans),
    format: ReportFormat,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let fit = catalog.fit(device);
    let times = spans.nanoseconds(fit.as_ref());
    let (min_ns, max_ns, total_ns) = times.unwrap_or((0, 0, 0));
    // That of the sum, and not the running average of `dispatch`, which may differ in the last digit.
    let average = if spans.valid == 0 { 0.0 } else { spans.total as f64 / spans.valid as f64 };
    let average_ns = fit.as_ref().filter(|_| times.is_some()).map_or(0.0, |fit| average * fit.ns_per_tick());
    let Spans { count, valid, max, total, .. } = spans;
    let (invalid, min) = (spans.invalid(), spans.least());
    match format {
        ReportFormat::Text => {
            write!(
                out,
                "    device={device} dispatches={count} valid={valid} invalid={invalid} \
                 ticks[min/avg/max/total]={min}/{average:.3}/{max}/{total}"
            )?;
            if times.is_some() {
                write!(out, " ns[min/avg/max/total]={min_ns}/{average_ns:.3}/{max_ns}/{total_ns}")?;
            }
            writeln!(out)
        }
        ReportFormat::Jsonl => writeln!(
            out,
            "{{\"type\":\"executable_function_dispatch_group\",\"physical_device_ordinal\":{device},\
             \"executable_id\":{id},\"function_ordinal\":{ordinal},\"key\":{key},\"dispatches\":{count},\
             \"valid\":{valid},\"invalid\":{invalid},\"min_ticks\":{min},\"avg_ticks\":{average:.3},\
             \"max_ticks\":{max},\"total_ticks\":{total},\"clock_fit_available\":{},\"time_ns_available\":{},\
             \"min_ns\":{min_ns},\"avg_ns\":{average_ns:.3},\"max_ns\":{max_ns},\"total_ns\":{total_ns}}}",
            fit.is_some(),
            times.is_some()
        ),
    }
}
