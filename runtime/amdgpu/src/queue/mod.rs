//! Queues: operations become packets of an HSA queue, and their completion becomes signals of timelines.
//!
//! `submission` is the one way into a queue, for dispatches, command buffers, memory and files. `core` is the queue itself, and `admission` reserves
//! its slots and memory for arguments, and publishes packets; `kernarg_ring` is that memory. Each submission ends with a packet that decrements the
//! epoch signal of the queue, so its value says how many have completed. `completion` is the thread that waits for it and signals the timelines.
//! `frontier` is what a queue knows of others. `host_worker` runs what the host does between packets, and
//! `times` are those of its dispatches, for observers.

mod admission;
mod completion;
mod core;
mod frontier;
mod host_worker;
mod kernarg_ring;
mod submission;
mod times;

pub use core::{HostQueue, QueueOptions};
pub(crate) use core::{QueueCore, SubmissionPoint};
pub(crate) use host_worker::HostWorkers;
pub(crate) use submission::{Payload, Request, Work, refuse};
