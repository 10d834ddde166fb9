//! Memory: its classes, blocks that are used again, pools of the host, budgets, and devices that do not reach each
//! other's.

use std::sync::Arc;

use vireo_amdgpu::device::DeviceOptions;
use vireo_core::limits::MemoryBudget;
use vireo_core::status::StatusCode;
use vireo_hal::{
    AllocaFlags, BufferParams, BufferUsage, DeallocaFlags, Device, MappingMode, MemoryAccess, MemoryType, Pool,
    QueueAffinity,
};
use vireo_hal_driver::pool::{MemoryPool, PoolOptions};

use super::support::{Machine, TestDevice, at, queue, wait};

const ANY: QueueAffinity = QueueAffinity::ANY;
const DEVICE: MemoryType = MemoryType::DEVICE_LOCAL;

fn params(memory_type: MemoryType) -> BufferParams {
    BufferParams { memory_type, ..BufferParams::default() }
}

/// The type of the memory that a device gives for a type, or why there is none.
fn given(device: &Arc<dyn Device>, params: BufferParams) -> Result<MemoryType, String> {
    let buffer = device.allocator().allocate_buffer(params, 64);
    buffer.map(|buffer| buffer.memory_type()).map_err(|status| status.message().to_string())
}

#[test]
fn memory_is_of_the_class_that_its_type_needs() {
    let coarse = MemoryType::HOST_VISIBLE | MemoryType::HOST_CACHED;
    let coherent = DEVICE | MemoryType::HOST_VISIBLE | MemoryType::HOST_COHERENT;
    for topology in ["without=hdp", "", "without=hdp+fine-grained", "without=large-bar+hdp"] {
        let machine = Machine::new(topology);
        let device = machine.device("", &[]);
        let of = |memory_type| given(&device, params(memory_type));
        let visible = !topology.contains("large-bar");
        let local = if visible { DEVICE | MemoryType::HOST_VISIBLE } else { DEVICE };
        assert_eq!(of(DEVICE), Ok(local), "{topology}");
        assert_eq!(of(MemoryType::HOST_LOCAL), Ok(MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE));
        assert_eq!(of(coarse), Ok(coarse | MemoryType::DEVICE_VISIBLE));
        let persistent = BufferParams { usage: BufferUsage::MAPPING_PERSISTENT, ..params(coarse) };
        assert_eq!(given(&device, persistent), Ok(MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE));
        // Fine-grained memory of the GPU is coherent if nothing has to be flushed.
        let fine = of(coherent);
        if topology == "without=hdp" {
            assert_eq!(fine, Ok(coherent));
        } else {
            assert!(
                fine.clone().is_err_and(|message| message.contains("the host is not coherent")),
                "{topology}: {fine:?}"
            );
        }
        assert!(of(coherent | MemoryType::OPTIMAL).is_ok());
        // Coherent memory that need not be the GPU's is the host's, and no pool is both.
        let shared = MemoryType::HOST_VISIBLE | MemoryType::HOST_COHERENT | MemoryType::DEVICE_VISIBLE;
        assert_eq!(of(shared), Ok(MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE), "{topology}");
        let both = of(DEVICE | MemoryType::HOST_LOCAL);
        assert!(both.as_ref().is_err_and(|message| message.contains("lacks")), "{topology}: {both:?}");
        let heaps = device.allocator().memory_heaps();
        let types: Vec<MemoryType> = heaps.iter().map(|heap| heap.memory_type).collect();
        assert_eq!(types.len(), if topology == "without=hdp" { 4 } else { 3 }, "{types:?}");
        // Whatever it is, queues copy between all of it.
        for memory_type in types {
            let (from, to) = (device.buffer(64, memory_type), device.buffer(64, DEVICE));
            device.write(&from, &[5; 64]);
            let line = device.timeline();
            device.queue_copy(ANY, &[], &[at(&line, 1)], &from, 0, &to, 0, 64, Default::default()).expect("submits");
            wait(&line, 1);
            assert_eq!(device.read(&to), [5; 64], "{topology}, {memory_type:?}");
        }
    }
}

#[test]
fn coarse_memory_of_the_host_is_seen_between_submissions() {
    let machine = Machine::new("host-writes=until-acquire");
    let device = machine.device("", &[]);
    let coarse = device.buffer(64, MemoryType::HOST_VISIBLE | MemoryType::HOST_CACHED);
    for round in 1..=3u8 {
        vireo_hal::buffer_write(&*coarse, 0, &[round; 64]).expect("the host reaches it");
        assert_eq!(device.read(&coarse), [round; 64]);
        device.write(&coarse, &[round + 100; 64]);
        assert_eq!(vireo_hal::buffer_to_vec(&*coarse, 64).expect("the host reaches it"), [round + 100; 64]);
    }
    assert!(coarse.map_range(MappingMode::PERSISTENT, MemoryAccess::READ, 0, 64).is_err());
}

