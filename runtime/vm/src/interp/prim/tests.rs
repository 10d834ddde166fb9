//! Assertions for the tests of primitives, which are generated from the examples in `spec/primitives` and call them.

use std::fmt::Debug;

use super::Trap;
use crate::status::StatusCode;

#[path = "../../../../tests/support/primitive_examples.rs"]
mod examples;

pub(crate) use examples::is;

/// Asserts that an example traps with the expected status.
///
/// # Panics
/// If it is a value, or a trap of another code.
#[track_caller]
pub fn traps<T: Debug>(example: &str, value: Result<T, Trap>, expected: StatusCode) {
    assert_eq!(value.map_err(Trap::code).unwrap_err(), expected, "{example}");
}
