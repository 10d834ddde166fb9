//! Allocations of transient buffers that are made when their queue comes to them ([`Allocation`]): at once, or when a
//! source of memory ([`AllocationSource`]) has released some.

use std::sync::Arc;

use crate::hal::timepoints::complete;
use crate::hal::transient::{Memory, TransientBuffer};
use crate::hal::{Buffer, BufferParams, Timepoint};
use crate::memory_source::MemorySource;
use crate::pool::{self, Notice};
use crate::status::{Result, Status, StatusCode};

/// A source of memory that may have more of it later.
pub trait AllocationSource: Clone + Send + 'static {
    /// Memory for a transient buffer.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if there is none now, and others of the source.
    fn allocate(&self, params: BufferParams, length: u64) -> Result<Memory>;

    /// How often memory was released so far.
    fn releases(&self) -> u64;

    /// Calls `retry` when memory is released, if none was since there were so many `releases`.
    fn notify(&self, releases: u64, retry: impl FnOnce(Result<()>) + Send + 'static) -> Notice;
}

impl AllocationSource for MemorySource {
    fn allocate(&self, params: BufferParams, length: u64) -> Result<Memory> {
        MemorySource::allocate(self, params, length)
    }

    fn releases(&self) -> u64 {
        self.pool().map_or(0, |pool| pool.stats().release_count)
    }

    fn notify(&self, releases: u64, retry: impl FnOnce(Result<()>) + Send + 'static) -> Notice {
        self.pool().map_or(Notice::Never, |pool| pool::notify(&**pool, releases, retry))
    }
}

/// An allocation that has no memory yet.
#[derive(Clone)]
pub struct Allocation<S> {
    /// Where the memory is from.
    pub source: S,
    /// The buffer that gets it.
    pub transient: Arc<TransientBuffer>,
    /// The parameters of the memory.
    pub params: BufferParams,
    /// Bytes.
    pub length: u64,
    /// Whether it may wait until memory is released.
    pub may_wait: bool,
}

impl<S: AllocationSource> Allocation<S> {
    /// Commits the memory, or waits for some: then it signals the points itself later and returns DEFERRED.
    ///
    /// # Errors
    /// Those of the source.
    pub fn run(self, signal: &[Timepoint]) -> Result<()> {
        // An operation without points to signal has no waiter.
        let may_wait = self.may_wait && !signal.is_empty();
        loop {
            let releases = if may_wait { self.source.releases() } else { 0 };
            let status = match self.source.allocate(self.params, self.length) {
                Ok(memory) => {
                    self.transient.commit(memory);
                    self.transient.recycle();
                    return Ok(());
                }
                Err(status) => status,
            };
            if status.code() != StatusCode::ResourceExhausted || !may_wait {
                return Err(status);
            }
            let (again, points) = (self.clone(), signal.to_vec());
            let retry = move |outcome: Result<()>| complete(&points, outcome.and_then(|()| again.run(&points)));
            match self.source.notify(releases, retry) {
                Notice::Later => return Err(Status::new(StatusCode::Deferred, "waits for memory")),
                Notice::Released => {}
                // If no allocation is in use, none will be released.
                Notice::Never => return Err(status),
            }
        }
    }
}
