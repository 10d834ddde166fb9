//! Statistics of an allocator: atomic counters of bytes, and [`Accounted`], which counts a buffer's bytes from its creation to its drop.
//! `HeapAllocator` and the buffers that it makes use them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::AllocatorStatistics;
use crate::limits::Charge;

/// Bytes allocated and freed, in host and in device memory.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) host: Counter,
    pub(super) device: Counter,
}

/// The bytes of one kind of memory.
#[derive(Debug, Default)]
pub(super) struct Counter {
    allocated: AtomicU64,
    freed: AtomicU64,
    peak: AtomicU64,
}

impl Counter {
    fn allocate(&self, length: u64) {
        // A buffer is freed after it was allocated, and `freed` is read first, so the difference is never negative. The totals of a
        // process that runs for years may wrap; the difference is right all the same.
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
    /// The statistics so far.
    pub(super) fn statistics(&self) -> AllocatorStatistics {
        let Counters { host, device } = self;
        // `freed` is read before `allocated`, so it is never the larger of the two.
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

/// Bytes that are counted as allocated until this is dropped.
pub(super) struct Accounted {
    counters: Arc<Counters>,
    length: u64,
    host_local: bool,
    /// What is charged to the memory budget for them.
    _charge: Charge,
}

impl Accounted {
    /// Counts `length` bytes.
    pub(super) fn new(counters: &Arc<Counters>, length: u64, host_local: bool, charge: Charge) -> Accounted {
        let accounted = Accounted { counters: counters.clone(), length, host_local, _charge: charge };
        accounted.counter().allocate(length);
        accounted
    }

    /// Counts `length` bytes with `counters` instead of those before, which were released.
    pub(super) fn recount(&mut self, counters: &Arc<Counters>, length: u64, host_local: bool) {
        if !Arc::ptr_eq(&self.counters, counters) {
            self.counters = counters.clone();
        }
        (self.length, self.host_local) = (length, host_local);
        self.counter().allocate(length);
    }

    /// Counts the bytes as freed, before the drop.
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
