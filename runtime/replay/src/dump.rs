//! Dumps of captures: the text and the lines of JSON that `iree-dump-replay` writes.

use std::fmt;
use std::io::{self, Write};

use vireo_core::record_fields::{Fields as _, JsonFields, TextFields, known};
use vireo_core::record_file::ReadError;
use vireo_core::status::StatusCode;

use crate::generated::dump::{PAYLOADS, json_fields, text_fields};
use crate::generated::format::{FileHeader, ObjectType, RecordType};
use crate::operation::Operation;
use crate::payload::PayloadReader;
use crate::reader::{Reader, Record};
use crate::summary::Summary;

/// How a dump is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpFormat {
    /// A line for each record, for people.
    Text,
    /// A JSON object for each record, for programs.
    Jsonl,
}

/// The error of a dump.
#[derive(Debug)]
pub enum DumpError {
    /// The capture is damaged.
    Read(ReadError),
    /// The dump cannot be written.
    Write(io::Error),
}

impl fmt::Display for DumpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DumpError::Read(error) => error.fmt(f),
            DumpError::Write(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for DumpError {}

impl From<ReadError> for DumpError {
    fn from(error: ReadError) -> Self {
        DumpError::Read(error)
    }
}

impl From<io::Error> for DumpError {
    fn from(error: io::Error) -> Self {
        DumpError::Write(error)
    }
}

/// Writes a dump of all records of `reader`. It reads the file twice, since the summary comes first.
///
/// # Errors
/// If the capture is damaged, in which case the records before the damage may have been written, or `out` fails.
pub fn dump(reader: &mut Reader, format: DumpFormat, out: &mut dyn Write) -> Result<(), DumpError> {
    let summary = Summary::read(reader)?;
    let header = FileHeader { file_length: reader.end(), ..*reader.header() };
    match format {
        DumpFormat::Text => write_text_summary(&header, &summary, out)?,
        DumpFormat::Jsonl => write_json_summary(&header, &summary, out)?,
    }
    let (mut text, mut json) = (TextFields::default(), JsonFields::default());
    while let Some(record) = reader.next_record()? {
        match format {
            DumpFormat::Text => {
                text.written.clear();
                text_record(reader, &record, &mut text)?;
                out.write_all(&text.written)?;
            }
            DumpFormat::Jsonl => {
                json.written.clear();
                json_record(reader, &record, &mut json)?;
                out.write_all(json.written.as_bytes())?;
            }
        }
    }
    Ok(())
}

fn write_text_summary(header: &FileHeader, summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    let yes = |is: bool| if is { "yes" } else { "no" };
    let (counts, bytes, validation) = (&summary.file_counts, &summary.file_bytes, &summary.validation);
    writeln!(out, "IREE HAL replay v{}.{}", header.version_major, header.version_minor)?;
    writeln!(out, "file_length: {}", header.file_length)?;
    writeln!(out, "header_length: {}", header.header_length)?;
    writeln!(out, "summary:")?;
    writeln!(out, "  hermetic: {}", yes(summary.hermetic()))?;
    writeln!(out, "  environment_referenced: {}", yes(summary.environment_referenced()))?;
    writeln!(out, "  strict_replay_supported: {}", yes(summary.strict_replay_supported()))?;
    writeln!(
        out,
        "  records: total={} objects={} operations={} unsupported={}",
        summary.records, summary.objects, summary.operations, summary.unsupported
    )?;
    writeln!(out, "  scopes: begin={} end={}", summary.scope_begins, summary.scope_ends)?;
    writeln!(
        out,
        "  files: total={} external={} inline={} ranges={} unknown={}",
        summary.files, counts.external, counts.inline, counts.ranges, counts.unknown
    )?;
    writeln!(
        out,
        "  file_bytes: external={} inline={} ranges={} captured_reads={}",
        bytes.external, bytes.inline, bytes.ranges, summary.captured_reads
    )?;
    writeln!(
        out,
        "  file_validation: identity={} digest={} none={} unknown={}",
        validation.identity, validation.digest, validation.none, validation.unknown
    )?;
    writeln!(out, "records:")
}

fn write_json_summary(header: &FileHeader, summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    let (counts, bytes, validation) = (&summary.file_counts, &summary.file_bytes, &summary.validation);
    writeln!(
        out,
        "{{\"kind\":\"file\",\"version_major\":{},\"version_minor\":{},\"header_length\":{},\"flags\":{},\
         \"file_length\":{}}}",
        header.version_major, header.version_minor, header.header_length, header.flags, header.file_length
    )?;
    write!(
        out,
        "{{\"kind\":\"summary\",\"hermetic\":{},\"environment_referenced\":{},\"strict_replay_supported\":{}",
        summary.hermetic(),
        summary.environment_referenced(),
        summary.strict_replay_supported()
    )?;
    for (name, count) in [
        ("record_count", summary.records),
        ("object_count", summary.objects),
        ("operation_count", summary.operations),
        ("unsupported_count", summary.unsupported),
        ("scope_begin_count", summary.scope_begins),
        ("scope_end_count", summary.scope_ends),
        ("file_object_count", summary.files),
        ("external_file_count", counts.external),
        ("inline_file_count", counts.inline),
        ("range_file_count", counts.ranges),
        ("unknown_file_reference_count", counts.unknown),
        ("external_file_total_length", bytes.external),
        ("inline_file_total_length", bytes.inline),
        ("range_file_total_length", bytes.ranges),
        ("captured_read_total_length", summary.captured_reads),
    ] {
        write!(out, ",\"{name}\":{count}")?;
    }
    writeln!(
        out,
        ",\"file_validation\":{{\"identity\":{},\"digest\":{},\"none\":{},\"unknown\":{}}}}}",
        validation.identity, validation.digest, validation.none, validation.unknown
    )
}

/// The name of a payload.
fn payload_name(code: u32) -> &'static str {
    match code {
        0 => "none",
        _ => known(PAYLOADS.iter().find(|(known, _)| *known == code).map(|(_, name)| *name)),
    }
}