#[test]
fn new_memory_is_zero_however_the_library_fills() {
    for (topology, fills) in [("", true), ("", false), ("without=large-bar", true), ("without=large-bar", false)] {
        let mut functions = vireo_softhsa::functions();
        if !fills {
            functions.hsa_amd_memory_fill = None;
        }
        let machine = Machine::over(topology, None, functions, DeviceOptions::default());
        let device = machine.device("", &[]);
        // The second buffer has the memory of the first one.
        for _ in 0..2 {
            let buffer = device.buffer((1 << 20) + 4, DEVICE);
            assert!(device.read(&buffer).iter().all(|byte| *byte == 0), "{topology}, {fills}");
            device.write(&buffer, &[7; 64]);
        }
    }
}

#[test]
fn memory_is_as_the_library_allocates_it_if_asked_for() {
    // New memory has a pattern there.
    let machine = Machine::new("sanitize=init");
    let device = machine.device("", &[]);
    assert_eq!(device.read(&device.buffer(4096, DEVICE)), [0; 4096], "it is zeroed");
    drop(device);
    let device = machine.device("", &[("amdgpu_memory", "new")]);
    for memory_type in [DEVICE, MemoryType::HOST_LOCAL] {
        assert_ne!(device.read(&device.buffer(4096, memory_type)), [0; 4096], "{memory_type:?}");
    }
    round(&device, None, 3);
    assert_ne!(round(&device, None, 4), [3; 4096], "no block is used again");
    assert!(device.trim().is_ok());
    drop((device, machine));
    // A policy for which memory is zeroed counts more.
    let options = DeviceOptions { zeroed_transients: true, ..DeviceOptions::default() };
    let machine = Machine::over("sanitize=init", None, vireo_softhsa::functions(), options);
    let device = machine.device("", &[("amdgpu_memory", "new")]);
    assert_eq!(device.read(&device.buffer(4096, DEVICE)), [0; 4096]);
    assert_eq!(round(&device, None, 3), [0; 4096]);
    let odd = [vireo_hal::StringPair { key: "amdgpu_memory".to_string(), value: "old".to_string() }];
    let refused = vireo_hal::Driver::create_device_by_path(&machine.driver, "amdgpu", "", &odd).map(drop);
    let message = refused.expect_err("there is no such kind").to_string();
    assert!(message.contains("`amdgpu_memory=old`: expected `recycled` or `new`"), "{message}");
}

/// Allocates on a queue, fills the memory with `value`, and returns what was there before.
fn round(device: &Arc<dyn Device>, pool: Option<&Arc<dyn Pool>>, value: u8) -> Vec<u8> {
    let line = device.timeline();
    let flags = AllocaFlags::empty();
    let buffer = device.queue_alloca(ANY, &[], &[at(&line, 1)], pool, params(DEVICE), 4096, flags).expect("submits");
    wait(&line, 1);
    let before = device.read(&buffer);
    device.queue_fill(ANY, &[], &[at(&line, 2)], &buffer, 0, 4096, &[value], Default::default()).expect("submits");
    let freed = [at(&line, 3)];
    device.queue_dealloca(ANY, &[at(&line, 2)], &freed, &buffer, DeallocaFlags::empty()).expect("submits");
    wait(&line, 3);
    before
}

#[test]
fn transient_memory_is_used_again_and_zeroed_if_asked_for() {
    for topology in ["", "without=large-bar"] {
        let machine = Machine::new(topology);
        let device = machine.device("", &[]);
        round(&device, None, 3);
        assert_eq!(round(&device, None, 4), [3; 4096], "the block of the first one");
        device.trim().expect("frees the blocks");
        drop((device, machine));
        let options = DeviceOptions { zeroed_transients: true, ..DeviceOptions::default() };
        let machine = Machine::over(topology, None, vireo_softhsa::functions(), options);
        let device = machine.device("", &[]);
        round(&device, None, 3);
        assert_eq!(round(&device, None, 4), [0; 4096]);
    }
}

