//! Pools that a host names when it allocates on the queue of a local device.

use std::sync::Arc;

use vireo::hal::pool::{MemoryPool, PoolOptions};
use vireo::hal::{
    AllocaFlags, Allocator, Buffer, BufferParams, BufferUsage, BuiltinOptions, DeallocaFlags, Device, HeapAllocator,
    MappingMode, MemoryAccess, Pool, QueueAffinity, Semaphore, SemaphoreFlags, Timepoint, WHOLE_BUFFER, buffer_fill,
    buffer_to_vec, create_device,
};
use vireo::{SecurityPolicy, StatusCode};

const ANY: QueueAffinity = QueueAffinity::ANY;

struct Line(Arc<dyn Semaphore>);

impl Line {
    fn new(device: &Arc<dyn Device>) -> Line {
        Line(device.create_semaphore(ANY, 0, SemaphoreFlags::DEFAULT).expect("a timeline"))
    }

    fn at(&self, value: u64) -> [Timepoint; 1] {
        [Timepoint { semaphore: self.0.clone(), value }]
    }
}

fn params() -> BufferParams {
    BufferParams { usage: BufferUsage::DEFAULT, ..BufferParams::default() }
}

fn alloca(
    device: &Arc<dyn Device>,
    (wait, signal): (&[Timepoint], &[Timepoint]),
    pool: &Arc<dyn Pool>,
    size: u64,
    flags: AllocaFlags,
) -> vireo::Result<Arc<dyn Buffer>> {
    device.queue_alloca(ANY, wait, signal, Some(pool), params(), size, flags)
}

#[test]
fn transient_buffers_come_from_the_pool_and_go_back_in_queue_order() {
    let device = create_device("local-sync").expect("always there");
    let slabs = device.queue_pool_backend(ANY).expect("host memory");
    let options = PoolOptions { budget: 1 << 16, reached: None };
    let pools: [Arc<dyn Pool>; 3] = [
        Arc::new(MemoryPool::fixed_block(slabs.clone(), 4096, 4, options.clone()).expect("a small pool")),
        Arc::new(MemoryPool::slab(slabs.clone(), options.clone())),
        Arc::new(MemoryPool::tlsf(slabs.clone(), 1 << 16, options).expect("a small pool")),
    ];
    for pool in pools {
        let line = Line::new(&device);
        let buffer = alloca(&device, (&[], &line.at(1)), &pool, 4000, AllocaFlags::empty()).expect("there is room");
        line.0.wait(1, None).expect("reached");
        buffer_fill(&*buffer, 0, WHOLE_BUFFER, &[7]).expect("has memory");
        assert_eq!(buffer_to_vec(&*buffer, 4000).expect("has memory"), [7; 4000]);
        let beyond = buffer.map_range(MappingMode::SCOPED, MemoryAccess::READ, 0, 4001);
        assert!(beyond.is_err(), "{pool:?}: more than was asked for");
        assert_eq!(pool.stats().reservation_count, 1);
        // The memory is there until the queue gets to the deallocation.
        device.queue_dealloca(ANY, &line.at(2), &line.at(3), &buffer, DeallocaFlags::empty()).expect("is queued");
        assert_eq!(pool.stats().reservation_count, 1);
        line.0.signal(2).expect("advances");
        line.0.wait(3, None).expect("reached");
        assert_eq!(pool.stats().reservation_count, 0);
        assert!(buffer_to_vec(&*buffer, 1).is_err(), "{pool:?}: the memory is gone");
        // A buffer that is dropped returns it too.
        drop(alloca(&device, (&[], &[]), &pool, 1, AllocaFlags::empty()).expect("there is room"));
        assert_eq!((pool.stats().reservation_count, pool.stats().reserve_count), (0, 2));
        pool.trim().expect("has nothing to say");
        assert_eq!(pool.stats().bytes_committed, 0);
    }
    device.trim().expect("has nothing to say");
    assert_eq!(slabs.stats().cache_count, 0);
}

