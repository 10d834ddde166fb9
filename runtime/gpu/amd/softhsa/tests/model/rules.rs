//! The rules, of which one may be broken.

#[path = "../../src/rules.rs"]
#[expect(dead_code, reason = "in the agent all rules are kept")]
mod real;

use std::cell::Cell;

pub(crate) use real::Rule;

thread_local! {
    static BROKEN: Cell<Option<Rule>> = const { Cell::new(None) };
}

/// Breaks a rule, or none, in what the thread explores from here on.
pub(crate) fn set_broken(rule: Option<Rule>) {
    BROKEN.set(rule);
}

pub(crate) fn keeps(rule: Rule) -> bool {
    BROKEN.get() != Some(rule)
}
