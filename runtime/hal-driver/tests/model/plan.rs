//! A random plan of operations, run once ([`execute`]).

use std::panic::resume_unwind;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use shuttle::rand::Rng;
use shuttle::sync::{Condvar, Mutex};
use shuttle::thread;

use crate::device_queue::HostWorkers;
use crate::device_queue::core::{Core, Owner, Payload, Request, SubmissionPoint};
use crate::device_timeline::DeviceTimeline;
use crate::hal::{Semaphore, Timepoint};
use crate::hardware::{Kernel, LARGEST_PART, ModelClock, ModelQueue, Operation, World};
use crate::limits::scope::Scope;
use crate::limits::{Cancellation, Limits};
use crate::status::{Result, Status};

/// The waits of an operation.
#[derive(Clone, Copy, Debug)]
enum Wait {
    Operation(usize),
    /// A timeline that the host signals.
    Gate(usize),
}

/// The effect of a callback of the host once an operation has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Callback {
    Nothing,
    Panics,
    /// Drops a reference to a device, which may be the last one.
    DropsDevice(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Barrier,
    Kernel,
    /// A thread of the host, which submits the kernel and waits for it.
    Host,
}

#[derive(Debug)]
struct Planned {
    device: usize,
    queue: usize,
    submitter: usize,
    kind: Kind,
    operation: Arc<Operation>,
    waits: Vec<Wait>,
    callback: Callback,
    reclaim_panics: bool,
    is_cancelled: bool,
}

/// The queues of a device, which end with it.
struct Device(Vec<Owner<ModelQueue>>);

/// The outcomes of operations that the host has seen.
#[derive(Default)]
struct Told {
    /// A lock of the system, under which nothing is scheduled: outcomes, and how often each operation was reclaimed.
    outcomes: std::sync::Mutex<Vec<(Vec<Result<()>>, u32)>>,
    ended: Mutex<usize>,
    changed: Condvar,
}

impl Told {
    fn tell(&self, number: usize, outcome: Result<()>) {
        self.outcomes.lock().expect("no panic")[number].0.push(outcome);
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }

