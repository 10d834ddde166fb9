//! Fills, copies and updates in every alignment, files, and memory that the host does not reach.

use std::sync::Arc;

use vireo_hal::{
    Buffer, BufferParams, BufferUsage, ExternalBuffer, ExternalBufferType, MappingMode, MemoryAccess, MemoryType,
    QueueAffinity,
};

use super::support::{Machine, TestDevice, at, file, queue, wait};

const DEVICE: MemoryType = MemoryType::DEVICE_LOCAL;
const MACHINES: [&str; 4] =
    ["", "without=large-bar", "host-writes=until-flush", "host-writes=until-acquire,order=reversed"];

#[test]
fn transfers_write_their_range_and_nothing_else() {
    for topology in MACHINES {
        let machine = Machine::new(topology);
        let device = machine.device("", &[]);
        let (memory, other) = (device.buffer(128, DEVICE), device.buffer(128, MemoryType::HOST_LOCAL));
        let line = device.timeline();
        let mut expected = [0u8; 128];
        let any = QueueAffinity::ANY;
        let mut value = 0;
        for (offset, pattern, count) in [
            (0usize, &[1u8, 2, 3, 4][..], 4),
            (20, &[5], 3),
            (34, &[6, 7], 5),
            (48, &[1, 2, 3, 4, 5, 6, 7, 8], 2),
            (64, &[9], 16),
        ] {
            let length = pattern.len() * count;
            let (before, after) = ([at(&line, value)], [at(&line, value + 1)]);
            let (start, size) = (offset as u64, length as u64);
            device
                .queue_fill(any, &before, &after, &memory, start, size, pattern, Default::default())
                .expect("submits");
            expected[offset..offset + length].copy_from_slice(&pattern.repeat(count));
            value += 1;
        }
        let (before, after) = ([at(&line, value)], [at(&line, value + 1)]);
        device.queue_update(any, &before, &after, b"updated", &memory, 101, Default::default()).expect("submits");
        expected[101..108].copy_from_slice(b"updated");
        wait(&line, value + 1);
        assert_eq!(device.read(&memory), expected);
        let (before, after) = ([at(&line, value + 1)], [at(&line, value + 2)]);
        device.queue_copy(any, &before, &after, &memory, 3, &other, 10, 100, Default::default()).expect("submits");
        wait(&line, value + 2);
        let bytes = vireo_hal::buffer_to_vec(&*other, 128).expect("the host reaches it");
        assert_eq!((&bytes[..10], &bytes[10..110], &bytes[110..]), (&[0; 10][..], &expected[3..103], &[0; 18][..]));
    }
}

#[test]
fn writes_of_the_host_are_published() {
    for topology in MACHINES {
        let machine = Machine::new(topology);
        let device = machine.device("", &[]);
        let params = BufferParams {
            memory_type: DEVICE | MemoryType::HOST_VISIBLE | MemoryType::OPTIMAL,
            usage: BufferUsage::DEFAULT | BufferUsage::MAPPING,
            ..BufferParams::default()
        };
        let buffer = device.allocator().allocate_buffer(params, 64).expect("there is memory that both reach");
        for round in 1..=3u8 {
            vireo_hal::buffer_write(&*buffer, 0, &[round; 64]).expect("the host reaches it");
            assert_eq!(device.read(&buffer), [round; 64]);
        }
    }
}

#[test]
fn the_host_maps_only_what_it_reaches() {
    let machine = Machine::new("without=large-bar");
    let device = machine.device("", &[]);
    let hidden = device.buffer(64, DEVICE);
    assert_eq!(device.read(&hidden), [0; 64], "memory begins as zeros");
    assert!(hidden.map_range(MappingMode::SCOPED, MemoryAccess::READ, 0, 64).is_err());
    let statistics = device.allocator().statistics();
    assert_eq!(statistics.device_bytes_allocated, 64);
    drop(hidden);
    let statistics = device.allocator().statistics();
    assert_eq!((statistics.device_bytes_freed, statistics.device_bytes_peak), (64, 64));
}

#[test]
fn memory_of_the_host_is_imported_in_place() {
    let machine = Machine::new("");
    let device = machine.device("", &[]);
    #[repr(align(64))]
    struct Aligned([u8; 64]);
    let mut bytes = Box::new(Aligned([7; 64]));
    let data = std::ptr::NonNull::from(&mut bytes.0).cast();
    let external = ExternalBuffer { r#type: ExternalBufferType::HostAllocation, data, size: 64, owner: Arc::new(()) };
    // SAFETY: the bytes outlive the buffer, and nothing else uses them meanwhile.
    let buffer = unsafe { device.allocator().import_buffer(BufferParams::default(), &external) }.expect("it is pinned");
    let line = device.timeline();
    let target = device.buffer(64, DEVICE);
    let any = QueueAffinity::ANY;
    device.queue_copy(any, &[], &[at(&line, 1)], &buffer, 0, &target, 0, 64, Default::default()).expect("submits");
    device
        .queue_fill(any, &[at(&line, 1)], &[at(&line, 2)], &buffer, 0, 64, &[9], Default::default())
        .expect("submits");
    wait(&line, 2);
    drop(buffer);
    assert_eq!((device.read(&target), bytes.0), (vec![7; 64], [9; 64]));
}

#[test]
fn files_are_staged_where_the_host_does_not_reach_the_memory() {
    for topology in MACHINES {
        let machine = Machine::new(topology);
        let device = machine.device("", &[]);
        let length = (9usize << 20) + 13;
        let mut contents: Vec<u8> = (0..length).map(|index| ((index * 7) >> 3) as u8).collect();
        let mut written = vec![0u8; length];
        let (source, target) = (file(&device, &mut contents), file(&device, &mut written));
        let memory: Arc<dyn Buffer> = device.buffer(length as u64 + 5, DEVICE);
        let line = device.timeline();
        let (any, size) = (QueueAffinity::ANY, length as u64);
        let (read, wrote) = ([at(&line, 1)], [at(&line, 2)]);
        device.queue_read(any, &[], &read, &source, 0, &memory, 5, size, Default::default()).expect("submits");
        device.queue_write(any, &read, &wrote, &memory, 5, &target, 0, size, Default::default()).expect("submits");
        wait(&line, 2);
        let past = [at(&line, 3)];
        device.queue_read(any, &wrote, &past, &source, 1, &memory, 0, size, Default::default()).expect("submits");
        assert!(line.wait(3, None).is_err(), "that is past the end of the file");
        drop((source, target));
        assert!(written == contents);
    }
}

/// A file is copied in pieces by packets, which are submitted one after the other.
#[test]
fn transfers_of_files_outlive_their_device() {
    let machine = Machine::new("without=large-bar");
    let device = machine.device("", &[]);
    let length = (5usize << 20) + 13;
    let mut contents: Vec<u8> = (0..length).map(|index| ((index * 7) >> 3) as u8).collect();
    let mut written = vec![0u8; length];
    let (source, target) = (file(&device, &mut contents), file(&device, &mut written));
    let memory = device.buffer(length as u64, DEVICE);
    let line = device.timeline();
    let (any, size) = (QueueAffinity::ANY, length as u64);
    let (read, wrote) = ([at(&line, 1)], [at(&line, 2)]);
    device.queue_read(any, &[], &read, &source, 0, &memory, 0, size, Default::default()).expect("submits");
    device.queue_write(queue(0), &read, &wrote, &memory, 0, &target, 0, size, Default::default()).expect("submits");
    drop(device);
    wait(&line, 2);
    drop((source, target));
    assert!(written == contents);
}
