//! Tests of queues with the inline runner: order, failures, limits, and chains of any length.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use std::sync::{Arc, Barrier};

use super::*;
use crate::deferred::CommandProgram;
use crate::deferred::tests::Nothing;
use crate::hal::recycle::{MAX_FREE, Uninit, free_list};
use crate::hal::timepoints::PendingWait;
use crate::hal::{BufferBinding, HostSemaphore, MappingMode, MemoryAccess, Semaphore, Timepoint};
use crate::limits::Limits;
use crate::limits::scope;
use crate::status::{Result, StatusCode};

/// Queues that run inline. A dispatch reads and writes all of its bindings.
#[derive(Debug, Default)]
pub(super) struct Host(InlineRunner<Host>);

free_list! { static OPERATIONS: Box<Operation<Host>>, MAX_FREE }
free_list! { static PENDING: Uninit<PendingWait<Queued<Host>>>, MAX_FREE }

impl Discipline for Host {
    type Device = Nothing;
    type Runner = ();

    fn free_lists() -> QueueFreeLists<Host> {
        QueueFreeLists { operations: &OPERATIONS, pending: &PENDING }
    }

    fn run(&self, signal: &[Timepoint], weight: Weight, submission: impl Submission<Host>) {
        self.0.run(signal, weight, submission);
    }

    fn push(&self, operation: Box<Operation<Host>>) {
        self.0.push(operation);
    }

    fn execute(program: &Arc<CommandProgram<Nothing>>, table: &[BufferBinding], _: Option<&()>) -> Result<()> {
        for step in program.steps() {
            let Some(dispatch) = program.run_transfer(&step.command, table)? else { continue };
            program.grid(dispatch, table)?;
            for range in program.bindings_of(dispatch, table) {
                let (range, access) = (range?, MemoryAccess::READ | MemoryAccess::WRITE);
                range.buffer.map_range(MappingMode::SCOPED, access, range.offset, range.length)?;
            }
        }
        Ok(())
    }
}

fn submit(
    queue: &Arc<Queue<Host>>,
    wait: &[Timepoint],
    signal: &[Timepoint],
    work: impl FnOnce() -> Result<()> + Send + 'static,
) {
    queue.submit(wait, signal, Weight::Light, Prepared::Other(Box::new(work))).expect("goes to the points");
}

/// Each operation makes the next one of its thread ready, which runs after it and not inside of it.
#[test]
fn operations_of_many_threads_do_not_nest_and_none_is_lost() {
    thread_local! {
        static INSIDE: Cell<u32> = const { Cell::new(0) };
    }

    const EACH: u64 = 2000;
    let queue = Arc::new(Queue::<Host>::default());
    let done = Arc::new(AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let semaphore: Arc<dyn Semaphore> = Arc::new(HostSemaphore::new(0));
                for value in 1..=EACH {
                    let signal = [Timepoint { semaphore: semaphore.clone(), value }];
                    let wait = [Timepoint { semaphore: semaphore.clone(), value: value - 1 }];
                    let (same, done) = (queue.clone(), done.clone());
                    submit(&queue, &wait, &signal, move || {
                        assert_eq!(INSIDE.replace(1), 0, "inside of another operation");
                        done.fetch_add(1, Ordering::SeqCst);
                        // So does one that it submits itself.
                        let count = done.clone();
                        let never: Arc<dyn Semaphore> = Arc::new(HostSemaphore::new(0));
                        submit(&same, &[], &[Timepoint { semaphore: never, value: 1 }], move || {
                            assert_eq!(INSIDE.get(), 0, "inside of the operation that submits it");
                            count.fetch_add(1, Ordering::SeqCst);
                            Ok(())
                        });
                        INSIDE.set(0);
                        Ok(())
                    });
                }
                semaphore.wait(EACH, None).expect("reached");
            });
        }
    });
    assert_eq!(done.load(Ordering::SeqCst), 2 * 3 * EACH);
    assert_eq!(format!("{queue:?}"), "Queue { discipline: Host(queue(0 ready)) }");
}

/// An operation that ends without having been performed, since no thread could, lets go of its work before its points
/// are told.
#[test]
fn an_operation_that_nobody_performs_drops_its_work() {
    let end: Arc<dyn Semaphore> = Arc::new(HostSemaphore::new(0));
    let held = Arc::new(());
    let (of_waiter, of_work) = (Arc::downgrade(&held), held);
    let left = Arc::new(AtomicU32::new(u32::MAX));
    let seen = left.clone();
    end.notify(1, Box::new(move |_| seen.store(of_waiter.strong_count() as u32, Ordering::SeqCst)));
    let work = Prepared::<Host>::Other(Box::new(move || {
        drop(of_work);
        Ok(())
    }));
    let operation = Operation::new(Weight::Light, &[Timepoint { semaphore: end, value: 1 }], Request::from(work));
    operation.end(Err(crate::status::Status::resource_exhausted("no thread")));
    assert_eq!(left.load(Ordering::SeqCst), 0);
}

