//! The export `fence.await`: suspends the program until fences are reached, without blocking its thread, or until a
//! deadline.

use std::sync::{Mutex, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use crate::abi::Step;
use crate::status::StatusCode;
use crate::vm::{BoxedWaitSource, WaitSource};
use crate::{Result, Status};
use vireo_core::timer::Timer;
use vireo_hal::{Fence, MultiWait, Timepoint};

/// The timeout that never passes.
const INFINITE: u32 = u32::MAX;

/// How long a deadline is remembered after it has passed, in case its invocation never resumes.
const FORGET_AFTER: Duration = Duration::from_secs(60);

/// Deadlines of waits with a timeout. A suspended call is repeated with the same arguments when it resumes, and has to
/// find the deadline that it set the first time.
#[derive(Default)]
pub struct PendingDeadlines(Vec<PendingDeadline>);

struct PendingDeadline {
    /// Addresses of the fences, which identify the call; they are never dereferenced.
    fences: Vec<usize>,
    millis: u32,
    deadline: Instant,
}

impl PendingDeadlines {
    /// Waits for all `fences`. The outcome is 0, or the code of DEADLINE_EXCEEDED; a failed fence fails with the root
    /// cause.
    pub fn wait<'a, F>(&mut self, fences: F, timeout_millis: u32) -> Result<Step<i32>>
    where
        F: IntoIterator<Item = &'a Fence, IntoIter: Clone>,
    {
        let fences = fences.into_iter();
        let addresses = || fences.clone().map(|fence| std::ptr::from_ref(fence).addr()).collect::<Vec<_>>();
        // Waits without a timeout, which are most, store nothing.
        let known = if timeout_millis == INFINITE || self.0.is_empty() {
            None
        } else {
            let addresses = addresses();
            let known = self.0.iter().position(|known| known.fences == addresses && known.millis == timeout_millis);
            known.map(|index| self.0.swap_remove(index).deadline)
        };
        let mut reached = true;
        for fence in fences.clone() {
            reached &= fence.query()?;
        }
        if reached {
            return Ok(Step::Return(0));
        }
        let points: SmallVec<[Timepoint; 4]> = fences.clone().flat_map(|fence| fence.timepoints()).cloned().collect();
        let wait = MultiWait::new(&points);
        if timeout_millis == INFINITE {
            return Ok(Step::Wait(BoxedWaitSource::new(wait)));
        }
        let now = Instant::now();
        // A timeout of 49 days at most cannot overflow a clock that counts from boot.
        let deadline = known.unwrap_or_else(|| now + Duration::from_millis(timeout_millis.into()));
        if deadline <= now {
            return Ok(Step::Return(StatusCode::DeadlineExceeded as i32));
        }
        self.0.retain(|known| now.saturating_duration_since(known.deadline) < FORGET_AFTER);
        self.0.push(PendingDeadline { fences: addresses(), millis: timeout_millis, deadline });
        Ok(Step::Wait(BoxedWaitSource::new(DeadlineWait { wait, deadline, timer: Mutex::default() })))
    }
}

/// A wait that ends at the deadline at the latest.
struct DeadlineWait {
    wait: MultiWait,
    deadline: Instant,
    /// Wakes the task that waits at the deadline.
    timer: Mutex<Option<Timer>>,
}

impl WaitSource for DeadlineWait {
    fn is_ready(&self) -> bool {
        self.wait.is_ready() || Instant::now() >= self.deadline
    }

    fn block(&self, deadline: Option<Instant>) {
        self.wait.block(Some(deadline.map_or(self.deadline, |deadline| deadline.min(self.deadline))));
    }

    fn wake(&self, waker: &Waker) -> Result<()> {
        let mut timer = self.timer.lock().unwrap_or_else(PoisonError::into_inner);
        match &*timer {
            Some(timer) => timer.set_waker(waker),
            None => *timer = Some(Timer::start(self.deadline, waker.clone())?),
        }
        drop(timer);
        if Instant::now() >= self.deadline {
            waker.wake_by_ref();
        }
        self.wait.wake(waker)
    }
}

/// The failure for a status number of a program. Zero, which would be success, and unknown numbers become UNKNOWN.
pub fn failure(code: i32) -> Status {
    let code = StatusCode::from_number(code as u32).unwrap_or(StatusCode::Unknown);
    Status::new(code, "the program failed the fence")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_waiting(step: Result<Step<i32>>) -> bool {
        matches!(step, Ok(Step::Wait(_)))
    }

    fn returned(step: Result<Step<i32>>) -> i32 {
        match step {
            Ok(Step::Return(code)) => code,
            Ok(Step::Wait(_)) => panic!("still waiting"),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn reached_fences_return_at_once() {
        let fence = Fence::create();
        fence.signal().unwrap();
        let mut pending_deadlines = PendingDeadlines::default();
        assert_eq!(returned(pending_deadlines.wait([&fence, &fence], INFINITE)), 0);
        assert_eq!(returned(pending_deadlines.wait([], 0)), 0);
    }

    #[test]
    fn a_wait_becomes_ready_when_the_last_fence_is_signaled() {
        let (first, second) = (Fence::create(), Fence::create());
        let mut pending_deadlines = PendingDeadlines::default();
        let Ok(Step::Wait(wait)) = pending_deadlines.wait([&first, &second], INFINITE) else {
            panic!("expected to wait")
        };
        first.signal().unwrap();
        assert!(!wait.is_ready());
        second.signal().unwrap();
        assert!(wait.is_ready());
        assert_eq!(returned(pending_deadlines.wait([&first, &second], INFINITE)), 0);
    }

    #[test]
    fn a_failed_fence_fails_with_the_root_cause() {
        let fence = Fence::create();
        fence.fail(&Status::data_loss("the cause"));
        let Err(error) = PendingDeadlines::default().wait([&fence], INFINITE) else { panic!("expected a failure") };
        assert_eq!((error.code(), error.message()), (StatusCode::DataLoss, "the cause"));
    }

    #[test]
    fn a_timeout_counts_from_the_first_call() {
        let fence = Fence::create();
        let mut pending_deadlines = PendingDeadlines::default();
        assert!(is_waiting(pending_deadlines.wait([&fence], 60_000)));
        // The deadline is the one of the first call, not a new one.
        pending_deadlines.0[0].deadline = Instant::now();
        assert_eq!(returned(pending_deadlines.wait([&fence], 60_000)), StatusCode::DeadlineExceeded as i32);
        assert!(pending_deadlines.0.is_empty());
        assert_eq!(returned(pending_deadlines.wait([&fence], 0)), StatusCode::DeadlineExceeded as i32);
    }

    #[test]
    fn failing_with_no_code_is_a_failure() {
        assert_eq!(failure(0).code(), StatusCode::Unknown);
        assert_eq!(failure(-1).code(), StatusCode::Unknown);
        assert_eq!(failure(9).code(), StatusCode::FailedPrecondition);
    }
}
