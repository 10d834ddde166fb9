//! Queues of a device: each gives one stream what is submitted ([`StreamQueue`]) and completes it. The core of
//! [`crate::hal_driver::device_queue`] says what is given when, and completes what has run.
//!
//! Every part of a submission ends with an event that is recorded on the stream (`progress`). Other streams of the
//! library wait for it, and the completion thread of the queue learns from it that the part has run. An observer of the
//! device is told when parts and dispatches ran ([`crate::times`]).

mod progress;
mod stream_queue;

pub use progress::StreamClock;
pub use stream_queue::{Place, ProgramJob, QueueCore, StreamQueue, queue_of};