/// Two operations that wait for each other's beginning, on two threads.
#[test]
fn operations_of_two_threads_run_at_the_same_time() {
    let queue = Arc::new(Queue::<Host>::default());
    let both = Arc::new(Barrier::new(2));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let end: Arc<dyn Semaphore> = Arc::new(HostSemaphore::new(0));
                let both = both.clone();
                submit(&queue, &[], &[Timepoint { semaphore: end.clone(), value: 1 }], move || {
                    both.wait();
                    Ok(())
                });
                end.wait(1, None).expect("reached");
            });
        }
    });
}

/// An operation that panics leaves the queue usable.
#[test]
fn a_panic_does_not_stop_the_queue() {
    let queue = Arc::new(Queue::<Host>::default());
    let end: Arc<dyn Semaphore> = Arc::new(HostSemaphore::new(0));
    let at = |value| [Timepoint { semaphore: end.clone(), value }];
    let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        submit(&queue, &[], &at(1), || panic!("on purpose"));
    }));
    assert!(panics.is_err());
    submit(&queue, &[], &at(2), || Ok(()));
    end.wait(2, None).expect("reached");
}

#[test]
fn operations_that_a_limit_refuses_are_dropped_and_never_run() {
    let queue = Arc::new(Queue::<Host>::default());
    let line: Arc<dyn Semaphore> = Arc::new(HostSemaphore::new(0));
    let ends: Arc<dyn Semaphore> = Arc::new(HostSemaphore::new(0));
    let at = |semaphore: &Arc<dyn Semaphore>, value| [Timepoint { semaphore: semaphore.clone(), value }];
    let done = Arc::new(AtomicU32::new(0));
    let limits = Limits { timeout: Some(Duration::ZERO), ..Limits::default() };
    let started = scope::start(&limits).expect("there is a limit");
    let count = done.clone();
    submit(&queue, &at(&line, 1), &at(&ends, 1), move || {
        count.fetch_add(1, Ordering::SeqCst);
        Ok(())
    });
    drop(started);
    line.signal(1).expect("advances");
    assert_eq!(ends.query().expect_err("was refused").code(), StatusCode::DeadlineExceeded);
    assert_eq!(Arc::strong_count(&done), 1);
    // The next operation may have its memory.
    let after: Arc<dyn Semaphore> = Arc::new(HostSemaphore::new(0));
    queue.submit(&at(&line, 2), &at(&after, 1), Weight::Light, Prepared::Nothing).expect("goes to the points");
    line.signal(2).expect("advances");
    assert_eq!((after.query().expect("nothing fails"), done.load(Ordering::SeqCst)), (1, 0));
}

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

#[test]
fn a_chain_of_operations_runs_without_nesting() {
    const LENGTH: u64 = 10_000;
    let queue = Arc::new(Queue::<Host>::default());
    let line: Arc<dyn Semaphore> = Arc::new(HostSemaphore::new(0));
    let at = |value| [Timepoint { semaphore: line.clone(), value }];
    for value in 1..=LENGTH {
        submit(&queue, &at(value), &at(value + 1), || {
            DEPTH.with(|depth| {
                depth.set(depth.get() + 1);
                assert_eq!(depth.get(), 1, "inside of another operation");
                depth.set(depth.get() - 1);
            });
            Ok(())
        });
    }
    submit(&queue, &[], &at(1), || Ok(()));
    assert_eq!(line.query().expect("did not fail"), LENGTH + 1);
}

#[test]
fn a_chain_that_is_never_started_fails_without_nesting() {
    const LENGTH: usize = 100_000;
    let queue = Arc::new(Queue::<Host>::default());
    let timeline = || -> Arc<dyn Semaphore> { Arc::new(HostSemaphore::new(0)) };
    let first = timeline();
    let mut last = first.clone();
    for _ in 0..LENGTH {
        let next = timeline();
        let at = |semaphore: &Arc<dyn Semaphore>| [Timepoint { semaphore: semaphore.clone(), value: 1 }];
        submit(&queue, &at(&last), &at(&next), || unreachable!());
        last = next;
    }
    drop(first);
    assert_eq!(last.query().expect_err("nobody can reach it").code(), StatusCode::Aborted);
}
