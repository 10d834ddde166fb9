//! The discipline of a driver's queues ([`Discipline`]), and the types that it and they name: [`Queue`], [`Operation`]
//! and [`Prepared`]. The modules above have their methods.

use std::borrow::Cow;
use std::sync::Arc;

use super::weight::Weight;
use crate::allocation::Allocation;
use crate::deferred::{CommandProgram, Deferred};
use crate::hal::host_times::Watch;
use crate::hal::recycle::{FreeList, Uninit};
use crate::hal::timepoints::PendingWait;
use crate::hal::{BufferBinding, OwnedQueueOperation, QueueAffinity, Timepoint};
use crate::limits::Charge;
use crate::limits::scope::Scope;
use crate::memory_source::MemorySource;
use crate::status::{Result, Status};

/// The points to wait for, and those to signal.
pub type WaitAndSignal<'a> = (&'a [Timepoint], &'a [Timepoint]);

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
    pub(super) discipline: D,
}

/// An operation that waits, and the queue that runs it.
pub struct Queued<D: Discipline> {
    pub(super) queue: Arc<Queue<D>>,
    pub(super) operation: Box<Operation<D>>,
}

/// An operation that waits, and the points to signal afterwards. It owns all that it needs.
pub struct Operation<D: Discipline> {
    /// The expected time, by which the discipline chooses a thread.
    pub weight: Weight,
    pub(super) queue_affinity: QueueAffinity,
    pub(super) kept: OwnedQueueOperation,
    pub(super) prepared: Prepared<'static, D>,
    pub(super) signal: Vec<Timepoint>,
    /// The limits of the call that submitted it.
    pub(super) scope: Scope,
    /// The observer of its work.
    pub(super) watch: Watch,
    /// The memory of a waiting operation, charged to the call.
    pub(super) charge: Charge,
}

/// Something that is submitted to a queue: performed at once by the submitting thread, or stored into an operation for
/// later.
pub trait Submission<D: Discipline> {
    /// Performs it at once.
    ///
    /// # Errors
    /// Those of the work.
    fn perform(self, signal: &[Timepoint]) -> Result<()>;

    /// Stores it into `operation`, which performs it later.
    fn store_into(self, operation: &mut Operation<D>);
}

/// An object that is borrowed from the submitter of an operation, or owned by an operation that waits.
pub type Held<'a, T> = Cow<'a, Arc<T>>;

/// The part of a queue in an operation, if that is more than the operation itself says.
#[derive(Default)]
pub enum Prepared<'a, D: Discipline> {
    /// Nothing: the operation runs as it is.
    #[default]
    Nothing,
    /// Executes the command program of a dispatch or of an execution.
    Program {
        /// The command program.
        program: Held<'a, CommandProgram<D::Device>>,
        /// The runner of command programs, if there is one.
        runner: Option<Held<'a, D::Runner>>,
    },
    /// Commits memory to a transient buffer. That returns the buffer at once, so it is no operation.
    Memory(Allocation<MemorySource>),
    /// Fails at once, as what it waits for did.
    Failure(Status),
    /// Other work of a driver, boxed: programs do none of it at each call.
    Other(Box<dyn FnOnce() -> Result<()> + Send>),
}
