//! The HAL through its public interface: memory, timelines, command buffers and queues of the `local-sync` device, or
//! of what stands for it in the module above.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use vireo::hal::*;
use vireo::{Result, Status, StatusCode};

use super::device;

fn params() -> BufferParams {
    BufferParams { memory_type: MemoryType::DEVICE_LOCAL, usage: BufferUsage::DEFAULT, ..BufferParams::default() }
}

fn buffer_of(device: &dyn Device, bytes: &[u8]) -> Arc<dyn Buffer> {
    let buffer = device.allocator().allocate_buffer(params(), bytes.len() as u64).unwrap();
    buffer_write(&*buffer, 0, bytes).unwrap();
    buffer
}

fn bytes_of(buffer: &dyn Buffer) -> Vec<u8> {
    let mut out = vec![0; buffer.byte_length() as usize];
    buffer_read(buffer, 0, &mut out).unwrap();
    out
}

fn range(buffer: &Arc<dyn Buffer>, offset: u64, length: u64) -> BufferRef {
    BufferRef { buffer: Some(buffer.clone()), slot: 0, offset, length }
}

fn slot(slot: u32, offset: u64, length: u64) -> BufferRef {
    BufferRef { buffer: None, slot, offset, length }
}

fn point(semaphore: &Arc<dyn Semaphore>, value: u64) -> Timepoint {
    Timepoint { semaphore: semaphore.clone(), value }
}

fn timeline(device: &dyn Device) -> Arc<dyn Semaphore> {
    device.create_semaphore(QueueAffinity::ANY, 0, SemaphoreFlags::DEFAULT).unwrap()
}

fn code<T>(result: Result<T>) -> StatusCode {
    result.err().expect("a failure").code()
}

