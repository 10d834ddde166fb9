//! Profiles against recorded reports of `iree-profile`, every content type of the format, damaged profiles and mutants.
//! `fixtures/profile/README.md` says where the profiles come from.

#[path = "../../tests/support/mutants.rs"]
mod mutants;

use std::fmt::Write as _;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use mutants::Mutants;
use vireo_profile::format::{RecordHeader, RecordType};
use vireo_profile::records::{
    ClockCorrelation, CommandBuffer, CommandOperation, CommandRegionEvent, Counter, CounterSample, CounterSet, Device,
    DeviceMetricDescriptor, DeviceMetricSample, DeviceMetricSource, DeviceMetricValue, DispatchEvent,
    EventRelationship, Executable, ExecutableCodeObject, ExecutableCodeObjectLoad, ExecutableFunction, ExecutableTrace,
    HostExecutionEvent, MemoryEvent, Queue, QueueDeviceEvent, QueueEvent,
};
use vireo_profile::{
    Content, LAYOUTS, ProfileWriter, Reader, ReportFilter, ReportFormat, Summary, cat, command, counter, dispatch,
    executable, explain, export, memory, queue, statistics,
};

/// The profiles of the folder, without endings.
const PROFILES: [&str; 8] = ["abs", "contents", "joined", "ticks", "buffers", "copies", "nothing", "empty"];

/// The name of a function as it is, and as reports show it.
const NAME: (&str, &str) = ("\"add\"\n", "\"add\"\\n");

/// The reports, each with the ending of its record.
const REPORTS: [&str; 22] = [
    "cat.txt",
    "cat.jsonl",
    "summary.txt",
    "summary.jsonl",
    "export.jsonl",
    "statistics.txt",
    "statistics.jsonl",
    "dispatch.txt",
    "dispatch.jsonl",
    "events.jsonl",
    "executable.txt",
    "executable.jsonl",
    "command.txt",
    "command.jsonl",
    "queue.txt",
    "queue.jsonl",
    "counter.txt",
    "counter.jsonl",
    "memory.txt",
    "memory.jsonl",
    "explain.txt",
    "explain.jsonl",
];

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/profile").join(name)
}

fn profile(name: &str) -> Vec<u8> {
    std::fs::read(path(&format!("{name}.ireeprof"))).expect("the profile exists")
}

/// The report, or the error.
fn report(bytes: &[u8], report: &str) -> Result<String, String> {
    let reader = Reader::new("file", Box::new(Cursor::new(bytes.to_vec())));
    let mut reader = reader.map_err(|error| error.to_string())?;
    let format = if report.ends_with(".txt") { ReportFormat::Text } else { ReportFormat::Jsonl };
    let (all, mut out) = (ReportFilter::default(), Vec::new());
    let done = match report.split('.').next() {
        Some("cat") => cat(&mut reader, format, &mut out),
        Some("export") => export(&mut reader, &mut out),
        Some("statistics") => statistics(&mut reader, format, &mut out),
        Some("dispatch") => dispatch(&mut reader, &all, format, &mut out),
        Some("events") => {
            let events = ReportFilter { dispatch_events: true, ..ReportFilter::default() };
            dispatch(&mut reader, &events, format, &mut out)
        }
        Some("executable") => executable(&mut reader, &all, format, &mut out),
        Some("command") => command(&mut reader, &all, format, &mut out),
        Some("memory") => memory(&mut reader, &all, format, &mut out),
        Some("explain") => explain(&mut reader, &all, format, &mut out),
        Some("queue") => queue(&mut reader, &all, format, &mut out),
        Some("counter") => counter(&mut reader, &all, format, &mut out),
        _ => match Summary::read(&mut reader) {
            Ok(summary) => summary.write(format, &mut out),
            Err(error) => Err(error.into()),
        },
    };
    done.map_err(|error| error.to_string())?;
    Ok(String::from_utf8(out).expect("reports are text"))
}

#[test]
fn reports_equal_those_of_the_reference_tool() {
    for name in PROFILES {
        for ending in REPORTS {
            let own = report(&profile(name), ending);
            let Ok(expected) = std::fs::read_to_string(path(&format!("{name}.{ending}"))) else {
                assert!(own.is_err(), "{name}.{ending}: the tool refuses it");
                continue;
            };
            // The tool writes the line break of a name as it is, also in lines for people.
            let expected = if ending.ends_with(".txt") { expected.replace(NAME.0, NAME.1) } else { expected };
            assert_eq!(own.as_deref(), Ok(expected.as_str()), "{name}.{ending}");
        }
    }
}

