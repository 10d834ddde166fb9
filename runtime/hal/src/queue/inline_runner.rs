//! The inline runner: runs a queue on the threads that make its operations ready, one operation at a time. Disciplines without worker
//! threads use it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::operation::{Operation, Submission};
use super::submission::Discipline;
use super::weight::Weight;
use crate::Timepoint;
use crate::timepoints::complete;

/// No thread runs the queue, and no operation is ready.
const IDLE: u32 = 0;
/// A thread runs the operation that it submits; none was added since it began.
const RUNNING: u32 = 1;
/// A thread runs the queue and looks for more before it stops.
const RUNNING_WITH_MORE: u32 = 2;

/// Ready operations, and whether a thread is running them.
pub struct InlineRunner<D: Discipline> {
    /// [`IDLE`], [`RUNNING`] or [`RUNNING_WITH_MORE`]. It becomes idle only if no operation is ready: from `RUNNING`, since adding an
    /// operation leaves that state, and from `RUNNING_WITH_MORE` under the lock of `ready`.
    state: AtomicU32,
    ready: Mutex<VecDeque<Box<Operation<D>>>>,
}

impl<D: Discipline> Default for InlineRunner<D> {
    fn default() -> InlineRunner<D> {
        InlineRunner { state: AtomicU32::new(IDLE), ready: Mutex::default() }
    }
}

impl<D: Discipline> InlineRunner<D> {
    /// Runs a submission that is ready, or adds an operation for it if another thread runs the queue.
    #[inline]
    pub fn run(&self, signal: &[Timepoint], weight: Weight, submission: impl Submission<D>) {
        if self.state.compare_exchange(IDLE, RUNNING, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return self.push(Operation::new(weight, signal, submission));
        }
        complete(signal, submission.perform(signal));
        if self.state.compare_exchange(RUNNING, IDLE, Ordering::Release, Ordering::Relaxed).is_err() {
            self.drain();
        }
    }

    /// Adds an operation that is ready, and runs the queue unless another thread does.
    pub fn push(&self, operation: Box<Operation<D>>) {
        let mut ready = self.lock();
        ready.push_back(operation);
        let before = self.state.swap(RUNNING_WITH_MORE, Ordering::AcqRel);
        drop(ready);
        if before == IDLE {
            self.drain();
        }
    }

    /// Runs ready operations until there is none. The state is [`RUNNING_WITH_MORE`], and the caller is the thread that runs the queue.
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

    fn lock(&self) -> MutexGuard<'_, VecDeque<Box<Operation<D>>>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Discipline> fmt::Debug for InlineRunner<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let running = self.state.load(Ordering::Relaxed) != IDLE;
        write!(f, "queue({} ready{})", self.lock().len(), if running { ", running" } else { "" })
    }
}
