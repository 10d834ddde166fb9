//! How the end of an operation is passed on: its points are signaled, or its timelines fail with the cause.

use crate::hal::Timepoint;
use crate::status::{Result, StatusCode};

/// Passes on how an operation ended.
pub(super) fn complete(signal: &[Timepoint], outcome: Result<()>) {
    match outcome {
        // A call of the host that signals by itself.
        Err(status) if status.code() == StatusCode::Deferred => {}
        outcome => finish(signal, outcome),
    }
}

/// Signals all points, or fails all timelines with the cause.
pub(super) fn finish(signal: &[Timepoint], outcome: Result<()>) {
    for point in signal {
        let signaled = match &outcome {
            Ok(()) => point.semaphore.signal(point.value),
            Err(cause) => Err(cause.clone()),
        };
        if let Err(status) = signaled
            && (outcome.is_err() || !is_past(point))
        {
            point.semaphore.fail(status);
        }
    }
}

/// Whether a timeline is at a point already. Who waits for one point of an operation may signal a later value of another one before the
/// operation comes to that: then its own value is reached as well.
fn is_past(point: &Timepoint) -> bool {
    point.semaphore.query().is_ok_and(|value| value >= point.value)
}
