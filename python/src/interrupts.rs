//! Signals while a program runs: an interrupt (Ctrl-C) ends a call of the main thread.
//!
//! Python runs its handlers of signals on the main thread, which is in the library until the call returns. So a thread
//! of this module looks from time to time whether one call takes long, and has it ask ([`decide`]): the main thread
//! runs the handlers, and the call ends if one of them raises.

use std::cell::{Cell, RefCell};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::{intern, prelude::*};
use vireo::interp::Limits;
use vireo::{Cancellation, Result};

use crate::interpreter::{allow_forks, attached, detached};

/// A call that takes longer asks for signals, each time after so long.
pub const INTERVAL: Duration = Duration::from_millis(100);

/// The call of the main thread.
static WATCH: Mutex<Watch> = Mutex::new(Watch { call: None, number: 0, is_watched: false, has_thread: false });
/// Tells the thread that there is a call, if it does not look.
static BEGUN: Condvar = Condvar::new();

thread_local! {
    /// Whether this is the main thread; none before it was looked up.
    static IS_MAIN: Cell<Option<bool>> = const { Cell::new(None) };
    /// The exception that a handler raised in the call.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// The state that the thread looks at.
pub struct Watch {
    /// Ends the call that runs; none between calls.
    call: Option<Cancellation>,
    /// Counts beginnings and ends of calls.
    number: u64,
    /// Whether the thread looks, and need not be woken.
    is_watched: bool,
    has_thread: bool,
}

impl Watch {
    /// No other thread looks at the call until the guard is dropped.
    pub fn lock() -> MutexGuard<'static, Watch> {
        WATCH.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the thread, in the child of a fork: it is one of the parent. The thread that forked is the main one.
    pub fn forget_thread(&mut self) {
        (self.has_thread, self.is_watched) = (false, false);
        IS_MAIN.set(None);
    }
}

/// A handle that ends calls: hosts use it by hand, and handlers of signals by raising.
pub fn cancellation() -> Cancellation {
    Cancellation::with_decision(decide)
}

/// Runs the handlers of signals. True if one raised; none on threads that have no handlers.
fn decide() -> Option<bool> {
    if IS_MAIN.get() != Some(true) {
        return None;
    }
    match attached(|py| py.check_signals())? {
        Ok(()) => Some(false),
        Err(error) => {
            RAISED.set(Some(error));
            Some(true)
        }
    }
}

/// As [`detached`], for a call within these limits: on the main thread, handlers of signals run meanwhile.
///
/// # Errors
/// The exception that a handler raised.
pub fn interruptible<T: Send>(
    py: Python<'_>,
    limits: &Limits,
    work: impl FnOnce() -> Result<T> + Send,
) -> PyResult<Result<T>> {
    let Some(cancellation) = limits.cancellation.as_ref().filter(|_| is_main(py)) else {
        return Ok(detached(py, work));
    };
    let call = WatchedCall::begin(cancellation);
    let outcome = detached(py, work);
    drop(call);
    RAISED.take().map_or(Ok(outcome), Err)
}

fn is_main(py: Python<'_>) -> bool {
    IS_MAIN.get().unwrap_or_else(|| {
        let look_up = || -> PyResult<bool> {
            allow_forks(py)?;
            let threading = py.import(intern!(py, "threading"))?;
            let main = threading.call_method0(intern!(py, "main_thread"))?;
            Ok(main.is(&threading.call_method0(intern!(py, "current_thread"))?))
        };
        // Without the answer, as while the interpreter ends, a call is not interrupted.
        let is_main = look_up().unwrap_or(false);
        IS_MAIN.set(Some(is_main));
        is_main
    })
}

/// The call of the main thread, until it is dropped. A handler of signals may make another one inside.
struct WatchedCall {
    outer: Option<Cancellation>,
}

impl WatchedCall {
    fn begin(cancellation: &Cancellation) -> WatchedCall {
        let mut watch = Watch::lock();
        watch.number += 1;
        let outer = watch.call.replace(cancellation.clone());
        if !watch.is_watched {
            watch.is_watched = true;
            if watch.has_thread {
                BEGUN.notify_one();
            } else {
                // Without a thread the call is not interrupted, and the next one tries again.
                watch.has_thread = thread::Builder::new().name("vireo-signals".into()).spawn(look).is_ok();
                watch.is_watched = watch.has_thread;
            }
        }
        WatchedCall { outer }
    }
}

impl Drop for WatchedCall {
    fn drop(&mut self) {
        let mut watch = Watch::lock();
        watch.number += 1;
        watch.call = self.outer.take();
    }
}

/// Has long calls ask.
fn look() {
    let mut watch = Watch::lock();
    loop {
        if watch.call.is_none() {
            watch.is_watched = false;
            watch = BEGUN.wait(watch).unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        let number = watch.number;
        drop(watch);
        thread::sleep(INTERVAL);
        watch = Watch::lock();
        if watch.number == number
            && let Some(call) = watch.call.clone()
        {
            // A thread that is woken may begin another call, which takes the lock.
            drop(watch);
            call.ask();
            watch = Watch::lock();
        }
    }
}
