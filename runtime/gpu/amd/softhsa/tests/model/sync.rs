//! Locks and atomics of the model checker, which decides who goes on at each of them.

use std::sync::PoisonError;
use std::time::Duration;

pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering, fence};
pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use shuttle::thread::yield_now;
pub(crate) use shuttle::thread_local;

pub(crate) use crate::bell::Bell;

/// Threads sleep soon, which is where they may hang.
pub(crate) const SPINS: u32 = 1;

/// Waits to be notified. No time passes here: all writes ring, so a sleep that no thread ends is a hang.
pub(crate) fn wait_timeout<'a>(condition: &Condvar, guard: MutexGuard<'a, ()>, _: Duration) -> MutexGuard<'a, ()> {
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}
