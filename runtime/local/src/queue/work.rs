//! What queue operations do, each described once: it borrows what it needs while it may be done at once, and owns it when it has to wait.

use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

use crate::commands::{Execution, Program};
use crate::hal::points::finish;
use crate::hal::transient::{MemorySource, TransientBuffer};
use crate::hal::{
    Buffer, BufferBinding, BufferParams, File, HostCall, HostCallContext, HostCallFlags, Timepoint, buffer_copy,
    buffer_fill, buffer_write,
};
use crate::status::{Result, Status, StatusCode};
use crate::task::Executor;

/// An object that is lent by who submits an operation, or held by an operation that waits.
pub(crate) type Held<'a, T> = Cow<'a, Arc<T>>;

/// What an operation does.
#[derive(Default)]
pub(crate) enum Work<'a> {
    /// What is ordered after others is all there is to it.
    #[default]
    Nothing,
    /// Fails at once.
    Fail(Status),
    /// Fills with the pattern that is in the bytes.
    Fill { target: Held<'a, dyn Buffer>, offset: u64, length: u64 },
    /// Writes the bytes.
    Update { target: Held<'a, dyn Buffer>, offset: u64 },
    Copy {
        source: Held<'a, dyn Buffer>,
        source_offset: u64,
        target: Held<'a, dyn Buffer>,
        target_offset: u64,
        length: u64,
    },
    /// Reads a file.
    Read {
        source: Held<'a, dyn File>,
        source_offset: u64,
        target: Held<'a, dyn Buffer>,
        target_offset: u64,
        length: u64,
    },
    /// Writes a file.
    Write {
        source: Held<'a, dyn Buffer>,
        source_offset: u64,
        target: Held<'a, dyn File>,
        target_offset: u64,
        length: u64,
    },
    /// Runs a program on what is in the table, with the workers of the queue if it has some.
    Execute { program: Held<'a, Program>, workers: Option<Held<'a, Executor>> },
    /// Gives a transient buffer memory.
    Commit { transient: Arc<TransientBuffer>, source: MemorySource, params: BufferParams, length: u64 },
    /// Takes the memory of a transient buffer away. Other buffers stay as they are.
    Decommit(Held<'a, dyn Buffer>),
    /// Calls a function of the host that signals the points, by itself or when it returns.
    Call { call: Held<'a, dyn HostCall>, context: HostCallContext, flags: HostCallFlags },
    /// Anything that programs do not do at each call.
    Other(Box<dyn FnOnce() -> Result<()> + Send>),
}

/// What work is done on besides, of any length.
#[derive(Clone, Copy)]
pub(super) struct Data<'a> {
    /// A pattern, or what an update writes.
    pub(super) bytes: &'a [u8],
    /// What the slots of a program are bound to.
    pub(super) table: &'a [BufferBinding],
    /// What is signaled when it is done.
    pub(super) signal: &'a [Timepoint],
}

impl Work<'_> {
    /// The same, which lives as long as it has to.
    pub(super) fn into_owned(self) -> Work<'static> {
        match self {
            Work::Nothing => Work::Nothing,
            Work::Fail(cause) => Work::Fail(cause),
            Work::Fill { target, offset, length } => Work::Fill { target: hold(target), offset, length },
            Work::Update { target, offset } => Work::Update { target: hold(target), offset },
            Work::Copy { source, source_offset, target, target_offset, length } => {
                Work::Copy { source: hold(source), source_offset, target: hold(target), target_offset, length }
            }
            Work::Read { source, source_offset, target, target_offset, length } => {
                Work::Read { source: hold(source), source_offset, target: hold(target), target_offset, length }
            }
            Work::Write { source, source_offset, target, target_offset, length } => {
                Work::Write { source: hold(source), source_offset, target: hold(target), target_offset, length }
            }
            Work::Execute { program, workers } => Work::Execute { program: hold(program), workers: workers.map(hold) },
            Work::Commit { transient, source, params, length } => Work::Commit { transient, source, params, length },
            Work::Decommit(allocation) => Work::Decommit(hold(allocation)),
            Work::Call { call, context, flags } => Work::Call { call: hold(call), context, flags },
            Work::Other(work) => Work::Other(work),
        }
    }

    /// Does it.
    pub(super) fn perform(self, data: Data<'_>) -> Result<()> {
        match self {
            Work::Nothing => Ok(()),
            Work::Fail(cause) => Err(cause),
            Work::Fill { target, offset, length } => {
                let outcome = buffer_fill(&**target, offset, length, data.bytes);
                let_go(target);
                outcome
            }
            Work::Update { target, offset } => {
                let outcome = buffer_write(&**target, offset, data.bytes);
                let_go(target);
                outcome
            }
            Work::Copy { source, source_offset, target, target_offset, length } => {
                let outcome = buffer_copy(&**source, source_offset, &**target, target_offset, length);
                let_go(source);
                let_go(target);
                outcome
            }
            Work::Read { source, source_offset, target, target_offset, length } => {
                let outcome = source.read(source_offset, &target, target_offset, length);
                let_go(target);
                outcome
            }
            Work::Write { source, source_offset, target, target_offset, length } => {
                let outcome = target.write(target_offset, &source, source_offset, length);
                let_go(source);
                outcome
            }
            Work::Execute { program, workers } => {
                let outcome = Execution(&program).run(data.table, workers.as_deref().map(|workers| &**workers));
                if let Cow::Owned(program) = program {
                    Program::retire(program);
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
                let_go(allocation);
                outcome
            }
            Work::Call { call, context, flags } => call_host(&**call, context, flags, data.signal),
            Work::Other(work) => work(),
        }
    }
}

/// An object that is held from here on.
fn hold<T: ?Sized>(object: Held<'_, T>) -> Held<'static, T> {
    Cow::Owned(object.into_owned())
}

/// Lets go of a buffer that was held.
fn let_go(buffer: Held<'_, dyn Buffer>) {
    if let Cow::Owned(buffer) = buffer {
        buffer.recycle();
    }
}

fn call_host(call: &dyn HostCall, context: HostCallContext, flags: HostCallFlags, signal: &[Timepoint]) -> Result<()> {
    if flags.contains(HostCallFlags::NON_BLOCKING) {
        finish(signal, Ok(()));
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
