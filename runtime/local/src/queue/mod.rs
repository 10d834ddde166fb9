//! How the queues of local devices (`vireo_hal::queue`) run what is ready: `discipline` decides by the weight of an operation whether the thread
//! that makes it ready runs it or a worker, and `threads` runs operations on either.

mod discipline;
mod threads;

pub(super) use discipline::{Queue, Runners};
