//! Timelines, and waiting for several of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use vireo::hal::*;
use vireo::{Status, StatusCode};

use super::*;

pub fn timelines_only_advance(backend: &Backend) {
    let device = backend.device();
    let line = device.create_semaphore(ANY, 3, SemaphoreFlags::DEFAULT).unwrap();
    assert_eq!(line.query().unwrap(), 3);
    for value in [0, 1, 3, SEMAPHORE_MAX_VALUE + 1, u64::MAX] {
        assert_eq!(code(line.signal(value)), StatusCode::InvalidArgument, "{value}");
    }
    line.signal(9).unwrap();
    assert_eq!(line.query().unwrap(), 9);
    line.signal(SEMAPHORE_MAX_VALUE).unwrap();
    assert_eq!(line.query().unwrap(), SEMAPHORE_MAX_VALUE);
    let compatible = device.semaphore_compatibility(&line);
    assert!(compatible.contains(SemaphoreCompatibility::HOST_WAIT | SemaphoreCompatibility::HOST_SIGNAL));
}

pub fn the_first_failure_stays(backend: &Backend) {
    let line = timeline(&*backend.device());
    line.signal(2).unwrap();
    line.fail(Status::data_loss("the disk is full"));
    line.fail(Status::internal("later"));
    for result in [line.wait(6, None), line.wait(1, in_time()), line.query().map(drop), line.signal(9)] {
        assert_eq!(result.unwrap_err().to_string(), "DATA_LOSS: the disk is full");
    }
}

pub fn waits_end_with_signals_and_failures(backend: &Backend) {
    let device = backend.device();
    let (line, failing) = (timeline(&*device), timeline(&*device));
    thread::scope(|scope| {
        let waits = [1, 2, 3].map(|value| {
            let line = &line;
            scope.spawn(move || line.wait(value, in_time()))
        });
        let failed = scope.spawn(|| failing.wait(1, None));
        line.signal(1).unwrap();
        line.signal(3).unwrap();
        failing.fail(Status::data_loss("gone"));
        for wait in waits {
            wait.join().unwrap().unwrap();
        }
        assert_eq!(failed.join().unwrap().unwrap_err().to_string(), "DATA_LOSS: gone");
    });
}

pub fn waits_with_a_deadline_that_passed_do_not_block(backend: &Backend) {
    let line = timeline(&*backend.device());
    line.signal(1).unwrap();
    line.wait(1, Some(Instant::now())).unwrap();
    assert_eq!(code(line.wait(2, Some(Instant::now()))), StatusCode::DeadlineExceeded);
    let points = [point(&line, 1), point(&line, 2)];
    assert_eq!(code(wait_all(&points, Some(Instant::now()))), StatusCode::DeadlineExceeded);
    wait_any(&points, Some(Instant::now())).unwrap();
    assert_eq!(code(wait_any(&points[1..], Some(Instant::now()))), StatusCode::DeadlineExceeded);
}

/// A time in the future that runs out, and one that does not.
pub fn waits_of_a_finite_time_end(backend: &Backend) {
    let line = timeline(&*backend.device());
    let begin = Instant::now();
    let soon = || Some(Instant::now() + Duration::from_millis(20));
    assert_eq!(code(line.wait(1, soon())), StatusCode::DeadlineExceeded);
    assert_eq!(code(wait_any(&[point(&line, 1), point(&line, 2)], soon())), StatusCode::DeadlineExceeded);
    assert!(begin.elapsed() >= Duration::from_millis(40));
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(5));
            line.signal(1).unwrap();
        });
        line.wait(1, in_time()).unwrap();
    });
    // Those who gave up have changed nothing.
    assert_eq!(line.query().unwrap(), 1);
}

