//! Recorded devices: what is in the capture of calls, and what is in it when something goes wrong.

use std::io::{self, Cursor, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex};

use vireo::StatusCode;
use vireo::hal::*;
use vireo::replay::format::{PRIVATE_PAYLOAD, PrivateKind, RecordType};
use vireo::replay::operations::operation;
use vireo::replay::payloads::{
    BufferRangeData, BufferRangeDataParts, DeviceQueueExecute, ExpectedReadParts, RecordHeader, SemaphoreObject,
};
use vireo::replay::{Expected, Plan, Reader, Recorder, RecorderOptions, ReplayOptions};

const ANY: QueueAffinity = QueueAffinity::ANY;

/// A file in memory, which the test reads while it is written.
#[derive(Clone, Debug, Default)]
struct MemoryFile(Arc<Mutex<Cursor<Vec<u8>>>>);

impl MemoryFile {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().get_ref().clone()
    }

    /// The headers and payloads of all records in it now.
    fn records(&self) -> Vec<(RecordHeader, Vec<u8>)> {
        records(self.bytes())
    }
}

fn records(bytes: Vec<u8>) -> Vec<(RecordHeader, Vec<u8>)> {
    let mut reader = Reader::new("capture", Box::new(Cursor::new(bytes))).unwrap();
    let mut records = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        let payload = reader.payload(&record, 1 << 30).unwrap();
        records.push((record.header, payload));
    }
    records
}

impl Write for MemoryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for MemoryFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.lock().unwrap().seek(to)
    }
}

/// A device of this name that is recorded.
fn recorded(name: &str, options: RecorderOptions) -> (Arc<dyn Device>, Recorder, MemoryFile) {
    let file = MemoryFile::default();
    let recorder = Recorder::new(file.clone(), options).unwrap();
    let devices = recorder.devices(&[create_device(name).unwrap()]).unwrap();
    (devices[0].clone(), recorder, file)
}

fn checked(name: &str) -> (Arc<dyn Device>, Recorder, MemoryFile) {
    recorded(name, RecorderOptions { check_writes: true, ..RecorderOptions::default() })
}

fn host_buffer(device: &Arc<dyn Device>, length: u64) -> Arc<dyn Buffer> {
    let params = BufferParams {
        usage: BufferUsage::DEFAULT | BufferUsage::MAPPING | BufferUsage::MAPPING_PERSISTENT,
        memory_type: MemoryType::DEVICE_LOCAL | MemoryType::HOST_VISIBLE,
        ..BufferParams::default()
    };
    device.allocator().allocate_buffer(params, length).unwrap()
}

fn timeline(device: &Arc<dyn Device>) -> Arc<dyn Semaphore> {
    device.create_semaphore(ANY, 0, SemaphoreFlags::DEFAULT).unwrap()
}

fn point(semaphore: &Arc<dyn Semaphore>, value: u64) -> Timepoint {
    Timepoint { semaphore: semaphore.clone(), value }
}

/// The operations of a capture, with their statuses.
fn operations(file: &MemoryFile) -> Vec<(u32, u32)> {
    let operations = file.records().into_iter().filter(|(header, _)| header.record_type == RecordType::OPERATION.0);
    operations.map(|(header, _)| (header.operation_code, header.status_code)).collect()
}

/// The writes of a capture: the operation, the offset, and the bytes.
fn writes(file: &MemoryFile) -> Vec<(u32, u64, Vec<u8>)> {
    let is_write = |code: u32| [operation::BUFFER_UNMAP_RANGE, operation::BUFFER_FLUSH_RANGE].contains(&code);
    let records = file.records().into_iter().filter(|(header, _)| is_write(header.operation_code));
    records
        .map(|(header, payload)| {
            let head = BufferRangeData::read(payload.first_chunk().unwrap());
            let parts = BufferRangeDataParts::read(&payload).unwrap();
            (header.operation_code, head.byte_offset, parts.data.to_vec())
        })
        .collect()
}

#[test]
fn host_writes_are_in_the_capture_when_their_mappings_end() {
    for name in ["local-sync", "local-task"] {
        let (device, recorder, file) = checked(name);
        let buffer = host_buffer(&device, 32);
        let part = subspan(&buffer, 8, 16).unwrap();
        buffer_write(&*part, 2, &[1, 2, 3]).unwrap();
        buffer_fill(&*buffer, 24, 8, &[7]).unwrap();
        buffer_copy(&*buffer, 10, &*part, 8, 3).unwrap();
        let line = timeline(&device);
        device.queue_fill(ANY, &[], &[point(&line, 1)], &buffer, 0, 4, &[9], FillFlags::empty()).unwrap();
        line.wait(1, None).unwrap();
        assert_eq!(buffer_to_vec(&*buffer, 4).unwrap(), [9; 4]);
        recorder.finish().unwrap();
        let unmap = operation::BUFFER_UNMAP_RANGE;
        let expected = [(unmap, 10, vec![1, 2, 3]), (unmap, 24, vec![7; 8]), (unmap, 16, vec![1, 2, 3])];
        assert_eq!(writes(&file), expected, "what devices write and the host reads is not there");
    }
}

