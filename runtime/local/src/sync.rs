//! The parts of the standard library with which the threads of an executor lock, wait and start each other. The model
//! checker of `tests/model` puts its own in this place, so `task` and `queue` name no others.

use std::io;
use std::time::Instant;

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic;
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use std::thread::{JoinHandle, Thread, current, park};
pub(crate) use std::thread_local;

/// Starts a thread with a stack of so many bytes.
pub(crate) fn spawn(
    name: String,
    stack_size: usize,
    run: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name).stack_size(stack_size).spawn(run)
}

/// Whether a thread has ended, so that joining it does not wait.
pub(crate) fn is_finished(thread: &JoinHandle<()>) -> bool {
    thread.is_finished()
}

/// The time.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Spin iterations between two looks at the clock.
pub(crate) const fn pauses(count: u32) -> u32 {
    count
}
