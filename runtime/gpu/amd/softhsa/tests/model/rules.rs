//! The rules, of which one may be broken.

#[path = "../../src/rules.rs"]
#[expect(dead_code, reason = "in the agent all rules are kept")]
mod real;

use std::cell::Cell;

pub(crate) use real::Rule;

use crate::bell_rules;

/// A rule of packet processors or of the bells where they sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnyRule {
    Processor(Rule),
    Bell(bell_rules::Rule),
}

thread_local! {
    static BROKEN: Cell<Option<AnyRule>> = const { Cell::new(None) };
}

/// Breaks a rule, or none, in what the thread explores from here on.
pub(crate) fn set_broken(rule: Option<AnyRule>) {
    BROKEN.set(rule);
}

/// Whether a rule is broken.
pub(crate) fn is_broken(rule: AnyRule) -> bool {
    BROKEN.get() == Some(rule)
}

pub(crate) fn keeps(rule: Rule) -> bool {
    !is_broken(AnyRule::Processor(rule))
}
