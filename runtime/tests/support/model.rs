//! Running a model checker of `shuttle`: schedules of an execution, and rules of which one is broken in turn and has to
//! be found. Each model includes this file.
//!
//! `VIREO_SCHEDULES` is the number of schedules, `VIREO_SCHEDULE_SEED` the first seed, and `VIREO_MUTANT_SCHEDULES` the
//! most schedules in which a broken rule has to be found. A failure prints the schedule, which `shuttle::replay` takes.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

/// More steps than an execution takes that ends: without an end of its own it is a hang.
const MAX_STEPS: usize = 100_000;

fn run(scheduler: impl Scheduler + 'static, persistence: FailurePersistence, execute: fn()) {
    let mut config = Config::new();
    config.max_steps = MaxSteps::FailAfter(MAX_STEPS);
    config.failure_persistence = persistence;
    config.stack_size = 1 << 17;
    Runner::new(scheduler, config).run(execute);
}

/// A number of the environment.
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs `execute` in so many schedules, unless the environment has another number: at random, and with few preemptions
/// at bad places.
pub fn explore(usual: usize, execute: fn()) {
    let schedules = number("VIREO_SCHEDULES").map_or(usual, |schedules| schedules as usize);
    let seed = number("VIREO_SCHEDULE_SEED").unwrap_or(1);
    run(RandomScheduler::new_from_seed(seed, schedules - schedules / 2), FailurePersistence::Print, execute);
    run(PctScheduler::new_from_seed(seed, 3, schedules / 2), FailurePersistence::Print, execute);
}

/// Breaks each rule in turn, and fails if `execute` ends in all schedules all the same.
pub fn find_broken<R: Copy + Debug>(rules: &[R], set_broken: fn(Option<R>), execute: fn()) {
    // With this seed all of them are found soon.
    let seed = number("VIREO_SCHEDULE_SEED").unwrap_or(4);
    let most = number("VIREO_MUTANT_SCHEDULES").unwrap_or(30_000) as usize;
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = Vec::new();
    for rule in rules {
        set_broken(Some(*rule));
        let found = catch_unwind(AssertUnwindSafe(|| {
            run(RandomScheduler::new_from_seed(seed, most), FailurePersistence::None, execute);
        }));
        match found {
            Ok(()) => missed.push(*rule),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
                println!("{rule:?}: {}", text.lines().next().unwrap_or_default());
            }
        }
    }
    set_broken(None);
    std::panic::set_hook(hook);
    assert!(missed.is_empty(), "not found in {most} schedules: {missed:?}");
}
