//! The encoder of one call ([`Encoder`]): the numbers of its objects, and its record. The arms that are generated from
//! `spec/replay` call it.

use std::sync::Arc;

use vireo_core::status::{Result, Status, StatusCode};
use vireo_hal::{self as hal, Buffer, Semaphore, SemaphoreFlags, WHOLE_BUFFER};
use vireo_hal_observe::observe::{Called, Known, ObjectId, Reply};

use super::objects::{Objects, Recorded};
use super::state::{Recording, State};
use super::stream::{PartSource, Parts};
use crate::generated::format::{ObjectType, RecordType};
use crate::generated::operations::operation;
use crate::generated::payloads::{self, RecordHeader};
use crate::payload_type;

/// A value that becomes an element of a part, or a layout in a payload.
pub(crate) trait ToPart<P> {
    /// The element.
    fn to_part(&self, encoder: &mut Encoder<'_>) -> Result<P>;
}

/// A call that is being recorded.
pub(crate) struct Encoder<'a> {
    pub(super) recording: &'a Arc<Recording>,
    pub(super) state: &'a mut State,
    pub(super) called: &'a Called<'a>,
    /// None before the call returns.
    pub(super) outcome: Option<Result<Reply<'a>, &'a Status>>,
    /// The object that is called.
    object: Recorded,
    /// The object that the call makes.
    pub(super) made: u64,
    /// The place of its record.
    pub(super) place: Option<u64>,
}

