//! Submissions of one queue that no timeline orders: which packets have the barrier bit, how far their fences reach,
//! and that they overlap.

use std::sync::{Arc, Mutex, PoisonError};

use vireo_core::limits::{Cancellation, Limits, scope};
use vireo_hal::{
    Buffer, Device, ExecuteFlags, HostSemaphore, MemoryType, QueueAffinity, Semaphore, SemaphoreFlags, Timepoint,
};
use vireo_hsa::packet::{FenceScope, Packet};
use vireo_softhsa::{PacketEvent, PacketObserver};

use super::support::{Machine, TestDevice, at, queue, soon, wait};

const DEVICE: MemoryType = MemoryType::DEVICE_LOCAL;

/// A packet that began: its kind, its barrier bit, and its fences.
type Seen = (char, bool, FenceScope, FenceScope);

/// The packets of the queues that submissions of a test are for, in the order in which they began.
#[derive(Debug, Default)]
struct Headers(Mutex<Vec<Seen>>);

impl PacketObserver for Headers {
    fn event(&self, event: &PacketEvent<'_>) {
        let PacketEvent::Begin(traced) = event else { return };
        let kind = match traced.packet {
            Packet::KernelDispatch(_) => 'k',
            Packet::BarrierAnd(_) => 'b',
            _ => 'w',
        };
        let header = traced.packet.header();
        let seen = (kind, header.barrier(), header.acquire_fence_scope(), header.release_fence_scope());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
    }
}

