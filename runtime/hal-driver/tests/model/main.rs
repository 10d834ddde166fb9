//! The model checker of queues: the core of queues, compiled over the locks and threads of `shuttle`, which runs one
//! thread at a time and decides at each lock who goes on. Hardware is a thread for each queue, which overlaps packets
//! that no barrier bit orders and ends them in any order. An execution makes a random plan (up to four queues of one or
//! two devices with rings of few slots, operations that wait for each other, failures, cancellations, callbacks that
//! panic or drop devices) and runs it in a random schedule. Invariants:
//!
//! - each operation ends exactly once, and what is done after it is done once and before that;
//! - no thread waits for ever: all of them end;
//! - what packets use is there until they have run or were stopped;
//! - an operation that succeeds ran, once, after what it waited for had ended, which succeeded, and part after part;
//!   without a fault all of them succeed.
//!
//! Each of the driver's rules (`src/device_queue/rules.rs`) is broken in turn, and has to be found. `VIREO_SCHEDULES`
//! is the number of schedules, and `VIREO_SCHEDULE_SEED` the first seed; a failure prints the schedule, which
//! `shuttle::replay` takes.

mod device_queue;
#[path = "../../src/device_timeline.rs"]
#[expect(dead_code, reason = "timelines of one agent, of which hardware alone makes something else")]
mod device_timeline;
mod hardware;
#[path = "../../../tests/support/model.rs"]
mod harness;
#[path = "../../src/panics.rs"]
mod panics;
mod plan;

use vireo_core::{limits, status};
use vireo_hal as hal;

use device_queue::rules::{Rule, set_broken};

#[test]
fn queues_hang_in_no_schedule() {
    set_broken(None);
    harness::explore(2000, plan::execute);
}

#[test]
fn each_rule_that_is_broken_is_found() {
    harness::find_broken(
        &[
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
            Rule::OwnWaitsAreOrdered,
            Rule::LanesAreFree,
        ],
        set_broken,
        plan::execute,
    );
}
