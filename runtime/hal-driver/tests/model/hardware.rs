//! A queue of a GPU as a thread ([`ModelQueue`]): it begins packets in order, polls the clocks that they wait for, and
//! looks at all that they use. A packet without the barrier bit begins while earlier ones run, and those that run end
//! in any order.

use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use shuttle::sync::{Condvar, Mutex, MutexGuard};
use shuttle::thread;

use crate::device_queue::core::{Clock, Core, Hardware, Job, LANES, ParkedMemory, Part, SubmissionPoint, Work};
use crate::device_queue::sync::pass_until;
use crate::hal::recycle::{MAX_FREE, free_list};
use crate::status::{Result, Status};

/// The state that all threads of an execution share.
#[derive(Default)]
pub struct World {
    /// Counts changes, for those that wait for any.
    version: Mutex<u64>,
    changed: Condvar,
    /// The violations so far. A lock of the system, under which nothing is scheduled.
    violations: std::sync::Mutex<Vec<String>>,
    /// Whether kernels end that the host holds.
    lets_end: AtomicBool,
    /// Counts kernels that begin or end.
    stamps: std::sync::atomic::AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    /// Tells everybody that something has changed.
    pub fn change(&self) {
        *lock(&self.version) += 1;
        self.changed.notify_all();
    }

    fn version(&self) -> u64 {
        *lock(&self.version)
    }

    fn wait_for_change(&self, seen: u64) {
        let mut version = lock(&self.version);
        while *version == seen {
            version = self.changed.wait(version).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets kernels end that the host holds.
    pub fn let_end(&self) {
        self.lets_end.store(true, Ordering::SeqCst);
        self.change();
    }

    pub fn violation(&self, what: String) {
        self.violations.lock().expect("no panic").push(what);
    }

    pub fn violations(&self) -> Vec<String> {
        std::mem::take(&mut self.violations.lock().expect("no panic"))
    }

    pub fn stamp(&self) -> u64 {
        self.stamps.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// The clock of a queue.
pub struct ModelClock {
    id: u64,
    completed: AtomicU64,
}

impl fmt::Debug for ModelClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lane {} of queue {}", self.id % LANES as u64, self.id / LANES as u64)
    }
}

impl Clock for ModelClock {
    fn number(&self) -> u64 {
        self.id
    }

    fn completed(&self) -> u64 {
        self.completed.load(Ordering::SeqCst)
    }
}

/// The effect of a kernel at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    Ends,
    Traps,
    /// Runs until the queue is stopped.
    NeverEnds,
    /// Runs until the host lets it end.
    EndsLater,
}

/// A submission as the hardware sees it, with what the model knows of it afterwards.
#[derive(Debug)]
pub struct Operation {
    pub number: usize,
    pub kernel: Kernel,
    pub parts: u64,
    /// Parts that have run, and when the first of them began and the last one ended.
    pub ran: std::sync::atomic::AtomicU64,
    pub began: std::sync::atomic::AtomicU64,
    pub ended: std::sync::atomic::AtomicU64,
}

/// The memory that kernels use.
#[derive(Debug)]
struct Memory;

free_list! { static PARKED: ParkedMemory<ModelQueue>, MAX_FREE }

#[derive(Default)]
pub struct ModelWork(Option<(Arc<Operation>, Arc<Memory>)>);

impl Work for ModelWork {
    fn parts(&self) -> u64 {
        self.0.as_ref().map_or(1, |(operation, _)| operation.parts)
    }

    fn release(&mut self) {
        self.0 = None;
    }
}

impl Job<ModelQueue> for Arc<Operation> {
    type Ref<'a> = &'a Arc<Operation>;

    fn borrow(&self) -> &Arc<Operation> {
        self
    }

    fn to_owned(borrowed: &Arc<Operation>) -> Self {
        borrowed.clone()
    }

