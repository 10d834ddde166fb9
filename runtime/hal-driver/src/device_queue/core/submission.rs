//! The way into a queue ([`Core::submit_job`]): what a submission waits for is sorted into what packets wait for, what
//! is known to be over, and what the host has to wait for; then it is admitted. A submission that the host has to hold
//! back is owned by the timelines that it waits for. Who signals the last of them passes it on to the feeder of its
//! queue, and does nothing else for it.

use std::sync::{Arc, PoisonError};

use super::driver_thread::guarded;
use super::hardware::{Hardware, Job, SubmissionPoint, Work};
use super::request::{HostAction, Payload, Reclaim, Request};
use super::state::{Core, Hold, Parked, Submission, Waiting, complete};
use crate::device_queue::HostWorkers;
use crate::device_queue::rules::{Rule, keeps};
use crate::device_queue::sync::Mutex;
use crate::device_timeline::own;
use crate::hal::Timepoint;
use crate::hal::timepoints::{Continuation, continue_after, signal_all};
use crate::limits::scope::Scope;
use crate::limits::{Charge, OBJECT_BYTES};
use crate::status::{Result, Status, StatusCode};

/// Called by the thread that signals the last point, which may be the completion thread of any queue.
impl<H: Hardware> Continuation for Parked<H> {
    fn ready(self, outcome: Result<()>) {
        let Parked { queue, waiting, scope, _charge } = self;
        match waiting {
            Waiting::Request(request) if keeps(Rule::SignalsDoNotSubmit) => {
                queue.clone().feed(queue, request, scope, outcome);
            }
            Waiting::Request(request) => queue.run_request(request, scope, outcome, true),
            Waiting::Settled(submission) => queue.clone().settle(queue, submission, outcome),
        }
    }
}

impl<H: Hardware> Core<H> {
    /// Submits within the limits of a call. Failures go to the points that the request signals. `waits` says whether
    /// the caller waits for room.
    pub fn submit(self: &Arc<Self>, request: Request<H::Job>, scope: Scope, waits: bool) {
        if let Err(failure) = scope.check() {
            return request.end::<H>(Err(failure));
        }
        let Request { wait, signal, payload, reclaim } = request;
        match payload {
            Payload::Barrier => self.submit_job((&wait, &signal), None, reclaim, scope, waits),
            Payload::Job(job) => self.submit_job((&wait, &signal), Some(job.borrow()), reclaim, scope, waits),
            Payload::Host(action, workers) => {
                let points = match unreached(&wait) {
                    Ok(points) => points,
                    Err(failure) => {
                        let payload = Payload::Barrier;
                        return Request::<H::Job> { wait, signal, payload, reclaim }.end::<H>(Err(failure));
                    }
                };
                if !points.is_empty() {
                    let payload = Payload::Host(action, workers);
                    let request = Request { wait: Vec::new(), signal, payload, reclaim };
                    return self.park(Waiting::Request(request), points, scope);
                }
                run_on_host(Hold::new(self), action, &workers, signal, reclaim);
            }
        }
    }

    /// Submits what packets do, or nothing but a barrier. Failures go to the points that it signals.
    pub fn submit_job(
        self: &Arc<Self>,
        (wait, signal): (&[Timepoint], &[Timepoint]),
        job: Option<<H::Job as Job<H>>::Ref<'_>>,
        reclaim: Option<Reclaim>,
        scope: Scope,
        waits: bool,
    ) {
        let mut submission = self.new_submission();
        submission.signal.extend_from_slice(signal);
        submission.reclaim = reclaim;
        let host = match scope.check().and_then(|()| self.sort(wait, &mut submission)) {
            Ok(host) => host,
            Err(failure) => return self.recycle(complete(submission, Err(failure))),
        };
        if !host.is_empty() {
            let payload = job.map_or(Payload::Barrier, |job| Payload::Job(H::Job::to_owned(job)));
            let Submission { signal, waits, reclaim, .. } = *submission;
            return self.park(Waiting::Request(Request { wait: waits, signal, payload, reclaim }), host, scope);
        }
        submission.scope = scope;
        match job {
            // Nothing to wait for and nothing to run: the host can signal at once.
            None if submission.waits.is_empty() => return self.recycle(complete(submission, Ok(()))),
            None => {}
            Some(job) => {
                if let Err(status) = H::Job::resolve(job, &self.hardware, &mut submission.work) {
                    submission.cut(status);
                    submission.work.release();
                }
            }
        }
        self.admit(submission, waits);
    }

