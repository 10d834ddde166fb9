//! Admission ([`Core::admit`]): puts submissions in line, and gives them to the hardware in that order, as there is
//! room.
//!
//! No thread waits for room while it holds the lock of the admission: that is held for as long as it takes to put
//! packets together. A submitter waits outside, until its submission is with the hardware, and tries again and again
//! meanwhile; its call may end that wait. Submissions that became ready are in the same line, and the feeder of the
//! queue tries for them.
//!
//! There is room at some time: packets wait only for submissions that were begun before, here or on another queue, so
//! the first of those that have not completed always runs, and its queue drains. That is why an epoch is given, and
//! told to others, when a submission is begun and not when it comes to the line. A submission whose queue has been used
//! before allocates nothing.
//!
//! A submission begins after all that the queue has begun before (its first packet has the barrier bit) if it waits for
//! any of that which has not completed, and no barrier came in between; if it signals a timeline that any of that
//! signals, which must not go back; if its call has other limits, since the completion thread ends what runs for one
//! call at a time; and if no lane is free. Otherwise it may overlap with what came before.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use super::frontier::LANES;
use super::hardware::{Clock, Hardware, Part, SubmissionPoint, Work};
use super::state::{Admission, Begun, Core, Entry, Submission, complete};
use crate::device_queue::rules::{Rule, keeps};
use crate::device_timeline::own;
use crate::limits::Limits;
use crate::limits::scope::Scope;
use crate::status::{Result, Status};

impl<H: Hardware> Core<H> {
    /// Admits a submission. Failures of the queue go to the points that it signals. `waits` says whether the caller
    /// waits until the hardware has it.
    pub(super) fn admit(self: &Arc<Self>, submission: Box<Submission<H>>, waits: bool) {
        let mut admission = self.admission();
        if let Some(failure) = self.failure() {
            let cause = failure.of(&submission.scope);
            drop(admission);
            return self.recycle(complete(submission, Err(cause)));
        }
        let scope = if waits { submission.scope.clone() } else { Scope::default() };
        admission.came += 1;
        let ticket = admission.came;
        if admission.is_idle() {
            self.begin(&mut admission, submission);
            if self.advance(&mut admission) {
                return;
            }
        } else {
            admission.line.push_back(Some(submission));
        }
        drop(admission);
        if waits && !self.hardware.is_held_up() { self.wait_for_room(ticket, &scope) } else { self.wake_feeder(true) }
    }

    /// Waits until a submission has left the line: it is with the hardware, or the queue has failed, or the call has
    /// ended.
    fn wait_for_room(&self, ticket: u64, scope: &Scope) {
        let mut attempts = 0u32;
        loop {
            // Before anything is looked at, so that no change is missed.
            let progress = self.hardware.progress();
            let mut admission = self.admission();
            self.pump(&mut admission);
            if admission.left >= ticket {
                return;
            }
            drop(admission);
            if self.hardware.is_held_up() {
                return self.wake_feeder(true);
            }
            if keeps(Rule::LimitsEndBackPressure)
                && let Err(cause) = scope.check()
            {
                return self.give_up(ticket, cause);
            }
            self.hardware.pause(progress, attempts);
            attempts = attempts.saturating_add(1);
        }
    }

    /// Ends a submission that its submitter does not wait for any more. If it is begun, others may wait for its epoch:
    /// what is left of it is published all the same, and does nothing.
    fn give_up(&self, ticket: u64, cause: Status) {
        let mut admission = self.admission();
        let Some(ahead) = ticket.checked_sub(admission.left + 1) else { return };
        let given_up = match (&mut admission.begun, ahead) {
            (Some(begun), 0) if keeps(Rule::CutsKeepEpochs) => {
                begun.submission.cut(cause.clone());
                None
            }
            (Some(_), 0) => {
                admission.left += 1;
                admission.begun.take().map(|begun| begun.submission)
            }
            (begun, ahead) => {
                let place = ahead as usize - usize::from(begun.is_some());
                admission.line.get_mut(place).and_then(Option::take)
            }
        };
        drop(admission);
        if let Some(submission) = given_up {
            self.recycle(complete(submission, Err(cause)));
        }
        if keeps(Rule::FeederTakesOver) {
            self.wake_feeder(true);
        }
    }

    /// Gives the hardware as much of the line as there is room for. True if nothing is left.
    pub(super) fn pump(&self, admission: &mut Admission<H>) -> bool {
        loop {
            if admission.is_idle() {
                return true;
            }
            if self.failure().is_some() {
                return false;
            }
            if admission.begun.is_none() {
                let Some(next) = admission.line.pop_front() else { return true };
                let Some(submission) = next else {
                    admission.left += 1;
                    continue;
                };
                self.begin(admission, submission);
            }
            if !self.advance(admission) {
                return false;
            }
        }
    }

