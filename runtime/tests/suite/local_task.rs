//! Properties of the `local-task` device: operations run on threads of its own, however few these are.

use std::sync::{Arc, mpsc};
use std::thread;

use vireo::hal::{
    Device, HostCall, HostCallContext, HostCallFlags, QueueAffinity, Semaphore, SemaphoreFlags, Timepoint,
    create_device, wait_all,
};
use vireo::status::StatusCode;
use vireo::{Result, Status};

fn one_worker() -> Arc<dyn Device> {
    create_device("local-task://?task_topology_group_count=1").expect("the device exists everywhere")
}

/// A function of the host.
struct Function<F>(F);

impl<F> std::fmt::Debug for Function<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("function")
    }
}

impl<F: Fn() -> Result<()> + Send + Sync + 'static> HostCall for Function<F> {
    fn call(&self, _context: HostCallContext, _signal: &[Timepoint]) -> Result<()> {
        (self.0)()
    }
}

fn timeline(device: &Arc<dyn Device>) -> Arc<dyn Semaphore> {
    device.create_semaphore(QueueAffinity::ANY, 0, SemaphoreFlags::DEFAULT).expect("is created")
}

fn at(semaphore: &Arc<dyn Semaphore>, value: u64) -> Timepoint {
    Timepoint { semaphore: semaphore.clone(), value }
}

fn call(
    device: &Arc<dyn Device>,
    wait: &[Timepoint],
    signal: &[Timepoint],
    function: impl Fn() -> Result<()> + Send + Sync + 'static,
) {
    let function: Arc<dyn HostCall> = Arc::new(Function(function));
    device
        .queue_host_call(QueueAffinity::ANY, wait, signal, &function, &[], HostCallFlags::empty())
        .expect("is submitted");
}

#[test]
fn calls_of_the_host_do_not_hold_up_who_submits_them() {
    let device = one_worker();
    let (sender, receiver) = mpsc::channel::<()>();
    let done = timeline(&device);
    let receiver = std::sync::Mutex::new(receiver);
    let submitter = thread::current().id();
    call(&device, &[], &[at(&done, 1)], move || {
        assert_ne!(thread::current().id(), submitter);
        receiver.lock().unwrap().recv().map_err(|_| Status::internal("nobody sends"))
    });
    // The call waits for this thread, which therefore must not run it.
    sender.send(()).expect("is received");
    done.wait(1, None).expect("is signaled");
}

#[test]
fn a_worker_that_waits_for_what_is_queued_does_not_stop_it() {
    let device = one_worker();
    let depth = 8;
    let lines: Vec<_> = (0..=depth).map(|_| timeline(&device)).collect();
    // Each call waits, on the only worker, for the one submitted after it.
    for index in 0..depth {
        let next = lines[index + 1].clone();
        call(&device, &[], &[at(&lines[index], 1)], move || next.wait(1, None));
    }
    call(&device, &[], &[at(&lines[depth], 1)], || Ok(()));
    let points: Vec<_> = lines.iter().map(|line| at(line, 1)).collect();
    wait_all(&points, None).expect("all are signaled");
    // Those that stood in are gone, and the worker is there again.
    let last = timeline(&device);
    call(&device, &[], &[at(&last, 1)], || Ok(()));
    last.wait(1, None).expect("is signaled");
}

#[test]
fn every_waiter_sees_the_root_cause() {
    let device = one_worker();
    let (cause, middle, end) = (timeline(&device), timeline(&device), timeline(&device));
    device
        .queue_barrier(QueueAffinity::ANY, &[at(&middle, 1)], &[at(&end, 1)], Default::default())
        .expect("is submitted");
    call(&device, &[at(&cause, 1)], &[at(&middle, 1)], || unreachable!());
    call(&device, &[], &[at(&cause, 1)], || Err(Status::data_loss("the disk is gone")));
    for line in [&cause, &middle, &end] {
        let failure = line.wait(1, None).expect_err("the call failed");
        assert_eq!((failure.code(), failure.message()), (StatusCode::DataLoss, "the disk is gone"));
    }
}

#[test]
fn a_call_that_panics_fails_what_waits_for_it() {
    let device = one_worker();
    let done = timeline(&device);
    call(&device, &[], &[at(&done, 1)], || panic!("a bug of the host"));
    assert_eq!(done.wait(1, None).expect_err("the call panicked").code(), StatusCode::Internal);
    let next = timeline(&device);
    call(&device, &[], &[at(&next, 1)], || Ok(()));
    next.wait(1, None).expect("the worker goes on");
}
