//! Times of dispatches and submissions, as observers and statistics get them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use vireo_amdgpu::device::DeviceOptions;
use vireo_hal::{
    BufferRef, Device, DispatchConfig, DispatchFlags, DispatchTime, ExecutableFunction, ExecuteFlags, MemoryType,
    QueueAffinity, SubmissionTime, TimesObserver,
};
use vireo_hal_observe::ExecutionStatistics;

use super::support::{ADD, Machine, TestDevice, at, queue, wait, whole};

const DEVICE: MemoryType = MemoryType::DEVICE_LOCAL;

/// The queue, the submission, the kernel, its workgroups, and when it ran.
type Ran = (u32, u64, String, u64, (Duration, Duration));

/// An observer that keeps the events that it was told.
#[derive(Default)]
struct Seen {
    is_active: AtomicBool,
    dispatches: Mutex<Vec<Ran>>,
    submissions: Mutex<Vec<SubmissionTime>>,
}

impl TimesObserver for Seen {
    fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed)
    }

    fn dispatch(&self, time: &DispatchTime<'_>) {
        let DispatchTime { queue, submission, kernel, workgroups, times, counters: _ } = *time;
        let times = times.expect("the packet processor gives times");
        self.dispatches.lock().expect("no panic").push((queue, submission, kernel.to_string(), workgroups, times));
    }

    fn submission(&self, time: &SubmissionTime) {
        self.submissions.lock().expect("no panic").push(*time);
    }
}

#[test]
fn observers_learn_when_dispatches_and_submissions_ran() {
    let machine = Machine::new("agents=2");
    let device = machine.device("", &[]);
    let times = device.clone().device_times().expect("the library has them");
    let seen = Arc::new(Seen::default());
    let memory = device.buffer(4096, DEVICE);
    let line = device.timeline();
    let mut value = 0;
    let mut next = || {
        value += 1;
        ([at(&line, value - 1)], [at(&line, value)])
    };
    let fill = |(before, after): ([_; 1], [_; 1]), index: u32| device.fill(index, &before, &after, &memory, 1);
    // First without an observer, then with one that is not active.
    fill(next(), 0);
    times.observe(Some(seen.clone()));
    fill(next(), 0);
    wait(&line, 2);
    assert!(seen.submissions.lock().expect("no panic").is_empty());
    seen.is_active.store(true, Ordering::Relaxed);
    fill(next(), 0);
    fill(next(), 1);
    let (before, after) = next();
    device.queue_barrier(queue(0), &before, &after, ExecuteFlags::empty()).expect("submits");
    let (before, after) = next();
    let update = [9; 100 << 10];
    device
        .queue_update(queue(1), &before, &after, &update, &device.buffer(100 << 10, DEVICE), 0, Default::default())
        .expect("submits");
    wait(&line, 6);
    times.observe(None);
    fill(next(), 0);
    wait(&line, 7);
    let mut dispatches = seen.dispatches.lock().expect("no panic").clone();
    // Queues report when they like, each in its own order.
    dispatches.sort_by_key(|(queue, ..)| *queue);
    let submissions = seen.submissions.lock().expect("no panic").clone();
    let names: Vec<(u32, &str)> = dispatches.iter().map(|(queue, _, kernel, ..)| (*queue, kernel.as_str())).collect();
    let copies = names.len() - 2;
    assert_eq!(names[..2], [(0, "vireo_fill_x16"), (1, "vireo_fill_x16")]);
    assert!(copies > 1 && names[2..].iter().all(|name| *name == (1, "vireo_copy_x16")), "{names:?}");
    assert_eq!(dispatches[0].3, 1, "256 units of 16 bytes");
    assert!(dispatches.iter().all(|(.., (start, end))| start <= end && *start > Duration::ZERO));
    assert_eq!(submissions.iter().map(|time| time.dispatches as usize).sum::<usize>(), dispatches.len());
    for time in &submissions {
        assert!(time.submitted <= time.completed, "{time:?}");
        assert_eq!(time.times.is_some(), time.dispatches > 0, "{time:?}");
        let inside = |(start, end): (Duration, Duration)| time.submitted <= start && end <= time.completed;
        assert!(time.times.is_none_or(inside), "{time:?}");
    }
    // Submissions of a queue are reported in their order.
    for index in 0..2 {
        let numbers: Vec<u64> =
            submissions.iter().filter(|time| time.queue == index).map(|time| time.submission).collect();
        assert!(numbers.is_sorted(), "{numbers:?}");
    }
}

#[test]
fn statistics_count_kernels_of_the_gpu() {
    let machine = Machine::new("");
    let statistics = ExecutionStatistics::new();
    let device: Arc<dyn Device> = statistics.device(&machine.device("", &[]));
    let memory = [0, 1, 2].map(|_| device.buffer(128, DEVICE));
    let counts = device.buffer(64, DEVICE);
    device.write(&counts, &[1u32, 1, 1].map(u32::to_le_bytes).concat());
    let (executable, line) = (device.executable(), device.timeline());
    let direct = DispatchConfig { workgroup_count: [3, 1, 1], ..DispatchConfig::default() };
    let counts = BufferRef { buffer: Some(counts), slot: 0, offset: 0, length: 12 };
    let indirect = DispatchConfig { workgroup_count_ref: counts, ..DispatchConfig::default() };
    for value in 1..=4u64 {
        let (config, flags) = match value {
            4 => (&indirect, DispatchFlags::DYNAMIC_INDIRECT_PARAMETERS),
            _ => (&direct, DispatchFlags::empty()),
        };
        let (before, after) = ([at(&line, value - 1)], [at(&line, value)]);
        statistics.set_paused(value == 2);
        let (function, bindings) = (ExecutableFunction(ADD), memory.each_ref().map(whole));
        let any = QueueAffinity::ANY;
        device
            .queue_dispatch(any, &before, &after, &executable, function, config, &[32, 0, 32, 0], &bindings, flags)
            .expect("submits");
        wait(&line, value);
    }
    let all = statistics.dispatches();
    let of = |name: &str| {
        all.iter().find(|dispatch| dispatch.name.starts_with(name)).unwrap_or_else(|| panic!("{name}: {all:?}"))
    };
    assert_eq!((of("add").count, of("add").workgroups), (3, 6), "one was not counted, and one has its size in memory");
    assert_eq!((of("vireo_patch_grid").count, of("vireo_copy").count), (1, 1));
    assert!(of("add").time > Duration::ZERO);
    assert_eq!(device.read(&memory[2]), [0; 128]);
}

#[test]
fn a_library_without_times_is_not_observed() {
    let mut functions = vireo_softhsa::functions();
    functions.hsa_amd_profiling_get_dispatch_time = None;
    let machine = Machine::over("", None, functions, DeviceOptions::default());
    assert!(machine.device("", &[]).device_times().is_none());
}
