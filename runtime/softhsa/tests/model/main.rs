//! The model checker of packet processors: the loop, the life and the bells of the agent's queues, compiled over the locks and threads of
//! `shuttle`, which runs one thread at a time and decides at each lock who goes on. An execution makes a random plan (one or two queues
//! with rings of few slots, one or two producers each, packets that wait for signals, packets that fail, threads and functions of the
//! program that end queues) and runs it in a random schedule. Invariants:
//!
//! - each packet that a producer rang the doorbell for runs exactly once and in the order of the ring, unless the queue fails or is ended;
//! - a packet is in its slot while it runs, and a completion signal is decremented once, after that;
//! - after a failure, and after the return of a thread that ended the queue, no packet runs, and outside of functions of the program none of
//!   these is called either;
//! - a failure is told once;
//! - no thread waits for ever: all of them end.
//!
//! Each rule (`src/rules.rs`) is broken in turn, and has to be found. `VIREO_SCHEDULES` is the number of schedules, and
//! `VIREO_SCHEDULE_SEED` the first seed; a failure prints the schedule, which `shuttle::replay` takes. Time does not pass in the model, so
//! sleeps that only a look now and then would end are hangs; `shuttle` runs atomics in one order, so a fence that is missing is not found.

#[path = "../../src/bell.rs"]
mod bell;
#[path = "../../src/doorbell.rs"]
#[expect(dead_code, reason = "what the agent uses, and the model does not")]
mod doorbell;
#[path = "../../src/lifecycle.rs"]
mod lifecycle;
#[path = "../../src/packet_loop.rs"]
mod packet_loop;
mod plan;
mod rules;
mod sync;

use std::panic::{AssertUnwindSafe, catch_unwind};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

use rules::{Rule, set_broken};

/// More steps than an execution takes that ends: without an end of its own it is a hang.
const MAX_STEPS: usize = 100_000;

fn run(scheduler: impl Scheduler + 'static, persistence: FailurePersistence) {
    let mut config = Config::new();
    config.max_steps = MaxSteps::FailAfter(MAX_STEPS);
    config.failure_persistence = persistence;
    Runner::new(scheduler, config).run(plan::execute);
}

/// A number of the environment.
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn processors_hang_in_no_schedule() {
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
        Rule::RingsTakeTheLock,
        Rule::SleepersLookAgain,
        Rule::ReservedPacketsCount,
        Rule::PacketsKeepTheirSlots,
        Rule::StopsComeFirst,
        Rule::FailuresAreTheLast,
        Rule::EndsRingTheDoorbell,
        Rule::EndsRingSignals,
        Rule::AllEndsWait,
        Rule::EndsWaitForCallbacks,
        Rule::CallbacksDoNotWaitForCallbacks,
        Rule::FailuresAreQuietFirst,
    ];
    let seed = number("VIREO_SCHEDULE_SEED").unwrap_or(4);
    let most = number("VIREO_MUTANT_SCHEDULES").unwrap_or(30_000) as usize;
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = Vec::new();
    for rule in RULES {
        set_broken(Some(rule));
        let found = catch_unwind(AssertUnwindSafe(|| {
            run(RandomScheduler::new_from_seed(seed, most), FailurePersistence::None);
        }));
        if found.is_ok() {
            missed.push(rule);
        }
    }
    set_broken(None);
    std::panic::set_hook(hook);
    assert!(missed.is_empty(), "not found in {most} schedules: {missed:?}");
}
