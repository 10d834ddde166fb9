//! Queues that must not hang: full rings beside failures, devices that end anywhere, kernels that do not end, callbacks
//! that panic. Each test fails after a minute rather than hang.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use vireo_core::limits::{Cancellation, Limits, scope};
use vireo_core::status::{Status, StatusCode};
use vireo_hal::{
    Device, DispatchConfig, DispatchFlags, DispatchTime, ExecutableFunction, ExecuteFlags, MemoryType, Semaphore,
    SubmissionTime, Timepoint, TimesObserver,
};

use super::support::{ABS, Machine, TestDevice, at, in_time, queue, soon, whole};

const DEVICE: MemoryType = MemoryType::DEVICE_LOCAL;

/// The kernel of the function `ABS`.
const ABS_KERNEL: &str = "abs_dispatch_0_elementwise_64_f32";

/// Submits the kernel of `ABS` to a queue.
fn dispatch(device: &Arc<dyn Device>, index: u32, wait: &[Timepoint], signal: &[Timepoint]) {
    let memory = device.buffer(256, DEVICE);
    let config = DispatchConfig { workgroup_count: [2, 1, 1], ..DispatchConfig::default() };
    let (executable, function, bindings) =
        (device.executable(), ExecutableFunction(ABS), [whole(&memory), whole(&memory)]);
    let flags = DispatchFlags::empty();
    device
        .queue_dispatch(queue(index), wait, signal, &executable, function, &config, &[], &bindings, flags)
        .expect("submits");
}

/// Fills the ring of queue 1 with a chain of barriers that begins after a point, on a thread.
fn fill_ring(device: &Arc<dyn Device>, behind: Timepoint, chain: Arc<dyn Semaphore>) -> thread::JoinHandle<()> {
    let device = device.clone();
    thread::spawn(move || {
        for value in 0..400u64 {
            let wait = if value == 0 { behind.clone() } else { at(&chain, value) };
            device.queue_barrier(queue(1), &[wait], &[at(&chain, value + 1)], ExecuteFlags::empty()).expect("submits");
        }
    })
}

/// The ring of queue 1 is full of what waits for a kernel of queue 0 that traps, and a thread waits for room. An
/// operation of queue 1 that was held back becomes ready by an earlier completion of queue 0.
#[test]
fn the_failure_of_a_queue_while_another_is_full_ends_all_waits() {
    in_time(|| {
        let machine = Machine::with("", Some(ABS_KERNEL));
        let device = machine.device("", &[("amdgpu_queues", "2"), ("amdgpu_queue_packets", "256")]);
        let [memory, other] = [0, 1].map(|_| device.buffer(256, DEVICE));
        let [first, trap, full, parked] = [(); 4].map(|()| device.timeline());
        let held = machine.hold_kernels();
        device.fill(1, &[at(&first, 1)], &[at(&parked, 1)], &other, 5);
        device.fill(0, &[], &[at(&first, 1)], &memory, 1);
        dispatch(&device, 0, &[], &[at(&trap, 1)]);
        held.wait_for_kernel();
        let submitter = fill_ring(&device, at(&trap, 1), full.clone());
        thread::sleep(Duration::from_millis(500));
        assert!(!submitter.is_finished(), "the ring has 256 slots");
        held.let_one_pass();
        soon(&first, 1).expect("its kernel ran");
        drop(held);
        let failure = soon(&trap, 1).expect_err("the kernel trapped");
        assert!(failure.message().contains("stopped with"), "{failure}");
        submitter.join().expect("it submits all");
        for (line, value) in [(&full, 1), (&full, 400)] {
            let failure = soon(line, value).expect_err("what it waits for failed");
            assert!(failure.message().contains("stopped with"), "{failure}");
        }
        soon(&parked, 1).expect("its queue has not failed");
    });
}

