//! The parts of the standard library with which packet processors lock and wait. The model checker of `tests/model`
//! puts its own in this place, so `bell`, `doorbell`, `lifecycle` and `packet_loop` name no others.

use std::sync::PoisonError;
use std::time::Duration;

pub(crate) use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering, fence};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use std::thread::yield_now;
pub(crate) use std::thread_local;

/// Looks at a word before a thread sleeps: a program that writes to it directly often does so soon.
pub(crate) const SPINS: u32 = 64;

/// Waits to be notified, or for some time.
pub(crate) fn wait_timeout<'a>(condition: &Condvar, guard: MutexGuard<'a, ()>, time: Duration) -> MutexGuard<'a, ()> {
    condition.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner).0
}
