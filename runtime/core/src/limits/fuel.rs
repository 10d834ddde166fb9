//! Fuel: a shared limit of the steps that programs take, and what is left of it. A step is a backward branch or a call.
//!
//! A running program takes steps in advance, many at a time, so that counting one costs a subtraction. What it has not
//! used when it ends or waits is given back, so the fuel that is used is exact: on every tier it is the number of steps
//! that the program took.
//!
//! While a program calls a native function, it lends the steps that it has not used to the thread ([`Fuel::lend`]):
//! programs that the function runs take them, and give back what they do not use. So native calls and kernels need no
//! atomic operation, of which there would be two for each. Before limits are handed to another thread, the steps that
//! are lent go back to the fuel.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::message_text::grouped;
use crate::status::Status;

/// The share of the fuel left that a program may take in advance: calls on several threads may all have some, so one
/// that has nearly nothing left does not run out because others hold the rest.
const SHARE: u64 = 16;

/// Fuel for all invocations that have this value as their limit. Clones are the same fuel.
#[derive(Clone)]
pub struct Fuel(Arc<Inner>);

struct Inner {
    limit: AtomicU64,
    left: AtomicU64,
}

thread_local! {
    static LENT: Cell<Lent> = const { Cell::new(Lent { fuel: std::ptr::null(), steps: 0 }) };
}

/// Steps that a program of this thread has taken and lent to it.
#[derive(Clone, Copy)]
struct Lent {
    /// The address of the fuel, which is only compared. Null if nothing is lent.
    fuel: *const Inner,
    steps: u32,
}

/// The time in which steps are lent to the thread. What is left of them afterwards is given back.
#[doc(hidden)]
pub struct LentSteps<'a> {
    fuel: &'a Fuel,
    /// The loan of an outer program.
    outer: Lent,
}

impl LentSteps<'_> {
    /// Ends the time and returns what is left, at most `most` steps.
    #[inline]
    pub fn reclaim(self, most: u32) -> u32 {
        let lent = LENT.replace(self.outer);
        let steps = lent.steps.min(most);
        self.fuel.give_back(lent.steps - steps);
        // It has ended.
        std::mem::forget(self);
        steps
    }
}

impl Drop for LentSteps<'_> {
    #[inline]
    fn drop(&mut self) {
        let rest = LENT.replace(self.outer);
        self.fuel.give_back(rest.steps);
    }
}

impl Fuel {
    /// True if both are clones of one value.
    pub(super) fn is_same(&self, other: &Fuel) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Fuel for so many steps: backward branches and calls.
    pub fn new(steps: u64) -> Fuel {
        Fuel(Arc::new(Inner { limit: AtomicU64::new(steps), left: AtomicU64::new(steps) }))
    }