    fn resolve(borrowed: &Arc<Operation>, _: &ModelQueue, work: &mut ModelWork) -> Result<()> {
        work.0 = Some((borrowed.clone(), Arc::new(Memory)));
        Ok(())
    }
}

/// A packet.
#[derive(Clone)]
pub struct Packet {
    /// The clock that it polls: as memory, which is not owned.
    wait: Option<(Weak<ModelClock>, u64)>,
    /// The packets that it runs, with the part.
    kernel: Option<(Arc<Operation>, Weak<Memory>, u64)>,
    /// Whether it begins after all earlier packets have ended.
    is_ordered: bool,
    /// The lane that counts it, if it completes a part.
    completes: Option<usize>,
}

/// How far a packet in the ring is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Published,
    Runs,
    Ended,
}

/// The ring, as both sides see it.
#[derive(Default)]
struct Ring {
    packets: std::collections::VecDeque<(Packet, State)>,
    /// Packets that are not in it any more.
    retired: u64,
    /// Asked to stop, and whether it runs.
    is_stopped: bool,
    runs: bool,
    running: Option<usize>,
    /// The queue failed, and let go of who waits for it.
    is_released: bool,
    is_woken: bool,
}

/// The state that the queue and its thread share.
struct Shared {
    world: Arc<World>,
    number: u64,
    clocks: [Arc<ModelClock>; LANES],
    ring: Mutex<Ring>,
    changed: Condvar,
    core: OnceLock<Weak<Core<ModelQueue>>>,
}

impl Shared {
    fn change(&self) {
        // A thread that is about to wait has looked before, or waits after this.
        drop(lock(&self.ring));
        self.changed.notify_all();
        self.world.change();
    }

    /// Runs packets until it is stopped.
    fn run(&self) {
        let mut running = Vec::new();
        loop {
            // Before anything is looked at, so that no change is missed.
            let version = self.world.version();
            {
                let mut ring = lock(&self.ring);
                if ring.is_stopped {
                    ring.runs = false;
                    drop(ring);
                    running.iter().for_each(|packet| self.check(packet, "when it is stopped"));
                    return self.change();
                }
            }
            if let Some(packet) = self.begin_next() {
                running.push(packet);
                thread::yield_now();
                continue;
            }
            let can_end: Vec<usize> = (0..running.len()).filter(|index| self.can_end(&running[*index])).collect();
            if can_end.is_empty() {
                self.world.wait_for_change(version);
                continue;
            }
            let packet = running.remove(can_end[thread_rng().gen_range(0..can_end.len())]);
            self.end(&packet);
            thread::yield_now();
        }
    }

    /// Begins the next packet, if it may; returns it with its place in the ring, counted from the beginning.
    fn begin_next(&self) -> Option<(u64, Packet)> {
        let (index, place, packet) = {
            let ring = lock(&self.ring);
            let is_published = |(_, state): &&(Packet, State)| *state == State::Published;
            let index = ring.packets.iter().position(|packet| is_published(&packet))?;
            (index, ring.retired + index as u64, ring.packets[index].0.clone())
        };
        let is_first = lock(&self.ring).packets.iter().take(index).all(|(_, state)| *state == State::Ended);
        if packet.is_ordered && !is_first {
            return None;
        }
        if let Some((clock, epoch)) = &packet.wait {
            match clock.upgrade() {
                None => self.world.violation(format!("queue {} polls a clock that is gone", self.number)),
                Some(clock) if clock.completed() < *epoch => return None,
                Some(_) => {}
            }
        }
        let mut ring = lock(&self.ring);
        ring.packets[index].1 = State::Runs;
        if let Some((operation, _, part)) = &packet.kernel {
            ring.running = Some(operation.number);
            drop(ring);
            if *part == 0 {
                operation.began.store(self.world.stamp(), Ordering::Relaxed);
            }
            if operation.ran.load(Ordering::Relaxed) != *part {
                let what =
                    format!("part {part} of operation {} begins before the one before has ended", operation.number);
                self.world.violation(what);
            }
        }
        let begun = (place, packet);
        self.check(&begun, "when it begins");
        Some(begun)
    }

    /// Looks at the memory of a packet that runs.
    fn check(&self, (_, packet): &(u64, Packet), when: &str) {
        if let Some((operation, memory, _)) = &packet.kernel
            && memory.upgrade().is_none()
        {
            self.world.violation(format!("operation {} uses memory that is gone {when}", operation.number));
        }
    }

