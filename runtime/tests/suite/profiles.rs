//! Profiles of devices: what a wrapped device writes while it runs programs.

use std::io::Cursor;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use vireo::hal::{
    BufferParams, Device, ExecuteFlags, ProfileCaptureFilter, ProfileCaptureFilterFlags, ProfileChunkMetadata,
    ProfileCounterSetSelection, ProfileSink, ProfilingDataFamilies, ProfilingOptions, QueueAffinity, SemaphoreFlags,
    Timepoint, create_device,
};
use vireo::profile::{
    ProfileFile, ProfiledDevices, Reader, ReportFilter, ReportFormat, dispatch, export, memory, queue,
};
use vireo::{Result, Session, StatusCode, inputs};

use crate::models::recorded::eager_task;
use crate::skip::{Need, skipped};

const ALL: [ProfilingDataFamilies; 4] = [
    ProfilingDataFamilies::QUEUE_EVENTS,
    ProfilingDataFamilies::HOST_EXECUTION_EVENTS,
    ProfilingDataFamilies::MEMORY_EVENTS,
    ProfilingDataFamilies::EXECUTABLE_METADATA,
];

type Sink = ProfileFile<Cursor<Vec<u8>>>;

fn sink() -> Result<Arc<Sink>> {
    Ok(Arc::new(ProfileFile::new("memory", Cursor::new(Vec::new()))?))
}

fn options(sink: &Arc<Sink>, families: &[ProfilingDataFamilies]) -> ProfilingOptions {
    let sink: Arc<dyn ProfileSink> = sink.clone();
    let data_families = families.iter().fold(ProfilingDataFamilies::empty(), |all, family| all | *family);
    ProfilingOptions { data_families, sink: Some(sink), ..ProfilingOptions::default() }
}

/// The rows of a report of a profile that has ended.
fn rows(
    sink: &Arc<Sink>,
    report: impl Fn(&mut Reader, &mut dyn std::io::Write) -> std::result::Result<(), vireo::profile::OutputError>,
) -> Result<Vec<String>> {
    let bytes = sink.finish()?.into_inner();
    let mut reader = Reader::new("memory", Box::new(Cursor::new(bytes))).expect("it is a profile");
    let mut out = Vec::new();
    report(&mut reader, &mut out).expect("it is whole");
    Ok(String::from_utf8(out).expect("rows are text").lines().map(str::to_string).collect())
}

fn exported(sink: &Arc<Sink>) -> Result<Vec<String>> {
    rows(sink, |reader, out| export(reader, out))
}

/// A field of a row: a number, or a text with its quotes.
fn field<'a>(row: &'a str, name: &str) -> &'a str {
    let (_, rest) = row.split_once(&format!("\"{name}\":")).unwrap_or_else(|| panic!("{name}: {row}"));
    rest.split([',', '}']).next().unwrap_or(rest)
}

fn of_type<'a>(rows: &'a [String], name: &str) -> Vec<&'a String> {
    rows.iter().filter(|row| row.contains(&format!("\"record_type\":\"{name}\""))).collect()
}

fn mlp(device: &Arc<dyn Device>, model: &str) -> Result<Session> {
    let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/models");
    Session::builder().with_device(device.clone()).load(format!("{models}/{model}.vmfb"))
}

fn call(session: &Session) -> Result<Vec<f32>> {
    session.call("mlp", inputs![([8, 64], &[0.5f32; 512])])?.get()
}

