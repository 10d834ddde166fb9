//! How the queues of local devices (`vireo_hal::queue`) run what is ready: `discipline` decides by the weight of an operation whether the thread
//! that makes it ready runs it or a worker, and `thread_queue` runs operations on either.

mod discipline;
mod thread_queue;

pub(super) use discipline::{LocalDiscipline, Queue};
