//! A lock whose owners take turns ([`Turns`]): the state of a context, for calls of which one runs at a time. A call
//! that waits for its turn is held to its limits meanwhile: its deadline and its cancellation end the wait. Contexts
//! use it.
//!
//! Most contexts are called by one thread, again and again, and the two atomic exchanges of a mutex take longer than a
//! short call. So a lock that one thread has taken many times in a row is lent to that thread: it begins and ends its
//! turns by plain loads and stores, until another thread wants a turn. That one pays for both: it ends the lease, lets
//! all threads of the process pass a barrier, after which the former leaseholder either is seen to have a turn or sees
//! that the lease is over, and waits for the end of that turn if there is one.

use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::Waker;

use crate::blocking;
use crate::limits::Limits;
use crate::status::Result;
use vireo_core::asymmetric_fence;
use vireo_core::waker_set::WakerSet;

/// In place of the number of a thread: the lock is lent to none. Threads without a number have zero, and the first has
/// two.
const NOBODY: usize = 1;
/// How many leases a lock gives in its life. Each has a flag of its own: a thread that lost its lease may still be
/// about to set and clear the flag, when the next leaseholder has a turn.
const LEASES: usize = 8;
/// How many turns in a row get a thread the lease. Each lease that another thread ends doubles it, so threads that
/// alternate seldom pay for it.
const TURNS_TO_LEASE: u32 = 64;

thread_local! {
    /// The number of this thread; zero if it has none yet.
    static THREAD: Cell<usize> = const { Cell::new(0) };
}

/// A value that one thread at a time may use. It has cache lines of its own, because what other threads read may lie
/// beside it.
#[repr(align(64))]
pub struct Turns<T> {
    /// The last [`Lease`]. It changes only with `lock` held.
    lease: AtomicUsize,
    /// Whether the leaseholder has a turn, for each lease. One that finds its lease ended sets its own for a moment,
    /// too.
    is_leaseholder_in: [AtomicBool; LEASES],
    /// Locked during a turn without a lease.
    lock: Mutex<Streak>,
    /// How many threads wait within limits, or for a leaseholder. It is read after each turn, and is a number of its
    /// own for that.
    waiting: AtomicUsize,
    waiters: WakerSet,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a `Turn`, of which there is one at a time (`Turns::admit`), so threads only
// pass it on to each other.
unsafe impl<T: Send> Sync for Turns<T> {}

// As for a mutex: after a panic of a native function only the state of its own module may be inconsistent.
impl<T> UnwindSafe for Turns<T> {}
impl<T> RefUnwindSafe for Turns<T> {}

/// The number of a lease, below [`LEASES`], and in the upper bits the number of the thread that has it, or of none once
/// it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lease(usize);

impl Lease {
    const fn new(thread: usize, number: usize) -> Lease {
        Lease((thread * LEASES) | (number % LEASES))
    }

    const fn thread(self) -> usize {
        self.0 / LEASES
    }

    const fn number(self) -> usize {
        self.0 % LEASES
    }
}

/// Turns of one thread in a row.
#[derive(Debug)]
struct Streak {
    thread: usize,
    length: u32,
    /// How long it must be for a lease.
    needed: u32,
    /// How many leases there were.
    leases: usize,
}

/// A turn, which ends when this is dropped.
pub struct Turn<'a, T> {
    /// The right to the turn: the lock, or the lease of this thread.
    right: Right<'a>,
    turns: &'a Turns<T>,
    /// Other threads have no part in a turn.
    _of_thread: PhantomData<*mut T>,
}

/// The right to a turn.
enum Right<'a> {
    Lock(MutexGuard<'a, Streak>),
    Lease(Lease),
    /// Only while the turn is dropped.
    None,
}

