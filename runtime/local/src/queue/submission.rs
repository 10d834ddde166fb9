//! The queue of a local device: what is submitted waits for its points, runs, and signals.
//!
//! An operation that has to wait is kept by the timelines it waits for. One whose points are reached is run as the queue's discipline
//! has it. Inline, it runs before its submission returns, unless another thread is running the queue: then that thread takes it over;
//! an operation that had to wait runs on the thread that signals the last of its points. With workers, that is so for light operations
//! only, and for those of a thread that waits for them anyway: others are handed to a worker.
//!
//! Either way nothing runs inside another operation, so chains of any length use one frame of stack, and nobody holds a lock while an
//! operation runs.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::inline_runner::Inline;
use super::operation::{Operation, Request, Submission};
use super::threads::{Here, on_this_thread};
use super::weight::Weight;
use super::work::{Held, Work};
use crate::blocking::is_blocking;
use crate::hal::Timepoint;
use crate::hal::points::{self, Pending, Waiting, complete, finish, reached};
use crate::hal::recycle::{Hollow, MAX_KEPT, kept};
use crate::status::Result;
use crate::task::Executor;

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    discipline: Discipline,
}

/// Who runs what is ready.
enum Discipline {
    /// Whoever makes it ready, one operation at a time.
    Inline(Inline),
    /// Workers, several operations at a time.
    Workers(Arc<Executor>),
}

impl Default for Discipline {
    fn default() -> Discipline {
        Discipline::Inline(Inline::default())
    }
}

/// An operation that waits, and the queue that it goes to.
struct Queued {
    queue: Arc<Queue>,
    operation: Box<Operation>,
}

kept! { static PENDING: Hollow<Pending<Queued>>, MAX_KEPT }

impl Waiting for Queued {
    fn ready(self, outcome: Result<()>) {
        let Queued { queue, mut operation } = self;
        if let Err(failure) = outcome {
            operation.weight = Weight::Light;
            operation.work = Work::Fail(failure);
        }
        queue.push(operation);
    }
}

impl Queue {
    /// A queue with workers.
    pub(crate) fn with_workers(executor: Executor) -> Queue {
        Queue { discipline: Discipline::Workers(Arc::new(executor)) }
    }

    /// The workers, if it has some.
    pub(crate) fn executor(&self) -> Option<&Executor> {
        match &self.discipline {
            Discipline::Inline(_) => None,
            Discipline::Workers(executor) => Some(executor),
        }
    }

    /// The same, for an operation that may have to wait.
    pub(crate) fn workers(&self) -> Option<Held<'_, Executor>> {
        match &self.discipline {
            Discipline::Inline(_) => None,
            Discipline::Workers(executor) => Some(Cow::Borrowed(executor)),
        }
    }

    /// Does what a request asks for after all points of `wait`, then signals `signal`. A failure goes to the points of `signal`; if there
    /// are none, and the operation has run already, to the caller.
    pub(crate) fn submit<'a>(
        self: &Arc<Self>,
        wait: &[Timepoint],
        signal: &[Timepoint],
        weight: Weight,
        request: impl Into<Request<'a>>,
    ) -> Result<()> {
        self.submit_any(wait, signal, weight, request.into())
    }

    /// The same for anything that can be submitted.
    pub(super) fn submit_any(
        self: &Arc<Self>,
        wait: &[Timepoint],
        signal: &[Timepoint],
        weight: Weight,
        submission: impl Submission,
    ) -> Result<()> {
        match reached(wait) {
            // Nothing can be ordered after an operation that signals nothing, and only the caller can learn its outcome.
            Ok(true) if signal.is_empty() => submission.perform(signal),
            Ok(true) => {
                match &self.discipline {
                    Discipline::Inline(inline) => inline.run(signal, weight, submission),
                    Discipline::Workers(executor) => {
                        if weight.is_light(executor) || weight != Weight::Foreign && is_blocking() {
                            on_this_thread(|| complete(signal, submission.perform(signal)));
                        } else {
                            let mut operation = Operation::new(weight, signal, submission);
                            operation.count(0);
                            executor.spawn(operation);
                        }
                    }
                }
                Ok(())
            }
            Ok(false) => {
                self.wait_for(wait, Operation::new(weight, signal, submission));
                Ok(())
            }
            Err(failure) if signal.is_empty() => Err(failure),
            Err(failure) => {
                finish(signal, Err(failure));
                Ok(())
            }
        }
    }

    fn wait_for(self: &Arc<Self>, wait: &[Timepoint], mut operation: Box<Operation>) {
        operation.count(wait.len());
        points::wait_for(&PENDING, wait, Queued { queue: self.clone(), operation });
    }

    /// Adds an operation that has become ready.
    fn push(&self, operation: Box<Operation>) {
        match &self.discipline {
            Discipline::Inline(inline) => inline.push(operation),
            Discipline::Workers(executor) if operation.weight.is_light(executor) => Here::push(operation),
            Discipline::Workers(executor) => executor.spawn(operation),
        }
    }
}

impl fmt::Debug for Discipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Discipline::Inline(inline) => inline.fmt(f),
            Discipline::Workers(executor) => executor.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::hal::{HostSemaphore, Semaphore};
    use crate::limits::Limits;
    use crate::limits::scope;
    use crate::status::StatusCode;

    fn submit(
        queue: &Arc<Queue>,
        wait: &[Timepoint],
        signal: &[Timepoint],
        work: impl FnOnce() -> Result<()> + Send + 'static,
    ) {
        queue.submit(wait, signal, Weight::Light, Work::Other(Box::new(work))).expect("goes to the points");
    }

    /// Every operation takes the only place there is, so that no two can be inside of it, and each one makes the next one ready.
    #[test]
    fn operations_of_many_threads_run_one_at_a_time_and_none_is_lost() {
        const EACH: u64 = 2000;
        let queue = Arc::new(Queue::default());
        let (inside, done) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU64::new(0)));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let semaphore: Arc<dyn Semaphore> = Arc::new(HostSemaphore::new(0));
                    for value in 1..=EACH {
                        let signal = [Timepoint { semaphore: semaphore.clone(), value }];
                        let wait = [Timepoint { semaphore: semaphore.clone(), value: value - 1 }];
                        let (inside, done) = (inside.clone(), done.clone());
                        submit(&queue, &wait, &signal, move || {
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "inside of another operation");
                            done.fetch_add(1, Ordering::SeqCst);
                            inside.fetch_sub(1, Ordering::SeqCst);
                            Ok(())
                        });
                    }
                    semaphore.wait(EACH, None).expect("reached");
                });
            }
        });
        assert_eq!(done.load(Ordering::SeqCst), 3 * EACH);
        // A thread can see its last point reached a moment before another one leaves the queue, but all of them are gone now.
        assert_eq!(format!("{queue:?}"), "Queue { discipline: queue(0 ready) }");
    }

    #[test]
    fn what_a_limit_refuses_is_let_go_of_and_never_done() {
        let queue = Arc::new(Queue::default());
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
        queue.submit(&at(&line, 2), &at(&after, 1), Weight::Light, Work::Nothing).expect("goes to the points");
        line.signal(2).expect("advances");
        assert_eq!((after.query().expect("nothing fails"), done.load(Ordering::SeqCst)), (1, 0));
    }

    thread_local! {
        static DEPTH: Cell<u32> = const { Cell::new(0) };
    }

    #[test]
    fn a_chain_of_operations_runs_without_nesting() {
        const LENGTH: u64 = 10_000;
        let queue = Arc::new(Queue::default());
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
        let queue = Arc::new(Queue::default());
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
}
