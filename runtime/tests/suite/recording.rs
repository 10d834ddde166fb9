//! Recordings of devices: what is in them is all that was asked for, and what cannot be is marked.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use vireo::hal::observe::record::{Event, RecordedCall, RecordedReply, Unseen};
use vireo::hal::observe::{ObjectId, Observation, Recording};
use vireo::hal::*;
use vireo::{Result, StatusCode};

const ANY: QueueAffinity = QueueAffinity::ANY;

fn id(kind: &'static str, number: u64) -> ObjectId {
    ObjectId { kind, number }
}

fn point(semaphore: &Arc<dyn Semaphore>, value: u64) -> Timepoint {
    Timepoint { semaphore: semaphore.clone(), value }
}

fn recorded_device() -> (Arc<dyn Device>, Recording) {
    let recording = Recording::default();
    (Observation::new(recording.observer()).device(&super::device()), recording)
}

/// Allocates, uploads, fills, copies and executes; gives the bytes that are read back.
fn session(device: &Arc<dyn Device>) -> Vec<u8> {
    let params = BufferParams { usage: BufferUsage::DEFAULT | BufferUsage::MAPPING, ..BufferParams::default() };
    let buffer = device.allocator().allocate_buffer(params, 8).unwrap();
    let line = device.create_semaphore(ANY, 0, SemaphoreFlags::DEFAULT).unwrap();
    let at = |value| [point(&line, value)];
    device.queue_update(ANY, &[], &at(1), &[1, 2, 3], &buffer, 0, UpdateFlags::empty()).unwrap();
    let part = subspan(&buffer, 4, 4).unwrap();
    device.queue_fill(ANY, &at(1), &at(2), &part, 2, 2, &[9], FillFlags::empty()).unwrap();
    let none = CommandBufferMode::empty();
    let commands = device.create_command_buffer(none, CommandCategory::TRANSFER, ANY, 1).unwrap();
    commands.begin().unwrap();
    let source = BufferRef { buffer: Some(buffer.clone()), slot: 0, offset: 1, length: 2 };
    let target = BufferRef { buffer: None, slot: 0, offset: 0, length: 2 };
    commands.copy_buffer(&source, &target, CopyFlags::empty()).unwrap();
    commands.end().unwrap();
    let table = [BufferBinding { buffer: Some(part), offset: 0, length: 2 }];
    device.queue_execute(ANY, &at(2), &at(3), &commands, &table, ExecuteFlags::empty()).unwrap();
    line.wait(3, None).unwrap();
    buffer_to_vec(&*buffer, 8).unwrap()
}

#[test]
fn a_session_is_recorded_whole() {
    let (device, recording) = recorded_device();
    assert_eq!(session(&device), [1, 2, 3, 0, 2, 3, 9, 9]);
    let recorded = recording.take();
    let lines: Vec<String> = recorded.events.iter().map(Event::to_string).collect();
    assert_eq!(
        lines,
        [
            "1: device#1.allocator() -> allocator#1",
            "2: allocator#1.allocate_buffer(params={usage=transfer_source|transfer_target|dispatch_storage_read|\
             dispatch_storage_write|mapping_scoped|mapping_access_random, access=none, memory_type=none, queue_affinity=none, \
             min_alignment=0}, allocation_size=8) -> {allocation=buffer#1, offset=0, length=8}",
            "allocator#1 is dropped",
            "3: device#1.create_semaphore(queue_affinity=any, initial_value=0, flags=host_interrupt|exportable_timepoints) -> \
             semaphore#1",
            "4: device#1.queue_update(queue_affinity=any, wait=[], signal=[{semaphore=semaphore#1, value=1}], source=[01 02 03], \
             target_buffer={allocation=buffer#1, offset=0, length=8}, target_offset=0, flags=none) -> none",
            "5: device#1.queue_fill(queue_affinity=any, wait=[{semaphore=semaphore#1, value=1}], \
             signal=[{semaphore=semaphore#1, value=2}], target_buffer={allocation=buffer#1, offset=4, length=4}, \
             target_offset=2, length=2, pattern=[09], flags=none) -> none",
            "6: device#1.create_command_buffer(mode=none, command_categories=transfer, queue_affinity=any, binding_capacity=1) -> \
             command_buffer#1",
            "7: command_buffer#1.begin() -> none",
            "8: command_buffer#1.copy_buffer(source={buffer={allocation=buffer#1, offset=0, length=8}, slot=0, offset=1, length=2}, \
             target={buffer=none, slot=0, offset=0, length=2}, flags=none) -> none",
            "9: command_buffer#1.end() -> none",
            "10: device#1.queue_execute(queue_affinity=any, wait=[{semaphore=semaphore#1, value=2}], \
             signal=[{semaphore=semaphore#1, value=3}], command_buffer=command_buffer#1, \
             binding_table=[{buffer={allocation=buffer#1, offset=4, length=4}, offset=0, length=2}], flags=none) -> none",
            "11: semaphore#1.wait(value=3, deadline=none) -> none",
            "command_buffer#1 is dropped",
            "semaphore#1 is dropped",
        ]
    );
    // Objects have what made them. The bytes of the buffer can change without a call.
    let made: Vec<_> = recorded.objects.iter().map(|(id, object)| (id.to_string(), object.made_by)).collect();
    let expected = [("allocator#1", Some(1)), ("buffer#1", Some(2)), ("command_buffer#1", Some(6)), ("device#1", None)];
    assert_eq!(made[..4], expected.map(|(id, made_by)| (id.to_string(), made_by)));
    assert!(recorded.objects[&id("buffer", 1)].is_mappable && !recorded.objects[&id("semaphore", 1)].is_mappable);
    assert_eq!(recorded.objects.len(), 5);
}