#[test]
fn pools_of_the_host_divide_memory_of_the_device() {
    for topology in ["", "without=large-bar", "host-writes=until-flush"] {
        let machine = Machine::new(topology);
        let device = machine.device("", &[]);
        let slabs = device.queue_pool_backend(ANY).expect("there is memory");
        let pools: [Arc<dyn Pool>; 3] = [
            Arc::new(MemoryPool::fixed_block(slabs.clone(), 8192, 4, PoolOptions::default()).expect("a small pool")),
            Arc::new(MemoryPool::slab(slabs.clone(), PoolOptions::default())),
            Arc::new(MemoryPool::tlsf(slabs.clone(), 1 << 16, PoolOptions::default()).expect("a small pool")),
        ];
        for pool in pools {
            round(&device, Some(&pool), 9);
            assert_eq!(round(&device, Some(&pool), 1), [9; 4096], "{topology}");
            assert_eq!((pool.stats().reservation_count, pool.stats().reserve_count), (0, 2));
            pool.trim().expect("has nothing to say");
            assert_eq!(pool.stats().bytes_committed, 0);
        }
        assert_eq!(slabs.stats().total_acquired, slabs.stats().total_released);
    }
}

#[test]
fn allocations_of_a_pool_come_after_what_they_wait_for() {
    let machine = Machine::new("");
    let device = machine.device("", &[("amdgpu_queues", "2")]);
    let slabs = device.queue_pool_backend(ANY).expect("there is memory");
    let pool: Arc<dyn Pool> =
        Arc::new(MemoryPool::fixed_block(slabs, 4096, 1, PoolOptions::default()).expect("a pool"));
    let line = device.timeline();
    let alloca = |wait: &[_], signal: &[_], flags| {
        device.queue_alloca(queue(1), wait, signal, Some(&pool), params(DEVICE), 4096, flags).expect("submits")
    };
    let none = AllocaFlags::empty();
    let first = alloca(&[], &[at(&line, 1)], none);
    // There is one block: without waiting for it an allocation fails.
    let failed = device.timeline();
    alloca(&[], &[at(&failed, 1)], none);
    assert_eq!(failed.wait(1, None).expect_err("there is none").code(), StatusCode::ResourceExhausted);
    // One that is ordered after the deallocation gets it, though it is submitted before that has completed.
    let gate = device.timeline();
    device.queue_dealloca(queue(0), &[at(&gate, 1)], &[at(&line, 2)], &first, DeallocaFlags::empty()).expect("submits");
    let second = alloca(&[at(&line, 2)], &[at(&line, 3)], none);
    // One that may wait gets it once it is released, ordered or not.
    let third_line = device.timeline();
    let third = alloca(&[at(&line, 3)], &[at(&third_line, 1)], AllocaFlags::ALLOW_POOL_WAIT_FRONTIER);
    device
        .queue_fill(queue(0), &[at(&third_line, 1)], &[at(&third_line, 2)], &third, 0, 4096, &[8], Default::default())
        .expect("submits");
    gate.signal(1).expect("advances");
    wait(&line, 3);
    assert_eq!(third_line.query().expect("did not fail"), 0);
    device.queue_dealloca(queue(0), &[], &[at(&line, 4)], &second, DeallocaFlags::empty()).expect("submits");
    wait(&third_line, 2);
    assert_eq!(device.read(&third), [8; 4096]);
}

#[test]
fn allocations_wait_for_memory_of_the_device() {
    let machine = Machine::new("memory=64MiB");
    let device = machine.device("", &[]);
    let line = device.timeline();
    let alloca = |wait: &[_], signal: &[_], flags| {
        device.queue_alloca(ANY, wait, signal, None, params(DEVICE), 40 << 20, flags).expect("submits")
    };
    let first = alloca(&[], &[at(&line, 1)], AllocaFlags::empty());
    let failed = device.timeline();
    alloca(&[], &[at(&failed, 1)], AllocaFlags::empty());
    assert_eq!(failed.wait(1, None).expect_err("there is no more").code(), StatusCode::ResourceExhausted);
    let waits = alloca(&[], &[at(&line, 3)], AllocaFlags::ALLOW_POOL_WAIT_FRONTIER);
    device.queue_fill(ANY, &[at(&line, 3)], &[at(&line, 4)], &waits, 0, 64, &[5], Default::default()).expect("submits");
    device.queue_dealloca(ANY, &[], &[at(&line, 2)], &first, DeallocaFlags::empty()).expect("submits");
    wait(&line, 4);
    // More than there is at all fails, though it may wait.
    let never = device.timeline();
    let flags = AllocaFlags::ALLOW_POOL_WAIT_FRONTIER;
    device.queue_dealloca(ANY, &[], &[at(&line, 5)], &waits, DeallocaFlags::empty()).expect("submits");
    wait(&line, 5);
    device.queue_alloca(ANY, &[], &[at(&never, 1)], None, params(DEVICE), 1 << 40, flags).expect("submits");
    assert_eq!(never.wait(1, None).expect_err("there is not as much").code(), StatusCode::ResourceExhausted);
}

