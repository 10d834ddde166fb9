//! The tests that every device passes.

use std::sync::Arc;

use vireo_device_suite::{Backend, on};
use vireo_null_driver::NullDevice;

on!(
    null,
    Backend {
        name: "the null driver",
        create: || Arc::new(NullDevice::default()),
        runs_kernels: false,
        is_gpu: false,
        queues: 1
    }
);

/// The example is there to show how little a driver needs.
#[test]
fn a_driver_has_at_most_150_lines() {
    let lines = include_str!("../src/lib.rs").lines().count();
    assert!(lines <= 150, "{lines} lines");
}
