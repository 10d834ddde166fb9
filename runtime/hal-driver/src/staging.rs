//! Transfers between files and buffers ([`Staging`]): in place where the host reaches the memory, else through memory
//! of the host that the queue copies from or to. They run on threads of the host. While the queue copies one chunk, the
//! thread reads or writes the next one.
//!
//! Transfers of a device have a few slots for that memory ([`StagingSlots`]), and wait for one: a program that loads
//! all its parameters at once takes no more. The holder of a slot waits for nothing but copies that were submitted, so
//! the slots always become free.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::hal::{Buffer, File, HostSemaphore, MappingMode, MemoryAccess, MemoryType, Semaphore, Timepoint};
use crate::limits::scope;
use crate::status::Result;

/// Bytes that are staged at a time. Two such chunks are under way in each transfer.
const CHUNK: u64 = 4 << 20;

/// Transfers of a device that are staged at a time.
const SLOTS: usize = 4;

/// The slots of a device.
#[derive(Debug, Default)]
pub struct StagingSlots {
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

/// A place in a buffer.
pub type Place<'a> = (&'a Arc<dyn Buffer>, u64);

/// A queue that copies.
pub trait StagingQueue: Send {
    /// Memory that both the host and the queue reach.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if there is none.
    fn memory(&self, length: u64) -> Result<Arc<dyn Buffer>>;

    /// Submits a copy, which signals a point when it is done. The queue holds both buffers until then.
    ///
    /// # Errors
    /// Those of ranges and usage. Other failures go to the point.
    fn copy(&self, source: Place<'_>, target: Place<'_>, length: u64, signal: Timepoint) -> Result<()>;
}

/// Transfers by a queue.
pub struct Staging<Q> {
    /// The queue.
    pub queue: Q,
    /// The slots of its device.
    pub slots: Arc<StagingSlots>,
}

/// A chunk of a transfer.
#[derive(Clone, Copy)]
struct Chunk {
    /// Bytes from the beginning of the transfer.
    offset: u64,
    length: u64,
}

/// The chunks of so many bytes.
fn chunks(length: u64) -> impl Iterator<Item = Chunk> {
    (0..length.div_ceil(CHUNK)).map(move |index| {
        let offset = index * CHUNK;
        Chunk { offset, length: CHUNK.min(length - offset) }
    })
}

/// Chunks whose memory is in use at a time.
const IN_FLIGHT: u64 = 2;

/// Memory that chunks use in turn.
struct Memory {
    buffer: Arc<dyn Buffer>,
    /// Counts the copies of its chunks. Those of different memory may end in any order.
    done: Arc<HostSemaphore>,
}

/// The copies of a transfer, which are numbered from 0.
struct Copies<'a, Q: StagingQueue> {
    queue: &'a Q,
    memory: Vec<Memory>,
    /// How many were submitted.
    submitted: u64,
}

impl<'a, Q: StagingQueue> Copies<'a, Q> {
    fn new(queue: &'a Q, length: u64) -> Result<Self> {
        let memory = |_| {
            let buffer = queue.memory(length.min(CHUNK))?;
            Ok(Memory { buffer, done: Arc::new(HostSemaphore::new(0)) })
        };
        let memory = (0..length.div_ceil(CHUNK).min(IN_FLIGHT)).map(memory).collect::<Result<_>>()?;
        Ok(Copies { queue, memory, submitted: 0 })
    }

    /// The memory of a chunk, and what its timeline is at once its copy is done.
    fn of(&self, index: u64) -> (&Memory, u64) {
        (&self.memory[(index % IN_FLIGHT) as usize], index / IN_FLIGHT + 1)
    }

    fn buffer(&self, index: u64) -> &Arc<dyn Buffer> {
        &self.of(index).0.buffer
    }

    /// Submits the next copy, between the memory of its chunk and a buffer.
    fn submit(&mut self, copy: impl FnOnce(&Q, &Arc<dyn Buffer>, Timepoint) -> Result<()>) -> Result<()> {
        let (memory, value) = self.of(self.submitted);
        copy(self.queue, &memory.buffer, Timepoint { semaphore: memory.done.clone(), value })?;
        self.submitted += 1;
        Ok(())
    }

    /// Waits until a copy is done.
    fn wait(&self, index: u64) -> Result<()> {
        let (memory, value) = self.of(index);
        memory.done.wait(value, None)
    }