#[test]
fn mappings_that_last_are_compared_before_each_operation() {
    let (device, recorder, file) = checked("local-sync");
    let buffer = host_buffer(&device, 10_000);
    let mapping = buffer.map_range(MappingMode::PERSISTENT, MemoryAccess::WRITE, 0, WHOLE_BUFFER).unwrap();
    let line = timeline(&device);
    let submit = |value: u64| {
        device.queue_barrier(ANY, &[], &[point(&line, value)], ExecuteFlags::empty()).unwrap();
    };
    submit(1);
    // SAFETY: the mapping has that many bytes, and no operation uses them.
    unsafe { mapping.data.as_ptr().add(5000).write(3) };
    submit(2);
    submit(3);
    drop(mapping);
    recorder.finish().unwrap();
    let writes = writes(&file);
    let short: Vec<_> = writes.iter().map(|(code, offset, bytes)| (*code, *offset, bytes.len())).collect();
    let expected = [(operation::BUFFER_FLUSH_RANGE, 4096, 4096), (operation::BUFFER_UNMAP_RANGE, 0, 10_000)];
    assert_eq!(short, expected, "the block that changed, once, and all of it at the end");
    assert_eq!(writes[0].2[5000 - 4096], 3);
}

#[test]
fn the_check_of_writes_names_one_that_no_mapping_told_of() {
    let (device, recorder, _) = checked("local-sync");
    let buffer = host_buffer(&device, 16);
    let line = timeline(&device);
    // As memory does that others reach: no watcher is told of the device's own writes.
    let mode = MappingMode::SCOPED | MappingMode::UNWATCHED;
    let mapping = buffer.map_range(mode, MemoryAccess::WRITE, 5, 1).unwrap();
    // SAFETY: the mapping has one byte, and no operation uses it.
    unsafe { mapping.data.as_ptr().write(1) };
    drop(mapping);
    let refused = device.queue_barrier(ANY, &[], &[point(&line, 1)], ExecuteFlags::empty()).unwrap_err();
    assert_eq!(refused.code(), StatusCode::DataLoss);
    let text = recorder.finish().unwrap_err().to_string();
    assert!(text.contains("wrote to byte 5 of buffer 3, and no mapping told of it"), "{text}");
}

#[test]
fn an_operation_that_is_refused_has_its_status() {
    let (device, recorder, file) = recorded("local-sync", RecorderOptions::default());
    let line = timeline(&device);
    line.signal(2).unwrap();
    let refused = line.signal(1).unwrap_err();
    recorder.finish().unwrap();
    let barriers = operations(&file).into_iter().filter(|(code, _)| *code == operation::DEVICE_QUEUE_EXECUTE);
    let statuses: Vec<u32> = barriers.map(|(_, status)| status).collect();
    assert_eq!(statuses, [0, u32::from(refused.code() as u8)]);
}

#[test]
fn a_failure_of_the_host_ends_the_capture_before_it() {
    let (device, recorder, file) = recorded("local-sync", RecorderOptions::default());
    let line = timeline(&device);
    line.fail(vireo::Status::unimplemented("for a test"));
    let _after = timeline(&device);
    assert_eq!(recorder.finish().unwrap_err().code(), StatusCode::Unimplemented);
    assert_eq!(operations(&file), [(operation::DEVICE_CREATE_SEMAPHORE, 0)]);
}

#[test]
fn what_the_host_signals_is_a_barrier() {
    let (device, recorder, file) = recorded("local-task", RecorderOptions::default());
    let (gate, line) = (timeline(&device), timeline(&device));
    device.queue_barrier(ANY, &[point(&gate, 5)], &[point(&line, 1)], ExecuteFlags::empty()).unwrap();
    gate.signal(5).unwrap();
    line.wait(1, None).unwrap();
    recorder.finish().unwrap();
    let barriers: Vec<(u64, u64, u64)> = file
        .records()
        .iter()
        .filter(|(header, _)| header.operation_code == operation::DEVICE_QUEUE_EXECUTE)
        .map(|(_, payload)| DeviceQueueExecute::read(payload.first_chunk().unwrap()))
        .map(|head| (head.command_buffer_id, head.wait_semaphore_count, head.signal_semaphore_count))
        .collect();
    assert_eq!(barriers, [(0, 1, 1), (0, 0, 1)]);
}

