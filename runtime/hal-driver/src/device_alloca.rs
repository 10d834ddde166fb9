//! Queue allocations ([`Begun`]): transient buffers get their memory when they are submitted, or when the
//! operations before them have released some.
//!
//! Memory of the device is free when nothing that was submitted uses it any more, so an allocation can have it at once,
//! whatever it waits for; only its points wait. Where there is none left, or a pool of the host has to be asked in the
//! order of the queue, the allocation is made once its waits are over. If the host allows it to wait for memory, it
//! then waits until some is released.

use std::any::Any;
use std::sync::Arc;

use crate::allocation::{Allocation, AllocationSource};
use crate::hal::transient::{Memory, TransientBuffer};
use crate::hal::{Allocator, Buffer, BufferParams, Pool};
use crate::memory_source::{DeviceMemory, MemorySource};
use crate::pool::Notice;
use crate::status::{Result, Status, StatusCode};

/// The allocator of a device whose memory is free when nothing that was submitted uses it.
pub trait DeviceAllocator: Allocator {
    /// The parameters of a buffer with everything filled in.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if there is no such memory.
    fn resolve(&self, params: BufferParams) -> Result<BufferParams>;

    /// A buffer whose contents an earlier one may have left, unless it is `zeroed`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if there is no such memory, `RESOURCE_EXHAUSTED` if there is no more.
    fn allocate(&self, params: BufferParams, length: u64, zeroed: bool) -> Result<Arc<dyn Buffer>>;

    /// How often memory was released so far.
    fn releases(&self) -> u64;

    /// Calls `waiter` when memory is released, on whatever thread that is, if none was since there were so many
    /// `releases`.
    fn notify(&self, releases: u64, waiter: Box<dyn FnOnce() + Send>) -> Notice;
}

/// Where the memory of a transient buffer is from.
#[derive(Debug)]
pub enum Source<A> {
    /// The allocator of the device, with zeroed memory or without.
    Own(Arc<A>, bool),
    /// A pool of the host, or the allocator that it put in place of the device's.
    Other(MemorySource),
}

impl<A> Clone for Source<A> {
    fn clone(&self) -> Self {
        match self {
            Source::Own(allocator, zeroed) => Source::Own(allocator.clone(), *zeroed),
            Source::Other(source) => Source::Other(source.clone()),
        }
    }
}

impl<A: DeviceAllocator> Source<A> {
    /// A pool, or the allocator that a device has now. From here on the host cannot replace it.
    pub fn new(memory: &DeviceMemory, zeroed: bool, pool: Option<&Arc<dyn Pool>>) -> Self {
        let source = match pool {
            Some(pool) => return Source::Other(memory.pool_source(pool)),
            None => memory.source(),
        };
        match own(&memory.allocator()) {
            Some(own) => Source::Own(own, zeroed),
            None => Source::Other(source.clone()),
        }
    }

    /// Whether memory may be taken before the operations that the allocation waits for have completed.
    fn is_unordered(&self) -> bool {
        match self {
            Source::Own(..) => true,
            Source::Other(source) => source.pool().is_none(),
        }
    }

    fn transient(&self, params: BufferParams, length: u64) -> Arc<TransientBuffer> {
        match self {
            Source::Own(allocator, _) => {
                // Parameters that cannot be resolved will not be allocated either.
                TransientBuffer::new(allocator.resolve(params).unwrap_or(params), length, Memory::None)
            }
            Source::Other(source) => source.transient_without_memory(params, length),
        }
    }
}

impl<A: DeviceAllocator> AllocationSource for Source<A> {
    fn allocate(&self, params: BufferParams, length: u64) -> Result<Memory> {
        match self {
            Source::Own(allocator, zeroed) => Ok(Memory::Other(allocator.allocate(params, length, *zeroed)?)),
            Source::Other(source) => source.allocate(params, length),
        }
    }

    fn releases(&self) -> u64 {
        match self {
            Source::Own(allocator, _) => allocator.releases(),
            Source::Other(source) => source.releases(),
        }
    }

    fn notify(&self, releases: u64, retry: impl FnOnce(Result<()>) + Send + 'static) -> Notice {
        match self {
            Source::Own(allocator, _) => allocator.notify(releases, Box::new(move || retry(Ok(())))),
            Source::Other(source) => source.notify(releases, retry),
        }
    }
}

/// An allocator as one of the driver.
pub fn own<A: DeviceAllocator>(allocator: &Arc<dyn Allocator>) -> Option<Arc<A>> {
    let any: Arc<dyn Any + Send + Sync> = allocator.clone();
    any.downcast().ok()
}

/// The state of an allocation after an attempt.
pub enum Begun<A> {
    /// The buffer has its memory.
    Done,
    /// [`Allocation::run`], once the points that it waits for are reached.
    Later(Allocation<Source<A>>),
    /// It cannot be made.
    Refused(Status),
}

impl<A: DeviceAllocator> Begun<A> {
    /// Makes a transient buffer, with memory if it can be had now. `is_first` says that nothing is waited for.
    pub fn attempt(
        source: Source<A>,
        params: BufferParams,
        length: u64,
        (is_first, may_wait): (bool, bool),
    ) -> (Arc<TransientBuffer>, Begun<A>) {
        let transient = source.transient(params, length);
        let allocation = Allocation { source, transient: transient.clone(), params, length, may_wait };
        if !is_first && !allocation.source.is_unordered() {
            return (transient, Begun::Later(allocation));
        }
        let begun = match allocation.source.allocate(params, length) {
            Ok(memory) => {
                transient.commit(memory);
                Begun::Done
            }
            // The submissions that it waits for may release some.
            Err(status) if status.code() == StatusCode::ResourceExhausted && (!is_first || may_wait) => {
                Begun::Later(allocation)
            }
            Err(status) => Begun::Refused(status),
        };
        (transient, begun)
    }
}
