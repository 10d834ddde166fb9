//! Blocking sections: how devices learn which threads wait, and worker pools that one of theirs does.
//!
//! A thread that calls a function and waits for its results may as well run the work itself that the function gives to a device, however
//! long it takes: waking another thread for it and waiting for that one is slower. A thread that does not wait must not be held up.
//!
//! A worker of a device that waits for a timeline, in a function of the host that the device calls, might wait for an operation that
//! only a worker can run. So it says so, and another one takes its place meanwhile.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::Arc;

thread_local! {
    static BLOCKING: Cell<bool> = const { Cell::new(false) };
    /// Whether the thread is a worker: asked often, so it is not looked up in `POOL`.
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
    static POOL: RefCell<Option<Arc<dyn WorkerPool>>> = const { RefCell::new(None) };
}

/// A worker pool whose threads stand in for each other.
pub trait WorkerPool {
    /// The calling worker begins to wait for something that only another one may be able to bring about.
    fn begin_blocking(&self);

    /// The calling worker has waited.
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

/// Runs a blocking section: something that waits for what other threads do.
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

/// A stretch of time in which the thread waits for whatever it starts.
pub struct Blocking {
    before: bool,
    /// It stays on its thread.
    thread: PhantomData<*const ()>,
}

impl Blocking {
    /// Begins one; it ends when the value is dropped, on the same thread.
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

/// Whether the thread waits for whatever it starts.
#[inline]
pub fn is_blocking() -> bool {
    BLOCKING.get()
}
