//! Waits for points on several timelines ([`MultiWait`]): for all of them or any of them. Fences, and hosts with
//! several timelines, use it.

use std::any::Any;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use smallvec::SmallVec;

use super::recycle::{self, MAX_FREE, Uninit, free_list};
use super::semaphore::{HostSemaphore, Subscriber, block, subscribe};
use super::{Semaphore, Timepoint};
use crate::blocking;
use crate::limits::scope::{self, Scope};
use crate::status::{Result, Status, StatusCode};
use crate::vm::WaitSource;

/// Waits for all of a number of timepoints, or for any one of them. The first failure ends the wait too, unless it was
/// over before. Dropping the last copy removes its subscriptions from timelines of the host.
pub struct MultiWait(ManuallyDrop<Arc<SharedWait>>);

struct SharedWait {
    state: Mutex<WaitState>,
    changed: Condvar,
    /// Copies of the [`MultiWait`].
    copies: AtomicUsize,
    /// The points it may still be subscribed to.
    points: SmallVec<[(Weak<dyn Semaphore>, u64); 2]>,
}

struct WaitState {
    /// How many points are not reached yet.
    outstanding: usize,
    /// The first failure that came while some were outstanding.
    failure: Option<Status>,
    /// The task that waits for the outcome.
    waker: Option<Waker>,
}

free_list! { static WAITS: Uninit<SharedWait>, MAX_FREE }

impl WaitState {
    fn outcome(&self) -> Option<Result<()>> {
        match &self.failure {
            Some(failure) => Some(Err(failure.clone())),
            None => (self.outstanding == 0).then_some(Ok(())),
        }
    }
}

impl SharedWait {
    fn lock(&self) -> MutexGuard<'_, WaitState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscriber for SharedWait {
    fn notified(self: Arc<Self>, outcome: Result<()>) {
        let mut state = self.lock();
        // A wait for any point is over with the first; the outcome of the others changes nothing.
        if state.outstanding > 0 {
            match outcome {
                Ok(()) => state.outstanding -= 1,
                Err(failure) => state.failure = state.failure.take().or(Some(failure)),
            }
            let waker = if state.outcome().is_some() { state.waker.take() } else { None };
            drop(state);
            self.changed.notify_all();
            waker.into_iter().for_each(Waker::wake);
        } else {
            drop(state);
        }
        recycle::into_inner(&WAITS, self);
    }
}

impl MultiWait {
    /// Starts to wait for all points. It does not keep the timelines alive.
    pub fn new(points: &[Timepoint]) -> MultiWait {
        MultiWait::of(points, points.len())
    }

    /// Starts to wait for any of the points; without points it is over at once. It does not keep the timelines alive.
    pub fn any(points: &[Timepoint]) -> MultiWait {
        MultiWait::of(points, points.len().min(1))
    }

    fn of(points: &[Timepoint], outstanding: usize) -> MultiWait {
        let shared = SharedWait {
            state: Mutex::new(WaitState { outstanding, failure: None, waker: None }),
            changed: Condvar::new(),
            copies: AtomicUsize::new(1),
            points: points.iter().map(|point| (Arc::downgrade(&point.semaphore), point.value)).collect(),
        };
        let wait = MultiWait(ManuallyDrop::new(recycle::new_arc(&WAITS, shared)));
        for point in points {
            subscribe(point, Arc::<SharedWait>::clone(&wait.0));
        }
        wait
    }

    /// The outcome, once there is one.
    ///
    /// # Errors
    /// The failure of a timeline.
    pub fn outcome(&self) -> Option<Result<()>> {
        self.0.lock().outcome()
    }

    /// Blocks until there is an outcome. A wait on behalf of a call ends at its limits, too.
    ///
    /// # Errors
    /// The failure of a timeline, `DEADLINE_EXCEEDED` if the deadline passes before, and the end of the call that
    /// waits.
    pub fn wait(&self, deadline: Option<Instant>) -> Result<()> {
        if let Some(outcome) = self.outcome() {
            return outcome;
        }
        blocking::wait(|| self.wait_blocking(deadline))
    }

