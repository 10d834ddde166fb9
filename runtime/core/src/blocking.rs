//! Threads that wait.
//!
//! A thread that calls a function and waits for its results may as well run the work itself that the function gives to a device, however
//! long it takes: waking another thread for it and waiting for that one is slower. A thread that does not wait must not be held up.
//!
//! A worker of a device that waits for a timeline, in a function of the host that the device calls, might wait for an operation that
//! only a worker can run. So it says so, and another one takes its place meanwhile.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::Arc;

thread_local! {
    static BLOCKING: Cell<bool> = const { Cell::new(false) };
    /// Whether there is a crew: asked often, so it is not looked up in `CREW`.
    static HAS_CREW: Cell<bool> = const { Cell::new(false) };
    static CREW: RefCell<Option<Arc<dyn Crew>>> = const { RefCell::new(None) };
}

/// Threads that stand in for each other.
pub trait Crew {
    /// One of them is about to wait for something that only another may be able to bring about.
    fn leaves(&self);

    /// It has waited.
    fn returns(&self);
}

/// The calling thread belongs to a crew from here on.
pub fn join(crew: Arc<dyn Crew>) {
    CREW.set(Some(crew));
    HAS_CREW.set(true);
}

/// Whether the calling thread belongs to a crew.
#[inline]
pub fn has_crew() -> bool {
    HAS_CREW.get()
}

/// Does something that waits for what other threads do.
pub fn wait<R>(wait: impl FnOnce() -> R) -> R {
    /// Returns also if waiting panics.
    struct Away(Option<Arc<dyn Crew>>);

    impl Drop for Away {
        fn drop(&mut self) {
            if let Some(crew) = &self.0 {
                crew.returns();
            }
        }
    }

    let away = Away(CREW.with_borrow(Clone::clone));
    if let Some(crew) = &away.0 {
        crew.leaves();
    }
    wait()
}

/// A stretch of time in which the thread waits for whatever it starts.
pub struct Blocking {
    before: bool,
    /// It stays on its thread.
    thread: PhantomData<*const ()>,
}

impl Blocking {
    /// Begins one; it ends when the value is dropped, on the same thread.
    #[inline]
    pub fn enter() -> Blocking {
        Blocking { before: BLOCKING.replace(true), thread: PhantomData }
    }
}

impl Drop for Blocking {
    #[inline]
    fn drop(&mut self) {
        BLOCKING.set(self.before);
    }
}

/// Whether the thread waits for whatever it starts.
#[inline]
pub fn is_blocking() -> bool {
    BLOCKING.get()
}
