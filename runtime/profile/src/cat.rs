//! `cat`: the headers of all records, as `iree-profile cat` writes them.

use std::io::Write;

use vireo_core::record_fields::{json_text, known};
use vireo_core::status::StatusCode;
use vireo_core::visible_text::visible;

use crate::ReportFormat;
use crate::generated::format::RecordType;
use crate::reader::{OutputError, Reader, Record};

/// Writes the headers of all records of `reader`.
///
/// # Errors
/// If the profile is damaged, in which case the records before the damage were written, or `out` fails.
pub fn cat(reader: &mut Reader, format: ReportFormat, out: &mut dyn Write) -> Result<(), OutputError> {
    let header = *reader.header();
    match format {
        ReportFormat::Text => {
            writeln!(out, "IREE HAL profile bundle")?;
            writeln!(out, "version: {}.{}", header.version_major, header.version_minor)?;
            writeln!(out, "header_length: {}", header.header_length)?;
            writeln!(out, "flags: 0x{:08x}", header.flags)?;
            writeln!(out, "records:")?;
        }
        ReportFormat::Jsonl => writeln!(
            out,
            "{{\"type\":\"file\",\"magic\":\"IRPF\",\"version_major\":{},\"version_minor\":{},\"header_length\":{},\
             \"flags\":{}}}",
            header.version_major, header.version_minor, header.header_length, header.flags
        )?,
    }
    while let Some(record) = reader.next_record()? {
        match format {
            ReportFormat::Text => text(&record, out)?,
            ReportFormat::Jsonl => json(&record, out)?,
        }
    }
    Ok(())
}

/// The name of a status.
pub(crate) fn status_name(code: u32) -> &'static str {
    match code {
        0 => "OK",
        _ => StatusCode::from_number(code).map_or("UNKNOWN_STATUS", StatusCode::name),
    }
}

fn text(record: &Record, out: &mut dyn Write) -> std::io::Result<()> {
    let (header, index) = (&record.header, record.index);
    let shown = |bytes: &[u8]| visible(&String::from_utf8_lossy(bytes));
    let record_type = known(RecordType(header.record_type).name());
    writeln!(
        out,
        "[{index}] {record_type} record_length={} payload_length={}",
        header.record_length, header.payload_length
    )?;
    writeln!(out, "  content_type: {}", shown(&record.content_type))?;
    writeln!(out, "  name: {}", shown(&record.name))?;
    writeln!(out, "  session_id={} stream_id={} event_id={}", header.session_id, header.stream_id, header.event_id)?;
    writeln!(out, "  executable_id={} command_buffer_id={}", header.executable_id, header.command_buffer_id)?;
    writeln!(
        out,
        "  physical_device_ordinal={} queue_ordinal={}",
        header.physical_device_ordinal, header.queue_ordinal
    )?;
    writeln!(
        out,
        "  chunk_flags=0x{:016x} session_status_code={} session_status={}",
        header.chunk_flags,
        header.session_status_code,
        status_name(header.session_status_code)
    )
}

fn json(record: &Record, out: &mut dyn Write) -> std::io::Result<()> {
    let header = &record.header;
    write!(out, "{{\"type\":\"record\",\"index\":{}", record.index)?;
    write!(out, ",\"record_type\":\"{}\"", known(RecordType(header.record_type).name()))?;
    write!(out, ",\"record_type_value\":{},\"record_length\":{}", header.record_type, header.record_length)?;
    write!(out, ",\"payload_length\":{}", header.payload_length)?;
    write!(out, ",\"content_type\":{},\"name\":{}", json_text(&record.content_type), json_text(&record.name))?;
    for (name, value) in [
        ("session_id", header.session_id),
        ("stream_id", header.stream_id),
        ("event_id", header.event_id),
        ("executable_id", header.executable_id),
        ("command_buffer_id", header.command_buffer_id),
        ("physical_device_ordinal", u64::from(header.physical_device_ordinal)),
        ("queue_ordinal", u64::from(header.queue_ordinal)),
        ("chunk_flags", header.chunk_flags),
        ("session_status_code", u64::from(header.session_status_code)),
    ] {
        write!(out, ",\"{name}\":{value}")?;
    }
    writeln!(out, ",\"session_status\":\"{}\"}}", status_name(header.session_status_code))
}
