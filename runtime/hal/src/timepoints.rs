//! Timepoints of queue operations: [`continue_after`] runs a continuation when all points it waits for are reached, and
//! [`complete`] passes the outcome of an operation on to the points that it signals. A failure keeps its cause, so the
//! end of a chain learns how it began.
//!
//! This does not depend on what runs the operations, so the queues of all drivers can use it.

use std::sync::{Arc, Mutex, PoisonError};

use super::Timepoint;
use super::recycle::{self, FreeList, Uninit};
use super::semaphore::{Subscriber, subscribe};
use crate::status::{Result, StatusCode};

/// The work that follows when points are reached: for queues, an operation that becomes ready.
pub trait Continuation: Send + 'static {
    /// Called once all points are reached, or with the first failure of a timeline, on the thread that signals: it must
    /// not block.
    fn ready(self, outcome: Result<()>);
}

/// A subscriber to all points of a wait, from a free list.
pub struct PendingWait<T: Continuation> {
    /// The list that it is recycled to.
    free_list: &'static FreeList<Uninit<PendingWait<T>>>,
    /// How many points are not reached yet, and the continuation until it is called.
    state: Mutex<(usize, Option<T>)>,
}

impl<T: Continuation> Subscriber for PendingWait<T> {
    fn notified(self: Arc<Self>, outcome: Result<()>) {
        let continuation = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.0 -= 1;
            match (&outcome, state.0) {
                // The first failure calls the continuation; later notifications find none.
                (Err(_), _) | (Ok(()), 0) => state.1.take(),
                (Ok(()), _) => None,
            }
        };
        recycle::into_inner(self.free_list, self);
        if let Some(continuation) = continuation {
            continuation.ready(outcome);
        }
    }
}

/// Calls `continuation` after all of `points` are reached. The caller has found one that is not.
pub fn continue_after<T: Continuation>(
    free_list: &'static FreeList<Uninit<PendingWait<T>>>,
    points: &[Timepoint],
    continuation: T,
) {
    let pending =
        recycle::new_arc(free_list, PendingWait { free_list, state: Mutex::new((points.len(), Some(continuation))) });
    for point in points {
        subscribe(point, pending.clone());
    }
    recycle::into_inner(free_list, pending);
}

/// True if all points are reached.
///
/// # Errors
/// The failure of a timeline.
pub fn reached(points: &[Timepoint]) -> Result<bool> {
    for point in points {
        if point.semaphore.query()? < point.value {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Signals or fails the points of an operation by its outcome, unless the operation does so itself.
pub fn complete(signal: &[Timepoint], outcome: Result<()>) {
    match outcome {
        // A host call that signals by itself.
        Err(status) if status.code() == StatusCode::Deferred => {}
        outcome => signal_all(signal, outcome),
    }
}

/// Signals all points, or fails all timelines with the cause.
pub fn signal_all(signal: &[Timepoint], outcome: Result<()>) {
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

/// Whether a timeline is at a point already. A waiter for one point of an operation may signal a later value of the
/// timeline of another before the operation gets to that point, which is then reached as well.
fn is_past(point: &Timepoint) -> bool {
    point.semaphore.query().is_ok_and(|value| value >= point.value)
}