#[test]
fn calls_are_values_with_types() {
    let (device, recording) = recorded_device();
    let line = device.create_semaphore(ANY, 5, SemaphoreFlags::DEFAULT).unwrap();
    assert!(line.signal(5).is_err());
    let recorded = recording.take();
    let Event::Call(created) = &recorded.events[0] else { panic!("{recorded:?}") };
    assert!(matches!(created.call, RecordedCall::DeviceCreateSemaphore { initial_value: 5, .. }));
    assert!(matches!(created.outcome, Ok(RecordedReply::DeviceCreateSemaphore(made)) if made == id("semaphore", 1)));
    let Event::Call(signaled) = &recorded.events[1] else { panic!("{recorded:?}") };
    assert_eq!((signaled.number, signaled.object), (2, id("semaphore", 1)));
    assert_eq!(signaled.call.method(), ForwardedMethod::SemaphoreSignal);
    assert_eq!(signaled.outcome.as_ref().unwrap_err().code(), StatusCode::InvalidArgument);
    // Calls that are taken are gone from the recording; objects stay.
    drop(line);
    let rest = recording.take();
    assert!(matches!(rest.events[..], [Event::Dropped(dropped)] if dropped == id("semaphore", 1)), "{rest:?}");
    assert_eq!(rest.objects.len(), 2);
}

#[derive(Debug)]
struct Nothing;

impl HostCall for Nothing {
    fn call(&self, _: HostCallContext, _: &[Timepoint]) -> Result<()> {
        Ok(())
    }
}

#[test]
fn what_cannot_be_kept_is_marked() {
    let (device, recording) = recorded_device();
    let line = device.create_semaphore(ANY, 0, SemaphoreFlags::DEFAULT).unwrap();
    line.notify(0, Box::new(|_| ()));
    let _ = line.wait(1, Some(std::time::Instant::now()));
    let bytes: Arc<[u8; 64]> = Arc::new([7; 64]);
    let owner: Arc<dyn Any + Send + Sync> = bytes.clone();
    let external = ExternalFile {
        r#type: ExternalFileType::HostAllocation,
        data: NonNull::new(bytes.as_ptr().cast_mut()),
        length: 64,
        fd: -1,
        owner: Some(owner),
    };
    // SAFETY: the owner keeps the bytes, which are only read.
    let file = unsafe { device.import_file(ANY, MemoryAccess::READ, &external, ExternalFileFlags::empty()) }.unwrap();
    let call: Arc<dyn HostCall> = Arc::new(Nothing);
    device.queue_host_call(ANY, &[], &[point(&line, 1)], &call, &[3], HostCallFlags::empty()).unwrap();
    let recorded = recording.take();
    let call = |index: usize| match &recorded.events[index] {
        Event::Call(event) => event,
        event @ Event::Dropped(_) => panic!("{event}"),
    };
    assert!(matches!(call(1).call, RecordedCall::SemaphoreNotify { value: 0, callback: Unseen::Callback }));
    assert!(matches!(call(2).call, RecordedCall::SemaphoreWait { value: 1, deadline: Some(Unseen::Deadline) }));
    let RecordedCall::DeviceImportFile { external_file, .. } = &call(3).call else { panic!("{:?}", call(3)) };
    assert_eq!((external_file.data, external_file.owner), (Some(Unseen::HostMemory), Some(Unseen::HostMemory)));
    // The queue calls the host within its own call, which began before and returns after.
    let (inner, outer) = (call(4), call(5));
    assert!(matches!(inner.call, RecordedCall::HostCallCall { .. }) && inner.object == id("host_call", 1));
    assert!(matches!(outer.call, RecordedCall::DeviceQueueHostCall { .. }));
    assert_eq!((outer.number, inner.number), (inner.number - 1, outer.number + 1));
    assert_eq!(recorded.objects[&id("host_call", 1)].made_by, None);
    assert_eq!(recorded.objects[&id("file", 1)].made_by, Some(call(3).number));
    drop(file);
}
