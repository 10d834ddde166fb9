//! Asynchronous copies: a thread waits for the signals that a copy depends on. A copy that depends on nothing is done at once.

use std::sync::Arc;

use vireo_hsa::hsa::HsaStatus;

use crate::signals::Signal;
use crate::status::{Result, tell};
use crate::system::System;

/// The value of a completion signal after an error.
const FAILED: i64 = -1;

/// A copy.
#[derive(Clone, Copy)]
pub(crate) struct Copy {
    pub(crate) to: u64,
    pub(crate) from: u64,
    pub(crate) size: u64,
}

/// Copies, unless there is nothing to copy, and decrements `completion`, once all of `waits` are zero.
///
/// # Safety
/// The program vouches for memory that the map does not know, until the completion signal changes.
pub(crate) unsafe fn start(
    system: &Arc<System>,
    copy: Option<Copy>,
    waits: Vec<Arc<Signal>>,
    completion: Arc<Signal>,
) -> Result<()> {
    let run = move |system: &System| {
        // SAFETY: the program vouches for memory that the map does not know, until the completion signal changes.
        let copied = copy.map_or(Ok(()), |copy| unsafe { system.copy(copy.to, copy.from, copy.size) });
        system.update_signal(&completion, |value| if copied.is_ok() { value.wrapping_sub(1) } else { FAILED });
        copied
    };
    let is_open = |signal: &Arc<Signal>| signal.load() != 0 && !signal.is_destroyed();
    if !waits.iter().any(is_open) {
        return run(system);
    }
    let shared = system.clone();
    let wait = move || {
        let go = shared.signals.bell.wait(None, || {
            let stopped = shared.stop.requested();
            (stopped || !waits.iter().any(is_open)).then_some(!stopped)
        });
        if go == Some(true) && run(&shared).is_err() {
            tell(format_args!("an asynchronous copy leaves its allocations"));
        }
    };
    let thread = std::thread::Builder::new().name("softhsa-copy".to_string()).spawn(wait);
    let thread = thread.map_err(|_| HsaStatus::ERROR_OUT_OF_RESOURCES)?;
    system.add_helper(thread);
    Ok(())
}
