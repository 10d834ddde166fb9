//! Calls, fences and timelines in asynchronous tasks, with an executor that only this file has.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use vireo::hal::{Device, Fence, HostSemaphore, Semaphore, Timepoint, create_device};
use vireo::interp::Limits;
use vireo::{Result, Session, Status, StatusCode, inputs};

use super::{fixture, session};

/// Wakes a thread, and counts how often.
struct Unpark(Thread, AtomicUsize);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.unpark();
    }
}

/// The result of a future, and how often it was polled.
fn block_on<F: IntoFuture>(future: F) -> (F::Output, usize) {
    let unpark = Arc::new(Unpark(thread::current(), AtomicUsize::new(0)));
    let waker = Waker::from(unpark.clone());
    let mut future = pin!(future.into_future());
    let mut polls = 0;
    loop {
        polls += 1;
        let woken = unpark.1.load(Ordering::SeqCst);
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return (output, polls);
        }
        while unpark.1.load(Ordering::SeqCst) == woken {
            thread::park();
        }
    }
}

fn is_send<T: Send + 'static>(value: T) -> T {
    value
}

#[test]
fn calls_are_futures() -> Result<()> {
    for device in ["local-sync", "local-task"] {
        let open = |name| Session::builder().device(device).load(fixture(name));
        let (mlp, fences) = (open("mlp")?, open("fences")?);
        let x = vec![1.0f32; 8 * 64];
        let expected: Vec<f32> = mlp.call("mlp", inputs![([8, 64], &x)])?.get()?;
        let call = is_send(mlp.function("mlp")?.start(inputs![([8, 64], &x)])?);
        drop(x);
        assert_eq!(block_on(call).0?.get::<Vec<f32>>()?, expected);
        let call = is_send(fences.function("doubled_and_total")?.start(inputs![&[1, 2, 3]])?);
        let (doubled, total): (Vec<i32>, i32) = block_on(call).0?.get()?;
        assert_eq!((doubled, total), (vec![2, 4, 6], 12));
        let call = session("host").function("checked_ratio")?.start(inputs![-1, 3])?;
        let error = block_on(call).0.expect_err("the program fails").to_string();
        assert!(error.contains("the dividend must not be negative"), "{error}");
    }
    Ok(())
}

#[test]
fn a_call_that_waits_is_woken_by_the_timeline_and_polled_no_more_than_that() -> Result<()> {
    // `doubled` waits for the fence that it is given.
    let session = session("waits");
    let fence = Fence::create();
    let view = session.tensor(&vireo::inference::HostTensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0]))?;
    let signature = session.signature("doubled")?;
    assert_eq!(signature.arguments.len(), 2, "{signature}");
    let call = session.function("doubled")?.start(inputs![view, fence.to_ref()])?;
    let signal = thread::spawn(move || {
        thread::sleep(Duration::from_millis(20));
        fence.signal()
    });
    let (outputs, polls) = block_on(call);
    outputs?;
    signal.join().expect("signals")?;
    assert!(polls <= 3, "{polls}");
    Ok(())
}

#[test]
fn a_call_that_waits_ends_at_its_deadline() -> Result<()> {
    let limits = Limits { timeout: Some(Duration::from_millis(30)), ..Limits::default() };
    let session = Session::builder().device("local-sync").limits(limits).load(fixture("waits"))?;
    let fence = Fence::create();
    let view = session.tensor(&vireo::inference::HostTensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0]))?;
    let (outcome, polls) = block_on(session.function("doubled")?.start(inputs![view, fence.to_ref()])?);
    assert_eq!(outcome.expect_err("nobody signals").code(), StatusCode::DeadlineExceeded);
    assert!(polls <= 4, "{polls}");
    Ok(())
}

#[test]
fn a_call_that_is_dropped_releases_what_it_holds() -> Result<()> {
    let session = session("waits");
    let fence = Fence::create();
    let view = session.tensor(&vireo::inference::HostTensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0]))?;
    let mut call = Box::pin(session.function("doubled")?.start(inputs![&view, fence.to_ref()])?);
    let unpark = Arc::new(Unpark(thread::current(), AtomicUsize::new(0)));
    let waker = Waker::from(unpark.clone());
    assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert_eq!(Arc::strong_count(&unpark), 3);
    drop(call);
    drop(waker);
    // The timeline has forgotten the task.
    assert_eq!(Arc::strong_count(&unpark), 1);
    // The fence ends the operations of the program; then nothing refers to the argument any more.
    fence.signal()?;
    assert_eq!(unpark.1.load(Ordering::SeqCst), 0);
    assert!(view.into_elements::<f32>()?.is_in_place());
    Ok(())
}

#[test]
fn fences_and_points_of_timelines_are_futures() -> Result<()> {
    let semaphore: Arc<dyn Semaphore> = Arc::new(HostSemaphore::new(0));
    let point = |value| Timepoint { semaphore: semaphore.clone(), value };
    let (first, second, both) = (point(1), point(2), Fence::join(&[point(1), point(2)]));
    let same = semaphore.clone();
    let signal = thread::spawn(move || {
        thread::sleep(Duration::from_millis(5));
        same.signal(1).and_then(|()| same.signal(2))
    });
    block_on(is_send(first.into_future())).0?;
    block_on(second).0?;
    block_on(both).0?;
    signal.join().expect("signals")?;
    semaphore.fail(Status::data_loss("gone"));
    assert_eq!(block_on(point(3)).0.expect_err("the timeline failed").code(), StatusCode::DataLoss);
    Ok(())
}

#[test]
fn a_bounded_number_of_calls_is_in_flight() -> Result<()> {
    for device in ["local-sync", "local-task"] {
        let session = Session::builder().device(device).load(fixture("fences"))?;
        let function = session.function("doubled_and_total")?;
        let taken = AtomicUsize::new(0);
        let lists: Vec<[i32; 3]> = (0..100).map(|first| [first, 1, 1]).collect();
        let inputs = lists.iter().map(|list| {
            taken.fetch_add(1, Ordering::SeqCst);
            inputs![list]
        });
        let mut calls = function.start_each(inputs, 4);
        let mut totals = Vec::new();
        let collect = async {
            while let Some(outputs) = calls.next().await {
                totals.push(outputs?.get::<(Vec<i32>, i32)>()?.1);
                assert!(taken.load(Ordering::SeqCst) <= totals.len() + 4);
            }
            Ok::<_, Status>(())
        };
        block_on(collect).0?;
        assert_eq!(totals, (0..100).map(|first| 2 * (first + 2)).collect::<Vec<_>>());
    }
    Ok(())
}

/// Devices are what timelines come from in programs.
#[test]
fn timelines_of_devices_wake_tasks() -> Result<()> {
    let device: Arc<dyn Device> = create_device("local-task")?;
    let semaphore = device.create_semaphore(vireo::hal::QueueAffinity::ANY, 0, Default::default())?;
    let same = semaphore.clone();
    let signal = thread::spawn(move || {
        thread::sleep(Duration::from_millis(5));
        same.signal(7)
    });
    block_on(Timepoint { semaphore, value: 7 }).0?;
    signal.join().expect("signals")
}
