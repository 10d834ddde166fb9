//! Operations of queues, and what orders them.

use std::sync::Arc;
use std::thread;

use vireo::hal::pool::{MemoryPool, PoolOptions};
use vireo::hal::*;
use vireo::{Status, StatusCode};

use super::*;

pub fn fills_updates_and_copies_transfer(backend: &Backend) {
    let device = backend.device();
    let buffer = buffer_of(&*device, &[0; 32]);
    for (offset, pattern) in [(0, &[1][..]), (8, &[1, 2]), (16, &[1, 2, 3, 4]), (24, &[1, 2, 3, 4, 5, 6, 7, 8])] {
        outcome(&*device, |signal| {
            device.queue_fill(ANY, &[], signal, &buffer, offset, 8, pattern, FillFlags::empty())
        })
        .unwrap();
    }
    let bytes = bytes_of(&*buffer);
    assert_eq!(bytes[..16], [1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 1, 2, 1, 2, 1, 2]);
    assert_eq!(bytes[16..], [1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8]);
    // The bytes of an update are taken when it is submitted.
    let start = timeline(&*device);
    let mut source = vec![5, 6, 7];
    let done = timeline(&*device);
    let (wait, signal) = ([point(&start, 1)], [point(&done, 1)]);
    device.queue_update(ANY, &wait, &signal, &source, &buffer, 1, UpdateFlags::empty()).unwrap();
    source.fill(0);
    start.signal(1).unwrap();
    done.wait(1, in_time()).unwrap();
    assert_eq!(bytes_of(&*buffer)[..5], [1, 5, 6, 7, 1]);
    let target = buffer_of(&*device, &[0; 8]);
    outcome(&*device, |signal| device.queue_copy(ANY, &[], signal, &buffer, 1, &target, 3, 4, CopyFlags::empty()))
        .unwrap();
    assert_eq!(bytes_of(&*target), [0, 0, 0, 5, 6, 7, 1, 0]);
    let all = |signal: &[Timepoint]| {
        device.queue_copy(ANY, &[], signal, &buffer, 24, &target, 0, WHOLE_BUFFER, CopyFlags::empty())
    };
    outcome(&*device, all).unwrap();
    assert_eq!(bytes_of(&*target), [1, 2, 3, 4, 5, 6, 7, 8]);
}

pub fn overlapping_ranges_are_copied_as_if_through_a_third_place(backend: &Backend) {
    let device = backend.device();
    let bytes: Vec<u8> = (0..=255).collect();
    for (source, target) in [(0u64, 3u64), (3, 0), (0, 100), (100, 50), (7, 7)] {
        let buffer = buffer_of(&*device, &bytes);
        let copy = |signal: &[Timepoint]| {
            device.queue_copy(ANY, &[], signal, &buffer, source, &buffer, target, 150, CopyFlags::empty())
        };
        outcome(&*device, copy).unwrap();
        let mut expected = bytes.clone();
        expected.copy_within(source as usize..source as usize + 150, target as usize);
        assert_eq!(bytes_of(&*buffer), expected, "{source} to {target}");
    }
}

pub fn operations_wait_for_their_points(backend: &Backend) {
    let device = backend.device();
    let (a, b, done) = (timeline(&*device), timeline(&*device), timeline(&*device));
    let buffer = buffer_of(&*device, &[0; 4]);
    let wait = [point(&a, 2), point(&b, 1)];
    device.queue_fill(ANY, &wait, &[point(&done, 5)], &buffer, 0, 4, &[7], FillFlags::empty()).unwrap();
    device.queue_flush(ANY).unwrap();
    a.signal(1).unwrap();
    b.signal(1).unwrap();
    a.signal(2).unwrap();
    done.wait(5, in_time()).unwrap();
    assert_eq!((bytes_of(&*buffer), done.query().unwrap()), (vec![7; 4], 5));
    // Several points are signaled at once.
    let signal = [point(&a, 3), point(&b, 9), point(&done, 6)];
    device.queue_barrier(ANY, &[point(&done, 5)], &signal, ExecuteFlags::empty()).unwrap();
    wait_all(&signal, in_time()).unwrap();
}

