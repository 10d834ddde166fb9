//! The model checker of `local-task`: the executor with its fork-joins, and the discipline of its queues, compiled over the locks and
//! threads of `shuttle`, which runs one thread at a time and decides at each lock and atomic access who goes on. An execution makes a
//! random plan (up to two queues with one to three workers each; operations of all weights that wait for each other, share tiles, block
//! until another operation has run, fail, panic, or own the executor; workers that cannot be started; timelines that go away) and runs it
//! in a random schedule. Invariants:
//!
//! - each submission ends exactly once, and its work runs at most once;
//! - no thread waits for ever: all of them end. So none waits for one that waits for it;
//! - owners outlive uses: tiles run while their leader shares them, each once, and who drops an executor last finds no worker left;
//! - failures, and timelines that go away, reach all who wait for them: an operation that succeeds ran, after what it waited for, which
//!   succeeded; without a fault all of them succeed;
//! - an operation that becomes ready does not run within the one that made it ready.
//!
//! Every atomic access is sequentially consistent here, so orders that are too weak are not found, but by ThreadSanitizer. The inline
//! runner is in `vireo-hal`, and queues without workers use nothing else. Each rule (`src/rules.rs`) is broken in turn, and has to be
//! found. `VIREO_SCHEDULES` is the number of schedules, and `VIREO_SCHEDULE_SEED` the first seed; a failure prints the schedule, which
//! `shuttle::replay` takes.

mod blocking;
mod hal;
mod plan;
#[path = "../../src/queue/mod.rs"]
#[expect(dead_code, reason = "what devices use of queues, and the model does not")]
mod queue;
mod rules;
mod stand_ins;
mod sync;
mod task;

use std::panic::{AssertUnwindSafe, catch_unwind};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use stand_ins::command_buffer;
use vireo_core::status;

use rules::{Rule, set_broken};

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
    let schedules = number("VIREO_SCHEDULES").unwrap_or(3000) as usize;
    let seed = number("VIREO_SCHEDULE_SEED").unwrap_or(1);
    set_broken(None);
    // At random, and with few preemptions at bad places.
    run(RandomScheduler::new_from_seed(seed, schedules - schedules / 2), FailurePersistence::Print);
    run(PctScheduler::new_from_seed(seed, 3, schedules / 2), FailurePersistence::Print);
}

#[test]
fn each_rule_that_is_broken_is_found() {
    const RULES: [Rule; 14] = [
        Rule::TasksAreAnnounced,
        Rule::SleepersLookAgain,
        Rule::BlockedWorkersAreReplaced,
        Rule::SubstitutesStart,
        Rule::UnstartedTasksFail,
        Rule::ReadyTasksRunFirst,
        Rule::WorkersJoinNobody,
        Rule::PanicsAreCaught,
        Rule::LightOperationsTakeTurns,
        Rule::ThreadQueuesDrain,
        Rule::LeadersWait,
        Rule::LeadersLookBeforeTheyPark,
        Rule::HelpersUnpark,
        Rule::PanicsOfTilesAreCaught,
    ];
    let seed = number("VIREO_SCHEDULE_SEED").unwrap_or(4);
    let most = number("VIREO_MUTANT_SCHEDULES").unwrap_or(30_000) as usize;
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = Vec::new();
    for rule in RULES {
        set_broken(Some(rule));
        plan::executions();
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