#[test]
fn who_cannot_have_memory_fails_or_waits_as_he_asks() {
    let device = create_device("local-sync").expect("always there");
    let slabs = device.queue_pool_backend(ANY).expect("host memory");
    let pool: Arc<dyn Pool> =
        Arc::new(MemoryPool::fixed_block(slabs, 256, 1, PoolOptions::default()).expect("a small pool"));
    let line = Line::new(&device);
    let first = alloca(&device, (&[], &line.at(1)), &pool, 256, AllocaFlags::empty()).expect("there is room");
    let failed = Line::new(&device);
    alloca(&device, (&[], &failed.at(1)), &pool, 1, AllocaFlags::empty()).expect("goes to the timeline");
    assert_eq!(failed.0.query().expect_err("there is none").code(), StatusCode::ResourceExhausted);
    let second = alloca(&device, (&line.at(1), &line.at(2)), &pool, 1, AllocaFlags::ALLOW_POOL_WAIT_FRONTIER)
        .expect("waits for memory");
    assert_eq!(line.0.query().expect("did not fail"), 1);
    assert!(buffer_to_vec(&*second, 1).is_err(), "it has none yet");
    device.queue_dealloca(ANY, &[], &[], &first, DeallocaFlags::empty()).expect("runs at once");
    assert_eq!(line.0.query().expect("did not fail"), 2);
    buffer_fill(&*second, 0, WHOLE_BUFFER, &[1]).expect("has memory");
    // A request that can never be met fails, also if others wait.
    let never = Line::new(&device);
    let huge = alloca(&device, (&[], &never.at(1)), &pool, 257, AllocaFlags::ALLOW_POOL_WAIT_FRONTIER);
    huge.expect("goes to the timeline");
    assert_eq!(never.0.query().expect_err("is too large").code(), StatusCode::InvalidArgument);
}

/// Allocates on the queue, fills what it gets and gives it back, twice for each size: what the second one found at
/// first.
fn found(device: &Arc<dyn Device>, pool: Option<&Arc<dyn Pool>>, wait_first: bool) -> Vec<Vec<u8>> {
    let one = |size: u64| {
        let line = Line::new(device);
        let wait = if wait_first { line.at(1).to_vec() } else { Vec::new() };
        let flags = AllocaFlags::empty();
        let buffer = device.queue_alloca(ANY, &wait, &line.at(2), pool, params(), size, flags).expect("there is room");
        if wait_first {
            line.0.signal(1).expect("advances");
        }
        line.0.wait(2, None).expect("reached");
        let bytes = buffer_to_vec(&*buffer, size).expect("has memory");
        buffer_fill(&*buffer, 0, WHOLE_BUFFER, &[0xAA]).expect("has memory");
        device.queue_dealloca(ANY, &[], &[], &buffer, DeallocaFlags::empty()).expect("runs at once");
        bytes
    };
    [1, 64, 1000, 1 << 16, (1 << 16) + 1, 1 << 20].map(|size| (one(size), one(size - size / 32)).1).into()
}

#[test]
fn a_device_that_zeroes_shows_nothing_of_what_was_there() {
    let policy = SecurityPolicy { zeroed_memory: true, ..SecurityPolicy::trusted() };
    let options = BuiltinOptions { policy, ..BuiltinOptions::default() };
    let registry = options.registry();
    let is_zero = |all: Vec<Vec<u8>>| all.iter().flatten().all(|byte| *byte == 0);
    for uri in ["local-sync", "local-task"] {
        let device = registry.create_device(uri).expect("always there");
        let careless = create_device(uri).expect("always there");
        // Allocations that run at once and those that wait get their memory in different places.
        for wait_first in [false, true] {
            assert!(is_zero(found(&device, None, wait_first)), "{uri}");
            assert!(!is_zero(found(&careless, None, wait_first)), "{uri}: nothing to hide, so the test shows nothing");
        }
        let pool = |device: &Arc<dyn Device>| -> Arc<dyn Pool> {
            let slabs = device.queue_pool_backend(ANY).expect("host memory");
            Arc::new(MemoryPool::tlsf(slabs, 1 << 21, PoolOptions::default()).expect("a small pool"))
        };
        assert!(is_zero(found(&device, Some(&pool(&device)), false)), "{uri}: of a pool");
        assert!(!is_zero(found(&careless, Some(&pool(&careless)), false)), "{uri}: of a pool");
        let limited = registry.create_device(uri).expect("always there");
        let allocator: Arc<dyn Allocator> = Arc::new(HeapAllocator::with_limit(1 << 24));
        limited.replace_allocator(&allocator).expect("has allocated nothing");
        assert!(is_zero(found(&limited, None, false)), "{uri}: with a limit");
    }
}
