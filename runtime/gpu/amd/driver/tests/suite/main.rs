//! Tests of the driver over the software HSA agent. Its kernels are run by functions of the tests, which do what the
//! kernels do.

mod bad_input;
mod devices;
mod failures;
mod faults;
mod frontiers;

mod hangs;
mod kernels;
mod library;

mod memory;
mod overlap;
mod processors;
mod queues;
mod support;
mod times;
mod transfers;
mod traps;
