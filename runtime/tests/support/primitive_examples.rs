//! Assertions for the tests of primitives, which are generated from the examples in `spec/primitives` and call them.
//! Each crate that has primitives, of the VM or of GPUs, takes this file.

use std::fmt::Debug;

/// Values that are compared bit for bit, except that all NaNs are equal.
pub(crate) trait Value: Copy + Debug {
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
    u32: |value, other| value == other,
    u64: |value, other| value == other,
    bool: |value, other| value == other,
    f32: |value, other| value.to_bits() == other.to_bits() || value.is_nan() && other.is_nan(),
    f64: |value, other| value.to_bits() == other.to_bits() || value.is_nan() && other.is_nan(),
}

/// Asserts that an example has the expected value.
#[track_caller]
pub(crate) fn is<T: Value>(example: &str, value: T, expected: T) {
    assert!(value.is(expected), "{example}: {value:?}, not {expected:?}");
}
