//! Memory budgets: a limit of memory, and charges against it. The VM, devices and the JIT charge what they allocate.
//!
//! A [`MemoryBudget`] is shared by everything that runs for one host: buffers and lists of the VM, memory of devices,
//! stacks, machine code, and host objects that a program creates. Each owner of memory holds a [`Charge`], which
//! returns the bytes to the budget when it is dropped.
//!
//! Buffers, lists and device memory are charged before they are allocated, and refused beyond the limit. Small objects
//! cannot be refused where they are made, so they may exceed the limit a little; the program then fails at its next
//! check of the limits.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::message_text::grouped;
use crate::status::{Result, Status};

/// Bytes that are charged for a small host object: a few words, and about as much for the memory that it owns.
pub const OBJECT_BYTES: u64 = 256;

/// Largest alignment that memory of a program can have. An aligned block can take as many bytes as its alignment,
/// however short it is.
pub const MAX_ALIGNMENT: u64 = 1 << 16;

/// The alignment of blocks that ask for none, and the bytes before each.
const BLOCK_HEADER: u64 = 16;

/// Bytes that a block of the system's allocator is charged for. Aligned blocks are cut out of blocks that are longer by
/// the alignment and a few words, and what is left of these is not always used for others.
pub fn block_bytes(length: u64, alignment: u64) -> u64 {
    let lost = if alignment <= BLOCK_HEADER { 0 } else { alignment + 3 * BLOCK_HEADER };
    length.saturating_add(BLOCK_HEADER + lost)
}

/// A shared limit of memory and the bytes that are used. Clones are the same budget.
#[derive(Clone)]
pub struct MemoryBudget(Arc<Inner>);

struct Inner {
    limit: u64,
    used: AtomicU64,
    peak: AtomicU64,
}

impl MemoryBudget {
    /// True if both are clones of one value.
    pub(super) fn is_same(&self, other: &MemoryBudget) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// A budget of `limit` bytes.
    pub fn new(limit: u64) -> MemoryBudget {
        MemoryBudget(Arc::new(Inner { limit, used: AtomicU64::new(0), peak: AtomicU64::new(0) }))
    }

    /// Most bytes that may be used.
    pub fn limit(&self) -> u64 {
        self.0.limit
    }

    /// Bytes that are used.
    pub fn used(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }

    /// The most bytes that were ever used at once.
    pub fn peak(&self) -> u64 {
        self.0.peak.load(Ordering::Relaxed)
    }

    /// Charges `bytes` for `what`.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if they are more than are left.
    #[doc(hidden)]
    pub fn charge(&self, bytes: u64, what: &str) -> Result<Charge> {
        let within = |used: u64| used.checked_add(bytes).filter(|used| *used <= self.0.limit);
        match self.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within) {
            Ok(before) => {
                self.update_peak(before + bytes);
                Ok(Charge { budget: Some(self.clone()), bytes })
            }
            Err(used) => Err(self.exhausted(bytes, what, used)),
        }
    }

    /// Charges `bytes`, even beyond the limit.
    #[doc(hidden)]
    pub fn charge_anyway(&self, bytes: u64) -> Charge {
        let before = self.0.used.fetch_add(bytes, Ordering::Relaxed);
        self.update_peak(before.saturating_add(bytes));
        Charge { budget: Some(self.clone()), bytes }
    }

    /// Fails if more bytes are used than the limit allows.
    #[doc(hidden)]
    pub fn check(&self) -> Result<()> {
        let (used, limit) = (self.used(), self.0.limit);
        if used <= limit {
            return Ok(());
        }
        let message = format!("ran out of memory: {} bytes in use, of at most {}", grouped(used), grouped(limit));
        Err(Status::resource_exhausted(message))
    }

    fn update_peak(&self, used: u64) {
        if used > self.0.peak.load(Ordering::Relaxed) {
            self.0.peak.fetch_max(used, Ordering::Relaxed);
        }
    }

    #[cold]
    fn exhausted(&self, bytes: u64, what: &str, used: u64) -> Status {
        let [bytes, used, limit] = [bytes, used, self.0.limit].map(grouped);
        Status::resource_exhausted(format!(
            "ran out of memory: {bytes} bytes requested for {what}, with {used} bytes in use, of at most {limit}"
        ))
    }
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memory budget({} of {} bytes used)", self.used(), self.limit())
    }
}