impl<T> Turns<T> {
    pub fn new(value: T) -> Turns<T> {
        Turns {
            lease: AtomicUsize::new(Lease::new(NOBODY, 0).0),
            is_leaseholder_in: [const { AtomicBool::new(false) }; LEASES],
            lock: Mutex::new(Streak { thread: 0, length: 0, needed: TURNS_TO_LEASE, leases: 0 }),
            waiting: AtomicUsize::new(0),
            waiters: WakerSet::default(),
            value: UnsafeCell::new(value),
        }
    }

    /// Blocks until it is the turn of this thread.
    #[inline]
    pub fn take(&self) -> Turn<'_, T> {
        match self.take_by_lease() {
            Some(turn) => turn,
            None => self.take_locked(),
        }
    }

    fn take_locked(&self) -> Turn<'_, T> {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = self.admit(guard) {
            return turn;
        }
        loop {
            // Without limits, nothing but a turn ends the wait.
            if let Ok(turn) = self.wait_within(&Limits::default()) {
                return turn;
            }
        }
    }

    /// As `take`, within limits.
    ///
    /// # Errors
    /// `DEADLINE_EXCEEDED`, `CANCELLED` or `RESOURCE_EXHAUSTED` if a limit is reached before it is the turn of this
    /// thread.
    #[inline]
    pub fn take_within(&self, limits: &Limits) -> Result<Turn<'_, T>> {
        match self.take_by_lease().or_else(|| self.try_take()) {
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
            fence(Ordering::SeqCst);
            Ok(Waiting { turns: self, number })
        };
        let taken = blocking::wait_within(limits, None, begin, || self.try_take())?;
        taken.map_or_else(|| Ok(self.take()), Ok)
    }

    #[inline(always)]
    fn lease(&self) -> Lease {
        Lease(self.lease.load(Ordering::Relaxed))
    }

    /// Whether a leaseholder has a turn by this lease.
    #[inline(always)]
    fn flag(&self, lease: Lease) -> &AtomicBool {
        &self.is_leaseholder_in[lease.number()]
    }

    /// A turn, if this thread has the lease and no turn.
    #[inline(always)]
    fn take_by_lease(&self) -> Option<Turn<'_, T>> {
        let lease = self.lease();
        if lease.thread() != THREAD.get() || self.flag(lease).load(Ordering::Relaxed) {
            return None;
        }
        self.enter(lease)
    }

    /// A turn, if this thread still has the lease.
    #[inline(always)]
    fn enter(&self, lease: Lease) -> Option<Turn<'_, T>> {
        self.flag(lease).store(true, Ordering::Relaxed);
        asymmetric_fence::light();
        // The thread that ends the lease either sees the turn, or has it seen here that the lease is over.
        if self.lease() == lease {
            return Some(self.turn(Right::Lease(lease)));
        }
        self.leave(lease);
        None
    }

    #[inline(always)]
    fn leave(&self, lease: Lease) {
        self.flag(lease).store(false, Ordering::Release);
        asymmetric_fence::light();
        // A thread that waits for this turn has ended the lease: before this load, or it has seen that the turn is
        // over.
        if self.lease() != lease {
            self.after_the_lease();
        }
    }

    #[cold]
    fn after_the_lease(&self) {
        fence(Ordering::SeqCst);
        self.wake_waiting();
    }

    fn try_take(&self) -> Option<Turn<'_, T>> {
        // A look before the lock is taken, so that waiting threads do not wake each other while a former leaseholder
        // has a turn.
        let last = self.lease();
        if last.thread() == NOBODY && self.flag(last).load(Ordering::SeqCst) {
            return None;
        }
        match self.lock.try_lock() {
            Ok(guard) => self.admit(guard),
            Err(TryLockError::Poisoned(poisoned)) => self.admit(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// A turn for the thread that holds the lock, unless a leaseholder has one. Ends the lease that another thread has.
    #[inline]
    fn admit<'a>(&'a self, mut guard: MutexGuard<'a, Streak>) -> Option<Turn<'a, T>> {
        let last = self.lease();
        if last.thread() != NOBODY {
            self.lease.store(Lease::new(NOBODY, last.number()).0, Ordering::Relaxed);
            asymmetric_fence::heavy();
            *guard = Streak { thread: 0, length: 0, needed: guard.needed.saturating_mul(2), leases: guard.leases };
        }
        // Acquire: what the leaseholder has written in its turns is seen. There will be no new turn by lease as long as
        // the lock is held, and leaseholders before the last one have no turn any more, since the lock was taken after
        // them.
        if self.flag(last).load(Ordering::Acquire) {
            drop(guard);
            self.after_unlocking();
            return None;
        }
        if guard.thread != THREAD.get() || guard.thread == 0 {
            *guard = Streak { thread: number_of_thread(), length: 0, ..*guard };
        }
        guard.length = guard.length.saturating_add(1);
        if guard.length >= guard.needed { Some(self.lend(guard)) } else { Some(self.turn(Right::Lock(guard))) }
    }

    /// Gives this thread the lease, and a turn by it, if there is one left and the system has the barrier that is
    /// needed to end it.
    #[cold]
    fn lend<'a>(&'a self, mut guard: MutexGuard<'a, Streak>) -> Turn<'a, T> {
        if guard.thread == 0 || guard.leases == LEASES || !asymmetric_fence::is_ready() {
            return self.turn(Right::Lock(guard));
        }
        let lease = Lease::new(guard.thread, guard.leases);
        guard.leases += 1;
        // These are not read before the lock is released.
        self.flag(lease).store(true, Ordering::Relaxed);
        self.lease.store(lease.0, Ordering::Relaxed);
        drop(guard);
        self.after_unlocking();
        self.turn(Right::Lease(lease))
    }

    #[inline]
    fn turn<'a>(&'a self, right: Right<'a>) -> Turn<'a, T> {
        Turn { right, turns: self, _of_thread: PhantomData }
    }

    /// Wakes who waits for the lock, which has just been released.
    #[inline(always)]
    fn after_unlocking(&self) {
        // The number of waiting threads is read after the lock is released. On x86-64 Linux the standard library
        // releases it by an atomic exchange, which keeps that order by itself; a fence would take as long.
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        asymmetric_fence::light();
        #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
        fence(Ordering::SeqCst);
        self.wake_waiting();
    }

    #[inline]
    fn wake_waiting(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.waiters.wake_all();
        }
    }

    /// The value, which this turn has for itself.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

/// The number of this thread, which no other thread of the process has or had; zero if all numbers are used up.
fn number_of_thread() -> usize {
    static LAST: AtomicUsize = AtomicUsize::new(NOBODY);
    if THREAD.get() == 0 {
        let after = |last: usize| Some(last + 1).filter(|next| *next <= usize::MAX / LEASES);
        let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after);
        THREAD.set(last.map_or(0, |last| last + 1));
    }
    THREAD.get()
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
        // SAFETY: there is one turn at a time, and this is it.
        unsafe { &*self.turns.value.get() }
    }
}

