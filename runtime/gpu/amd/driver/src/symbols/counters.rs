//! Counters of kernels ([`PacketCounters`]). The interface of HSA has none, since a GPU is read by packets of the
//! vendor's profiler; an agent that is part of the process gives them to the host, and the host to [`Hsa`].

use std::sync::Arc;

pub use vireo_hsa::signal::Signal;

use super::Hsa;
use crate::hal::DeviceCounter;

/// The counters of an HSA library in this process.
pub trait PacketCounters: Send + Sync {
    /// Those that each kernel has values of.
    fn counters(&self) -> Vec<DeviceCounter>;

    /// Counts kernels of packets that begin from here on, or one user of that less.
    fn enable(&self, enabled: bool);

    /// The values of the kernel that this completion signal completed, in the order of the counters; each is taken
    /// once. None if it was not counted.
    fn take(&self, signal: Signal) -> Option<Box<[u64]>>;
}

impl Hsa {
    /// Sets the counters of the library. The first ones stay.
    pub fn set_counters(&self, counters: Arc<dyn PacketCounters>) {
        self.counters.get_or_init(|| counters);
    }

    /// The counters of the library, if it has some.
    pub(crate) fn counters(&self) -> Option<&dyn PacketCounters> {
        self.counters.get().map(|counters| &**counters)
    }
}