pub fn waits_come_before_their_signals(backend: &Backend) {
    let device = backend.device();
    let line = timeline(&*device);
    let buffer = buffer_of(&*device, &[0; 8]);
    // Each operation doubles what the one before it left; they are submitted last first.
    for step in (0..3u64).rev() {
        let (wait, signal) = ([point(&line, step + 1)], [point(&line, step + 2)]);
        let length = 1 << step;
        device.queue_copy(ANY, &wait, &signal, &buffer, 0, &buffer, length, length, CopyFlags::empty()).unwrap();
    }
    assert_eq!(line.query().unwrap(), 0);
    device.queue_update(ANY, &[], &[point(&line, 1)], &[9], &buffer, 0, UpdateFlags::empty()).unwrap();
    line.wait(4, in_time()).unwrap();
    assert_eq!(bytes_of(&*buffer), [9; 8]);
}

/// A pool of the host, over memory of the device.
pub fn transients_come_from_the_pool_that_is_named(backend: &Backend) {
    let device = backend.device();
    if !device.supports(OptionalMethod::DeviceQueuePoolBackend.name()) {
        return;
    }
    let slabs = device.queue_pool_backend(ANY).unwrap();
    // The host may not reach it.
    let wanted = BufferParams { memory_type: slabs.properties().memory_type, usage: BufferUsage::DEFAULT, ..params() };
    let pool: Arc<dyn Pool> = Arc::new(MemoryPool::fixed_block(slabs, 4096, 2, PoolOptions::default()).unwrap());
    let line = timeline(&*device);
    let at = |value| [point(&line, value)];
    let buffer = device.queue_alloca(ANY, &[], &at(1), Some(&pool), wanted, 4000, AllocaFlags::empty()).unwrap();
    let target = buffer_of(&*device, &[0; 4000]);
    device.queue_fill(ANY, &at(1), &at(2), &buffer, 0, 4000, &[7], FillFlags::empty()).unwrap();
    device.queue_copy(ANY, &at(2), &at(3), &buffer, 0, &target, 0, 4000, CopyFlags::empty()).unwrap();
    line.wait(3, in_time()).unwrap();
    assert_eq!((bytes_of(&*target), pool.stats().reservation_count), (vec![7; 4000], 1));
    device.queue_dealloca(ANY, &at(3), &at(4), &buffer, DeallocaFlags::empty()).unwrap();
    line.wait(4, in_time()).unwrap();
    assert_eq!(pool.stats().reservation_count, 0);
    let too_large = |signal: &[Timepoint]| {
        device.queue_alloca(ANY, &[], signal, Some(&pool), wanted, 5000, AllocaFlags::empty()).map(drop)
    };
    assert_eq!(code(outcome(&*device, too_large)), StatusCode::InvalidArgument);
}

pub fn transients_have_memory_between_alloca_and_dealloca(backend: &Backend) {
    let device = backend.device();
    for size in [1, 64, 1000, 5000, 1 << 20] {
        let (start, line) = (timeline(&*device), timeline(&*device));
        let at = |value| [point(&line, value)];
        let wait = [point(&start, 1)];
        let buffer = device.queue_alloca(ANY, &wait, &at(1), None, params(), size, AllocaFlags::empty()).unwrap();
        assert_eq!((buffer.byte_length(), buffer.byte_offset()), (size, 0));
        if !backend.commits_early() {
            assert_eq!(code(buffer_read(&*buffer, 0, &mut [0])), StatusCode::FailedPrecondition);
        }
        device.queue_fill(ANY, &at(1), &at(2), &buffer, 0, size, &[7], FillFlags::empty()).unwrap();
        let target = buffer_of(&*device, &vec![0; size as usize]);
        device.queue_copy(ANY, &at(2), &at(3), &buffer, 0, &target, 0, size, CopyFlags::empty()).unwrap();
        device.queue_dealloca(ANY, &at(3), &at(4), &buffer, DeallocaFlags::empty()).unwrap();
        start.signal(1).unwrap();
        line.wait(4, in_time()).unwrap();
        assert_eq!(bytes_of(&*target), vec![7; size as usize], "{size} bytes");
        assert_eq!(code(buffer_read(&*buffer, 0, &mut [0])), StatusCode::FailedPrecondition);
        let again =
            outcome(&*device, |signal| device.queue_dealloca(ANY, &[], signal, &buffer, DeallocaFlags::empty()));
        assert_eq!(code(again), StatusCode::FailedPrecondition);
    }
    // A buffer that no queue reserved lives on.
    let plain = buffer_of(&*device, &[3; 4]);
    outcome(&*device, |signal| device.queue_dealloca(ANY, &[], signal, &plain, DeallocaFlags::empty())).unwrap();
    assert_eq!(bytes_of(&*plain), [3; 4]);
    // An allocation that cannot be fails what waits for it.
    let line = timeline(&*device);
    let huge = device.queue_alloca(ANY, &[], &[point(&line, 1)], None, params(), u64::MAX / 2, AllocaFlags::empty());
    match huge {
        Ok(_) => assert_eq!(code(line.wait(1, in_time())), StatusCode::ResourceExhausted),
        Err(status) => assert_eq!(status.code(), StatusCode::ResourceExhausted),
    }
}

