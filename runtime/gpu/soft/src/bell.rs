//! Sleep and wake-up of threads that wait for words in memory ([`Bell`]). A function that changes a word rings the
//! bell; programs and kernels may also write to it directly, so a sleeping thread looks at it now and then.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::bell_rules::{Rule, keeps};
use crate::sync::{AtomicUsize, Condvar, Mutex, Ordering, SPINS, fence, wait_timeout, yield_now};

/// The first and the longest sleep between two looks. Writes by functions end a sleep at once.
const SLEEP: Duration = Duration::from_micros(20);
const LONGEST_SLEEP: Duration = Duration::from_millis(2);

/// A place where threads wait.
#[derive(Debug, Default)]
pub struct Bell {
    lock: Mutex<()>,
    rung: Condvar,
    waiters: AtomicUsize,
}

impl Bell {
    /// Wakes all who wait. What was written before is visible to them.
    pub fn ring(&self) {
        // Either this sees the waiter, or the waiter sees what was written before: both have a full fence between their
        // write and read.
        fence(Ordering::SeqCst);
        if self.waiters.load(Ordering::Relaxed) != 0 {
            if keeps(Rule::RingsTakeTheLock) {
                drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            }
            self.rung.notify_all();
        }
    }

    /// Waits until `ready` returns a value or the deadline has passed.
    pub fn wait<T>(&self, deadline: Option<Instant>, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
        for _ in 0..SPINS {
            if let Some(value) = ready() {
                return Some(value);
            }
            yield_now();
        }
        self.waiters.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let mut sleep = SLEEP;
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let mut looks = keeps(Rule::SleepersLookAgain);
        let value = loop {
            if looks && let Some(value) = ready() {
                break Some(value);
            }
            looks = true;
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break None;
            }
            let time = left.map_or(sleep, |left| left.min(sleep));
            guard = wait_timeout(&self.rung, guard, time);
            sleep = (sleep * 2).min(LONGEST_SLEEP);
        };
        drop(guard);
        self.waiters.fetch_sub(1, Ordering::Relaxed);
        value
    }
}
