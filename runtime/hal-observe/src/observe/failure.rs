//! Failures of queue operations that an observer refuses ([`Observer::submitting`](super::Observer::submitting)). They
//! go where failures of the operation would: to the points that it signals, after the points that it waits for. The
//! generated wrappers call this.

use crate::hal::Timepoint;
use crate::hal::recycle::{MAX_FREE, Uninit, free_list};
use crate::hal::timepoints::{Continuation, PendingWait, continue_after, reached, signal_all};
use crate::status::{Result, Status};

free_list! { static FAILING: Uninit<PendingWait<Failing>>, MAX_FREE }

/// An operation that fails once its points are reached.
struct Failing {
    signal: Vec<Timepoint>,
    failure: Status,
}

impl Continuation for Failing {
    fn ready(self, outcome: Result<()>) {
        signal_all(&self.signal, Err(outcome.err().unwrap_or(self.failure)));
    }
}

/// Fails the points of `signal` once those of `wait` are reached, with an earlier failure if one of these has it. The
/// caller gets the failure if there is nothing to signal.
pub(crate) fn fail_operation(wait: &[Timepoint], signal: &[Timepoint], failure: Status) -> Result<()> {
    if signal.is_empty() {
        return Err(failure);
    }
    match reached(wait) {
        Ok(false) => continue_after(&FAILING, wait, Failing { signal: signal.to_vec(), failure }),
        Ok(true) => signal_all(signal, Err(failure)),
        Err(earlier) => signal_all(signal, Err(earlier)),
    }
    Ok(())
}
