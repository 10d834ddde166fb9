//! A value that threads use one at a time, each for a moment ([`SpinLock`]): the recording of a command buffer, which
//! one thread records as a rule.
//!
//! A turn is one compare-exchange to begin and one store to end, which is half of what a mutex takes: its end has to
//! find out whether somebody waits. Here who waits yields until the turn has ended, so turns are for what hardly ever
//! meets, and for what is brief when it does.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A value that threads use one at a time.
pub(super) struct SpinLock<T> {
    is_taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a `SpinGuard`, of which there is one at a time, so threads only pass it on
// to each other.
unsafe impl<T: Send> Sync for SpinLock<T> {}

/// The turn of a thread, which ends when this is dropped.
pub(super) struct SpinGuard<'a, T> {
    lock: &'a SpinLock<T>,
    /// Other threads have no part in a turn.
    _of_thread: PhantomData<*mut T>,
}

impl<T> SpinLock<T> {
    pub(super) fn new(value: T) -> SpinLock<T> {
        SpinLock { is_taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Begins a turn, after those of other threads. A thread that has one already waits for ever.
    #[inline]
    pub(super) fn begin(&self) -> SpinGuard<'_, T> {
        // Acquire: what earlier turns have written is seen.
        if self.is_taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.wait();
        }
        SpinGuard { lock: self, _of_thread: PhantomData }
    }

    #[cold]
    fn wait(&self) {
        while self.is_taken.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            thread::yield_now();
        }
    }

    /// The value, to which this is the only reference.
    pub(super) fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.is_taken.store(false, Ordering::Release);
    }
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: there is one turn at a time, and this is it.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: there is one turn at a time, and this is it, and this is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_turns() {
        let lock = SpinLock::new((0u64, 0u64));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let mut turn = lock.begin();
                        let (first, second) = *turn;
                        turn.0 = first + 1;
                        thread::yield_now();
                        turn.1 = second + 1;
                    }
                });
            }
        });
        assert_eq!(lock.into_inner(), (60, 60));
    }

    #[test]
    fn a_turn_ends_when_its_thread_panics() {
        let lock = SpinLock::new(1);
        let outcome = thread::scope(|scope| {
            let panicking = scope.spawn(|| {
                let mut turn = lock.begin();
                *turn = 2;
                assert_eq!(*turn, 1, "it panics");
            });
            panicking.join()
        });
        assert!(outcome.is_err());
        assert_eq!(*lock.begin(), 2);
    }
}
