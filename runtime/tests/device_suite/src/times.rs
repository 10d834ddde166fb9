//! Times that devices measure themselves: observers learn when submissions and dispatches ran, and statistics count
//! kernels. Devices whose kernels run on the host have none.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use vireo::hal::*;

use super::dispatches::{grid, kernels, multiply, multiply_constants, over};
use super::*;

/// The submission, the kernel, its workgroups, and when it ran.
type Ran = (u64, String, u64, (Duration, Duration));

/// An observer that keeps what it was told.
#[derive(Default)]
struct Seen {
    is_active: AtomicBool,
    wants_no_dispatches: AtomicBool,
    dispatches: Mutex<Vec<Ran>>,
    submissions: Mutex<Vec<SubmissionTime>>,
}

impl Seen {
    fn take(&self) -> (Vec<Ran>, Vec<SubmissionTime>) {
        let mut dispatches = self.dispatches.lock().expect("no panic");
        let mut submissions = self.submissions.lock().expect("no panic");
        (std::mem::take(&mut dispatches), std::mem::take(&mut submissions))
    }
}

impl TimesObserver for Seen {
    fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed)
    }

    fn wants_dispatches(&self) -> bool {
        !self.wants_no_dispatches.load(Ordering::Relaxed)
    }

    fn dispatch(&self, time: &DispatchTime<'_>) {
        let DispatchTime { submission, kernel, workgroups, times, .. } = *time;
        let times = times.expect("the device measures them");
        self.dispatches.lock().expect("no panic").push((submission, kernel.to_string(), workgroups, times));
    }

    fn submission(&self, time: &SubmissionTime) {
        self.submissions.lock().expect("no panic").push(*time);
    }
}

/// A device with times, a command buffer of dispatches and fills in turn, and what it needs.
struct Program {
    device: Arc<dyn Device>,
    commands: Arc<dyn CommandBuffer>,
    line: Arc<dyn Semaphore>,
    value: u64,
}

/// Dispatches of the command buffer.
const DISPATCHES: u32 = 6;

impl Program {
    /// None for a device that measures nothing.
    fn of(backend: &Backend) -> Option<(Program, Arc<dyn DeviceTimes>)> {
        let device = backend.device();
        let times = device.clone().device_times()?;
        let executable = kernels(backend, &*device)?;
        let memory = [0; 4].map(|_| buffer_of(&*device, &[0; 256]));
        let bindings = [whole(&memory[0]), whole(&memory[1]), whole(&memory[2])];
        let commands = record(&*device, CommandBufferMode::empty(), 0);
        let function = multiply(&*executable);
        for _ in 0..DISPATCHES {
            let (constants, flags) = (multiply_constants(64), DispatchFlags::empty());
            commands
                .dispatch(&executable, function, &over(backend, 64), &constants, &bindings, flags)
                .expect("is recorded");
            barrier(&*commands).expect("is recorded");
            commands.fill_buffer(&whole(&memory[3]), &[1], FillFlags::empty()).expect("is recorded");
            barrier(&*commands).expect("is recorded");
        }
        commands.end().expect("ends");
        let line = timeline(&*device);
        Some((Program { device, commands, line, value: 0 }, times))
    }

    /// Executes the commands, and waits for that.
    fn run(&mut self) {
        self.value += 1;
        let (before, after) = ([point(&self.line, self.value - 1)], [point(&self.line, self.value)]);
        self.device.queue_execute(ANY, &before, &after, &self.commands, &[], ExecuteFlags::empty()).expect("submits");
        self.line.wait(self.value, in_time()).expect("is reached");
    }
}

