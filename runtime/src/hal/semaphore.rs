//! Timelines, and waiting for points on several of them.
//!
//! A failure is kept as it was first given and handed to everyone who waits, so the root cause is what every waiter sees. A timeline
//! that is dropped before it reaches a point fails those who wait for it: nobody waits for what cannot happen.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::{SEMAPHORE_MAX_VALUE, Semaphore, Timepoint};
use crate::status::{Result, Status, StatusCode};
use crate::vm::Wait;

type Callback = Box<dyn FnOnce(Result<()>) + Send>;

#[derive(Default)]
struct State {
    value: u64,
    failure: Option<Status>,
    /// By the value that is waited for, then in the order of their coming.
    waiters: BTreeMap<(u64, u64), Callback>,
    /// Number of waiters so far.
    arrivals: u64,
    /// Threads that block. Waking costs a system call, and mostly nobody is there.
    blocked: usize,
}

impl State {
    /// What a thread that waits for `value` is told, once there is something to tell.
    fn outcome(&self, value: u64) -> Option<Result<()>> {
        match &self.failure {
            Some(failure) => Some(Err(failure.clone())),
            None => (self.value >= value).then_some(Ok(())),
        }
    }
}

/// A timeline in host memory.
#[derive(Default)]
pub struct HostSemaphore {
    state: Mutex<State>,
    changed: Condvar,
}

impl HostSemaphore {
    /// A timeline with this payload.
    pub fn new(initial_value: u64) -> HostSemaphore {
        let state = State { value: initial_value, ..State::default() };
        HostSemaphore { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent whenever the lock is released: callbacks run without it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases the lock and wakes the threads that block.
    fn wake(&self, state: MutexGuard<'_, State>) {
        let blocked = state.blocked > 0;
        drop(state);
        if blocked {
            self.changed.notify_all();
        }
    }
}

impl Semaphore for HostSemaphore {
    fn query(&self) -> Result<u64> {
        let state = self.lock();
        state.failure.clone().map_or(Ok(state.value), Err)
    }

    fn signal(&self, value: u64) -> Result<()> {
        let mut state = self.lock();
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        if value <= state.value || value > SEMAPHORE_MAX_VALUE {
            let message = format!("cannot signal {value}: the timeline is at {} and only advances", state.value);
            return Err(Status::invalid_argument(message));
        }
        state.value = value;
        let waiting = state.waiters.split_off(&(value + 1, 0));
        let reached = std::mem::replace(&mut state.waiters, waiting);
        self.wake(state);
        for callback in reached.into_values() {
            callback(Ok(()));
        }
        Ok(())
    }

    fn fail(&self, status: Status) {
        let mut state = self.lock();
        if state.failure.is_some() {
            return;
        }
        state.failure = Some(status.clone());
        let waiters = std::mem::take(&mut state.waiters);
        self.wake(state);
        for callback in waiters.into_values() {
            callback(Err(status.clone()));
        }
    }

    fn wait(&self, value: u64, deadline: Option<Instant>) -> Result<()> {
        let mut state = self.lock();
        if let Some(outcome) = state.outcome(value) {
            return outcome;
        }
        state.blocked += 1;
        let outcome = loop {
            let Ok(woken) = block(&self.changed, state, deadline) else {
                state = self.lock();
                let message = format!("the timeline did not reach {value} in time");
                break Err(Status::new(StatusCode::DeadlineExceeded, message));
            };
            state = woken;
            if let Some(outcome) = state.outcome(value) {
                break outcome;
            }
        };
        state.blocked -= 1;
        outcome
    }

    fn notify(&self, value: u64, callback: Callback) {
        let mut state = self.lock();
        let Some(outcome) = state.outcome(value) else {
            let arrival = state.arrivals;
            state.arrivals += 1;
            state.waiters.insert((value, arrival), callback);
            return;
        };
        drop(state);
        callback(outcome);
    }
}

impl Drop for HostSemaphore {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for ((value, _), callback) in std::mem::take(&mut state.waiters) {
            let message = format!("the timeline went away at {} before it reached {value}", state.value);
            callback(Err(Status::new(StatusCode::Aborted, message)));
        }
    }
}

impl fmt::Debug for HostSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        match &state.failure {
            Some(failure) => write!(f, "semaphore(failed: {failure})"),
            None => write!(f, "semaphore({})", state.value),
        }
    }
}

/// Waits for a notification, or fails once the deadline has passed.
fn block<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
    deadline: Option<Instant>,
) -> std::result::Result<MutexGuard<'a, T>, ()> {
    let Some(deadline) = deadline else {
        return Ok(condition.wait(guard).unwrap_or_else(PoisonError::into_inner));
    };
    let left = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()).ok_or(())?;
    Ok(condition.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0)
}

/// Waits for all of a number of timepoints, or for the first failure among them.
#[derive(Clone)]
pub struct MultiWait(Arc<Progress>);

struct Progress {
    state: Mutex<(usize, Option<Status>)>,
    changed: Condvar,
}

impl MultiWait {
    /// Starts to wait. Holds none of the timelines.
    pub fn new(points: &[Timepoint]) -> MultiWait {
        let progress = Arc::new(Progress { state: Mutex::new((points.len(), None)), changed: Condvar::new() });
        for point in points {
            let progress = progress.clone();
            let callback = move |result: Result<()>| {
                let mut state = progress.state.lock().unwrap_or_else(PoisonError::into_inner);
                match result {
                    Ok(()) => state.0 -= 1,
                    Err(failure) => state.1 = state.1.take().or(Some(failure)),
                }
                drop(state);
                progress.changed.notify_all();
            };
            point.semaphore.notify(point.value, Box::new(callback));
        }
        MultiWait(progress)
    }

    /// The outcome, once there is one.
    pub fn outcome(&self) -> Option<Result<()>> {
        let state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        outcome(&state)
    }

    /// Blocks until there is an outcome; DEADLINE_EXCEEDED if the deadline passes first.
    pub fn wait(&self, deadline: Option<Instant>) -> Result<()> {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(outcome) = outcome(&state) {
                return outcome;
            }
            state = block(&self.0.changed, state, deadline)
                .map_err(|_| Status::new(StatusCode::DeadlineExceeded, "the timepoints were not reached in time"))?;
        }
    }
}

fn outcome((remaining, failure): &(usize, Option<Status>)) -> Option<Result<()>> {
    match failure {
        Some(failure) => Some(Err(failure.clone())),
        None => (*remaining == 0).then_some(Ok(())),
    }
}

impl Wait for MultiWait {
    fn is_ready(&self) -> bool {
        self.outcome().is_some()
    }

    fn block(&self, deadline: Option<Instant>) {
        // The outcome is read by whoever asked; here only the waiting counts.
        let _ = self.wait(deadline);
    }
}

/// Blocks until all points are reached, one fails, or the deadline passes.
pub fn wait_all(points: &[Timepoint], deadline: Option<Instant>) -> Result<()> {
    match points {
        [] => Ok(()),
        [point] => point.semaphore.wait(point.value, deadline),
        points => MultiWait::new(points).wait(deadline),
    }
}