/// On each device and with each loader, a call has its operations, and each dispatch its command and its function.
#[test]
fn each_operation_and_dispatch_of_a_call_has_an_event() -> Result<()> {
    for model in ["mlp", "vmvx_mlp", "vmvx_mlp_tiles"] {
        if model == "mlp" && !cfg!(all(target_arch = "x86_64", unix)) {
            continue;
        }
        for device in [create_device("local-sync")?, create_device("local-task")?, eager_task()] {
            let expected = call(&mlp(&device, model)?)?;
            let (profiled, sink) = (ProfiledDevices::new().device(&device), sink()?);
            assert!(profiled.supports("device.profiling_begin") && !device.supports("device.profiling_begin"));
            let session = mlp(&profiled, model)?;
            assert_eq!(call(&session)?, expected);
            profiled.profiling_begin(&options(&sink, &ALL))?;
            assert_eq!((call(&session)?, call(&session)?), (expected.clone(), expected));
            profiled.profiling_end()?;
            assert_eq!(call(&session)?.len(), 8 * 16);
            let rows = exported(&sink)?;
            let (queue_events, host_events) = (of_type(&rows, "queue_event"), of_type(&rows, "host_execution_event"));
            assert_eq!(queue_events.iter().filter(|row| field(row, "op") == "\"execute\"").count(), 2, "{rows:#?}");
            let (dispatches, operations): (Vec<&String>, Vec<&String>) =
                host_events.iter().partition(|row| field(row, "op") == "\"dispatch\"");
            assert_eq!(operations.len(), queue_events.len(), "{rows:#?}");
            let of_buffer = |execute: &&&String| {
                let id = field(execute, "command_buffer_id");
                let commands = of_type(&rows, "command_operation").into_iter();
                commands
                    .filter(|row| field(row, "op") == "\"dispatch\"" && field(row, "command_buffer_id") == id)
                    .count()
            };
            let executes = queue_events.iter().filter(|row| field(row, "op") == "\"execute\"");
            let submitted: usize = executes.map(|row| of_buffer(&row)).sum();
            assert!(dispatches.len() == submitted && submitted >= 4, "{submitted}: {rows:#?}");
            for row in &dispatches {
                assert!(field(row, "key").len() > 2 && field(row, "key") != "null", "{row}");
                assert!(field(row, "valid") == "true" && field(row, "tile_count") != "0", "{row}");
                let command = (field(row, "command_buffer_id"), field(row, "command_index"));
                let is_of = |operation: &&&String| {
                    (field(operation, "command_buffer_id"), field(operation, "command_index")) == command
                };
                let commands = of_type(&rows, "command_operation");
                let command = commands.iter().find(is_of).unwrap_or_else(|| panic!("{row}: {rows:#?}"));
                assert_eq!(field(command, "key"), field(row, "key"));
            }
            let allocations = of_type(&rows, "memory_event");
            assert!(allocations.iter().any(|row| field(row, "event_type") == "\"queue_alloca\""), "{rows:#?}");
            // Executables of before the session are described in it all the same.
            assert_eq!(of_type(&rows, "executable").len(), 1, "{rows:#?}");
        }
    }
    Ok(())
}

#[test]
fn a_filter_selects_dispatches() -> Result<()> {
    let (profiled, sink) = (ProfiledDevices::new().device(&create_device("local-sync")?), sink()?);
    let session = mlp(&profiled, "vmvx_mlp")?;
    let capture_filter = ProfileCaptureFilter {
        flags: ProfileCaptureFilterFlags::EXECUTABLE_FUNCTION_PATTERN,
        executable_function_pattern: "*dispatch_1*".to_string(),
        ..ProfileCaptureFilter::default()
    };
    let options = ProfilingOptions { capture_filter, ..options(&sink, &ALL) };
    profiled.profiling_begin(&options)?;
    call(&session)?;
    profiled.profiling_end()?;
    let filter = ReportFilter { dispatch_events: true, ..ReportFilter::default() };
    let rows = rows(&sink, |reader, out| dispatch(reader, &filter, ReportFormat::Jsonl, out))?;
    assert_eq!(rows.len(), 2, "{rows:#?}");
    assert!(field(&rows[0], "key").contains("dispatch_1"), "{rows:#?}");
    Ok(())
}

/// Each dispatch has what the processor counted for it, or the system refuses the counter by its name.
#[test]
fn dispatches_have_counters_of_the_processor() -> Result<()> {
    let device = create_device("local-task")?;
    let begin = |sink: &Arc<Sink>, names: &[&str]| {
        let profiled = ProfiledDevices::new().device(&device);
        let counter_names = names.iter().map(|name| (*name).to_string()).collect();
        let counter_sets = vec![ProfileCounterSetSelection { counter_names, ..ProfileCounterSetSelection::default() }];
        let families = [ProfilingDataFamilies::COUNTER_SAMPLES];
        profiled.profiling_begin(&ProfilingOptions { counter_sets, ..options(sink, &families) }).map(|()| profiled)
    };
    let refused = begin(&sink()?, &["flops"]).map(drop).expect_err("no processor has it");
    let is_named = refused.to_string().contains("`flops`");
    assert!(is_named || !cfg!(target_os = "linux"), "{refused}");
    assert!(begin(&sink()?, &[]).is_err(), "counters have names");
    let sink = sink()?;
    let profiled = match begin(&sink, &["page-faults", "task-clock"]) {
        Ok(profiled) => profiled,
        Err(status) => {
            // A system that allows no counters, or has none, says so by their names.
            assert!(!cfg!(target_os = "linux") || status.to_string().contains("the counter `"), "{status}");
            skipped(Need::Permission("perf_event"), status);
            return Ok(());
        }
    };
    let session = mlp(&profiled, "vmvx_mlp_tiles")?;
    call(&session)?;
    profiled.profiling_end()?;
    let rows = exported(&sink)?;
    let (counters, samples) = (of_type(&rows, "counter"), of_type(&rows, "counter_sample"));
    assert_eq!(
        counters.iter().map(|row| field(row, "name")).collect::<Vec<_>>(),
        ["\"page-faults\"", "\"task-clock\""]
    );
    assert!(samples.len() >= 2, "{rows:#?}");
    for row in samples {
        let (_, values) = row.split_once("\"values\":[").unwrap_or_else(|| panic!("{row}"));
        let values: Vec<&str> = values.split(']').next().unwrap_or_default().split(',').collect();
        // Clocks of a system may be coarser than a dispatch.
        assert!(values.len() == 2 && values.iter().all(|value| value.trim().parse::<u64>().is_ok()), "{row}");
        assert_ne!((field(row, "command_buffer_id"), field(row, "executable_id")), ("0", "0"), "{row}");
    }
    Ok(())
}

