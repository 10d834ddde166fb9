//! Queues and their disciplines: [`Queue`] orders submissions by their timepoints, and the [`Discipline`] of a driver
//! runs them.
//!
//! A queue has no list of waiting operations: the timelines that an operation waits for own it. Once all points are
//! reached, the discipline runs it. No lock is held while an operation runs. A failure goes to the points that the
//! operation signals, with its cause, so the end of a chain learns how it began.

use std::sync::Arc;

use super::operation::{Operation, Request, Submission};
use super::weight::Weight;
use super::work::{Held, Operands, Work};
use crate::deferred::{CommandProgram, Deferred};
use crate::hal::recycle::{FreeList, Uninit};
use crate::hal::timepoints::{self, Continuation, PendingWait, reached, signal_all};
use crate::hal::{BufferBinding, Timepoint};
use crate::status::Result;

/// How the queues of a driver run ready operations.
pub trait Discipline: Send + Sync + Sized + 'static {
    /// The kind of device whose recorded commands are executed.
    type Device: Deferred;
    /// The means by which command programs are executed: a thread pool, a stream.
    type Runner: Send + Sync + 'static;

    /// The free lists, which are statics of the driver: a generic type has none of its own.
    fn free_lists() -> QueueFreeLists<Self>;

    /// The runner of command programs, if there is one.
    fn runner(&self) -> Option<Held<'_, Self::Runner>> {
        None
    }

    /// The weight of an execution.
    fn weight(&self, _program: &CommandProgram<Self::Device>) -> Weight {
        Weight::Time(None)
    }

    /// Runs a submission whose points are all reached, at once or later, and signals.
    fn run(&self, signal: &[Timepoint], weight: Weight, submission: impl Submission<Self>);

    /// Accepts an operation whose points have been reached. Called on the thread that signals the last of them, so it
    /// must not block.
    fn push(&self, operation: Box<Operation<Self>>);

    /// Executes a command program with a binding table.
    ///
    /// # Errors
    /// Those of the commands.
    fn execute(
        program: &Arc<CommandProgram<Self::Device>>,
        table: &[BufferBinding],
        runner: Option<&Self::Runner>,
    ) -> Result<()>;

    /// Performs work on the calling thread; drivers may override it.
    ///
    /// # Errors
    /// Those of the work.
    #[inline(always)]
    fn perform(work: Work<'_, Self>, operands: Operands<'_>) -> Result<()> {
        work.perform(operands)
    }
}

/// The free lists of operations, with at most [`crate::hal::recycle::MAX_FREE`] objects for a thread.
pub struct QueueFreeLists<D: Discipline> {
    /// Operations.
    pub operations: &'static FreeList<Box<Operation<D>>>,
    /// Waits of operations for their points.
    pub pending: &'static FreeList<Uninit<PendingWait<Queued<D>>>>,
}

/// A queue.
#[derive(Debug, Default)]
pub struct Queue<D> {
    discipline: D,
}

/// An operation that waits, and the queue that runs it.
pub struct Queued<D: Discipline> {
    queue: Arc<Queue<D>>,
    operation: Box<Operation<D>>,
}

impl<D: Discipline> Continuation for Queued<D> {
    fn ready(self, outcome: Result<()>) {
        let Queued { queue, mut operation } = self;
        if let Err(failure) = outcome {
            operation.weight = Weight::Light;
            operation.work = Work::Fail(failure);
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
            Ok(true) if signal.is_empty() => submission.perform(signal),
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
