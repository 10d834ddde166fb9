//! Panics of the host's code ([`guarded`]): they become failures where the code is called, and end no thread of a
//! driver.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::status::{Result, Status};

/// Runs code of the host. A panic becomes a failure that has its message; it was printed when it happened.
///
/// # Errors
/// `INTERNAL` for a panic.
pub fn guarded<T>(what: &str, run: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(run))
        .map_err(|panic| Status::internal(format!("{what} panicked: {}", text_of(&*panic))))
}

/// The message of a panic.
fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}
