//! The queues of a local device. `submission` orders submissions by their semaphores and says who runs what is ready, `inline_runner` is
//! running it on the threads that make it ready; `operation` is a submission that waits, from a free list; `alloca` and `host_call` are the
//! operations that are more than a function.

pub(super) mod alloca;
pub(super) mod host_call;
mod inline_runner;
mod operation;
mod submission;

pub(super) use operation::{Operation, Work};
pub(super) use submission::{Queue, Weight};
