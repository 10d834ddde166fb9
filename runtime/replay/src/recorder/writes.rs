//! The state of mappings that last while devices use the buffer, and of the check of writes.
//!
//! A mapping that lasts has no end to wait for. It is compared before each operation of a queue, by digests of blocks,
//! and blocks that changed are recorded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use vireo_core::status::StatusCode;
use vireo_hal::{Buffer, MappingMode, MemoryAccess, Semaphore, WatchedMapping, WrittenRange, buffer_read};

use crate::digest::fnv1a;
use crate::generated::format::FNV1A_OFFSET_BASIS;

/// Bytes of a block of a mapping that lasts.
pub(super) const BLOCK: usize = 4 << 10;

/// How long the check of writes waits for an operation.
pub(super) const PATIENCE: Duration = Duration::from_millis(100);

/// Mappings that last, and copies of buffers.
#[derive(Default)]
pub(super) struct Writes {
    pub(super) persistent: Mutex<Vec<Persistent>>,
    pub(super) shadows: Mutex<Shadows>,
}

/// A mapping that lasts.
pub(super) struct Persistent {
    pub(super) allocation: u64,
    pub(super) mapping: Weak<WatchedMapping>,
    /// Of its blocks, as they were recorded.
    pub(super) digests: Vec<u64>,
}

/// Copies of all buffers that the host can map.
#[derive(Default)]
pub(super) struct Shadows {
    pub(super) buffers: BTreeMap<u64, Shadow>,
    /// Points that operations of queues signal.
    pub(super) outstanding: Vec<(Arc<dyn Semaphore>, u64)>,
    /// Whether operations may have changed the buffers since they were copied.
    pub(super) is_stale: bool,
}

pub(super) struct Shadow {
    pub(super) buffer: Weak<dyn Buffer>,
    pub(super) bytes: Vec<u8>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shadows {
    /// Copies all buffers, if no operation is outstanding.
    pub(super) fn settle(&mut self, patience: Duration) {
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
    pub(super) fn missed(&mut self) -> Option<(u64, usize)> {
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
pub(super) fn contents(buffer: &dyn Buffer) -> Option<Vec<u8>> {
    let length = usize::try_from(buffer.byte_length()).ok()?;
    buffer.map_range(MappingMode::SCOPED | MappingMode::UNWATCHED, MemoryAccess::READ, 0, 0).ok()?;
    let mut bytes = vec![0; length];
    buffer_read(buffer, 0, &mut bytes).ok()?;
    Some(bytes)
}

/// The digests of the blocks of a mapping.
pub(super) fn digests(range: &WrittenRange<'_>) -> Vec<u64> {
    let mut bytes = [0; BLOCK];
    let length = usize::try_from(range.length()).unwrap_or(usize::MAX);
    let starts = (0..length).step_by(BLOCK);
    let digest = |start: usize| {
        let block = bytes.get_mut(..(length - start).min(BLOCK)).unwrap_or_default();
        // The block is in the range.
        let _ = range.read(start as u64, block);
        fnv1a(FNV1A_OFFSET_BASIS, block)
    };
    starts.map(digest).collect()
}
