//! Allocators and buffers.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use vireo::StatusCode;
use vireo::hal::*;

use super::*;

pub fn buffers_are_zero_and_aligned(backend: &Backend) {
    let device = backend.device();
    let allocator = device.allocator();
    for alignment in [0, 1, 64, 256, 4096] {
        for size in [0, 1, 63, 64, 1000, 70_000] {
            let params = BufferParams { min_alignment: alignment, ..params() };
            let buffer = allocator.allocate_buffer(params, size).unwrap();
            assert_eq!((buffer.byte_offset(), buffer.byte_length()), (0, size));
            assert!(buffer.allocation_size() >= size);
            assert!(bytes_of(&*buffer).iter().all(|byte| *byte == 0), "{size} bytes at {alignment}");
            let mapping = buffer.map_range(MappingMode::SCOPED, MemoryAccess::READ, 0, WHOLE_BUFFER).unwrap();
            assert_eq!(mapping.length, size);
            assert!((mapping.data.as_ptr() as u64).is_multiple_of(alignment.max(1)), "{size} bytes at {alignment}");
            drop(mapping);
            buffer_write(&*buffer, 0, &vec![0xAA; size as usize]).unwrap();
            assert_eq!(bytes_of(&*buffer), vec![0xAA; size as usize]);
        }
    }
    let odd = BufferParams { min_alignment: 3, ..params() };
    assert_eq!(code(allocator.allocate_buffer(odd, 8)), StatusCode::InvalidArgument);
    assert_eq!(code(allocator.allocate_buffer(params(), u64::MAX / 2)), StatusCode::ResourceExhausted);
}

