//! Timelines of drivers whose devices wait for each other ([`DeviceTimeline`]): a timeline of the host that also knows
//! which submissions of queues will advance it. So an operation on a queue can wait for another queue, without the host
//! in between.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::hal::{HostSemaphore, Semaphore, Timepoint};
use crate::status::{Result, Status};

/// A point of a timeline that a submission will reach.
#[derive(Clone, Debug)]
pub struct PendingPoint<S> {
    /// The value that the timeline will have.
    pub value: u64,
    /// The submission.
    pub submission: S,
}

/// A timeline. `S` names a submission.
pub struct DeviceTimeline<S> {
    timeline: HostSemaphore,
    /// By value, so that timelines with many submissions cost no more than those with few.
    pending: Mutex<VecDeque<PendingPoint<S>>>,
    /// The agent whose queues alone signal it and wait for it, if the program said so.
    agent: Option<u64>,
}

impl<S> fmt::Debug for DeviceTimeline<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.timeline, f)
    }
}

impl<S: Clone + Send + Sync + 'static> DeviceTimeline<S> {
    /// A timeline that starts at `initial_value`.
    pub fn new(initial_value: u64) -> DeviceTimeline<S> {
        DeviceTimeline { timeline: HostSemaphore::new(initial_value), pending: Mutex::default(), agent: None }
    }

    /// The same, for queues of one agent alone.
    pub fn of_agent(initial_value: u64, agent: u64) -> DeviceTimeline<S> {
        DeviceTimeline { agent: Some(agent), ..DeviceTimeline::new(initial_value) }
    }

    /// The agent whose queues alone use it, if the program said so.
    pub fn agent(&self) -> Option<u64> {
        self.agent
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<PendingPoint<S>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the first point if it is not after `value`.
    fn pop_until(&self, value: u64) -> Option<PendingPoint<S>> {
        self.lock().pop_front_if(|point| point.value <= value)
    }

    /// Notes that a submission will reach `value`. It is forgotten when the timeline gets there or fails.
    pub fn add_pending(&self, value: u64, submission: S) {
        let mut pending = self.lock();
        let index = end_of(&pending, value);
        pending.insert(index, PendingPoint { value, submission });
    }

    /// The submission that will signal `value` itself. One that will reach more is no reason to wait for that: the host
    /// may signal what is between.
    pub fn pending(&self, value: u64) -> Option<S> {
        let pending = self.lock();
        let least = pending.partition_point(|point| point.value < value);
        pending.get(least).filter(|point| point.value == value).map(|point| point.submission.clone())
    }

    /// Looks at the submission that will signal the greatest value up to this one, if there is one.
    pub fn look_at_pending_before<R>(&self, value: u64, look: impl FnOnce(&S) -> R) -> Option<R> {
        let pending = self.lock();
        let end = end_of(&pending, value);
        Some(look(&pending.get(end.checked_sub(1)?)?.submission))
    }
}

/// How many points are not after a value. Mostly all are, since programs submit in the order of values.
fn end_of<S>(pending: &VecDeque<PendingPoint<S>>, value: u64) -> usize {
    match pending.back() {
        Some(last) if last.value > value => pending.partition_point(|point| point.value <= value),
        _ => pending.len(),
    }
}

/// Forgets the points up to a value.
struct Reached<'a, S: Clone + Send + Sync + 'static>(&'a DeviceTimeline<S>, u64);

impl<S: Clone + Send + Sync + 'static> Drop for Reached<'_, S> {
    fn drop(&mut self) {
        // The last reference to a signal destroys it, so they go without the lock.
        while let Some(reached) = self.0.pop_until(self.1) {
            drop(reached);
        }
    }
}

/// A timepoint's timeline as one whose submissions are named by `S`.
pub fn own<S: Clone + Send + Sync + 'static>(point: &Timepoint) -> Option<&DeviceTimeline<S>> {
    let any: &dyn std::any::Any = &*point.semaphore;
    any.downcast_ref()
}

impl<S: Clone + Send + Sync + 'static> Semaphore for DeviceTimeline<S> {
    fn query(&self) -> Result<u64> {
        self.timeline.query()
    }

    fn signal(&self, value: u64) -> Result<()> {
        // Also if the timeline was there before, or a callback panics: who made it pending is done.
        let _reached = Reached(self, value);
        self.timeline.signal(value)
    }

    fn fail(&self, status: Status) {
        self.timeline.fail(status);
        let pending = std::mem::take(&mut *self.lock());
        drop(pending);
    }

    fn wait(&self, value: u64, deadline: Option<Instant>) -> Result<()> {
        self.timeline.wait(value, deadline)
    }

    fn notify(&self, value: u64, callback: Box<dyn FnOnce(Result<()>) + Send>) {
        self.timeline.notify(value, callback);
    }

    fn recycle(self: Arc<Self>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_submission_that_signals_a_value_is_waited_for() {
        let semaphore = DeviceTimeline::<&str>::new(1);
        semaphore.add_pending(7, "late");
        semaphore.add_pending(4, "early");
        assert_eq!(
            [3, 4, 5, 7, 8].map(|value| semaphore.pending(value)),
            [None, Some("early"), None, Some("late"), None]
        );
        assert_eq!(
            [3, 4, 6, 7, 8].map(|value| semaphore.look_at_pending_before(value, |submission| *submission)),
            [None, Some("early"), Some("early"), Some("late"), Some("late")]
        );
        semaphore.signal(4).expect("advances");
        assert_eq!((semaphore.query().expect("did not fail"), semaphore.pending(7)), (4, Some("late")));
        semaphore.fail(Status::internal("broken"));
        assert_eq!(semaphore.pending(5), None);
        assert!(semaphore.query().expect_err("it failed").message().contains("broken"));
    }
}