/// While queue 1 is full, completions of queue 0 reach the host.
#[test]
fn completions_reach_the_host_while_another_queue_is_full() {
    in_time(|| {
        let machine = Machine::new("");
        let device = machine.device("", &[("amdgpu_queues", "2"), ("amdgpu_queue_packets", "256")]);
        let [memory, other] = [0, 1].map(|_| device.buffer(256, DEVICE));
        let [first, second, third, full, parked] = [(); 5].map(|()| device.timeline());
        let held = machine.hold_kernels();
        device.fill(1, &[at(&first, 1)], &[at(&parked, 1)], &other, 5);
        device.fill(0, &[], &[at(&first, 1)], &memory, 1);
        device.fill(0, &[], &[at(&second, 1)], &memory, 2);
        device.fill(0, &[], &[at(&third, 1)], &memory, 3);
        held.wait_for_kernel();
        let submitter = fill_ring(&device, at(&third, 1), full.clone());
        thread::sleep(Duration::from_millis(500));
        held.let_one_pass();
        soon(&first, 1).expect("its kernel ran");
        held.let_one_pass();
        soon(&second, 1).expect("its kernel ran, and queue 1 is another queue");
        assert!(!submitter.is_finished() && third.query().expect("it did not fail") == 0);
        drop(held);
        submitter.join().expect("it submits all");
        soon(&full, 400).expect("all of it ran");
        soon(&parked, 1).expect("it ran");
    });
}

/// A device of two queues ends on the completion thread of one, while the other one has work that waits for the first.
#[test]
fn a_device_ends_on_a_completion_thread_with_work_across_queues() {
    in_time(|| {
        let machine = Machine::new("");
        let device = machine.device("", &[("amdgpu_queues", "2")]);
        let memory = device.buffer(64, DEVICE);
        let [s1, s2, s3] = [(); 3].map(|()| device.timeline());
        let held = machine.hold_kernels();
        device.fill(0, &[], &[at(&s1, 1)], &memory, 1);
        device.fill(0, &[], &[at(&s2, 1)], &memory, 2);
        device.fill(1, &[at(&s2, 1)], &[at(&s3, 1)], &memory, 3);
        held.wait_for_kernel();
        drop(memory);
        let (sender, ended) = mpsc::channel();
        let last = Mutex::new(Some((device, sender)));
        let end = move |_: Result<(), Status>| {
            let (device, sender) = last.lock().expect("no panic").take().expect("called once");
            drop(device);
            sender.send(()).expect("somebody listens");
        };
        s1.notify(1, Box::new(end));
        held.let_one_pass();
        soon(&s1, 1).expect("its kernel ran");
        ended.recv_timeout(Duration::from_secs(20)).expect("the device ends while kernels are held");
        drop(held);
        soon(&s2, 1).expect("its kernel ran");
        soon(&s3, 1).expect("its kernel ran");
    });
}

/// A submission waits for more queues than fit one part. Their devices end before the packets that wait have run.
#[test]
fn waits_for_many_queues_keep_their_signals() {
    in_time(|| {
        let machine = Machine::new("queues=200");
        let others = [(); 5].map(|()| machine.device("", &[("amdgpu_queues", "16")]));
        let [device, starter] = [(); 2].map(|()| machine.device("", &[]));
        let memory = device.buffer(64, DEVICE);
        let [start, busy, done] = [starter.timeline(), device.timeline(), device.timeline()];
        // The kernel of `device` runs until it may end, that of `starter` is held.
        machine.never_ends(Some(ABS_KERNEL));
        dispatch(&device, 0, &[], &[at(&busy, 1)]);
        let held = machine.hold_kernels();
        starter.fill(0, &[], &[at(&start, 1)], &memory, 9);
        held.wait_for_kernel();
        let mut points = Vec::new();
        for other in &others {
            for index in 0..16 {
                let line = other.timeline();
                let flags = ExecuteFlags::empty();
                other.queue_barrier(queue(index), &[at(&start, 1)], &[at(&line, 1)], flags).expect("submits");
                points.push(at(&line, 1));
            }
        }
        device.fill(0, &points, &[at(&done, 1)], &memory, 2);
        drop(held);
        soon(&start, 1).expect("its kernel ran");
        for point in &points {
            soon(&point.semaphore, 1).expect("it is reached");
        }
        drop((points, others));
        thread::sleep(Duration::from_millis(300));
        assert_eq!(busy.query().expect("it did not fail"), 0, "its kernel runs");
        machine.never_ends(None);
        soon(&busy, 1).expect("its kernel ran");
        soon(&done, 1).expect("its packets find the signals that they wait for");
    });
}

