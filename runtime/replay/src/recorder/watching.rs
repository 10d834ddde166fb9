//! The writes of the host through mappings, as records: a [`Recording`] is the watcher of all buffers of its devices.
//! And the check that finds writes that are not seen.

use std::sync::Arc;

use vireo_core::status::{Result, Status, StatusCode};
use vireo_hal::{Buffer, MappingWatcher, MemoryAccess, WatchedMapping, WrittenRange};
use vireo_hal_observe::observe::Called;

use super::arms;
use super::bytes::MappedBytes;
use super::objects::Recorded;
use super::state::Recording;
use super::writes::{BLOCK, PATIENCE, Persistent, Shadow, contents, digests, lock};
use crate::generated::format::{ObjectType, RecordType};
use crate::generated::operations::operation;
use crate::generated::payloads::{BufferRangeData, RecordHeader};
use crate::payload_type;

impl MappingWatcher for Recording {
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

impl Recording {
    /// Watches what the host writes to a buffer.
    pub(super) fn watch(self: &Arc<Self>, buffer: &Arc<dyn Buffer>, allocation: Recorded) -> Result<()> {
        let slot = buffer.watch_slot().ok_or_else(|| {
            Status::new(StatusCode::Unimplemented, format!("{buffer:?} cannot be watched: it has no slot for that"))
        })?;
        slot.set(self.clone(), allocation.number())?;
        self.shadow(buffer, allocation.number());
        Ok(())
    }

    fn record_write(&self, code: u32, allocation: u64, bytes: &MappedBytes<'_>) {
        let head = BufferRangeData {
            byte_offset: bytes.range.offset() + bytes.start,
            byte_length: bytes.length,
            data_length: bytes.length,
            mapping_mode: 0,
            memory_access: MemoryAccess::DISCARD_WRITE.bits(),
            ..BufferRangeData::default()
        };
        let Some(allocation) = Recorded::of(allocation) else { return };
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
                let id = Recorded::of(number).map_or(0, |allocation| allocation.id);
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
        for point in arms::signal(called.call()).unwrap_or_default() {
            shadows.outstanding.push((called.unwrapped(&point.semaphore), point.value));
        }
        shadows.is_stale = true;
        shadows.settle(PATIENCE);
    }

    /// Ends the capture, with what is in mappings that last.
    pub(super) fn finish(self: &Arc<Self>) -> Result<()> {
        self.record_persistent();
        self.lock().stream.finish()
    }
}