#[test]
fn buffers_check_ranges_and_access() {
    let device = device();
    let buffer = buffer_of(&*device, &[1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(buffer.allowed_access(), MemoryAccess::ALL);
    assert_eq!(code(buffer_read(&*buffer, 7, &mut [0; 2])), StatusCode::OutOfRange);
    assert_eq!(code(buffer_read(&*buffer, u64::MAX, &mut [0; 1])), StatusCode::OutOfRange);
    assert_eq!(code(buffer_write(&*buffer, 9, &[])), StatusCode::OutOfRange);
    buffer_fill(&*buffer, 2, 4, &[0xAA, 0xBB]).unwrap();
    assert_eq!(bytes_of(&*buffer), [1, 2, 0xAA, 0xBB, 0xAA, 0xBB, 7, 8]);
    assert_eq!(code(buffer_fill(&*buffer, 1, 4, &[0, 1])), StatusCode::InvalidArgument);
    assert_eq!(code(buffer_fill(&*buffer, 0, 3, &[0, 1, 2])), StatusCode::InvalidArgument);
    for words in [0u64, 1, 2, 3, 7, 64, 100] {
        let long = buffer_of(&*device, &vec![0; words as usize * 8 + 8]);
        let pattern = [1, 2, 3, 4, 5, 6, 7, 8];
        buffer_fill(&*long, 0, words * 8, &pattern).unwrap();
        assert_eq!(bytes_of(&*long), [pattern.repeat(words as usize), vec![0; 8]].concat());
    }
    buffer_copy(&*buffer, 0, &*buffer, 2, 6).unwrap();
    assert_eq!(bytes_of(&*buffer), [1, 2, 1, 2, 0xAA, 0xBB, 0xAA, 0xBB]);

    let part = subspan(&buffer, 2, 4).unwrap();
    assert_eq!((part.byte_offset(), part.byte_length(), part.allocation_size()), (2, 4, 8));
    let inner = subspan(&part, 1, WHOLE_BUFFER).unwrap();
    assert_eq!((inner.byte_offset(), inner.byte_length()), (3, 3));
    assert!(Arc::ptr_eq(&inner.allocation().unwrap(), &buffer));
    assert_eq!(bytes_of(&*inner), [2, 0xAA, 0xBB]);
    assert_eq!(code(buffer_read(&*part, 3, &mut [0; 2])), StatusCode::OutOfRange);
    assert_eq!(code(subspan(&part, 3, 2)), StatusCode::OutOfRange);
    assert!(Arc::ptr_eq(&subspan(&buffer, 0, 8).unwrap(), &buffer));
}

#[test]
fn read_only_imports_are_not_written() {
    #[repr(align(64))]
    struct Aligned([u8; 64]);
    let owner = Arc::new(Aligned([7; 64]));
    let data = NonNull::from(&owner.0[0]);
    let any: Arc<dyn Any + Send + Sync> = owner.clone();
    let external = ExternalBuffer { r#type: ExternalBufferType::HostAllocation, data, size: 64, owner: any };
    let params = BufferParams { access: MemoryAccess::READ, ..params() };
    let device = device();
    // SAFETY: the bytes live as long as their owner, and are not written.
    let buffer = unsafe { device.allocator().import_buffer(params, &external) }.unwrap();
    drop(external);
    assert_eq!(Arc::strong_count(&owner), 2);
    assert_eq!(bytes_of(&*buffer), [7; 64]);
    assert_eq!(code(buffer_write(&*buffer, 0, &[1])), StatusCode::PermissionDenied);
    assert_eq!(code(buffer_fill(&*buffer, 0, 4, &[1])), StatusCode::PermissionDenied);
    drop(buffer);
    assert_eq!(Arc::strong_count(&owner), 1);

    let any: Arc<dyn Any + Send + Sync> = owner.clone();
    // SAFETY: still within the bytes.
    let misaligned = unsafe { data.add(1) };
    let external = ExternalBuffer { r#type: ExternalBufferType::HostAllocation, data: misaligned, size: 8, owner: any };
    // SAFETY: still within the bytes.
    let result = unsafe { device.allocator().import_buffer(params, &external) };
    assert_eq!(code(result), StatusCode::Unavailable);
}

#[test]
fn allocators_count_and_limit() {
    let allocator = HeapAllocator::with_limit(1000);
    let first = allocator.allocate_buffer(params(), 600).unwrap();
    assert_eq!(code(allocator.allocate_buffer(params(), 401)), StatusCode::ResourceExhausted);
    let mapping = first.map_range(MappingMode::SCOPED, MemoryAccess::READ, 0, WHOLE_BUFFER).unwrap();
    assert!((mapping.data.as_ptr() as usize).is_multiple_of(64));
    drop(first);
    // The mapping still holds the memory.
    assert_eq!(allocator.statistics().device_bytes_freed, 0);
    drop(mapping);
    let statistics = allocator.statistics();
    assert_eq!((statistics.device_bytes_allocated, statistics.device_bytes_freed), (600, 600));
    assert_eq!(statistics.device_bytes_peak, 600);
    let odd = BufferParams { min_alignment: 3, ..params() };
    assert_eq!(code(allocator.allocate_buffer(odd, 8)), StatusCode::InvalidArgument);
    assert_eq!(code(HeapAllocator::new().allocate_buffer(params(), u64::MAX / 2)), StatusCode::ResourceExhausted);
}

#[test]
fn a_mapped_allocator_takes_memory_for_what_is_written() {
    // More than machines have.
    const LENGTH: u64 = 1 << 36;
    let allocator = HeapAllocator::without_reuse().mapped();
    let buffer = match allocator.allocate_buffer(params(), LENGTH) {
        Err(status) if usize::BITS < 64 => return assert_eq!(status.code(), StatusCode::ResourceExhausted),
        result => result.unwrap(),
    };
    for offset in [0, LENGTH - 3] {
        let mut bytes = [1; 3];
        buffer_read(&*buffer, offset, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 3]);
        buffer_write(&*buffer, offset, &[5, 6, 7]).unwrap();
        buffer_read(&*buffer, offset, &mut bytes).unwrap();
        assert_eq!(bytes, [5, 6, 7]);
    }
    let small = allocator.allocate_buffer(params(), 1000).unwrap();
    assert_eq!(bytes_of(&*small), [0; 1000]);
    drop((buffer, small));
    let statistics = allocator.statistics();
    assert_eq!((statistics.device_bytes_peak, statistics.device_bytes_freed), (LENGTH + 1000, LENGTH + 1000));
    assert_eq!(code(allocator.allocate_buffer(params(), u64::MAX / 2)), StatusCode::ResourceExhausted);
    let limited = HeapAllocator::with_limit(1 << 20).mapped();
    assert_eq!(code(limited.allocate_buffer(params(), LENGTH)), StatusCode::ResourceExhausted);
}

#[test]
fn timelines_advance_and_keep_their_first_failure() {
    let semaphore: Arc<dyn Semaphore> = Arc::new(HostSemaphore::new(3));
    assert_eq!(semaphore.query().unwrap(), 3);
    assert_eq!(code(semaphore.signal(3)), StatusCode::InvalidArgument);
    semaphore.signal(5).unwrap();
    let soon = Some(Instant::now() + Duration::from_millis(5));
    assert_eq!(code(semaphore.wait(6, soon)), StatusCode::DeadlineExceeded);
    let waiting = MultiWait::new(&[point(&semaphore, 7)]);
    assert!(waiting.outcome().is_none());
    semaphore.fail(Status::data_loss("the disk is full"));
    semaphore.fail(Status::internal("later"));
    for result in [semaphore.wait(6, None), semaphore.query().map(drop), waiting.wait(None), semaphore.signal(9)] {
        assert_eq!(result.unwrap_err().to_string(), "DATA_LOSS: the disk is full");
    }
}

#[test]
fn a_timeline_that_goes_away_fails_its_waiters() {
    let semaphore: Arc<dyn Semaphore> = Arc::new(HostSemaphore::new(0));
    let waiting = MultiWait::new(&[point(&semaphore, 1)]);
    drop(semaphore);
    assert_eq!(code(waiting.wait(None)), StatusCode::Aborted);
}

#[test]
fn fences_join_by_timeline() {
    let (a, b) = (Fence::create(), Fence::create());
    let both = Fence::join(a.timepoints().iter().chain(b.timepoints()).chain(a.timepoints()));
    assert_eq!(both.timepoints().len(), 2);
    a.signal().unwrap();
    assert!(!both.query().unwrap());
    let thread = std::thread::spawn(move || b.signal());
    both.wait(None).unwrap();
    thread.join().unwrap().unwrap();
    assert!(both.query().unwrap());
    assert!(Fence::default().query().unwrap());
    let failed = Fence::create();
    failed.fail(&Status::invalid_argument("wrong"));
    assert_eq!(failed.wait(None).unwrap_err().to_string(), "INVALID_ARGUMENT: wrong");
}

fn record(device: &dyn Device, mode: CommandBufferMode, capacity: u32) -> Arc<dyn CommandBuffer> {
    let commands = device.create_command_buffer(mode, CommandCategory::ANY, QueueAffinity::ANY, capacity).unwrap();
    commands.begin().unwrap();
    commands
}

fn execute(device: &dyn Device, commands: &Arc<dyn CommandBuffer>, table: &[BufferBinding]) -> Result<()> {
    device.queue_execute(QueueAffinity::ANY, &[], &[], commands, table, ExecuteFlags::empty())
}

#[test]
fn command_buffers_are_replayed_with_other_bindings() {
    let device = device();
    let commands = record(&*device, CommandBufferMode::empty(), 2);
    commands.fill_buffer(&slot(0, 0, 4), &[9], FillFlags::empty()).unwrap();
    commands.update_buffer(&[1, 2], &slot(0, 1, 2), UpdateFlags::empty()).unwrap();
    commands.copy_buffer(&slot(0, 0, 4), &slot(1, 2, 4), CopyFlags::empty()).unwrap();
    commands.end().unwrap();
    assert_eq!(code(commands.fill_buffer(&slot(0, 0, 4), &[9], FillFlags::empty())), StatusCode::FailedPrecondition);
    for _ in 0..2 {
        let (first, second) = (buffer_of(&*device, &[0; 8]), buffer_of(&*device, &[0; 6]));
        let table = [
            BufferBinding { buffer: Some(first.clone()), offset: 2, length: 4 },
            BufferBinding { buffer: Some(second.clone()), offset: 0, length: WHOLE_BUFFER },
        ];
        execute(&*device, &commands, &table).unwrap();
        assert_eq!(bytes_of(&*first), [0, 0, 9, 1, 2, 9, 0, 0]);
        assert_eq!(bytes_of(&*second), [0, 0, 9, 1, 2, 9]);
        assert_eq!(code(execute(&*device, &commands, &table[..1])), StatusCode::InvalidArgument);
        let short = [table[0].clone(), BufferBinding { buffer: Some(second), offset: 1, length: WHOLE_BUFFER }];
        let error = execute(&*device, &commands, &short).unwrap_err();
        assert_eq!(error.code(), StatusCode::OutOfRange);
        assert!(error.message().starts_with("command 2 of 3 (copy): "), "{error}");
    }
}

#[test]
fn recording_is_checked() {
    let device = device();
    let buffer = buffer_of(&*device, &[0; 8]);
    let commands = record(&*device, CommandBufferMode::ONE_SHOT, 1);
    let fill = |target: &BufferRef, pattern: &[u8]| commands.fill_buffer(target, pattern, FillFlags::empty());
    assert_eq!(code(fill(&range(&buffer, 4, 5), &[0])), StatusCode::OutOfRange);
    assert_eq!(code(fill(&range(&buffer, 0, 6), &[0; 4])), StatusCode::InvalidArgument);
    assert_eq!(code(fill(&slot(1, 0, 4), &[0])), StatusCode::OutOfRange);
    let copy = |from: &BufferRef, to: &BufferRef| commands.copy_buffer(from, to, CopyFlags::empty());
    assert_eq!(code(copy(&range(&buffer, 0, 2), &range(&buffer, 4, 3))), StatusCode::InvalidArgument);
    assert_eq!(code(commands.end_debug_group()), StatusCode::FailedPrecondition);
    assert_eq!(code(execute(&*device, &commands, &[])), StatusCode::FailedPrecondition);

    let transfers = device
        .create_command_buffer(CommandBufferMode::empty(), CommandCategory::DISPATCH, QueueAffinity::ANY, 0)
        .unwrap();
    transfers.begin().unwrap();
    let result = transfers.fill_buffer(&range(&buffer, 0, 8), &[0], FillFlags::empty());
    assert_eq!(code(result), StatusCode::FailedPrecondition);

    let once = record(&*device, CommandBufferMode::ONE_SHOT, 0);
    once.fill_buffer(&range(&buffer, 0, 8), &[3], FillFlags::empty()).unwrap();
    once.end().unwrap();
    execute(&*device, &once, &[]).unwrap();
    assert_eq!(bytes_of(&*buffer), [3; 8]);
    let error = execute(&*device, &once, &[]).unwrap_err();
    assert!(error.message().contains("one-shot"), "{error}");
}

#[test]
fn operations_wait_for_their_timelines() {
    let device = device();
    let (start, done) = (timeline(&*device), timeline(&*device));
    let any = QueueAffinity::ANY;
    let buffer = device
        .queue_alloca(any, &[point(&start, 1)], &[point(&done, 1)], None, params(), 16, AllocaFlags::empty())
        .unwrap();
    assert_eq!(code(buffer_read(&*buffer, 0, &mut [0; 1])), StatusCode::FailedPrecondition);
    let fill = |wait: u64, value: u8| {
        let (wait, signal) = ([point(&done, wait)], [point(&done, wait + 1)]);
        device.queue_fill(any, &wait, &signal, &buffer, 0, 16, &[value], FillFlags::empty()).unwrap();
    };
    // Submitted in the wrong order: only the timeline orders them.
    fill(2, 8);
    fill(1, 7);
    assert_eq!(done.query().unwrap(), 0);
    start.signal(1).unwrap();
    assert_eq!(done.query().unwrap(), 3);
    assert_eq!(bytes_of(&*buffer), [8; 16]);
    let part = subspan(&buffer, 4, 4).unwrap();
    device.queue_dealloca(any, &[point(&done, 3)], &[point(&done, 4)], &part, DeallocaFlags::empty()).unwrap();
    assert_eq!(done.query().unwrap(), 4);
    assert_eq!(code(buffer_read(&*buffer, 0, &mut [0; 1])), StatusCode::FailedPrecondition);
}

#[test]
fn failures_propagate_with_their_cause() {
    let device = device();
    let line = timeline(&*device);
    let any = QueueAffinity::ANY;
    let buffer = buffer_of(&*device, &[0; 4]);
    let last = {
        let (wait, signal) = ([point(&line, 1)], [point(&line, 2)]);
        device.queue_barrier(any, &wait, &signal, ExecuteFlags::empty()).unwrap();
        Fence::at(line.clone(), 2)
    };
    // The range is wrong: the operation fails its timeline, and with it everything that waits for it.
    device.queue_fill(any, &[], &[point(&line, 1)], &buffer, 0, 8, &[1], FillFlags::empty()).unwrap();
    assert_eq!(code(last.wait(None)), StatusCode::OutOfRange);
    let other = timeline(&*device);
    device.queue_barrier(any, &[point(&line, 2)], &[point(&other, 1)], ExecuteFlags::empty()).unwrap();
    let error = other.wait(1, None).unwrap_err();
    assert!(error.message().contains("exceeds a buffer of 4 bytes"), "{error}");
    // Without a timeline to fail, the caller learns it.
    let result = device.queue_fill(any, &[], &[], &buffer, 0, 8, &[1], FillFlags::empty());
    assert_eq!(code(result), StatusCode::OutOfRange);
}

#[test]
fn long_chains_do_not_nest() {
    let device = device();
    let line = timeline(&*device);
    for value in (1..20_000).rev() {
        let (wait, signal) = ([point(&line, value)], [point(&line, value + 1)]);
        device.queue_barrier(QueueAffinity::ANY, &wait, &signal, ExecuteFlags::empty()).unwrap();
    }
    line.signal(1).unwrap();
    assert_eq!(line.query().unwrap(), 20_000);
}

#[test]
fn many_threads_submit() {
    let device = device();
    let buffer = buffer_of(&*device, &[0; 64]);
    std::thread::scope(|scope| {
        for index in 0..8u64 {
            let (device, buffer) = (&device, &buffer);
            scope.spawn(move || {
                let line = timeline(&**device);
                for value in 0..200 {
                    let (wait, signal) = ([point(&line, value)], [point(&line, value + 1)]);
                    let pattern = [index as u8];
                    let flags = FillFlags::empty();
                    device
                        .queue_fill(QueueAffinity::ANY, &wait, &signal, buffer, index * 8, 8, &pattern, flags)
                        .unwrap();
                }
                line.wait(200, None).unwrap();
            });
        }
    });
    let expected: Vec<u8> = (0..64).map(|byte| byte / 8).collect();
    assert_eq!(bytes_of(&*buffer), expected);
}

#[test]
fn views_check_their_size() {
    let device = device();
    let buffer = buffer_of(&*device, &[0; 24]);
    let dense = EncodingType::DENSE_ROW_MAJOR;
    let view = |shape: &[u64], ty| BufferView::new(buffer.clone(), shape, ty, dense);
    let tensor = view(&[2, 3], ElementType::FLOAT_32).unwrap();
    assert_eq!((tensor.byte_length(), tensor.element_count()), (24, 6));
    assert_eq!(format!("{tensor:?}"), "2x3xf32");
    assert_eq!(view(&[5], ElementType::INT_4).unwrap().byte_length(), 3);
    assert_eq!(code(view(&[7], ElementType::FLOAT_32)), StatusCode::OutOfRange);
    assert_eq!(code(view(&[1 << 62, 2, 2], ElementType::INT_8)), StatusCode::OutOfRange);
    assert_eq!(code(view(&[1 << 63], ElementType::FLOAT_64)), StatusCode::OutOfRange);
    assert_eq!(view(&[1 << 63, 1 << 63, 0], ElementType::FLOAT_64).unwrap().element_count(), 0);
}

#[test]
fn references_of_one_object_are_the_same() {
    let device = device();
    let buffer = buffer_of(&*device, &[0; 4]);
    let (a, b) = (Handle::to_ref(buffer.clone()), Handle::to_ref(buffer.clone()));
    assert_eq!(a, b);
    assert_eq!(a.type_name(), "hal.buffer");
    assert_ne!(a, Handle::to_ref(buffer_of(&*device, &[0; 4])));
    assert_eq!(a.get::<Handle<dyn Buffer>>().unwrap().byte_length(), 4);
    assert_eq!(Handle::to_ref(device).type_name(), "hal.device");
}

#[test]
fn buffers_are_exported_in_place() {
    let device = device();
    let buffer = buffer_of(&*device, &[1, 2, 3, 4]);
    let none = ExternalBufferFlags::empty();
    let exported = device.allocator().export_buffer(&buffer, ExternalBufferType::HostAllocation, none).unwrap();
    assert_eq!(exported.size, 4);
    buffer_write(&*buffer, 1, &[9]).unwrap();
    drop(buffer);
    // SAFETY: the owner keeps the memory, and this is the only reference to the buffer.
    let bytes = unsafe { std::slice::from_raw_parts(exported.data.as_ptr(), 4) };
    assert_eq!(bytes, [1, 9, 3, 4]);
}

#[test]
fn events_are_recorded() {
    let device = device();
    let event = device.create_event(QueueAffinity::ANY, EventFlags::empty()).unwrap();
    let buffer = buffer_of(&*device, &[0; 4]);
    let commands = record(&*device, CommandBufferMode::ONE_SHOT, 0);
    let (transfer, host) = (ExecutionStage::TRANSFER, ExecutionStage::HOST);
    commands.fill_buffer(&range(&buffer, 0, 4), &[7], FillFlags::empty()).unwrap();
    commands.signal_event(&event, transfer).unwrap();
    let scope = MemoryBarrier { source_scope: AccessScope::TRANSFER_WRITE, target_scope: AccessScope::HOST_READ };
    let barrier = BufferBarrier {
        source_scope: scope.source_scope,
        target_scope: scope.target_scope,
        buffer_ref: range(&buffer, 0, 4),
    };
    commands.wait_events(&[event.clone(), event.clone()], transfer, host, &[scope], &[barrier]).unwrap();
    commands.reset_event(&event, transfer).unwrap();
    commands.end().unwrap();
    assert_eq!(code(commands.signal_event(&event, transfer)), StatusCode::FailedPrecondition);
    execute(&*device, &commands, &[]).unwrap();
    assert_eq!(bytes_of(&*buffer), [7; 4]);
}

#[test]
fn what_a_device_lacks_fails_by_name() {
    let device = device();
    let failure = device.profiling_flush().unwrap_err();
    assert_eq!(failure.to_string(), "UNIMPLEMENTED: `device.profiling_flush` is not supported by this implementation");
    assert!(!device.allocator().supports_virtual_memory());
}

#[test]
fn a_device_is_put_into_a_topology_once() {
    let device = device();
    assert_eq!(device.topology_info(), DeviceTopologyInfo::default());
    let info = DeviceTopologyInfo { topology_index: 3, can_wait_from: 0xff, ..DeviceTopologyInfo::default() };
    device.assign_topology_info(info).unwrap();
    assert_eq!(device.topology_info(), info);
    assert_eq!(code(device.assign_topology_info(info)), StatusCode::FailedPrecondition);
    let edge = TopologyEdge { scheduling_word: 5, interop_word: 1 << 63 };
    assert_eq!(device.refine_topology_edge(&device, edge).unwrap(), edge);
}

#[test]
fn an_allocator_is_replaced_before_it_is_used() {
    let device = device();
    let limited = |limit| -> Arc<dyn Allocator> { Arc::new(HeapAllocator::with_limit(limit)) };
    let (first, second) = (limited(100), limited(1000));
    device.replace_allocator(&first).unwrap();
    assert_eq!(code(device.allocator().allocate_buffer(params(), 101)), StatusCode::ResourceExhausted);
    device.replace_allocator(&second).unwrap();
    assert!(Arc::ptr_eq(&device.allocator(), &second));
    let any = QueueAffinity::ANY;
    let alloca = |size| device.queue_alloca(any, &[], &[], None, params(), size, AllocaFlags::empty());
    let transient = alloca(1000).unwrap();
    assert_eq!(second.statistics().device_bytes_allocated, 1000);
    assert_eq!(code(alloca(1)), StatusCode::ResourceExhausted);
    assert_eq!(code(device.replace_allocator(&first)), StatusCode::FailedPrecondition);
    assert!(Arc::ptr_eq(&device.allocator(), &second));
    drop(transient);
    device.trim().unwrap();
}

/// Memory of the test as a file.
fn memory_file(device: &dyn Device, bytes: &mut Arc<[u8]>, access: MemoryAccess) -> Arc<dyn File> {
    let data = NonNull::new(Arc::get_mut(bytes).unwrap().as_mut_ptr());
    let external = ExternalFile {
        r#type: ExternalFileType::HostAllocation,
        data,
        length: bytes.len() as u64,
        fd: -1,
        owner: Some(Arc::new(bytes.clone())),
    };
    // SAFETY: the owner keeps the bytes, and the test has no reference to them while queues use them.
    unsafe { device.import_file(QueueAffinity::ANY, access, &external, ExternalFileFlags::empty()) }.unwrap()
}

/// Reads bytes 2 to 6 of a file, and writes them to its beginning.
fn read_and_write_back(device: &dyn Device, file: &Arc<dyn File>) -> Result<Vec<u8>> {
    let (any, buffer, timeline) = (QueueAffinity::ANY, buffer_of(device, &[0; 8]), timeline(device));
    let first = [point(&timeline, 1)];
    device.queue_read(any, &[], &first, file, 2, &buffer, 1, 4, ReadFlags::empty())?;
    device.queue_write(any, &first, &[point(&timeline, 2)], &buffer, 1, file, 0, 4, WriteFlags::empty())?;
    timeline.wait(2, Some(Instant::now() + Duration::from_secs(10)))?;
    Ok(bytes_of(&*buffer))
}

#[test]
fn memory_is_read_and_written_as_a_file() {
    let device = device();
    let mut bytes: Arc<[u8]> = Arc::new([0, 1, 2, 3, 4, 5, 6, 7]);
    let file = memory_file(&*device, &mut bytes, MemoryAccess::READ | MemoryAccess::WRITE);
    assert_eq!((file.length(), file.supports_synchronous_io(), file.async_handle().unwrap()), (8, true, -1));
    assert_eq!(bytes_of(&*file.storage_buffer().unwrap()), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(read_and_write_back(&*device, &file).unwrap(), [0, 2, 3, 4, 5, 0, 0, 0]);
    drop(file);
    assert_eq!(*bytes, [2, 3, 4, 5, 4, 5, 6, 7]);
    assert_eq!(Arc::strong_count(&bytes), 1, "the owner was released");

    let file = memory_file(&*device, &mut bytes, MemoryAccess::READ);
    assert_eq!(code(read_and_write_back(&*device, &file)), StatusCode::PermissionDenied);
    let buffer = buffer_of(&*device, &[0; 8]);
    assert_eq!(code(file.read(5, &buffer, 0, 4)), StatusCode::OutOfRange);
    assert_eq!(code(file.read(u64::MAX, &buffer, 0, 4)), StatusCode::OutOfRange);
}

#[cfg(unix)]
#[test]
fn descriptors_are_read_and_written_as_files() {
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsRawFd;

    let device = device();
    let path = std::env::temp_dir().join(format!("vireo-hal-{}-{:p}", std::process::id(), Arc::as_ptr(&device)));
    let mut host = std::fs::File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    host.write_all(&[0, 1, 2, 3, 4, 5, 6, 7]).unwrap();
    let external =
        ExternalFile { r#type: ExternalFileType::Fd, data: None, length: 0, fd: host.as_raw_fd(), owner: None };
    let access = MemoryAccess::READ | MemoryAccess::WRITE;
    // SAFETY: the descriptor is open.
    let import = |external: &ExternalFile| unsafe {
        device.import_file(QueueAffinity::ANY, access, external, ExternalFileFlags::empty())
    };
    let file = import(&external).unwrap();
    assert_eq!((file.length(), file.storage_buffer().is_none()), (8, true));
    assert_eq!(read_and_write_back(&*device, &file).unwrap(), [0, 2, 3, 4, 5, 0, 0, 0]);
    let mut bytes = Vec::new();
    host.rewind().unwrap();
    host.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, [2, 3, 4, 5, 4, 5, 6, 7]);
    assert_eq!(code(file.read(5, &buffer_of(&*device, &[0; 8]), 0, 4)), StatusCode::OutOfRange);
    assert_eq!(code(import(&ExternalFile { fd: -1, ..external })), StatusCode::InvalidArgument);
}

/// A function that notes its calls.
#[derive(Debug, Default)]
struct Noted {
    calls: Mutex<Vec<(HostCallContext, usize)>>,
    signals_later: bool,
    kept: Mutex<Vec<Timepoint>>,
}

impl HostCall for Noted {
    fn call(&self, context: HostCallContext, signal: &[Timepoint]) -> Result<()> {
        self.calls.lock().unwrap().push((context, signal.len()));
        if self.signals_later {
            *self.kept.lock().unwrap() = signal.to_vec();
            return Err(Status::new(StatusCode::Deferred, "later"));
        }
        if context.args[0] == 13 { Err(Status::data_loss("unlucky")) } else { Ok(()) }
    }
}

#[test]
fn queues_call_the_host() {
    let (device, any) = (device(), QueueAffinity::ANY);
    let (noted, none) = (Arc::new(Noted::default()), HostCallFlags::empty());
    let call: Arc<dyn HostCall> = noted.clone();
    let (start, done) = (timeline(&*device), timeline(&*device));
    device.queue_host_call(any, &[point(&start, 1)], &[point(&done, 1)], &call, &[4, 5], none).unwrap();
    assert!(noted.calls.lock().unwrap().is_empty());
    start.signal(1).unwrap();
    assert_eq!(done.query().unwrap(), 1);
    let context = HostCallContext { queue_affinity: any, args: [4, 5, 0, 0] };
    assert_eq!(*noted.calls.lock().unwrap(), [(context, 1)]);

    // A failure of a call without waiters is lost, that of another one fails what it signals.
    let non_blocking = HostCallFlags::NON_BLOCKING;
    device.queue_host_call(any, &[], &[point(&done, 2)], &call, &[13], non_blocking).unwrap();
    assert_eq!(done.query().unwrap(), 2);
    device.queue_host_call(any, &[], &[], &call, &[13], non_blocking).unwrap();
    device.queue_host_call(any, &[], &[point(&done, 3)], &call, &[13], none).unwrap();
    assert_eq!(done.query().unwrap_err().to_string(), "DATA_LOSS: unlucky");
    assert_eq!(code(device.queue_host_call(any, &[], &[], &call, &[0; 5], none)), StatusCode::InvalidArgument);
    assert_eq!(noted.calls.lock().unwrap().len(), 4);
}

#[test]
fn a_call_of_the_host_may_signal_later() {
    let device = device();
    let noted = Arc::new(Noted { signals_later: true, ..Noted::default() });
    let (call, done): (Arc<dyn HostCall>, _) = (noted.clone(), timeline(&*device));
    let none = HostCallFlags::empty();
    device.queue_host_call(QueueAffinity::ANY, &[], &[point(&done, 1)], &call, &[], none).unwrap();
    device.queue_host_call(QueueAffinity::ANY, &[], &[], &call, &[], none).unwrap();
    assert_eq!(done.query().unwrap(), 0);
    let later = timeline(&*device);
    device.queue_host_call(QueueAffinity::ANY, &[], &[point(&later, 7)], &call, &[], none).unwrap();
    let kept = std::mem::take(&mut *noted.kept.lock().unwrap());
    assert_eq!((kept.len(), kept[0].value), (1, 7));
    kept[0].semaphore.signal(7).unwrap();
    assert_eq!(later.query().unwrap(), 7);
}
