//! Queue allocations: `queue_alloca` and `queue_dealloca` of transient buffers, for drivers that use
//! [`crate::transient`].

use std::any::Any;
use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::Arc;

use super::discipline::{Discipline, Operation, Queue, Submission, WaitAndSignal, Work};
use super::weight::Weight;
use crate::hal::timepoints::complete;
use crate::hal::transient::TransientBuffer;
use crate::hal::{Buffer, BufferParams, DeallocaFlags, Pool, QueueAffinity, QueueOperation, Timepoint};
use crate::memory_source::MemorySource;
use crate::pool::{self, Notice};
use crate::status::{Result, Status, StatusCode};

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
    if waits && let Some(pool) = source.pool() {
        let transient = source.transient_without_memory(params, allocation_size);
        let allocation = PoolAllocation {
            pool: pool.clone(),
            source: source.clone(),
            transient: transient.clone(),
            params,
            allocation_size,
            signal: signal.to_vec(),
        };
        queue.submit(wait, signal, Weight::Light, Work::Other(Box::new(move || allocation.run())))?;
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
        let transient = self.source.allocate_transient(self.params, self.length)?;
        self.buffer.get_or_init(|| transient);
        Ok(())
    }

    fn store_into(self, operation: &mut Operation<D>) {
        let AllocaSubmission { source, params, length, buffer } = self;
        let transient = buffer.get_or_init(|| source.transient_without_memory(params, length)).clone();
        operation.work = Work::Commit { transient, source: source.clone(), params, length };
    }
}

/// An allocation that waits until a pool has memory for it.
#[derive(Clone)]
struct PoolAllocation {
    pool: Arc<dyn Pool>,
    source: MemorySource,
    transient: Arc<TransientBuffer>,
    params: BufferParams,
    allocation_size: u64,
    signal: Vec<Timepoint>,
}

impl PoolAllocation {
    /// Commits the memory, or subscribes to releases of the pool: then it signals its points itself later and returns
    /// DEFERRED.
    fn run(&self) -> Result<()> {
        loop {
            let releases = self.pool.stats().release_count;
            let status = match self.source.allocate(self.params, self.allocation_size) {
                Ok(memory) => {
                    self.transient.commit(memory);
                    return Ok(());
                }
                Err(status) => status,
            };
            // An operation without points to signal has no waiters.
            if status.code() != StatusCode::ResourceExhausted || self.signal.is_empty() {
                return Err(status);
            }
            let again = self.clone();
            let retry = move |outcome: Result<()>| complete(&again.signal, outcome.and_then(|()| again.run()));
            match pool::notify(&*self.pool, releases, retry) {
                Notice::Later => return Err(Status::new(StatusCode::Deferred, "waits for memory of the pool")),
                Notice::Released => {}
                Notice::Never => return Err(status),
            }
        }
    }
}

/// Decommits the memory of a transient buffer. Buffers of other kinds stay as they are.
///
/// # Errors
/// The failure of the operation, if it signals no points and has run already.
pub(super) fn dealloca<D: Discipline>(
    queue: &Arc<Queue<D>>,
    (wait, signal): WaitAndSignal<'_>,
    buffer: &Arc<dyn Buffer>,
) -> Result<()> {
    let allocation = buffer.allocation();
    let allocation = allocation.as_ref().unwrap_or(buffer);
    queue.submit(wait, signal, Weight::Light, Work::Decommit(Cow::Borrowed(allocation)))
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
