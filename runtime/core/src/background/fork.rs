//! Handlers of `fork`, which stop the thread before and start it after.

/// Lets each fork wait for the job that runs.
#[cfg(unix)]
pub(super) fn register() {
    static REGISTERED: std::sync::Once = std::sync::Once::new();
    // SAFETY: the functions neither unwind nor allocate memory after the fork.
    REGISTERED.call_once(|| unsafe {
        // Without memory for it, a fork in the middle of a job is what it is in other programs with threads.
        libc::pthread_atfork(Some(handlers::prepare), Some(handlers::in_parent), Some(handlers::in_child));
    });
}

#[cfg(not(unix))]
pub(super) fn register() {}

#[cfg(unix)]
mod handlers {
    use std::cell::Cell;
    use std::sync::MutexGuard;

    use crate::background::queue::{Queue, lock, wait_for_running};

    thread_local! {
        /// The lock of the queue, which the thread holds while it forks: no job can begin.
        static LOCK: Cell<Option<MutexGuard<'static, Queue>>> = const { Cell::new(None) };
    }

    pub(super) extern "C" fn prepare() {
        let queue = wait_for_running(lock());
        // In a thread that ends, whose locals are gone, the lock is released here, and the fork goes on without it.
        let _ = LOCK.try_with(|lock| lock.set(Some(queue)));
    }

    pub(super) extern "C" fn in_parent() {
        let _ = LOCK.try_with(Cell::take);
    }

    pub(super) extern "C" fn in_child() {
        if let Ok(Some(mut queue)) = LOCK.try_with(Cell::take) {
            // The next job starts another one.
            queue.has_thread = false;
        }
    }
}
