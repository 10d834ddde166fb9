//! The feeder of a queue: the thread that submits what became ready, and gives the hardware the submissions without a
//! waiting submitter. It may wait for room as long as it takes, since no thread waits for it: submissions that become
//! ready meanwhile join the line.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use super::driver_thread::join_driver;
use super::hardware::Hardware;
use super::request::Request;
use super::state::{Core, Hold, Ready};
use crate::device_queue::sync;
use crate::limits::scope::Scope;
use crate::status::Result;

impl<H: Hardware> Core<H> {
    /// Passes something on that became ready.
    pub(super) fn feed(&self, queue: Hold<H>, request: Request<H::Job>, scope: Scope, outcome: Result<()>) {
        let mut feed = self.feed.lock().unwrap_or_else(PoisonError::into_inner);
        feed.ready.push_back(Ready { queue, request, scope, outcome });
        drop(feed);
        self.fed.notify_all();
    }

    /// Lets the feeder look at everything again, and at the line if that is wanted.
    pub(super) fn wake_feeder(&self, is_wanted: bool) {
        self.feed.lock().unwrap_or_else(PoisonError::into_inner).is_wanted |= is_wanted;
        self.fed.notify_all();
    }

    /// Submits something that became ready, or ends it.
    pub(super) fn run_request(
        self: &Arc<Self>,
        request: Request<H::Job>,
        scope: Scope,
        outcome: Result<()>,
        waits: bool,
    ) {
        let _entered = sync::enter(scope.clone());
        match outcome {
            Ok(()) => self.submit(request, scope, waits),
            Err(failure) => request.end::<H>(Err(failure)),
        }
    }

    /// Runs until the queue closes, has no holder, and the line is empty.
    pub(super) fn run_feeder(self: &Arc<Self>) {
        join_driver();
        let mut attempts = 0u32;
        loop {
            // Before anything is looked at, so that no change is missed.
            let progress = self.hardware.progress();
            for Ready { queue, request, scope, outcome } in self.take_ready(attempts != 0) {
                self.run_request(request, scope, outcome, false);
                // After what it submitted is in the line.
                drop(queue);
            }
            // A failure ends the line, on the completion thread.
            if self.pump(&mut self.admission()) {
                attempts = 0;
                if self.is_closing() && !self.is_held() && self.has_nothing_ready() {
                    return;
                }
            } else {
                self.hardware.pause(progress, attempts);
                attempts = attempts.saturating_add(1);
            }
        }
    }

    fn has_nothing_ready(&self) -> bool {
        self.feed.lock().unwrap_or_else(PoisonError::into_inner).ready.is_empty()
    }

    /// Takes what became ready, and blocks until there is something to do unless the line `is_waiting`.
    fn take_ready(&self, is_waiting: bool) -> VecDeque<Ready<H>> {
        let mut feed = self.feed.lock().unwrap_or_else(PoisonError::into_inner);
        while feed.ready.is_empty() && !feed.is_wanted && !is_waiting {
            if self.is_closing() && !self.is_held() {
                break;
            }
            feed = self.fed.wait(feed).unwrap_or_else(PoisonError::into_inner);
        }
        feed.is_wanted = false;
        std::mem::take(&mut feed.ready)
    }
}
