//! How long the runs of a program take, to tell whether they are worth more threads.

use std::sync::atomic::{AtomicU32, Ordering};

/// How long a program takes, from the runs so far.
#[derive(Debug, Default)]
pub(crate) struct ProgramProfile {
    runs: AtomicU32,
    /// One more than the estimate in nanoseconds; zero for none.
    total: AtomicU32,
    shareable: AtomicU32,
}

/// What a run is expected to take on one thread, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Estimate {
    pub(super) total: u64,
    /// The part of it that threads can share.
    pub(super) shareable: u64,
}

impl ProgramProfile {
    /// Counts a run and tells whether it is to be measured: the first few, and then some, since looking at the clock has its price.
    /// Programs that loop record another one each time round, so of those whose kernels are all known (`is_known`) only some are
    /// measured when they run for the first time.
    pub(super) fn count(&self, is_known: impl FnOnce() -> bool) -> bool {
        static FIRST_RUNS: AtomicU32 = AtomicU32::new(0);
        // A run that another thread overwrites is measured once more or once less.
        let runs = self.runs.load(Ordering::Relaxed);
        self.runs.store(runs.wrapping_add(1), Ordering::Relaxed);
        match runs {
            0 => !is_known() || FIRST_RUNS.fetch_add(1, Ordering::Relaxed).is_multiple_of(16),
            1..4 => true,
            _ => runs.is_multiple_of(64),
        }
    }

    pub(super) fn get(&self) -> Option<Estimate> {
        let total = self.total.load(Ordering::Relaxed).checked_sub(1)?.into();
        Some(Estimate { total, shareable: self.shareable.load(Ordering::Relaxed).into() })
    }

    pub(super) fn set(&self, estimate: Estimate) {
        let limited = |time: u64| u32::try_from(time).unwrap_or(u32::MAX - 1).min(u32::MAX - 1);
        self.shareable.store(limited(estimate.shareable), Ordering::Relaxed);
        self.total.store(limited(estimate.total) + 1, Ordering::Relaxed);
    }
}