impl<T> DerefMut for Turn<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: there is one turn at a time, and this is it, and this is borrowed mutably.
        unsafe { &mut *self.turns.value.get() }
    }
}

impl<T> Drop for Turn<'_, T> {
    #[inline]
    fn drop(&mut self) {
        match std::mem::replace(&mut self.right, Right::None) {
            Right::Lease(lease) => self.turns.leave(lease),
            Right::Lock(guard) => {
                drop(guard);
                self.turns.after_unlocking();
            }
            Right::None => {}
        }
    }
}

impl<T> fmt::Debug for Turns<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turns").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Turn<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("by_lease", &matches!(self.right, Right::Lease(_))).finish_non_exhaustive()
    }
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

    /// Takes turns until this thread has the lease.
    fn get_lease<T>(turns: &Turns<T>) {
        for _ in 0..TURNS_TO_LEASE {
            drop(turns.take());
        }
        assert_eq!(turns.lease().thread(), THREAD.get(), "it is lent to this thread");
    }

    /// Whether leases can be had on this system.
    fn are_there_leases() -> bool {
        if !asymmetric_fence::is_supported() {
            println!("skipped: this system has no barrier of all threads");
        }
        asymmetric_fence::is_supported()
    }

    #[test]
    fn a_thread_that_comes_again_and_again_gets_a_lease_which_others_end() {
        if !are_there_leases() {
            return;
        }
        let turns = Turns::new(Vec::new());
        get_lease(&turns);
        let mut turn = turns.take();
        assert!(matches!(turn.right, Right::Lease(_)));
        // It has one turn at a time, also by lease.
        let soon = Limits { timeout: Some(Duration::from_millis(1)), ..Limits::default() }.started().into_owned();
        assert_eq!(turns.take_within(&soon).expect_err("it is taken").code(), StatusCode::DeadlineExceeded);
        let limits = within(&Cancellation::new());
        thread::scope(|scope| {
            for number in 0..2 {
                let (turns, limits) = (&turns, &limits);
                scope.spawn(move || {
                    let mut turn =
                        if number == 0 { turns.take() } else { turns.take_within(limits).expect("nobody cancels") };
                    turn.push("other");
                });
            }
            while turns.waiting.load(Ordering::SeqCst) < 2 {
                thread::yield_now();
            }
            turn.push("leaseholder");
            drop(turn);
        });
        assert_eq!(*turns.take(), ["leaseholder", "other", "other"]);
        assert_eq!(turns.lease().thread(), NOBODY);
        assert_eq!((turns.waiting.load(Ordering::SeqCst), turns.waiters.count()), (0, 0));
    }

    #[test]
    fn a_thread_that_lost_its_lease_does_not_end_the_turn_of_the_next() {
        if !are_there_leases() {
            return;
        }
        let turns = Turns::new(());
        get_lease(&turns);
        let lost = turns.lease();
        thread::scope(|scope| {
            let other = scope.spawn(|| {
                for _ in 0..2 * TURNS_TO_LEASE {
                    drop(turns.take());
                }
                let turn = turns.take();
                assert!(matches!(turn.right, Right::Lease(_)));
                // As a thread that was interrupted after it had found the lease to be its own.
                let lease = turns.lease();
                scope.spawn(|| assert!(turns.enter(lost).is_none())).join().expect("the lease is over");
                scope.spawn(|| assert!(turns.try_take().is_none())).join().expect("there is a turn");
                assert_eq!(turns.lease(), Lease::new(NOBODY, lease.number()));
            });
            other.join().expect("it has its turn alone");
        });
        drop(turns.take());
    }

    #[test]
    fn a_lock_gives_so_many_leases_and_is_a_lock_then() {
        if !are_there_leases() {
            return;
        }
        let turns = Turns::new(());
        for number in 0..LEASES + 2 {
            thread::scope(|scope| {
                let taken = scope.spawn(|| {
                    for _ in 0..TURNS_TO_LEASE << number {
                        drop(turns.take());
                    }
                    turns.lease().thread() == THREAD.get()
                });
                assert_eq!(taken.join().expect("it takes turns"), number < LEASES, "lease {number}");
            });
        }
    }

    #[test]
    fn leases_come_and_go_while_threads_take_turns() {
        // The value is two numbers that are equal outside of turns.
        let turns = Turns::new((0_u32, 0_u32));
        thread::scope(|scope| {
            for number in 0..3 {
                let turns = &turns;
                scope.spawn(move || {
                    for burst in 0..40 {
                        for _ in 0..TURNS_TO_LEASE * 3 {
                            let mut turn = turns.take();
                            assert_eq!(turn.0, turn.1);
                            turn.0 += 1;
                            std::hint::spin_loop();
                            turn.1 += 1;
                        }
                        if (burst + number) % 3 == 0 {
                            thread::yield_now();
                        }
                    }
                });
            }
        });
        let all = 3 * 40 * TURNS_TO_LEASE * 3;
        assert_eq!((*turns.take(), turns.waiting.load(Ordering::SeqCst)), ((all, all), 0));
    }
}