/// Runs what `submit` submits to a device with two queues while kernels are held, and returns the packets.
fn packets(submit: impl FnOnce(&Arc<dyn Device>, &Arc<dyn Buffer>) -> Vec<Timepoint>) -> Vec<Seen> {
    let observer = Arc::new(Headers::default());
    let machine = Machine::traced("", observer.clone());
    let device = machine.device("", &[("amdgpu_queues", "2")]);
    let memory = device.buffer(64, DEVICE);
    let held = machine.hold_kernels();
    let points = submit(&device, &memory);
    drop(held);
    points.iter().for_each(|point| wait(&point.semaphore, point.value));
    drop((device, machine));
    observer.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The barrier bits of the packets.
fn barriers(submit: impl FnOnce(&Arc<dyn Device>, &Arc<dyn Buffer>) -> Vec<Timepoint>) -> Vec<bool> {
    packets(submit).into_iter().map(|(_, barrier, ..)| barrier).collect()
}

fn lines<const N: usize>(device: &Arc<dyn Device>) -> [Timepoint; N] {
    std::array::from_fn(|_| at(&device.timeline(), 1))
}

#[test]
fn submissions_that_nothing_orders_have_no_barrier_bit() {
    let seen = barriers(|device, memory| {
        let points: [_; 4] = lines(device);
        points.iter().for_each(|point| device.fill(0, &[], std::slice::from_ref(point), memory, 1));
        points.into()
    });
    assert_eq!(seen, [false; 4]);
}

#[test]
fn a_submission_that_waits_for_its_queue_has_the_barrier_bit() {
    let seen = barriers(|device, memory| {
        let [a, b, c, d] = lines(device);
        device.fill(0, &[], std::slice::from_ref(&a), memory, 1);
        device.fill(0, std::slice::from_ref(&a), std::slice::from_ref(&b), memory, 2);
        // The barrier before came after the first one, so nothing is left to wait for.
        device.fill(0, std::slice::from_ref(&a), std::slice::from_ref(&c), memory, 3);
        device.fill(0, std::slice::from_ref(&b), std::slice::from_ref(&d), memory, 4);
        vec![c, d]
    });
    assert_eq!(seen, [false, true, false, true]);
}

#[test]
fn a_timeline_does_not_go_back() {
    let seen = barriers(|device, memory| {
        let line = device.timeline();
        (1..=3).for_each(|value| device.fill(0, &[], &[at(&line, value)], memory, 1));
        vec![at(&line, 3)]
    });
    assert_eq!(seen, [false, true, true]);
    // The second one waits for the first one on the other queue, and for nothing that its own queue does.
    let seen = packets(|device, memory| {
        let (line, [other]) = (device.timeline(), lines(device));
        device.fill(1, &[], &[at(&line, 1)], memory, 1);
        device.fill(0, &[], std::slice::from_ref(&other), memory, 1);
        device.fill(0, &[at(&line, 1)], &[at(&line, 2)], memory, 1);
        vec![other, at(&line, 2)]
    });
    assert_eq!(seen.iter().filter(|(_, barrier, ..)| *barrier).count(), 0, "{seen:?}");
    assert_eq!(seen.iter().filter(|(kind, ..)| *kind == 'w').count(), 1, "{seen:?}");
    // It is not known who signals a timeline of the host.
    let seen = barriers(|device, memory| {
        let line: Arc<dyn Semaphore> = Arc::new(HostSemaphore::new(0));
        (1..=2).for_each(|value| device.fill(0, &[], &[at(&line, value)], memory, 1));
        vec![at(&line, 2)]
    });
    assert_eq!(seen, [true, true]);
}

#[test]
fn a_queue_has_four_lanes() {
    let seen = barriers(|device, memory| {
        let points: [_; 6] = lines(device);
        points.iter().for_each(|point| device.fill(0, &[], std::slice::from_ref(point), memory, 1));
        points.into()
    });
    assert_eq!(seen, [false, false, false, false, true, false]);
}

#[test]
fn calls_with_other_limits_do_not_overlap() {
    let seen = barriers(|device, memory| {
        let points: [_; 5] = lines(device);
        let fill = |index: usize| device.fill(0, &[], std::slice::from_ref(&points[index]), memory, 1);
        fill(0);
        for call in [1, 3] {
            let limits = Limits { cancellation: Some(Cancellation::new()), ..Limits::default() };
            let _started = scope::start(&limits).expect("there are limits");
            fill(call);
            fill(call + 1);
        }
        points.into()
    });
    assert_eq!(seen, [false, true, false, true, false]);
}

#[test]
fn fences_reach_as_far_as_timelines() {
    use FenceScope as Scope;
    let private = |device: &Arc<dyn Device>, affinity: QueueAffinity| {
        let semaphore =
            device.create_semaphore(affinity, 0, SemaphoreFlags::DEVICE_LOCAL).expect("there are timelines");
        at(&semaphore, 1)
    };
    let seen = packets(|device, memory| {
        let (own, [public, of_two, last]) = (private(device, QueueAffinity::ANY), lines(device));
        device.fill(0, &[], std::slice::from_ref(&own), memory, 1);
        device.fill(0, std::slice::from_ref(&own), std::slice::from_ref(&public), memory, 1);
        let both = [own.clone(), public.clone()];
        device.fill(0, &both, &[private(device, queue(0)), of_two.clone()], memory, 1);
        device
            .queue_barrier(queue(0), std::slice::from_ref(&of_two), std::slice::from_ref(&last), ExecuteFlags::empty())
            .expect("submits");
        vec![last]
    });
    let expected = [
        ('k', false, Scope::SYSTEM, Scope::AGENT),
        ('k', true, Scope::SYSTEM, Scope::SYSTEM),
        ('k', true, Scope::SYSTEM, Scope::SYSTEM),
        ('b', true, Scope::AGENT, Scope::SYSTEM),
    ];
    assert_eq!(seen, expected);
}

/// Without the overlap, the first kernel would wait for ever: the host lets it end once the second one has.
#[test]
fn the_end_of_a_later_submission_is_told_while_an_earlier_one_runs() {
    let machine = Machine::new("order=overlapped");
    let device = machine.device("", &[]);
    let (memory, other) = (device.buffer(64, DEVICE), device.buffer(63, DEVICE));
    let points: [_; 3] = lines(&device);
    machine.never_ends(Some("vireo_fill_x16"));
    device.fill(0, &[], &points[..1], &memory, 1);
    let fill = |wait: &[Timepoint], signal: &[Timepoint]| {
        device.queue_fill(queue(0), wait, signal, &other, 0, 63, &[2], Default::default()).expect("submits");
    };
    fill(&[], &points[1..2]);
    fill(&points[..1], &points[2..]);
    soon(&points[1].semaphore, 1).expect("nothing orders it after the first one");
    let queried = [0, 2].map(|index: usize| points[index].semaphore.query().expect("it did not fail"));
    assert_eq!(queried, [0, 0], "the third one waits for the first one");
    machine.never_ends(None);
    soon(&points[2].semaphore, 1).expect("all of them end");
    assert_eq!(device.read(&other), [2; 63]);
}

/// Chains across two queues whose kernels overlap and end in any order: each value is copied before the next one takes
/// its place.
#[test]
fn chains_that_overlap_keep_their_order() {
    for isa in ["gfx1100", "gfx942"] {
        let machine = Machine::new(&format!("order=overlapped,isa={isa}"));
        let device = machine.device("", &[("amdgpu_queues", "2"), ("amdgpu_queue_packets", "256")]);
        const CHAINS: usize = 6;
        const STEPS: u32 = 50;
        let values: [_; CHAINS] = std::array::from_fn(|_| device.buffer(64, DEVICE));
        let copies: [_; CHAINS] = std::array::from_fn(|_| device.buffer(u64::from(STEPS) * 64, DEVICE));
        let lines: [_; CHAINS] = std::array::from_fn(|_| device.timeline());
        for step in 0..STEPS {
            for (chain, line) in lines.iter().enumerate() {
                let point = |value: u32| [at(line, u64::from(2 * step + value))];
                device.fill((step + chain as u32) * 7 / 3 % 2, &point(0), &point(1), &values[chain], step + 1);
                let (affinity, offset) = (queue(step * 5 / 3 % 2), u64::from(step) * 64);
                let (from, to) = (&values[chain], &copies[chain]);
                device
                    .queue_copy(affinity, &point(1), &point(2), from, 0, to, offset, 64, Default::default())
                    .expect("submits");
            }
        }
        let expected: Vec<u8> = (1..=STEPS).flat_map(|value| value.to_le_bytes().repeat(16)).collect();
        for (chain, line) in lines.iter().enumerate() {
            wait(line, u64::from(2 * STEPS));
            assert_eq!(device.read(&copies[chain]), expected, "{isa}: chain {chain}");
        }
    }
}
