//! Queues: [`Queue`] orders submissions by their timepoints, and the [`Discipline`] of a driver runs them.
//!
//! A queue has no list of waiting operations: the timelines that an operation waits for own it. Once all points are
//! reached, the discipline runs it. No lock is held while an operation runs. A failure goes to the points that the
//! operation signals, with its cause, so the end of a chain learns how it began.

use std::sync::Arc;

use super::discipline::{Discipline, Operation, Prepared, Queue, Queued, Submission};
use super::operation::Request;
use super::weight::Weight;
use crate::hal::Timepoint;
use crate::hal::timepoints::{self, Continuation, reached, signal_all};
use crate::status::{Result, StatusCode};

impl<D: Discipline> Continuation for Queued<D> {
    fn ready(self, outcome: Result<()>) {
        let Queued { queue, mut operation } = self;
        if let Err(failure) = outcome {
            operation.weight = Weight::Light;
            operation.prepared = Prepared::Failure(failure);
        }
        queue.discipline.push(operation);
    }
}

impl<D: Discipline> Queue<D> {
    /// A queue with a discipline.
    pub fn new(discipline: D) -> Queue<D> {
        Queue { discipline }
    }

    /// The discipline.
    #[inline]
    pub fn discipline(&self) -> &D {
        &self.discipline
    }

    /// Performs a request after all points of `wait` are reached, then signals `signal`.
    ///
    /// # Errors
    /// A failure goes to the points of `signal`; if there are none, and the operation has run already, to the caller.
    #[inline]
    pub fn submit<'a>(
        self: &Arc<Self>,
        wait: &[Timepoint],
        signal: &[Timepoint],
        weight: Weight,
        request: impl Into<Request<'a, D>>,
    ) -> Result<()> {
        self.submit_any(wait, signal, weight, request.into())
    }

    /// The same for any submission.
    ///
    /// # Errors
    /// Those of [`Queue::submit`].
    #[inline]
    pub fn submit_any(
        self: &Arc<Self>,
        wait: &[Timepoint],
        signal: &[Timepoint],
        weight: Weight,
        submission: impl Submission<D>,
    ) -> Result<()> {
        match reached(wait) {
            // Without points to signal nothing is ordered after the operation, and only the caller can learn its
            // outcome.
            Ok(true) if signal.is_empty() => match submission.perform(signal) {
                // A host call that signals by itself, and there are no points.
                Err(status) if status.code() == StatusCode::Deferred => Ok(()),
                outcome => outcome,
            },
            Ok(true) => {
                self.discipline.run(signal, weight, submission);
                Ok(())
            }
            Ok(false) => {
                let mut operation = Operation::new(weight, signal, submission);
                operation.charge_memory(wait.len());
                timepoints::continue_after(D::free_lists().pending, wait, Queued { queue: self.clone(), operation });
                Ok(())
            }
            Err(failure) if signal.is_empty() => Err(failure),
            Err(failure) => {
                signal_all(signal, Err(failure));
                Ok(())
            }
        }
    }
}
