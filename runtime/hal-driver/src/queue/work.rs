//! Performs queue operations on the calling thread, through mappings of buffers ([`perform`]), whether they run at once
//! or had to wait.

use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

use super::discipline::{Discipline, Prepared};
use crate::deferred::CommandProgram;
use crate::hal::host_times;
use crate::hal::timepoints::signal_all;
use crate::hal::transfer::unwatched::{buffer_copy, buffer_fill, buffer_write};
use crate::hal::transient::TransientBuffer;
use crate::hal::{Buffer, HostCall, HostCallContext, HostCallFlags, QueueAffinity, QueueOperation, Timepoint};
use crate::limits::scope;
use crate::panics::guarded;
use crate::status::{Result, Status, StatusCode};

/// The name of host calls in failures.
const HOST_CALL: &str = "a host call";

/// Performs an operation, or what was prepared for it.
///
/// # Errors
/// Those of the operation, and those of limits.
#[inline(always)]
pub(super) fn perform<D: Discipline>(
    queue_affinity: QueueAffinity,
    operation: QueueOperation<'_>,
    prepared: Prepared<'_, D>,
    signal: &[Timepoint],
) -> Result<()> {
    host_times::operation(|| perform_unwatched(queue_affinity, operation, prepared, signal))
}

#[inline(always)]
fn perform_unwatched<D: Discipline>(
    queue_affinity: QueueAffinity,
    operation: QueueOperation<'_>,
    prepared: Prepared<'_, D>,
    signal: &[Timepoint],
) -> Result<()> {
    // Memory goes back, and failures are told, also after the call has ended.
    if !matches!((&operation, &prepared), (QueueOperation::Dealloca { .. }, _) | (_, Prepared::Failure(_))) {
        scope::check()?;
    }
    match prepared {
        Prepared::Nothing => perform_unprepared(queue_affinity, operation, signal),
        Prepared::Program { program, runner } => {
            let table = match operation {
                QueueOperation::Execute { binding_table, .. } => binding_table,
                _ => &[],
            };
            let outcome = D::execute(&program, table, runner.as_deref().map(|runner| &**runner));
            if let Cow::Owned(program) = program {
                CommandProgram::recycle(program);
            }
            outcome
        }
        Prepared::Memory(allocation) => allocation.run(signal),
        Prepared::Failure(cause) => Err(cause),
        Prepared::Other(work) => work(),
    }
}

#[inline]
fn perform_unprepared(
    queue_affinity: QueueAffinity,
    operation: QueueOperation<'_>,
    signal: &[Timepoint],
) -> Result<()> {
    match operation {
        QueueOperation::Barrier { flags: _ } => Ok(()),
        QueueOperation::Dealloca { buffer, flags: _ } => decommit(buffer),
        QueueOperation::Fill { target_buffer, target_offset, length, pattern, flags: _ } => {
            buffer_fill(&**target_buffer, target_offset, length, pattern)
        }
        QueueOperation::Update { source, target_buffer, target_offset, flags: _ } => {
            buffer_write(&**target_buffer, target_offset, source)
        }
        QueueOperation::Copy { source_buffer, source_offset, target_buffer, target_offset, length, flags: _ } => {
            buffer_copy(&**source_buffer, source_offset, &**target_buffer, target_offset, length)
        }
        QueueOperation::Read { source_file, source_offset, target_buffer, target_offset, length, flags: _ } => {
            source_file.read(source_offset, target_buffer, target_offset, length)
        }
        QueueOperation::Write { source_buffer, source_offset, target_file, target_offset, length, flags: _ } => {
            target_file.write(target_offset, source_buffer, source_offset, length)
        }
        QueueOperation::HostCall { call, args, flags } => {
            call_host(&**call, host_call_context(queue_affinity, args)?, flags, signal)
        }
        QueueOperation::Dispatch { .. } | QueueOperation::Execute { .. } => {
            Err(Status::internal("the commands of a queue operation without a program"))
        }
    }
}

/// The context of a host call with these arguments.
///
/// # Errors
/// INVALID_ARGUMENT for more than four arguments.
pub fn host_call_context(queue_affinity: QueueAffinity, args: &[u64]) -> Result<HostCallContext> {
    let mut context = HostCallContext { queue_affinity, args: [0; 4] };
    let slots = context.args.get_mut(..args.len()).ok_or_else(|| {
        Status::invalid_argument(format!("a host call with {} arguments: expected at most 4", args.len()))
    })?;
    slots.copy_from_slice(args);
    Ok(context)
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

/// Decommits the memory of a transient buffer. Buffers of other kinds stay as they are.
///
/// # Errors
/// Those of the buffer.
pub fn decommit(buffer: &Arc<dyn Buffer>) -> Result<()> {
    let allocation = buffer.allocation();
    let any: &dyn Any = &**allocation.as_ref().unwrap_or(buffer);
    any.downcast_ref::<TransientBuffer>().map_or(Ok(()), TransientBuffer::decommit)
}
