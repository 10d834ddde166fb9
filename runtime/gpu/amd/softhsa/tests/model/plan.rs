//! A random execution: queues with their processors, producers, and threads that end queues.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, PoisonError};

use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use vireo_hsa::packet::{BarrierAndPacket, Packet};
use vireo_hsa::packets::Order;
use vireo_hsa::ring::{Ring, Slot};

use crate::bell::Bell;
use crate::doorbell::Doorbell;
use crate::lifecycle::{Lifecycle, call_back};
use crate::packet_loop::{Interruption, PacketLoop, Packets};
use crate::sync::{AtomicBool, AtomicI64, AtomicUsize, Mutex, Ordering};

/// The number by which a packet of the model waits for the gate.
const WAITS: u64 = 1 << 32;

/// The number by which a packet fails.
const FAILS: u64 = 1 << 33;

/// The facts about a queue that the invariants need.
#[derive(Default)]
struct Seen {
    /// The packets that ran, by their numbers.
    ran: Vec<u64>,
    /// Whether a packet runs.
    running: bool,
    /// Packets that began when none might any more: the one that the processor had found.
    late: usize,
    failures: usize,
}

struct Queue {
    slots: Vec<Slot>,
    write: AtomicU64,
    read: AtomicU64,
    doorbell: Doorbell,
    life: Lifecycle,
    single_producer: bool,
    seen: Mutex<Seen>,
    /// The completion signal of all packets.
    completion: AtomicI64,
    /// Threads that ended the queue, and have returned; in functions of the program, and elsewhere.
    quiet_ends: AtomicUsize,
    ends: AtomicUsize,
    failed: AtomicBool,
    /// Whether a function of the program is being called.
    telling: AtomicBool,
    /// The queue that the function which is told of a failure ends.
    told_ends: Option<usize>,
}

struct World {
    queues: Vec<Queue>,
    /// Where packets sleep that wait for the gate.
    signals: Bell,
    gate: AtomicI64,
}

impl Queue {
    fn new(rng: &mut impl Rng, told_ends: Option<usize>) -> Self {
        let size = 1 << rng.gen_range(0..3);
        Queue {
            slots: (0..size).map(|_| Slot::invalid().expect("a slot")).collect(),
            write: AtomicU64::new(0),
            read: AtomicU64::new(0),
            doorbell: Doorbell::new(1, 1),
            life: Lifecycle::new(),
            single_producer: rng.gen_bool(0.3),
            seen: Mutex::default(),
            completion: AtomicI64::new(0),
            quiet_ends: AtomicUsize::new(0),
            ends: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            telling: AtomicBool::new(false),
            told_ends,
        }
    }

    fn ring(&self) -> Ring<'_> {
        Ring::new(&self.slots, &self.write, &self.read).expect("a power of two")
    }

    fn seen(&self) -> shuttle::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A packet with a number, which is in the handle of a signal that the model never follows.
fn packet(number: u64) -> [u8; 64] {
    let signals = std::array::from_fn(|index| vireo_hsa::signal::Signal(if index == 0 { number } else { 0 }));
    BarrierAndPacket::new(Order::NONE, signals).expect("a packet").to_bytes()
}

struct Processor<'a> {
    world: &'a World,
    queue: usize,
}

impl Processor<'_> {
    fn queue(&self) -> &Queue {
        &self.world.queues[self.queue]
    }
}

impl Packets for Processor<'_> {
    type Failure = String;

    fn begin(&self, _packet: &Packet) {}

    fn run(&self, packet: &Packet, index: u64) -> Result<(), Interruption<String>> {
        let queue = self.queue();
        let Packet::BarrierAnd(packet) = packet else { panic!("a packet that no producer wrote") };
        let number = packet.dep_signal[0].0;
        {
            let mut seen = queue.seen();
            assert!(!std::mem::replace(&mut seen.running, true), "two packets run");
            seen.late += usize::from(queue.life.is_inactive());
            assert!(seen.late <= 1, "packets begin after the end of the queue");
        }
        assert!(!queue.failed.load(Ordering::Relaxed), "a packet runs after one that failed");
        assert_eq!(queue.quiet_ends.load(Ordering::Relaxed), 0, "a packet runs after the end of the queue");
        thread::yield_now();
        let waited = match number & WAITS {
            0 => Some(()),
            _ => queue.life.wait(&self.world.signals, || (self.world.gate.load(Ordering::Acquire) == 0).then_some(())),
        };
        let again = queue.ring().peek(index.wrapping_sub(queue.read.load(Ordering::Relaxed)));
        let same = |again| matches!(again, Some(Ok(Packet::BarrierAnd(again))) if again.dep_signal[0].0 == number);
        assert!(same(again), "a packet lost its slot while it ran");
        assert_eq!(queue.quiet_ends.load(Ordering::Relaxed), 0, "a packet runs after the end of the queue");
        queue.seen().running = false;
        if waited.is_none() {
            return Err(Interruption::Stopped);
        }
        if number & FAILS != 0 {
            queue.failed.store(true, Ordering::Relaxed);
            return Err(Interruption::Failed("as planned".to_string()));
        }
        queue.seen().ran.push(number & !WAITS);
        queue.completion.fetch_sub(1, Ordering::AcqRel);
        self.world.signals.ring();
        Ok(())
    }

    fn malformed(&self, what: &str) -> String {
        what.to_string()
    }

    fn tell(&self, failure: &String, _index: u64, _ended: bool) {
        assert_eq!(failure, "as planned");
        let queue = self.queue();
        queue.seen().failures += 1;
        assert_eq!(queue.ends.load(Ordering::Relaxed), 0, "the program is told after the end of the queue");
        queue.telling.store(true, Ordering::Relaxed);
        call_back(|| {
            thread::yield_now();
            if let Some(other) = queue.told_ends {
                end(self.world, other, true, other == self.queue);
            }
        });
        assert_eq!(queue.ends.load(Ordering::Relaxed), 0, "the program is told after the end of the queue");
        queue.telling.store(false, Ordering::Relaxed);
    }
}