/// Parameters without access, as the HAL module passes them, are those of a buffer that everyone may access.
pub fn transients_without_access_have_all(backend: &Backend) {
    let device = backend.device();
    let params = BufferParams { access: MemoryAccess::empty(), ..params() };
    let line = timeline(&*device);
    let at = |value| [point(&line, value)];
    let buffer = device.queue_alloca(ANY, &[], &at(1), None, params, 256, AllocaFlags::empty()).unwrap();
    assert!(
        buffer.allowed_access().contains(MemoryAccess::READ | MemoryAccess::WRITE),
        "{:?}",
        buffer.allowed_access()
    );
    line.wait(1, in_time()).unwrap();
    let commands = record(&*device, CommandBufferMode::empty(), 0);
    commands.fill_buffer(&whole(&buffer), &[0x55, 0xAA], FillFlags::empty()).unwrap();
    commands.end().unwrap();
    execute(&*device, &commands, &[]).unwrap();
    assert_eq!(bytes_of(&*buffer), [0x55, 0xAA].repeat(128));
    device.queue_fill(ANY, &[], &at(2), &buffer, 0, 256, &[3], FillFlags::empty()).unwrap();
    line.wait(2, in_time()).unwrap();
    assert_eq!(bytes_of(&*buffer), [3; 256]);
    device.queue_dealloca(ANY, &[], &at(3), &buffer, DeallocaFlags::empty()).unwrap();
    line.wait(3, in_time()).unwrap();
}

/// A deallocation whose wait has failed has not happened: the buffer is as before, and can be deallocated.
pub fn transients_outlive_a_failed_dealloca(backend: &Backend) {
    let device = backend.device();
    for size in [256, 1 << 20] {
        let line = timeline(&*device);
        let at = |value| [point(&line, value)];
        let buffer = device.queue_alloca(ANY, &[], &at(1), None, params(), size, AllocaFlags::empty()).unwrap();
        device.queue_fill(ANY, &at(1), &at(2), &buffer, 0, size, &[0xAB], FillFlags::empty()).unwrap();
        line.wait(2, in_time()).unwrap();
        let failed = timeline(&*device);
        failed.fail(Status::new(StatusCode::Cancelled, "the wait of the deallocation"));
        let refused = outcome(&*device, |signal| {
            device.queue_dealloca(ANY, &[point(&failed, 1)], signal, &buffer, DeallocaFlags::empty())
        });
        assert_eq!(code(refused), StatusCode::Cancelled);
        assert_eq!(bytes_of(&*buffer), vec![0xAB; size as usize]);
        device.queue_fill(ANY, &at(2), &at(3), &buffer, 0, size, &[0xCD], FillFlags::empty()).unwrap();
        line.wait(3, in_time()).unwrap();
        assert_eq!(bytes_of(&*buffer), vec![0xCD; size as usize]);
        device.queue_dealloca(ANY, &at(3), &at(4), &buffer, DeallocaFlags::empty()).unwrap();
        line.wait(4, in_time()).unwrap();
        assert_eq!(code(buffer_read(&*buffer, 0, &mut [0])), StatusCode::FailedPrecondition);
    }
}

/// A deallocation need not name the queue that reserved the buffer.
pub fn transients_go_back_to_their_origin(backend: &Backend) {
    let device = backend.device();
    for queue in 0..backend.queues {
        let affinity = QueueAffinity::from_bits_retain(1 << queue);
        let line = timeline(&*device);
        let at = |value| [point(&line, value)];
        let buffer = device.queue_alloca(affinity, &[], &at(1), None, params(), 1024, AllocaFlags::empty()).unwrap();
        let nowhere = QueueAffinity::empty();
        device.queue_dealloca(nowhere, &at(1), &at(2), &buffer, DeallocaFlags::PREFER_ORIGIN).unwrap();
        line.wait(2, in_time()).unwrap();
        assert_eq!(code(buffer_read(&*buffer, 0, &mut [0])), StatusCode::FailedPrecondition);
    }
    // A buffer that no queue reserved has no origin, and lives on.
    let plain = buffer_of(&*device, &[3; 4]);
    outcome(&*device, |signal| device.queue_dealloca(ANY, &[], signal, &plain, DeallocaFlags::PREFER_ORIGIN)).unwrap();
    assert_eq!(bytes_of(&*plain), [3; 4]);
}

