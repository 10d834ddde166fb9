//! Tests of the driver over the software CUDA driver. The device suite runs over it as well, in `vireo-runtime`.

mod bad_input;
mod container;
mod devices;
mod executions;
mod failures;
mod faults;
#[path = "../../../../../tests/support/mutants.rs"]
mod mutants;
mod support;
mod times;
