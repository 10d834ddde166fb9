//! Threads that forks wait for.

use std::sync::atomic::AtomicU32;
use std::sync::{Mutex, Weak};
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

/// How many forks lie between the first process and this one.
pub(super) static PROCESS: AtomicU32 = AtomicU32::new(0);
/// The crews of the process.
pub(super) static CREWS: Mutex<Vec<Weak<dyn Crew>>> = Mutex::new(Vec::new());