    fn wait_blocking(&self, deadline: Option<Instant>) -> Result<()> {
        let scope = Scope::current();
        let limits = scope.limits();
        let deadline = [deadline, limits.and_then(|limits| limits.deadline)].into_iter().flatten().min();
        let cancellation = limits.and_then(|limits| limits.cancellation.as_ref());
        let _cancelled =
            cancellation.map(|cancellation| cancellation.subscribe(&Waker::from(Arc::new(BlockedWait(self.clone())))));
        let (mut state, mut is_decided) = (self.0.lock(), false);
        loop {
            if let Some(outcome) = state.outcome() {
                return outcome;
            }
            scope.check()?;
            if let Some(cancellation) = cancellation.filter(|cancellation| cancellation.is_asked())
                && !is_decided
            {
                drop(state);
                cancellation.decide()?;
                // Another thread may have to decide, and this one waits meanwhile.
                (state, is_decided) = (self.0.lock(), true);
                continue;
            }
            is_decided = false;
            let Ok(woken) = block(&self.0.changed, state, deadline) else {
                scope.check()?;
                let message = "the timepoints were not reached in time";
                return Err(Status::new(StatusCode::DeadlineExceeded, message));
            };
            state = woken;
        }
    }
}

/// A wait in which threads block, as a task that is woken when the call is cancelled for which they wait.
struct BlockedWait(MultiWait);

impl Wake for BlockedWait {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // With the lock held, a thread has either not looked at the limits yet, or blocks already.
        drop(self.0.0.lock());
        self.0.0.changed.notify_all();
    }
}

impl Clone for MultiWait {
    fn clone(&self) -> MultiWait {
        self.0.copies.fetch_add(1, Ordering::Relaxed);
        MultiWait(ManuallyDrop::new(Arc::clone(&self.0)))
    }
}

impl Drop for MultiWait {
    fn drop(&mut self) {
        // SAFETY: it is not used again.
        let shared = unsafe { ManuallyDrop::take(&mut self.0) };
        if shared.copies.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let subscriber = Arc::as_ptr(&shared).cast();
        for (timeline, value) in &shared.points {
            let Some(timeline) = timeline.upgrade() else { continue };
            let any: &dyn Any = &*timeline;
            if let Some(timeline) = any.downcast_ref::<HostSemaphore>() {
                timeline.unsubscribe(*value, subscriber);
            }
            // This may be the last reference by now.
            timeline.recycle();
        }
        recycle::into_inner(&WAITS, shared);
    }
}

impl MultiWait {
    /// The outcome if there is one; else wakes a task once there is one, instead of the task that was given before.
    ///
    /// # Errors
    /// The failure of a timeline.
    pub fn poll_outcome(&self, waker: &Waker) -> Poll<Result<()>> {
        let mut state = self.0.lock();
        if let Some(outcome) = state.outcome() {
            return Poll::Ready(outcome);
        }
        match &mut state.waker {
            Some(last) => last.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        Poll::Pending
    }
}

/// For asynchronous tasks of any executor. The timeline that is reached last wakes the task; no thread waits meanwhile.
impl Future for MultiWait {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.poll_outcome(context.waker())
    }
}

impl WaitSource for MultiWait {
    fn is_ready(&self) -> bool {
        self.outcome().is_some()
    }

    fn block(&self, deadline: Option<Instant>) {
        // The caller reads the outcome afterwards.
        let _ = self.wait(deadline);
    }

    fn wake(&self, waker: &Waker) -> Result<()> {
        if self.poll_outcome(waker).is_ready() {
            waker.wake_by_ref();
        }
        Ok(())
    }
}

/// Blocks until all points are reached, one fails, or the deadline passes. A wait on behalf of a call ends at its
/// limits, too.
///
/// # Errors
/// The failure of a timeline, `DEADLINE_EXCEEDED` if the deadline passes before, and the end of the call that waits.
pub fn wait_all(points: &[Timepoint], deadline: Option<Instant>) -> Result<()> {
    match points {
        [] => Ok(()),
        // Not each driver's semaphore knows of limits.
        [point] if !scope::is_armed() => point.semaphore.wait(point.value, deadline),
        points => MultiWait::new(points).wait(deadline),
    }
}

/// Blocks until any of the points is reached, one fails before, or the deadline passes. A wait on behalf of a call ends
/// at its limits, too.
///
/// # Errors
/// As [`wait_all`].
pub fn wait_any(points: &[Timepoint], deadline: Option<Instant>) -> Result<()> {
    match points {
        [] => Ok(()),
        [point] if !scope::is_armed() => point.semaphore.wait(point.value, deadline),
        points => MultiWait::any(points).wait(deadline),
    }
}
