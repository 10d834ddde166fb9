//! Operations on the threads of a device with workers: light ones go to a queue of the calling thread, others are tasks
//! of a worker.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::discipline::Operation;
use crate::rules::{Rule, keeps};
use crate::status::{Result, Status};
use crate::sync::thread_local;
use crate::task::Task;

impl Task for Operation {
    fn run(mut self: Box<Self>, started: Result<()>) {
        // A panic must not end the worker; it fails the points of the operation.
        let outcome = started.and_then(|()| {
            let _entered = self.take_scope().enter();
            if !keeps(Rule::PanicsAreCaught) {
                return self.perform();
            }
            catch_unwind(AssertUnwindSafe(|| self.perform()))
                .unwrap_or_else(|_| Err(Status::internal("an operation of the queue panicked")))
        });
        run_and_drain(|| self.end(outcome));
    }
}

thread_local! {
    static THREAD_QUEUE: ThreadQueue = const { ThreadQueue { is_running: Cell::new(false), ready: RefCell::new(VecDeque::new()) } };
}

/// The light operations of a thread, which run one after the other.
pub(super) struct ThreadQueue {
    /// Whether the thread runs an operation.
    is_running: Cell<bool>,
    /// Light operations that became ready meanwhile.
    ready: RefCell<VecDeque<Box<Operation>>>,
}

impl ThreadQueue {
    /// Runs a ready operation, after the one that the thread is running.
    pub(super) fn push(operation: Box<Operation>) {
        if THREAD_QUEUE.with(|queue| queue.is_running.get()) && keeps(Rule::LightOperationsTakeTurns) {
            THREAD_QUEUE.with(|queue| queue.ready.borrow_mut().push_back(operation));
        } else {
            run_and_drain(|| operation.run());
        }
    }
}

/// Calls `run`, and then runs the light operations that it made ready.
pub(super) fn run_and_drain(run: impl FnOnce()) {
    /// Resets the state of the thread, also if an operation panicked.
    struct Running;

    impl Drop for Running {
        fn drop(&mut self) {
            let left = THREAD_QUEUE.with(|queue| {
                queue.is_running.set(false);
                let mut ready = queue.ready.borrow_mut();
                if ready.is_empty() { VecDeque::new() } else { std::mem::take(&mut *ready) }
            });
            // Operations are left only if one panicked. Dropping them may make others ready, which then run at once.
            drop(left);
        }
    }

    if THREAD_QUEUE.with(|queue| queue.is_running.replace(true)) {
        // An outer call runs what becomes ready.
        return run();
    }
    let running = Running;
    run();
    while keeps(Rule::ThreadQueuesDrain)
        && let Some(operation) = THREAD_QUEUE.with(|queue| queue.ready.borrow_mut().pop_front())
    {
        operation.run();
    }
    drop(running);
}
