//! The queue of a device that runs operations on the threads that make them ready.
//!
//! An operation whose points are reached runs before its submission returns, unless another thread is running the queue: then that
//! thread takes it over. An operation that has to wait is kept by the timelines it waits for, and runs on the thread that signals
//! the last of them. Nothing runs inside another operation, so chains of any length use one frame of stack, and nobody holds a lock
//! while an operation runs.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::hal::Timepoint;
use crate::status::{Result, StatusCode};

type Work = Box<dyn FnOnce() -> Result<()> + Send>;

/// The queue.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Operation>,
    running: bool,
}

/// What to do and what to signal then.
struct Operation {
    work: Work,
    signal: Vec<Timepoint>,
}

impl Operation {
    fn run(self) {
        let outcome = (self.work)();
        if outcome.as_ref().is_err_and(|status| status.code() == StatusCode::Deferred) {
            // A call of the host that signals by itself.
            return;
        }
        finish(&self.signal, outcome);
    }
}

/// Signals all points, or fails all timelines with the cause.
pub(super) fn finish(signal: &[Timepoint], outcome: Result<()>) {
    for point in signal {
        let signaled = outcome.clone().and_then(|()| point.semaphore.signal(point.value));
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
        match reached(wait) {
            // Nothing can be ordered after an operation that signals nothing, and only the caller can learn its outcome.
            Ok(true) if signal.is_empty() => work(),
            Ok(true) => {
                self.push(Operation { work: Box::new(work), signal: signal.to_vec() });
                Ok(())
            }
            Ok(false) => {
                self.wait_for(wait, Operation { work: Box::new(work), signal: signal.to_vec() });
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an operation that is ready, and runs the queue unless it is being run.
    fn push(&self, operation: Operation) {
        let mut state = self.lock();
        state.ready.push_back(operation);
        if state.running {
            return;
        }
        state.running = true;
        while let Some(operation) = state.ready.pop_front() {
            drop(state);
            operation.run();
            state = self.lock();
        }
        state.running = false;
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
        let state = self.lock();
        write!(f, "queue({} ready{})", state.ready.len(), if state.running { ", running" } else { "" })
    }
}
