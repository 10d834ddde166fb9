//! Calls of functions of the host that streams run. Those may not call functions of this library, so each thread knows
//! whether it is in one.

use std::cell::Cell;

thread_local! {
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// Runs a function of the host for a stream.
pub(crate) fn calling_back<T>(call: impl FnOnce() -> T) -> T {
    IN_CALLBACK.set(true);
    let result = call();
    IN_CALLBACK.set(false);
    result
}

/// Whether the thread is in such a function.
pub(crate) fn is_calling_back() -> bool {
    IN_CALLBACK.get()
}
