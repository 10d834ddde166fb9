//! The queues of a local device. `submission` orders submissions by their semaphores and decides by their `weight` who runs what is ready:
//! `inline_runner` the threads that make it ready, `threads` those of a device with workers. `operation` is a submission that waits, from a
//! free list, and `signal` how its end is passed on; `alloca` and `host_call` are the operations that are more than a function.

pub(super) mod alloca;
pub(super) mod host_call;
mod inline_runner;
mod operation;
mod signal;
mod submission;
mod threads;
mod weight;

pub(super) use operation::{Operation, Work};
pub(super) use submission::Queue;
pub(super) use weight::Weight;
