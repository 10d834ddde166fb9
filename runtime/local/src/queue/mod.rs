//! The discipline of local queues (`vireo_hal_driver::queue`): `discipline` chooses by the weight of an operation
//! whether the thread that makes it ready or a worker runs it, and `thread_queue` runs operations on either.

mod discipline;
mod thread_queue;

pub(super) use discipline::{LocalDiscipline, Queue};