#[test]
fn a_timeline_of_others_is_made_where_it_occurs_first() {
    let (device, recorder, file) = recorded("local-sync", RecorderOptions::default());
    let others: Arc<dyn Semaphore> = Arc::new(HostSemaphore::new(7));
    let line = timeline(&device);
    for value in [1, 2] {
        device.queue_barrier(ANY, &[point(&others, 7)], &[point(&line, value)], ExecuteFlags::empty()).unwrap();
    }
    recorder.finish().unwrap();
    let values: Vec<u64> = file
        .records()
        .iter()
        .filter(|(header, _)| header.operation_code == operation::DEVICE_CREATE_SEMAPHORE)
        .map(|(_, payload)| SemaphoreObject::read(payload.first_chunk().unwrap()).initial_value)
        .collect();
    assert_eq!(values, [0, 7]);
}

#[test]
fn objects_of_no_recorded_device_end_the_capture_before_them() {
    let (device, recorder, file) = recorded("local-sync", RecorderOptions::default());
    let other = host_buffer(&create_device("local-sync").unwrap(), 16);
    let line = timeline(&device);
    // The program goes on: only the capture lacks it.
    device.queue_fill(ANY, &[], &[point(&line, 1)], &other, 0, 4, &[9], FillFlags::empty()).unwrap();
    device.queue_barrier(ANY, &[], &[point(&line, 2)], ExecuteFlags::empty()).unwrap();
    let status = recorder.finish().unwrap_err();
    assert_eq!(status.code(), StatusCode::Unimplemented);
    assert!(status.to_string().contains("was not made by a device that is recorded"), "{status}");
    assert_eq!(operations(&file), [(operation::DEVICE_CREATE_SEMAPHORE, 0)]);
}

#[test]
fn a_capture_that_is_not_finished_has_what_was_flushed() {
    let (device, recorder, file) = recorded("local-sync", RecorderOptions::default());
    let _line = timeline(&device);
    recorder.flush();
    let flushed = file.bytes().len();
    let _others: Vec<_> = (0..10_000).map(|_| timeline(&device)).collect();
    // As the file of a process that was killed while it wrote: the end is not that of a record.
    let mut torn = file.bytes();
    assert!(torn.len() > flushed, "more than is kept in memory");
    torn.extend([0xAA; 50]);
    let length = u64::from_le_bytes(torn[16..24].try_into().unwrap());
    assert_eq!(length, torn.len() as u64 - 50);
    let whole = records(torn);
    assert!(whole.len() > 5000 && whole.iter().all(|(header, _)| header.status_code == 0), "{}", whole.len());
}

#[test]
fn long_writes_need_no_memory_for_all_of_them() {
    let (device, recorder, file) = recorded("local-sync", RecorderOptions::default());
    let buffer = host_buffer(&device, 1 << 20);
    let bytes: Vec<u8> = (0..1 << 20).map(|index: u32| (index % 251) as u8).collect();
    buffer_write(&*buffer, 0, &bytes).unwrap();
    let line = timeline(&device);
    recorder.finish().unwrap();
    assert_eq!(writes(&file), [(operation::BUFFER_UNMAP_RANGE, 0, bytes)]);
    assert_eq!(operations(&file).len(), 3);
    drop(line);
}

#[test]
fn expected_outputs_are_records_that_others_skip() {
    let (device, recorder, file) = recorded("local-sync", RecorderOptions::default());
    let buffer = host_buffer(&device, 16);
    buffer_write(&*buffer, 4, &[1, 2, 3, 4]).unwrap();
    recorder.begin_scope("execute");
    recorder.expect(&subspan(&buffer, 4, 8).unwrap(), 1, 3);
    recorder.end_scope("execute");
    recorder.finish().unwrap();
    let private: Vec<_> =
        file.records().into_iter().filter(|(header, _)| header.payload_type == PRIVATE_PAYLOAD).collect();
    let [(header, payload)] = &private[..] else { panic!("{} private records", private.len()) };
    assert_eq!(header.record_type, RecordType::SESSION.0);
    let ExpectedReadParts { head, data } = ExpectedReadParts::read(payload).unwrap();
    assert_eq!((head.version, head.kind), (1, PrivateKind::EXPECTED_READ));
    assert_eq!((head.buffer_id, head.byte_offset, head.byte_length), (3, 5, 3));
    assert_eq!(data, [2, 3, 4]);
}