#[test]
fn every_layout_is_read_and_written_again() {
    for layout in LAYOUTS {
        let mut bytes: Vec<u8> = (0..layout.size).map(|index| (index * 7 + 1) as u8).collect();
        for (start, end) in layout.zeros {
            bytes[*start..*end].fill(0);
        }
        for (_, offset, size, _) in layout.parts {
            bytes[*offset..offset + size].fill(0);
            bytes[*offset] = 2;
        }
        let parts: usize = layout.parts.iter().map(|(.., element)| 2 * element).sum();
        bytes.extend((0..parts).map(|index| (index * 5 + 3) as u8));
        let again = (layout.rewrite)(&bytes).unwrap_or_else(|error| panic!("{}: {error}", layout.name));
        assert_eq!(again.len(), bytes.len(), "{}", layout.name);
        // A record with parts states its length when it is written.
        let start = if layout.parts.is_empty() { 0 } else { 4 };
        assert_eq!(again[start..layout.size], bytes[start..layout.size], "{}", layout.name);
        if start == 4 {
            assert_eq!(again[..4], (bytes.len() as u32).to_le_bytes(), "{}", layout.name);
        }
    }
}

/// A record without parts, with its length.
macro_rules! record {
    ($layout:ident { $($field:ident: $value:expr),* $(,)? }) => {
        $layout { record_length: $layout::SIZE as u32, $($field: $value,)* ..$layout::default() }.to_bytes().to_vec()
    };
}

/// A record with parts.
macro_rules! parts {
    ($layout:ident { $($field:ident: $value:expr),* $(,)? }, $($part:expr),*) => {{
        let mut out = Vec::new();
        $layout { $($field: $value,)* ..$layout::default() }.write(&mut out, $($part),*).expect("it is short");
        out
    }};
}

fn metadata() -> Vec<(Content, Vec<u8>)> {
    let block = [0xffff_ffff; 4];
    vec![
        (Content::Devices, record!(Device { flags: 1, queue_count: 2, physical_device_uuid: [7; 16] })),
        (Content::Queues, [record!(Queue {}), record!(Queue { queue_ordinal: 1, stream_id: 3 })].concat()),
        (
            Content::Executables,
            record!(Executable { flags: 1, executable_id: 5, function_count: 2, code_object_hash: [1, 2] }),
        ),
        (Content::ExecutableCodeObjects, parts!(ExecutableCodeObject { executable_id: 5, code_object_id: 6 }, b"code")),
        (Content::ExecutableCodeObjectLoads, record!(ExecutableCodeObjectLoad { executable_id: 5, load_delta: -8 })),
        (
            Content::ExecutableFunctions,
            [
                parts!(ExecutableFunction { executable_id: 5, workgroup_size: [1, 2, 3] }, b"\"add\"\n"),
                parts!(
                    ExecutableFunction { flags: 1, executable_id: 5, function_ordinal: 1, function_hash: [3, 4] },
                    b""
                ),
            ]
            .concat(),
        ),
        (Content::CommandBuffers, record!(CommandBuffer { command_buffer_id: 8, mode: 1, queue_affinity: u64::MAX })),
        (
            Content::CommandOperations,
            [
                record!(CommandOperation {
                    r#type: vireo_profile::format::CommandOperationType::DISPATCH,
                    command_buffer_id: 8,
                    block_ordinal: block[0],
                    block_command_ordinal: block[1],
                    executable_id: 5,
                    function_ordinal: 1,
                    target_block_ordinal: block[2],
                    alternate_block_ordinal: block[3],
                }),
                record!(CommandOperation {
                    r#type: vireo_profile::format::CommandOperationType(77),
                    flags: 64,
                    command_index: 1,
                    command_buffer_id: 8,
                    length: 9,
                }),
            ]
            .concat(),
        ),
        (
            Content::ClockCorrelations,
            [
                record!(ClockCorrelation {
                    flags: 11,
                    sample_id: 1,
                    device_tick: 100,
                    host_cpu_timestamp_ns: 1000,
                    host_time_begin_ns: 5,
                    host_time_end_ns: 9
                }),
                record!(ClockCorrelation {
                    flags: 11,
                    sample_id: 2,
                    device_tick: 403,
                    host_cpu_timestamp_ns: 2001,
                    host_time_begin_ns: 7,
                    host_time_end_ns: 6
                }),
            ]
            .concat(),
        ),
    ]
}

