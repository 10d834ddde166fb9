//! The discipline of a driver's queues ([`Discipline`]), and the types that it and they name: [`Queue`], [`Operation`]
//! and [`Work`]. The modules above have their methods.

use std::borrow::Cow;
use std::sync::Arc;

use super::weight::Weight;
use crate::deferred::{CommandProgram, Deferred};
use crate::hal::recycle::{FreeList, Uninit};
use crate::hal::timepoints::PendingWait;
use crate::hal::transient::TransientBuffer;
use crate::hal::{Buffer, BufferBinding, BufferParams, File, HostCall, HostCallContext, HostCallFlags, Timepoint};
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
    pub(super) discipline: D,
}

/// An operation that waits, and the queue that runs it.
pub struct Queued<D: Discipline> {
    pub(super) queue: Arc<Queue<D>>,
    pub(super) operation: Box<Operation<D>>,
}

/// Work and the points to signal afterwards. It owns all that it needs.
pub struct Operation<D: Discipline> {
    /// The expected time, by which the discipline chooses a thread.
    pub weight: Weight,
    pub(super) work: Work<'static, D>,
    /// The pattern of a fill, or the bytes that an update writes.
    pub(super) bytes: Vec<u8>,
    /// The binding table of an execution.
    pub(super) table: Vec<BufferBinding>,
    pub(super) signal: Vec<Timepoint>,
    /// The limits of the call that submitted it.
    pub(super) scope: Scope,
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

/// The work of an operation on a queue of discipline `D`.
#[derive(Default)]
pub enum Work<'a, D: Discipline> {
    /// Nothing: the operation only orders others.
    #[default]
    Nothing,
    /// Fails at once.
    Fail(Status),
    /// Fills a range with the pattern in the bytes.
    Fill {
        /// The buffer to fill.
        target: Held<'a, dyn Buffer>,
        /// Bytes from its start.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Writes the bytes.
    Update {
        /// The target.
        target: Held<'a, dyn Buffer>,
        /// Bytes from its start.
        offset: u64,
    },
    /// Copies between buffers.
    Copy {
        /// The source.
        source: Held<'a, dyn Buffer>,
        /// Bytes from its start.
        source_offset: u64,
        /// The target.
        target: Held<'a, dyn Buffer>,
        /// Bytes from its start.
        target_offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Reads a file.
    Read {
        /// The file.
        source: Held<'a, dyn File>,
        /// Bytes from its start.
        source_offset: u64,
        /// The target.
        target: Held<'a, dyn Buffer>,
        /// Bytes from its start.
        target_offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Writes a file.
    Write {
        /// The source.
        source: Held<'a, dyn Buffer>,
        /// Bytes from its start.
        source_offset: u64,
        /// The file.
        target: Held<'a, dyn File>,
        /// Bytes from its start.
        target_offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Executes a command program with the binding table, and with the runner of the queue if it has one.
    Execute {
        /// The command program.
        program: Held<'a, CommandProgram<D::Device>>,
        /// The runner of command programs, if there is one.
        runner: Option<Held<'a, D::Runner>>,
    },
    /// Commits memory to a transient buffer.
    Commit {
        /// The buffer.
        transient: Arc<TransientBuffer>,
        /// Where the memory is from.
        source: MemorySource,
        /// The parameters of the memory.
        params: BufferParams,
        /// Bytes.
        length: u64,
    },
    /// Decommits the memory of a transient buffer. Buffers of other kinds stay as they are.
    Decommit(Held<'a, dyn Buffer>),
    /// Calls a function of the host, which signals the points itself or has them signaled when it returns.
    Call {
        /// The function.
        call: Held<'a, dyn HostCall>,
        /// Its arguments.
        context: HostCallContext,
        /// Whether the points are signaled before the call.
        flags: HostCallFlags,
    },
    /// Any other work, boxed: programs do none of it at each call.
    Other(Box<dyn FnOnce() -> Result<()> + Send>),
}

/// Operands of work that have any length.
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a> {
    /// The pattern of a fill, or the bytes that an update writes.
    pub bytes: &'a [u8],
    /// The binding table of an execution.
    pub table: &'a [BufferBinding],
    /// The points that the operation signals.
    pub signal: &'a [Timepoint],
}
