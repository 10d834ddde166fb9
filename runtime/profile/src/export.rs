//! `export`: rows for other tools, one for each record of a chunk, as `iree-profile export` writes them. The rows are
//! projections of records, which `spec/profile/interchange.yaml` lists.

use std::io::Write;

use vireo_core::record_fields::{Fields as _, JsonFields, json_text};

use crate::cat::status_name;
use crate::generated::contents::Content;
use crate::generated::format::{INTERCHANGE_VERSION, RecordType, TRUNCATED_CHUNK};
use crate::generated::records::ExecutableTrace;
use crate::generated::rows::row;
use crate::joins::Joins;
use crate::model::Model;
use crate::reader::{OutputError, Reader, Record};

/// The clocks of the rows, each with what it is.
const TIME_DOMAINS: [(&str, &str); 5] = [
    ("iree_host_time_ns", "iree_time_now monotonic nanoseconds"),
    ("device_tick", "raw physical-device timestamp ticks"),
    ("driver_host_cpu_timestamp_ns", "driver-sampled CPU timestamp nanoseconds"),
    ("driver_host_system_timestamp", "driver-sampled system timestamp units scaled by host_system_frequency_hz"),
    ("device_tick_duration_ns", "duration nanoseconds derived from device_tick clock fit"),
];

/// Writes the rows `ireeperf-jsonl` of all records of `reader`. It reads the file twice, since events may refer to what
/// comes later.
///
/// # Errors
/// If the profile is damaged, in which case the rows before the damage may have been written, or `out` fails.
pub fn export(reader: &mut Reader, out: &mut dyn Write) -> Result<(), OutputError> {
    let model = Model::read(reader)?;
    schema(reader, out)?;
    let mut line = JsonFields::default();
    while let Some(record) = reader.next_record()? {
        match RecordType(record.header.record_type) {
            RecordType::SESSION_BEGIN => session(&record, "begin", &mut line, out)?,
            RecordType::SESSION_END => session(&record, "end", &mut line, out)?,
            RecordType::CHUNK => chunk(reader, &record, &model, &mut line, out)?,
            _ => {
                let category = ("unknown_record", "unknown profile file record type");
                diagnostic(&record, "warning", category, None, &mut line, out)?;
            }
        }
    }
    Ok(())
}

fn schema(reader: &Reader, out: &mut dyn Write) -> std::io::Result<()> {
    let header = reader.header();
    write!(
        out,
        "{{\"schema_version\":{INTERCHANGE_VERSION},\"record_type\":\"schema\",\"format\":\"ireeperf-jsonl\",\
         \"contract\":\"schema_versioned_interchange\",\"row_key\":\"record_type\",\"source_format\":\"ireeprof\",\
         \"source_version_major\":{},\"source_version_minor\":{},\"time_domains\":{{",
        header.version_major, header.version_minor
    )?;
    for (index, (name, text)) in TIME_DOMAINS.iter().enumerate() {
        write!(out, "{}\"{name}\":\"{text}\"", if index == 0 { "" } else { "," })?;
    }
    writeln!(
        out,
        "}},\"clock_fit\":{{\"basis\":\"first_last_clock_correlation\",\"rounding\":\"nearest_integer_nanosecond\"}}}}"
    )
}

/// Begins a row.
fn begin(name: &str, record: &Record, line: &mut JsonFields) {
    line.written.clear();
    line.push(format_args!(
        "{{\"schema_version\":{INTERCHANGE_VERSION},\"record_type\":\"{name}\",\"source_record_index\":{}",
        record.index
    ));
}

/// Ends a row.
fn end(line: &mut JsonFields, out: &mut dyn Write) -> std::io::Result<()> {
    line.push(format_args!("}}\n"));
    out.write_all(line.written.as_bytes())
}

fn session(record: &Record, event: &str, line: &mut JsonFields, out: &mut dyn Write) -> Result<(), OutputError> {
    let header = &record.header;
    begin("session", record, line);
    line.text("event", Some(event))?;
    line.number("session_id", header.session_id)?;
    line.number("stream_id", header.stream_id)?;
    line.number("event_id", header.event_id)?;
    line.number("session_status_code", u64::from(header.session_status_code))?;
    line.text("session_status", Some(status_name(header.session_status_code)))?;
    Ok(end(line, out)?)
}

fn diagnostic(
    record: &Record,
    severity: &str,
    (category, message): (&str, &str),
    dropped: Option<u64>,
    line: &mut JsonFields,
    out: &mut dyn Write,
) -> Result<(), OutputError> {
    begin("diagnostic", record, line);
    line.text("severity", Some(severity))?;
    line.text("category", Some(category))?;
    line.push(format_args!(",\"content_type\":{}", json_text(&record.content_type)));
    line.text("message", Some(message))?;
    if let Some(dropped) = dropped {
        line.number("dropped_records", dropped)?;
    }
    Ok(end(line, out)?)
}

fn chunk(
    reader: &mut Reader,
    chunk: &Record,
    model: &Model,
    line: &mut JsonFields,
    out: &mut dyn Write,
) -> Result<(), OutputError> {
    if chunk.header.chunk_flags & TRUNCATED_CHUNK != 0 {
        let category = ("truncated_chunk", "chunk was marked truncated by the producer");
        diagnostic(chunk, "error", category, Some(chunk.header.dropped_record_count), line, out)?;
    }
    let unknown = ("unknown_chunk", "unknown profile chunk content type");
    // The format of exports has no rows for code and where it lies.
    let content = chunk
        .content()
        .filter(|content| !matches!(content, Content::ExecutableCodeObjects | Content::ExecutableCodeObjectLoads));
    let Some(content) = content else {
        return diagnostic(chunk, "warning", unknown, None, line, out);
    };
    let file = reader.name().to_string();
    let joins = Joins { model, chunk, file: &file };
    let mut records = reader.typed(chunk, content);
    while let Some(mut record) = records.next_record()? {
        if content == Content::ExecutableTraces {
            let trace = ExecutableTrace::read(&record.head()?);
            if trace.data_length != record.rest() {
                let message = format!("a trace has {} bytes: expected {}", record.rest(), trace.data_length);
                return Err(record.damaged(message).into());
            }
        }
        line.written.clear();
        row(content, &mut record, &joins, line)?;
        end(line, out)?;
    }
    Ok(())
}