/// Ends a queue.
fn end(world: &World, index: usize, in_callback: bool, own: bool) {
    let queue = &world.queues[index];
    queue.life.end(&queue.doorbell.bell, &world.signals, own);
    assert!(!queue.seen().running, "a packet runs after the end of the queue");
    queue.quiet_ends.fetch_add(1, Ordering::Relaxed);
    if !in_callback {
        assert!(!queue.telling.load(Ordering::Relaxed), "the program is told after the end of the queue");
        queue.ends.fetch_add(1, Ordering::Relaxed);
    }
}

/// Submits packets; returns early if the queue has no room and runs nothing more.
fn produce(queue: &Queue, numbers: &[u64]) {
    for number in numbers {
        let reservation = loop {
            if let Some(reservation) = queue.ring().try_reserve(1) {
                break reservation;
            }
            if queue.life.is_inactive() {
                return;
            }
            thread::yield_now();
        };
        thread::yield_now();
        let index = queue.ring().publish(reservation, &[packet(*number)]);
        thread::yield_now();
        queue.doorbell.ring(index as i64);
    }
}

/// Makes a plan and runs it.
pub(crate) fn execute() {
    let mut rng = thread_rng();
    let count = rng.gen_range(1..3);
    let queues: Vec<Queue> = (0..count)
        .map(|_| {
            let told_ends = rng.gen_bool(0.5).then(|| rng.gen_range(0..count));
            Queue::new(&mut rng, told_ends)
        })
        .collect();
    let world = Arc::new(World { queues, signals: Bell::default(), gate: AtomicI64::new(1) });
    let mut threads = Vec::new();
    let mut planned = Vec::new();
    let fails = rng.gen_bool(0.5);
    for index in 0..count {
        world.queues[index].life.start();
        let shared = world.clone();
        threads.push(thread::spawn(move || {
            let queue = &shared.queues[index];
            let packets = PacketLoop {
                ring: queue.ring(),
                write: &queue.write,
                read: &queue.read,
                slots: queue.slots.len() as u64,
                doorbell: &queue.doorbell,
                life: &queue.life,
                single_producer: queue.single_producer,
                reorder: false,
                overlap: false,
            };
            packets.run(&Processor { world: &shared, queue: index });
        }));
        let producers = if world.queues[index].single_producer { 1 } else { rng.gen_range(1..3) };
        for producer in 0..producers {
            let numbers: Vec<u64> = (0..rng.gen_range(1..4))
                .map(|number| {
                    let waits = if rng.gen_bool(0.2) { WAITS } else { 0 };
                    let failure = if fails && rng.gen_bool(0.4) { FAILS } else { 0 };
                    (1 + number + 100 * producer) | waits | failure
                })
                .collect();
            planned.push((index, numbers.clone()));
            let shared = world.clone();
            threads.push(thread::spawn(move || produce(&shared.queues[index], &numbers)));
        }
    }
    // Threads that end queues while they run.
    let mut ended = vec![false; count];
    for _ in 0..rng.gen_range(0..3) {
        let index = rng.gen_range(0..count);
        ended[index] = true;
        let shared = world.clone();
        threads.push(thread::spawn(move || end(&shared, index, false, false)));
    }
    let opens = rng.gen_bool(0.8);
    if opens {
        world.gate.store(0, Ordering::Release);
        world.signals.ring();
    }
    // A queue that nothing ends runs all of its packets, and then waits for ever; so do packets at a gate that stays
    // closed.
    if opens {
        for (index, queue) in world.queues.iter().enumerate() {
            let numbers = || planned.iter().filter(|(of, _)| *of == index).flat_map(|(_, numbers)| numbers);
            let all = numbers().count() as i64;
            let undisturbed = |of: usize| {
                let reaches = world.queues.iter().any(|other| other.told_ends == Some(of));
                !(ended[of] || fails && reaches)
            };
            if undisturbed(index) && numbers().all(|number| number & FAILS == 0) {
                world.signals.wait(None, || (queue.completion.load(Ordering::Acquire) == -all).then_some(()));
            }
        }
    }
    for index in 0..count {
        end(&world, index, false, false);
    }
    threads.into_iter().for_each(|thread| thread.join().expect("the thread ends"));
    for (index, queue) in world.queues.iter().enumerate() {
        let seen = queue.seen();
        assert_eq!(queue.completion.load(Ordering::Relaxed), -(seen.ran.len() as i64), "a signal for each packet");
        assert!(seen.failures <= 1, "a failure is told once");
        assert_eq!(seen.failures == 1, queue.failed.load(Ordering::Relaxed), "a failure is told");
        for (_, numbers) in planned.iter().filter(|(of, _)| *of == index) {
            // Of each producer the first ones ran, in their order.
            let numbers: Vec<u64> = numbers.iter().map(|number| number & !WAITS).collect();
            let ran: Vec<u64> = seen.ran.iter().copied().filter(|number| numbers.contains(number)).collect();
            assert_eq!(ran, numbers[..ran.len()], "packets ran once and in their order");
        }
    }
}
