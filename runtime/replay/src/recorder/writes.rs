//! The writes of the host through mappings, as records ([`Session`] is the watcher of all buffers of its devices); and
//! the check that finds writes that are not seen.
//!
//! A mapping that lasts while devices use the buffer has no end to wait for. It is compared before each operation of a
//! queue, by digests of blocks, and blocks that changed are recorded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use vireo_core::status::{Result, Status, StatusCode};
use vireo_hal::{
    Buffer, MappingMode, MappingWatcher, MemoryAccess, Semaphore, WatchedMapping, WrittenRange, buffer_read,
};
use vireo_hal_observe::observe::{Call, Called};

use super::objects::Allocation;
use super::state::Session;
use super::stream::{CHUNK, PartSource};
use crate::generated::format::{FNV1A_OFFSET_BASIS, FNV1A_PRIME, ObjectType, RecordType};
use crate::generated::operations::operation;
use crate::generated::payloads::{BufferRangeData, RecordHeader};
use crate::payload_type;

/// Bytes of a block of a mapping that lasts.
const BLOCK: usize = 4 << 10;

/// How long the check of writes waits for an operation.
const PATIENCE: Duration = Duration::from_millis(100);

/// Mappings that last, and copies of buffers.
#[derive(Default)]
pub(super) struct Writes {
    persistent: Mutex<Vec<Persistent>>,
    shadows: Mutex<Shadows>,
}

/// A mapping that lasts.
struct Persistent {
    allocation: u64,
    mapping: Weak<WatchedMapping>,
    /// Of its blocks, as they were recorded.
    digests: Vec<u64>,
}

/// Copies of all buffers that the host can map.
#[derive(Default)]
struct Shadows {
    buffers: BTreeMap<u64, Shadow>,
    /// Points that operations of queues signal.
    outstanding: Vec<(Arc<dyn Semaphore>, u64)>,
    /// Whether operations may have changed the buffers since they were copied.
    is_stale: bool,
}

struct Shadow {
    buffer: Weak<dyn Buffer>,
    bytes: Vec<u8>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A part of a mapping.
struct MappedBytes<'a> {
    range: WrittenRange<'a>,
    start: u64,
    length: u64,
}

impl PartSource for MappedBytes<'_> {
    fn byte_length(&self) -> u64 {
        self.length
    }

    fn append_to(&self, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        out.resize(start + super::file::fitting(self.length)?, 0);
        self.range.read(self.start, out.get_mut(start..).unwrap_or_default())
    }

    fn write(&self, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut bytes = [0; CHUNK];
        let mut done = 0;
        while done < self.length {
            let length = usize::try_from(self.length - done).unwrap_or(CHUNK).min(CHUNK);
            let piece = bytes.get_mut(..length).unwrap_or_default();
            self.range.read(self.start + done, piece)?;
            sink(piece)?;
            done += length as u64;
        }
        Ok(())
    }
}

impl MappingWatcher for Session {
    fn written(&self, allocation: u64, range: &WrittenRange<'_>) {
        // A mapping that lasted and was flushed has recorded the rest.
        let bytes = MappedBytes { range: *range, start: 0, length: range.length() };
        self.record_write(operation::BUFFER_UNMAP_RANGE, allocation, &bytes);
        self.shade(allocation, range);
    }

    fn mapped(&self, allocation: u64, mapping: &Arc<WatchedMapping>) {
        let digests = digests(&mapping.range());
        lock(&self.writes.persistent).push(Persistent { allocation, mapping: mapping.downgrade(), digests });
    }
}

impl Session {
    fn record_write(&self, code: u32, allocation: u64, bytes: &MappedBytes<'_>) {
        let head = BufferRangeData {
            byte_offset: bytes.range.offset() + bytes.start,
            byte_length: bytes.length,
            data_length: bytes.length,
            mapping_mode: 0,
            memory_access: MemoryAccess::DISCARD_WRITE.bits(),
            ..BufferRangeData::default()
        };
        let allocation = Allocation::of(allocation);
        let header = RecordHeader {
            record_type: RecordType::OPERATION.0,
            payload_type: payload_type::BUFFER_RANGE_DATA,
            operation_code: code,
            device_id: allocation.device,
            object_id: allocation.id,
            object_type: ObjectType::BUFFER.0,
            ..RecordHeader::default()
        };
        self.lock().stream.append(&header, &head.to_bytes(), &[bytes]);
    }

    /// Records what the host wrote through mappings that last.
    pub(super) fn record_persistent(&self) {
        let mut persistent = lock(&self.writes.persistent);
        if persistent.is_empty() {
            return;
        }
        // The last reference to a mapping must not go under the lock, since its end is recorded.
        let mut seen = Vec::new();
        persistent.retain_mut(|one| {
            let Some(mapping) = one.mapping.upgrade() else { return false };
            let now = digests(&mapping.range());
            for (index, (before, now)) in one.digests.iter_mut().zip(now).enumerate() {
                if *before != now {
                    *before = now;
                    let start = (index * BLOCK) as u64;
                    let length = (mapping.range().length() - start).min(BLOCK as u64);
                    let bytes = MappedBytes { range: mapping.range(), start, length };
                    self.record_write(operation::BUFFER_FLUSH_RANGE, one.allocation, &bytes);
                }
            }
            self.shade(one.allocation, &mapping.range());
            seen.push(mapping);
            true
        });
        drop(persistent);
        drop(seen);
    }

