//! Descriptions of queue operations ([`Work`]), one variant each: they borrow their objects while they may run at once,
//! and own them once they have to wait.

use std::any::Any;
use std::borrow::Cow;

use super::discipline::{Discipline, Held, Operands, Work};
use crate::deferred::CommandProgram;
use crate::hal::timepoints::signal_all;
use crate::hal::transient::TransientBuffer;
use crate::hal::{Buffer, HostCall, HostCallContext, HostCallFlags, Timepoint, buffer_copy, buffer_fill, buffer_write};
use crate::limits::scope;
use crate::panics::guarded;
use crate::status::{Result, Status, StatusCode};

/// The name of host calls in failures.
const HOST_CALL: &str = "a host call";

impl<D: Discipline> Work<'_, D> {
    /// Whether the limits of the call that submitted it allow it: memory goes back, and failures are told, also after
    /// the call has ended.
    ///
    /// # Errors
    /// Those of limits.
    #[inline]
    pub fn check_limits(&self) -> Result<()> {
        if matches!(self, Work::Fail(_) | Work::Decommit(_)) { Ok(()) } else { scope::check() }
    }

    /// The same work with references of its own.
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

    /// Performs it on the calling thread, through mappings of buffers.
    ///
    /// # Errors
    /// Those of the work.
    #[inline]
    pub fn perform(self, operands: Operands<'_>) -> Result<()> {
        match self {
            Work::Nothing => Ok(()),
            Work::Fail(cause) => Err(cause),
            Work::Fill { target, offset, length } => {
                let outcome = buffer_fill(&**target, offset, length, operands.bytes);
                recycle_owned(target);
                outcome
            }
            Work::Update { target, offset } => {
                let outcome = buffer_write(&**target, offset, operands.bytes);
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
                let outcome = D::execute(&program, operands.table, runner.as_deref().map(|runner| &**runner));
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
            Work::Call { call, context, flags } => call_host(&**call, context, flags, operands.signal),
            Work::Other(work) => work(),
        }
    }
}

/// The object with a reference of its own.
fn own<T: ?Sized>(object: Held<'_, T>) -> Held<'static, T> {
    Cow::Owned(object.into_owned())
}

/// Recycles a buffer that an operation owned.
fn recycle_owned(buffer: Held<'_, dyn Buffer>) {
    if let Cow::Owned(buffer) = buffer {
        buffer.recycle();
    }
}

/// Calls a function of the host, which signals the points itself unless they are signaled before the call.
///
/// # Errors
/// Those of the call, INTERNAL for a panic of it, and DEFERRED if the points are signaled already.
pub fn call_host(
    call: &dyn HostCall,
    context: HostCallContext,
    flags: HostCallFlags,
    signal: &[Timepoint],
) -> Result<()> {
    if flags.contains(HostCallFlags::NON_BLOCKING) {
        signal_all(signal, Ok(()));
        // The points are signaled already, so the outcome of the call goes nowhere.
        let _ = guarded(HOST_CALL, || call.call(context, &[]));
        return Err(Status::new(StatusCode::Deferred, "the points are signaled already"));
    }
    guarded(HOST_CALL, || call.call(context, signal))?
}

fn decommit(allocation: &dyn Buffer) -> Result<()> {
    let any: &dyn Any = allocation;
    any.downcast_ref::<TransientBuffer>().map_or(Ok(()), TransientBuffer::decommit)
}
