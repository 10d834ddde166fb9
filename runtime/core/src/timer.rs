//! Timers of tasks: wake an asynchronous task at a point in time, for waits with a deadline. One thread serves all
//! timers of the process; it is started by the first timer, and sleeps until the next one.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;
use std::thread;
use std::time::Instant;

use crate::fork::{self, ThreadCrew};
use crate::status::{Result, Status};

/// The timers that have not gone off, by their time and a number.
struct Timers {
    wakers: BTreeMap<(Instant, u64), Waker>,
    next: u64,
    has_thread: bool,
    is_waking: bool,
}

static TIMERS: Mutex<Timers> =
    Mutex::new(Timers { wakers: BTreeMap::new(), next: 0, has_thread: false, is_waking: false });
/// Notified when the thread has another timer to wait for.
static CHANGED: Condvar = Condvar::new();
/// Notified when a task has been woken.
static WOKEN: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, Timers> {
    TIMERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A timer. Dropping it stops it.
#[derive(Debug)]
pub struct Timer {
    key: (Instant, u64),
}

impl Timer {
    /// Wakes a task at `time`.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if the thread cannot be started.
    pub fn start(time: Instant, waker: Waker) -> Result<Timer> {
        let mut timers = lock();
        if !timers.has_thread {
            register_for_forks();
            let spawned = thread::Builder::new().name("vireo-timer".into()).spawn(run);
            spawned.map_err(|error| {
                Status::resource_exhausted("the thread of timers cannot be started").with_source(error)
            })?;
            timers.has_thread = true;
        }
        let key = (time, timers.next);
        timers.next += 1;
        let is_first = timers.wakers.first_key_value().is_none_or(|(first, _)| key < *first);
        timers.wakers.insert(key, waker);
        drop(timers);
        if is_first {
            CHANGED.notify_one();
        }
        Ok(Timer { key })
    }

    /// The time at which it goes off.
    pub fn time(&self) -> Instant {
        self.key.0
    }

    /// Lets it wake another task. Without effect once it has gone off.
    pub fn set_waker(&self, waker: &Waker) {
        if let Some(current) = lock().wakers.get_mut(&self.key) {
            current.clone_from(waker);
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // The waker is dropped after the lock is released: it may run code of the executor.
        let _waker = lock().wakers.remove(&self.key);
    }
}

/// Lets forks wait for the thread.
fn register_for_forks() {
    static CREW: LazyLock<Arc<ThreadCrew<Timers>>> = LazyLock::new(|| {
        Arc::new(ThreadCrew {
            lock: &TIMERS,
            idle: &WOKEN,
            is_busy: |timers| timers.is_waking,
            forget_thread: |timers| (timers.has_thread, timers.is_waking) = (false, false),
        })
    });
    let crew: Weak<ThreadCrew<Timers>> = Arc::downgrade(&CREW);
    fork::register(crew);
}

/// The thread of timers.
fn run() {
    let mut timers = lock();
    loop {
        let Some(((time, number), _)) = timers.wakers.first_key_value() else {
            timers = CHANGED.wait(timers).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        let (key, left) = ((*time, *number), time.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            let waker = timers.wakers.remove(&key);
            timers.is_waking = true;
            drop(timers);
            waker.into_iter().for_each(Waker::wake);
            timers = lock();
            timers.is_waking = false;
            WOKEN.notify_all();
        } else {
            timers = CHANGED.wait_timeout(timers, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{self, Sender};
    use std::task::Wake;
    use std::time::Duration;

    use super::*;

    struct Named(u32, Sender<u32>);

    impl Wake for Named {
        fn wake(self: Arc<Self>) {
            self.1.send(self.0).expect("the test waits");
        }
    }

    #[test]
    fn timers_go_off_in_order_unless_they_are_dropped() {
        let (sender, receiver) = mpsc::channel();
        let waker = |name| Waker::from(Arc::new(Named(name, sender.clone())));
        let now = Instant::now();
        let after = |millis, name| Timer::start(now + Duration::from_millis(millis), waker(name)).expect("starts");
        let (late, never, soon) = (after(40, 3), after(20, 2), after(10, 1));
        soon.set_waker(&waker(7));
        drop(never);
        assert_eq!([receiver.recv(), receiver.recv()], [Ok(7), Ok(3)]);
        assert!(Instant::now() >= late.time());
        drop((soon, late));
        // A time that has passed is now.
        let _past = after(0, 4);
        assert_eq!(receiver.recv(), Ok(4));
    }
}
