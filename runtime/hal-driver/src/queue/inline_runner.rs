//! The inline runner: runs the operations of a queue on the threads that make them ready, at once. Disciplines without
//! worker threads use it.
//!
//! Threads that submit at the same time run their operations at the same time: only timelines order operations. An
//! operation that becomes ready while its thread runs another one of the queue, because that signals or submits, waits
//! in a list until that is over, so chains of operations need no stack.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;

use super::discipline::{Discipline, Operation, Submission};
use super::weight::Weight;
use crate::hal::Timepoint;
use crate::hal::timepoints::complete;

thread_local! {
    /// The addresses of the runners that the thread runs operations of. They are only compared.
    static RUNNING: RefCell<SmallVec<[usize; 4]>> = const { RefCell::new(SmallVec::new_const()) };
}

/// The time in which a thread runs operations of a runner.
struct Running;

impl Running {
    /// Begins, unless the thread runs operations of this runner already.
    #[inline]
    fn begin(runner: usize) -> Option<Running> {
        RUNNING.with_borrow_mut(|running| {
            if running.contains(&runner) {
                return None;
            }
            running.push(runner);
            Some(Running)
        })
    }
}

impl Drop for Running {
    #[inline]
    fn drop(&mut self) {
        // They end in the reverse order.
        RUNNING.with_borrow_mut(SmallVec::pop);
    }
}

/// Operations that became ready while their threads ran others.
pub struct InlineRunner<D: Discipline> {
    ready: Mutex<VecDeque<Box<Operation<D>>>>,
    /// Whether there may be some. A thread that adds one looks here when it has run its own.
    has_ready: AtomicBool,
}

impl<D: Discipline> Default for InlineRunner<D> {
    fn default() -> InlineRunner<D> {
        InlineRunner { ready: Mutex::default(), has_ready: AtomicBool::new(false) }
    }
}

impl<D: Discipline> InlineRunner<D> {
    fn begin(&self) -> Option<Running> {
        Running::begin(std::ptr::from_ref(self).addr())
    }

    /// Runs a submission that is ready, or adds an operation for it if the thread runs another one.
    #[inline]
    pub fn run(&self, signal: &[Timepoint], weight: Weight, submission: impl Submission<D>) {
        let Some(_running) = self.begin() else {
            return self.add(Operation::new(weight, signal, submission));
        };
        complete(signal, submission.perform(signal));
        if self.has_ready.load(Ordering::Acquire) {
            self.drain();
        }
    }

    /// Runs an operation that is ready, or adds it if the thread runs another one.
    pub fn push(&self, operation: Box<Operation<D>>) {
        let running = self.begin();
        self.add(operation);
        if running.is_some() {
            self.drain();
        }
    }

    fn add(&self, operation: Box<Operation<D>>) {
        let mut ready = self.lock();
        ready.push_back(operation);
        self.has_ready.store(true, Ordering::Release);
    }

    /// Runs operations until there are none, also those of other threads.
    fn drain(&self) {
        loop {
            let mut ready = self.lock();
            let Some(operation) = ready.pop_front() else {
                self.has_ready.store(false, Ordering::Release);
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
        write!(f, "queue({} ready)", self.lock().len())
    }
}
