//! Queues of drivers: a submission waits for its timepoints, runs by the discipline of the driver, and signals.
//!
//! A driver implements [`Discipline`] and submits [`Request`]s; `discipline` has the types that those are made of.
//! `work` describes each queue operation once, whether it runs at once or has to wait. `submission` is the [`Queue`],
//! which orders submissions by their timepoints, and `device_operations` makes a submission of each operation of a
//! device; `operation` is a submission that waits, from a free list; [`InlineRunner`] runs operations on the threads
//! that make them ready; `alloca` and `host_call` submit operations that need more than a [`Work`]. By the [`Weight`]
//! of an operation a driver with several threads decides which of them runs it.

mod alloca;
mod device_operations;
mod discipline;
mod host_call;
mod inline_runner;
mod operation;
mod submission;
#[cfg(test)]
mod tests;
mod weight;
mod work;

pub use alloca::{alloca, queue_of};
pub use discipline::{
    Discipline, Held, Operands, Operation, Queue, QueueFreeLists, Queued, Submission, WaitAndSignal, Work,
};
pub use host_call::context as host_call_context;
pub use inline_runner::InlineRunner;
pub use operation::Request;
pub use weight::Weight;
pub use work::call_host;
