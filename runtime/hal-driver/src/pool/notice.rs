//! Waits for memory that others release ([`notify`]): of queue allocations that found a pool exhausted, in every
//! driver.
//!
//! An allocation that fails subscribes to the next release. One that happens between the two is seen by the number of
//! releases, which the allocation reads before it tries, and which is read again after it has subscribed: so none is
//! missed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::hal::Pool;
use crate::status::Result;

/// The fate of a subscriber to releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// It is called when memory is released.
    Later,
    /// Memory was released since the caller looked: it is not called, and the caller tries again.
    Released,
    /// Nothing is in use that could be released: it is not called.
    Never,
}

/// Calls `retry` when `pool` releases memory, or goes away, on whatever thread that is, if it has released none since
/// its `release_count` was `releases`.
pub fn notify(pool: &dyn Pool, releases: u64, retry: impl FnOnce(Result<()>) + Send + 'static) -> Notice {
    let stats = pool.stats();
    if stats.release_count != releases {
        return Notice::Released;
    }
    if stats.reservation_count == 0 {
        return Notice::Never;
    }
    // The first to set it, the callback or the check below, has the allocation.
    let is_taken = Arc::new(AtomicBool::new(false));
    let same = is_taken.clone();
    pool.notify(Box::new(move |outcome| {
        if !same.swap(true, Ordering::AcqRel) {
            retry(outcome);
        }
    }));
    if pool.stats().release_count != releases && !is_taken.swap(true, Ordering::AcqRel) {
        return Notice::Released;
    }
    Notice::Later
}
