//! Host calls: functions of the host that a queue calls in order with its other operations.

use std::borrow::Cow;
use std::sync::Arc;

use super::discipline::{Discipline, Queue, WaitAndSignal, Work};
use super::weight::Weight;
use crate::hal::{HostCall, HostCallContext, HostCallFlags, QueueAffinity};
use crate::status::{Result, Status, StatusCode};

/// The context of a host call with these arguments.
///
/// # Errors
/// INVALID_ARGUMENT for more than four arguments.
pub fn context(queue_affinity: QueueAffinity, args: &[u64]) -> Result<HostCallContext> {
    let mut context = HostCallContext { queue_affinity, args: [0; 4] };
    let slots = context.args.get_mut(..args.len()).ok_or_else(|| {
        Status::invalid_argument(format!("a host call with {} arguments: expected at most 4", args.len()))
    })?;
    slots.copy_from_slice(args);
    Ok(context)
}

/// Queues a call.
///
/// # Errors
/// The failure of the call, if it has run and signals no points.
pub(super) fn submit<D: Discipline>(
    queue: &Arc<Queue<D>>,
    (wait, signal): WaitAndSignal<'_>,
    call: &Arc<dyn HostCall>,
    context: HostCallContext,
    flags: HostCallFlags,
) -> Result<()> {
    let work = Work::Call { call: Cow::Borrowed(call), context, flags };
    let submitted = queue.submit(wait, signal, Weight::Foreign, work);
    match submitted {
        // The call signals by itself, and there are no points to signal.
        Err(status) if status.code() == StatusCode::Deferred => Ok(()),
        submitted => submitted,
    }
}