    /// Copies a new buffer, for the check of writes.
    pub(super) fn shadow(&self, buffer: &Arc<dyn Buffer>, number: u64) {
        if self.options.check_writes {
            let bytes = contents(&**buffer).unwrap_or_default();
            let shadow = Shadow { buffer: Arc::downgrade(buffer), bytes };
            lock(&self.writes.shadows).buffers.insert(number, shadow);
        }
    }

    /// Copies what was written to the shadow of a buffer.
    fn shade(&self, allocation: u64, range: &WrittenRange<'_>) {
        if !self.options.check_writes {
            return;
        }
        let mut shadows = lock(&self.writes.shadows);
        let Some(shadow) = shadows.buffers.get_mut(&allocation) else { return };
        let start = usize::try_from(range.offset()).unwrap_or(usize::MAX);
        let length = usize::try_from(range.length()).unwrap_or(usize::MAX);
        let end = start.saturating_add(length);
        if let Some(bytes) = shadow.bytes.get_mut(start..end) {
            // The range is that of a mapping, which has its bytes.
            let _ = range.read(0, bytes);
        }
    }

    /// Finds writes that were not recorded, if that is asked for.
    pub(super) fn check_writes(&self, called: &Called<'_>) -> Result<()> {
        if !self.options.check_writes {
            return Ok(());
        }
        let missed = lock(&self.writes.shadows).missed();
        match missed {
            None => Ok(()),
            Some((number, offset)) => {
                let id = Allocation::of(number).id;
                let message = format!("the host wrote to byte {offset} of buffer {id}, and no mapping told of it");
                let status = Status::new(StatusCode::DataLoss, message).context(called.name());
                self.lock().stream.fail(status.clone());
                Err(status)
            }
        }
    }

    /// Notes an operation of a queue that was submitted, after which buffers may have other contents.
    pub(super) fn note_operation(&self, called: &Called<'_>) {
        if !self.options.check_writes {
            return;
        }
        let mut shadows = lock(&self.writes.shadows);
        for point in signal_of(called.call()) {
            shadows.outstanding.push((called.unwrapped(&point.semaphore), point.value));
        }
        shadows.is_stale = true;
        shadows.settle(PATIENCE);
    }
}

impl Shadows {
    /// Copies all buffers, if no operation is outstanding.
    fn settle(&mut self, patience: Duration) {
        let deadline = Instant::now() + patience;
        self.outstanding.retain(|(semaphore, value)| {
            semaphore.wait(*value, Some(deadline)).is_err_and(|status| status.code() == StatusCode::DeadlineExceeded)
        });
        if self.is_stale && self.outstanding.is_empty() {
            self.buffers.retain(|_, shadow| {
                let Some(buffer) = shadow.buffer.upgrade() else { return false };
                shadow.bytes = contents(&*buffer).unwrap_or_default();
                true
            });
            self.is_stale = false;
        }
    }

    /// A buffer and a byte that the host wrote without a mapping.
    fn missed(&mut self) -> Option<(u64, usize)> {
        if self.is_stale {
            // Nothing can be said while operations run, and not of what happened meanwhile.
            self.settle(Duration::ZERO);
            return None;
        }
        self.buffers.iter().find_map(|(id, shadow)| {
            let now = contents(&*shadow.buffer.upgrade()?)?;
            let offset = now.iter().zip(&shadow.bytes).position(|(now, before)| now != before)?;
            Some((*id, offset))
        })
    }
}

/// The bytes of a buffer that the host can map.
fn contents(buffer: &dyn Buffer) -> Option<Vec<u8>> {
    let length = usize::try_from(buffer.byte_length()).ok()?;
    buffer.map_range(MappingMode::SCOPED | MappingMode::UNWATCHED, MemoryAccess::READ, 0, 0).ok()?;
    let mut bytes = vec![0; length];
    buffer_read(buffer, 0, &mut bytes).ok()?;
    Some(bytes)
}

/// The digests of the blocks of a mapping.
fn digests(range: &WrittenRange<'_>) -> Vec<u64> {
    let mut bytes = [0; BLOCK];
    let length = usize::try_from(range.length()).unwrap_or(usize::MAX);
    let starts = (0..length).step_by(BLOCK);
    let digest = |start: usize| {
        let block = bytes.get_mut(..(length - start).min(BLOCK)).unwrap_or_default();
        // The block is in the range.
        let _ = range.read(start as u64, block);
        block.iter().fold(FNV1A_OFFSET_BASIS, |digest, byte| (digest ^ u64::from(*byte)).wrapping_mul(FNV1A_PRIME))
    };
    starts.map(digest).collect()
}

/// The points that an operation signals.
fn signal_of<'a>(call: &Call<'a>) -> &'a [vireo_hal::Timepoint] {
    match *call {
        Call::DeviceQueueAlloca { signal, .. }
        | Call::DeviceQueueBarrier { signal, .. }
        | Call::DeviceQueueCopy { signal, .. }
        | Call::DeviceQueueDealloca { signal, .. }
        | Call::DeviceQueueDispatch { signal, .. }
        | Call::DeviceQueueExecute { signal, .. }
        | Call::DeviceQueueFill { signal, .. }
        | Call::DeviceQueueHostCall { signal, .. }
        | Call::DeviceQueueRead { signal, .. }
        | Call::DeviceQueueUpdate { signal, .. }
        | Call::DeviceQueueWrite { signal, .. } => signal,
        _ => &[],
    }
}