#[test]
fn memory_is_charged_to_the_budget_of_the_device() {
    let budget = MemoryBudget::new(1 << 20);
    let options = DeviceOptions { memory: Some(budget.clone()), ..DeviceOptions::default() };
    let machine = Machine::over("", None, vireo_softhsa::functions(), options);
    let device = machine.device("", &[]);
    let buffer = device.buffer(512 << 10, DEVICE);
    assert!(budget.used() >= 512 << 10);
    let refused = device.allocator().allocate_buffer(params(DEVICE), 768 << 10).map(drop).expect_err("it is too much");
    assert!(refused.message().contains("ran out of memory"), "{refused}");
    let line = device.timeline();
    let flags = AllocaFlags::empty();
    let alloca = device.queue_alloca(ANY, &[], &[at(&line, 1)], None, params(DEVICE), 768 << 10, flags);
    alloca.expect("goes to the timeline");
    assert_eq!(line.wait(1, None).expect_err("it is too much").code(), StatusCode::ResourceExhausted);
    drop(buffer);
    assert_eq!(budget.used(), 0);
    drop(device.buffer(768 << 10, DEVICE));
}

#[test]
fn buffers_of_another_device_are_refused() {
    let machine = Machine::new("agents=2,without=peers");
    let (first, second) = (machine.device("0", &[]), machine.device("1", &[]));
    for memory_type in [DEVICE, MemoryType::HOST_LOCAL] {
        let (own, foreign) = (first.buffer(64, DEVICE), second.buffer(64, memory_type));
        let line = first.timeline();
        first.queue_copy(ANY, &[], &[at(&line, 1)], &foreign, 0, &own, 0, 64, Default::default()).expect("submits");
        let failure = line.wait(1, None).expect_err("it may not access it");
        assert!(failure.message().contains("may not access the memory of a buffer"), "{failure}");
    }
    // As one device, each queue takes memory of its own agent, and what the other one has is refused too.
    let both = machine.device("", &[]);
    let of = |index| {
        let params = BufferParams { queue_affinity: queue(index), ..params(DEVICE) };
        both.allocator().allocate_buffer(params, 64).expect("there is memory")
    };
    let (near, far) = (of(0), of(1));
    let line = both.timeline();
    both.fill(1, &[], &[at(&line, 1)], &far, 0x0505_0505);
    wait(&line, 1);
    both.fill(1, &[], &[at(&line, 2)], &near, 1);
    assert!(line.wait(2, None).is_err(), "the GPUs do not reach each other");
    let host = both.buffer(64, MemoryType::HOST_LOCAL);
    let after = both.timeline();
    both.queue_copy(queue(1), &[], &[at(&after, 1)], &far, 0, &host, 0, 64, Default::default()).expect("submits");
    wait(&after, 1);
    assert_eq!(vireo_hal::buffer_to_vec(&*host, 64).expect("the host reaches it"), [5; 64]);
}

#[test]
fn arguments_in_memory_of_the_device_are_published() {
    for topology in [
        "host-writes=until-flush",
        "host-writes=until-flush,without=fine-grained",
        "host-writes=until-acquire,without=hdp",
    ] {
        let machine = Machine::new(topology);
        let device = machine.device("", &[("amdgpu_kernarg_memory", "device"), ("amdgpu_queue_packets", "256")]);
        let memory = device.buffer(1 << 16, DEVICE);
        let line = device.timeline();
        for value in 1..=150u64 {
            let offset = value % 64 * 1024;
            let signal = [at(&line, value)];
            device
                .queue_fill(ANY, &[], &signal, &memory, offset, 1024, &[value as u8], Default::default())
                .expect("submits");
        }
        wait(&line, 150);
        let bytes = device.read(&memory);
        for value in 150 - 63..=150u64 {
            let offset = value as usize % 64 * 1024;
            assert_eq!(bytes[offset..offset + 1024], [value as u8; 1024], "{topology}");
        }
    }
    let machine = Machine::new("without=large-bar");
    let odd = [vireo_hal::StringPair { key: "amdgpu_kernarg_memory".to_string(), value: "device".to_string() }];
    let error = vireo_hal::Driver::create_device_by_path(&machine.driver, "amdgpu", "", &odd).map(drop);
    assert!(error.expect_err("it cannot").message().contains("arguments of kernels cannot be there"));
}
