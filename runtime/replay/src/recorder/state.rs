//! The state of a recording ([`Session`]) and its observer: when a call becomes a record, and under which lock.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vireo_core::status::{Result, Status, StatusCode};
use vireo_hal::{Buffer, Device, MemoryAccess, buffer_read, check_range};
use vireo_hal_observe::observe::{Call, Called, ObjectId, Observation, Observer, Reply};

use super::arms;
use super::encoder::Encoder;
use super::file::FilePolicy;
use super::objects::{Allocation, Objects, Recorded, object_type};
use super::stream::{CHUNK, CaptureFile, PartSource, Stream};
use super::writes::Writes;
use super::{RecorderOptions, file};
use crate::captured_file::fnv1a;
use crate::expected::LONGEST_OUTPUT;
use crate::generated::format::{
    FNV1A_OFFSET_BASIS, ObjectType, PRIVATE_PAYLOAD, PRIVATE_VERSION, PrivateKind, RecordType,
};
use crate::generated::operations::operation;
use crate::generated::payloads::{BufferRange, ExpectedRead, RecordHeader, ReplayScope};
use crate::payload_type;

/// A recording.
pub(crate) struct Session {
    pub(super) options: RecorderOptions,
    state: Mutex<State>,
    pub(super) writes: Writes,
}

/// The part of a recording under its lock. Nothing of others is dropped under it, since that may end a mapping.
pub(crate) struct State {
    pub(super) stream: Stream,
    pub(super) objects: Objects,
    /// Operations of queues that have begun and not returned.
    pending: Vec<Pending>,
}

/// The record of a call that has not returned.
struct Pending {
    call: u64,
    place: u64,
    made: u64,
}

