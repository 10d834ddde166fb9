//! The completion thread of a queue ([`Core::run_completion`]): waits for the hardware, releases what submissions held,
//! and signals their timelines. It also ends what runs beyond the limits of its call. If the queue fails, it fails all
//! submissions with the cause.
//!
//! It waits for nothing but its own hardware. So it submits nothing, and it does not wait for room or for another
//! thread: what becomes ready by its signals goes to the feeders of their queues, and what has run before what it
//! waited for was signaled is left until that happens.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::driver_thread::{guarded, join_driver};
use super::frontier::LANES;
use super::hardware::{Hardware, Work};
use super::state::{Core, Entry, Hold, Submission, Waiting, complete};
use super::submission::unreached;
use crate::device_queue::rules::{Rule, keeps};
use crate::device_queue::sync::now;
use crate::limits::scope::Scope;
use crate::limits::{CancelSubscription, Limits};
use crate::status::{Result, Status, StatusCode};

/// How often limits are looked at that are over.
const LATE: Duration = Duration::from_millis(10);

/// How long a queue may go on after the limits of the call that it runs for are over, without completing anything and
/// at most. Kernels that end by themselves are left alone: others have work in the queue, which fails if it is ended.
const GRACE: Duration = Duration::from_millis(50);
const MOST_GRACE: Duration = Duration::from_secs(1);

/// The limits that end the submission in front.
#[derive(Default)]
struct Watch {
    /// Its limits.
    scope: Scope,
    /// Wakes the thread when it is cancelled.
    _cancelled: Option<CancelSubscription>,
    /// Since when they are over.
    over: Option<Instant>,
}

impl Watch {
    fn is_of(&self, scope: &Scope) -> bool {
        let address = |scope: &Scope| scope.limits().map(std::ptr::from_ref::<Limits>);
        address(&self.scope) == address(scope)
    }
}

impl<H: Hardware> Core<H> {
    /// Runs until the queue closes, has no holder, and everything has completed.
    pub(super) fn run_completion(self: &Arc<Self>) {
        join_driver();
        let mut drained = [0; LANES];
        let mut has_failed = false;
        let mut watch = Watch::default();
        // When it completed something last, or was left by its owner.
        let mut progressed = now();
        let mut was_closing = false;
        loop {
            // Before any state is read: a thread that changes it later ends the wait below.
            self.hardware.rearm();
            let fails = self.failure().is_some();
            self.complete_settled();
            if !has_failed {
                // Looked at after the failure: what completed before the queue failed has not failed.
                let last = self.drain(drained);
                if last != drained {
                    (drained, progressed) = (last, now());
                }
            }
            if fails && !has_failed {
                if keeps(Rule::PacketsStopFirst) {
                    self.hardware.stop();
                }
                self.fail_all();
                has_failed = true;
            }
            // In this order: a holder of the queue submits before it releases the queue.
            if self.is_closing() && (!self.is_held() || !keeps(Rule::HoldsKeepThreads)) && self.has_completed_all() {
                return;
            }
            if self.is_closing() && !std::mem::replace(&mut was_closing, true) {
                progressed = now();
            }
            let until = if has_failed { None } else { self.limit(&mut watch, &mut progressed) };
            self.hardware.wait((!has_failed).then_some(&drained), until);
        }
    }

    fn has_completed_all(&self) -> bool {
        self.has_empty_line() && self.entries().is_empty()
    }

    /// Ends the queue if what runs has to end; returns when that is to be looked at again.
    fn limit(&self, watch: &mut Watch, progressed: &mut Instant) -> Option<Instant> {
        if !self.hardware.can_stop() {
            return None;
        }
        let Some((scope, runs)) = self.front() else {
            *watch = Watch::default();
            return None;
        };
        if !watch.is_of(&scope) {
            let cancellation = scope.limits().and_then(|limits| limits.cancellation.as_ref());
            let cancelled = cancellation.map(|cancellation| cancellation.subscribe(&self.hardware.waker()));
            *watch = Watch { scope: scope.clone(), _cancelled: cancelled, over: None };
        }
        let now = now();
        if !runs {
            *progressed = now;
        }
        // No caller is left that could end it. Work that is held back may even wait for that.
        let patience = self.hardware.patience().filter(|_| self.is_closing());
        let patience = patience.and_then(|patience| progressed.checked_add(patience));
        let limits = scope.limits().filter(|limits| limits.deadline.is_some() || limits.cancellation.is_some());
        // Budgets of memory end no kernels.
        let outcome = limits.map_or(Ok(()), |_| scope.check());
        let Err(why) = outcome else {
            watch.over = None;
            if patience.is_some_and(|patience| now >= patience) {
                // A submission that waits for another queue is no reason to end this one.
                if !runs {
                    return Some(now + LATE);
                }
                self.end(&Status::new(StatusCode::Cancelled, "its device is gone"));
            }
            return [limits.and_then(|limits| limits.deadline), patience].into_iter().flatten().min();
        };
        let over = *watch.over.get_or_insert(now);
        if runs && (now >= (*progressed).max(over) + GRACE || now >= over + MOST_GRACE) {
            self.end(&why);
        }
        Some(now + LATE)
    }

