//! Fuel: a shared limit of the steps that programs take, and what is left of it. A step is a backward branch or a call.
//!
//! A running program takes steps in advance, many at a time, so that counting one costs a subtraction. What it has not used when it ends, waits or
//! calls a native function is given back, so the fuel that is used is exact: on every tier it is the number of steps that the program took.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::grouped;
use crate::status::Status;

/// What a program may take in advance, as a share of the fuel that is left: calls on several threads may all have some, so one that has nearly
/// nothing left does not run out because others hold the rest.
const SHARE: u64 = 16;

/// Fuel for all invocations that have this value as their limit. Clones are the same fuel.
#[derive(Clone)]
pub struct Fuel(Arc<Inner>);

struct Inner {
    limit: AtomicU64,
    left: AtomicU64,
}

impl Fuel {
    /// Fuel for so many steps: backward branches and calls.
    pub fn new(steps: u64) -> Fuel {
        Fuel(Arc::new(Inner { limit: AtomicU64::new(steps), left: AtomicU64::new(steps) }))
    }

    /// Adds fuel for more steps.
    pub fn add(&self, steps: u64) {
        // Neither number can wrap to a small one: a limit that would is the largest one, and what is left is never more.
        let grow = |value: u64| Some(value.saturating_add(steps));
        let _ = self.0.limit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grow);
        let _ = self.0.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grow);
    }

    /// The steps that it was made for, with those that were added.
    pub fn limit(&self) -> u64 {
        self.0.limit.load(Ordering::Relaxed)
    }

    /// The steps that were taken. While programs run, this includes those that they have taken in advance.
    pub fn used(&self) -> u64 {
        self.limit().saturating_sub(self.left())
    }

    /// The steps that are left.
    pub fn left(&self) -> u64 {
        self.0.left.load(Ordering::Relaxed)
    }

    /// Takes at least `needed` steps, and up to `wanted` if there are plenty. None if fewer than `needed` are left.
    #[doc(hidden)]
    pub fn take(&self, needed: u32, wanted: u32) -> Option<u32> {
        let granted = |left: u64| u64::from(needed).max(u64::from(wanted).min(left / SHARE));
        let spend = |left: u64| left.checked_sub(granted(left));
        let before = self.0.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).ok()?;
        // It is no more than the larger one of two numbers of 32 bits.
        Some(granted(before) as u32)
    }

    /// Gives back steps that were taken and not used.
    #[doc(hidden)]
    pub fn give_back(&self, steps: u32) {
        if steps > 0 {
            let grow = |left: u64| Some(left.saturating_add(u64::from(steps)));
            let _ = self.0.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grow);
        }
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
