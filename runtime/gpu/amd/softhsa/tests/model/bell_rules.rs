//! The rules of bells, of which one may be broken.

#[path = "../../../../soft/src/bell_rules.rs"]
#[expect(dead_code, reason = "outside of the model all rules are kept")]
mod real;

pub(crate) use real::Rule;

use crate::rules::{AnyRule, is_broken};

pub(crate) fn keeps(rule: Rule) -> bool {
    !is_broken(AnyRule::Bell(rule))
}
