//! Threads that block, as `vireo_core::blocking` has them, by flags of the threads of the model.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::sync::thread_local;

pub(crate) use vireo_core::blocking::WorkerPool;

thread_local! {
    static BLOCKING: Cell<bool> = Cell::new(false);
    static POOL: RefCell<Option<Arc<dyn WorkerPool>>> = RefCell::new(None);
}

pub(crate) fn join(pool: Arc<dyn WorkerPool>) {
    POOL.with(|own| *own.borrow_mut() = Some(pool));
}

pub(crate) fn is_worker() -> bool {
    POOL.with(|own| own.borrow().is_some())
}

pub(crate) fn is_blocking() -> bool {
    BLOCKING.with(Cell::get)
}

/// Whether the thread waits for what it starts.
pub(crate) fn set_blocking(blocks: bool) {
    BLOCKING.with(|own| own.set(blocks));
}

/// A blocking section of a worker.
pub(crate) fn wait<R>(wait: impl FnOnce() -> R) -> R {
    let pool = POOL.with(|own| own.borrow().clone());
    pool.iter().for_each(|pool| pool.begin_blocking());
    let result = wait();
    pool.iter().for_each(|pool| pool.end_blocking());
    result
}
