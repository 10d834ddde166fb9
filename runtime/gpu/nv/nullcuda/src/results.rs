//! The results of functions: statuses, and values written where the caller wants them.

use std::sync::atomic::{AtomicU32, Ordering};

use vireo_cuda::result::CuResult;

static LAST: AtomicU32 = AtomicU32::new(0);

/// A number that no other handle has had for four thousand million handles; never 0.
pub(crate) fn next() -> u32 {
    LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1)
}

/// Writes a result unless the caller does not want it.
///
/// # Safety
/// The pointer is null, or valid for a write.
pub(crate) unsafe fn put<T>(target: *mut T, value: T) {
    if !target.is_null() {
        // SAFETY: the caller vouches for it.
        unsafe { target.write(value) };
    }
}

/// The status of a function that is listed.
pub(crate) fn success() -> CuResult {
    CuResult::SUCCESS
}

/// The status of a function that is not listed, which is named.
#[cold]
pub(crate) fn refused(symbol: &'static str) -> CuResult {
    eprintln!("nullcuda: {symbol}: it is not listed");
    CuResult::ERROR_NOT_SUPPORTED
}