/// Bytes that are charged to a budget, and returned on drop. Without a budget it is empty.
#[derive(Debug, Default)]
pub struct Charge {
    budget: Option<MemoryBudget>,
    bytes: u64,
}

impl Charge {
    /// Charges a budget, if there is one.
    #[inline]
    pub fn new(budget: Option<&MemoryBudget>, bytes: u64, what: &str) -> Result<Charge> {
        budget.map_or(Ok(Charge::default()), |budget| budget.charge(bytes, what))
    }

    /// True if it has a budget.
    #[inline]
    pub fn is_counted(&self) -> bool {
        self.budget.is_some()
    }

    /// Changes the charge to `bytes`. A smaller charge never fails.
    pub fn resize(&mut self, bytes: u64, what: &str) -> Result<()> {
        let Some(budget) = &self.budget else { return Ok(()) };
        if let Some(more) = bytes.checked_sub(self.bytes).filter(|more| *more > 0) {
            // The bytes of the new charge become part of this one, so it must not return them.
            std::mem::take(&mut budget.charge(more, what)?.bytes);
        }
        self.settle(bytes, false);
        Ok(())
    }

    /// Adds `bytes`.
    pub fn add(&mut self, bytes: u64, what: &str) -> Result<()> {
        self.resize(self.bytes.saturating_add(bytes), what)
    }

    /// Adds `bytes`, even beyond the limit.
    #[cfg(test)]
    pub fn add_anyway(&mut self, bytes: u64) {
        if let Some(budget) = &self.budget {
            std::mem::take(&mut budget.charge_anyway(bytes).bytes);
            self.bytes += bytes;
        }
    }

    /// Corrects the charge to `bytes`, the size that was really allocated, even beyond the limit.
    pub fn correct(&mut self, bytes: u64) {
        self.settle(bytes, true);
    }

    fn settle(&mut self, bytes: u64, grows: bool) {
        let Some(budget) = &self.budget else { return };
        if bytes < self.bytes {
            budget.0.used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        } else if grows {
            budget.0.used.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }
}

impl Drop for Charge {
    #[inline]
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::status::StatusCode;

    #[test]
    fn a_charge_is_refused_beyond_the_limit_and_given_back_on_drop() {
        let budget = MemoryBudget::new(100);
        let first = budget.charge(60, "a thing").expect("fits");
        let error = budget.charge(41, "another thing").expect_err("is too much");
        assert_eq!(
            error.to_string(),
            "RESOURCE_EXHAUSTED: ran out of memory: 41 bytes requested for another thing, with 60 bytes in use, of at most 100"
        );
        assert_eq!(budget.charge(u64::MAX, "all").expect_err("is too much").code(), StatusCode::ResourceExhausted);
        drop(budget.charge(40, "the rest").expect("fits"));
        drop(first);
        assert_eq!((budget.used(), budget.peak()), (0, 100));
    }

    #[test]
    fn what_is_taken_anyway_shows_at_the_next_check() {
        let budget = MemoryBudget::new(100);
        let mut charge = budget.charge_anyway(90);
        assert!(budget.check().is_ok());
        charge.add_anyway(20);
        assert_eq!(
            budget.check().expect_err("is over").message(),
            "ran out of memory: 110 bytes in use, of at most 100"
        );
        charge.resize(10, "less").expect("less is always possible");
        assert!(charge.resize(101, "more").is_err());
        assert_eq!(budget.used(), 10);
        charge.correct(30);
        assert_eq!(budget.used(), 30);
        drop(charge);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn the_limit_holds_for_all_threads_together() {
        let budget = MemoryBudget::new(1000);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..2000).for_each(|_| drop(budget.charge(400, "a thing"))));
            }
        });
        assert!((budget.used(), budget.peak() <= 1000) == (0, true), "{budget:?}");
    }
}
