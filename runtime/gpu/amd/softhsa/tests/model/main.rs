//! The model checker of packet processors: the loop, the life and the bells of the agent's queues, compiled over the
//! locks and threads of `shuttle`, which runs one thread at a time and decides at each lock who goes on. An execution
//! makes a random plan (one or two queues with rings of few slots, one or two producers each, packets that wait for
//! signals, packets that fail, threads and functions of the program that end queues) and runs it in a random schedule.
//! Invariants:
//!
//! - each packet that a producer rang the doorbell for runs exactly once and in the order of the ring, unless the queue
//!   fails or is ended;
//! - a packet is in its slot while it runs, and a completion signal is decremented once, after that;
//! - after a failure, and after the return of a thread that ended the queue, no packet runs, and outside of functions
//!   of the program none of these is called either;
//! - a failure is told once;
//! - no thread waits for ever: all of them end.
//!
//! Each rule (`src/rules.rs`, and those of bells in `vireo-soft`) is broken in turn, and has to be found.
//! `VIREO_SCHEDULES` is the number of schedules, and `VIREO_SCHEDULE_SEED` the first seed; a failure prints the
//! schedule, which `shuttle::replay` takes. Time does not pass in the model, so sleeps that only a look now and then
//! would end are hangs; `shuttle` runs atomics in one order, so a fence that is missing is not found.

#[path = "../../../../soft/src/bell.rs"]
mod bell;
mod bell_rules;
#[path = "../../src/doorbell.rs"]
#[expect(dead_code, reason = "what the agent uses, and the model does not")]
mod doorbell;
#[path = "../../../../../tests/support/model.rs"]
mod harness;
#[path = "../../src/lifecycle.rs"]
mod lifecycle;
#[path = "../../src/packet_loop.rs"]
mod packet_loop;
mod plan;
mod rules;
mod sync;

use rules::{AnyRule, Rule, set_broken};

#[test]
fn processors_hang_in_no_schedule() {
    set_broken(None);
    harness::explore(2000, plan::execute);
}

#[test]
fn each_rule_that_is_broken_is_found() {
    harness::find_broken(
        &[
            AnyRule::Bell(bell_rules::Rule::RingsTakeTheLock),
            AnyRule::Bell(bell_rules::Rule::SleepersLookAgain),
            AnyRule::Processor(Rule::ReservedPacketsCount),
            AnyRule::Processor(Rule::PacketsKeepTheirSlots),
            AnyRule::Processor(Rule::StopsComeFirst),
            AnyRule::Processor(Rule::FailuresAreTheLast),
            AnyRule::Processor(Rule::EndsRingTheDoorbell),
            AnyRule::Processor(Rule::EndsRingSignals),
            AnyRule::Processor(Rule::AllEndsWait),
            AnyRule::Processor(Rule::EndsWaitForCallbacks),
            AnyRule::Processor(Rule::CallbacksDoNotWaitForCallbacks),
            AnyRule::Processor(Rule::FailuresAreQuietFirst),
        ],
        set_broken,
        plan::execute,
    );
}
