//! Locks and threads of the model checker, which decides who goes on at each of them, and a clock that goes on when
//! somebody looks at it.

use std::cell::Cell;
use std::io;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use shuttle::rand::Rng;

pub(crate) use shuttle::hint::spin_loop;
pub(crate) use shuttle::sync::atomic;
pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use shuttle::thread::JoinHandle;
pub(crate) use shuttle::thread_local;

std::thread_local! {
    static PASSED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    static STARTS_FAIL: Cell<bool> = const { Cell::new(false) };
    static WORKERS: Cell<usize> = const { Cell::new(0) };
}

thread_local! {
    static SELF: Thread = Thread(Arc::default());
}

/// A thread that parks. It wakes for no reason but `unpark`, so that a wakeup that is missing is found.
#[derive(Clone)]
pub(crate) struct Thread(Arc<(Mutex<bool>, Condvar)>);

impl Thread {
    pub(crate) fn unpark(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }
}

pub(crate) fn current() -> Thread {
    SELF.with(Thread::clone)
}

pub(crate) fn park() {
    let Thread(own) = current();
    let mut token = own.0.lock().unwrap_or_else(PoisonError::into_inner);
    while !std::mem::take(&mut *token) {
        token = own.1.wait(token).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Lets no worker start, or only some, from here on.
pub(crate) fn set_starts_fail(fail: bool) {
    STARTS_FAIL.set(fail);
    WORKERS.set(0);
}

/// Workers that have not ended.
pub(crate) fn workers() -> usize {
    WORKERS.get()
}

pub(crate) fn spawn(
    name: String,
    _stack_size: usize,
    run: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    if STARTS_FAIL.get() && shuttle::rand::thread_rng().gen_bool(0.5) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    WORKERS.set(WORKERS.get() + 1);
    shuttle::thread::Builder::new().name(name).spawn(move || {
        run();
        WORKERS.set(WORKERS.get() - 1);
    })
}

/// Handles are kept: nothing depends on it.
pub(crate) fn is_finished(_thread: &JoinHandle<()>) -> bool {
    false
}

pub(crate) fn now() -> Instant {
    /// A look at the clock takes longer than the patience of a leader, so that it parks.
    const STEP: Duration = Duration::from_micros(200);
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    PASSED.set(PASSED.get() + STEP);
    *BEGIN.get_or_init(Instant::now) + PASSED.get()
}

/// A thread that spins lets others go on, and looks at the clock soon: many iterations would be many schedules of the
/// same.
pub(crate) fn pauses(_count: u32) -> u32 {
    1
}
