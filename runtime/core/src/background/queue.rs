//! The queue of background jobs, which the thread, what submits jobs and the handlers of forks lock.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use crate::fork::{Crew, ThreadCrew};

/// A job.
pub type Job = Box<dyn FnOnce() + Send>;

/// The jobs that wait, and what their thread does.
pub(super) struct Queue {
    pub(super) needed: VecDeque<Job>,
    pub(super) ahead: VecDeque<Job>,
    pub(super) has_thread: bool,
    pub(super) is_running: bool,
    /// How many [`Hold`](super::Hold)s there are.
    pub(super) holds: usize,
}

impl Queue {
    pub(super) fn take(&mut self) -> Option<Job> {
        if self.holds > 0 {
            return None;
        }
        self.needed.pop_front().or_else(|| self.ahead.pop_front())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.needed.is_empty() && self.ahead.is_empty()
    }
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue {
    needed: VecDeque::new(),
    ahead: VecDeque::new(),
    has_thread: false,
    is_running: false,
    holds: 0,
});
/// Notified when there may be a job to do.
pub(super) static SUBMITTED: Condvar = Condvar::new();
/// Notified when a job is done.
pub(super) static DONE: Condvar = Condvar::new();

/// Locks the queue.
pub(super) fn lock() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns once no job runs.
pub(super) fn wait_for_running(queue: MutexGuard<'static, Queue>) -> MutexGuard<'static, Queue> {
    let mut queue = queue;
    while queue.is_running {
        queue = DONE.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
    queue
}

/// The thread, for forks.
pub(super) fn crew() -> Weak<dyn Crew> {
    static CREW: LazyLock<Arc<ThreadCrew<Queue>>> = LazyLock::new(|| {
        Arc::new(ThreadCrew {
            lock: &QUEUE,
            idle: &DONE,
            is_busy: |queue| queue.is_running,
            forget_thread: |queue| (queue.has_thread, queue.is_running) = (false, false),
        })
    });
    let crew: Weak<ThreadCrew<Queue>> = Arc::downgrade(&CREW);
    crew
}