    /// Completes what the hardware has run; returns the last epochs of the lanes.
    fn drain(self: &Arc<Self>, drained: [u64; LANES]) -> [u64; LANES] {
        use super::Clock;
        let completed = std::array::from_fn(|lane| self.hardware.clocks()[lane].completed());
        // A panic of an observer changes nothing here.
        let _ = guarded("an observer of times", || self.hardware.report(&completed));
        let mut last = drained;
        while let Some(entry) = self.take_completed(&completed) {
            last[entry.lane] = entry.epoch;
            if let Some(submission) = entry.submission {
                self.complete_run(submission);
            }
        }
        last
    }

    /// The first part that has completed, and does not begin after one that has not. The lanes were looked at one after
    /// the other: that of a part may have been looked at after what came before it had ended, and the lane of that
    /// before.
    fn take_completed(&self, completed: &[u64; LANES]) -> Option<Entry<H>> {
        let mut entries = self.entries();
        let first = entries.front()?.sequence;
        let begins = entries.iter().take_while(|entry| entry.after <= first);
        let index = begins.enumerate().find(|(_, entry)| entry.epoch <= completed[entry.lane])?.0;
        entries.remove(index)
    }

    /// Completes a submission whose packets have run. A queue that it waited for may have completed without its thread
    /// having signaled that yet, and may turn out to have failed; then the submission waits for what that thread says.
    fn complete_run(self: &Arc<Self>, mut submission: Box<Submission<H>>) {
        if let Err(cause) = submission.work.outcome() {
            submission.cut(cause);
        }
        let points = if keeps(Rule::OutcomesOfWaitsCount) { unreached(&submission.waits) } else { Ok(Vec::new()) };
        match points {
            Ok(points) if points.is_empty() => self.recycle(complete(submission, Ok(()))),
            Ok(points) => {
                submission.release();
                let scope = submission.scope.clone();
                self.park(Waiting::Settled(submission), points, scope);
            }
            Err(cause) => self.recycle(complete(submission, Err(cause))),
        }
    }

    /// Passes a submission on that has run, and knows now whether what it waited for has failed.
    pub(super) fn settle(&self, queue: Hold<H>, submission: Box<Submission<H>>, outcome: Result<()>) {
        let mut settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        settled.push((queue, submission, outcome));
        // The first one wakes the thread, which takes all of them.
        let is_first = settled.len() == 1;
        drop(settled);
        if is_first {
            self.hardware.wake();
        }
    }

    /// Completes what was passed on.
    fn complete_settled(&self) {
        let settled = std::mem::take(&mut *self.settled.lock().unwrap_or_else(PoisonError::into_inner));
        for (_queue, submission, outcome) in settled {
            self.recycle(complete(submission, outcome));
        }
    }

    /// Fails all submissions, and releases the waiters of the queue. Those that the hardware has are failed whatever
    /// an admission does meanwhile; it finds the failure at its next step, and then the rest of its entries fail.
    fn fail_all(&self) {
        let entries = std::mem::take(&mut *self.entries());
        self.fail_each(entries.into_iter().filter_map(|entry| entry.submission));
        if keeps(Rule::FailureReleasesOthers) {
            self.hardware.release_waiters();
        }
        let (entries, line) = self.take_all();
        self.fail_each(entries.into_iter().filter_map(|entry| entry.submission).chain(line));
    }

    fn fail_each(&self, submissions: impl Iterator<Item = Box<Submission<H>>>) {
        for submission in submissions {
            let internal = || Status::internal("the queue failed");
            let cause = self.failure().map_or_else(internal, |failure| failure.of(&submission.scope));
            complete(submission, Err(cause));
        }
    }
}
