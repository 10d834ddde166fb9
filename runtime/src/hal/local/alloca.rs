//! Transient buffers on a queue: `queue_alloca` and `queue_dealloca`.

use std::any::Any;
use std::cell::OnceCell;
use std::sync::Arc;

use super::memory::MemorySource;
use super::queue::{Queue, Weight, Work};
use super::transient::TransientBuffer;
use crate::hal::{Buffer, BufferParams, Pool, Timepoint};
use crate::status::{Result, Status};

/// What to wait for and what to signal.
type Points<'a> = (&'a [Timepoint], &'a [Timepoint]);

/// A transient buffer, at once; it has its memory once the points are signaled.
pub(super) fn alloca(
    queue: &Arc<Queue>,
    source: &MemorySource,
    (wait, signal): Points<'_>,
    pool: Option<&Arc<dyn Pool>>,
    params: BufferParams,
    allocation_size: u64,
) -> Result<Arc<dyn Buffer>> {
    if let Some(pool) = pool {
        return Err(Status::unimplemented(format!("`device.queue_alloca` from {pool:?} is not supported locally")));
    }
    // What is allocated at once has its memory from the start.
    let buffer = OnceCell::new();
    let now = || {
        let transient = source.transient(params, allocation_size)?;
        buffer.get_or_init(|| transient);
        Ok(())
    };
    let later = || -> Work {
        let transient = buffer.get_or_init(|| source.reserve(params, allocation_size)).clone();
        let source = source.clone();
        Box::new(move || {
            transient.commit(source.allocate(params, allocation_size)?);
            Ok(())
        })
    };
    queue.submit_with(wait, signal, Weight::Light, now, later)?;
    // If the allocation failed, those who wait for it are told, and the buffer never has memory.
    Ok(buffer.into_inner().unwrap_or_else(|| source.reserve(params, allocation_size)))
}

/// Takes the memory of a transient buffer away. Other buffers stay as they are.
pub(super) fn dealloca(queue: &Arc<Queue>, (wait, signal): Points<'_>, buffer: &Arc<dyn Buffer>) -> Result<()> {
    let decommit = |allocation: &dyn Any| match allocation.downcast_ref::<TransientBuffer>() {
        Some(transient) => transient.decommit(),
        None => Ok(()),
    };
    let allocation = buffer.allocation();
    let allocation = allocation.as_ref().unwrap_or(buffer);
    let later = || -> Work {
        let allocation = allocation.clone();
        Box::new(move || decommit(&*allocation))
    };
    queue.submit_with(wait, signal, Weight::Light, || decommit(&**allocation), later)
}