    /// Waits until all are.
    fn wait_for_all(&self) -> Result<()> {
        (self.submitted.saturating_sub(IN_FLIGHT)..self.submitted).try_for_each(|index| self.wait(index))
    }
}

/// Copies under way end before the transfer does, also if that fails: its caller does not expect the memory to be
/// written or read afterwards.
impl<Q: StagingQueue> Drop for Copies<'_, Q> {
    fn drop(&mut self) {
        let _ = self.wait_for_all();
    }
}

impl<Q: StagingQueue> Staging<Q> {
    /// Reads from a file into a buffer.
    ///
    /// # Errors
    /// Those of the file, of the queue, and of the call's limits.
    pub fn read(&self, (file, offset): (&Arc<dyn File>, u64), (buffer, start): Place<'_>, length: u64) -> Result<()> {
        if is_mappable(&**buffer, MemoryAccess::WRITE) {
            return file.read(offset, buffer, start, length);
        }
        let _slot = self.slots.take()?;
        let mut copies = Copies::new(&self.queue, length)?;
        for (index, chunk) in (0_u64..).zip(chunks(length)) {
            scope::check()?;
            // The chunk that had this memory is copied.
            if let Some(before) = index.checked_sub(IN_FLIGHT) {
                copies.wait(before)?;
            }
            file.read(offset.saturating_add(chunk.offset), copies.buffer(index), 0, chunk.length)?;
            let target = start.saturating_add(chunk.offset);
            copies.submit(|queue, memory, signal| queue.copy((memory, 0), (buffer, target), chunk.length, signal))?;
        }
        copies.wait_for_all()
    }

    /// Writes from a buffer to a file.
    ///
    /// # Errors
    /// Those of the file, of the queue, and of the call's limits.
    pub fn write(&self, (buffer, start): Place<'_>, (file, offset): (&Arc<dyn File>, u64), length: u64) -> Result<()> {
        if is_mappable(&**buffer, MemoryAccess::READ) {
            return file.write(offset, buffer, start, length);
        }
        let _slot = self.slots.take()?;
        let mut copies = Copies::new(&self.queue, length)?;
        let mut next = chunks(length);
        for (index, chunk) in (0_u64..).zip(chunks(length)) {
            scope::check()?;
            // The next copy runs while this chunk is written. Its memory was written before.
            for ahead in next.by_ref().take(if index == 0 { IN_FLIGHT as usize } else { 1 }) {
                let source = start.saturating_add(ahead.offset);
                copies
                    .submit(|queue, memory, signal| queue.copy((buffer, source), (memory, 0), ahead.length, signal))?;
            }
            copies.wait(index)?;
            file.write(offset.saturating_add(chunk.offset), copies.buffer(index), 0, chunk.length)?;
        }
        Ok(())
    }
}

