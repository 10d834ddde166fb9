//! Assertions for the tests of primitives, which are generated from the examples in `spec/primitives` and call them.

use std::fmt::Debug;

use super::Trap;
use crate::status::StatusCode;

/// Values that are compared bit for bit, except that all NaNs are equal.
pub trait Value: Copy + Debug {
    /// True if both are the same value.
    fn is(self, other: Self) -> bool;
}

macro_rules! values {
    ($($ty:ident: |$value:ident, $other:ident| $is:expr,)*) => {
        $(impl Value for $ty {
            fn is(self, $other: Self) -> bool {
                let $value = self;
                $is
            }
        })*
    };
}

values! {
    i32: |value, other| value == other,
    i64: |value, other| value == other,
    bool: |value, other| value == other,
    f32: |value, other| value.to_bits() == other.to_bits() || value.is_nan() && other.is_nan(),
    f64: |value, other| value.to_bits() == other.to_bits() || value.is_nan() && other.is_nan(),
}

/// Asserts that an example has the expected value.
///
/// # Panics
/// If it is another one.
#[track_caller]
pub fn is<T: Value>(example: &str, value: T, expected: T) {
    assert!(value.is(expected), "{example}: {value:?}, not {expected:?}");
}

/// Asserts that an example traps with the expected status.
///
/// # Panics
/// If it is a value, or a trap of another code.
#[track_caller]
pub fn traps<T: Debug>(example: &str, value: Result<T, Trap>, expected: StatusCode) {
    assert_eq!(value.map_err(Trap::code).unwrap_err(), expected, "{example}");
}
