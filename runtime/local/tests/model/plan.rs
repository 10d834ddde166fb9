//! A random plan of operations, run once ([`execute`]).

use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use shuttle::rand::Rng;
use shuttle::sync::{Condvar, Mutex};
use shuttle::thread;

use crate::blocking::{self, set_blocking};
use crate::hal::host_kernels::WorkgroupMemory;
use crate::hal::{HostSemaphore, Semaphore, Timepoint};
use crate::hal_driver::queue::{Prepared, Weight};
use crate::queue::{LocalDiscipline, Queue};
use crate::status::{Result, Status};
use crate::sync::{self, set_starts_fail, thread_local};
use crate::task::options::TaskOptions;
use crate::task::topology::{Group, Topology};
use crate::task::{Executor, TiledWork};

thread_local! {
    /// Whether the thread completes an operation.
    static COMPLETES: Cell<bool> = Cell::new(false);
}

/// The waits of an operation.
#[derive(Clone, Copy, Debug)]
enum Wait {
    Operation(usize),
    /// A timeline that the host signals.
    Gate(usize),
}

/// The work of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    Nothing,
    Fails,
    Panics,
    /// It holds a device, which may end with it.
    OwnsDevice,
    /// It shares so many tiles.
    Tiles(u32),
    /// It shares tiles, of which one fails or panics.
    BadTile {
        tiles: u32,
        bad: u32,
        panics: bool,
    },
    /// A function of the host, which submits the operation with this number and waits for it.
    WaitsFor(usize),
}

impl Body {
    fn is_fault(self) -> bool {
        matches!(self, Body::Fails | Body::Panics | Body::BadTile { .. })
    }
}

/// The end of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Signaled,
    Fails,
    GoesAway,
}

#[derive(Debug)]
struct Planned {
    number: usize,
    queue: usize,
    /// The thread that submits it; none for one that another operation submits.
    submitter: Option<usize>,
    weight: Weight,
    waits: Vec<Wait>,
    body: Body,
    /// Whether the submitter waits for what it submits.
    submitter_blocks: bool,
    ran: AtomicU32,
    /// Times of the clock of the execution.
    began: AtomicU64,
    ended: AtomicU64,
}

struct Device(Vec<Arc<Queue>>);

/// The state of an execution.
struct World {
    plan: Vec<Planned>,
    lines: Vec<Arc<dyn Semaphore>>,
    gates: std::sync::Mutex<Vec<Arc<dyn Semaphore>>>,
    /// Locks of the system, under which nothing is scheduled: outcomes by operations, violations, and tiles, which
    /// outlive their leaders.
    outcomes: std::sync::Mutex<Vec<Vec<Result<()>>>>,
    violations: std::sync::Mutex<Vec<String>>,
    tiles: std::sync::Mutex<Vec<Arc<Tiles>>>,
    clock: AtomicU64,
    told: Mutex<usize>,
    changed: Condvar,
}

impl World {
    fn tell(&self, number: usize, outcome: Result<()>) {
        self.outcomes.lock().expect("no panic")[number].push(outcome);
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }

    fn has_ended(&self, number: usize) -> bool {
        !self.outcomes.lock().expect("no panic")[number].is_empty()
    }

    fn wait_until(&self, done: impl Fn(usize) -> bool) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        while !done(*told) {
            told = self.changed.wait(told).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn violated(&self, what: String) {
        self.violations.lock().expect("no panic").push(what);
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Relaxed)
    }
}

/// Tiles of an operation.
#[derive(Debug)]
struct Tiles {
    violations: std::sync::Weak<WorldViolations>,
    leads: AtomicBool,
    runs: Vec<AtomicU32>,
    bad: Option<(u32, bool)>,
}

/// Where tiles note what they should not see.
type WorldViolations = std::sync::Mutex<Vec<String>>;

impl TiledWork for Tiles {
    fn run(&self, tile: u32, _: &mut WorkgroupMemory) -> Result<()> {
        let check = || {
            if !self.leads.load(Relaxed)
                && let Some(violations) = self.violations.upgrade()
            {
                violations.lock().expect("no panic").push(format!("tile {tile} runs after its leader went on"));
            }
        };
        check();
        self.runs[tile as usize].fetch_add(1, Relaxed);
        for _ in 0..3 {
            thread::yield_now();
        }
        check();
        match self.bad {
            // Without a message of its own.
            Some((bad, true)) if bad == tile => resume_unwind(Box::new("on purpose")),
            Some((bad, false)) if bad == tile => Err(Status::internal("a tile fails")),
            _ => Ok(()),
        }
    }
}

fn line() -> Arc<dyn Semaphore> {
    Arc::new(HostSemaphore::new(0))
}

