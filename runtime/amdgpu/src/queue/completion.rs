//! The completion thread of a queue: waits for the epoch signal, releases what submissions held, and signals their timelines. If the queue fails, it
//! fails them with the cause.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::admission::Submission;
use super::core::QueueCore;
use super::submission::unreached;
use crate::hal::timepoints::signal_all;
use crate::status::{Result, Status};

/// Runs until the queue closes, nobody holds it, and everything has completed.
pub(super) fn run(core: &Arc<QueueCore>) {
    let mut drained = 0;
    let mut has_failed = false;
    loop {
        // Before anything is looked at: who changes it later wakes the wait below.
        core.wake.store(1);
        let fails = core.failure.get().is_some();
        if !has_failed {
            // Looked at after the failure: what completed before the queue failed has not failed.
            drained = drain(core, drained);
        }
        let epoch_value = if fails {
            if !has_failed {
                core.stop_packets();
            }
            fail_all(core);
            has_failed = true;
            // What is submitted from here on wakes the thread.
            i64::MIN
        } else {
            QueueCore::value_of(drained + 1)
        };
        // In this order: who holds the queue submits before it lets go.
        if core.is_closing.load(Ordering::SeqCst) && !core.is_held() && core.entries().is_empty() {
            return;
        }
        let signals = [core.epoch.handle(), core.wake.handle()];
        // SAFETY: both live as long as the queue, which this holds.
        unsafe { core.agent.hsa().wait_any_less(signals, [epoch_value, 1]) };
    }
}

/// Completes what the epoch says; returns the last epoch.
fn drain(core: &Arc<QueueCore>, drained: u64) -> u64 {
    let completed = core.completed();
    core.times.report(core.agent.hsa(), core.agent.agent, completed);
    let mut last = drained;
    loop {
        let entry = {
            let mut entries = core.entries();
            match entries.front() {
                Some(entry) if entry.epoch <= completed => entries.pop_front(),
                _ => None,
            }
        };
        let Some(entry) = entry else { return last };
        last = entry.epoch;
        if let Some(submission) = entry.submission {
            settle(core, submission);
        }
    }
}

/// Completes a submission whose packets have run. A queue that it waited for may have completed without its thread having signaled that yet, and may
/// turn out to have failed; then the submission waits for what that thread says.
fn settle(core: &Arc<QueueCore>, mut submission: Box<Submission>) {
    match unreached(&submission.waits) {
        Ok(points) if points.is_empty() => core.recycle(complete(submission, Ok(()))),
        Ok(points) => {
            submission.release();
            core.park(submission, points);
        }
        Err(cause) => core.recycle(complete(submission, Err(cause))),
    }
}

/// Fails all submissions, and then lets go of who waits for the queue.
fn fail_all(core: &QueueCore) {
    let cause = core.failure.get().cloned().unwrap_or_else(|| Status::internal("the queue failed"));
    loop {
        let Some(entry) = core.entries().pop_front() else { break };
        if let Some(submission) = entry.submission {
            complete(submission, Err(cause.clone()));
        }
    }
    core.release_waiters();
}

/// Ends a submission. What is left of it is its memory.
pub(super) fn complete(mut submission: Box<Submission>, outcome: Result<()>) -> Box<Submission> {
    submission.release();
    let Submission { signal, reclaim, failure, .. } = &mut *submission;
    let mut outcome = outcome.and(failure.take().map_or(Ok(()), Err));
    if let Some(reclaim) = reclaim.take() {
        outcome = outcome.and(reclaim());
    }
    signal_all(signal, outcome);
    submission.clear();
    submission
}
