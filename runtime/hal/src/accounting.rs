//! What allocators count, and shares in that: buffers and the memory of others hold one as long as they count.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::AllocatorStatistics;
use crate::limits::Charge;

/// Bytes allocated and freed, which give the statistics.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) host: Counter,
    pub(super) device: Counter,
}

/// Those of one kind of memory.
#[derive(Debug, Default)]
pub(super) struct Counter {
    allocated: AtomicU64,
    freed: AtomicU64,
    peak: AtomicU64,
}

impl Counter {
    fn allocate(&self, length: u64) {
        // Whoever frees has allocated before, and this order shows it: the difference is never negative. The totals of a process that
        // runs for years may wrap; what is in use is right all the same.
        let freed = self.freed.load(Ordering::Acquire);
        let allocated = self.allocated.fetch_add(length, Ordering::Relaxed).wrapping_add(length);
        let in_use = allocated.wrapping_sub(freed);
        if in_use > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(in_use, Ordering::Relaxed);
        }
    }

    fn free(&self, length: u64) {
        self.freed.fetch_add(length, Ordering::Release);
    }

    /// Bytes in use.
    pub(super) fn in_use(&self) -> u64 {
        let freed = self.freed.load(Ordering::Acquire);
        self.allocated.load(Ordering::Relaxed).wrapping_sub(freed)
    }
}

impl Counters {
    /// What was counted so far.
    pub(super) fn statistics(&self) -> AllocatorStatistics {
        let Counters { host, device } = self;
        // In this order what is freed is never more than what is allocated.
        let (host_bytes_freed, device_bytes_freed) =
            (host.freed.load(Ordering::Acquire), device.freed.load(Ordering::Acquire));
        AllocatorStatistics {
            host_bytes_peak: host.peak.load(Ordering::Relaxed),
            host_bytes_allocated: host.allocated.load(Ordering::Relaxed),
            host_bytes_freed,
            device_bytes_peak: device.peak.load(Ordering::Relaxed),
            device_bytes_allocated: device.allocated.load(Ordering::Relaxed),
            device_bytes_freed,
        }
    }
}

/// A share in an allocator's statistics, given back on drop.
pub(super) struct Accounted {
    counters: Arc<Counters>,
    length: u64,
    host_local: bool,
    /// Its share in the budget.
    _charge: Charge,
}

impl Accounted {
    /// Counts `length` bytes.
    pub(super) fn new(counters: &Arc<Counters>, length: u64, host_local: bool, charge: Charge) -> Accounted {
        let accounted = Accounted { counters: counters.clone(), length, host_local, _charge: charge };
        accounted.counter().allocate(length);
        accounted
    }

    /// Counts `length` bytes with `counters` in place of what it counted, which is settled.
    pub(super) fn recount(&mut self, counters: &Arc<Counters>, length: u64, host_local: bool) {
        if !Arc::ptr_eq(&self.counters, counters) {
            self.counters = counters.clone();
        }
        (self.length, self.host_local) = (length, host_local);
        self.counter().allocate(length);
    }

    /// Gives it back before.
    pub(super) fn release(&mut self) {
        let length = std::mem::take(&mut self.length);
        self.counter().free(length);
    }

    fn counter(&self) -> &Counter {
        if self.host_local { &self.counters.host } else { &self.counters.device }
    }
}

impl Drop for Accounted {
    fn drop(&mut self) {
        self.release();
    }
}