fn at(semaphore: &Arc<dyn Semaphore>) -> Timepoint {
    Timepoint { semaphore: semaphore.clone(), value: 1 }
}

/// Faults that an execution may have.
struct Faults {
    fails: bool,
    panics: bool,
    starts: bool,
    gates: bool,
}

fn body(rng: &mut impl Rng, faults: &Faults) -> Body {
    let tiles = rng.gen_range(1..=5u32);
    match rng.gen_range(0..10u32) {
        0 if faults.fails => Body::Fails,
        1 if faults.panics => Body::Panics,
        2 if faults.fails || faults.panics => {
            let panics = faults.panics && (!faults.fails || rng.gen_bool(0.5));
            Body::BadTile { tiles, bad: rng.gen_range(0..tiles), panics }
        }
        3 => Body::OwnsDevice,
        4 | 5 => Body::WaitsFor(0),
        6..=8 => Body::Tiles(tiles),
        _ => Body::Nothing,
    }
}

/// A plan of at most so many operations for some queues.
fn plan(rng: &mut impl Rng, faults: &Faults, queues: usize, gates: usize) -> Vec<Planned> {
    let count = rng.gen_range(1..=6usize);
    let mut plan: Vec<Planned> = Vec::new();
    let mut inner = Vec::new();
    for number in 0..count {
        let mut body = body(rng, faults);
        let weight = match (body, rng.gen_range(0..3u32)) {
            (Body::WaitsFor(_), _) | (_, 2) => Weight::Foreign,
            // A panic on the thread of a submitter is the submitter's.
            (Body::Panics, _) | (_, 1) => Weight::Time(None),
            _ => Weight::Light,
        };
        let queue = rng.gen_range(0..queues);
        if body == Body::WaitsFor(0) {
            body = Body::WaitsFor(count + inner.len());
            inner.push(if rng.gen_bool(0.7) { queue } else { rng.gen_range(0..queues) });
        }
        let mut waits = Vec::new();
        for _ in 0..rng.gen_range(0..=2u32) {
            match rng.gen_range(0..4u32) {
                0 if gates > 0 => waits.push(Wait::Gate(rng.gen_range(0..gates))),
                _ if number > 0 => waits.push(Wait::Operation(rng.gen_range(0..number))),
                _ => {}
            }
        }
        plan.push(Planned {
            number,
            queue,
            submitter: Some(rng.gen_range(0..2)),
            weight,
            waits,
            body,
            submitter_blocks: !faults.panics && rng.gen_bool(0.2),
            ran: AtomicU32::new(0),
            began: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        });
    }
    for queue in inner {
        plan.push(Planned {
            number: plan.len(),
            queue,
            submitter: None,
            weight: [Weight::Light, Weight::Time(None), Weight::Foreign][rng.gen_range(0..3usize)],
            waits: Vec::new(),
            body: if rng.gen_bool(0.5) { Body::Tiles(2) } else { Body::Nothing },
            submitter_blocks: false,
            ran: AtomicU32::new(0),
            began: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        });
    }
    plan
}

fn new_queue(workers: usize, spins: bool) -> Arc<Queue> {
    let groups = (0..workers).map(|index| Group { name: format!("worker-{index}") }).collect();
    let options = TaskOptions {
        worker_spin: if spins { Duration::from_micros(100) } else { Duration::ZERO },
        handover_threshold: Duration::from_micros(50),
        sharing_threshold: Duration::ZERO,
        worker_stack_size: 0,
        worker_local_memory: 0,
    };
    let executor = Arc::new(Executor::new(Topology { groups }, &options));
    Arc::new(Queue::new(LocalDiscipline::Workers(executor)))
}

