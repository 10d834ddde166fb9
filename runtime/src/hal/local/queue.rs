//! The queue of a device that runs operations on the threads that make them ready.
//!
//! An operation whose points are reached runs before its submission returns, unless another thread is running the queue: then that
//! thread takes it over. An operation that has to wait is kept by the timelines it waits for, and runs on the thread that signals
//! the last of them. Nothing runs inside another operation, so chains of any length use one frame of stack, and nobody holds a lock
//! while an operation runs.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::hal::Timepoint;
use crate::status::{Result, StatusCode};

/// What an operation does, when it cannot be done at once.
pub(super) type Work = Box<dyn FnOnce() -> Result<()> + Send>;

/// Nobody runs the queue, and nothing is in it.
const IDLE: u32 = 0;
/// A thread runs the operation that it submits; nothing was added since it began.
const RUNNING: u32 = 1;
/// A thread runs the queue and looks for more before it stops.
const FILLED: u32 = 2;

/// The queue.
#[derive(Default)]
pub(super) struct Queue {
    /// [`IDLE`], [`RUNNING`] or [`FILLED`]. It becomes idle only where nothing is ready: from `RUNNING`, since adding an operation
    /// leaves that state, and from `FILLED` under the lock of `ready`.
    state: AtomicU32,
    ready: Mutex<VecDeque<Operation>>,
}

/// What to do and what to signal then.
struct Operation {
    work: Work,
    signal: Vec<Timepoint>,
}

impl Operation {
    fn run(self) {
        complete(&self.signal, (self.work)());
    }
}

/// Passes on how an operation ended.
fn complete(signal: &[Timepoint], outcome: Result<()>) {
    match outcome {
        // A call of the host that signals by itself.
        Err(status) if status.code() == StatusCode::Deferred => {}
        outcome => finish(signal, outcome),
    }
}

/// Signals all points, or fails all timelines with the cause.
pub(super) fn finish(signal: &[Timepoint], outcome: Result<()>) {
    for point in signal {
        let signaled = match &outcome {
            Ok(()) => point.semaphore.signal(point.value),
            Err(cause) => Err(cause.clone()),
        };
        if let Err(status) = signaled {
            point.semaphore.fail(status);
        }
    }
}

/// An operation that waits: how many points are left, and the operation until it is run or dropped.
struct Pending {
    left: usize,
    operation: Option<Operation>,
}

impl Queue {
    /// Runs `work` after all points of `wait`, then signals `signal`. A failure goes to the points of `signal`; if there are none, and
    /// the operation has run already, to the caller.
    pub(super) fn submit(
        self: &Arc<Self>,
        wait: &[Timepoint],
        signal: &[Timepoint],
        work: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let work = Cell::new(Some(work));
        let now = || work.take().map_or(Ok(()), |work| work());
        let later = || -> Work {
            let work = work.take();
            Box::new(move || work.map_or(Ok(()), |work| work()))
        };
        self.submit_with(wait, signal, now, later)
    }

    /// The same for work that borrows what it needs if it is done at once. One of the two closures is called: `now` to do it, or
    /// `later` for what does it and owns what it needs.
    pub(super) fn submit_with(
        self: &Arc<Self>,
        wait: &[Timepoint],
        signal: &[Timepoint],
        now: impl FnOnce() -> Result<()>,
        later: impl FnOnce() -> Work,
    ) -> Result<()> {
        match reached(wait) {
            // Nothing can be ordered after an operation that signals nothing, and only the caller can learn its outcome.
            Ok(true) if signal.is_empty() => now(),
            Ok(true) => {
                if self.state.compare_exchange(IDLE, RUNNING, Ordering::Acquire, Ordering::Relaxed).is_err() {
                    self.push(Operation { work: later(), signal: signal.to_vec() });
                    return Ok(());
                }
                complete(signal, now());
                if self.state.compare_exchange(RUNNING, IDLE, Ordering::Release, Ordering::Relaxed).is_err() {
                    self.drain();
                }
                Ok(())
            }
            Ok(false) => {
                self.wait_for(wait, Operation { work: later(), signal: signal.to_vec() });
                Ok(())
            }
            Err(failure) if signal.is_empty() => Err(failure),
            Err(failure) => {
                finish(signal, Err(failure));
                Ok(())
            }
        }
    }

    fn wait_for(self: &Arc<Self>, wait: &[Timepoint], operation: Operation) {
        let pending = Arc::new(Mutex::new(Pending { left: wait.len(), operation: Some(operation) }));
        for point in wait {
            let (queue, pending) = (self.clone(), pending.clone());
            point.semaphore.notify(point.value, Box::new(move |outcome| queue.notified(&pending, outcome)));
        }
    }

    /// A timeline that a pending operation waits for has reached its point or failed.
    fn notified(self: &Arc<Self>, pending: &Mutex<Pending>, outcome: Result<()>) {
        let operation = {
            let mut pending = pending.lock().unwrap_or_else(PoisonError::into_inner);
            pending.left -= 1;
            match (&outcome, pending.left) {
                // The first failure ends the operation; who comes later finds it gone.
                (Err(_), _) | (Ok(()), 0) => pending.operation.take(),
                (Ok(()), _) => None,
            }
        };
        let Some(operation) = operation else { return };
        match outcome {
            Ok(()) => self.push(operation),
            Err(failure) => self.push(Operation { work: Box::new(move || Err(failure)), ..operation }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Operation>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an operation that is ready, and runs the queue unless it is being run.
    fn push(&self, operation: Operation) {
        let mut ready = self.lock();
        ready.push_back(operation);
        let before = self.state.swap(FILLED, Ordering::AcqRel);
        drop(ready);
        if before == IDLE {
            self.drain();
        }
    }

    /// Runs what is ready until nothing is. The state is [`FILLED`], and the caller is who runs the queue.
    fn drain(&self) {
        loop {
            let mut ready = self.lock();
            let Some(operation) = ready.pop_front() else {
                self.state.store(IDLE, Ordering::Release);
                return;
            };
            drop(ready);
            operation.run();
        }
    }
}

/// True if all points are reached.
fn reached(points: &[Timepoint]) -> Result<bool> {
    for point in points {
        if point.semaphore.query()? < point.value {
            return Ok(false);
        }
    }
    Ok(true)
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let running = self.state.load(Ordering::Relaxed) != IDLE;
        write!(f, "queue({} ready{})", self.lock().len(), if running { ", running" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::thread;

    use super::*;
    use crate::hal::{HostSemaphore, Semaphore};

    fn submit(
        queue: &Arc<Queue>,
        wait: &[Timepoint],
        signal: &[Timepoint],
        work: impl Fn() -> Result<()> + Clone + Send + 'static,
    ) {
        let owned = work.clone();
        let later = || -> Work { Box::new(owned) };
        queue.submit_with(wait, signal, work, later).expect("goes to the points");
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
        assert_eq!((queue.state.load(Ordering::SeqCst), queue.lock().len()), (IDLE, 0));
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
