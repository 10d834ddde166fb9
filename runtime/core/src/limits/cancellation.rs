//! Cancellation of calls: a flag that any thread may set. Setting it wakes the threads and asynchronous tasks that wait
//! on behalf of a call, so none of them has to look at the flag from time to time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use crate::status::{Result, Status, StatusCode};
use crate::waker_set::WakerSet;

/// Says whether the call is to end for which the calling thread runs; none if this thread is not the one that knows.
pub type Decide = fn() -> Option<bool>;

/// Cancels calls whose limits have it: those that run end at their next check, and those that wait are woken. Clones
/// are the same one.
///
/// `cancel` takes a lock, so a signal handler leaves it to a thread.
#[derive(Clone, Default)]
pub struct Cancellation(Arc<Inner>);

#[derive(Default)]
struct Inner {
    is_cancelled: AtomicBool,
    is_asked: AtomicBool,
    decide: Option<Decide>,
    waiters: WakerSet,
}

impl Cancellation {
    /// True if both are clones of one value.
    pub(super) fn is_same(&self, other: &Cancellation) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// A handle that has not been used yet.
    pub fn new() -> Cancellation {
        Cancellation::default()
    }

    /// A handle for hosts in which only one thread can tell whether a call is to end: after [`Cancellation::ask`], the
    /// threads that run or wait for the calls call `decide`, without locks of the runtime, until one has an answer. An
    /// interpreter whose handlers of signals run on its main thread is such a host.
    pub fn with_decision(decide: Decide) -> Cancellation {
        Cancellation(Arc::new(Inner { decide: Some(decide), ..Inner::default() }))
    }

    /// Lets the threads decide, those that wait too. A call that is to end fails with `CANCELLED`; other calls, and
    /// later ones, go on.
    pub fn ask(&self) {
        self.0.is_asked.store(true, Ordering::SeqCst);
        self.0.waiters.wake_all();
    }

    /// True if threads that run for a call have to [`Cancellation::decide`].
    #[doc(hidden)]
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.0.is_asked.load(Ordering::Relaxed)
    }

    /// Decides for the calling thread, which holds no lock and no borrow.
    ///
    /// # Errors
    /// `CANCELLED` if the call is to end.
    #[doc(hidden)]
    #[cold]
    pub fn decide(&self) -> Result<()> {
        let Some(is_over) = self.0.decide.and_then(|decide| decide()) else {
            return Ok(());
        };
        self.0.is_asked.store(false, Ordering::SeqCst);
        if is_over { Err(Status::new(StatusCode::Cancelled, "the invocation was interrupted")) } else { Ok(()) }
    }

    /// Cancels the calls, running and waiting ones, and those that are made later.
    pub fn cancel(&self) {
        // A waiter that subscribes after these were woken sees the flag.
        self.0.is_cancelled.store(true, Ordering::SeqCst);
        self.0.waiters.wake_all();
    }

    /// True if `cancel` was called.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::Relaxed)
    }

    /// Lets calls that are made from here on run. Those that were cancelled and have not noticed yet may continue as
    /// well.
    pub fn reset(&self) {
        self.0.is_cancelled.store(false, Ordering::SeqCst);
    }

    /// Wakes a thread or task when this is cancelled, at once if it is already, until the subscription is dropped.
    #[doc(hidden)]
    pub fn subscribe(&self, waker: &Waker) -> CancelSubscription {
        let number = self.0.waiters.insert(waker);
        let subscription = CancelSubscription { cancellation: self.clone(), number };
        if self.0.is_cancelled.load(Ordering::SeqCst) | self.0.is_asked.load(Ordering::SeqCst) {
            waker.wake_by_ref();
        }
        subscription
    }
}

impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cancellation({})", if self.is_cancelled() { "cancelled" } else { "not cancelled" })
    }
}

/// A subscription to a [`Cancellation`], which ends when this is dropped.
#[doc(hidden)]
#[derive(Debug)]
pub struct CancelSubscription {
    cancellation: Cancellation,
    number: u64,
}

impl CancelSubscription {
    /// Lets it wake another task.
    pub fn set_waker(&self, waker: &Waker) {
        self.cancellation.0.waiters.replace(self.number, waker);
        if self.cancellation.0.is_cancelled.load(Ordering::SeqCst) {
            waker.wake_by_ref();
        }
    }
}

impl Drop for CancelSubscription {
    fn drop(&mut self) {
        self.cancellation.0.waiters.remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn the_thread_that_knows_decides() {
        thread_local! {
            static ANSWER: std::cell::Cell<Option<bool>> = const { std::cell::Cell::new(None) };
        }
        let (cancellation, count) = (Cancellation::with_decision(|| ANSWER.get()), Arc::new(Count::default()));
        let kept = cancellation.subscribe(&Waker::from(count.clone()));
        assert!(!cancellation.is_asked());
        cancellation.ask();
        assert_eq!((count.0.load(Ordering::SeqCst), cancellation.is_asked()), (1, true));
        // A later one is woken, and a thread that does not know leaves the question to others.
        drop(cancellation.subscribe(&Waker::from(count.clone())));
        assert_eq!(count.0.load(Ordering::SeqCst), 2);
        assert!(cancellation.decide().is_ok() && cancellation.is_asked());
        ANSWER.set(Some(false));
        assert!(cancellation.decide().is_ok() && !cancellation.is_asked());
        cancellation.ask();
        ANSWER.set(Some(true));
        let error = cancellation.decide().expect_err("it is to end");
        assert_eq!(error.code(), StatusCode::Cancelled);
        assert!(!cancellation.is_asked() && !cancellation.is_cancelled());
        drop(kept);
    }

    #[test]
    fn who_waits_is_woken_and_who_has_stopped_is_not() {
        let (cancellation, counts) = (Cancellation::new(), <[Arc<Count>; 3]>::default());
        let [first, second, third] = counts.each_ref().map(|count| Waker::from(count.clone()));
        let seen = || counts.each_ref().map(|count| count.0.load(Ordering::SeqCst));
        let kept = cancellation.subscribe(&first);
        drop(cancellation.subscribe(&second));
        cancellation.cancel();
        assert_eq!((seen(), cancellation.is_cancelled()), ([1, 0, 0], true));
        // A waiter that comes later is woken at once, also as the task that takes the place of another.
        let late = cancellation.subscribe(&second);
        kept.set_waker(&third);
        assert_eq!(seen(), [1, 1, 1]);
        cancellation.reset();
        late.set_waker(&first);
        assert_eq!((seen(), cancellation.is_cancelled()), ([1, 1, 1], false));
        cancellation.cancel();
        assert_eq!(seen(), [2, 1, 2]);
        drop((kept, late));
        assert_eq!(cancellation.0.waiters.count(), 0);
    }
}