/// Makes a plan and runs it.
pub(crate) fn execute() {
    let mut rng = shuttle::rand::thread_rng();
    let has_faults = rng.gen_bool(0.6);
    let [fails, panics, starts, of_gates] = [(); 4].map(|()| has_faults && rng.gen_bool(0.4));
    let faults = Faults { fails, panics, starts, gates: of_gates };
    set_starts_fail(faults.starts);
    let ends: Vec<Gate> = (0..rng.gen_range(0..=2usize))
        .map(|_| {
            if faults.gates {
                [Gate::Signaled, Gate::Fails, Gate::GoesAway][rng.gen_range(0..3usize)]
            } else {
                Gate::Signaled
            }
        })
        .collect();
    let queues = rng.gen_range(1..=2usize);
    let plan = plan(&mut rng, &faults, queues, ends.len());
    let can_fail = faults.starts || faults.gates || plan.iter().any(|planned| planned.body.is_fault());
    let submitters = plan.iter().filter(|planned| planned.submitter.is_some()).count();
    if std::env::var_os("VIREO_SCHEDULE_PLAN").is_some() {
        println!("PLAN {queues} queues, starts fail: {}, gates {ends:?}: {plan:#?}", faults.starts);
    }
    let device = Arc::new(Device((0..queues).map(|_| new_queue(rng.gen_range(1..=3), rng.gen_bool(0.3))).collect()));
    let violations = Arc::new(WorldViolations::default());
    let world = Arc::new(World {
        lines: plan.iter().map(|_| line()).collect(),
        gates: std::sync::Mutex::new(ends.iter().map(|_| line()).collect()),
        outcomes: std::sync::Mutex::new(vec![Vec::new(); plan.len()]),
        violations: std::sync::Mutex::default(),
        tiles: std::sync::Mutex::default(),
        clock: AtomicU64::new(1),
        told: Mutex::new(0),
        changed: Condvar::new(),
        plan,
    });
    for (number, line) in world.lines.iter().enumerate() {
        let told = Arc::downgrade(&world);
        let tell = move |outcome| {
            if let Some(world) = told.upgrade() {
                world.tell(number, outcome);
            }
        };
        line.notify(1, Box::new(tell));
    }
    let threads = [0, 1].map(|submitter| {
        let (world, device, violations) = (world.clone(), device.clone(), violations.clone());
        thread::spawn(move || {
            for planned in world.plan.iter().filter(|planned| planned.submitter == Some(submitter)) {
                set_blocking(planned.submitter_blocks);
                submit(&world, &device, &violations, planned.number);
                set_blocking(false);
            }
        })
    });
    let early = rng.gen_bool(0.3);
    let kept = if early { None } else { Some(device.clone()) };
    drop(device);
    let of_gates = world.clone();
    let host = thread::spawn(move || {
        for end in ends {
            thread::yield_now();
            finish_gate(&of_gates, end);
        }
    });
    for thread in threads {
        thread.join().expect("no panic");
    }
    host.join().expect("no panic");
    // An operation that failed before it ran has not submitted the one that it would wait for.
    let expected = |world: &World| {
        let submitted = |planned: &&Planned| match planned.body {
            Body::WaitsFor(_) => planned.ran.load(Relaxed) > 0,
            _ => false,
        };
        submitters + world.plan.iter().filter(submitted).count()
    };
    world.wait_until(|told| (0..submitters).all(|number| world.has_ended(number)) && told >= expected(&world));
    if let Some(device) = kept {
        let is_last = |queue: &Arc<Queue>| match queue.discipline() {
            LocalDiscipline::Workers(executor) => Arc::strong_count(queue) == 1 && Arc::strong_count(executor) == 1,
            LocalDiscipline::Inline(_) => false,
        };
        let is_last = Arc::strong_count(&device) == 1 && device.0.iter().all(is_last);
        drop(device);
        assert!(!is_last || sync::workers() == 0, "workers are left: {}", sync::workers());
    }
    check(&world, can_fail, &violations);
}

/// Ends the first gate that has not ended.
fn finish_gate(world: &World, end: Gate) {
    let next = {
        let gates = world.gates.lock().expect("no panic");
        let is_open = |gate: &&Arc<dyn Semaphore>| gate.query().is_ok_and(|value| value == 0);
        gates.iter().position(|gate| is_open(&gate))
    };
    let Some(index) = next else { return };
    let gate = world.gates.lock().expect("no panic")[index].clone();
    match end {
        Gate::Signaled => gate.signal(1).expect("it advances"),
        Gate::Fails => gate.fail(Status::internal("a gate fails")),
        Gate::GoesAway => {
            // Another one takes its place, which has failed, for those who come later.
            let failed = line();
            failed.fail(Status::internal("a gate went away"));
            let gone = std::mem::replace(&mut world.gates.lock().expect("no panic")[index], failed);
            drop(gate);
            drop(gone);
        }
    }
}