/// Whether the host can access a buffer in place. Other memory it may read by a copy, which the queue makes better.
fn is_mappable(buffer: &dyn Buffer, access: MemoryAccess) -> bool {
    buffer.memory_type().contains(MemoryType::HOST_VISIBLE)
        && buffer.map_range(MappingMode::SCOPED, access, 0, 0).is_ok()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;

    use super::*;
    use crate::hal::allocation_state::{AllocationState, state_methods};
    use crate::hal::{
        Allocator as _, BufferParams, BufferUsage, HeapAllocator, Mapping, WHOLE_BUFFER, buffer_copy, buffer_fill,
        buffer_to_vec,
    };
    use crate::status::Status;

    /// A copy that was submitted, with the buffers it is between.
    type Job = (Arc<dyn Buffer>, u64, Arc<dyn Buffer>, u64, u64, Timepoint);

    /// A queue whose copies another thread makes.
    struct OtherThread(Sender<Job>);

    impl StagingQueue for OtherThread {
        fn memory(&self, length: u64) -> Result<Arc<dyn Buffer>> {
            allocate(length)
        }

        fn copy(&self, source: Place<'_>, target: Place<'_>, length: u64, signal: Timepoint) -> Result<()> {
            let job = (source.0.clone(), source.1, target.0.clone(), target.1, length, signal);
            self.0.send(job).map_err(|_| Status::internal("the queue is gone"))
        }
    }

    fn allocate(length: u64) -> Result<Arc<dyn Buffer>> {
        HeapAllocator::default().allocate_buffer(BufferParams::default(), length)
    }

    /// Memory of a device, which the host may not map.
    #[derive(Debug)]
    struct DeviceMemory {
        state: AllocationState,
        memory: Arc<dyn Buffer>,
    }

    impl Buffer for DeviceMemory {
        state_methods!();

        fn allocation_size(&self) -> u64 {
            self.state.length
        }

        fn map_range(&self, _: MappingMode, _: MemoryAccess, _: u64, _: u64) -> Result<Mapping> {
            Err(Status::permission_denied("memory of a device"))
        }

        fn invalidate_range(&self, _: u64, _: u64) -> Result<()> {
            Ok(())
        }

        fn flush_range(&self, _: u64, _: u64) -> Result<()> {
            Ok(())
        }
    }

    /// The memory of a buffer that the queue of a device reaches.
    fn reached(buffer: &Arc<dyn Buffer>) -> Arc<dyn Buffer> {
        let any: &dyn std::any::Any = &**buffer;
        any.downcast_ref::<DeviceMemory>().map_or_else(|| buffer.clone(), |device| device.memory.clone())
    }

    /// A file in memory.
    #[derive(Debug)]
    struct MemoryFile(Arc<dyn Buffer>);

    impl File for MemoryFile {
        fn allowed_access(&self) -> MemoryAccess {
            MemoryAccess::ALL
        }

        fn length(&self) -> u64 {
            self.0.byte_length()
        }

        fn async_handle(&self) -> Result<i32> {
            Ok(-1)
        }

        fn supports_synchronous_io(&self) -> bool {
            true
        }

        fn read(&self, offset: u64, buffer: &Arc<dyn Buffer>, start: u64, length: u64) -> Result<()> {
            buffer_copy(&*self.0, offset, &**buffer, start, length)
        }

        fn write(&self, offset: u64, buffer: &Arc<dyn Buffer>, start: u64, length: u64) -> Result<()> {
            buffer_copy(&**buffer, start, &*self.0, offset, length)
        }
    }

    /// Makes the copies of a transfer, the second of those that are under way at a time before the first.
    fn copy_backwards(jobs: &Receiver<Job>, mut left: u64) {
        while left > 0 {
            // Nothing is copied before all of them are there, so one that comes only after others are done never comes.
            let pair: Vec<Job> = (0..left.min(IN_FLIGHT))
                .map(|_| jobs.recv_timeout(Duration::from_secs(60)).expect("the next chunk is under way"))
                .collect();
            left -= pair.len() as u64;
            for (source, from, target, to, length, signal) in pair.into_iter().rev() {
                let outcome = buffer_copy(&*reached(&source), from, &*reached(&target), to, length);
                crate::hal::timepoints::signal_all(&[signal], outcome);
            }
        }
    }

    #[test]
    fn two_chunks_are_under_way_and_each_arrives_at_its_place() {
        for length in [1, CHUNK, CHUNK + 1, 3 * CHUNK - 5, 4 * CHUNK] {
            let memory = allocate(length).expect("there is memory");
            for (index, chunk) in (1_u8..).zip(chunks(length)) {
                buffer_fill(&*memory, chunk.offset, chunk.length, &[index]).expect("it is memory of the host");
            }
            let expected = buffer_to_vec(&*memory, length).expect("reads");
            let file: Arc<dyn File> = Arc::new(MemoryFile(memory.clone()));
            let state =
                AllocationState::new(length, MemoryType::DEVICE_LOCAL, MemoryAccess::ALL, BufferUsage::TRANSFER);
            let device: Arc<dyn Buffer> =
                Arc::new(DeviceMemory { state, memory: allocate(length).expect("there is memory") });
            let (sender, jobs) = channel();
            let count = length.div_ceil(CHUNK);
            let copier = thread::spawn(move || {
                copy_backwards(&jobs, count);
                copy_backwards(&jobs, count);
            });
            let staging = Staging { queue: OtherThread(sender), slots: Arc::default() };
            staging.read((&file, 0), (&device, 0), length).expect("reads");
            buffer_fill(&*memory, 0, WHOLE_BUFFER, &[0]).expect("it is memory of the host");
            staging.write((&device, 0), (&file, 0), length).expect("writes");
            drop(staging);
            copier.join().expect("it copies");
            assert!(buffer_to_vec(&*memory, length).expect("reads") == expected, "{length}");
        }
    }
}
