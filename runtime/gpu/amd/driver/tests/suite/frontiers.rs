//! Waits of queues for each other: the packets that are written for them, and those that are elided because a queue
//! knows already.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use vireo_hal::{Device, ExecuteFlags, MemoryType, Semaphore};
use vireo_hsa::packet::Packet;
use vireo_softhsa::{PacketEvent, PacketObserver};

use super::support::{Machine, TestDevice, at, queue, wait};

/// Packets that waited for a signal, by the number of their queue.
#[derive(Debug, Default)]
struct Waits(Mutex<BTreeMap<u64, usize>>);

impl PacketObserver for Waits {
    fn event(&self, event: &PacketEvent<'_>) {
        let PacketEvent::Begin(traced) = event else { return };
        let mut waits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = waits.entry(traced.place.queue).or_default();
        *count += usize::from(matches!(traced.packet, Packet::BarrierValue(_) | Packet::Pm4Ib(_)));
    }
}

/// Runs barriers of queues while the kernels that they wait for are held, and returns how many packets of each queue
/// waited.
///
/// First each of `queues` queues fills a buffer and signals a timeline of its own. Each step is a queue and the
/// timelines that it waits for; the step with number `n` signals timeline `queues + n`.
fn waits(queues: u32, steps: &[(u32, &[usize])]) -> Vec<usize> {
    let observer = Arc::new(Waits::default());
    let machine = Machine::traced("", observer.clone());
    let device: Arc<dyn Device> = machine.device("", &[("amdgpu_queues", &queues.to_string())]);
    let held = machine.hold_kernels();
    let mut lines: Vec<Arc<dyn Semaphore>> = Vec::new();
    for index in 0..queues {
        let line = device.timeline();
        device.fill(index, &[], &[at(&line, 1)], &device.buffer(64, MemoryType::DEVICE_LOCAL), 1);
        lines.push(line);
    }
    for (index, before) in steps {
        let line = device.timeline();
        let before: Vec<_> = before.iter().map(|before| at(&lines[*before], 1)).collect();
        device.queue_barrier(queue(*index), &before, &[at(&line, 1)], ExecuteFlags::empty()).expect("submits");
        lines.push(line);
    }
    drop(held);
    lines.iter().for_each(|line| wait(line, 1));
    drop((device, machine));
    let waits = observer.0.lock().unwrap_or_else(PoisonError::into_inner);
    // Numbers of queues ascend in the order in which they were made.
    assert_eq!(waits.len(), queues as usize);
    waits.values().copied().collect()
}

#[test]
fn a_queue_waits_once_for_what_it_knows_afterwards() {
    // The first queue's kernel, three times; then the end of the second queue's.
    assert_eq!(waits(2, &[(0, &[1]), (0, &[1]), (0, &[1, 0])]), [1, 0]);
    // A queue's own work needs no packet.
    assert_eq!(waits(2, &[(0, &[0]), (0, &[0])]), [0, 0]);
    // A later point of the same queue is waited for, and an earlier one is then known.
    assert_eq!(waits(2, &[(1, &[]), (1, &[1]), (0, &[3]), (0, &[1])]), [1, 0]);
    // Of two points of a queue the later one is waited for.
    assert_eq!(waits(2, &[(1, &[1]), (0, &[1, 2])]), [1, 0]);
}

#[test]
fn a_queue_knows_what_those_know_that_it_waited_for() {
    // The second queue waits for the first one, and the third one for that wait; then it knows of the first one, too.
    assert_eq!(waits(3, &[(1, &[0]), (2, &[3]), (2, &[0])]), [0, 1, 1]);
    // The wait of the third queue comes first: then it needs both packets.
    assert_eq!(waits(3, &[(1, &[0]), (2, &[0]), (2, &[3])]), [0, 1, 2]);
    // It knows nothing of what the second queue waited for later.
    assert_eq!(waits(3, &[(2, &[1]), (1, &[0]), (2, &[0])]), [0, 1, 2]);
}

#[test]
fn a_queue_that_knows_of_too_many_waits_again() {
    // Nine other queues, of which the first one is forgotten with the last one; the others are known still.
    let mut steps: Vec<(u32, Vec<usize>)> = (1..=9).map(|other| (0, vec![other])).collect();
    steps.extend((2..=9).map(|other| (0, vec![other])));
    let run = |steps: &[(u32, Vec<usize>)]| {
        let steps: Vec<(u32, &[usize])> = steps.iter().map(|(queue, before)| (*queue, &before[..])).collect();
        waits(10, &steps)[0]
    };
    assert_eq!(run(&steps), 9);
    // The first one is waited for again, and now the last one is forgotten, which has the same place.
    steps.push((0, vec![1]));
    assert_eq!(run(&steps), 10);
    steps.extend([(0, vec![3]), (0, vec![9])]);
    assert_eq!(run(&steps), 11);
    // All at once are more than it can know, and none is left out.
    assert_eq!(run(&[(0, (1..=9).collect())]), 9);
}