/// Submits an operation of the plan.
fn submit(world: &Arc<World>, device: &Arc<Device>, violations: &Arc<WorldViolations>, number: usize) {
    let planned = &world.plan[number];
    let wait: Vec<Timepoint> = planned
        .waits
        .iter()
        .map(|wait| match wait {
            Wait::Operation(other) => at(&world.lines[*other]),
            Wait::Gate(gate) => at(&world.gates.lock().expect("no panic")[*gate]),
        })
        .collect();
    // The second point is signaled after those who wait for the first one were notified.
    let completed = line();
    completed.notify(1, Box::new(|_| COMPLETES.with(|completes| completes.set(false))));
    let signal = [at(&world.lines[number]), at(&completed)];
    // Only functions of the host hold the device, and what owns it.
    let needs = matches!(planned.body, Body::OwnsDevice | Body::WaitsFor(_));
    let held = needs.then(|| device.clone());
    let queue = &device.0[planned.queue];
    let executor = match queue.discipline() {
        LocalDiscipline::Workers(executor) => executor,
        LocalDiscipline::Inline(_) => unreachable!("queues of the model have workers"),
    };
    // An execution of commands holds the executor that runs it.
    let shares = matches!(planned.body, Body::Tiles(_) | Body::BadTile { .. });
    let executor = shares.then(|| executor.clone());
    let (of_work, violations) = (world.clone(), violations.clone());
    let work = move || {
        let world = of_work;
        let planned = &world.plan[number];
        if COMPLETES.with(Cell::get) {
            world.violated(format!("operation {number} runs within the one that made it ready"));
        }
        planned.began.store(world.tick(), Relaxed);
        planned.ran.fetch_add(1, Relaxed);
        thread::yield_now();
        let outcome = perform(&world, number, (held.as_ref(), executor.as_ref()), &violations);
        // It goes on the thread that runs the operation.
        drop((held, executor));
        planned.ended.store(world.tick(), Relaxed);
        COMPLETES.with(|completes| completes.set(true));
        outcome
    };
    queue.submit(&wait, &signal, planned.weight, Prepared::Other(Box::new(work))).expect("goes to the points");
}

/// Does the work of an operation.
fn perform(
    world: &Arc<World>,
    number: usize,
    (device, executor): (Option<&Arc<Device>>, Option<&Arc<Executor>>),
    violations: &Arc<WorldViolations>,
) -> Result<()> {
    let (count, bad) = match world.plan[number].body {
        Body::Nothing | Body::OwnsDevice => return Ok(()),
        Body::Fails => return Err(Status::internal("an operation fails")),
        // Without a message of its own.
        Body::Panics => resume_unwind(Box::new("on purpose")),
        Body::WaitsFor(inner) => {
            let device = device.expect("it is held");
            submit(world, device, violations, inner);
            blocking::wait(|| world.wait_until(|_| world.has_ended(inner)));
            return Ok(());
        }
        Body::Tiles(count) => (count, None),
        Body::BadTile { tiles, bad, panics } => (tiles, Some((bad, panics))),
    };
    let executor = executor.expect("it is held");
    let tiles = Arc::new(Tiles {
        violations: Arc::downgrade(violations),
        leads: AtomicBool::new(true),
        runs: (0..count).map(|_| AtomicU32::new(0)).collect(),
        bad,
    });
    // They stay until the execution has ended, for helpers that look at them too late.
    world.tiles.lock().expect("no panic").push(tiles.clone());
    let leader = executor.lead(true);
    let outcome = leader.share(count, &*tiles, true);
    tiles.leads.store(false, Relaxed);
    drop(leader);
    let runs: Vec<u32> = tiles.runs.iter().map(|runs| runs.load(Relaxed)).collect();
    let is_right =
        if outcome.is_ok() { runs.iter().all(|runs| *runs == 1) } else { runs.iter().all(|runs| *runs <= 1) };
    if !is_right {
        world.violated(format!("tiles of operation {number} ran {runs:?} times: {outcome:?}"));
    }
    outcome
}

/// Compares what has happened with what may.
fn check(world: &World, can_fail: bool, violations: &WorldViolations) {
    let outcomes = std::mem::take(&mut *world.outcomes.lock().expect("no panic"));
    for planned in &world.plan {
        let (ended, ran) = (&outcomes[planned.number], planned.ran.load(Relaxed));
        let what = format!("operation {}: {ended:?}, ran {ran} times", planned.number);
        if planned.submitter.is_none() && ended.is_empty() {
            assert_eq!(ran, 0, "{what}");
            continue;
        }
        assert_eq!(ended.len(), 1, "{what}");
        assert!(ran <= 1, "{what}");
        if ended[0].is_err() {
            assert!(can_fail, "{what}, and nothing could fail");
            continue;
        }
        assert!(ran == 1 && !planned.body.is_fault(), "{what}");
        for wait in &planned.waits {
            let Wait::Operation(other) = wait else { continue };
            assert!(outcomes[*other][0].is_ok(), "{what}, and what it waits for failed: {:?}", outcomes[*other]);
            let (ended, began) = (world.plan[*other].ended.load(Relaxed), planned.began.load(Relaxed));
            assert!(ended < began, "{what}: it began at {began}, and what it waits for ended at {ended}");
        }
    }
    let mut violations = std::mem::take(&mut *violations.lock().expect("no panic"));
    violations.append(&mut world.violations.lock().expect("no panic"));
    assert!(violations.is_empty(), "{violations:?}");
}