    fn wait_for(&self, count: usize) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        while *ended < count {
            ended = self.changed.wait(ended).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn line() -> Arc<dyn Semaphore> {
    Arc::new(DeviceTimeline::<SubmissionPoint<ModelClock>>::new(0))
}

fn at(semaphore: &Arc<dyn Semaphore>) -> Timepoint {
    Timepoint { semaphore: semaphore.clone(), value: 1 }
}

/// Submits a kernel and waits for it, as staging does.
fn submit_and_wait(core: &Arc<Core<ModelQueue>>, operation: Arc<Operation>, scope: Scope) -> Result<()> {
    let done = line();
    let told = Arc::new((Mutex::new(None), Condvar::new()));
    let of_callback = told.clone();
    let callback = move |outcome: Result<()>| {
        *of_callback.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        of_callback.1.notify_all();
    };
    done.notify(1, Box::new(callback));
    let request =
        Request { wait: Vec::new(), signal: vec![at(&done)], payload: Payload::Job(operation), reclaim: None };
    core.submit(request, scope, true);
    let mut outcome = told.0.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        match outcome.take() {
            Some(outcome) => return outcome,
            None => outcome = told.1.wait(outcome).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// Makes a plan and runs it.
pub fn execute() {
    let mut rng = shuttle::rand::thread_rng();
    let world = Arc::new(World::default());
    let has_faults = rng.gen_bool(0.6);
    let [traps, mut cancels, fails_gates, panics] = [(); 4].map(|()| has_faults && rng.gen_bool(0.4));
    // The first kernel ends after the submitters have returned, and everything else is cancelled: what waits for room
    // has to return by that.
    let is_held = has_faults && rng.gen_bool(0.2);
    cancels |= is_held;
    let patience = (has_faults && !is_held && rng.gen_bool(0.2)).then_some(Duration::from_millis(20));
    let devices = rng.gen_range(1..=2usize);
    let queues = if devices == 1 { rng.gen_range(1..=4) } else { rng.gen_range(1..=2) };
    // A kernel without an end and without limits ends by its device, which its submitters own as long as they wait for
    // room.
    let slots = LARGEST_PART + if patience.is_some() { 100 } else { rng.gen_range(0..=1usize) };
    let gates: Vec<Arc<dyn Semaphore>> = (0..rng.gen_range(0..=2usize)).map(|_| line()).collect();
    let count = rng.gen_range(1..=9usize);
    let mut plan: Vec<Planned> = Vec::new();
    for number in 0..count {
        let is_first = is_held && number == 0;
        let is_cancelled = !is_first && cancels && (is_held || rng.gen_bool(0.5));
        let kind = [Kind::Barrier, Kind::Kernel, Kind::Kernel, Kind::Host][rng.gen_range(0..4usize)];
        let kind = if is_first { Kind::Kernel } else { kind };
        let kernel = match rng.gen_range(0..6u32) {
            _ if is_first => Kernel::EndsLater,
            0 if traps => Kernel::Traps,
            1 if is_cancelled || patience.is_some() => Kernel::NeverEnds,
            _ => Kernel::Ends,
        };
        let mut waits = Vec::new();
        for _ in 0..rng.gen_range(0..=3u32) {
            match rng.gen_range(0..4u32) {
                0 if !gates.is_empty() => waits.push(Wait::Gate(rng.gen_range(0..gates.len()))),
                _ if number > 0 => waits.push(Wait::Operation(rng.gen_range(0..number))),
                _ => {}
            }
        }
        let callback = match rng.gen_range(0..6u32) {
            0 if patience.is_none() => Callback::DropsDevice(rng.gen_range(0..devices)),
            1 if panics => Callback::Panics,
            _ => Callback::Nothing,
        };
        let parts = if kind == Kind::Barrier { 1 } else { rng.gen_range(1..=3) };
        let zero = std::sync::atomic::AtomicU64::default;
        let operation = Arc::new(Operation { number, kernel, parts, ran: zero(), began: zero(), ended: zero() });
        plan.push(Planned {
            device: rng.gen_range(0..devices),
            queue: rng.gen_range(0..queues),
            submitter: rng.gen_range(0..2),
            kind,
            operation,
            waits,
            callback,
            reclaim_panics: panics && rng.gen_bool(0.2),
            is_cancelled,
        });
    }
    let can_fail =
        traps || cancels || fails_gates || patience.is_some() || plan.iter().any(|planned| planned.reclaim_panics);

    if std::env::var_os("VIREO_SCHEDULE_PLAN").is_some() {
        println!("PLAN slots {slots}, patience {patience:?}, gates {}: {plan:#?}", gates.len());
    }
    let owners = |device: u64| {
        let start = |queue: u64| {
            let core = ModelQueue::start(&world, 1 + device * 4 + queue, slots, patience);
            Owner::start(core).expect("there are threads")
        };
        Arc::new(Device((0..queues as u64).map(start).collect()))
    };
    let devices: Vec<Arc<Device>> = (0..devices as u64).map(owners).collect();
    let lines: Vec<Arc<dyn Semaphore>> = plan.iter().map(|_| line()).collect();
    let told = Arc::new(Told::default());
    told.outcomes.lock().expect("no panic").resize(count, (Vec::new(), 0));
    for (planned, line) in plan.iter().zip(&lines) {
        if planned.callback == Callback::Panics {
            // Without a message of its own.
            line.notify(1, Box::new(|_| resume_unwind(Box::new("on purpose"))));
        }
        let (told, number) = (told.clone(), planned.operation.number);
        let held = match planned.callback {
            Callback::DropsDevice(device) => Some(devices[device].clone()),
            _ => None,
        };
        let end = move |outcome| {
            drop(held);
            told.tell(number, outcome);
        };
        line.notify(1, Box::new(end));
    }
    let cancellation = Cancellation::new();
    let limits = Limits { cancellation: Some(cancellation.clone()), ..Limits::default() };
    let plan = Arc::new(plan);
    let submitters = [0, 1].map(|submitter| {
        let (plan, devices, lines, told) = (plan.clone(), devices.clone(), lines.clone(), told.clone());
        let (gates, limits) = (gates.clone(), limits.clone());
        thread::spawn(move || {
            for planned in plan.iter().filter(|planned| planned.submitter == submitter) {
                submit(planned, &devices, &lines, &gates, &limits, &told);
            }
        })
    });
    // A thread that drops a device waits for the work that it runs.
    let kept = is_held.then(|| devices.clone());
    drop(devices);
    let of_host = (world.clone(), gates.clone());
    let host = thread::spawn(move || {
        let (world, gates) = of_host;
        for gate in &gates {
            thread::yield_now();
            if fails_gates {
                gate.fail(Status::internal("a gate fails"));
            } else {
                gate.signal(1).expect("it advances");
            }
        }
        if cancels {
            thread::yield_now();
            cancellation.cancel();
            world.change();
        }
    });
    if !is_held {
        told.wait_for(count);
    }
    for thread in submitters.into_iter().chain([host]) {
        thread.join().expect("no panic");
    }
    world.let_end();
    drop(kept);
    told.wait_for(count);
    let outcomes = std::mem::take(&mut *told.outcomes.lock().expect("no panic"));
    for planned in plan.iter() {
        check(planned, &plan, &outcomes, fails_gates, can_fail);
    }
    let violations = world.violations();
    assert!(violations.is_empty(), "{violations:?}");
}

/// Submits an operation of the plan.
fn submit(
    planned: &Planned,
    devices: &[Arc<Device>],
    lines: &[Arc<dyn Semaphore>],
    gates: &[Arc<dyn Semaphore>],
    limits: &Limits,
    told: &Arc<Told>,
) {
    let core = devices[planned.device].0[planned.queue].core();
    let number = planned.operation.number;
    let wait = planned.waits.iter().map(|wait| match wait {
        Wait::Operation(other) => at(&lines[*other]),
        Wait::Gate(gate) => at(&gates[*gate]),
    });
    let scope = if planned.is_cancelled { Scope::of(limits) } else { Scope::default() };
    let operation = planned.operation.clone();
    let payload = match planned.kind {
        Kind::Barrier => Payload::Barrier,
        Kind::Kernel => Payload::Job(operation),
        Kind::Host => {
            let (core, scope) = (core.clone(), scope.clone());
            let action = move |_: &[Timepoint]| submit_and_wait(&core, operation, scope);
            Payload::Host(Box::new(action), Arc::new(HostWorkers))
        }
    };
    let (told, panics) = (told.clone(), planned.reclaim_panics);
    let reclaim = move || {
        told.outcomes.lock().expect("no panic")[number].1 += 1;
        if panics {
            resume_unwind(Box::new("on purpose"));
        }
        Ok(())
    };
    let signal = vec![at(&lines[number])];
    core.submit(Request { wait: wait.collect(), signal, payload, reclaim: Some(Box::new(reclaim)) }, scope, true);
}

/// Compares the end of an operation with what may be.
fn check(planned: &Planned, plan: &[Planned], outcomes: &[(Vec<Result<()>>, u32)], fails_gates: bool, can_fail: bool) {
    let operation = &planned.operation;
    let (ended, reclaimed) = &outcomes[operation.number];
    let what = format!("operation {}: {ended:?}", operation.number);
    assert_eq!(ended.len(), 1, "{what}");
    // Memory is taken once, and not after an operation that failed: one that fails afterwards is of a function that
    // panics on purpose.
    let takes = ended[0].is_ok() || planned.reclaim_panics && *reclaimed > 0;
    assert_eq!(*reclaimed, u32::from(takes), "{what}");
    if ended[0].is_err() {
        return assert!(can_fail, "{what}, and nothing could fail");
    }
    let runs = planned.kind != Kind::Barrier;
    assert!(!runs || matches!(operation.kernel, Kernel::Ends | Kernel::EndsLater), "{what}");
    assert!(!planned.reclaim_panics, "{what}");
    assert_eq!(operation.ran.load(Relaxed), if runs { operation.parts } else { 0 }, "{what}");
    for wait in &planned.waits {
        let Wait::Operation(other) = wait else {
            assert!(!fails_gates, "{what}, and its gate failed");
            continue;
        };
        assert!(outcomes[*other].0[0].is_ok(), "{what}, and what it waits for failed: {:?}", outcomes[*other].0);
        let other = &plan[*other];
        if runs && other.kind != Kind::Barrier {
            let (ended, began) = (other.operation.ended.load(Relaxed), operation.began.load(Relaxed));
            assert!(ended < began, "{what}: it began at {began}, and what it waits for ended at {ended}");
        }
    }
}
