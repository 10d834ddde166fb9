//! Locks and threads of the model checker, which decides who goes on at each of them, and a clock that goes on when
//! somebody waits for it.

use std::cell::Cell;
use std::io;
use std::sync::{OnceLock, PoisonError};
use std::time::{Duration, Instant};

pub(crate) use shuttle::sync::atomic;
pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use shuttle::thread_local;

use crate::limits::scope::Scope;

std::thread_local! {
    static PASSED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

pub(crate) fn now() -> Instant {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    *BEGIN.get_or_init(Instant::now) + PASSED.get()
}

/// Lets the time come.
pub(crate) fn pass_until(time: Instant) {
    PASSED.set(PASSED.get() + time.saturating_duration_since(now()));
}

pub(super) fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    shuttle::thread::Builder::new().name(name).spawn(run).map(drop)
}

pub(super) fn wait_a_while<'a, T>(mutex: &'a Mutex<T>, _: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    drop(guard);
    shuttle::thread::yield_now();
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Limits that no part of the model reads.
pub(super) struct NoScope;

/// Threads of the model share one of the system, so the limits of the thread say nothing.
pub(super) fn enter(_scope: Scope) -> NoScope {
    NoScope
}
