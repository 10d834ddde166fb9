//! The queues of a local device. `submission` has submissions wait for their points (`hal/points.rs`); `discipline` decides by their `weight` who
//! runs what is ready: `inline_runner` the threads that make it ready, `threads` those of a device with workers. `work` is what can be done,
//! described once for what is done at once and for what waits; `operation` is a submission that waits, from a free list. `alloca` and
//! `host_call` submit the operations that take more than a description.

pub(super) mod alloca;
mod discipline;
pub(super) mod host_call;
mod inline_runner;
mod operation;
mod submission;
mod threads;
mod weight;
mod work;

pub(super) use discipline::{Queue, Runners};
pub(super) use operation::Request;
pub(super) use weight::Weight;
pub(super) use work::Work;
