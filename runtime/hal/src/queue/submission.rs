//! A queue: what is submitted waits for its points, runs, and signals.
//!
//! An operation that has to wait is kept by the timelines it waits for. One whose points are reached is run as the [`Discipline`] of the
//! queue's driver has it. Nobody holds a lock while an operation runs. A failure goes to the points that the operation signals, with its cause,
//! so whoever waits at the end of a chain learns how it began.

use std::sync::Arc;

use super::operation::{Operation, Request, Submission};
use super::weight::Weight;
use super::work::{Data, Held, Work};
use crate::deferred::{CommandProgram, Deferred};
use crate::recycle::{FreeList, Uninit};
use crate::status::Result;
use crate::timepoints::{self, Continuation, PendingWait, reached, signal_all};
use crate::{BufferBinding, Timepoint};

/// How the queues of a driver run what is ready.
pub trait Discipline: Send + Sync + Sized + 'static {
    /// The kind of device whose recorded commands are executed.
    type Device: Deferred;
    /// What helps to execute them: workers, a stream.
    type Runner: Send + Sync + 'static;

    /// The free lists, which are statics of the driver: a generic type has none of its own.
    fn free_lists() -> QueueFreeLists<Self>;

    /// What helps to execute recorded commands, if there is something.
    fn runner(&self) -> Option<Held<'_, Self::Runner>>;

    /// Does what is submitted with all its points reached, at once or later, and signals.
    fn run(&self, signal: &[Timepoint], weight: Weight, submission: impl Submission<Self>);

    /// Takes an operation whose points have been reached. Called on the thread that signals the last of them, so it must not block.
    fn push(&self, operation: Box<Operation<Self>>);

    /// Executes recorded commands on what their slots are bound to.
    ///
    /// # Errors
    /// Those of the commands.
    fn execute(
        program: &Arc<CommandProgram<Self::Device>>,
        table: &[BufferBinding],
        runner: Option<&Self::Runner>,
    ) -> Result<()>;

    /// Does what an operation is for: on the calling thread, unless a driver says otherwise.
    ///
    /// # Errors
    /// Those of what is done.
    #[inline(always)]
    fn perform(work: Work<'_, Self>, data: Data<'_>) -> Result<()> {
        work.perform(data)
    }
}

/// Where memory of operations is kept: of each at most [`crate::recycle::MAX_FREE`] for a thread.
pub struct QueueFreeLists<D: Discipline> {
    /// Operations.
    pub operations: &'static FreeList<Box<Operation<D>>>,
    /// What timelines know of them.
    pub pending: &'static FreeList<Uninit<PendingWait<Queued<D>>>>,
}

/// A queue.
#[derive(Debug, Default)]
pub struct Queue<D> {
    discipline: D,
}

/// An operation that waits, and the queue that it goes to.
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
    /// A queue that runs what is ready like this.
    pub fn new(discipline: D) -> Queue<D> {
        Queue { discipline }
    }

    /// How it runs what is ready.
    #[inline]
    pub fn discipline(&self) -> &D {
        &self.discipline
    }

    /// Does what a request asks for after all points of `wait`, then signals `signal`.
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

    /// The same for anything that can be submitted.
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
            // Nothing can be ordered after an operation that signals nothing, and only the caller can learn its outcome.
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
