//! Traces of devices ([`ExecutionTrace`]): when each kernel ran, as JSON that Perfetto opens.
//! [`ExecutionStatistics`](crate::ExecutionStatistics) measures or observes that, and passes it on.
//!
//! A device that measures times itself is a process with a track for each queue. Dispatches of a queue that overlap are
//! on further tracks, since slices of one do not. Kernels that run on the host are slices of the threads that run them.
//! The clock of a device is compared with that of the host when its first submission is reported, so devices and the
//! host share a timeline up to the delay of that report.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use vireo_core::trace_events::{Argument, TraceEvents, Track};

use crate::hal::device_times::{DispatchTime, SubmissionTime};

/// The process of threads of the host; those of devices follow. Viewers have 0 for the idle process and its thread.
const HOST: u32 = 1;

/// Tracks of a queue at most.
const TRACKS_OF_QUEUE: u32 = 1024;

type Events = TraceEvents<Box<dyn Write + Send>>;

/// Writes when kernels of devices ran. See [`ExecutionStatistics::with_trace`](crate::ExecutionStatistics::with_trace).
pub struct ExecutionTrace {
    start: Instant,
    state: Mutex<State>,
}

struct State {
    /// None once the trace has ended.
    events: Option<Events>,
    /// The first error of the writer, after which nothing is written.
    error: Option<io::Error>,
    dispatches: u64,
    devices: u32,
    threads: HashMap<ThreadId, u32>,
}

impl fmt::Debug for ExecutionTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExecutionTrace")
    }
}

impl State {
    /// Writes events, unless the trace has ended or an error ended it.
    fn write(&mut self, write: impl FnOnce(&mut Events) -> io::Result<()>) {
        if self.error.is_none()
            && let Some(events) = &mut self.events
        {
            self.error = write(events).err();
        }
    }

    /// Counts a kernel whose slice it writes.
    fn write_slice(&mut self, write: impl FnOnce(&mut Events) -> io::Result<()>) {
        self.dispatches += u64::from(self.events.is_some());
        self.write(write);
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl ExecutionTrace {
    /// A trace to a writer.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn new(out: impl Write + Send + 'static) -> io::Result<Arc<ExecutionTrace>> {
        let out: Box<dyn Write + Send> = Box::new(out);
        let state = State {
            events: Some(TraceEvents::new(out)?),
            error: None,
            dispatches: 0,
            devices: 0,
            threads: HashMap::new(),
        };
        Ok(Arc::new(ExecutionTrace { start: Instant::now(), state: Mutex::new(state) }))
    }

    /// Ends the trace, and returns how many times a kernel is in it. What runs later is not written.
    ///
    /// # Errors
    /// The first error of the writer.
    pub fn finish(&self) -> io::Result<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let events = state.events.take();
        if let Some(error) = state.error.take() {
            return Err(error);
        }
        events.map_or(Ok(()), |events| events.finish().map(drop))?;
        Ok(state.dispatches)
    }