pub fn buffers_check_ranges_usage_and_access(backend: &Backend) {
    let device = backend.device();
    let buffer = buffer_of(&*device, &[1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(buffer.memory_type().contains(MemoryType::HOST_VISIBLE | MemoryType::DEVICE_VISIBLE));
    assert!(buffer.allowed_access().contains(MemoryAccess::READ | MemoryAccess::WRITE));
    assert!(buffer.allowed_usage().contains(BufferUsage::DEFAULT | BufferUsage::MAPPING));
    let map = |mode, offset, length| buffer.map_range(mode, MemoryAccess::READ, offset, length);
    for (offset, length) in [(9, 0), (0, 9), (7, 2), (u64::MAX, 1), (1, u64::MAX - 1), (9, WHOLE_BUFFER)] {
        assert_eq!(code(map(MappingMode::SCOPED, offset, length)), StatusCode::OutOfRange, "{offset} {length}");
        assert_eq!(code(buffer.flush_range(offset, length)), StatusCode::OutOfRange, "{offset} {length}");
        assert_eq!(code(buffer.invalidate_range(offset, length)), StatusCode::OutOfRange, "{offset} {length}");
    }
    assert_eq!(map(MappingMode::SCOPED, 3, WHOLE_BUFFER).unwrap().length, 5);
    assert_eq!(map(MappingMode::SCOPED, 8, 0).unwrap().length, 0);
    buffer.flush_range(0, WHOLE_BUFFER).unwrap();
    buffer.invalidate_range(2, 6).unwrap();
    buffer_fill(&*buffer, 2, 4, &[0xAA, 0xBB]).unwrap();
    assert_eq!(bytes_of(&*buffer), [1, 2, 0xAA, 0xBB, 0xAA, 0xBB, 7, 8]);
}

pub fn parts_share_the_memory_of_the_whole(backend: &Backend) {
    let device = backend.device();
    let buffer = buffer_of(&*device, &[0, 1, 2, 3, 4, 5, 6, 7]);
    assert!(buffer.allocation().is_none());
    let part = subspan(&buffer, 2, 5).unwrap();
    let inner = subspan(&part, 1, WHOLE_BUFFER).unwrap();
    assert_eq!((inner.byte_offset(), inner.byte_length()), (3, 4));
    assert!(inner.allocation().is_some());
    assert_eq!(inner.allocation_size(), buffer.allocation_size());
    assert_eq!(bytes_of(&*inner), [3, 4, 5, 6]);
    // Ranges of operations are those of the part.
    outcome(&*device, |signal| device.queue_fill(ANY, &[], signal, &inner, 2, WHOLE_BUFFER, &[9], FillFlags::empty()))
        .unwrap();
    assert_eq!(bytes_of(&*buffer), [0, 1, 2, 3, 4, 9, 9, 7]);
    let beyond =
        outcome(&*device, |signal| device.queue_fill(ANY, &[], signal, &inner, 0, 5, &[9], FillFlags::empty()));
    assert_eq!(code(beyond), StatusCode::OutOfRange);
    assert_eq!(code(subspan(&part, 3, 3)), StatusCode::OutOfRange);
}

pub fn holders_are_counted(backend: &Backend) {
    let device = backend.device();
    let buffer = buffer_of(&*device, &[0; 16]);
    assert!(buffer.is_terminal());
    buffer.preserve();
    assert!(!buffer.is_terminal());
    let part = subspan(&buffer, 0, 4).unwrap();
    part.preserve();
    assert!(!part.discard());
    assert!(!buffer.discard());
    assert!(part.is_terminal());
    assert!(part.discard());
}

pub fn allocators_say_what_they_do(backend: &Backend) {
    let device = backend.device();
    let allocator = device.allocator();
    let heaps = allocator.memory_heaps();
    assert!(!heaps.is_empty());
    for heap in &heaps {
        assert!(heap.min_alignment.is_power_of_two() && heap.max_allocation_size > 0, "{heap:?}");
        assert!(heap.memory_type.contains(MemoryType::DEVICE_VISIBLE), "{heap:?}");
    }
    let placement = allocator.buffer_compatibility(params(), 100);
    let needed = BufferCompatibility::ALLOCATABLE | BufferCompatibility::QUEUE_TRANSFER;
    assert!(placement.compatibility.contains(needed), "{placement:?}");
    assert!(placement.allocation_size >= 100);
    let before = allocator.statistics();
    let buffer = allocator.allocate_buffer(params(), 1000).unwrap();
    assert!(placement.params.memory_type.contains(MemoryType::DEVICE_VISIBLE));
    assert_eq!(buffer.memory_type(), placement.params.memory_type);
    assert_eq!(buffer.allowed_usage(), placement.params.usage);
    let during = allocator.statistics();
    assert_eq!(during.device_bytes_allocated - before.device_bytes_allocated, 1000);
    assert!(during.device_bytes_peak >= 1000);
    drop(buffer);
    allocator.trim().unwrap();
    device.trim().unwrap();
    let after = allocator.statistics();
    assert_eq!(after.device_bytes_freed - before.device_bytes_freed, 1000);
}

#[repr(align(64))]
struct Aligned([u8; 128]);

pub fn memory_is_imported_and_exported_in_place(backend: &Backend) {
    let device = backend.device();
    let allocator = device.allocator();
    let mut owner = Arc::new(Aligned([7; 128]));
    let data = NonNull::from(&mut Arc::get_mut(&mut owner).unwrap().0).cast::<u8>();
    let external = |data: NonNull<u8>, size| {
        let owner: Arc<dyn Any + Send + Sync> = owner.clone();
        ExternalBuffer { r#type: ExternalBufferType::HostAllocation, data, size, owner }
    };
    // Memory of the host is not local to GPUs.
    let memory_type =
        if backend.is_gpu { MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE } else { params().memory_type };
    let writable = BufferParams { access: MemoryAccess::READ | MemoryAccess::WRITE, memory_type, ..params() };
    // SAFETY: the owner keeps the bytes, and they are reached through this pointer only.
    let buffer = unsafe { allocator.import_buffer(writable, &external(data, 128)) }.unwrap();
    outcome(&*device, |signal| device.queue_fill(ANY, &[], signal, &buffer, 0, 4, &[1], FillFlags::empty())).unwrap();
    // SAFETY: there is no other reference to the bytes now.
    assert_eq!(unsafe { data.cast::<[u8; 6]>().read() }, [1, 1, 1, 1, 7, 7]);
    if device.supports(OptionalMethod::AllocatorExportBuffer.name()) {
        let exported =
            allocator.export_buffer(&buffer, ExternalBufferType::HostAllocation, ExternalBufferFlags::empty());
        assert_eq!(exported.unwrap().data, data);
    }
    drop(buffer);

    let read_only = BufferParams { access: MemoryAccess::READ, memory_type, ..params() };
    // SAFETY: there is no other reference to the bytes now.
    let buffer = unsafe { allocator.import_buffer(read_only, &external(data, 64)) }.unwrap();
    let filled =
        outcome(&*device, |signal| device.queue_fill(ANY, &[], signal, &buffer, 0, 4, &[2], FillFlags::empty()));
    assert_eq!(code(filled), StatusCode::PermissionDenied);
    let target = buffer_of(&*device, &[0; 4]);
    outcome(&*device, |signal| device.queue_copy(ANY, &[], signal, &buffer, 2, &target, 0, 4, CopyFlags::empty()))
        .unwrap();
    assert_eq!(bytes_of(&*target), [1, 1, 7, 7]);
    // SAFETY: still within the bytes.
    let misaligned = unsafe { data.add(1) };
    // SAFETY: still within the bytes.
    let refused = unsafe { allocator.import_buffer(read_only, &external(misaligned, 8)) };
    assert_eq!(code(refused), StatusCode::Unavailable);
    drop(buffer);
    assert_eq!(Arc::strong_count(&owner), 1, "the owner was released");
}

/// Memory whose maker need not know when the buffer is gone: its owner keeps nothing.
pub fn memory_of_others_needs_no_owner(backend: &Backend) {
    let device = backend.device();
    let mut bytes = Box::new(Aligned([7; 128]));
    let data = NonNull::from(&mut bytes.0).cast::<u8>();
    let memory_type =
        if backend.is_gpu { MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE } else { params().memory_type };
    let params = BufferParams { access: MemoryAccess::READ | MemoryAccess::WRITE, memory_type, ..params() };
    for round in 1..3 {
        let external =
            ExternalBuffer { r#type: ExternalBufferType::HostAllocation, data, size: 128, owner: Arc::new(()) };
        // SAFETY: the box outlives the buffer, and its bytes are reached through this pointer only.
        let buffer = unsafe { device.allocator().import_buffer(params, &external) }.unwrap();
        let fill = |signal: &[Timepoint]| {
            device.queue_fill(ANY, &[], signal, &buffer, 0, WHOLE_BUFFER, &[round], FillFlags::empty())
        };
        outcome(&*device, fill).unwrap();
        drop(buffer);
        // SAFETY: `bytes` is alive, and the buffer, the only other user of its memory, was dropped.
        assert_eq!(unsafe { data.cast::<[u8; 128]>().read() }, [round; 128]);
    }
}

/// Bytes that the host writes through a part of a buffer are in that part, and nowhere else.
pub fn hosts_write_parts(backend: &Backend) {
    let device = backend.device();
    let buffer = buffer_of(&*device, &[0xEE; 16]);
    let part = subspan(&buffer, 4, 8).unwrap();
    buffer_fill(&*part, 2, 4, &[0]).unwrap();
    assert_eq!(bytes_of(&*part), [0xEE, 0xEE, 0, 0, 0, 0, 0xEE, 0xEE]);
    buffer_fill(&*part, 0, WHOLE_BUFFER, &[1, 2, 3, 4]).unwrap();
    buffer_write(&*part, 5, &[9, 8]).unwrap();
    let expected = [[0xEE; 4], [1, 2, 3, 4], [1, 9, 8, 4], [0xEE; 4]].concat();
    assert_eq!(bytes_of(&*buffer), expected);
    // Nothing is written by a fill or a write of nothing, wherever it begins.
    for offset in [0, 3, 8] {
        buffer_fill(&*part, offset, 0, &[5]).unwrap();
        buffer_write(&*part, offset, &[]).unwrap();
    }
    assert_eq!(code(buffer_fill(&*part, 9, 0, &[5])), StatusCode::OutOfRange);
    assert_eq!(code(buffer_fill(&*part, 4, 5, &[5])), StatusCode::OutOfRange);
    assert_eq!(code(buffer_write(&*part, 7, &[5, 5])), StatusCode::OutOfRange);
    assert_eq!(bytes_of(&*buffer), expected);
}

pub fn hosts_copy_between_buffers(backend: &Backend) {
    let device = backend.device();
    let (source, target) = (buffer_of(&*device, &[1, 2, 3, 4, 5, 6, 7, 8]), buffer_of(&*device, &[0; 8]));
    buffer_copy(&*source, 2, &*target, 1, 4).unwrap();
    assert_eq!(bytes_of(&*target), [0, 3, 4, 5, 6, 0, 0, 0]);
    buffer_copy(&*source, 0, &*target, 0, WHOLE_BUFFER).unwrap();
    assert_eq!(bytes_of(&*target), bytes_of(&*source));
    buffer_copy(&*source, 8, &*target, 0, 0).unwrap();
    // Parts of one buffer, which overlap.
    buffer_copy(&*source, 0, &*source, 3, 5).unwrap();
    assert_eq!(bytes_of(&*source), [1, 2, 3, 1, 2, 3, 4, 5]);
    for (from, to, length) in [(5, 0, 4), (0, 5, 4), (9, 0, 0), (0, 0, 9)] {
        assert_eq!(code(buffer_copy(&*source, from, &*target, to, length)), StatusCode::OutOfRange);
    }
}

/// Bytes that are written to a mapping are in the buffer, for the host and for queues, whatever it held.
pub fn mappings_are_written(backend: &Backend) {
    let device = backend.device();
    for (round, access) in (1..).zip([MemoryAccess::WRITE, MemoryAccess::DISCARD_WRITE]) {
        let buffer = buffer_of(&*device, &[0xEE; 8]);
        let mapping = buffer.map_range(MappingMode::SCOPED, access, 2, 4).unwrap();
        assert_eq!(mapping.length, 4);
        // SAFETY: the mapping has four bytes from `data` on, and no other mapping or operation uses the buffer.
        unsafe { mapping.data.cast::<[u8; 4]>().write([round; 4]) };
        drop(mapping);
        buffer.flush_range(2, 4).unwrap();
        assert_eq!(bytes_of(&*buffer)[2..6], [round; 4]);
        let target = buffer_of(&*device, &[0; 4]);
        let copy =
            |signal: &[Timepoint]| device.queue_copy(ANY, &[], signal, &buffer, 2, &target, 0, 4, CopyFlags::empty());
        outcome(&*device, copy).unwrap();
        assert_eq!(bytes_of(&*target), [round; 4]);
    }
}

#[derive(Debug)]
struct NoMemory;

impl PhysicalMemory for NoMemory {}

pub fn virtual_memory_works_or_is_refused(backend: &Backend) {
    let device = backend.device();
    let allocator = device.allocator();
    if allocator.supports_virtual_memory() {
        let granularity = allocator.virtual_memory_query_granularity(params()).unwrap();
        let size = granularity.minimum_page_size;
        let buffer = allocator.virtual_memory_reserve(ANY, size).unwrap();
        let memory = allocator.physical_memory_allocate(params(), size).unwrap();
        allocator.virtual_memory_map(&buffer, 0, &memory, 0, size).unwrap();
        allocator.virtual_memory_protect(&buffer, 0, size, ANY, MemoryProtection::READ).unwrap();
        allocator.virtual_memory_advise(&buffer, 0, size, ANY, MemoryAdvice::WILL_NEED).unwrap();
        allocator.virtual_memory_unmap(&buffer, 0, size).unwrap();
        allocator.virtual_memory_release(&buffer).unwrap();
        return;
    }
    let buffer = buffer_of(&*device, &[0; 4]);
    let memory: Arc<dyn PhysicalMemory> = Arc::new(NoMemory);
    for refused in [
        allocator.virtual_memory_query_granularity(params()).map(drop),
        allocator.virtual_memory_reserve(ANY, 4096).map(drop),
        allocator.virtual_memory_release(&buffer),
        allocator.physical_memory_allocate(params(), 4096).map(drop),
        allocator.virtual_memory_map(&buffer, 0, &memory, 0, 4),
        allocator.virtual_memory_unmap(&buffer, 0, 4),
        allocator.virtual_memory_protect(&buffer, 0, 4, ANY, MemoryProtection::READ),
        allocator.virtual_memory_advise(&buffer, 0, 4, ANY, MemoryAdvice::WILL_NEED),
    ] {
        assert_eq!(code(refused), StatusCode::Unimplemented);
    }
}
