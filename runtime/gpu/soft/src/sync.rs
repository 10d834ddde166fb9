//! The parts of the standard library with which a bell locks and waits. A model checker puts its own in this place, so
//! `bell` names no others.

use std::sync::PoisonError;
use std::time::Duration;

pub(crate) use std::sync::atomic::{AtomicUsize, Ordering, fence};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use std::thread::yield_now;

/// Looks at a word before a thread sleeps: a program that writes to it directly often does so soon.
pub(crate) const SPINS: u32 = 64;

/// Waits to be notified, or for some time.
pub(crate) fn wait_timeout<'a>(condition: &Condvar, guard: MutexGuard<'a, ()>, time: Duration) -> MutexGuard<'a, ()> {
    condition.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner).0
}