/// Programs whose device is recorded, with the results that a replay compares.
#[test]
fn a_replay_reads_what_was_recorded() {
    for device in ["local-sync", "local-task"] {
        let (recorded, recorder, file) = recorded(device, RecorderOptions::default());
        let (buffer, line) = (host_buffer(&recorded, 100_000), timeline(&recorded));
        buffer_write(&*buffer, 4, &[1, 2, 3, 4]).unwrap();
        let (wait, signal) = ([], [point(&line, 1)]);
        recorded.queue_fill(ANY, &wait, &signal, &buffer, 6, 80_000, &[7], FillFlags::empty()).unwrap();
        line.wait(1, None).unwrap();
        // One whose bytes are in the capture, and one that has a digest alone.
        recorder.expect(&buffer, 0, 16);
        recorder.expect(&buffer, 0, 100_000);
        recorder.finish().unwrap();
        let verify = |bytes: Vec<u8>| {
            let mut reader = Reader::new("capture", Box::new(Cursor::new(bytes))).unwrap();
            let mut expected = Expected::read(&mut reader).unwrap();
            let plan = Plan::read(&mut reader, None).unwrap();
            let devices = [create_device(device).unwrap()];
            plan.run(&devices, &ReplayOptions::default(), &mut expected).unwrap();
            (expected.count(), expected.found(), expected.differences().to_vec())
        };
        assert_eq!(verify(file.bytes()), (2, 2, vec![]));
        // Another byte of the pattern makes both differ.
        let mut bytes = file.bytes();
        let place = bytes.windows(4).position(|four| four == [1, 2, 3, 4]).expect("what the host wrote");
        bytes[place] = 9;
        let (count, found, differences) = verify(bytes);
        assert_eq!((count, found, differences.len()), (2, 2, 2));
        assert_eq!(differences[0].first, Some((4, 1, 9)));
    }
}

#[test]
fn two_recordings_are_equal() {
    let record = || {
        let (device, recorder, file) = recorded("local-task", RecorderOptions::default());
        let (buffer, line) = (host_buffer(&device, 64), timeline(&device));
        for value in 1..100 {
            buffer_write(&*buffer, value % 60, &value.to_le_bytes()[..4]).unwrap();
            let wait = [point(&line, value - 1)];
            let signal = [point(&line, value)];
            device.queue_fill(ANY, &wait, &signal, &buffer, 0, 4, &[value as u8], FillFlags::empty()).unwrap();
            line.wait(value, None).unwrap();
        }
        recorder.finish().unwrap();
        file.bytes()
    };
    assert_eq!(record(), record());
}

#[test]
fn devices_of_one_recording_are_in_their_order() {
    let file = MemoryFile::default();
    let recorder = Recorder::new(file.clone(), RecorderOptions::default()).unwrap();
    let inner = ["local-sync", "local-task"].map(|name| create_device(name).unwrap());
    let devices = recorder.devices(&inner).unwrap();
    let buffers = [host_buffer(&devices[0], 8), host_buffer(&devices[1], 8)];
    buffers.iter().for_each(|buffer| buffer_write(&**buffer, 0, &[1]).unwrap());
    recorder.finish().unwrap();
    let records = file.records();
    let objects: Vec<(u64, u64)> = records
        .iter()
        .filter(|(header, _)| header.record_type == RecordType::OBJECT.0)
        .map(|(header, _)| (header.device_id, header.object_id))
        .collect();
    assert_eq!(objects, [(0, 1), (1, 2), (0, 3), (3, 4)]);
    let writes = records.iter().filter(|(header, _)| header.operation_code == operation::BUFFER_UNMAP_RANGE);
    let writes: Vec<(u64, u64)> = writes.map(|(header, _)| (header.device_id, header.object_id)).collect();
    assert_eq!(writes, [(1, 5), (3, 6)]);
}

/// A file that is full after some bytes.
struct Full(Cursor<Vec<u8>>, usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.position() as usize + bytes.len() > self.1 {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => self.0.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Full {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

#[test]
fn a_full_disk_ends_the_capture_and_not_the_program() {
    let recorder = Recorder::new(Full(Cursor::default(), 100_000), RecorderOptions::default()).unwrap();
    let devices = recorder.devices(&[create_device("local-sync").unwrap()]).unwrap();
    let lines: Vec<_> = (0..5000).map(|_| timeline(&devices[0])).collect();
    lines[4999].signal(1).unwrap();
    assert_eq!(recorder.finish().unwrap_err().code(), StatusCode::ResourceExhausted);
}
