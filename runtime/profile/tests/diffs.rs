//! Comparisons of profiles: exact rows, drawn pairs, and what is too much.

mod drawn;
#[path = "../../tests/support/mutants.rs"]
mod mutants;

use std::io::Cursor;

use drawn::draw;
use mutants::Mutants;
use serde_json::Value;
use vireo_profile::format::{MemoryEventType, QueueEventType, RecordHeader, RecordType};
use vireo_profile::records::{Executable, ExecutableFunction, HostExecutionEvent, MemoryEvent, Queue, QueueEvent};
use vireo_profile::{Content, DiffOptions, ProfileWriter, Reader, ReportFormat, diff};

fn compare(before: &[u8], after: &[u8], options: DiffOptions, format: ReportFormat) -> Result<(u64, String), String> {
    let reader = |name: &str, bytes: &[u8]| {
        Reader::new(name, Box::new(Cursor::new(bytes.to_vec()))).map_err(|error| error.to_string())
    };
    let mut out = Vec::new();
    let above = diff(&mut reader("before", before)?, &mut reader("after", after)?, &options, format, &mut out);
    let above = above.map_err(|error| error.to_string())?;
    Ok((above, String::from_utf8(out).expect("reports are text")))
}

/// A profile with dispatches of functions, each with its times, and a buffer of some bytes.
fn profile(functions: &[(&str, &[i64])], bytes: u64) -> Vec<u8> {
    let mut writer = ProfileWriter::new(Cursor::new(Vec::new())).expect("memory can be written");
    let header = RecordHeader { record_type: RecordType::CHUNK.0, ..RecordHeader::default() };
    let mut chunk = |content: Content, records: Vec<u8>| {
        writer.chunk(&header, content, "device", &records).expect("memory can be written");
    };
    chunk(Content::Queues, Queue { record_length: Queue::SIZE as u32, ..Queue::default() }.to_bytes().to_vec());
    let executable = Executable { record_length: Executable::SIZE as u32, executable_id: 1, ..Executable::default() };
    chunk(Content::Executables, executable.to_bytes().to_vec());
    let (mut names, mut events) = (Vec::new(), Vec::new());
    for (ordinal, (name, times)) in (0..).zip(functions) {
        ExecutableFunction { executable_id: 1, function_ordinal: ordinal, ..ExecutableFunction::default() }
            .write(&mut names, name.as_bytes())
            .expect("it is short");
        for time in *times {
            events.extend(
                HostExecutionEvent {
                    record_length: HostExecutionEvent::SIZE as u32,
                    r#type: QueueEventType::DISPATCH,
                    executable_id: 1,
                    function_ordinal: ordinal,
                    start_host_time_ns: 1000,
                    end_host_time_ns: 1000 + time,
                    ..HostExecutionEvent::default()
                }
                .to_bytes(),
            );
        }
    }
    chunk(Content::ExecutableFunctions, names);
    chunk(Content::HostExecutionEvents, events);
    let copy = QueueEvent {
        record_length: QueueEvent::SIZE as u32,
        r#type: QueueEventType::COPY,
        payload_length: 64,
        ..QueueEvent::default()
    };
    chunk(Content::QueueEvents, copy.to_bytes().to_vec());
    let buffer = MemoryEvent {
        record_length: MemoryEvent::SIZE as u32,
        r#type: MemoryEventType::BUFFER_ALLOCATE,
        length: bytes,
        ..MemoryEvent::default()
    };
    chunk(Content::MemoryEvents, buffer.to_bytes().to_vec());
    writer.finish().expect("memory can be written").into_inner()
}

#[test]
fn changes_are_shown_with_the_largest_first() {
    let before = profile(&[("small", &[10, 10]), ("large", &[1000]), ("gone", &[5])], 100);
    let after = profile(&[("small", &[15, 16]), ("large", &[1020]), ("new\n", &[7])], 104);
    let options = DiffOptions { fail_above: Some(0.03), ignore_below: 0 };
    let (above, text) = compare(&before, &after, options, ReportFormat::Text).expect("they are whole");
    let expected = "\
profile diff
before: before
after: after
fail_above: 3% values_above=3
dispatch_time:
     +3.2% all dispatches 1025 -> 1058 ns source=host_execution_event dispatches=4->4 ABOVE
dispatch_count:
     +0.0% all dispatches 4 -> 4 count source=host_execution_event
function_time:
     +2.0% large 1000 -> 1020 ns source=host_execution_event dispatches=1->1
    +55.0% small 20 -> 31 ns source=host_execution_event dispatches=2->2 ABOVE
       new new\\n 0 -> 7 ns source=host_execution_event dispatches=0->1
      gone gone 5 -> 0 ns source=host_execution_event dispatches=1->0
queue_operation_count:
     +0.0% copy 1 -> 1 count
queue_operation_bytes:
     +0.0% copy 64 -> 64 bytes
memory_peak:
     +4.0% buffer 100 -> 104 bytes source=device0 ABOVE
";
    assert_eq!((above, text.as_str()), (3, expected));
    // The same rows, as objects.
    let (above, rows) = compare(&before, &after, options, ReportFormat::Jsonl).expect("they are whole");
    let rows: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).expect("it is JSON")).collect();
    assert_eq!((above, rows.len(), &rows[0]["values_above"]), (3, 10, &Value::from(3)));
    let gone = rows.iter().find(|row| row["name"] == "gone").expect("there is one");
    assert_eq!((&gone["before"], &gone["after"], &gone["above"]), (&Value::from(5), &Value::Null, &Value::from(false)));
}

