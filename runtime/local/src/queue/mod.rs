//! The discipline of local queues (`vireo_hal_driver::queue`): `discipline` has the threads that operations run on,
//! `by_weight` chooses by the weight of an operation whether the thread that makes it ready or a worker runs it, and
//! `thread_queue` runs operations on either.

mod by_weight;
mod discipline;
mod thread_queue;

pub(super) use discipline::{LocalDiscipline, Queue};