pub fn observers_learn_when_work_ran(backend: &Backend) {
    let Some((mut program, times)) = Program::of(backend) else { return };
    let seen = Arc::new(Seen::default());
    // First without an observer, then with one that is not active.
    program.run();
    times.observe(Some(seen.clone()));
    program.run();
    let (dispatches, submissions) = seen.take();
    assert!(dispatches.is_empty() && submissions.is_empty(), "{dispatches:?} {submissions:?}");
    seen.is_active.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        program.run();
    }
    let (dispatches, submissions) = seen.take();
    // Devices may do fills by kernels of their own.
    let own: Vec<&Ran> = dispatches.iter().filter(|(_, kernel, ..)| kernel.starts_with("multiply")).collect();
    assert_eq!(own.len(), 3 * DISPATCHES as usize, "{dispatches:?}");
    assert!(own.iter().all(|(_, _, workgroups, _)| *workgroups == 2), "{own:?}");
    let spans: Vec<(Duration, Duration)> = own.iter().map(|(.., span)| *span).collect();
    assert!(spans.iter().all(|(start, end)| start <= end), "{spans:?}");
    assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "one after the other: {spans:?}");
    assert_eq!(submissions.iter().map(|time| time.dispatches as usize).sum::<usize>(), dispatches.len());
    for time in &submissions {
        assert!(time.submitted <= time.completed, "{time:?}");
        let inside = |(start, end): (Duration, Duration)| time.submitted <= start && end <= time.completed;
        assert!(time.times.is_none_or(inside), "{time:?}");
        let all = || dispatches.iter().filter(|(submission, ..)| *submission == time.submission).map(|(.., span)| span);
        let (first, last) = (all().map(|span| span.0).min(), all().map(|span| span.1).max());
        let whole = time.times.expect("the device measures them");
        assert!(first.is_none_or(|first| whole.0 <= first) && last.is_none_or(|last| last <= whole.1), "{time:?}");
    }
    assert!(submissions.is_sorted_by_key(|time| time.submission), "{submissions:?}");
    times.observe(None);
    program.run();
    assert!(seen.take().1.is_empty(), "it observes no more");
}

pub fn observers_may_want_submissions_alone(backend: &Backend) {
    let Some((mut program, times)) = Program::of(backend) else { return };
    let seen = Arc::new(Seen::default());
    seen.is_active.store(true, Ordering::Relaxed);
    seen.wants_no_dispatches.store(true, Ordering::Relaxed);
    times.observe(Some(seen.clone()));
    for _ in 0..3 {
        program.run();
    }
    let (dispatches, submissions) = seen.take();
    assert!(dispatches.is_empty(), "{dispatches:?}");
    assert!(submissions.iter().map(|time| time.dispatches).sum::<u32>() >= 3 * DISPATCHES, "{submissions:?}");
    assert!(submissions.iter().all(|time| time.times.is_some()), "{submissions:?}");
}

pub fn statistics_count_kernels(backend: &Backend) {
    let inner = backend.device();
    let Some(executable) = inner.clone().device_times().and_then(|_| kernels(backend, &*inner)) else { return };
    let statistics = ExecutionStatistics::new();
    let device = statistics.device(&inner);
    let memory = [0; 3].map(|_| buffer_of(&*device, &[1; 256]));
    let (function, line) = (multiply(&*executable), timeline(&*device));
    for value in 1..=4 {
        // The second one is not counted, and the third has no workgroups, so it does not run.
        statistics.set_paused(value == 2);
        let config = if value == 3 { grid(0) } else { over(backend, 64) };
        let (before, after) = ([point(&line, value - 1)], [point(&line, value)]);
        let (constants, bindings) = (multiply_constants(64), memory.each_ref().map(whole));
        let flags = DispatchFlags::empty();
        device
            .queue_dispatch(ANY, &before, &after, &executable, function, &config, &constants, &bindings, flags)
            .expect("submits");
        line.wait(value, in_time()).expect("is reached");
    }
    let all = statistics.dispatches();
    let counted = all.iter().find(|dispatch| dispatch.name.starts_with("multiply"));
    let counted = counted.unwrap_or_else(|| panic!("{all:?}"));
    assert_eq!((counted.count, counted.workgroups), (2, 4));
    assert!(counted.time > Duration::ZERO);
    assert!(statistics.operations().iter().any(|operation| operation.name == "queue_dispatch"));
}
