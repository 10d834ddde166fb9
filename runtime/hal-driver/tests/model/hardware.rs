//! A queue of a GPU as a thread ([`ModelQueue`]): it runs packets in order, polls the clocks that they wait for, and looks at all that they
//! use.

use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use shuttle::sync::{Condvar, Mutex, MutexGuard};
use shuttle::thread;

use crate::device_queue::core::{Clock, Core, Hardware, Job, Part, SubmissionPoint, Work};
use crate::device_queue::sync::pass_until;
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
        write!(f, "clock {}", self.id)
    }
}

impl Clock for ModelClock {
    fn queue(&self) -> u64 {
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
    completes: bool,
}

/// The ring, as both sides see it.
#[derive(Default)]
struct Ring {
    packets: std::collections::VecDeque<Packet>,
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
    clock: Arc<ModelClock>,
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
        loop {
            let packet = {
                let mut ring = lock(&self.ring);
                loop {
                    if ring.is_stopped {
                        ring.runs = false;
                        drop(ring);
                        return self.change();
                    }
                    if let Some(packet) = ring.packets.front() {
                        break packet.clone();
                    }
                    ring = self.changed.wait(ring).unwrap_or_else(PoisonError::into_inner);
                }
            };
            if self.execute(&packet).is_none() {
                continue;
            }
            if packet.completes {
                self.clock.completed.fetch_add(1, Ordering::SeqCst);
                self.change();
            }
            // A slot is free some time after its packet has completed.
            thread::yield_now();
            let mut ring = lock(&self.ring);
            ring.packets.pop_front();
            drop(ring);
            self.change();
        }
    }

    /// Runs a packet; none if the queue is stopped before that has ended.
    fn execute(&self, packet: &Packet) -> Option<()> {
        if let Some((clock, epoch)) = &packet.wait {
            loop {
                let version = self.world.version();
                if lock(&self.ring).is_stopped {
                    return None;
                }
                let Some(clock) = clock.upgrade() else {
                    self.world.violation(format!("queue {} polls a clock that is gone", self.clock.id));
                    return Some(());
                };
                if clock.completed() >= *epoch {
                    break;
                }
                drop(clock);
                self.world.wait_for_change(version);
            }
        }
        let Some((operation, memory, part)) = &packet.kernel else { return Some(()) };
        let check = |when: &str| {
            if memory.upgrade().is_none() {
                self.world.violation(format!("operation {} uses memory that is gone {when}", operation.number));
            }
        };
        check("when it begins");
        let relaxed = Ordering::Relaxed;
        if *part == 0 {
            operation.began.store(self.world.stamp(), relaxed);
        }
        lock(&self.ring).running = Some(operation.number);
        thread::yield_now();
        let is_last = *part + 1 == operation.parts;
        match operation.kernel {
            Kernel::Traps if is_last => {
                if let Some(core) = self.core.get().and_then(Weak::upgrade) {
                    core.fail(Status::internal(format!("operation {} traps", operation.number)));
                }
                lock(&self.ring).is_stopped = true;
                return None;
            }
            Kernel::NeverEnds | Kernel::EndsLater if is_last => loop {
                let version = self.world.version();
                if operation.kernel == Kernel::EndsLater && self.world.lets_end.load(Ordering::SeqCst) {
                    break;
                }
                if lock(&self.ring).is_stopped {
                    check("when it is stopped");
                    return None;
                }
                self.world.wait_for_change(version);
            },
            _ => {}
        }
        check("when it ends");
        operation.ran.fetch_add(1, relaxed);
        if is_last {
            operation.ended.store(self.world.stamp(), relaxed);
        }
        Some(())
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
        write!(f, "queue {}", self.shared.clock.id)
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
    pub fn start(world: &Arc<World>, id: u64, slots: usize, patience: Option<Duration>) -> Arc<Core<ModelQueue>> {
        let clock = Arc::new(ModelClock { id, completed: AtomicU64::new(0) });
        let ring = Mutex::new(Ring { runs: true, ..Ring::default() });
        let shared = Shared { world: world.clone(), clock, ring, changed: Condvar::new(), core: OnceLock::new() };
        let shared = Arc::new(shared);
        let core = Arc::new(Core::new(ModelQueue { shared: shared.clone(), slots, patience }, Vec::new()));
        shared.core.set(Arc::downgrade(&core)).expect("it was not set before");
        let hardware = thread::Builder::new().name(format!("hardware-{id}"));
        hardware.spawn(move || shared.run()).expect("there are threads");
        core
    }

    fn has_room(&self, count: usize) -> bool {
        lock(&self.shared.ring).packets.len() + count <= self.slots
    }
}

fn wait_for(point: &SubmissionPoint<ModelClock>) -> Packet {
    Packet { wait: Some((Arc::downgrade(&point.clock), point.epoch)), kernel: None, completes: false }
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

    fn clock(&self) -> &Arc<ModelClock> {
        &self.shared.clock
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
        builder.push(Packet { wait: None, kernel, completes: true });
        Ok(self.has_room(builder.len()))
    }

    fn publish(&self, builder: &mut Vec<Packet>) -> Result<()> {
        lock(&self.shared.ring).packets.extend(builder.drain(..));
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

    fn wait(&self, epoch: Option<u64>, until: Option<Instant>) {
        let is_over = |ring: &Ring| {
            ring.is_woken || epoch.is_some_and(|epoch| self.shared.clock.completed.load(Ordering::SeqCst) >= epoch)
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

    fn report(&self, _completed: u64) {}

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
        self.shared.clock.completed.store(u64::MAX, Ordering::SeqCst);
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