    /// Begins a submission: from here on others can wait for its epoch.
    fn begin(&self, admission: &mut Admission<H>, mut submission: Box<Submission<H>>) {
        // Points that the queue knows to be reached need no packet.
        submission.device.retain(|point| !admission.frontier.has_reached(point.clock.number(), point.epoch));
        keep_latest(&mut submission.device);
        for point in &submission.device {
            admission.frontier.merge(&point.frontier);
            admission.frontier.add(point.clock.number(), point.epoch);
        }
        let (lane, is_ordered) = self.choose_lane(admission, &submission);
        let is_private = self.is_private(&submission);
        let parts = submission.work.parts();
        let epoch = admission.next_epochs[lane] + parts - 1;
        let sequence = admission.next_sequence + parts - 1;
        // Before the packets are published: a waiter for a point that is not known to be pending waits on the host. So
        // does a waiter for one that will fail: packets that wait for its epoch would run.
        for signal in submission.signal.iter().filter(|_| submission.failure.is_none()) {
            if let Some(own) = own::<SubmissionPoint<H::Clock>>(signal) {
                let (clock, frontier) = (self.hardware.clocks()[lane].clone(), admission.frontier);
                own.add_pending(signal.value, SubmissionPoint { clock, epoch, sequence, frontier });
            }
        }
        admission.begun = Some(Begun { submission, lane, is_ordered, is_private, waited: 0, part: 0, parts });
    }

    /// The lane of a submission, and whether it begins after all that the queue has begun before.
    fn choose_lane(&self, admission: &mut Admission<H>, submission: &Submission<H>) -> (usize, bool) {
        let limits = |scope: &Scope| scope.limits().map(std::ptr::from_ref::<Limits>);
        let scope = if submission.is_limited() { submission.scope.clone() } else { Scope::default() };
        let has_other_limits = limits(&scope) != limits(&admission.limits);
        admission.limits = scope;
        let follows = submission.after > admission.ordered && keeps(Rule::OwnWaitsAreOrdered);
        if !follows && !has_other_limits && !self.follows_signals(admission, submission) {
            // The last part of a lane ends before the next one begins: a barrier came in between, or it has ended
            // already.
            let is_free = |lane: usize| {
                admission.last_sequences[lane] < admission.ordered
                    || self.hardware.clocks()[lane].completed() >= admission.next_epochs[lane] - 1
                    || !keeps(Rule::LanesAreFree)
            };
            if let Some(lane) = (0..LANES).find(|lane| is_free(*lane)) {
                return (lane, false);
            }
        }
        (0, true)
    }

    /// Whether a submission signals a timeline before a submission that comes earlier has, unless it begins after that.
    fn follows_signals(&self, admission: &Admission<H>, submission: &Submission<H>) -> bool {
        submission.signal.iter().any(|signal| {
            // The signallers of timelines of other devices are not known.
            let Some(own) = own::<SubmissionPoint<H::Clock>>(signal) else { return true };
            let follows = own.look_at_pending_before(signal.value, |before| {
                let is_known = match self.is_own(&before.clock) {
                    true => before.sequence < admission.ordered,
                    // It waits for it, or knows that it need not.
                    false => admission.frontier.has_reached(before.clock.number(), before.epoch),
                };
                !is_known && !before.is_reached()
            });
            follows.unwrap_or(false)
        })
    }

    /// Whether a clock is that of a lane of this queue.
    pub(super) fn is_own(&self, clock: &Arc<H::Clock>) -> bool {
        self.hardware.clocks().iter().any(|own| Arc::ptr_eq(own, clock))
    }

    /// Whether all timelines that a submission signals are seen by queues of this agent alone.
    fn is_private(&self, submission: &Submission<H>) -> bool {
        let agent = Some(self.hardware.agent());
        let is_private = |signal| own::<SubmissionPoint<H::Clock>>(signal).is_some_and(|own| own.agent() == agent);
        submission.signal.iter().all(is_private)
    }

    /// Publishes what is left of the submission that is begun. False if there is no room for it now.
    fn advance(&self, admission: &mut Admission<H>) -> bool {
        match self.try_advance(admission) {
            Ok(is_done) => is_done,
            Err(status) => {
                // Packets that are not published cannot complete, so the queue is of no use any more.
                self.fail(status);
                false
            }
        }
    }

