//! The profile of a command program: its expected time, by which executions decide whether to share it with workers.

use std::sync::atomic::{AtomicU32, Ordering};

/// The expected time of a program, from the runs so far.
#[derive(Debug, Default)]
pub(crate) struct ProgramProfile {
    runs: AtomicU32,
    /// One more than the estimate in nanoseconds; zero for none.
    total: AtomicU32,
    shareable: AtomicU32,
}

/// The expected time of a run on one thread, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Estimate {
    pub(super) total: u64,
    /// The part of it that threads can share.
    pub(super) shareable: u64,
}

impl ProgramProfile {
    /// Counts a run; true if it is to be measured: the first few runs, and then one in 64, since reading the clock costs time. A program with a
    /// loop may record a command buffer in each iteration, so of programs whose kernels are all measured (`is_known`) only one in 16 has its
    /// first run measured.
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