/// A time limit ends a kernel that does not end by itself; the error names it, and the device is as good as new.
#[test]
fn a_deadline_or_a_cancellation_ends_a_kernel_that_does_not_end() {
    in_time(|| {
        let machine = Machine::new("");
        let device = machine.device("", &[("amdgpu_queues", "2")]);
        for is_cancelled in [false, true] {
            machine.never_ends(Some(ABS_KERNEL));
            let cancellation = Cancellation::new();
            let limits = if is_cancelled {
                Limits { cancellation: Some(cancellation.clone()), ..Limits::default() }
            } else {
                Limits { timeout: Some(Duration::from_millis(300)), ..Limits::default() }
            };
            let (line, behind, across) = (device.timeline(), device.timeline(), device.timeline());
            let begin = Instant::now();
            {
                let _started = scope::start(&limits).expect("there are limits");
                dispatch(&device, 0, &[], &[at(&line, 1)]);
            }
            // Work of others behind it, and on another queue.
            let memory = device.buffer(64, DEVICE);
            device.fill(0, &[], &[at(&behind, 1)], &memory, 1);
            device.fill(1, &[at(&line, 1)], &[at(&across, 1)], &memory, 1);
            if is_cancelled {
                thread::sleep(Duration::from_millis(100));
                cancellation.cancel();
            }
            let failure = soon(&line, 1).expect_err("the kernel does not end");
            let code = if is_cancelled { StatusCode::Cancelled } else { StatusCode::DeadlineExceeded };
            assert_eq!(failure.code(), code, "{failure}");
            assert!(failure.message().contains(ABS_KERNEL), "{failure}");
            assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
            let failure = soon(&behind, 1).expect_err("its queue was ended");
            assert_eq!(failure.code(), StatusCode::Aborted, "{failure}");
            assert!(failure.message().contains(ABS_KERNEL), "{failure}");
            assert!(soon(&across, 1).is_err(), "what it waits for failed");
            // The next call has a queue that works.
            machine.never_ends(None);
            let after = device.timeline();
            dispatch(&device, 0, &[], &[at(&after, 1)]);
            soon(&after, 1).expect("the device is usable");
            assert_eq!(device.read(&memory).len(), 64);
        }
    });
}

/// A device that is dropped while a kernel does not end: the drop returns, the kernel is ended, and who waits learns
/// its name.
#[test]
fn the_drop_of_a_device_ends_a_kernel_that_does_not_end() {
    in_time(|| {
        let machine = Machine::new("");
        let device = machine.device("", &[("amdgpu_drop_ms", "200")]);
        machine.never_ends(Some(ABS_KERNEL));
        let line = device.timeline();
        dispatch(&device, 0, &[], &[at(&line, 1)]);
        let begin = Instant::now();
        drop(device);
        let failure = soon(&line, 1).expect_err("the kernel does not end");
        assert!(failure.message().contains(ABS_KERNEL), "{failure}");
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    });
}

/// More work-group memory than the GPU has is refused with both numbers, and the queue goes on.
#[test]
fn too_much_work_group_memory_is_refused() {
    let machine = Machine::new("");
    let device = machine.device("", &[]);
    let memory = device.buffer(256, DEVICE);
    let (executable, bindings) = (device.executable(), [whole(&memory), whole(&memory)]);
    let local = 1 << 20;
    let config =
        DispatchConfig { workgroup_count: [2, 1, 1], dynamic_workgroup_local_memory: local, ..Default::default() };
    let (line, function, flags) = (device.timeline(), ExecutableFunction(ABS), DispatchFlags::empty());
    let refused = device
        .queue_dispatch(queue(0), &[], &[at(&line, 1)], &executable, function, &config, &[], &bindings, flags)
        .expect_err("there is not so much");
    assert_eq!(refused.code(), StatusCode::InvalidArgument, "{refused}");
    assert!(refused.message().contains("1048576") && refused.message().contains("65536"), "{refused}");
    let after = device.timeline();
    device.fill(0, &[], &[at(&after, 1)], &memory, 2);
    soon(&after, 1).expect("the queue goes on");
}

