//! Queue allocations: `queue_alloca` of transient buffers, for drivers that use [`crate::hal::transient`].

use std::any::Any;
use std::cell::OnceCell;
use std::sync::Arc;

use super::discipline::{Discipline, Operation, Prepared, Queue, Submission, WaitAndSignal};
use super::weight::Weight;
use crate::allocation::Allocation;
use crate::hal::host_times;
use crate::hal::transient::TransientBuffer;
use crate::hal::{BufferParams, DeallocaFlags, QueueAffinity, QueueOperation, Timepoint};
use crate::memory_source::MemorySource;
use crate::status::Result;

/// Returns a transient buffer at once; it has its memory when the points are signaled. If it `waits`, the operation
/// waits until its pool has the memory; otherwise it fails unless there is memory when it runs.
///
/// # Errors
/// The failure of the operation, if it signals no points and has run already.
pub fn alloca<D: Discipline>(
    queue: &Arc<Queue<D>>,
    source: &MemorySource,
    (wait, signal): WaitAndSignal<'_>,
    waits: bool,
    params: BufferParams,
    allocation_size: u64,
) -> Result<Arc<TransientBuffer>> {
    if waits && source.pool().is_some() {
        let transient = source.transient_without_memory(params, allocation_size);
        let (source, length) = (source.clone(), allocation_size);
        let allocation = Allocation { source, transient: transient.clone(), params, length, may_wait: true };
        queue.submit(wait, signal, Weight::Light, Prepared::Memory(allocation))?;
        return Ok(transient);
    }
    let buffer = OnceCell::new();
    let allocation = AllocaSubmission { source, params, length: allocation_size, buffer: &buffer };
    queue.submit_any(wait, signal, Weight::Light, allocation)?;
    // If the allocation failed its points have failed, and the buffer never has memory.
    Ok(buffer.into_inner().unwrap_or_else(|| source.transient_without_memory(params, allocation_size)))
}

/// An allocation. If it runs at once it makes a buffer with memory; if it waits, one whose memory is committed later.
struct AllocaSubmission<'a> {
    source: &'a MemorySource,
    params: BufferParams,
    length: u64,
    buffer: &'a OnceCell<Arc<TransientBuffer>>,
}

impl<D: Discipline> Submission<D> for AllocaSubmission<'_> {
    fn perform(self, _signal: &[Timepoint]) -> Result<()> {
        host_times::operation(|| {
            let transient = self.source.allocate_transient(self.params, self.length)?;
            self.buffer.get_or_init(|| transient);
            Ok(())
        })
    }

    fn store_into(self, operation: &mut Operation<D>) {
        let AllocaSubmission { source, params, length, buffer } = self;
        let transient = buffer.get_or_init(|| source.transient_without_memory(params, length)).clone();
        let allocation = Allocation { source: source.clone(), transient, params, length, may_wait: false };
        operation.prepared = Prepared::Memory(allocation);
    }
}

/// The queue of an operation: the one that is named, but for a deallocation whose flags prefer the one that reserved
/// the buffer. A buffer that no queue reserved has none to prefer.
pub fn queue_of(operation: &QueueOperation<'_>, named: QueueAffinity) -> QueueAffinity {
    let QueueOperation::Dealloca { buffer, flags } = operation else { return named };
    if !flags.contains(DeallocaFlags::PREFER_ORIGIN) {
        return named;
    }
    let allocation = buffer.allocation();
    let allocation: &dyn Any = &**allocation.as_ref().unwrap_or(buffer);
    allocation.downcast_ref::<TransientBuffer>().map_or(named, TransientBuffer::origin)
}