/// The last use of the memory is not known, so that deallocations are barriers, and it goes with the buffer.
pub fn transients_of_indeterminate_lifetime_stay(backend: &Backend) {
    let device = backend.device();
    for size in [100, 1 << 20] {
        let line = timeline(&*device);
        let at = |value| [point(&line, value)];
        let flags = AllocaFlags::INDETERMINATE_LIFETIME;
        let buffer = device.queue_alloca(ANY, &[], &at(1), None, params(), size, flags).unwrap();
        device.queue_dealloca(ANY, &at(1), &at(2), &buffer, DeallocaFlags::empty()).unwrap();
        device.queue_dealloca(ANY, &at(2), &at(3), &buffer, DeallocaFlags::PREFER_ORIGIN).unwrap();
        device.queue_fill(ANY, &at(3), &at(4), &buffer, 0, size, &[7], FillFlags::empty()).unwrap();
        line.wait(4, in_time()).unwrap();
        assert_eq!(bytes_of(&*buffer), vec![7; size as usize]);
    }
}

/// An update of a queue may be longer than a recorded one.
pub fn updates_are_as_long_as_they_like(backend: &Backend) {
    let device = backend.device();
    let length = 2 * MAX_UPDATE_SIZE as usize + 1003;
    let source: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
    let buffer = buffer_of(&*device, &vec![0xEE; length + 8]);
    outcome(&*device, |signal| device.queue_update(ANY, &[], signal, &source, &buffer, 3, UpdateFlags::empty()))
        .unwrap();
    assert_eq!(bytes_of(&*buffer), [&[0xEE; 3], &source[..], &[0xEE; 5]].concat());
    let longest = &source[..MAX_UPDATE_SIZE as usize];
    let commands = record(&*device, CommandBufferMode::empty(), 0);
    commands.update_buffer(longest, &range(&buffer, 0, MAX_UPDATE_SIZE), UpdateFlags::empty()).unwrap();
    let more = &source[..MAX_UPDATE_SIZE as usize + 1];
    let refused = commands.update_buffer(more, &range(&buffer, 0, MAX_UPDATE_SIZE + 1), UpdateFlags::empty());
    assert_eq!(code(refused), StatusCode::OutOfRange);
    commands.end().unwrap();
    execute(&*device, &commands, &[]).unwrap();
    assert_eq!(bytes_of(&*buffer)[..longest.len()], *longest);
}

pub fn failures_reach_everyone_with_their_cause(backend: &Backend) {
    let device = backend.device();
    let [first, second, third] = [(); 3].map(|()| timeline(&*device));
    let buffer = buffer_of(&*device, &[0; 4]);
    // Some wait when the failure comes, others come later.
    let barrier = |wait: &Arc<dyn Semaphore>, signal: &Arc<dyn Semaphore>, value| {
        device.queue_barrier(ANY, &[point(wait, 1)], &[point(signal, value)], ExecuteFlags::empty()).unwrap();
    };
    barrier(&second, &third, 1);
    barrier(&first, &second, 1);
    let fill = |signal: &[Timepoint]| device.queue_fill(ANY, &[], signal, &buffer, 2, 3, &[1], FillFlags::empty());
    match fill(&[point(&first, 1)]) {
        Ok(()) => {}
        Err(refused) => first.fail(refused),
    }
    let cause = first.wait(1, in_time()).unwrap_err();
    assert_eq!(cause.code(), StatusCode::OutOfRange);
    let fourth = timeline(&*device);
    barrier(&third, &fourth, 9);
    for line in [second, third, fourth] {
        let failure = line.wait(1, in_time()).unwrap_err();
        assert_eq!((failure.code(), failure.message()), (cause.code(), cause.message()));
    }
    assert_eq!(bytes_of(&*buffer), [0; 4]);
}

