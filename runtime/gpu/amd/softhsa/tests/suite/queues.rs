//! Life and limits of queues.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use vireo_hsa::hsa::{Agent, HsaStatus, QueueInfo, Region};
use vireo_hsa::packet::{AgentDispatchPacket, BarrierAndPacket};
use vireo_hsa::packets::Order;
use vireo_hsa::queue::{HsaQueue, QueueFeatures, QueueType};
use vireo_hsa::signal::Signal;
use vireo_simt::{Trap, TrapKind};

use crate::support::*;

#[test]
fn queues_are_limited() {
    let session = Session::new("queues=2,queue-size=64");
    let gpu = session.gpu();
    let create = |agent, size, queue_type| Queue::of_type(agent, size, queue_type).map(|_| ());
    for size in [0, 1, 3, 128, u32::MAX] {
        assert_eq!(create(gpu, size, QueueType::MULTI), Err(HsaStatus::ERROR_INVALID_ARGUMENT), "{size}");
    }
    assert_eq!(create(gpu, 64, QueueType(9)), Err(HsaStatus::ERROR_INVALID_ARGUMENT));
    assert_eq!(create(gpu, 64, QueueType::COOPERATIVE), Err(HsaStatus::ERROR_INVALID_QUEUE_CREATION));
    assert_eq!(create(session.cpu(), 64, QueueType::MULTI), Err(HsaStatus::ERROR_INVALID_QUEUE_CREATION));
    assert_eq!(create(Agent(7), 64, QueueType::MULTI), Err(HsaStatus::ERROR_INVALID_AGENT));
    let (one, two) = (Queue::new(gpu, 64), Queue::new(gpu, 16));
    assert_ne!(one.shared().id, two.shared().id);
    assert_eq!((one.shared().size, two.shared().size), (64, 16));
    assert_eq!(create(gpu, 64, QueueType::MULTI), Err(HsaStatus::ERROR_OUT_OF_RESOURCES));
    drop(one);
    assert_eq!(create(gpu, 64, QueueType::SINGLE), Ok(()));
    let mut owner = Agent(0);
    let out = (&raw mut owner).cast();
    assert_eq!(optional!(hsa_amd_queue_get_info(two.pointer, QueueInfo::AGENT, out)), OK);
    assert_eq!(owner, gpu);
    let mask = [0xff_ffffu32];
    assert_eq!(optional!(hsa_amd_queue_cu_set_mask(two.pointer, 32, mask.as_ptr())), HsaStatus::CU_MASK_REDUCED);
    let doorbell = two.shared().doorbell_signal;
    assert_eq!(hsa!(hsa_signal_destroy(doorbell)), HsaStatus::ERROR_INVALID_SIGNAL, "it belongs to the queue");
    let pointer = two.pointer;
    drop(two);
    assert_eq!(hsa!(hsa_queue_destroy(pointer)), HsaStatus::ERROR_INVALID_QUEUE);
    hsa!(hsa_signal_store_relaxed(doorbell, 1));
}

#[test]
fn queues_run_side_by_side() {
    let session = Session::new("agents=2");
    let (one, two) = (Queue::new(session.gpus()[0], 16), Queue::new(session.gpus()[1], 16));
    let signals = [session.signal(1), session.signal(1), session.signal(1)];
    let barrier = |wait, completion| {
        let dependencies = [wait, Signal(0), Signal(0), Signal(0), Signal(0)];
        let packet = BarrierAndPacket::new(Order::SYSTEM, dependencies).expect("a packet");
        BarrierAndPacket { completion_signal: completion, ..packet }.to_bytes()
    };
    // Each waits for the other one in turn.
    one.submit(&[barrier(Signal(0), signals[0]), barrier(signals[1], signals[2])]);
    two.submit(&[barrier(signals[0], signals[1])]);
    wait(signals[2]);
}

#[test]
fn a_busy_queue_is_destroyed() {
    let started = Arc::new(AtomicBool::new(false));
    let shared = started.clone();
    // The kernel runs until it is stopped.
    let session = Session::with("", move |dispatch| {
        shared.store(true, Ordering::Release);
        while !dispatch.stop.requested() {
            std::thread::yield_now();
        }
        Err(Trap::new(TrapKind::Stopped))
    });
    let (_, kernel) = session.load(session.gpu());
    let (kernarg, never, completion) = (session.kernarg_memory(64), session.signal(1), session.signal(1));
    let queue = Queue::new(session.gpu(), 16);
    queue.submit(&[dispatch(Order::NONE, kernel, kernarg.address, 32, completion)]);
    while !started.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    let error = queue.error.0.load(Ordering::Relaxed);
    drop(queue);
    assert_eq!((error, hsa!(hsa_signal_load_scacquire(completion))), (0, 1));
    // One that waits for a signal, which is inactivated first.
    let queue = Queue::new(session.gpu(), 16);
    let packet = BarrierAndPacket::new(Order::NONE, [never; 5]).expect("a packet");
    queue.submit(&[BarrierAndPacket { completion_signal: completion, ..packet }.to_bytes()]);
    assert_eq!(optional!(hsa_queue_inactivate(queue.pointer)), OK);
    hsa!(hsa_signal_store_screlease(never, 0));
    assert_eq!(hsa!(hsa_signal_load_scacquire(completion)), 1);
    // One that the library itself destroys at its end.
    std::mem::forget(Queue::new(session.gpu(), 16));
}

