//! Statistics of an allocator: atomic counters of bytes, and [`Accounted`], which counts a buffer's bytes from its
//! creation to its drop. `HeapAllocator` and the buffers that it makes use them.
//!
//! Programs allocate several buffers at each call. If all threads counted in one place, two threads that call small
//! models would wait for its cache line for a tenth of the time. So each thread counts in a shard, and a buffer is
//! counted as freed where it was counted as allocated.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::AllocatorStatistics;
use crate::limits::Charge;
use vireo_core::shard::{Padded, SHARDS, own_shard};

/// Bytes allocated and freed, in host and in device memory.
#[derive(Debug, Default)]
pub(super) struct Counters {
    shards: [Padded<Shard>; SHARDS],
}

/// The counters of some threads.
#[derive(Debug, Default)]
struct Shard {
    host: Counter,
    device: Counter,
}

/// The bytes of one kind of memory.
#[derive(Debug, Default)]
struct Counter {
    allocated: AtomicU64,
    freed: AtomicU64,
    peak: AtomicU64,
}

impl Counter {
    fn allocate(&self, length: u64) {
        // A buffer is freed after it was allocated, and `freed` is read first, so the difference is never negative. The
        // totals of a process that runs for years may wrap; the difference is right all the same.
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
    fn in_use(&self) -> u64 {
        let freed = self.freed.load(Ordering::Acquire);
        self.allocated.load(Ordering::Relaxed).wrapping_sub(freed)
    }
}

impl Counters {
    /// The statistics so far. The peaks are exact where one thread allocates; the peaks of several are added up,
    /// although they may have come at different times.
    pub(super) fn statistics(&self) -> AllocatorStatistics {
        let mut sum = AllocatorStatistics::default();
        for Padded(Shard { host, device }) in &self.shards {
            // `freed` is read before `allocated`, so it is never the larger of the two. The totals may wrap, like those
            // of a shard.
            let add = |sum: &mut u64, counter: &AtomicU64, order| *sum = sum.wrapping_add(counter.load(order));
            add(&mut sum.host_bytes_freed, &host.freed, Ordering::Acquire);
            add(&mut sum.device_bytes_freed, &device.freed, Ordering::Acquire);
            add(&mut sum.host_bytes_allocated, &host.allocated, Ordering::Relaxed);
            add(&mut sum.device_bytes_allocated, &device.allocated, Ordering::Relaxed);
            add(&mut sum.host_bytes_peak, &host.peak, Ordering::Relaxed);
            add(&mut sum.device_bytes_peak, &device.peak, Ordering::Relaxed);
        }
        sum
    }

    /// Bytes in use, of both kinds.
    pub(super) fn in_use(&self) -> u64 {
        let in_use = |Padded(shard): &Padded<Shard>| shard.host.in_use().saturating_add(shard.device.in_use());
        self.shards.iter().map(in_use).fold(0, u64::saturating_add)
    }
}

/// Bytes that are counted as allocated until this is dropped.
pub(super) struct Accounted {
    counters: Arc<Counters>,
    /// Where they were counted as allocated.
    shard: usize,
    length: u64,
    host_local: bool,
    /// The charge to the memory budget for them.
    _charge: Charge,
}

impl Accounted {
    /// Counts `length` bytes.
    pub(super) fn new(counters: &Arc<Counters>, length: u64, host_local: bool, charge: Charge) -> Accounted {
        let counters = counters.clone();
        let accounted = Accounted { counters, shard: own_shard(), length, host_local, _charge: charge };
        accounted.counter().allocate(length);
        accounted
    }

    /// Counts `length` bytes with `counters` instead of those before, which were released.
    pub(super) fn recount(&mut self, counters: &Arc<Counters>, length: u64, host_local: bool) {
        if !Arc::ptr_eq(&self.counters, counters) {
            self.counters = counters.clone();
        }
        (self.shard, self.length, self.host_local) = (own_shard(), length, host_local);
        self.counter().allocate(length);
    }

    /// Counts the bytes as freed, before the drop.
    pub(super) fn release(&mut self) {
        let length = std::mem::take(&mut self.length);
        self.counter().free(length);
    }

    fn counter(&self) -> &Counter {
        let Padded(Shard { host, device }) = &self.counters.shards[self.shard];
        if self.host_local { host } else { device }
    }
}

impl Drop for Accounted {
    fn drop(&mut self) {
        self.release();
    }
}