/// The cancellation of a call ends its wait for room in the ring.
#[test]
fn a_cancellation_ends_back_pressure() {
    in_time(|| {
        let machine = Machine::new("");
        let device = machine.device("", &[("amdgpu_queue_packets", "256")]);
        let memory = device.buffer(64, DEVICE);
        let held = machine.hold_kernels();
        let cancellation = Cancellation::new();
        let limits = Limits { cancellation: Some(cancellation.clone()), ..Limits::default() };
        let (sender, submitted) = mpsc::channel();
        let (of_thread, same) = (device.clone(), memory.clone());
        let submitter = thread::spawn(move || {
            let line = of_thread.timeline();
            // The first kernel, which is held, is of a call without limits.
            of_thread.fill(0, &[], &[at(&line, 1)], &same, 1);
            let _started = scope::start(&limits).expect("there are limits");
            for value in 1..1000u64 {
                of_thread.fill(0, &[], &[at(&line, value + 1)], &same, 1);
            }
            sender.send(line).expect("somebody listens");
        });
        held.wait_for_kernel();
        assert!(submitted.recv_timeout(Duration::from_millis(300)).is_err(), "the ring has 256 slots");
        cancellation.cancel();
        let line = submitted.recv_timeout(Duration::from_secs(5)).expect("it does not wait any more");
        drop(held);
        submitter.join().expect("it submits all");
        let failure = soon(&line, 1000).expect_err("the call was cancelled");
        assert_eq!(failure.code(), StatusCode::Cancelled, "{failure}");
        let after = device.timeline();
        device.fill(0, &[], &[at(&after, 1)], &memory, 2);
        soon(&after, 1).expect("the queue goes on");
    });
}

/// A wait for a value that the host signals does not wait for a later one that a queue will reach.
#[test]
fn a_wait_for_a_value_that_the_host_signals_ends_at_once() {
    in_time(|| {
        let machine = Machine::new("");
        let device = machine.device("", &[("amdgpu_queues", "2")]);
        let memory = device.buffer(64, DEVICE);
        let [line, across, same] = [(); 3].map(|()| device.timeline());
        let held = machine.hold_kernels();
        device.fill(0, &[], &[at(&line, 7)], &memory, 1);
        held.wait_for_kernel();
        device.queue_barrier(queue(1), &[at(&line, 5)], &[at(&across, 1)], ExecuteFlags::empty()).expect("submits");
        device.queue_barrier(queue(0), &[at(&line, 6)], &[at(&same, 1)], ExecuteFlags::empty()).expect("submits");
        line.signal(5).expect("advances");
        soon(&across, 1).expect("5 is reached");
        assert_eq!(same.query().expect("it did not fail"), 0, "6 is not");
        drop(held);
        soon(&same, 1).expect("7 is reached");
    });
}

/// An observer that panics each time that it is told of something.
struct Panics;

impl TimesObserver for Panics {
    fn is_active(&self) -> bool {
        true
    }

    fn dispatch(&self, _time: &DispatchTime<'_>) {
        panic!("an observer of dispatches, on purpose");
    }

    fn submission(&self, _time: &SubmissionTime) {
        panic!("an observer of submissions, on purpose");
    }
}

/// Code of the host that panics on a completion thread stops nothing else.
#[test]
fn panics_of_the_host_do_not_end_completions() {
    in_time(|| {
        let machine = Machine::new("");
        let device = machine.device("", &[("amdgpu_queues", "2")]);
        let memory = device.buffer(64, DEVICE);
        let [line, other, parked] = [(); 3].map(|()| device.timeline());
        let held = machine.hold_kernels();
        line.notify(1, Box::new(|_| panic!("a callback of the host, on purpose")));
        // These are behind the callback: a subscriber of the same point, and another point of the same operation.
        let (sender, told) = mpsc::channel();
        line.notify(1, Box::new(move |_| sender.send(()).expect("somebody listens")));
        device.fill(1, &[at(&line, 1), at(&other, 1)], &[at(&parked, 1)], &memory, 3);
        device.fill(0, &[], &[at(&line, 1), at(&other, 1)], &memory, 1);
        drop(held);
        soon(&line, 1).expect("its kernel ran");
        soon(&other, 1).expect("the point after the one whose callback panics");
        told.recv_timeout(Duration::from_secs(20)).expect("the subscriber after the one that panics");
        soon(&parked, 1).expect("what waited for it");
        let times = device.clone().device_times().expect("the library has them");
        times.observe(Some(Arc::new(Panics)));
        for value in 2..5 {
            device.fill(0, &[], &[at(&line, value)], &memory, 2);
            soon(&line, value).expect("the queue goes on");
        }
        times.observe(None);
    });
}