#[test]
fn a_destroyed_signal_stops_the_queue_that_waits_for_it() {
    let session = Session::new("");
    let queue = Queue::new(session.gpu(), 16);
    let (begun, never) = (session.signal(1), session.signal(1));
    let packet = BarrierAndPacket::new(Order::NONE, [never; 5]).expect("a packet");
    let first = BarrierAndPacket::new(Order::NONE, [Signal(0); 5]).expect("a packet");
    queue.submit(&[BarrierAndPacket { completion_signal: begun, ..first }.to_bytes(), packet.to_bytes()]);
    wait(begun);
    assert_eq!(hsa!(hsa_signal_destroy(never)), OK);
    assert_eq!(queue.wait_for_error(), HsaStatus::ERROR_INVALID_SIGNAL);
}

#[test]
fn programs_serve_queues_of_their_own() {
    let session = Session::new("");
    let region = Region(session.pool(session.cpu(), FINE).0);
    let (doorbell, mut pointer) = (session.signal(-1), std::ptr::null_mut());
    let QueueFeatures(features) = QueueFeatures(0).with_agent_dispatch(true);
    let create =
        |doorbell, out| optional!(hsa_soft_queue_create(region, 16, QueueType::MULTI, features, doorbell, out));
    assert_eq!(create(Signal(3), &raw mut pointer), HsaStatus::ERROR_INVALID_SIGNAL);
    assert_eq!(create(doorbell, &raw mut pointer), OK);
    assert_eq!(optional!(hsa_queue_add_write_index_scacq_screl(pointer, 2)), 0);
    assert_eq!(optional!(hsa_queue_cas_write_index_relaxed(pointer, 2, 5)), 2);
    assert_eq!(optional!(hsa_queue_load_write_index_scacquire(pointer)), 5);
    optional!(hsa_queue_store_read_index_screlease(pointer, 4));
    assert_eq!(optional!(hsa_queue_load_read_index_relaxed(pointer)), 4);
    assert_eq!(hsa!(hsa_queue_destroy(pointer)), OK);
    assert_eq!(hsa!(hsa_signal_destroy(doorbell)), OK, "the doorbell is the program's");
}

#[test]
fn every_thread_that_ends_a_queue_waits_for_its_kernel() {
    let ended = Arc::new(AtomicBool::new(false));
    let (begun, seen) = (Arc::new(AtomicBool::new(false)), ended.clone());
    let begins = begun.clone();
    let session = Session::with("", move |dispatch| {
        begins.store(true, Ordering::Release);
        while !dispatch.stop.requested() {
            std::thread::yield_now();
        }
        // The kernel takes some time to stop.
        std::thread::sleep(std::time::Duration::from_millis(100));
        seen.store(true, Ordering::Release);
        Err(Trap::new(TrapKind::Stopped))
    });
    let (_, kernel) = session.load(session.gpu());
    let kernarg = session.kernarg_memory(64);
    let queue = Queue::new(session.gpu(), 16);
    queue.submit(&[dispatch(Order::SYSTEM, kernel, kernarg.address, 1, Signal(0))]);
    while !begun.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    let address = queue.pointer.expose_provenance();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let queue = std::ptr::with_exposed_provenance_mut(address);
                assert_eq!(optional!(hsa_queue_inactivate(queue)), OK);
                assert!(ended.load(Ordering::Acquire), "the kernel still runs");
            });
        }
    });
}

/// The facts that a callback of the next test needs: where both meet, the queue that it destroys, and whether it did.
struct Meeting {
    both: Arc<std::sync::Barrier>,
    other: std::sync::atomic::AtomicUsize,
    destroyed: AtomicBool,
}

#[test]
fn functions_that_are_told_of_errors_destroy_each_others_queues() {
    unsafe extern "C" fn told(_: HsaStatus, _: *mut HsaQueue, data: *mut std::ffi::c_void) {
        // SAFETY: `data` is a meeting of the test, which waits for both.
        let meeting = unsafe { &*data.cast::<Meeting>() };
        meeting.both.wait();
        let queue = std::ptr::with_exposed_provenance_mut(meeting.other.load(Ordering::Acquire));
        assert_eq!(hsa!(hsa_queue_destroy(queue)), OK);
        meeting.destroyed.store(true, Ordering::Release);
    }
    let session = Session::new("");
    let both = Arc::new(std::sync::Barrier::new(2));
    let meetings =
        [0, 1].map(|_| Meeting { both: both.clone(), other: Default::default(), destroyed: AtomicBool::new(false) });
    let queues = [0, 1].map(|index: usize| {
        let (mut pointer, callback) = (std::ptr::null_mut(), Some(told as vireo_hsa::hsa::QueueErrorCallback));
        let (agent, kind, data) = (session.gpu(), QueueType::MULTI, (&raw const meetings[index]).cast_mut().cast());
        let status = hsa!(hsa_queue_create(agent, 16, kind, callback, data, u32::MAX, u32::MAX, &raw mut pointer));
        assert_eq!(status, OK);
        meetings[1 - index].other.store(pointer.expose_provenance(), Ordering::Release);
        // The callbacks destroy them, so they must not be destroyed here.
        std::mem::ManuallyDrop::new(Queue { pointer, error: Box::default() })
    });
    let wrong = AgentDispatchPacket::new(Order::NONE, 1, [0; 4], 0).expect("a packet").to_bytes();
    queues.iter().for_each(|queue| queue.submit(&[wrong]));
    while !meetings.iter().all(|meeting| meeting.destroyed.load(Ordering::Acquire)) {
        std::thread::yield_now();
    }
}