    /// Every part completes by itself, which frees its arguments.
    fn try_advance(&self, admission: &mut Admission<H>) -> Result<bool> {
        let Admission { next_epochs, last_sequences, next_sequence, ordered, builder, begun, left, .. } = admission;
        loop {
            let Some(begun_now) = begun else { return Ok(true) };
            let Begun { submission, lane, is_ordered, is_private, waited, part, parts } = begun_now;
            // Waits that do not fit the first part.
            let early = submission.device.len().saturating_sub(H::MAX_WAITS);
            while *waited < early {
                let end = early.min(*waited + H::MAX_WAITS);
                if !self.hardware.prepare_waits(builder, &submission.device[*waited..end])? {
                    return Ok(false);
                }
                self.hardware.publish(builder)?;
                *waited = end;
            }
            let waits = if *part == 0 { &submission.device[*waited..] } else { &[] };
            let work = submission.failure.is_none().then_some((&submission.work, *part));
            let (lane, sequence, is_last) = (*lane, *next_sequence, *part + 1 == *parts);
            let epoch = next_epochs[lane];
            let (is_ordered_now, is_private) = (*is_ordered, *is_private || !is_last);
            let prepared = Part { lane, epoch, sequence, is_ordered: is_ordered_now, is_private, waits, work };
            match self.hardware.prepare(builder, prepared) {
                Ok(true) => {}
                Err(status) if submission.failure.is_none() => {
                    // It does nothing, and tells why; the queue goes on.
                    submission.cut(status);
                    continue;
                }
                refused => return refused,
            }
            let is_limited = submission.is_limited();
            next_epochs[lane] += 1;
            last_sequences[lane] = sequence;
            *next_sequence += 1;
            *part += 1;
            if is_ordered_now {
                *ordered = sequence;
            }
            // Parts of a submission run one after the other.
            *is_ordered = true;
            let submission = if is_last { begun.take().map(|begun| begun.submission) } else { None };
            *left += u64::from(is_last);
            let is_only = self.publish(builder, Entry { lane, epoch, sequence, after: *ordered, submission })?;
            if is_only && (is_limited || self.is_closing()) {
                // The completion thread does not know yet that there is a time to look at.
                self.hardware.wake();
            }
        }
    }

    /// Publishes a part. Its entry is there before, so that the completion thread finds it when its packets have run.
    /// True if it is the only one.
    fn publish(&self, builder: &mut H::Builder, mut entry: Entry<H>) -> Result<bool> {
        if !keeps(Rule::EntriesOwnWaits)
            && let Some(submission) = &mut entry.submission
        {
            submission.device.clear();
        }
        let is_only = {
            let mut entries = self.entries();
            entries.push_back(entry);
            entries.len() == 1
        };
        self.hardware.publish(builder)?;
        Ok(is_only)
    }

    /// The submission that runs now or next, as far as the hardware is concerned: its limits, and whether its packets
    /// do not wait any more.
    pub(super) fn front(&self) -> Option<(Scope, bool)> {
        let of = |submission: &Submission<H>| {
            let runs = submission.device.iter().all(SubmissionPoint::is_reached);
            (submission.scope.clone(), runs)
        };
        let front = {
            let entries = self.entries();
            if entries.is_empty() {
                return None;
            }
            entries.iter().find_map(|entry| entry.submission.as_deref()).map(of)
        };
        // All entries are parts of what is begun.
        front.or_else(|| self.admission().begun.as_ref().map(|begun| of(&begun.submission)))
    }

    /// Takes all that was admitted and has not completed: what is with the hardware, and what is not.
    pub(super) fn take_all(&self) -> (VecDeque<Entry<H>>, Vec<Box<Submission<H>>>) {
        let mut admission = self.admission();
        let line = if keeps(Rule::FailureEndsTheLine) { admission.take_line() } else { Vec::new() };
        let entries = mem::take(&mut *self.entries());
        (entries, line)
    }

    /// Whether nothing waits for room.
    pub(super) fn has_empty_line(&self) -> bool {
        self.admission().is_idle()
    }
}

/// Keeps the last submission of each lane.
fn keep_latest<C: Clock>(points: &mut Vec<SubmissionPoint<C>>) {
    let mut index = 0;
    while index < points.len() {
        let point = &points[index];
        let is_covered = |(other_index, other): (usize, &SubmissionPoint<C>)| {
            other.clock.number() == point.clock.number()
                && (other.epoch > point.epoch || (other.epoch == point.epoch && other_index < index))
        };
        if points.iter().enumerate().any(is_covered) {
            points.swap_remove(index);
        } else {
            index += 1;
        }
    }
}
