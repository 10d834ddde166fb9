//! Clocks of the HSA library: times of packets, by their completion signals, and the time of the host in the same
//! ticks.

use std::ptr;
use std::time::Duration;

use vireo_hsa::hsa::{Agent, HsaStatus, ProfilingDispatchTime, SystemInfo};
use vireo_hsa::signal::Signal;

use super::{Hsa, OwnedQueue};
use crate::status::Result;

impl Hsa {
    /// Whether it says when packets ran.
    pub(crate) fn has_times(&self) -> bool {
        self.functions.hsa_amd_profiling_get_dispatch_time.is_some()
    }

    fn system_info(&self, attribute: SystemInfo) -> Result<u64> {
        let mut value = 0u64;
        // SAFETY: both attributes that this is called with are a `u64`.
        let status = unsafe { (self.functions.hsa_system_get_info)(attribute, ptr::from_mut(&mut value).cast()) };
        self.check(status, &format!("hsa_system_get_info({attribute:?})"))?;
        Ok(value)
    }

    /// Ticks of its clock a second.
    pub(crate) fn frequency(&self) -> Result<u64> {
        self.system_info(SystemInfo::TIMESTAMP_FREQUENCY)
    }

    /// The time now, in ticks.
    pub(crate) fn now(&self) -> Result<u64> {
        self.system_info(SystemInfo::TIMESTAMP)
    }

    /// When the packet that a signal completed began and ended, in ticks; none if that is not known.
    ///
    /// # Safety
    /// The signal is alive, and completed a packet of a queue of the agent.
    pub(crate) unsafe fn packet_time(&self, agent: Agent, signal: Signal) -> Option<(u64, u64)> {
        let get = self.functions.hsa_amd_profiling_get_dispatch_time?;
        let mut time = ProfilingDispatchTime::default();
        // SAFETY: the caller guarantees that the signal is alive and completed a packet of a queue of the agent; `time`
        // is written.
        let status = unsafe { get(agent, signal, &mut time) };
        (status == HsaStatus::SUCCESS && time.start != 0).then_some((time.start, time.end))
    }
}

impl OwnedQueue {
    /// Lets completion signals receive times, or not.
    pub(crate) fn set_times(&self, enabled: bool) -> Result<()> {
        let set = self.hsa.functions.hsa_amd_profiling_set_profiler_enabled;
        // SAFETY: the queue is alive.
        let status = unsafe { set(self.queue.as_ptr(), enabled.into()) };
        self.hsa.check(status, stringify!(hsa_amd_profiling_set_profiler_enabled))
    }
}

/// Ticks as a duration.
pub(crate) fn duration(ticks: u64, frequency: u64) -> Duration {
    let nanoseconds = u128::from(ticks) * 1_000_000_000 / u128::from(frequency.max(1));
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_parts_of_a_second() {
        assert_eq!(duration(150, 100), Duration::from_millis(1500));
        assert_eq!(duration(3, 1_000_000_000), Duration::from_nanos(3));
        assert_eq!(duration(u64::MAX, 1), Duration::from_nanos(u64::MAX));
        assert_eq!(duration(1, 0), Duration::from_secs(1));
    }
}