/// The name of an operation.
fn operation_name(code: u32) -> &'static str {
    match code {
        0 => "none",
        _ => known(Operation::find(code).map(|operation| operation.name)),
    }
}

/// The name of a status. IREE's tools have none for numbers that are no code.
fn status_name(code: u32) -> &'static str {
    match code {
        0 => "OK",
        _ => StatusCode::from_number(code).map_or("", StatusCode::name),
    }
}

fn text_record(reader: &mut Reader, record: &Record, out: &mut TextFields) -> Result<(), ReadError> {
    let header = &record.header;
    out.push(format_args!(
        "  @{} #{} {:<11} dev={} obj={} rel={} thread={} status={}",
        record.offset,
        header.sequence_ordinal,
        known(RecordType(header.record_type).name()),
        header.device_id,
        header.object_id,
        header.related_object_id,
        header.thread_id,
        status_name(header.status_code)
    ));
    if header.object_type != 0 {
        out.push(format_args!(" object={}({})", known(ObjectType(header.object_type).name()), header.object_type));
    }
    if header.operation_code != 0 {
        out.push(format_args!(" op={}({})", operation_name(header.operation_code), header.operation_code));
    }
    if header.payload_type != 0 || header.payload_length != 0 {
        let (offset, length) = (record.payload_offset(), header.payload_length);
        out.push(format_args!(
            " payload={}({}) range=[{offset}, +{length}]",
            payload_name(header.payload_type),
            header.payload_type
        ));
        let mut payload = PayloadReader::new(reader.source(), offset, length);
        text_fields(header.payload_type, &mut payload, out)?;
    }
    out.push(format_args!("\n"));
    Ok(())
}

fn json_record(reader: &mut Reader, record: &Record, out: &mut JsonFields) -> Result<(), ReadError> {
    let header = &record.header;
    out.push(format_args!("{{"));
    out.name("kind", RecordType(header.record_type).name())?;
    for (label, value) in [
        ("file_offset", record.offset),
        ("record_length", header.record_length),
        ("payload_length", header.payload_length),
        ("sequence_ordinal", header.sequence_ordinal),
        ("thread_id", header.thread_id),
        ("device_id", header.device_id),
        ("object_id", header.object_id),
        ("related_object_id", header.related_object_id),
        ("record_type_code", u64::from(header.record_type)),
        ("record_flags", u64::from(header.record_flags)),
    ] {
        out.number(label, value)?;
    }
    out.name("object_type", ObjectType(header.object_type).name())?;
    out.number("object_type_code", u64::from(header.object_type))?;
    out.name("operation", Some(operation_name(header.operation_code)))?;
    out.number("operation_code", u64::from(header.operation_code))?;
    out.number("status_code", u64::from(header.status_code))?;
    out.name("status", Some(status_name(header.status_code)))?;
    out.name("payload_type", Some(payload_name(header.payload_type)))?;
    out.number("payload_type_code", u64::from(header.payload_type))?;
    let (offset, length) = (record.payload_offset(), header.payload_length);
    out.range("payload_range", offset..offset + length)?;
    if header.payload_type != 0 {
        let before = out.written.len();
        out.open("payload")?;
        let mut payload = PayloadReader::new(reader.source(), offset, length);
        if json_fields(header.payload_type, &mut payload, out)? {
            out.close()?;
        } else {
            out.written.truncate(before);
            out.push(format_args!(",\"payload\":null"));
        }
    }
    out.push(format_args!("}}\n"));
    Ok(())
}
