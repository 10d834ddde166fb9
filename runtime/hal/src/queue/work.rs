//! What queue operations do, each described once: it borrows what it needs while it may be done at once, and owns it when it has to wait.

use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

use super::submission::Discipline;
use crate::deferred::CommandProgram;
use crate::status::{Result, Status, StatusCode};
use crate::timepoints::signal_all;
use crate::transient::{MemorySource, TransientBuffer};
use crate::{
    Buffer, BufferBinding, BufferParams, File, HostCall, HostCallContext, HostCallFlags, Timepoint, buffer_copy,
    buffer_fill, buffer_write,
};

/// An object that is lent by who submits an operation, or held by an operation that waits.
pub type Held<'a, T> = Cow<'a, Arc<T>>;

/// What an operation does on a queue of discipline `D`.
#[derive(Default)]
pub enum Work<'a, D: Discipline> {
    /// What is ordered after others is all there is to it.
    #[default]
    Nothing,
    /// Fails at once.
    Fail(Status),
    /// Fills with the pattern that is in the bytes.
    Fill {
        /// What is filled.
        target: Held<'a, dyn Buffer>,
        /// Bytes from its start.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Writes the bytes.
    Update {
        /// Where to.
        target: Held<'a, dyn Buffer>,
        /// Bytes from its start.
        offset: u64,
    },
    /// Copies between buffers.
    Copy {
        /// Where from.
        source: Held<'a, dyn Buffer>,
        /// Bytes from its start.
        source_offset: u64,
        /// Where to.
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
        /// Where to.
        target: Held<'a, dyn Buffer>,
        /// Bytes from its start.
        target_offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Writes a file.
    Write {
        /// Where from.
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
    /// Executes a program on what is in the table, with the runner of the queue if it has one.
    Execute {
        /// The program.
        program: Held<'a, CommandProgram<D::Device>>,
        /// What runs it besides the calling thread.
        runner: Option<Held<'a, D::Runner>>,
    },
    /// Gives a transient buffer memory.
    Commit {
        /// The buffer.
        transient: Arc<TransientBuffer>,
        /// Where the memory is from.
        source: MemorySource,
        /// What it must be like.
        params: BufferParams,
        /// Bytes.
        length: u64,
    },
    /// Takes the memory of a transient buffer away. Other buffers stay as they are.
    Decommit(Held<'a, dyn Buffer>),
    /// Calls a function of the host that signals the points, by itself or when it returns.
    Call {
        /// The function.
        call: Held<'a, dyn HostCall>,
        /// What it is told.
        context: HostCallContext,
        /// How.
        flags: HostCallFlags,
    },
    /// Anything that programs do not do at each call.
    Other(Box<dyn FnOnce() -> Result<()> + Send>),
}

/// What work is done on besides, of any length.
#[derive(Clone, Copy, Debug)]
pub struct Data<'a> {
    /// A pattern, or what an update writes.
    pub bytes: &'a [u8],
    /// What the slots of a program are bound to.
    pub table: &'a [BufferBinding],
    /// What is signaled when it is done.
    pub signal: &'a [Timepoint],
}

impl<D: Discipline> Work<'_, D> {
    /// The same, which lives as long as it has to.
    pub fn into_owned(self) -> Work<'static, D> {
        match self {
            Work::Nothing => Work::Nothing,
            Work::Fail(cause) => Work::Fail(cause),
            Work::Fill { target, offset, length } => Work::Fill { target: own(target), offset, length },
            Work::Update { target, offset } => Work::Update { target: own(target), offset },
            Work::Copy { source, source_offset, target, target_offset, length } => {
                Work::Copy { source: own(source), source_offset, target: own(target), target_offset, length }
            }
            Work::Read { source, source_offset, target, target_offset, length } => {
                Work::Read { source: own(source), source_offset, target: own(target), target_offset, length }
            }
            Work::Write { source, source_offset, target, target_offset, length } => {
                Work::Write { source: own(source), source_offset, target: own(target), target_offset, length }
            }
            Work::Execute { program, runner } => Work::Execute { program: own(program), runner: runner.map(own) },
            Work::Commit { transient, source, params, length } => Work::Commit { transient, source, params, length },
            Work::Decommit(allocation) => Work::Decommit(own(allocation)),
            Work::Call { call, context, flags } => Work::Call { call: own(call), context, flags },
            Work::Other(work) => Work::Other(work),
        }
    }

    /// Does it on the calling thread, through mappings of buffers.
    ///
    /// # Errors
    /// Those of what is done.
    #[inline]
    pub fn perform(self, data: Data<'_>) -> Result<()> {
        match self {
            Work::Nothing => Ok(()),
            Work::Fail(cause) => Err(cause),
            Work::Fill { target, offset, length } => {
                let outcome = buffer_fill(&**target, offset, length, data.bytes);
                recycle_owned(target);
                outcome
            }
            Work::Update { target, offset } => {
                let outcome = buffer_write(&**target, offset, data.bytes);
                recycle_owned(target);
                outcome
            }
            Work::Copy { source, source_offset, target, target_offset, length } => {
                let outcome = buffer_copy(&**source, source_offset, &**target, target_offset, length);
                recycle_owned(source);
                recycle_owned(target);
                outcome
            }
            Work::Read { source, source_offset, target, target_offset, length } => {
                let outcome = source.read(source_offset, &target, target_offset, length);
                recycle_owned(target);
                outcome
            }
            Work::Write { source, source_offset, target, target_offset, length } => {
                let outcome = target.write(target_offset, &source, source_offset, length);
                recycle_owned(source);
                outcome
            }
            Work::Execute { program, runner } => {
                let outcome = D::execute(&program, data.table, runner.as_deref().map(|runner| &**runner));
                if let Cow::Owned(program) = program {
                    CommandProgram::recycle(program);
                }
                outcome
            }
            Work::Commit { transient, source, params, length } => {
                let outcome = source.allocate(params, length).map(|memory| transient.commit(memory));
                transient.recycle();
                outcome
            }
            Work::Decommit(allocation) => {
                let outcome = decommit(&**allocation);
                recycle_owned(allocation);
                outcome
            }
            Work::Call { call, context, flags } => call_host(&**call, context, flags, data.signal),
            Work::Other(work) => work(),
        }
    }
}

/// An object that is held from here on.
fn own<T: ?Sized>(object: Held<'_, T>) -> Held<'static, T> {
    Cow::Owned(object.into_owned())
}

/// Lets go of a buffer that was held.
fn recycle_owned(buffer: Held<'_, dyn Buffer>) {
    if let Cow::Owned(buffer) = buffer {
        buffer.recycle();
    }
}

fn call_host(call: &dyn HostCall, context: HostCallContext, flags: HostCallFlags, signal: &[Timepoint]) -> Result<()> {
    if flags.contains(HostCallFlags::NON_BLOCKING) {
        signal_all(signal, Ok(()));
        // Nobody waits for the call, so nobody learns how it ended.
        let _ = call.call(context, &[]);
        return Err(Status::new(StatusCode::Deferred, "the points are signaled already"));
    }
    call.call(context, signal)
}

fn decommit(allocation: &dyn Buffer) -> Result<()> {
    let any: &dyn Any = allocation;
    any.downcast_ref::<TransientBuffer>().map_or(Ok(()), TransientBuffer::decommit)
}
