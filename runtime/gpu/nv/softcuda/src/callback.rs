//! Calls of functions of the host that streams run. Those may not call functions of this library, so each thread knows
//! whether it is in one. The random order of work knows whether there are any: the program may wait for them.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

static DUE: AtomicUsize = AtomicUsize::new(0);
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// A function of the host that a stream is to call, until this is dropped.
#[derive(Debug)]
pub(crate) struct Callback(());

impl Callback {
    /// One more.
    pub(crate) fn new() -> Self {
        DUE.fetch_add(1, Ordering::Relaxed);
        Callback(())
    }

    /// Runs it.
    pub(crate) fn run<T>(&self, call: impl FnOnce() -> T) -> T {
        IN_CALLBACK.set(true);
        RUNNING.fetch_add(1, Ordering::Relaxed);
        let result = call();
        RUNNING.fetch_sub(1, Ordering::Relaxed);
        IN_CALLBACK.set(false);
        result
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        DUE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether the thread is in such a function.
pub(crate) fn is_calling_back() -> bool {
    IN_CALLBACK.get()
}

/// Whether streams are to call functions of the host.
pub(crate) fn is_due() -> bool {
    DUE.load(Ordering::Relaxed) != 0
}

/// Whether a thread is in a function of the host.
pub(crate) fn is_running() -> bool {
    RUNNING.load(Ordering::Relaxed) != 0
}
