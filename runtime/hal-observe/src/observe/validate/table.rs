//! Tables of what was seen ([`lock`]).

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The lock of a table, which is consistent whenever it is released: nothing of others runs under it.
pub(super) fn lock<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}