#[test]
fn limits_are_met() {
    let before = profile(&[("f", &[1000])], 100);
    let above = |after: &[u8], fail_above: Option<f64>, ignore_below: u64| {
        let options = DiffOptions { fail_above, ignore_below };
        compare(&before, after, options, ReportFormat::Text).expect("they are whole").0
    };
    let slower = profile(&[("f", &[1050])], 100);
    assert_eq!(above(&slower, None, 0), 0, "nothing is too much without a limit");
    assert_eq!(above(&slower, Some(0.05), 0), 0, "a limit may be reached");
    assert_eq!(above(&slower, Some(0.049), 0), 2, "the function and the sum");
    assert_eq!(above(&slower, Some(0.049), 2000), 1, "the sum counts in any case");
    assert_eq!(above(&profile(&[("f", &[10])], 1), Some(0.0), 0), 0, "less is never too much");
    assert_eq!(above(&profile(&[("g", &[1000])], 100), Some(0.0), 0), 0, "another name is not more time");
    assert_eq!(above(&profile(&[("f", &[1000]), ("g", &[100])], 100), Some(0.05), 0), 2, "time and count of all");
    let empty = profile(&[], 100);
    let options = DiffOptions { fail_above: Some(1e9), ignore_below: 0 };
    let (above, _) = compare(&empty, &before, options, ReportFormat::Text).expect("they are whole");
    assert_eq!(above, 2, "something is more than any share of nothing");
}

/// A profile equals itself; changes there and back are the same; rows are in their order.
#[test]
fn drawn_pairs_are_compared() {
    let strict = DiffOptions { fail_above: Some(0.0), ignore_below: 0 };
    for seed in 0..60 {
        let (before, after) = (draw(seed, 5).bytes, draw(seed + 1000, 5).bytes);
        let (above, _) = compare(&before, &before, strict, ReportFormat::Text).expect("it is whole");
        assert_eq!(above, 0, "seed {seed}");
        let rows = |before: &[u8], after: &[u8]| -> Vec<Value> {
            let (above, rows) = compare(before, after, strict, ReportFormat::Jsonl).expect("they are whole");
            let rows: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).expect("it is JSON")).collect();
            assert_eq!(rows.iter().filter(|row| row["above"] == true).count() as u64, above, "seed {seed}");
            rows[1..].to_vec()
        };
        let (there, back) = (rows(&before, &after), rows(&after, &before));
        assert_eq!(there.len(), back.len(), "seed {seed}");
        for (there, back) in there.iter().zip(&back) {
            assert_eq!((&there["before"], &there["name"]), (&back["after"], &back["name"]), "seed {seed}");
        }
        let distance = |row: &Value| row["before"].as_u64().unwrap_or(0).abs_diff(row["after"].as_u64().unwrap_or(0));
        for pair in there.windows(2).filter(|pair| pair[0]["kind"] == pair[1]["kind"]) {
            assert!(distance(&pair[0]) >= distance(&pair[1]), "seed {seed}: {pair:?}");
        }
        let sum = |kind: &str, source: &str| -> u64 {
            let of_kind = there.iter().filter(|row| row["kind"] == kind && row["source"] == source);
            of_kind.map(|row| row["before"].as_u64().unwrap_or(0)).sum()
        };
        for source in ["device_dispatch_event", "host_execution_event"] {
            assert_eq!(sum("dispatch_time", source), sum("function_time", source), "seed {seed}");
        }
    }
}

#[test]
fn mutants_are_compared_or_refused() {
    let mut mutants = Mutants::new(0x1234_5678_9abc_def1);
    let (mut compared, mut refused) = (0, 0);
    for turn in 0..600 {
        let good = draw(turn % 20, 3).bytes;
        let options = DiffOptions { fail_above: Some(0.05), ignore_below: 10 };
        match compare(&good, &mutants.of(&good), options, ReportFormat::Jsonl) {
            Ok(_) => compared += 1,
            Err(error) => {
                assert!(error.starts_with("after: byte"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(compared > 50 && refused > 50, "{compared} compared, {refused} refused");
}