    /// Sorts the points of a submission into what packets wait for and what is known to be over; returns those that the
    /// host waits for.
    fn sort(&self, points: &[Timepoint], submission: &mut Submission<H>) -> Result<Vec<Timepoint>> {
        let mut host = Vec::new();
        for point in points {
            if point.semaphore.query()? >= point.value {
                continue;
            }
            match own::<SubmissionPoint<H::Clock>>(point).and_then(|own| own.pending(point.value)) {
                Some(other) if other.is_reached() => submission.waits.push(point.clone()),
                Some(other) if self.is_own(&other.clock) => {
                    // It was begun before, and this one begins after it.
                    submission.after = submission.after.max(other.sequence + 1);
                    submission.waits.push(point.clone());
                }
                Some(other) if self.hardware.can_wait_for(&other.clock) => {
                    submission.waits.push(point.clone());
                    submission.device.push(other);
                }
                _ => host.push(point.clone()),
            }
        }
        Ok(host)
    }

    /// Holds something back until `points` are reached. It keeps the timelines of the others alone: those that it is
    /// notified by own it, and what nothing else refers to will never be reached.
    pub(super) fn park(self: &Arc<Self>, waiting: Waiting<H>, points: Vec<Timepoint>, scope: Scope) {
        let _charge = Charge::of_call_anyway((2 + points.len() as u64) * OBJECT_BYTES);
        continue_after(self.parked, &points, Parked { queue: Hold::new(self), waiting, scope, _charge });
    }
}

/// The points that are not reached yet.
pub(super) fn unreached(points: &[Timepoint]) -> Result<Vec<Timepoint>> {
    let mut left = Vec::new();
    for point in points {
        if point.semaphore.query()? < point.value {
            left.push(point.clone());
        }
    }
    Ok(left)
}

/// Runs an action on a thread, and signals its points. The action may submit to the queue.
fn run_on_host<H: Hardware>(
    queue: Hold<H>,
    action: HostAction,
    workers: &HostWorkers,
    signal: Vec<Timepoint>,
    reclaim: Option<Reclaim>,
) {
    // Shared, since no thread may take it.
    let ending = Arc::new(Mutex::new(Some((queue, signal, reclaim))));
    let of_work = ending.clone();
    let take = |ending: &Mutex<Option<_>>| ending.lock().unwrap_or_else(PoisonError::into_inner).take();
    let work = move || {
        let Some((_queue, signal, reclaim)) = take(&of_work) else { return };
        // A panic must not leave the points without an owner.
        let outcome = guarded("an operation of the queue", || action(&signal)).flatten();
        if outcome.as_ref().is_err_and(|status| status.code() == StatusCode::Deferred) {
            return;
        }
        complete(Box::new(Submission::<H> { signal, reclaim, ..Submission::default() }), outcome);
    };
    if let Err(status) = workers.run(work)
        && let Some((_queue, signal, reclaim)) = take(&ending)
    {
        complete(Box::new(Submission::<H> { signal, reclaim, ..Submission::default() }), Err(status));
    }
}

/// A failure that is known before anything is submitted: to the points, or to the caller if there are none.
///
/// # Errors
/// The failure, if there are no points.
pub fn refuse(signal: &[Timepoint], status: Status) -> Result<()> {
    if signal.is_empty() {
        return Err(status);
    }
    signal_all(signal, Err(status));
    Ok(())
}
