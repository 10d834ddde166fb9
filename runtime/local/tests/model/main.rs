//! The model checker of `local-task`: the executor with its fork-joins, and the discipline of its queues, compiled over
//! the locks and threads of `shuttle`, which runs one thread at a time and decides at each lock and atomic access who
//! goes on. An execution makes a random plan (up to two queues with one to three workers each; operations of all
//! weights that wait for each other, share tiles, block until another operation has run, fail, panic, or own the
//! executor; workers that cannot be started; timelines that go away) and runs it in a random schedule. Invariants:
//!
//! - each submission ends exactly once, and its work runs at most once;
//! - no thread waits for ever: all of them end. So none waits for one that waits for it;
//! - owners outlive uses: tiles run while their leader shares them, each once, and who drops an executor last finds no
//!   worker left;
//! - failures, and timelines that go away, reach all who wait for them: an operation that succeeds ran, after what it
//!   waited for, which succeeded; without a fault all of them succeed;
//! - an operation that becomes ready does not run within the one that made it ready.
//!
//! Every atomic access is sequentially consistent here, so orders that are too weak are not found, but by
//! ThreadSanitizer. The inline runner is in `vireo-hal-driver`, and queues without workers use nothing else. Each rule
//! (`src/rules.rs`) is broken in turn, and has to be found. `VIREO_SCHEDULES` is the number of schedules, and
//! `VIREO_SCHEDULE_SEED` the first seed; a failure prints the schedule, which `shuttle::replay` takes.

mod blocking;
mod hal;
#[path = "../../../tests/support/model.rs"]
mod harness;
mod plan;
#[path = "../../src/queue/mod.rs"]
mod queue;
mod rules;
mod stand_ins;
mod sync;
mod task;

use stand_ins::command_buffer;
use vireo_core::status;
use vireo_hal_driver as hal_driver;

use rules::{Rule, set_broken};

#[test]
fn queues_hang_in_no_schedule() {
    set_broken(None);
    harness::explore(3000, plan::execute);
}

#[test]
fn each_rule_that_is_broken_is_found() {
    harness::find_broken(
        &[
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
        ],
        set_broken,
        plan::execute,
    );
}
