//! Transient buffers on a queue: `queue_alloca` and `queue_dealloca`.

use std::cell::OnceCell;
use std::sync::Arc;

use super::operation::{Operation, Work, decommit};
use super::signal::complete;
use super::submission::Queue;
use super::weight::Weight;
use crate::hal::transient::{MemorySource, TransientBuffer};
use crate::hal::{Buffer, BufferParams, Pool, Timepoint};
use crate::status::{Result, Status, StatusCode};

/// What to wait for and what to signal.
type Points<'a> = (&'a [Timepoint], &'a [Timepoint]);

/// A transient buffer, at once; it has its memory once the points are signaled. If it `waits`, that is as soon as the pool it is from has
/// the memory; else there must be memory when it is its turn.
pub(in crate::hal::local) fn alloca(
    queue: &Arc<Queue>,
    source: &MemorySource,
    (wait, signal): Points<'_>,
    waits: bool,
    params: BufferParams,
    allocation_size: u64,
) -> Result<Arc<dyn Buffer>> {
    if waits && let Some(pool) = source.pool() {
        let transient = source.reserve(params, allocation_size);
        let retry = Retry {
            pool: pool.clone(),
            source: source.clone(),
            transient: transient.clone(),
            params,
            allocation_size,
            signal: signal.to_vec(),
        };
        queue.submit(wait, signal, Weight::Light, move || retry.run())?;
        return Ok(transient);
    }
    // What is allocated at once has its memory from the start.
    let buffer = OnceCell::new();
    let now = || {
        let transient = source.transient(params, allocation_size)?;
        buffer.get_or_init(|| transient);
        Ok(())
    };
    let later = |operation: &mut Operation| {
        let transient = buffer.get_or_init(|| source.reserve(params, allocation_size)).clone();
        operation.work = Work::Commit { transient, source: source.clone(), params, length: allocation_size };
    };
    queue.submit_with(wait, signal, Weight::Light, now, later)?;
    // If the allocation failed, those who wait for it are told, and the buffer never has memory.
    Ok(buffer.into_inner().unwrap_or_else(|| source.reserve(params, allocation_size)))
}

/// An allocation that waits for memory of a pool.
struct Retry {
    pool: Arc<dyn Pool>,
    source: MemorySource,
    transient: Arc<TransientBuffer>,
    params: BufferParams,
    allocation_size: u64,
    signal: Vec<Timepoint>,
}

impl Retry {
    /// Gets the memory, or asks the pool to be called again; then it signals by itself, and says so.
    fn run(self) -> Result<()> {
        match self.source.allocate(self.params, self.allocation_size) {
            Ok(memory) => {
                self.transient.commit(memory);
                Ok(())
            }
            // If nothing is reserved, nothing will be returned. Who signals nothing has nobody who waits for it.
            Err(status)
                if status.code() == StatusCode::ResourceExhausted
                    && !self.signal.is_empty()
                    && self.pool.stats().reservation_count > 0 =>
            {
                let pool = self.pool.clone();
                pool.notify(Box::new(move |outcome| {
                    let signal = self.signal.clone();
                    complete(&signal, outcome.and_then(|()| self.run()));
                }));
                Err(Status::new(StatusCode::Deferred, "waits for memory of the pool"))
            }
            Err(status) => Err(status),
        }
    }
}

/// Takes the memory of a transient buffer away. Other buffers stay as they are.
pub(in crate::hal::local) fn dealloca(
    queue: &Arc<Queue>,
    (wait, signal): Points<'_>,
    buffer: &Arc<dyn Buffer>,
) -> Result<()> {
    let allocation = buffer.allocation();
    let allocation = allocation.as_ref().unwrap_or(buffer);
    let later = |operation: &mut Operation| operation.work = Work::Decommit(allocation.clone());
    queue.submit_with(wait, signal, Weight::Light, || decommit(&**allocation), later)
}