fn events() -> Vec<(Content, Vec<u8>)> {
    let queue_event = vireo_profile::format::QueueEventType::DISPATCH;
    let mut region =
        CommandRegionEvent { record_length: CommandRegionEvent::SIZE as u32, ..CommandRegionEvent::default() };
    region.command_region.index = -1;
    region.command_region.end_host_time_ns = 17;
    region.command_region.tail_no_work.remaining_tiles.bucket_counts = [1, 2, 3, 4, 5, 6, 7, 8];
    region.scheduler.wake_delta = -2;
    vec![
        (
            Content::DispatchEvents,
            [
                record!(DispatchEvent {
                    event_id: 1,
                    executable_id: 5,
                    start_tick: 150,
                    end_tick: 250,
                    workgroup_count: [4, 5, 6]
                }),
                record!(DispatchEvent { event_id: 2, executable_id: 5, function_ordinal: 1 }),
            ]
            .concat(),
        ),
        (
            Content::QueueEvents,
            record!(QueueEvent {
                r#type: queue_event,
                dependency_strategy: vireo_profile::format::DependencyStrategy(9),
                host_time_ns: -3
            }),
        ),
        (Content::QueueDeviceEvents, record!(QueueDeviceEvent { r#type: queue_event, start_tick: 90, end_tick: 91 })),
        (
            Content::HostExecutionEvents,
            [
                record!(HostExecutionEvent {
                    r#type: queue_event,
                    executable_id: 5,
                    start_host_time_ns: 10,
                    end_host_time_ns: 30
                }),
                record!(HostExecutionEvent { start_host_time_ns: 10, end_host_time_ns: 9 }),
            ]
            .concat(),
        ),
        (Content::CommandRegionEvents, region.to_bytes().to_vec()),
        (Content::MemoryEvents, record!(MemoryEvent { flags: 48, offset: 1, length: 2, pool_bytes_free: 3 })),
        (Content::EventRelationships, record!(EventRelationship { relationship_id: 1, source_id: 2, target_id: 3 })),
        (
            Content::CounterSets,
            parts!(CounterSet { counter_set_id: 7, counter_count: 1, sample_value_count: 2 }, b"set"),
        ),
        (Content::Counters, parts!(Counter { counter_set_id: 7, sample_value_count: 2 }, b"block", b"name", b"text")),
        (
            Content::CounterSamples,
            [
                parts!(CounterSample { flags: 4, counter_set_id: 7, start_tick: 150, end_tick: 160 }, &[1, u64::MAX]),
                parts!(CounterSample { counter_set_id: 7, start_tick: 150, end_tick: 160 }, &[]),
            ]
            .concat(),
        ),
        (
            Content::DeviceMetricSources,
            parts!(
                DeviceMetricSource { source_id: 9, device_class: vireo_profile::format::DeviceClass::OTHER },
                b"sensor"
            ),
        ),
        (Content::DeviceMetricDescriptors, metrics().concat()),
        (
            Content::DeviceMetricSamples,
            parts!(
                DeviceMetricSample {
                    flags: 1,
                    source_id: 9,
                    host_time_begin_ns: 4,
                    host_time_end_ns: 6,
                    source_timestamp: 8
                },
                &[
                    value(1, 7),
                    value(2, u64::MAX),
                    value(1 << 63, 0.1f64.to_bits()),
                    value(4, 1),
                    value(5, 1.5e300f64.to_bits())
                ]
            ),
        ),
        (
            Content::ExecutableTraces,
            [record!(ExecutableTrace { trace_id: 1, executable_id: 5, data_length: 3 }), b"abc".to_vec()].concat(),
        ),
    ]
}

fn metrics() -> Vec<Vec<u8>> {
    let kinds = [(1, 2), (2, 1), (1 << 63, 3), (4, 0), (5, 3)];
    let metric = |(metric_id, kind)| {
        let (unit, value_kind) = (vireo_profile::format::MetricUnit(2), vireo_profile::format::MetricValueKind(kind));
        parts!(
            DeviceMetricDescriptor { source_id: 9, metric_id: metric_id, unit: unit, value_kind: value_kind },
            b"clock",
            b"of the core"
        )
    };
    kinds.into_iter().map(metric).collect()
}

fn value(metric_id: u64, value_bits: u64) -> DeviceMetricValue {
    DeviceMetricValue { metric_id, value_bits, ..DeviceMetricValue::default() }
}

fn every_content() -> Vec<u8> {
    let mut writer = ProfileWriter::new(Cursor::new(Vec::new())).expect("memory can be written");
    let header =
        |record_type: RecordType| RecordHeader { record_type: record_type.0, session_id: 1, ..RecordHeader::default() };
    writer.record(&header(RecordType::SESSION_BEGIN), "session", "device", &[]).expect("memory can be written");
    let chunk = header(RecordType::CHUNK);
    for (content, records) in metadata().into_iter().chain(events()) {
        writer.chunk(&chunk, content, "device", &records).expect("memory can be written");
    }
    let truncated = RecordHeader { chunk_flags: 1, dropped_record_count: 4, ..chunk };
    writer.chunk(&truncated, Content::QueueEvents, "device", &[]).expect("memory can be written");
    writer.record(&chunk, "of-later", "device", b"anything").expect("memory can be written");
    writer.record(&header(RecordType(9)), "session", "device", &[]).expect("memory can be written");
    let end = RecordHeader { session_status_code: 8, ..header(RecordType::SESSION_END) };
    writer.record(&end, "session", "device", &[]).expect("memory can be written");
    writer.finish().expect("memory can be written").into_inner()
}

/// `VIREO_BLESS=1` writes the profile; `fixtures/profile/rebuild.sh` records its reports.
#[test]
fn a_profile_has_every_content() {
    if std::env::var_os("VIREO_BLESS").is_some() {
        std::fs::write(path("contents.ireeprof"), every_content()).expect("the folder can be written");
    }
    let summary = report(&every_content(), "summary.txt").expect("it is whole");
    assert!(!summary.contains("executable_traces=0"), "{summary}");
    assert!(profile("contents") == every_content());
}

/// Each damage is refused with the place and what was expected.
#[test]
fn damages_are_told_with_their_places() {
    type Damage = (&'static str, &'static str, fn(&mut Vec<u8>));
    let damages: [Damage; 10] = [
        ("empty", "cat.txt", |bytes| bytes.clear()),
        ("magic", "cat.txt", |bytes| bytes[3] = 0),
        ("version", "cat.txt", |bytes| bytes[4] = 2),
        ("flags", "cat.txt", |bytes| bytes[12] = 1),
        ("record flags", "cat.txt", |bytes| bytes[24 + 102] = 1),
        ("record length", "cat.txt", |bytes| bytes[24 + 3] = 1),
        ("record header length", "cat.txt", |bytes| bytes[24 + 56] = 103),
        ("name length", "cat.txt", |bytes| bytes[24 + 64] = 1),
        ("typed length", "summary.txt", |bytes| bytes[24 + 150 + 150] = 31),
        ("typed length of an export", "export.jsonl", |bytes| bytes[24 + 150 + 150] = 33),
    ];
    let mut told = String::new();
    for (name, kind, damage) in damages {
        let mut bytes = profile("contents");
        damage(&mut bytes);
        let _ = writeln!(told, "{name}: {}", report(&bytes, kind).expect_err(name));
    }
    let length = profile("contents").len();
    let expected = format!(
        "\
empty: file: byte 0: the file ends after 0 bytes: expected 24
magic: file: byte 0: the file begins with 0x00505249: expected 0x46505249 of a profile
version: file: byte 4: the version is 2: expected 1
flags: file: byte 12: the flags are 0x1: expected 0
record flags: file: byte 126: the flags are 0x1: expected 0
record length: file: byte 24: the record has 16777366 bytes: expected at most {}
record header length: file: byte 80: the header of the record has 103 bytes: expected 104 to 150
name length: file: byte 32: the names have 41 bytes and the payload has 0: expected 46 together
typed length: file: byte 324: a record of `devices` has the length 31: expected 32 to 32
typed length of an export: file: byte 324: a record of `devices` has the length 33: expected 32 to 32
",
        length - 24
    );
    assert_eq!(told, expected);
}

#[test]
fn mutants_are_read_or_refused() {
    let mut mutants = Mutants::new(0x9e37_79b9_7f4a_7c15);
    let profiles = PROFILES.map(profile);
    let (mut read, mut refused) = (0, 0);
    let turns = std::env::var("VIREO_MUTANTS").ok().and_then(|count| count.parse().ok()).unwrap_or(3000);
    for turn in 0..turns {
        let bytes = mutants.of(&profiles[turn % profiles.len()]);
        for kind in REPORTS {
            match report(&bytes, kind) {
                Ok(_) => read += 1,
                Err(_) => refused += 1,
            }
        }
    }
    assert!(read > 500 && refused > 500, "{read} read, {refused} refused");
}