impl Session {
    pub(super) fn new(file: Box<dyn CaptureFile>, options: RecorderOptions) -> Result<Arc<Session>> {
        let mut stream = Stream::new(file)?;
        stream.append(&RecordHeader { record_type: RecordType::SESSION.0, ..RecordHeader::default() }, &[], &[]);
        let state = State { stream, objects: Objects::new(), pending: Vec::new() };
        Ok(Arc::new(Session { options, state: Mutex::new(state), writes: Writes::default() }))
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
        let (id, allocator) = (observation.id(&observed), observation.id(&device.allocator()));
        let mut state = self.lock();
        if state.objects.find(id).is_some() {
            return Err(Status::failed_precondition(format!("{} is recorded already", device.id())));
        }
        let device = state.objects.next();
        let parts =
            [(id, 0, device, ObjectType::DEVICE), (allocator, device, state.objects.next(), ObjectType::ALLOCATOR)];
        for (id, owner, number, object_type) in parts {
            state.objects.add(id, Recorded { id: number, device });
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
        state.stream.flush_sometimes();
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
        let Allocation { device, id } = Allocation::of(number);
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

    pub(super) fn finish(self: &Arc<Self>) -> Result<()> {
        self.record_persistent();
        self.lock().stream.finish()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Session")
    }
}

/// The bytes of a range of a buffer that the host can map.
pub(crate) struct BufferBytes {
    pub(super) buffer: Arc<dyn Buffer>,
    pub(super) offset: u64,
    pub(super) length: u64,
}

impl PartSource for BufferBytes {
    fn byte_length(&self) -> u64 {
        self.length
    }

    fn append_to(&self, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        out.resize(start + file::fitting(self.length)?, 0);
        buffer_read(&*self.buffer, self.offset, out.get_mut(start..).unwrap_or_default())
    }

    fn write(&self, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut bytes = [0; CHUNK];
        let mut done = 0;
        while done < self.length {
            let left = usize::try_from(self.length - done).unwrap_or(CHUNK).min(CHUNK);
            let part = bytes.get_mut(..left).unwrap_or_default();
            buffer_read(&*self.buffer, self.offset + done, part)?;
            sink(part)?;
            done += left as u64;
        }
        Ok(())
    }
}

/// Shows a session the calls of its devices.
#[derive(Debug)]
pub(super) struct RecordingObserver(pub(super) Arc<Session>);

impl RecordingObserver {
    /// Records a call, and returns the object that it makes.
    fn record(&self, called: &Called<'_>, outcome: Option<Result<Reply<'_>, &Status>>) {
        let session = &self.0;
        let mut state = session.lock();
        if !is_recorded(called.object()) {
            return;
        }
        let recorded = Encoder::new(session, &mut state, called, outcome).and_then(|mut encoder| {
            if arms::makes(called.call()) {
                encoder.makes();
            }
            match called.call() {
                Call::DeviceQueueBarrier { queue_affinity, wait, signal, flags } => {
                    encoder.barrier(*queue_affinity, wait, signal, *flags)?;
                }
                Call::SemaphoreSignal { value } => encoder.host_signal(*value)?,
                Call::SemaphoreFail { .. } | Call::FileRead { .. } | Call::FileWrite { .. } => {
                    return Err(Status::unimplemented("the format has no record of it, and a replay would miss it"));
                }
                call => arms::record(call, &mut encoder)?,
            }
            if let Some(Ok(reply)) = outcome {
                arms::made(&reply, &mut encoder)?;
            }
            Ok((encoder.place, encoder.made))
        });
        match recorded {
            Ok((Some(place), made)) if outcome.is_none() => {
                state.pending.push(Pending { call: called.number(), place, made });
            }
            Ok(_) => {}
            Err(status) => state.stream.fail(status.context(called.name())),
        }
    }

    /// A call that was recorded before has returned.
    fn ended(&self, called: &Called<'_>, outcome: Result<Reply<'_>, &Status>) {
        let session = &self.0;
        let mut state = session.lock();
        let index = state.pending.iter().rposition(|pending| pending.call == called.number());
        let Some(index) = index else { return };
        let Pending { place, made, .. } = state.pending.swap_remove(index);
        match outcome {
            Err(status) => state.stream.set_status(place, status.code()),
            Ok(Reply::DeviceQueueAlloca(buffer)) => {
                let device = state.objects.find(called.object()).map_or(0, |device| device.id);
                if let Err(status) = session.watch(buffer, Allocation { id: made, device }) {
                    state.stream.fail(status.context(called.name()));
                }
            }
            Ok(_) => {}
        }
    }
}

/// Whether a call is recorded before the device gets it: others may see what comes of it before it returns.
fn is_seen_early(call: &Call<'_>) -> bool {
    matches!(
        call,
        Call::DeviceQueueAlloca { .. }
            | Call::DeviceQueueBarrier { .. }
            | Call::DeviceQueueCopy { .. }
            | Call::DeviceQueueDealloca { .. }
            | Call::DeviceQueueDispatch { .. }
            | Call::DeviceQueueExecute { .. }
            | Call::DeviceQueueFill { .. }
            | Call::DeviceQueueHostCall { .. }
            | Call::DeviceQueueRead { .. }
            | Call::DeviceQueueUpdate { .. }
            | Call::DeviceQueueWrite { .. }
            | Call::SemaphoreSignal { .. }
    )
}

/// Whether calls of an object are recorded. Devices call the others.
fn is_recorded(id: ObjectId) -> bool {
    !matches!(object_type(id.kind), ObjectType::NONE | ObjectType::HOST_CALL | ObjectType::CHANNEL | ObjectType::POOL)
}

/// Whether a call has no record, and asks for nothing that one needs.
fn is_unrecorded(call: &Call<'_>) -> bool {
    matches!(
        call,
        Call::DeviceAllocator
            | Call::DeviceId
            | Call::SemaphoreQuery
            | Call::SemaphoreWait { .. }
            | Call::SemaphoreNotify { .. }
            | Call::CommandBufferMode
    )
}

impl Observer for RecordingObserver {
    fn before(&self, called: &Called<'_>) -> Result<()> {
        let call = called.call();
        match call {
            Call::DeviceImportFile { external_file, .. } if self.0.options.files == FilePolicy::Fail => {
                file::check_policy(external_file)?;
            }
            Call::AllocatorImportBuffer { params, external_buffer } => file::check_import(params, external_buffer)?,
            _ => {}
        }
        if is_seen_early(call) {
            self.0.record_persistent();
            self.0.check_writes(called)?;
            self.record(called, None);
        }
        Ok(())
    }

    fn after(&self, called: &Called<'_>, outcome: Result<Reply<'_>, &Status>) {
        let call = called.call();
        if is_unrecorded(call) {
            if let Ok(Reply::DeviceAllocator(allocator)) = outcome {
                self.0.note_allocator(called, allocator);
            }
            return;
        }
        if is_seen_early(call) {
            self.ended(called, outcome);
            self.0.note_operation(called);
            return;
        }
        self.record(called, Some(outcome));
    }

    fn dropped(&self, object: ObjectId) {
        self.0.lock().objects.remove(object);
    }
}

impl Session {
    /// Gives another allocator of a device the number of the first.
    fn note_allocator(&self, called: &Called<'_>, allocator: &Arc<dyn vireo_hal::Allocator>) {
        let id = called.id(allocator);
        let mut state = self.lock();
        if state.objects.find(id).is_none()
            && let Some(device) = state.objects.find(called.object())
        {
            // The allocator of a device follows it in the capture.
            state.objects.add(id, Recorded { id: device.id + 1, device: device.id });
        }
    }

    /// Watches what the host writes to a buffer.
    pub(super) fn watch(self: &Arc<Self>, buffer: &Arc<dyn Buffer>, allocation: Allocation) -> Result<()> {
        let slot = buffer.watch_slot().ok_or_else(|| {
            Status::new(StatusCode::Unimplemented, format!("{buffer:?} cannot be watched: it has no slot for that"))
        })?;
        slot.set(self.clone(), allocation.number())?;
        self.shadow(buffer, allocation.number());
        Ok(())
    }
}