pub fn what_a_queue_cannot_do_fails(backend: &Backend) {
    let device = backend.device();
    let buffer = buffer_of(&*device, &[0; 8]);
    let fill = |offset, length, pattern: &[u8]| {
        outcome(&*device, |signal| {
            device.queue_fill(ANY, &[], signal, &buffer, offset, length, pattern, FillFlags::empty())
        })
    };
    for (offset, length, pattern, expected) in [
        (4, 5, &[1][..], StatusCode::OutOfRange),
        (u64::MAX, 1, &[1], StatusCode::OutOfRange),
        (1, u64::MAX - 1, &[1], StatusCode::OutOfRange),
        (0, 8, &[1, 2, 3], StatusCode::InvalidArgument),
        (0, 8, &[], StatusCode::InvalidArgument),
        (2, 4, &[1, 2, 3, 4], StatusCode::InvalidArgument),
        (0, 6, &[1, 2, 3, 4], StatusCode::InvalidArgument),
    ] {
        assert_eq!(code(fill(offset, length, pattern)), expected, "{length} at {offset} with {pattern:?}");
    }
    let copy = |from, to, length| {
        outcome(&*device, |signal| {
            device.queue_copy(ANY, &[], signal, &buffer, from, &buffer, to, length, CopyFlags::empty())
        })
    };
    for (from, to, length) in [(0, 5, 4), (5, 0, 4), (9, 0, 0), (0, u64::MAX, 1), (4, 5, WHOLE_BUFFER)] {
        assert_eq!(code(copy(from, to, length)), StatusCode::OutOfRange, "{length} from {from} to {to}");
    }
    let update =
        outcome(&*device, |signal| device.queue_update(ANY, &[], signal, &[1; 4], &buffer, 5, UpdateFlags::empty()));
    assert_eq!(code(update), StatusCode::OutOfRange);
    assert_eq!(bytes_of(&*buffer), [0; 8]);
}

pub fn long_chains_complete(backend: &Backend) {
    const LENGTH: u64 = 20_000;
    let device = backend.device();
    let line = timeline(&*device);
    for value in (1..LENGTH).rev() {
        let (wait, signal) = ([point(&line, value)], [point(&line, value + 1)]);
        device.queue_barrier(ANY, &wait, &signal, ExecuteFlags::empty()).unwrap();
    }
    line.signal(1).unwrap();
    line.wait(LENGTH, in_time()).unwrap();
}

pub fn many_threads_submit(backend: &Backend) {
    let device = backend.device();
    let buffer = buffer_of(&*device, &[0; 64]);
    thread::scope(|scope| {
        for index in 0..8u64 {
            let (device, buffer) = (&device, &buffer);
            scope.spawn(move || {
                let line = timeline(&**device);
                for value in 0..200 {
                    let (wait, signal) = ([point(&line, value)], [point(&line, value + 1)]);
                    let pattern = [index as u8];
                    device.queue_fill(ANY, &wait, &signal, buffer, index * 8, 8, &pattern, FillFlags::empty()).unwrap();
                }
                line.wait(200, in_time()).unwrap();
            });
        }
    });
    let expected: Vec<u8> = (0..64).map(|byte| byte / 8).collect();
    assert_eq!(bytes_of(&*buffer), expected);
}

/// Two devices and the host pass a value on: each waits for the timeline of another.
pub fn timelines_of_other_devices_order_operations(backend: &Backend) {
    let (first, second) = (backend.device(), create("local-sync"));
    let (a, b, host) = (timeline(&*first), timeline(&*second), Arc::new(HostSemaphore::new(0)) as Arc<dyn Semaphore>);
    let buffer = buffer_of(&*first, &[0; 3]);
    let fill = |device: &dyn Device, wait: &[Timepoint], signal: &[Timepoint], offset, value| {
        device.queue_fill(ANY, wait, signal, &buffer, offset, 1, &[value], FillFlags::empty()).unwrap();
    };
    second.queue_copy(ANY, &[point(&a, 1)], &[point(&b, 1)], &buffer, 0, &buffer, 1, 1, CopyFlags::empty()).unwrap();
    first.queue_copy(ANY, &[point(&b, 1)], &[point(&a, 2)], &buffer, 1, &buffer, 2, 1, CopyFlags::empty()).unwrap();
    fill(&*first, &[point(&host, 1)], &[point(&a, 1)], 0, 8);
    host.signal(1).unwrap();
    a.wait(2, in_time()).unwrap();
    assert_eq!(bytes_of(&*buffer), [8; 3]);
    // Failures cross devices too.
    let failed = timeline(&*second);
    second.queue_barrier(ANY, &[point(&a, 3)], &[point(&failed, 1)], ExecuteFlags::empty()).unwrap();
    a.fail(Status::data_loss("gone"));
    assert_eq!(failed.wait(1, in_time()).unwrap_err().to_string(), "DATA_LOSS: gone");
}