/// An operation that waits is ready when it runs, and one whose points fail never is.
#[test]
fn operations_that_wait_say_so() -> Result<()> {
    let (profiled, sink) = (ProfiledDevices::new().device(&create_device("local-sync")?), sink()?);
    profiled.profiling_begin(&options(&sink, &ALL))?;
    let semaphore = || profiled.create_semaphore(QueueAffinity::ANY, 0, SemaphoreFlags::DEFAULT);
    let (first, second, failing) = (semaphore()?, semaphore()?, semaphore()?);
    let point = |semaphore: &Arc<dyn vireo::hal::Semaphore>| [Timepoint { semaphore: semaphore.clone(), value: 1 }];
    let submit = |wait: &[Timepoint], signal: &[Timepoint]| {
        profiled.queue_barrier(QueueAffinity::ANY, wait, signal, ExecuteFlags::empty())
    };
    submit(&point(&first), &point(&second))?;
    submit(&point(&failing), &point(&semaphore()?))?;
    submit(&[], &point(&semaphore()?))?;
    first.signal(1)?;
    second.wait(1, None)?;
    failing.fail(vireo::Status::new(StatusCode::Aborted, "test"));
    profiled.profiling_end()?;
    let rows = rows(&sink, |reader, out| queue(reader, &ReportFilter::default(), ReportFormat::Jsonl, out))?;
    let mut events: Vec<(&str, &str, bool)> = rows
        .iter()
        .filter(|row| field(row, "type") == "\"queue_event\"")
        .map(|row| {
            (field(row, "submission_id"), field(row, "dependency_strategy"), field(row, "ready_host_time_ns") != "0")
        })
        .collect();
    events.sort_unstable();
    assert_eq!(
        events.iter().map(|(id, strategy, _)| (*id, *strategy)).collect::<Vec<_>>(),
        [("1", "\"software_defer\""), ("2", "\"software_defer\""), ("3", "\"none\"")],
        "{rows:#?}"
    );
    assert!(events[0].2 && events[2].2, "{rows:#?}");
    Ok(())
}

/// Buffers that are allocated and dropped in a drawn order have an event for each, with their bytes. Those of before
/// the session have none, and one that outlives it stays open.
#[test]
fn buffers_of_the_allocator_have_their_lives() -> Result<()> {
    for device in [create_device("local-sync")?, create_device("local-task")?] {
        let (profiled, sink) = (ProfiledDevices::new().device(&device), sink()?);
        let allocator = profiled.allocator();
        let allocate = |size: u64| allocator.allocate_buffer(BufferParams::default(), size);
        let before = allocate(16)?;
        profiled.profiling_begin(&options(&sink, &[ProfilingDataFamilies::MEMORY_EVENTS]))?;
        let (mut state, mut held, mut expected) = (7_u64, Vec::new(), Vec::new());
        for number in 1..=200_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let size = 1 + (state >> 33) % (1 << (state >> 60));
            let buffer = allocate(size)?;
            expected.push(("buffer_allocate", number, buffer.allocation_size()));
            held.push((number, buffer));
            while held.len() > (state >> 40) as usize % 9 {
                let (number, buffer) = held.swap_remove((state >> 50) as usize % held.len());
                expected.push(("buffer_free", number, buffer.allocation_size()));
                drop(buffer);
            }
        }
        held.drain(1.min(held.len())..).for_each(|(number, buffer)| {
            expected.push(("buffer_free", number, buffer.allocation_size()));
        });
        drop(before);
        profiled.profiling_end()?;
        let open = held.len();
        drop(held);
        let rows = rows(&sink, |reader, out| memory(reader, &ReportFilter::default(), ReportFormat::Jsonl, out))?;
        let events = rows.iter().filter(|row| field(row, "type") == "\"memory_event\"").map(|row| {
            let number = |name: &str| field(row, name).parse::<u64>().expect("a number");
            (field(row, "event_type").trim_matches('"'), number("allocation_id"), number("length"))
        });
        assert_eq!(events.collect::<Vec<_>>(), expected);
        let summary = rows.iter().find(|row| field(row, "type") == "\"memory_summary\"").expect("a summary");
        assert_eq!(field(summary, "open_allocation_lifecycles"), open.to_string(), "{summary}");
    }
    Ok(())
}

