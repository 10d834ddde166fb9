//! A lock whose owners take turns ([`Turns`]): the state of a context, for calls of which one runs at a time. A call that waits for its turn is
//! held to its limits meanwhile: its deadline and its cancellation end the wait. Contexts use it.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::Waker;

use crate::blocking;
use crate::limits::Limits;
use crate::status::Result;
use vireo_core::waker_set::WakerSet;

/// A value that one thread at a time may use.
#[derive(Debug, Default)]
pub struct Turns<T> {
    value: Mutex<T>,
    /// How many threads wait within limits. It is read after each turn, and is a number of its own for that.
    waiting: AtomicUsize,
    waiters: WakerSet,
}

/// A turn, which ends when this is dropped.
#[derive(Debug)]
pub struct Turn<'a, T> {
    guard: Option<MutexGuard<'a, T>>,
    turns: &'a Turns<T>,
}

impl<T> Turns<T> {
    pub fn new(value: T) -> Turns<T> {
        Turns { value: Mutex::new(value), waiting: AtomicUsize::new(0), waiters: WakerSet::default() }
    }

    /// Blocks until it is the turn of this thread.
    #[inline]
    pub fn take(&self) -> Turn<'_, T> {
        // After a panic of a native function only the state of its own module may be inconsistent.
        self.turn(self.value.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// As `take`, within limits.
    ///
    /// # Errors
    /// `DEADLINE_EXCEEDED`, `CANCELLED` or `RESOURCE_EXHAUSTED` if a limit is reached before it is the turn of this thread.
    #[inline]
    pub fn take_within(&self, limits: &Limits) -> Result<Turn<'_, T>> {
        match self.try_take() {
            Some(turn) => Ok(turn),
            None if limits.deadline.is_some() || limits.cancellation.is_some() => self.wait_within(limits),
            None => Ok(self.take()),
        }
    }

    #[cold]
    fn wait_within(&self, limits: &Limits) -> Result<Turn<'_, T>> {
        let begin = |waker: &Waker| {
            let number = self.waiters.insert(waker);
            self.waiting.fetch_add(1, Ordering::SeqCst);
            // Either the end of a turn sees the new number, or it is over when the wait tries to take the next one.
            std::sync::atomic::fence(Ordering::SeqCst);
            Ok(Waiting { turns: self, number })
        };
        let taken = blocking::wait_within(limits, None, begin, || self.try_take())?;
        taken.map_or_else(|| Ok(self.take()), Ok)
    }

    fn try_take(&self) -> Option<Turn<'_, T>> {
        match self.value.try_lock() {
            Ok(guard) => Some(self.turn(guard)),
            Err(TryLockError::Poisoned(poisoned)) => Some(self.turn(poisoned.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    #[inline]
    fn turn<'a>(&'a self, guard: MutexGuard<'a, T>) -> Turn<'a, T> {
        Turn { guard: Some(guard), turns: self }
    }

    /// The value, which nobody else uses.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that waits for its turn, until this is dropped.
struct Waiting<'a, T> {
    turns: &'a Turns<T>,
    number: u64,
}

impl<T> Drop for Waiting<'_, T> {
    fn drop(&mut self) {
        self.turns.waiting.fetch_sub(1, Ordering::SeqCst);
        self.turns.waiters.remove(self.number);
    }
}

impl<T> Deref for Turn<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.guard.as_deref().unwrap_or_else(|| unreachable!("only dropping ends the turn"))
    }
}

impl<T> DerefMut for Turn<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_deref_mut().unwrap_or_else(|| unreachable!("only dropping ends the turn"))
    }
}

impl<T> Drop for Turn<'_, T> {
    #[inline]
    fn drop(&mut self) {
        drop(self.guard.take());
        after_unlocking();
        if self.turns.waiting.load(Ordering::SeqCst) > 0 {
            self.turns.waiters.wake_all();
        }
    }
}

/// Keeps the read of the number of waiters after the lock is released. On x86-64 Linux the standard library releases it by an atomic exchange,
/// which does so by itself; a fence would take as long as a third of the shortest call.
#[inline(always)]
fn after_unlocking() {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    std::sync::atomic::fence(Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::limits::Cancellation;
    use crate::status::StatusCode;

    fn within(cancellation: &Cancellation) -> Limits {
        Limits { cancellation: Some(cancellation.clone()), ..Limits::default() }
    }

    #[test]
    fn threads_take_turns_however_they_wait() {
        let (turns, cancellation) = (Turns::new(0_u32), Cancellation::new());
        thread::scope(|scope| {
            for number in 0..4 {
                let (turns, cancellation) = (&turns, &cancellation);
                scope.spawn(move || {
                    for _ in 0..5000 {
                        if number % 2 == 0 {
                            *turns.take() += 1;
                        } else {
                            *turns.take_within(&within(cancellation)).expect("nobody cancels") += 1;
                        }
                    }
                });
            }
        });
        assert_eq!((*turns.take(), turns.waiting.load(Ordering::SeqCst), turns.waiters.count()), (20_000, 0, 0));
    }

    #[test]
    fn a_wait_for_a_turn_ends_at_the_limits() {
        let (turns, cancellation) = (Turns::new(()), Cancellation::new());
        let turn = turns.take();
        let soon = Limits { timeout: Some(Duration::from_millis(2)), ..Limits::default() }.started().into_owned();
        assert_eq!(turns.take_within(&soon).expect_err("it is taken").code(), StatusCode::DeadlineExceeded);
        let limits = within(&cancellation);
        thread::scope(|scope| {
            let waits = scope.spawn(|| turns.take_within(&limits).map(drop).map_err(|status| status.code()));
            while turns.waiting.load(Ordering::SeqCst) == 0 {
                thread::yield_now();
            }
            cancellation.cancel();
            assert_eq!(waits.join().expect("it does not panic"), Err(StatusCode::Cancelled));
        });
        drop(turn);
        assert_eq!((turns.waiting.load(Ordering::SeqCst), turns.waiters.count()), (0, 0));
    }
}
