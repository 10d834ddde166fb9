//! Bytes that the buffers of a device hold ([`DeviceCounters`]), for the statistics of its allocator.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::hal::AllocatorStatistics;

/// Bytes of one kind of memory.
#[derive(Debug, Default)]
struct Counter {
    allocated: AtomicU64,
    freed: AtomicU64,
    peak: AtomicU64,
}

impl Counter {
    fn add(&self, bytes: u64) {
        let allocated = self.allocated.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(allocated.saturating_sub(self.freed.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    fn in_use(&self) -> u64 {
        self.allocated.load(Ordering::Relaxed).saturating_sub(self.freed.load(Ordering::Relaxed))
    }
}

/// Bytes of memory of a device and of the host.
#[derive(Debug, Default)]
pub struct DeviceCounters {
    device: Counter,
    host: Counter,
}

/// Counts bytes until it is dropped, and keeps their memory.
struct Counted {
    counters: Arc<DeviceCounters>,
    is_host: bool,
    bytes: u64,
    _memory: Arc<dyn Any + Send + Sync>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.counters.of(self.is_host).freed.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

impl DeviceCounters {
    fn of(&self, is_host: bool) -> &Counter {
        if is_host { &self.host } else { &self.device }
    }

    /// Counts bytes of the host, or of the device, as long as the result lives, which keeps their memory.
    pub fn count(
        self: &Arc<Self>,
        is_host: bool,
        bytes: u64,
        memory: Arc<dyn Any + Send + Sync>,
    ) -> Arc<dyn Any + Send + Sync> {
        self.of(is_host).add(bytes);
        Arc::new(Counted { counters: self.clone(), is_host, bytes, _memory: memory })
    }

    /// Bytes that are in use, of the device and of the host.
    pub fn in_use(&self) -> (u64, u64) {
        (self.device.in_use(), self.host.in_use())
    }

    /// All of it.
    pub fn statistics(&self) -> AllocatorStatistics {
        let load = |value: &AtomicU64| value.load(Ordering::Relaxed);
        AllocatorStatistics {
            host_bytes_peak: load(&self.host.peak),
            host_bytes_allocated: load(&self.host.allocated),
            host_bytes_freed: load(&self.host.freed),
            device_bytes_peak: load(&self.device.peak),
            device_bytes_allocated: load(&self.device.allocated),
            device_bytes_freed: load(&self.device.freed),
        }
    }
}
