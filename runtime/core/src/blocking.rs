//! Blocking threads: thread-local flags by which devices find out that the calling thread waits for its results, and by
//! which worker pools are notified that a worker blocks. Sessions set the first, semaphores of the HAL the second.
//!
//! A thread that calls a function and waits for the results may run the work itself that the function submits to a
//! device: that is faster than to wake a worker and wait for it, however long the work takes. A thread that does not
//! wait must not be held up by work.
//!
//! A worker that waits for a timeline, in a function of the host that the device calls, might wait for an operation
//! that only a worker can run. So it notifies its pool, which lets another worker take its place until the wait is
//! over.
//!
//! A wait on behalf of a call ends when the call is cancelled or its time is up. [`wait_within`] is such a wait for
//! whatever can wake a task.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

use crate::limits::{Limits, scope};
use crate::status::Result;

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

/// Runs a blocking section of a worker: `wait`, which blocks until other threads have done something. On other threads
/// it only calls it.
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

    scope::give_back_lent_fuel();
    let guard = SectionGuard(POOL.with_borrow(Clone::clone));
    if let Some(pool) = &guard.0 {
        pool.begin_blocking();
    }
    wait()
}

/// Blocks the thread until `outcome` is something or `deadline` has passed; none then. `begin` lets a waker be woken
/// when there may be an outcome, as long as its result lives.
///
/// # Errors
/// `CANCELLED`, `DEADLINE_EXCEEDED` or `RESOURCE_EXHAUSTED` if one of the limits is reached before, and failures of
/// `begin`.
pub fn wait_within<B, R>(
    limits: &Limits,
    deadline: Option<Instant>,
    begin: impl FnOnce(&Waker) -> Result<B>,
    outcome: impl Fn() -> Option<R>,
) -> Result<Option<R>> {
    let parked = Arc::new(ParkedThread { thread: thread::current(), is_woken: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&parked));
    let _cancelled = limits.cancellation.as_ref().map(|cancellation| cancellation.subscribe(&waker));
    let _begun = begin(&waker)?;
    let end = [deadline, limits.deadline].into_iter().flatten().min();
    loop {
        let found = outcome();
        if found.is_some() {
            return Ok(found);
        }
        limits.check_time()?;
        if let Some(cancellation) = limits.asked() {
            cancellation.decide()?;
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Ok(None);
        }
        wait(|| parked.park(end));
    }
}

/// A thread that waits, as a task that can be woken.
struct ParkedThread {
    thread: Thread,
    is_woken: AtomicBool,
}

impl ParkedThread {
    /// Blocks the thread, which is the calling one, until it is woken or the deadline has passed.
    fn park(&self, deadline: Option<Instant>) {
        // Parking may end for no reason, and others may unpark the thread.
        while !self.is_woken.swap(false, Ordering::Acquire) {
            let Some(deadline) = deadline else {
                thread::park();
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::park_timeout(left);
        }
    }
}

impl Wake for ParkedThread {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;
    use crate::limits::Cancellation;
    use crate::status::StatusCode;

    #[test]
    fn a_wait_ends_by_its_outcome_its_deadline_or_a_limit() {
        let value = Mutex::new(None);
        let outcome = || *value.lock().expect("nothing panics");
        let now = Instant::now();
        let no_limits = Limits::default();
        // The outcome comes when another thread has it; the deadline passes without.
        let found = thread::scope(|scope| {
            let begin = |waker: &Waker| {
                let (waker, value) = (waker.clone(), &value);
                scope.spawn(move || {
                    *value.lock().expect("nothing panics") = Some(5);
                    waker.wake();
                });
                Ok(())
            };
            wait_within(&no_limits, None, begin, outcome)
        });
        assert_eq!(found.expect("nothing is limited"), Some(5));
        let nothing = || None::<u32>;
        let begin = |_: &Waker| Ok(());
        let in_time = now.checked_add(Duration::from_millis(2));
        assert_eq!(wait_within(&no_limits, in_time, begin, nothing).expect("nothing is limited"), None);
        // So does the deadline of the limits, which is an error.
        let limits = Limits { deadline: in_time, ..Limits::default() };
        let code = |limits| wait_within(limits, None, begin, nothing).expect_err("there is no outcome").code();
        assert_eq!(code(&limits), StatusCode::DeadlineExceeded);
        // And another thread cancels the wait, while it lasts or before.
        let cancellation = Cancellation::new();
        let limits = Limits { cancellation: Some(cancellation.clone()), ..Limits::default() };
        thread::scope(|scope| {
            let cancel = |_: &Waker| {
                scope.spawn(|| cancellation.cancel());
                Ok(())
            };
            let error = wait_within(&limits, None, cancel, nothing).expect_err("there is no outcome");
            assert_eq!(error.code(), StatusCode::Cancelled);
        });
        assert_eq!(code(&limits), StatusCode::Cancelled);
    }
}
