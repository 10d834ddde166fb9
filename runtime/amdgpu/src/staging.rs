//! Transfers between files and buffers ([`Staging`]): in place where the host reaches the memory, else through coarse-grained memory of the host
//! that the queue copies from or to. They run on threads of the host, which wait for the copies.
//!
//! Transfers of a device have a few slots for that memory ([`StagingSlots`]), and wait for one: a program that loads all its parameters at
//! once takes no more. Whoever has a slot waits for nothing but packets that were admitted, so the slots always become free.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::allocator::AmdAllocator;

use crate::command_buffer::{KernelSource, Recorder};
use crate::hal::{
    Buffer, BufferRef, File, HostSemaphore, MappingMode, MemoryAccess, QueueAffinity, Semaphore, Timepoint,
};
use crate::hal_driver::deferred::Recorder as _;
use crate::hal_driver::device_queue::{Payload, Request};
use crate::limits::scope::{self, Scope};
use crate::queue::QueueCore;
use crate::status::Result;

/// Bytes that are staged at a time.
const STAGING_CHUNK: u64 = 4 << 20;

/// Transfers of a device that are staged at a time.
const SLOTS: usize = 4;

/// The slots of a device.
#[derive(Debug, Default)]
pub(crate) struct StagingSlots {
    taken: Mutex<usize>,
    freed: Condvar,
}

/// A slot, until it is dropped.
struct Slot<'a>(&'a StagingSlots);

impl StagingSlots {
    /// Waits for a slot.
    ///
    /// # Errors
    /// The limits that may end the call meanwhile.
    fn take(&self) -> Result<Slot<'_>> {
        /// How often the limits of the call are looked at.
        const WHILE: Duration = Duration::from_millis(10);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        while *taken == SLOTS {
            scope::check()?;
            taken = self.freed.wait_timeout(taken, WHILE).unwrap_or_else(PoisonError::into_inner).0;
        }
        *taken += 1;
        Ok(Slot(self))
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.freed.notify_one();
    }
}

/// Copies between memory of the host and buffers, by the queue.
pub(crate) struct Staging {
    /// The queue.
    pub(crate) queue: Arc<QueueCore>,
    /// Its affinity.
    pub(crate) affinity: QueueAffinity,
    /// What copies are recorded for.
    pub(crate) source: Arc<dyn KernelSource>,
    /// The allocator of the device.
    pub(crate) allocator: Arc<AmdAllocator>,
    /// The slots of the device.
    pub(crate) slots: Arc<StagingSlots>,
}

impl Staging {
    /// Reads from a file into a buffer.
    pub(crate) fn read(
        &self,
        source: (&Arc<dyn File>, u64),
        target: (&Arc<dyn Buffer>, u64),
        length: u64,
    ) -> Result<()> {
        let ((file, source_offset), (buffer, target_offset)) = (source, target);
        if is_mappable(&**buffer, MemoryAccess::WRITE) {
            return file.read(source_offset, buffer, target_offset, length);
        }
        let _slot = self.slots.take()?;
        let staged = self.buffer(length)?;
        Staging::in_parts(length, |offset, part| {
            file.read(source_offset.saturating_add(offset), &staged, 0, part)?;
            self.copy((&staged, 0), (buffer, target_offset.saturating_add(offset)), part)
        })
    }

    /// Writes from a buffer to a file.
    pub(crate) fn write(
        &self,
        source: (&Arc<dyn Buffer>, u64),
        target: (&Arc<dyn File>, u64),
        length: u64,
    ) -> Result<()> {
        let ((buffer, source_offset), (file, target_offset)) = (source, target);
        if is_mappable(&**buffer, MemoryAccess::READ) {
            return file.write(target_offset, buffer, source_offset, length);
        }
        let _slot = self.slots.take()?;
        let staged = self.buffer(length)?;
        Staging::in_parts(length, |offset, part| {
            self.copy((buffer, source_offset.saturating_add(offset)), (&staged, 0), part)?;
            file.write(target_offset.saturating_add(offset), &staged, 0, part)
        })
    }

    /// Memory of the host that the queue reaches.
    fn buffer(&self, length: u64) -> Result<Arc<dyn Buffer>> {
        Ok(Arc::new(self.allocator.staging(self.affinity, length.min(STAGING_CHUNK))?))
    }

    /// Copies, and waits until that is done.
    fn copy(&self, source: (&Arc<dyn Buffer>, u64), target: (&Arc<dyn Buffer>, u64), length: u64) -> Result<()> {
        let reference = |(buffer, offset): (&Arc<dyn Buffer>, u64)| BufferRef {
            buffer: Some(buffer.clone()),
            slot: 0,
            offset,
            length,
        };
        let mut recorder = Recorder::new(&self.source, 0, false);
        recorder.copy(&reference(source), &reference(target))?;
        let program = recorder.finish(&self.source)?;
        let done = Arc::new(HostSemaphore::new(0));
        let signal = vec![Timepoint { semaphore: done.clone(), value: 1 }];
        let payload = Payload::Job((program, Vec::new()));
        self.queue.submit(Request { wait: Vec::new(), signal, payload, reclaim: None }, Scope::current(), true);
        done.wait(1, None)
    }

    /// Calls `part` for each part of a range that fits the staging buffer, with its offset.
    fn in_parts(length: u64, mut part: impl FnMut(u64, u64) -> Result<()>) -> Result<()> {
        let mut done = 0;
        while done < length {
            let next = STAGING_CHUNK.min(length - done);
            part(done, next)?;
            done += next;
        }
        Ok(())
    }
}

/// Whether the host can access a buffer in place.
fn is_mappable(buffer: &dyn Buffer, access: MemoryAccess) -> bool {
    buffer.map_range(MappingMode::SCOPED, access, 0, 0).is_ok()
}