    fn with(&self, action: impl FnOnce(&mut State)) {
        action(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// A part of the workgroups of a dispatch ran on this thread.
    pub(crate) fn ran_on_host(&self, kernel: &str, workgroups: &Range<u64>, (start, end): (Instant, Instant)) {
        let moment = |time: Instant| nanoseconds(time.saturating_duration_since(self.start));
        self.with(|state| {
            let thread = std::thread::current();
            let next = state.threads.len() as u32 + 1;
            let number = *state.threads.entry(thread.id()).or_insert(next);
            let track = Track { process: HOST, thread: number };
            let count = workgroups.end.saturating_sub(workgroups.start);
            state.write_slice(|events| {
                if number == next {
                    if number == 1 {
                        events.name_process(HOST, "host")?;
                    }
                    events.name_track(track, thread.name().unwrap_or("thread"))?;
                }
                let arguments = [
                    ("first workgroup", Argument::Number(workgroups.start as i64)),
                    ("workgroups", Argument::Number(count as i64)),
                ];
                events.slice(track, kernel, (moment(start), moment(end)), &arguments)
            });
        });
    }

    /// The part of the trace for a device that measures times itself.
    pub(crate) fn device(self: &Arc<Self>, id: &str) -> DeviceTrace {
        let mut process = HOST;
        self.with(|state| {
            state.devices += 1;
            process = HOST + state.devices;
            state.write(|events| events.name_process(process, id));
        });
        DeviceTrace { trace: self.clone(), process, queues: Mutex::default() }
    }
}

/// The part of a trace that a device writes.
pub(crate) struct DeviceTrace {
    trace: Arc<ExecutionTrace>,
    process: u32,
    queues: Mutex<Queues>,
}

#[derive(Default)]
struct Queues {
    /// The difference of the host's clock to the device's, in nanoseconds, once that is known.
    offset: Option<i128>,
    all: HashMap<u32, QueueTrace>,
}

/// A queue in a trace.
#[derive(Default)]
struct QueueTrace {
    /// Dispatches of the submission that is reported next.
    reported: Vec<Reported>,
    /// When the last slice of each of its tracks ended.
    ends: Vec<u64>,
}

struct Reported {
    kernel: String,
    workgroups: u64,
    times: Option<(Duration, Duration)>,
}

impl QueueTrace {
    /// The track for a slice, and whether it is a new one.
    fn track(&mut self, (begin, end): (u64, u64)) -> (u32, bool) {
        let free = self.ends.iter().position(|last| *last <= begin);
        let (index, is_new) = match free {
            Some(index) => (index, false),
            None => (self.ends.len(), true),
        };
        if is_new {
            self.ends.push(end);
        } else {
            self.ends[index] = end;
        }
        ((index as u32).min(TRACKS_OF_QUEUE - 1), is_new)
    }
}

impl DeviceTrace {
    /// A dispatch of the submission that is reported next.
    pub(crate) fn dispatch(&self, time: &DispatchTime<'_>) {
        let DispatchTime { queue, submission: _, kernel, workgroups, times, counters: _ } = *time;
        let reported = Reported { kernel: kernel.to_string(), workgroups, times };
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.all.entry(queue).or_default().reported.push(reported);
    }

    /// A submission, after its dispatches.
    pub(crate) fn submission(&self, time: &SubmissionTime) {
        let now = i128::from(nanoseconds(self.trace.start.elapsed()));
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let offset = *queues.offset.get_or_insert(now - i128::from(nanoseconds(time.completed)));
        let moment = |time: Duration| {
            let time = i128::from(nanoseconds(time)) + offset;
            u64::try_from(time.max(0)).unwrap_or(u64::MAX)
        };
        let queue = queues.all.entry(time.queue).or_default();
        let mut dispatches = std::mem::take(&mut queue.reported);
        // Slices of a track are written one after the other.
        dispatches.sort_by_key(|dispatch| dispatch.times);
        let first_track = time.queue.saturating_mul(TRACKS_OF_QUEUE).saturating_add(1);
        let track_at = |index: u32| Track { process: self.process, thread: first_track.saturating_add(index) };
        let number = ("submission", Argument::Number(time.submission as i64));
        self.trace.with(|state| {
            let count = ("dispatches", Argument::Number(time.dispatches.into()));
            state.write(|events| events.mark(track_at(0), "submitted", moment(time.submitted), &[number, count]));
            for Reported { kernel, workgroups, times } in &dispatches {
                let name = if kernel.is_empty() { "a kernel without a name" } else { kernel };
                let Some((begin, end)) = *times else {
                    let arguments = [number, ("times", Argument::Text("the device did not measure them"))];
                    state.write(|events| events.mark(track_at(0), name, moment(time.completed), &arguments));
                    continue;
                };
                let (begin, end) = (moment(begin), moment(end));
                let (index, is_new) = queue.track((begin, end));
                let track = track_at(index);
                let mut arguments = vec![number];
                if *workgroups != 0 {
                    arguments.push(("workgroups", Argument::Number(*workgroups as i64)));
                }
                state.write_slice(|events| {
                    if is_new {
                        let overlapping = if index == 0 { String::new() } else { format!(", overlap {index}") };
                        events.name_track(track, &format!("queue {}{overlapping}", time.queue))?;
                    }
                    events.slice(track, name, (begin, end), &arguments)
                });
            }
            state.write(|events| events.mark(track_at(0), "completed", moment(time.completed), &[number]));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer whose bytes the test sees.
    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A writer that is full.
    struct Full;

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // The first line is that of the format.
            if bytes.starts_with(b"{\"displayTimeUnit") {
                Ok(bytes.len())
            } else {
                Err(io::ErrorKind::StorageFull.into())
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    const fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    fn report(device: &DeviceTrace, submission: u64, dispatches: &[(&str, Option<(u64, u64)>)], completed: u64) {
        for (kernel, times) in dispatches {
            let times = times.map(|(begin, end)| (ms(begin), ms(end)));
            device.dispatch(&DispatchTime { queue: 2, submission, kernel, workgroups: 3, times, counters: &[] });
        }
        let (dispatches, submitted, completed) = (dispatches.len() as u32, ms(completed - 40), ms(completed));
        device.submission(&SubmissionTime { queue: 2, submission, dispatches, submitted, times: None, completed });
    }

    #[test]
    fn dispatches_that_overlap_are_on_tracks_of_their_own() {
        let out = Shared::default();
        let mut trace = ExecutionTrace::new(out.clone()).unwrap();
        // The device has run for longer than the trace; what it reports has happened since the trace began.
        Arc::get_mut(&mut trace).unwrap().start -= ms(1000);
        let device = trace.device("gpu");
        // Reported in another order than they began in.
        report(&device, 1, &[("b", Some((1005, 1009))), ("a", Some((1000, 1010))), ("c", Some((1010, 1020)))], 1030);
        report(&device, 2, &[("d", Some((1012, 1015))), ("", Some((1015, 1016))), ("e", None)], 1040);
        assert_eq!(trace.finish().unwrap(), 5);
        report(&device, 3, &[("f", Some((1050, 1060)))], 1070);
        assert_eq!(trace.finish().unwrap(), 5, "it has ended");

        let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
        let field = |line: &str, name: &str| {
            let (_, rest) = line.split_once(&format!("\"{name}\":")).unwrap_or_else(|| panic!("{name}: {line}"));
            rest.split([',', '}']).next().unwrap().trim_matches('"').to_string()
        };
        let time = |line: &str| field(line, "ts").parse::<f64>().unwrap();
        let of_phase = |phase: &str| {
            let wanted = format!("{{\"ph\":\"{phase}\"");
            text.lines().filter(|line| line.starts_with(&wanted)).map(str::to_string).collect::<Vec<_>>()
        };
        let (begins, ends) = (of_phase("B"), of_phase("E"));
        let places: Vec<(String, String)> =
            begins.iter().map(|line| (field(line, "name"), field(line, "tid"))).collect();
        let expected = [("a", 2049), ("b", 2050), ("c", 2049), ("d", 2050), ("a kernel without a name", 2050)];
        assert_eq!(places, expected.map(|(name, track)| (name.to_string(), track.to_string())), "{text}");
        let origin = time(&begins[0]);
        for (index, (begin, end)) in
            [(0.0, 10.0), (5.0, 9.0), (10.0, 20.0), (12.0, 15.0), (15.0, 16.0)].iter().enumerate()
        {
            let times = [&begins[index], &ends[index]].map(|line| (time(line) - origin) / 1000.0);
            assert!((times[0] - begin).abs() < 0.01 && (times[1] - end).abs() < 0.01, "{times:?}: {text}");
        }
        let names: Vec<String> = of_phase("M").iter().map(|line| field(line, "args")).collect();
        assert_eq!(names, ["{\"name\":\"gpu", "{\"name\":\"queue 2", "{\"name\":\"queue 2"], "{text}");
        let marks: Vec<String> = of_phase("i").iter().map(|line| field(line, "name")).collect();
        assert_eq!(marks, ["submitted", "completed", "submitted", "e", "completed"], "{text}");
    }

    #[test]
    fn what_runs_on_the_host_is_on_the_track_of_its_thread() {
        let out = Shared::default();
        let trace = ExecutionTrace::new(out.clone()).unwrap();
        let other = trace.clone();
        let start = Instant::now();
        trace.ran_on_host("first", &(0..4), (start, start + ms(1)));
        std::thread::spawn(move || other.ran_on_host("second", &(4..8), (start, start + ms(1)))).join().unwrap();
        trace.ran_on_host("third", &(0..1), (start + ms(1), start + ms(2)));
        assert_eq!(trace.finish().unwrap(), 3);
        let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
        for (name, track) in [("first", 1), ("second", 2), ("third", 1)] {
            assert!(text.contains(&format!("{{\"ph\":\"B\",\"pid\":1,\"tid\":{track},\"name\":\"{name}\"")), "{text}");
        }
        assert_eq!(text.matches("thread_name").count(), 2, "{text}");
        assert!(text.ends_with("]}\n"), "{text}");
    }

    #[test]
    fn an_error_of_the_writer_is_told_at_the_end() {
        let trace = ExecutionTrace::new(Full).unwrap();
        let start = Instant::now();
        trace.ran_on_host("first", &(0..1), (start, start));
        trace.ran_on_host("second", &(0..1), (start, start));
        assert_eq!(trace.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
