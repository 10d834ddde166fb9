//! Queues of drivers: a submission waits for its timepoints, runs by the discipline of the driver, and signals.
//!
//! A driver implements [`Discipline`] and submits [`Request`]s; `discipline` has the types that those are made of.
//! `submission` is the [`Queue`], which orders submissions by their timepoints, `device_operations` prepares each
//! operation of a device, and `segments` those of command programs with collective operations; `operation` is a
//! submission that waits, from a free list, and `work` performs operations, whether they run at once or had to wait;
//! [`InlineRunner`] runs them on the threads that make them ready; `alloca` reserves transient buffers. By the
//! [`Weight`] of an operation a driver with several threads decides which of them runs it.

#[cfg(test)]
mod access_tests;
mod alloca;
mod device_operations;
mod discipline;
mod inline_runner;
mod operation;
mod segments;
mod submission;
#[cfg(test)]
mod tests;
mod weight;
mod work;

pub use alloca::{alloca, queue_of};
pub use discipline::{Discipline, Held, Operation, Prepared, Queue, QueueFreeLists, Queued, Submission, WaitAndSignal};
pub use inline_runner::InlineRunner;
pub use operation::Request;
pub use weight::Weight;
pub use work::{call_host, decommit, host_call_context};
