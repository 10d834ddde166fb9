//! Sets of wakers ([`WakerSet`]): the threads and asynchronous tasks that wait for one thing. Cancellations wake
//! theirs, and so do locks.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// Wakers that are woken together. Each stays until it is removed.
#[derive(Debug, Default)]
pub struct WakerSet(Mutex<Numbered>);

#[derive(Debug, Default)]
struct Numbered {
    wakers: BTreeMap<u64, Waker>,
    next: u64,
}

impl WakerSet {
    /// Adds a waker. Gives the number by which it is replaced and removed.
    pub fn insert(&self, waker: &Waker) -> u64 {
        let mut set = self.lock();
        let number = set.next;
        set.next += 1;
        set.wakers.insert(number, waker.clone());
        number
    }

    /// Puts a waker in the place of another one.
    pub fn replace(&self, number: u64, waker: &Waker) {
        // The old one is dropped after the lock is released: it may run code of an executor.
        let _old = self.lock().wakers.insert(number, waker.clone());
    }

    /// Removes a waker.
    pub fn remove(&self, number: u64) {
        let _old = self.lock().wakers.remove(&number);
    }

    /// Wakes all.
    pub fn wake_all(&self) {
        let wakers: Vec<Waker> = self.lock().wakers.values().cloned().collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.lock().wakers.len()
    }

    fn lock(&self) -> MutexGuard<'_, Numbered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
