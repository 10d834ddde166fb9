//! Times of work that the host does for an operation of a queue: when the operation ran, and each part of a dispatch.
//! A wrapper of a device enters a [`Watch`] with its [`WorkObserver`] while it submits an operation. Queues that run
//! operations on the host keep it with the operation, and enter it on each thread that works for it.
//!
//! Without an observer all of this costs one check of a thread-local flag for an operation and for a dispatch. Devices
//! that are no host have [`DeviceTimes`](crate::DeviceTimes).

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use crate::host_kernels::Grid;
use crate::status::{Result, Status};

thread_local! {
    /// The wish of the observer in `CURRENT`. It is read often, so it is a value of its own.
    static ASKED: Cell<Asked> = const { Cell::new(Asked::Nothing) };
    static CURRENT: RefCell<Watch> = const { RefCell::new(Watch(None)) };
}

/// The wish of an observer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// There is no observer.
    Nothing,
    /// Times.
    Times,
    /// To be told at the beginning of each part as well.
    Beginnings,
}

/// A part of a dispatch that a thread ran.
#[derive(Clone, Debug)]
pub struct HostPart {
    /// The command of the command buffer, counted from 0 without barriers and marks; 0 for a dispatch of a queue.
    pub command: usize,
    /// The size of the dispatch.
    pub grid: Grid,
    /// The workgroups that the part has.
    pub workgroups: Range<u64>,
    /// When the first of them began, and the last one ended.
    pub times: (Instant, Instant),
}

/// Is told what the host does for an operation. Any thread may call it, several at once for the parts of a dispatch.
pub trait WorkObserver: Send + Sync {
    /// The operation begins: what it waits for is there.
    fn began(&self);

    /// Whether it wants to know when a part of a dispatch begins.
    fn wants_beginnings(&self) -> bool {
        false
    }

    /// This thread begins a part of a dispatch. Called only where that is [wanted](Self::wants_beginnings).
    fn runs(&self) {}

    /// A part of a dispatch of the operation has run, or failed, on this thread.
    fn ran(&self, part: &HostPart);

    /// The operation has ended; its points are not signaled yet.
    fn ended(&self, outcome: Result<(), &Status>);
}

/// The observer of the operation that a thread submits or works for, or none.
#[derive(Clone, Default)]
pub struct Watch(Option<Arc<dyn WorkObserver>>);

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "watched" } else { "not watched" })
    }
}

/// Leaves a watch when it is dropped.
pub struct WatchGuard {
    /// The one to restore, if entering changed it.
    before: Option<Watch>,
}

impl Watch {
    /// The watch of an observer.
    pub fn new(observer: Arc<dyn WorkObserver>) -> Watch {
        Watch(Some(observer))
    }

    fn asked(&self) -> Asked {
        match &self.0 {
            None => Asked::Nothing,
            Some(observer) if observer.wants_beginnings() => Asked::Beginnings,
            Some(_) => Asked::Times,
        }
    }

    /// The one of this thread.
    #[inline]
    pub fn current() -> Watch {
        if is_watched() { CURRENT.with_borrow(Clone::clone) } else { Watch(None) }
    }

    /// Puts it in force on this thread until the value is dropped, also if there is no observer: the work of another
    /// operation is not that of the one before.
    #[inline]
    pub fn enter(self) -> WatchGuard {
        if self.0.is_none() && !is_watched() {
            return WatchGuard { before: None };
        }
        ASKED.set(self.asked());
        WatchGuard { before: Some(CURRENT.replace(self)) }
    }
}

impl Drop for WatchGuard {
    #[inline]
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            ASKED.set(before.asked());
            // The other one is dropped after the cell is no longer borrowed.
            let own = CURRENT.replace(before);
            drop(own);
        }
    }
}

/// Whether work of this thread is watched.
#[inline(always)]
pub fn is_watched() -> bool {
    ASKED.get() != Asked::Nothing
}

/// Tells the observer of this thread something. An observer is not told of its own work.
fn tell(report: impl FnOnce(&dyn WorkObserver)) {
    CURRENT.with(|current| {
        let watch = current.take();
        let asked = ASKED.replace(Asked::Nothing);
        if let Some(observer) = &watch.0 {
            report(&**observer);
        }
        ASKED.set(asked);
        // The watch that is there meanwhile has no observer.
        current.replace(watch);
    });
}

/// Runs an operation, and tells the observer when it began and ended, if there is one.
///
/// # Errors
/// Those of the operation.
#[inline(always)]
pub fn operation(run: impl FnOnce() -> Result<()>) -> Result<()> {
    let is_watched = is_watched();
    if is_watched {
        begin();
    }
    let outcome = run();
    if is_watched {
        end(&outcome);
    }
    outcome
}

#[cold]
fn begin() {
    tell(|observer| observer.began());
}

#[cold]
fn end(outcome: &Result<()>) {
    tell(|observer| observer.ended(outcome.as_ref().copied()));
}

/// Tells the observer that a part of a dispatch begins, if it wants to know.
#[inline]
pub fn runs() {
    if ASKED.get() == Asked::Beginnings {
        tell(|observer| observer.runs());
    }
}

/// Tells the observer of a part of a dispatch.
#[cold]
pub fn ran(part: &HostPart) {
    tell(|observer| observer.ran(part));
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Seen(Mutex<Vec<&'static str>>);

    impl WorkObserver for Seen {
        fn began(&self) {
            // The observer's own work is not watched.
            assert!(!is_watched());
            self.0.lock().unwrap().push("began");
        }

        fn ran(&self, _part: &HostPart) {
            self.0.lock().unwrap().push("ran");
        }

        fn ended(&self, outcome: Result<(), &Status>) {
            self.0.lock().unwrap().push(if outcome.is_ok() { "ended" } else { "failed" });
        }
    }

    #[test]
    fn an_operation_is_told_to_the_observer_that_is_in_force() {
        let (first, second) = (Arc::new(Seen::default()), Arc::new(Seen::default()));
        operation(|| Ok(())).unwrap();
        {
            let _first = Watch::new(first.clone()).enter();
            operation(|| {
                let _second = Watch::new(second.clone()).enter();
                operation(|| Err(Status::internal("test"))).unwrap_err();
                let _nobody = Watch::default().enter();
                operation(|| Ok(()))
            })
            .unwrap();
            let kept = Watch::current();
            std::thread::spawn(move || {
                assert!(!is_watched());
                let _kept = kept.enter();
                operation(|| Ok(())).unwrap();
            })
            .join()
            .unwrap();
        }
        operation(|| Ok(())).unwrap();
        assert_eq!(*first.0.lock().unwrap(), ["began", "ended", "began", "ended"]);
        assert_eq!(*second.0.lock().unwrap(), ["began", "failed"]);
    }
}
