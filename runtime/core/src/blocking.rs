//! Blocking threads: thread-local flags by which devices find out that the calling thread waits for its results, and by which worker pools are
//! notified that a worker blocks. Sessions set the first, semaphores of the HAL the second.
//!
//! A thread that calls a function and waits for the results may run the work itself that the function submits to a device: that is faster than to
//! wake a worker and wait for it, however long the work takes. A thread that does not wait must not be held up by work.
//!
//! A worker that waits for a timeline, in a function of the host that the device calls, might wait for an operation that only a worker can run.
//! So it notifies its pool, which lets another worker take its place until the wait is over.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::Arc;

thread_local! {
    static BLOCKING: Cell<bool> = const { Cell::new(false) };
    /// Whether the thread is a worker. It is read often, so it is a flag of its own beside `POOL`.
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
    static POOL: RefCell<Option<Arc<dyn WorkerPool>>> = const { RefCell::new(None) };
}

/// A worker pool that replaces workers which block.
pub trait WorkerPool {
    /// The calling worker begins to wait for something that may need another worker.
    fn begin_blocking(&self);

    /// The wait of the calling worker is over.
    fn end_blocking(&self);
}

/// Makes the calling thread a worker of a pool.
pub fn join(pool: Arc<dyn WorkerPool>) {
    POOL.set(Some(pool));
    IS_WORKER.set(true);
}

/// Whether the calling thread is a worker of a pool.
#[inline]
pub fn is_worker() -> bool {
    IS_WORKER.get()
}

/// Runs a blocking section of a worker: `wait`, which blocks until other threads have done something. On other threads it only calls it.
pub fn wait<R>(wait: impl FnOnce() -> R) -> R {
    /// Ends the section also if waiting panics.
    struct SectionGuard(Option<Arc<dyn WorkerPool>>);

    impl Drop for SectionGuard {
        fn drop(&mut self) {
            if let Some(pool) = &self.0 {
                pool.end_blocking();
            }
        }
    }

    let guard = SectionGuard(POOL.with_borrow(Clone::clone));
    if let Some(pool) = &guard.0 {
        pool.begin_blocking();
    }
    wait()
}

/// A guard: while it lives, the thread waits for the results of all work that it starts.
pub struct Blocking {
    before: bool,
    /// Makes it `!Send`, since the flag is that of a thread.
    thread: PhantomData<*const ()>,
}

impl Blocking {
    /// Sets the flag of the thread; dropping the guard restores it.
    #[inline]
    pub fn enter() -> Blocking {
        Blocking { before: BLOCKING.replace(true), thread: PhantomData }
    }
}

impl Drop for Blocking {
    #[inline]
    fn drop(&mut self) {
        BLOCKING.set(self.before);
    }
}

/// True if the thread waits for the results of the work that it starts, so that a device may run it on this thread.
#[inline]
pub fn is_blocking() -> bool {
    BLOCKING.get()
}
