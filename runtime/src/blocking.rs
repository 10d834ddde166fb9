//! Tells devices that a thread has nothing else to do.
//!
//! A thread that calls a function and waits for its results may as well run the work itself that the function gives to a device, however
//! long it takes: waking another thread for it and waiting for that one is slower. A thread that does not wait must not be held up.

use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    static BLOCKING: Cell<bool> = const { Cell::new(false) };
}

/// A stretch of time in which the thread waits for whatever it starts.
pub struct Blocking {
    before: bool,
    /// It stays on its thread.
    thread: PhantomData<*const ()>,
}

impl Blocking {
    /// Begins one; it ends when the value is dropped, on the same thread.
    pub fn enter() -> Blocking {
        Blocking { before: BLOCKING.replace(true), thread: PhantomData }
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        BLOCKING.set(self.before);
    }
}

/// Whether the thread waits for whatever it starts.
pub fn is_blocking() -> bool {
    BLOCKING.get()
}
