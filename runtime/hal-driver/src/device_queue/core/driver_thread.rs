//! The threads of drivers: none of them waits for a queue to end, and a panic of the host's code ends none of them.

use crate::device_queue::rules::{Rule, keeps};
use crate::device_queue::sync::thread_local;
use crate::panics;
use crate::status::Result;

thread_local! {
    /// Whether the thread is one of a queue, or runs what a queue does on the host.
    static IS_DRIVER_THREAD: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Makes the calling thread one that never waits for a queue to end: others may wait for it.
pub fn join_driver() {
    IS_DRIVER_THREAD.with(|is_driver| is_driver.set(true));
}

/// Whether it is such a thread.
pub fn is_driver_thread() -> bool {
    IS_DRIVER_THREAD.with(|is_driver| is_driver.get())
}

/// The same as [`panics::guarded`], which the model checker can break.
///
/// # Errors
/// `INTERNAL` for a panic.
pub fn guarded<T>(what: &str, run: impl FnOnce() -> T) -> Result<T> {
    if keeps(Rule::PanicsAreCaught) { panics::guarded(what, run) } else { Ok(run()) }
}
