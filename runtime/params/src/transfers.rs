//! Transfers between parameters and buffers on the queues of a device, for the providers.
//!
//! Each transfer is ordered by one of a few timelines, its lane, so that a device may run several at a time. All start
//! after the points that the caller waits for. Nothing here blocks.

use std::sync::Arc;

use super::index::Splat;
use crate::hal::{
    AllocaFlags, Buffer, BufferParams, CopyFlags, Device, ExecuteFlags, File, FillFlags, QueueAffinity, ReadFlags,
    Semaphore, SemaphoreFlags, Timepoint, UpdateFlags, WriteFlags,
};
use crate::status::Result;

/// Most transfers at a time.
const MAX_LANES: usize = 8;

/// Most bytes of a repeated pattern that are expanded on the host, if a queue cannot fill with it.
const REPEATED: usize = 4096;

/// Transfers of one call.
pub(super) struct Transfers<'a> {
    device: &'a Arc<dyn Device>,
    queue_affinity: QueueAffinity,
    wait: &'a [Timepoint],
    lanes: Vec<Lane>,
}

/// A timeline of transfers.
struct Lane {
    semaphore: Arc<dyn Semaphore>,
    /// The point that its last operation signals.
    value: u64,
    /// Bytes that its operations transfer.
    bytes: u64,
}

impl Lane {
    fn at(&self, value: u64) -> Timepoint {
        Timepoint { semaphore: self.semaphore.clone(), value }
    }
}

impl<'a> Transfers<'a> {
    /// Runs `schedule` with transfers that start after `wait`. `signal` is reached when all of them have completed, and
    /// failed if scheduling fails.
    pub(super) fn run<R>(
        device: &'a Arc<dyn Device>,
        queue_affinity: QueueAffinity,
        wait: &'a [Timepoint],
        signal: &[Timepoint],
        schedule: impl FnOnce(&mut Transfers<'a>) -> Result<R>,
    ) -> Result<R> {
        let mut transfers = Transfers { device, queue_affinity, wait, lanes: Vec::new() };
        let result = schedule(&mut transfers).and_then(|result| {
            let ends: Vec<Timepoint> = transfers.lanes.iter().map(|lane| lane.at(lane.value)).collect();
            let wait = if ends.is_empty() { wait } else { &ends };
            device.queue_barrier(queue_affinity, wait, signal, ExecuteFlags::default())?;
            Ok(result)
        });
        if let Err(status) = &result {
            for point in signal {
                point.semaphore.fail(status.clone());
            }
        }
        result
    }

    /// Chooses the lane for a transfer of `bytes`: a new one up to the limit, then the one with the fewest bytes.
    pub(super) fn lane(&mut self, bytes: u64) -> Result<usize> {
        let lane = if self.lanes.len() < MAX_LANES {
            let semaphore = self.device.create_semaphore(self.queue_affinity, 0, SemaphoreFlags::default())?;
            self.lanes.push(Lane { semaphore, value: 0, bytes: 0 });
            self.lanes.len() - 1
        } else {
            let least = self.lanes.iter().enumerate().min_by_key(|(_, lane)| lane.bytes);
            least.map_or(0, |(lane, _)| lane)
        };
        self.lanes[lane].bytes = self.lanes[lane].bytes.saturating_add(bytes);
        Ok(lane)
    }

    /// Submits an operation on a lane, with the points to wait for and those to signal.
    fn step<R>(&mut self, lane: usize, submit: impl FnOnce(&[Timepoint], &[Timepoint]) -> Result<R>) -> Result<R> {
        let lane = &mut self.lanes[lane];
        let before = [lane.at(lane.value)];
        let wait = if lane.value == 0 { self.wait } else { &before };
        let result = submit(wait, &[lane.at(lane.value + 1)])?;
        lane.value += 1;
        Ok(result)
    }

    /// Schedules the allocation of a buffer.
    pub(super) fn allocate(&mut self, lane: usize, params: BufferParams, length: u64) -> Result<Arc<dyn Buffer>> {
        let (device, affinity) = (self.device, self.queue_affinity);
        self.step(lane, |wait, signal| {
            device.queue_alloca(affinity, wait, signal, None, params, length, AllocaFlags::default())
        })
    }

    /// Schedules a read from a file.
    pub(super) fn read(
        &mut self,
        lane: usize,
        (file, file_offset): (&Arc<dyn File>, u64),
        (buffer, buffer_offset): (&Arc<dyn Buffer>, u64),
        length: u64,
    ) -> Result<()> {
        let (device, affinity, flags) = (self.device, self.queue_affinity, ReadFlags::default());
        self.step(lane, |wait, signal| {
            device.queue_read(affinity, wait, signal, file, file_offset, buffer, buffer_offset, length, flags)
        })
    }

    /// Schedules a write to a file.
    pub(super) fn write(
        &mut self,
        lane: usize,
        (buffer, buffer_offset): (&Arc<dyn Buffer>, u64),
        (file, file_offset): (&Arc<dyn File>, u64),
        length: u64,
    ) -> Result<()> {
        let (device, affinity, flags) = (self.device, self.queue_affinity, WriteFlags::default());
        self.step(lane, |wait, signal| {
            device.queue_write(affinity, wait, signal, buffer, buffer_offset, file, file_offset, length, flags)
        })
    }

    /// Schedules the fill of a range with a repeated pattern.
    pub(super) fn fill(
        &mut self,
        lane: usize,
        splat: Splat,
        (buffer, offset): (&Arc<dyn Buffer>, u64),
        length: u64,
    ) -> Result<()> {
        let (device, affinity) = (self.device, self.queue_affinity);
        let pattern = splat.pattern();
        let step = pattern.len() as u64;
        if pattern.len() < Splat::MAX_LENGTH && offset.is_multiple_of(step) && length.is_multiple_of(step) {
            return self.step(lane, |wait, signal| {
                device.queue_fill(affinity, wait, signal, buffer, offset, length, pattern, FillFlags::default())
            });
        }
        // Queues fill only with whole patterns of up to eight bytes. Otherwise the pattern is written to the start, and
        // the filled part is copied after itself, doubling each time: it is a whole number of patterns.
        let mut done = length.min(REPEATED as u64);
        let start: Vec<u8> = pattern.iter().copied().cycle().take(done as usize).collect();
        self.step(lane, |wait, signal| {
            device.queue_update(affinity, wait, signal, &start, buffer, offset, UpdateFlags::default())
        })?;
        while done < length {
            let (target, part) = (offset.saturating_add(done), done.min(length - done));
            self.step(lane, |wait, signal| {
                let flags = CopyFlags::default();
                device.queue_copy(affinity, wait, signal, buffer, offset, buffer, target, part, flags)
            })?;
            done += part;
        }
        Ok(())
    }
}
