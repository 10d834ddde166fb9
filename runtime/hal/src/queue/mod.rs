//! Queues: submissions wait for their points, run as a driver has it, and signal.
//!
//! A driver implements [`Discipline`] for its queues and submits [`Request`]s: [`Work`] describes each queue operation once, for what is done at
//! once and for what waits. `submission` is the [`Queue`]; `device_operations` are its methods for each operation of a device; `operation` is a submission that waits, from a free list; [`InlineRunner`] runs operations on
//! the threads that make them ready; `alloca` and `host_call` submit the operations that take more than a description. [`Weight`] is what a
//! driver with several threads decides by.

mod alloca;
mod device_operations;
mod host_call;
mod inline_runner;
mod operation;
mod submission;
#[cfg(test)]
mod tests;
mod weight;
mod work;

pub use alloca::{alloca, dealloca};
pub use device_operations::WaitAndSignal;
pub use host_call::{context as host_call_context, submit as submit_host_call};
pub use inline_runner::InlineRunner;
pub use operation::{Operation, Request, Submission};
pub use submission::{Discipline, Queue, QueueFreeLists, Queued};
pub use weight::Weight;
pub use work::{Data, Held, Work};