/// A sink that hands over each chunk of events, and goes on when it is told to.
#[derive(Debug)]
struct Slow(Mutex<(Sender<()>, Receiver<()>)>);

impl ProfileSink for Slow {
    fn begin_session(&self, _: &ProfileChunkMetadata) -> Result<()> {
        Ok(())
    }

    fn write(&self, metadata: &ProfileChunkMetadata, _: &[&[u8]]) -> Result<()> {
        if metadata.content_type.ends_with("queue-events") {
            let (began, goes_on) = &*self.0.lock().unwrap();
            began.send(()).expect("the test listens");
            goes_on.recv().expect("the test answers");
        }
        Ok(())
    }

    fn end_session(&self, _: &ProfileChunkMetadata, _: u32) -> Result<()> {
        Ok(())
    }
}

#[test]
fn work_ends_while_the_sink_writes() -> Result<()> {
    let ((began, begins), (goes_on, waits)) = (channel(), channel());
    let sink: Arc<dyn ProfileSink> = Arc::new(Slow(Mutex::new((began, waits))));
    let device = ProfiledDevices::new().device(&eager_task());
    let data_families = ProfilingDataFamilies::QUEUE_EVENTS | ProfilingDataFamilies::HOST_EXECUTION_EVENTS;
    device.profiling_begin(&ProfilingOptions { data_families, sink: Some(sink), ..ProfilingOptions::default() })?;
    let line = device.create_semaphore(QueueAffinity::ANY, 0, SemaphoreFlags::DEFAULT)?;
    let point = |value| [Timepoint { semaphore: line.clone(), value }];
    device.queue_barrier(QueueAffinity::ANY, &[], &point(1), ExecuteFlags::empty())?;
    line.wait(1, None)?;
    // It waits for the host, so a worker ends it, while the sink is stuck.
    device.queue_barrier(QueueAffinity::ANY, &point(2), &point(3), ExecuteFlags::empty())?;
    let flush = thread::spawn({
        let device = device.clone();
        move || device.profiling_flush()
    });
    begins.recv().expect("the sink writes");
    line.signal(2)?;
    line.wait(3, Some(Instant::now() + Duration::from_secs(20)))?;
    goes_on.send(()).expect("the sink waits");
    flush.join().expect("no panic")?;
    goes_on.send(()).expect("the sink is there");
    device.profiling_end()
}

#[test]
fn what_a_device_does_not_measure_is_refused_by_name() -> Result<()> {
    let (profiled, sink) = (ProfiledDevices::new().device(&create_device("local-sync")?), sink()?);
    let none = profiled.profiling_flush().expect_err("no profile is open");
    assert_eq!(none.code(), StatusCode::FailedPrecondition);
    for family in [
        ProfilingDataFamilies::DISPATCH_EVENTS,
        ProfilingDataFamilies::DEVICE_QUEUE_EVENTS,
        ProfilingDataFamilies::COUNTER_RANGES,
        ProfilingDataFamilies::EXECUTABLE_TRACES,
        ProfilingDataFamilies::COMMAND_REGION_EVENTS,
    ] {
        let refused = profiled.profiling_begin(&options(&sink, &[family])).expect_err("it is not measured");
        assert_eq!(refused.code(), StatusCode::Unimplemented);
        assert!(refused.to_string().contains(&format!("{family:?}")), "{refused}");
    }
    profiled.profiling_begin(&options(&sink, &ALL))?;
    let again = profiled.profiling_begin(&options(&sink, &ALL)).expect_err("a profile is open");
    assert_eq!(again.code(), StatusCode::FailedPrecondition);
    profiled.profiling_end()
}
