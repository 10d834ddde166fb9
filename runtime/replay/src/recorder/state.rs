//! The state of a recording ([`Recording`]), and the records that it makes under its lock.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vireo_core::status::{Result, Status};
use vireo_hal::{Buffer, Device, MemoryAccess, check_range};
use vireo_hal_observe::observe::Observation;

use super::bytes::BufferBytes;
use super::objects::{Objects, Recorded};
use super::options::RecorderOptions;
use super::stream::{CaptureFile, PartSource, Stream};
use super::writes::Writes;
use crate::digest::fnv1a;
use crate::expected::LONGEST_OUTPUT;
use crate::generated::format::{
    FNV1A_OFFSET_BASIS, ObjectType, PRIVATE_PAYLOAD, PRIVATE_VERSION, PrivateKind, RecordType,
};
use crate::generated::operations::operation;
use crate::generated::payloads::{BufferRange, ExpectedRead, RecordHeader, ReplayScope};
use crate::payload_type;

/// A recording.
pub(crate) struct Recording {
    pub(super) options: RecorderOptions,
    state: Mutex<State>,
    pub(super) writes: Writes,
}

/// The part of a recording under its lock. Nothing of others is dropped under it, since that may end a mapping.
pub(crate) struct State {
    pub(super) stream: Stream,
    pub(super) objects: Objects,
}

impl Recording {
    pub(super) fn new(file: Box<dyn CaptureFile>, options: RecorderOptions) -> Result<Arc<Recording>> {
        let mut stream = Stream::new(file)?;
        stream.append(&RecordHeader { record_type: RecordType::SESSION.0, ..RecordHeader::default() }, &[], &[]);
        let state = State { stream, objects: Objects::default() };
        Ok(Arc::new(Recording { options, state: Mutex::new(state), writes: Writes::default() }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A record is appended as a whole, or is the first failure.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wraps a device, and records that it and its allocator are there.
    pub(super) fn add_device(
        &self,
        observation: &Arc<Observation>,
        device: &Arc<dyn Device>,
    ) -> Result<Arc<dyn Device>> {
        let observed = observation.device(device);
        let note = observation.note(&observed).ok_or_else(|| Status::internal("a device is not observed"))?;
        let mut state = self.lock();
        if note.load(Ordering::Relaxed) != 0 {
            return Err(Status::failed_precondition(format!("{} is recorded already", device.id())));
        }
        let (device, allocator) = (state.objects.next(), state.objects.next());
        let recorded = Recorded { id: device, device, object_type: ObjectType::DEVICE };
        note.store(recorded.number(), Ordering::Relaxed);
        for (owner, number, object_type) in
            [(0, device, ObjectType::DEVICE), (device, allocator, ObjectType::ALLOCATOR)]
        {
            let header = RecordHeader {
                record_type: RecordType::OBJECT.0,
                device_id: owner,
                object_id: number,
                object_type: object_type.0,
                ..RecordHeader::default()
            };
            state.stream.append(&header, &[], &[]);
        }
        Ok(observed)
    }

    /// Marks the beginning or the end of a part.
    pub(super) fn scope(&self, name: &str, begins: bool) {
        let head = ReplayScope { name_length: name.len() as u64, ..ReplayScope::default() };
        let code = if begins { operation::REPLAY_SCOPE_BEGIN } else { operation::REPLAY_SCOPE_END };
        let header = RecordHeader {
            record_type: RecordType::OPERATION.0,
            payload_type: payload_type::REPLAY_SCOPE,
            operation_code: code,
            ..RecordHeader::default()
        };
        let mut state = self.lock();
        state.stream.append(&header, &head.to_bytes(), &[&name]);
        if !begins {
            state.stream.flush_sometimes();
        }
    }

    /// Notes that the host reads a range, and the bytes that it has.
    pub(super) fn expect(&self, buffer: &Arc<dyn Buffer>, offset: u64, length: u64) {
        if let Err(status) = self.try_expect(buffer, offset, length) {
            self.lock().stream.fail(status.context("an expected output"));
        }
    }

    fn try_expect(&self, buffer: &Arc<dyn Buffer>, offset: u64, length: u64) -> Result<()> {
        let length = check_range(buffer.byte_length(), offset, length)?;
        let Some(number) = buffer.watch_slot().and_then(|slot| slot.number(self)) else { return Ok(()) };
        let bytes = BufferBytes { buffer: buffer.clone(), offset, length };
        // A buffer that cannot be read is found before the records are begun.
        let mut digest = FNV1A_OFFSET_BASIS;
        bytes.write(&mut |piece| {
            digest = fnv1a(digest, piece);
            Ok(())
        })?;
        let Some(Recorded { device, id, .. }) = Recorded::of(number) else { return Ok(()) };
        let byte_offset = buffer.byte_offset() + offset;
        let range = BufferRange {
            byte_offset,
            byte_length: length,
            memory_access: MemoryAccess::READ.bits(),
            ..BufferRange::default()
        };
        let mapping = |operation_code| RecordHeader {
            record_type: RecordType::OPERATION.0,
            payload_type: payload_type::BUFFER_RANGE,
            operation_code,
            device_id: device,
            object_id: id,
            object_type: ObjectType::BUFFER.0,
            ..RecordHeader::default()
        };
        let is_kept = length <= LONGEST_OUTPUT as u64;
        let head = ExpectedRead {
            version: PRIVATE_VERSION,
            kind: PrivateKind::EXPECTED_READ,
            buffer_id: id,
            byte_offset,
            byte_length: length,
            digest,
            data_length: if is_kept { length } else { 0 },
        };
        let header = RecordHeader {
            record_type: RecordType::SESSION.0,
            payload_type: PRIVATE_PAYLOAD,
            ..RecordHeader::default()
        };
        let parts: &[&dyn PartSource] = if is_kept { &[&bytes] } else { &[] };
        let stream = &mut self.lock().stream;
        stream.append(&mapping(operation::BUFFER_MAP_RANGE), &range.to_bytes(), &[]);
        stream.append(&header, &head.to_bytes(), parts);
        stream.append(&mapping(operation::BUFFER_UNMAP_RANGE), &range.to_bytes(), &[]);
        Ok(())
    }

    pub(super) fn flush(&self) {
        self.lock().stream.flush();
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recording")
    }
}