    /// Adds fuel for more steps.
    pub fn add(&self, steps: u64) {
        // Neither number can wrap to a small one: a limit that would is the largest one, and what is left is never
        // more.
        let grow = |value: u64| Some(value.saturating_add(steps));
        let _ = self.0.limit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grow);
        let _ = self.0.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grow);
    }

    /// The steps that it was made for, with those that were added.
    pub fn limit(&self) -> u64 {
        self.0.limit.load(Ordering::Relaxed)
    }

    /// The steps that were taken. While programs run, this includes those that they have taken in advance, apart from
    /// those that are lent to this thread.
    pub fn used(&self) -> u64 {
        self.limit().saturating_sub(self.left())
    }

    /// The steps that are left.
    pub fn left(&self) -> u64 {
        self.0.left.load(Ordering::Relaxed).saturating_add(self.lent().steps.into())
    }

    /// The loan of this thread from this fuel.
    #[inline]
    fn lent(&self) -> Lent {
        let fuel = Arc::as_ptr(&self.0);
        let lent = LENT.get();
        if std::ptr::eq(lent.fuel, fuel) { lent } else { Lent { fuel, steps: 0 } }
    }

    /// Lends `steps` that were taken to the thread, until the result is dropped.
    #[doc(hidden)]
    #[inline]
    pub fn lend(&self, steps: u32) -> LentSteps<'_> {
        LentSteps { fuel: self, outer: LENT.replace(Lent { fuel: Arc::as_ptr(&self.0), steps }) }
    }

    /// Gives back what is lent to this thread, for others.
    pub(super) fn give_back_lent(&self) {
        let lent = self.lent();
        if lent.steps > 0 {
            LENT.set(Lent { steps: 0, ..lent });
            self.grow(lent.steps);
        }
    }

    /// Takes at least `needed` steps, and up to `wanted` if there are plenty. None if fewer than `needed` are left.
    #[doc(hidden)]
    #[inline]
    pub fn take(&self, needed: u32, wanted: u32) -> Option<u32> {
        let granted = |left: u64| u64::from(needed).max(u64::from(wanted).min(left / SHARE));
        let lent = self.lent();
        if lent.steps > 0 && lent.steps >= needed {
            let steps = u64::from(lent.steps).min(granted(self.left())) as u32;
            LENT.set(Lent { steps: lent.steps - steps, ..lent });
            return Some(steps);
        }
        self.give_back_lent();
        let spend = |left: u64| left.checked_sub(granted(left));
        let before = self.0.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).ok()?;
        // It is no more than the larger one of two numbers of 32 bits.
        Some(granted(before) as u32)
    }

    /// Gives back steps that were taken and not used.
    #[doc(hidden)]
    #[inline]
    pub fn give_back(&self, steps: u32) {
        if steps == 0 {
            return;
        }
        let lent = LENT.get();
        match lent.steps.checked_add(steps) {
            // An outer program gets them.
            Some(steps) if std::ptr::eq(lent.fuel, Arc::as_ptr(&self.0)) => LENT.set(Lent { steps, ..lent }),
            _ => self.grow(steps),
        }
    }

    fn grow(&self, steps: u32) {
        let grow = |left: u64| Some(left.saturating_add(u64::from(steps)));
        let _ = self.0.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grow);
    }

    /// The error of an invocation that needs a step more than there are.
    #[doc(hidden)]
    #[cold]
    pub fn exhausted(&self) -> Status {
        let (used, limit) = (grouped(self.used()), grouped(self.limit()));
        Status::resource_exhausted(format!("ran out of fuel: {used} of {limit} units used"))
    }
}

impl fmt::Debug for Fuel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fuel({} of {} units used)", self.used(), self.limit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_in_advance_is_a_share_of_what_is_left() {
        let fuel = Fuel::new(1000);
        assert_eq!(fuel.take(1, 8192), Some(62));
        assert_eq!(fuel.take(900, 8192), Some(900));
        assert_eq!((fuel.take(39, 39), fuel.left()), (None, 38));
        assert_eq!(fuel.take(38, 8192), Some(38));
        assert_eq!((fuel.take(1, 1), fuel.used()), (None, 1000));
        assert_eq!(fuel.exhausted().message(), "ran out of fuel: 1,000 of 1,000 units used");
        fuel.give_back(60);
        fuel.add(1_000_000);
        assert_eq!((fuel.left(), fuel.limit(), fuel.used()), (1_000_060, 1_001_000, 940));
        assert_eq!(fuel.take(1, 8192), Some(8192));
        fuel.add(u64::MAX);
        assert_eq!(format!("{fuel:?}"), "fuel(0 of 18446744073709551615 units used)");
    }

    #[test]
    fn steps_that_are_lent_to_the_thread_are_left() {
        let (fuel, other) = (Fuel::new(1000), Fuel::new(1000));
        let taken = fuel.take(40, 40).expect("there is enough");
        let lent = fuel.lend(taken);
        assert_eq!((fuel.used(), fuel.0.left.load(Ordering::Relaxed)), (0, 960));
        // An inner program takes some of them, and calls a function itself.
        let inner = fuel.take(1, 25).expect("they are lent");
        assert_eq!((inner, fuel.used()), (25, 25));
        drop(fuel.lend(inner - 5));
        let elsewhere = other.lend(other.take(1, 50).expect("there is enough"));
        assert_eq!((other.used(), elsewhere.reclaim(10)), (0, 10));
        assert_eq!((other.used(), fuel.used()), (10, 5));
        // More than is lent comes from the fuel, and so does what another thread takes.
        assert_eq!((fuel.take(36, 36), fuel.used()), (Some(36), 41));
        fuel.give_back(36);
        assert_eq!((fuel.used(), fuel.0.left.load(Ordering::Relaxed)), (5, 959));
        fuel.give_back_lent();
        assert_eq!((fuel.used(), fuel.0.left.load(Ordering::Relaxed)), (5, 995));
        assert_eq!((lent.reclaim(100), fuel.used()), (0, 5));
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        let fuel = Fuel::new(1 << 20);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let taken = fuel.take(10, 100).expect("there is enough");
                        fuel.give_back(taken - 10);
                    }
                });
            }
        });
        assert_eq!(fuel.used(), 40_000);
    }
}
