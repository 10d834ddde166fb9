//! The model checker of queues: the core of the driver's queues, compiled over the locks and threads of `shuttle`, which runs one thread at
//! a time and decides at each lock who goes on. Hardware is a thread for each queue. An execution makes a random plan (up to four queues of
//! one or two devices with rings of few slots, operations that wait for each other, failures, cancellations, callbacks that panic or drop
//! devices) and runs it in a random schedule. Invariants:
//!
//! - each operation ends exactly once, and what is done after it is done once and before that;
//! - nobody waits for ever: all threads end;
//! - what packets use is there until they have run or were stopped;
//! - an operation that succeeds ran, once, after what it waited for, which succeeded; without a fault all of them succeed.
//!
//! Each of the driver's rules (`src/queue/rules.rs`) is broken in turn, and has to be found. `VIREO_SCHEDULES` is the number of schedules,
//! and `VIREO_SCHEDULE_SEED` the first seed; a failure prints the schedule, which `shuttle::replay` takes.

mod hardware;
mod plan;
mod queue;
#[path = "../../src/semaphore.rs"]
mod semaphore;

use std::panic::{AssertUnwindSafe, catch_unwind};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use vireo_core::{limits, status};
use vireo_hal as hal;

use queue::rules::{Rule, set_broken};

/// More steps than an execution takes that ends: without an end of its own it is a hang.
const MAX_STEPS: usize = 100_000;

fn run(scheduler: impl Scheduler + 'static, persistence: FailurePersistence) {
    let mut config = Config::new();
    config.max_steps = MaxSteps::FailAfter(MAX_STEPS);
    config.failure_persistence = persistence;
    config.stack_size = 1 << 17;
    Runner::new(scheduler, config).run(plan::execute);
}

/// A number of the environment.
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn queues_hang_in_no_schedule() {
    let schedules = number("VIREO_SCHEDULES").unwrap_or(2000) as usize;
    let seed = number("VIREO_SCHEDULE_SEED").unwrap_or(1);
    set_broken(None);
    // At random, and with few preemptions at bad places.
    run(RandomScheduler::new_from_seed(seed, schedules - schedules / 2), FailurePersistence::Print);
    run(PctScheduler::new_from_seed(seed, 3, schedules / 2), FailurePersistence::Print);
}

#[test]
fn each_rule_that_is_broken_is_found() {
    const RULES: [Rule; 12] = [
        Rule::SignalsDoNotSubmit,
        Rule::EntriesOwnWaits,
        Rule::LimitsEndBackPressure,
        Rule::CutsKeepEpochs,
        Rule::PacketsStopFirst,
        Rule::FailureEndsTheLine,
        Rule::FailureReleasesOthers,
        Rule::OutcomesOfWaitsCount,
        Rule::HoldsKeepThreads,
        Rule::PanicsAreCaught,
        Rule::DriverThreadsDoNotWait,
        Rule::FeederTakesOver,
    ];
    // With this one all of them are found soon.
    let seed = number("VIREO_SCHEDULE_SEED").unwrap_or(4);
    let most = number("VIREO_MUTANT_SCHEDULES").unwrap_or(30_000) as usize;
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = Vec::new();
    for rule in RULES {
        set_broken(Some(rule));
        let found = catch_unwind(AssertUnwindSafe(|| {
            run(RandomScheduler::new_from_seed(seed, most), FailurePersistence::None)
        }));
        let executions = plan::executions();
        match found {
            Ok(()) => missed.push(rule),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
                println!("{rule:?}: found by execution {executions}: {}", text.lines().next().unwrap_or_default());
            }
        }
    }
    set_broken(None);
    std::panic::set_hook(hook);
    assert!(missed.is_empty(), "not found: {missed:?}");
}