    /// Whether a packet that runs may end now.
    fn can_end(&self, (_, packet): &(u64, Packet)) -> bool {
        let Some((operation, _, part)) = &packet.kernel else { return true };
        *part + 1 != operation.parts
            || match operation.kernel {
                Kernel::Ends | Kernel::Traps => true,
                Kernel::NeverEnds => false,
                Kernel::EndsLater => self.world.lets_end.load(Ordering::SeqCst),
            }
    }

    /// Ends a packet that runs.
    fn end(&self, begun: &(u64, Packet)) {
        let (place, packet) = begun;
        if let Some((operation, _, part)) = &packet.kernel {
            let is_last = *part + 1 == operation.parts;
            if is_last && operation.kernel == Kernel::Traps {
                if let Some(core) = self.core.get().and_then(Weak::upgrade) {
                    core.fail(Status::internal(format!("operation {} traps", operation.number)));
                }
                lock(&self.ring).is_stopped = true;
                return;
            }
            self.check(begun, "when it ends");
            operation.ran.fetch_add(1, Ordering::Relaxed);
            if is_last {
                operation.ended.store(self.world.stamp(), Ordering::Relaxed);
            }
        }
        // Operations of this queue that wait for it begin before or after any thread learns that it has completed.
        let ends = || {
            let mut ring = lock(&self.ring);
            let index = (*place - ring.retired) as usize;
            ring.packets[index].1 = State::Ended;
        };
        let is_early = thread_rng().gen_bool(0.5);
        if is_early {
            ends();
        }
        if let Some(lane) = packet.completes {
            self.clocks[lane].completed.fetch_add(1, Ordering::SeqCst);
            self.change();
        }
        if !is_early {
            ends();
        }
        // A slot is free some time after its packet has completed.
        thread::yield_now();
        let mut ring = lock(&self.ring);
        while ring.packets.front().is_some_and(|(_, state)| *state == State::Ended) {
            ring.packets.pop_front();
            ring.retired += 1;
        }
        drop(ring);
        self.change();
    }
}

/// A queue.
pub struct ModelQueue {
    shared: Arc<Shared>,
    slots: usize,
    patience: Option<Duration>,
}

impl fmt::Debug for ModelQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue {}", self.shared.number)
    }
}

impl Drop for ModelQueue {
    fn drop(&mut self) {
        lock(&self.shared.ring).is_stopped = true;
        self.shared.change();
    }
}

impl ModelQueue {
    /// A queue with its thread, and no owner yet.
    pub fn start(world: &Arc<World>, number: u64, slots: usize, patience: Option<Duration>) -> Arc<Core<ModelQueue>> {
        let clock = |lane: usize| {
            Arc::new(ModelClock { id: number * LANES as u64 + lane as u64, completed: AtomicU64::new(0) })
        };
        let clocks = std::array::from_fn(clock);
        let ring = Mutex::new(Ring { runs: true, ..Ring::default() });
        let (world, changed, core) = (world.clone(), Condvar::new(), OnceLock::new());
        let shared = Shared { world, number, clocks, ring, changed, core };
        let shared = Arc::new(shared);
        let core = Arc::new(Core::new(ModelQueue { shared: shared.clone(), slots, patience }, Vec::new(), &PARKED));
        shared.core.set(Arc::downgrade(&core)).expect("it was not set before");
        let hardware = thread::Builder::new().name(format!("hardware-{number}"));
        hardware.spawn(move || shared.run()).expect("there are threads");
        core
    }

    fn has_room(&self, count: usize) -> bool {
        lock(&self.shared.ring).packets.len() + count <= self.slots
    }
}

fn wait_for(point: &SubmissionPoint<ModelClock>) -> Packet {
    let wait = Some((Arc::downgrade(&point.clock), point.epoch));
    Packet { wait, kernel: None, is_ordered: false, completes: None }
}

/// Wakes a completion thread.
struct WakeQueue(Arc<Shared>);

