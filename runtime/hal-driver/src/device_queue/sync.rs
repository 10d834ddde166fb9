//! The parts of the standard library with which the core of a queue locks, waits and starts threads. The model checker
//! of `tests/model` puts its own in this place, so the core names no others.

use std::io;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

pub(super) use std::sync::atomic;
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
pub(super) use std::thread_local;

use crate::limits::scope::{Scope, ScopeGuard};

/// Starts a detached thread.
pub(super) fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name).spawn(run).map(drop)
}

/// The time.
pub(super) fn now() -> Instant {
    Instant::now()
}

/// Waits to be notified, but not for long: the caller looks at what else ends its wait.
pub(super) fn wait_a_while<'a, T>(_: &'a Mutex<T>, changed: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    const WHILE: Duration = Duration::from_millis(10);
    changed.wait_timeout(guard, WHILE).unwrap_or_else(PoisonError::into_inner).0
}

/// Puts limits in force on the thread.
pub(super) fn enter(scope: Scope) -> ScopeGuard {
    scope.enter()
}