pub fn callbacks_come_once(backend: &Backend) {
    let line = timeline(&*backend.device());
    let told = Arc::new(Mutex::new(Vec::new()));
    let notify = |value: u64| {
        let told = told.clone();
        line.notify(
            value,
            Box::new(move |outcome| {
                let outcome = outcome.map_err(|status| status.to_string());
                told.lock().unwrap().push((value, outcome));
            }),
        );
    };
    for value in [4, 2, 9] {
        notify(value);
    }
    line.signal(3).unwrap();
    notify(1);
    assert_eq!(*told.lock().unwrap(), [(2, Ok(())), (1, Ok(()))]);
    line.signal(5).unwrap();
    assert_eq!(told.lock().unwrap().len(), 3);
    line.fail(Status::data_loss("gone"));
    notify(10);
    let gone = || Err("DATA_LOSS: gone".to_string());
    assert_eq!(told.lock().unwrap()[2..], [(4, Ok(())), (9, gone()), (10, gone())]);
}

pub fn all_or_any_of_several_points(backend: &Backend) {
    let device = backend.device();
    let (a, b) = (timeline(&*device), timeline(&*device));
    let points = [point(&a, 2), point(&b, 1)];
    let (all, any) = (MultiWait::new(&points), MultiWait::any(&points));
    a.signal(1).unwrap();
    assert!(all.outcome().is_none() && any.outcome().is_none());
    b.signal(1).unwrap();
    any.wait(in_time()).unwrap();
    assert!(all.outcome().is_none());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| wait_all(&points, in_time()));
        a.signal(2).unwrap();
        waiting.join().unwrap().unwrap();
    });
    all.wait(in_time()).unwrap();

    // A failure ends both, but not a wait that is over.
    let points = [point(&a, 3), point(&b, 2)];
    let (all, failed) = (MultiWait::new(&points), MultiWait::any(&points));
    b.fail(Status::data_loss("gone"));
    for result in [all.wait(None), failed.wait(None), wait_all(&points, None), wait_any(&points, None)] {
        assert_eq!(result.unwrap_err().to_string(), "DATA_LOSS: gone");
    }
    assert_eq!(any.outcome().expect("an outcome").map_err(|status| status.to_string()), Ok(()));
    wait_all(&[], None).unwrap();
    wait_any(&[], None).unwrap();
}

pub fn timelines_that_go_away_fail_their_waiters(backend: &Backend) {
    let device = backend.device();
    let line = timeline(&*device);
    let waiting = MultiWait::new(&[point(&line, 1)]);
    let after = timeline(&*device);
    device.queue_barrier(ANY, &[point(&line, 1)], &[point(&after, 1)], ExecuteFlags::empty()).unwrap();
    drop(line);
    assert_eq!(code(waiting.wait(in_time())), StatusCode::Aborted);
    assert_eq!(code(after.wait(1, in_time())), StatusCode::Aborted);
}

pub fn timepoints_of_others_work_or_are_refused(backend: &Backend) {
    let line = timeline(&*backend.device());
    let none = ExternalTimepoint {
        r#type: ExternalTimepointType::NONE,
        flags: ExternalTimepointFlags::empty(),
        compatibility: SemaphoreCompatibility::empty(),
        handle: 0,
    };
    assert!(line.import_timepoint(1, ANY, none).is_err(), "there is nothing to import");
    let exported =
        line.export_timepoint(1, ANY, ExternalTimepointType::ASYNC_PRIMITIVE, ExternalTimepointFlags::empty());
    if let Err(refused) = exported {
        assert_eq!(refused.code(), StatusCode::Unimplemented);
    }
}

/// Each thread passes the baton to the next one: a thread that misses a signal stops them all.
pub fn threads_signal_and_wait(backend: &Backend) {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 500;
    let line = timeline(&*backend.device());
    let passed = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (line, passed) = (&line, &passed);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let turn = round * THREADS + thread;
                    line.wait(turn, in_time()).unwrap();
                    assert_eq!(passed.fetch_add(1, Ordering::Relaxed), turn);
                    line.signal(turn + 1).unwrap();
                }
            });
        }
    });
    assert_eq!(line.query().unwrap(), THREADS * ROUNDS);
}