impl<'a> Encoder<'a> {
    /// An encoder of a call of an object that was recorded.
    pub(super) fn new(
        recording: &'a Arc<Recording>,
        state: &'a mut State,
        called: &'a Called<'a>,
        object: Recorded,
        outcome: Option<Result<Reply<'a>, &'a Status>>,
    ) -> Encoder<'a> {
        Encoder { recording, state, called, outcome, object, made: 0, place: None }
    }

    /// The number of the object that is called.
    pub(super) fn object_id(&self) -> u64 {
        self.object.id
    }

    /// That of its device.
    pub(super) fn device(&self) -> u64 {
        self.object.device
    }

    /// Records the call as one of the device.
    pub(super) fn calls_device(&mut self) {
        (self.object.id, self.object.object_type) = (self.object.device, ObjectType::DEVICE);
    }

    /// The call makes an object: it gets the next number, also if the call fails.
    pub(super) fn makes(&mut self) {
        self.made = self.state.objects.next();
    }

    fn header(&self, record: RecordType, code: u32, payload: u32) -> RecordHeader {
        let status = match &self.outcome {
            Some(Err(status)) => u32::from(status.code() as u8),
            _ => 0,
        };
        RecordHeader {
            record_type: record.0,
            payload_type: payload,
            operation_code: code,
            device_id: self.object.device,
            object_id: self.object.id,
            related_object_id: self.made,
            object_type: self.object.object_type.0,
            status_code: status,
            ..RecordHeader::default()
        }
    }

    /// Appends the record of an operation.
    pub(crate) fn append(&mut self, code: u32, payload: u32, head: &[u8], parts: &[&dyn PartSource]) -> Result<()> {
        let header = self.header(RecordType::OPERATION, code, payload);
        self.place = Some(self.state.stream.append(&header, head, parts));
        if payload == payload_type::FILE_OBJECT && header.status_code == 0 {
            // Tools count the files that a capture needs by their objects; no other object says what its call does not.
            let object = RecordHeader {
                record_type: RecordType::OBJECT.0,
                payload_type: payload,
                device_id: self.object.device,
                object_id: self.made,
                object_type: ObjectType::FILE.0,
                ..RecordHeader::default()
            };
            self.state.stream.append(&object, head, parts);
        }
        Ok(())
    }

    /// Appends the record of an operation of which the format has no arguments.
    pub(crate) fn append_bare(&mut self, code: u32) -> Result<()> {
        self.append(code, 0, &[], &[])
    }

    /// Appends the record of a call that cannot be replayed.
    pub(crate) fn append_unsupported(&mut self, code: u32) -> Result<()> {
        // These only ask, so a replay does not miss them.
        const QUESTIONS: [u32; 4] = [
            operation::DEVICE_REFINE_TOPOLOGY_EDGE,
            operation::ALLOCATOR_VIRTUAL_MEMORY_QUERY_GRANULARITY,
            operation::EXECUTABLE_CACHE_INFER_FORMAT,
            operation::EXECUTABLE_CACHE_CAN_PREPARE_FORMAT,
        ];
        if !QUESTIONS.contains(&code) {
            let header = self.header(RecordType::UNSUPPORTED, code, 0);
            self.place = Some(self.state.stream.append(&header, &[], &[]));
        }
        Ok(())
    }

    /// The number of an object.
    pub(crate) fn id<T: Known + ?Sized>(&mut self, object: &Arc<T>) -> Result<u64> {
        let found = self.state.objects.find(self.called, object);
        found.map(|recorded| recorded.id).ok_or_else(|| unknown(self.called.id(object)))
    }

    /// The number of a timeline. One that the device did not make is recorded where it occurs first.
    pub(crate) fn semaphore(&mut self, semaphore: &Arc<dyn Semaphore>) -> Result<u64> {
        if let Some(recorded) = self.state.objects.find(self.called, semaphore) {
            return Ok(recorded.id);
        }
        // Calls of the object itself are not observed. A timeline that failed has no value.
        let initial_value = self.called.unwrapped(semaphore).query().unwrap_or(0);
        let head = payloads::SemaphoreObject {
            queue_affinity: hal::QueueAffinity::ANY.bits(),
            initial_value,
            flags: SemaphoreFlags::DEFAULT.bits(),
            reserved0: 0,
        };
        let made = self.state.objects.next();
        let header = RecordHeader {
            record_type: RecordType::OPERATION.0,
            payload_type: payload_type::SEMAPHORE_OBJECT,
            operation_code: operation::DEVICE_CREATE_SEMAPHORE,
            device_id: self.object.device,
            object_id: self.object.device,
            related_object_id: made,
            object_type: ObjectType::DEVICE.0,
            ..RecordHeader::default()
        };
        self.state.stream.append(&header, &head.to_bytes(), &[]);
        let recorded = Recorded { id: made, device: self.object.device, object_type: ObjectType::SEMAPHORE };
        self.state.objects.add(self.called, semaphore, recorded);
        Ok(made)
    }

    /// The elements of a part.
    pub(crate) fn parts<P, T: ToPart<P>>(&mut self, values: &[T]) -> Result<Parts<P>>
    where
        Parts<P>: Sized,
    {
        let mut parts = Parts::<P>::new();
        for value in values {
            parts.push(value.to_part(self)?);
        }
        Ok(parts)
    }

    /// A layout in a payload.
    pub(crate) fn part<P, T: ToPart<P>>(&mut self, value: &T) -> Result<P> {
        value.to_part(self)
    }

    /// Names the allocation that a buffer is part of. The offset and length of the reference are within the buffer
    /// before, and within the allocation afterwards.
    pub(crate) fn place(&mut self, buffer: &Arc<dyn Buffer>, reference: &mut payloads::BufferRef) -> Result<()> {
        let number = buffer.watch_slot().and_then(|slot| slot.number(&**self.recording));
        reference.buffer_id = match number.and_then(Recorded::of) {
            Some(allocation) => allocation.id,
            None => return Err(unwatched(buffer)),
        };
        let start = buffer.byte_offset();
        if reference.length == WHOLE_BUFFER && start != 0 {
            reference.length = buffer.byte_length().saturating_sub(reference.offset);
        }
        reference.offset = reference.offset.saturating_add(start);
        Ok(())
    }

    /// Names all of a buffer.
    pub(crate) fn whole(&mut self, buffer: &Arc<dyn Buffer>, reference: &mut payloads::BufferRef) -> Result<()> {
        reference.length = buffer.byte_length();
        self.place(buffer, reference)
    }

    /// The ordinal of a function in the metadata of its executable.
    pub(crate) fn ordinal(
        &mut self,
        executable: &Arc<dyn hal::Executable>,
        function: hal::ExecutableFunction,
    ) -> Result<u32> {
        let id = self.called.id(executable);
        let ordinal = self.state.objects.function(id, function.0).ok_or_else(|| {
            let message = format!("{id} has no function {}: it cannot be recorded", function.0);
            Status::new(StatusCode::NotFound, message)
        })?;
        Ok(ordinal)
    }

    /// The objects of the capture.
    pub(super) fn objects(&mut self) -> &mut Objects {
        &mut self.state.objects
    }
}

/// The failure of an object that was not recorded.
pub(super) fn unknown(id: ObjectId) -> Status {
    Status::unimplemented(format!("{id} was not made by a device that is recorded"))
}

/// The failure of a buffer that is not watched.
fn unwatched(buffer: &Arc<dyn Buffer>) -> Status {
    Status::unimplemented(format!("{buffer:?} was not made by a device that is recorded, or cannot be watched"))
}
