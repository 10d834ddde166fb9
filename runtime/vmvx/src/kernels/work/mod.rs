//! The work of a microkernel between two looks at the limits of the call. Every loop of a kernel counts its parts here
//! before it does them.

use crate::Result;
use crate::limits::work;

/// The most nanoseconds that an element takes: conversions of narrow floats, functions such as `exp`, or 16 products in
/// the slowest registers.
const ELEMENT: u64 = 16;
/// The most nanoseconds that an access to memory adds that the system has not provided yet.
const PAGE: u64 = 1024;
/// Bytes of such a page.
const PAGE_BYTES: usize = 4096;

/// Counts the work of a kernel.
#[derive(Debug, Default)]
pub(crate) struct KernelWork(work::WorkCount);

impl KernelWork {
    /// Counts elements that are about to be processed.
    ///
    /// # Errors
    /// Those of the limits: they must not be processed then.
    #[inline(always)]
    pub fn elements(&mut self, count: usize) -> Result<()> {
        self.add(count as u64 * ELEMENT)
    }

    /// Counts a part of a row of a few matrices, whose elements are so many bytes apart. The first one may be on
    /// another page than what was before.
    ///
    /// # Errors
    /// As [`KernelWork::elements`].
    #[inline(always)]
    pub fn row<const MATRICES: usize>(&mut self, count: usize, distances: [usize; MATRICES]) -> Result<()> {
        let apart: u64 = distances.iter().map(|bytes| (*bytes).min(PAGE_BYTES) as u64 * PAGE / PAGE_BYTES as u64).sum();
        self.add(MATRICES as u64 * PAGE + count as u64 * (ELEMENT + apart))
    }

    #[inline(always)]
    fn add(&mut self, nanoseconds: u64) -> Result<()> {
        #[cfg(test)]
        audit::added(nanoseconds);
        let result = self.0.add(nanoseconds);
        #[cfg(test)]
        audit::looked(self.0.looks());
        result
    }
}

/// The work that kernels really do between two looks, for tests: the innermost functions say so, whatever was counted
/// before.
#[cfg(test)]
pub(crate) mod audit {
    use std::cell::Cell;

    /// Counted since the last look, the most so far, and the looks of the current operation.
    #[derive(Clone, Copy, Default)]
    pub struct Audit {
        since: u64,
        pub most: u64,
        pub total: u64,
        pub looks: u64,
        pub added: u64,
    }

    thread_local! {
        static AUDIT: Cell<Audit> = const { Cell::new(Audit { since: 0, most: 0, total: 0, looks: 0, added: 0 }) };
    }

    fn change(change: impl FnOnce(&mut Audit)) {
        let mut audit = AUDIT.get();
        change(&mut audit);
        AUDIT.set(audit);
    }

    /// The innermost loop of a kernel has processed so many elements.
    pub fn done(elements: usize) {
        change(|audit| {
            audit.since += elements as u64;
            audit.total += elements as u64;
            audit.most = audit.most.max(audit.since);
        });
    }

    pub(super) fn added(nanoseconds: u64) {
        change(|audit| audit.added += nanoseconds);
    }

    pub(super) fn looked(looks: u64) {
        change(|audit| {
            if looks != audit.looks {
                (audit.looks, audit.since) = (looks, 0);
            }
        });
    }

    /// Starts an operation, and returns what the last one did.
    pub fn take() -> Audit {
        AUDIT.take()
    }
}

#[cfg(test)]
mod tests;
