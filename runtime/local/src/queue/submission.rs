//! A queue: what is submitted waits for its points, runs, and signals.
//!
//! An operation that has to wait is kept by the timelines it waits for. One whose points are reached is run as the [`Discipline`] of the
//! queue's driver has it. Nobody holds a lock while an operation runs. A failure goes to the points that the operation signals, with its cause,
//! so whoever waits at the end of a chain learns how it began.

use std::sync::Arc;

use super::operation::{Operation, Request, Submission};
use super::weight::Weight;
use super::work::{Data, Work};
use crate::hal::deferred::{CommandProgram, Deferred};
use crate::hal::points::{self, Pending, Waiting, finish, reached};
use crate::hal::recycle::{Hollow, Kept};
use crate::hal::{BufferBinding, Timepoint};
use crate::status::Result;

/// How the queues of a driver run what is ready.
pub trait Discipline: Send + Sync + Sized + 'static {
    /// The kind of device whose recorded commands are executed.
    type Device: Deferred;
    /// What helps to execute them: workers, a stream.
    type Runner: Send + Sync + 'static;

    /// The free lists, which are statics of the driver: a generic type has none of its own.
    fn free_lists() -> QueueFreeLists<Self>;

    /// Does what is submitted with all its points reached, at once or later, and signals.
    fn run(&self, signal: &[Timepoint], weight: Weight, submission: impl Submission<Self>);

    /// Takes an operation whose points have been reached. Called on the thread that signals the last of them, so it must not block.
    fn push(&self, operation: Box<Operation<Self>>);

    /// Executes recorded commands on what their slots are bound to.
    ///
    /// # Errors
    /// Those of the commands.
    fn execute(
        program: &Arc<CommandProgram<Self::Device>>,
        table: &[BufferBinding],
        runner: Option<&Self::Runner>,
    ) -> Result<()>;

    /// Does what an operation is for: on the calling thread, unless a driver says otherwise.
    ///
    /// # Errors
    /// Those of what is done.
    fn perform(work: Work<'_, Self>, data: Data<'_>) -> Result<()> {
        work.perform(data)
    }
}

/// Where memory of operations is kept: of each at most [`crate::hal::recycle::MAX_KEPT`] for a thread.
pub struct QueueFreeLists<D: Discipline> {
    /// Operations.
    pub operations: &'static Kept<Box<Operation<D>>>,
    /// What timelines know of them.
    pub pending: &'static Kept<Hollow<Pending<Queued<D>>>>,
}

/// A queue.
#[derive(Debug, Default)]
pub struct Queue<D> {
    discipline: D,
}

/// An operation that waits, and the queue that it goes to.
pub struct Queued<D: Discipline> {
    queue: Arc<Queue<D>>,
    operation: Box<Operation<D>>,
}

impl<D: Discipline> Waiting for Queued<D> {
    fn ready(self, outcome: Result<()>) {
        let Queued { queue, mut operation } = self;
        if let Err(failure) = outcome {
            operation.weight = Weight::Light;
            operation.work = Work::Fail(failure);
        }
        queue.discipline.push(operation);
    }
}

impl<D: Discipline> Queue<D> {
    /// A queue that runs what is ready like this.
    pub fn new(discipline: D) -> Queue<D> {
        Queue { discipline }
    }

    /// How it runs what is ready.
    pub fn discipline(&self) -> &D {
        &self.discipline
    }

    /// Does what a request asks for after all points of `wait`, then signals `signal`.
    ///
    /// # Errors
    /// A failure goes to the points of `signal`; if there are none, and the operation has run already, to the caller.
    pub fn submit<'a>(
        self: &Arc<Self>,
        wait: &[Timepoint],
        signal: &[Timepoint],
        weight: Weight,
        request: impl Into<Request<'a, D>>,
    ) -> Result<()> {
        self.submit_any(wait, signal, weight, request.into())
    }

    /// The same for anything that can be submitted.
    ///
    /// # Errors
    /// Those of [`Queue::submit`].
    pub fn submit_any(
        self: &Arc<Self>,
        wait: &[Timepoint],
        signal: &[Timepoint],
        weight: Weight,
        submission: impl Submission<D>,
    ) -> Result<()> {
        match reached(wait) {
            // Nothing can be ordered after an operation that signals nothing, and only the caller can learn its outcome.
            Ok(true) if signal.is_empty() => submission.perform(signal),
            Ok(true) => {
                self.discipline.run(signal, weight, submission);
                Ok(())
            }
            Ok(false) => {
                let mut operation = Operation::new(weight, signal, submission);
                operation.count(wait.len());
                points::wait_for(D::free_lists().pending, wait, Queued { queue: self.clone(), operation });
                Ok(())
            }
            Err(failure) if signal.is_empty() => Err(failure),
            Err(failure) => {
                finish(signal, Err(failure));
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::super::discipline::Queue;
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