impl Wake for WakeQueue {
    fn wake(self: Arc<Self>) {
        lock(&self.0.ring).is_woken = true;
        self.0.change();
    }
}

/// Most packets of a part.
pub const LARGEST_PART: usize = ModelQueue::MAX_WAITS + 1;

impl Hardware for ModelQueue {
    type Clock = ModelClock;
    type Work = ModelWork;
    type Job = Arc<Operation>;
    type Builder = Vec<Packet>;

    const NAME: &'static str = "model";
    const MAX_WAITS: usize = 1;

    fn clocks(&self) -> &[Arc<ModelClock>; LANES] {
        &self.shared.clocks
    }

    fn agent(&self) -> u64 {
        1
    }

    fn can_wait_for(&self, _other: &ModelClock) -> bool {
        true
    }

    fn prepare_waits(&self, builder: &mut Vec<Packet>, points: &[SubmissionPoint<ModelClock>]) -> Result<bool> {
        *builder = points.iter().map(wait_for).collect();
        Ok(self.has_room(builder.len()))
    }

    fn prepare(&self, builder: &mut Vec<Packet>, part: Part<'_, ModelQueue>) -> Result<bool> {
        *builder = part.waits.iter().map(wait_for).collect();
        let work = part.work.and_then(|(work, index)| Some((work.0.as_ref()?, index)));
        let kernel = work.map(|((operation, memory), index)| (operation.clone(), Arc::downgrade(memory), index));
        builder.push(Packet { wait: None, kernel, is_ordered: part.is_ordered, completes: Some(part.lane) });
        Ok(self.has_room(builder.len()))
    }

    fn publish(&self, builder: &mut Vec<Packet>) -> Result<()> {
        lock(&self.shared.ring).packets.extend(builder.drain(..).map(|packet| (packet, State::Published)));
        self.shared.change();
        Ok(())
    }

    fn progress(&self) -> u64 {
        self.shared.world.version()
    }

    fn pause(&self, seen: u64, _attempts: u32) {
        // The end of the line after a failure is no change of the hardware.
        if lock(&self.shared.ring).is_released {
            return thread::yield_now();
        }
        self.shared.world.wait_for_change(seen);
    }

    fn wake(&self) {
        lock(&self.shared.ring).is_woken = true;
        self.shared.change();
    }

    fn waker(&self) -> Waker {
        Arc::new(WakeQueue(self.shared.clone())).into()
    }

    fn rearm(&self) {
        lock(&self.shared.ring).is_woken = false;
    }

    fn wait(&self, seen: Option<&[u64; LANES]>, until: Option<Instant>) {
        let has_gone_on = |(clock, seen): (&Arc<ModelClock>, &u64)| clock.completed.load(Ordering::SeqCst) > *seen;
        let is_over = |ring: &Ring| {
            ring.is_woken || seen.is_some_and(|seen| self.shared.clocks.iter().zip(seen).any(has_gone_on))
        };
        if let Some(until) = until {
            // Time passes while others do little or much.
            for _ in 0..3 {
                if is_over(&lock(&self.shared.ring)) {
                    return;
                }
                thread::yield_now();
            }
            return pass_until(until);
        }
        let mut ring = lock(&self.shared.ring);
        while !is_over(&ring) {
            ring = self.shared.changed.wait(ring).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn report(&self, _completed: &[u64; LANES]) {}

    fn can_stop(&self) -> bool {
        true
    }

    fn stop(&self) {
        let mut ring = lock(&self.shared.ring);
        ring.is_stopped = true;
        drop(ring);
        self.shared.change();
        ring = lock(&self.shared.ring);
        while ring.runs {
            ring = self.shared.changed.wait(ring).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn release_waiters(&self) {
        self.shared.clocks.iter().for_each(|clock| clock.completed.store(u64::MAX, Ordering::SeqCst));
        lock(&self.shared.ring).is_released = true;
        self.shared.change();
    }

    fn running(&self) -> Option<Arc<str>> {
        lock(&self.shared.ring).running.map(|number| format!("operation {number}").into())
    }

    fn patience(&self) -> Option<Duration> {
        self.patience
    }
}
