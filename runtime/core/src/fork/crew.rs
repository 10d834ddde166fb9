//! Threads that forks wait for.

use std::sync::atomic::AtomicU32;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

/// Which process goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that forked, with all its threads.
    Parent,
    /// The new one, which has none but the one that forked.
    Child,
}

/// Threads of the process, and the lock of what they share. A thread that holds the lock takes none of another crew.
pub trait Crew: Send + Sync {
    /// Returns once its threads are idle, or at `end`. It does not wait for threads that wait for others themselves:
    /// the calling thread may be the one.
    fn wait(&self, end: Instant);

    /// Locks it.
    fn hold(&self) -> Box<dyn Held + '_>;
}

/// A crew that is locked, on the thread that forks.
pub trait Held {
    /// Whether its threads are idle.
    fn is_idle(&self) -> bool;

    /// Prepares it for the process that goes on; the lock is released after that. In the child no thread is left, so
    /// the next piece of work starts one.
    fn resume(&mut self, side: Side);
}

/// One thread, and what it shares with others: a crew without anything else.
pub(crate) struct ThreadCrew<T: 'static> {
    pub lock: &'static Mutex<T>,
    /// Notified when the thread is idle.
    pub idle: &'static Condvar,
    pub is_busy: fn(&T) -> bool,
    /// Notes that there is no thread, nor anything that it does.
    pub forget_thread: fn(&mut T),
}

impl<T> ThreadCrew<T> {
    fn lock(&self) -> MutexGuard<'static, T> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Send> Crew for ThreadCrew<T> {
    fn wait(&self, end: Instant) {
        let left = end.saturating_duration_since(Instant::now());
        let _ = self.idle.wait_timeout_while(self.lock(), left, |shared| (self.is_busy)(shared));
    }

    fn hold(&self) -> Box<dyn Held + '_> {
        Box::new(HeldThread { crew: self, shared: self.lock() })
    }
}

struct HeldThread<'a, T: 'static> {
    crew: &'a ThreadCrew<T>,
    shared: MutexGuard<'static, T>,
}

impl<T: Send> Held for HeldThread<'_, T> {
    fn is_idle(&self) -> bool {
        !(self.crew.is_busy)(&self.shared)
    }

    fn resume(&mut self, side: Side) {
        if side == Side::Child {
            (self.crew.forget_thread)(&mut self.shared);
        }
    }
}

/// How many forks lie between the first process and this one.
pub(super) static PROCESS: AtomicU32 = AtomicU32::new(0);
/// The crews of the process.
pub(super) static CREWS: Mutex<Vec<Weak<dyn Crew>>> = Mutex::new(Vec::new());
