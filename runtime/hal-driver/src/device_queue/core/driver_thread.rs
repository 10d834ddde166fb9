//! The threads of drivers: none of them waits for a queue to end, and a panic of the host's code ends none of them.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::device_queue::rules::{Rule, keeps};
use crate::device_queue::sync::thread_local;
use crate::status::{Result, Status};

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

/// Runs code of the host. A panic becomes a failure that has its message; it was printed when it happened.
///
/// # Errors
/// `INTERNAL` for a panic.
pub fn guarded<T>(what: &str, run: impl FnOnce() -> T) -> Result<T> {
    if !keeps(Rule::PanicsAreCaught) {
        return Ok(run());
    }
    catch_unwind(AssertUnwindSafe(run))
        .map_err(|panic| Status::internal(format!("{what} panicked: {}", text_of(&*panic))))
}

/// The message of a panic.
fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}
