//! Captures of few records, on one device with the number 1, whose allocator is 2 and has a semaphore 3.

use std::io::Cursor;

use vireo_replay::payloads::{
    AllocatorAllocateBuffer, BufferRef, DeviceQueueAlloca, DeviceQueueExecute, DeviceQueueFill, DeviceQueueRead,
    FileObject, RecordHeader, SemaphoreObject, Timepoint,
};
use vireo_replay::{CaptureWriter, operations::operation, payload_type};

/// A point of the semaphore.
pub fn point(value: u64) -> Timepoint {
    Timepoint { semaphore_id: 3, value }
}

/// A capture that is written.
pub struct Builder {
    writer: CaptureWriter<Cursor<Vec<u8>>>,
}

impl Builder {
    pub fn new() -> Builder {
        let mut builder = Builder { writer: CaptureWriter::new(Cursor::new(Vec::new())).expect("memory") };
        for (object_type, object_id) in [(1, 1), (2, 2)] {
            let header =
                RecordHeader { record_type: 2, object_type, object_id, device_id: 1, ..RecordHeader::default() };
            builder.writer.record(&header, &[]).expect("memory");
        }
        let semaphore = SemaphoreObject { queue_affinity: u64::MAX, ..SemaphoreObject::default() };
        builder.call(operation::DEVICE_CREATE_SEMAPHORE, 1, 3, payload_type::SEMAPHORE_OBJECT, &semaphore.to_bytes());
        builder
    }

    fn call(&mut self, operation_code: u32, object_id: u64, made: u64, payload_type: u32, payload: &[u8]) {
        let header = RecordHeader {
            record_type: 3,
            device_id: 1,
            object_id,
            object_type: object_id as u32,
            related_object_id: made,
            operation_code,
            payload_type,
            ..RecordHeader::default()
        };
        self.writer.record(&header, payload).expect("memory");
    }

    /// A buffer of 64 bytes that is zero.
    pub fn allocate(&mut self, id: u64) {
        let allocate = AllocatorAllocateBuffer {
            allocation_size: 64,
            queue_affinity: u64::MAX,
            usage: 0x0900_0c03,
            r#type: 0x32,
            access: 7,
            ..AllocatorAllocateBuffer::default()
        };
        let code = operation::ALLOCATOR_ALLOCATE_BUFFER;
        self.call(code, 2, id, payload_type::ALLOCATOR_ALLOCATE_BUFFER, &allocate.to_bytes());
    }

    /// A transient buffer of 64 bytes.
    pub fn alloca_at(&mut self, id: u64, wait: &[Timepoint], signal: &[Timepoint]) {
        let mut alloca = DeviceQueueAlloca { queue_affinity: u64::MAX, ..DeviceQueueAlloca::default() };
        alloca.allocation.allocation_size = 64;
        alloca.allocation.queue_affinity = u64::MAX;
        (alloca.allocation.usage, alloca.allocation.r#type, alloca.allocation.access) = (0x0900_0c03, 0x32, 7);
        let mut payload = Vec::new();
        alloca.write(&mut payload, wait, signal).expect("it is short");
        self.call(operation::DEVICE_QUEUE_ALLOCA, 1, id, payload_type::DEVICE_QUEUE_ALLOCA, &payload);
    }

    pub fn fill_with(
        &mut self,
        buffer_id: u64,
        (offset, length): (u64, u64),
        wait: &[Timepoint],
        signal: &[Timepoint],
        byte: u8,
    ) {
        let fill = DeviceQueueFill {
            queue_affinity: u64::MAX,
            target_ref: BufferRef { buffer_id, offset, length, ..BufferRef::default() },
            ..DeviceQueueFill::default()
        };
        let mut payload = Vec::new();
        fill.write(&mut payload, wait, signal, &[byte]).expect("it is short");
        self.call(operation::DEVICE_QUEUE_FILL, 1, 0, payload_type::DEVICE_QUEUE_FILL, &payload);
    }

    pub fn barrier(&mut self, wait: &[Timepoint], signal: &[Timepoint]) {
        let execute = DeviceQueueExecute { queue_affinity: u64::MAX, ..DeviceQueueExecute::default() };
        let mut payload = Vec::new();
        execute.write(&mut payload, wait, signal, &[]).expect("it is short");
        self.call(operation::DEVICE_QUEUE_EXECUTE, 1, 0, payload_type::DEVICE_QUEUE_EXECUTE, &payload);
    }

    pub fn file(&mut self, id: u64, file: &FileObject, reference: &[u8]) {
        let mut payload = Vec::new();
        file.write(&mut payload, reference).expect("it is short");
        self.call(operation::DEVICE_IMPORT_FILE, 1, id, payload_type::FILE_OBJECT, &payload);
    }

    pub fn read(
        &mut self,
        source_file_id: u64,
        source_offset: u64,
        buffer_id: u64,
        (offset, length): (u64, u64),
        wait: &[Timepoint],
        signal: &[Timepoint],
    ) {
        let read = DeviceQueueRead {
            source_file_id,
            source_offset,
            target_ref: BufferRef { buffer_id, offset, length, ..BufferRef::default() },
            queue_affinity: u64::MAX,
            ..DeviceQueueRead::default()
        };
        let mut payload = Vec::new();
        read.write(&mut payload, wait, signal, &[]).expect("it is short");
        self.call(operation::DEVICE_QUEUE_READ, 1, 0, payload_type::DEVICE_QUEUE_READ, &payload);
    }

    pub fn finish(self) -> Vec<u8> {
        self.writer.finish().expect("memory").into_inner()
    }
}
