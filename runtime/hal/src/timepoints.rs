//! Points of timelines as queues use them: what is submitted waits until its points are reached, and how it ended is passed on to the points
//! that it signals. A failure is passed on with its cause, so whoever waits at the end of a chain learns how it began.
//!
//! That does not depend on what runs the operations, so the queues of all drivers can use it.

use std::sync::{Arc, Mutex, PoisonError};

use super::Timepoint;
use super::recycle::{self, FreeList, Uninit};
use super::semaphore::{Subscriber, subscribe};
use crate::status::{Result, StatusCode};

/// What a queue keeps until points are reached.
pub trait Continuation: Send + 'static {
    /// All points are reached, or the first timeline has failed. Called on the thread that signals, so it must not block.
    fn ready(self, outcome: Result<()>);
}

/// What waits, in memory that is used again.
pub struct PendingWait<T: Continuation> {
    /// Where the memory goes.
    free_list: &'static FreeList<Uninit<PendingWait<T>>>,
    /// How many points are left, and what waits for them until they are reached or one of them cannot be.
    state: Mutex<(usize, Option<T>)>,
}

impl<T: Continuation> Subscriber for PendingWait<T> {
    fn notified(self: Arc<Self>, outcome: Result<()>) {
        let continuation = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.0 -= 1;
            match (&outcome, state.0) {
                // The first failure ends the wait; who comes later finds it gone.
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

/// Keeps `continuation` until all of `points` are reached. At least one of them was not, when the caller looked.
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
pub fn reached(points: &[Timepoint]) -> Result<bool> {
    for point in points {
        if point.semaphore.query()? < point.value {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Passes on how an operation ended.
pub fn complete(signal: &[Timepoint], outcome: Result<()>) {
    match outcome {
        // A call of the host that signals by itself.
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

/// Whether a timeline is at a point already. Who waits for one point of an operation may signal a later value of another one before the
/// operation comes to that: then its own value is reached as well.
fn is_past(point: &Timepoint) -> bool {
    point.semaphore.query().is_ok_and(|value| value >= point.value)
}
