//! Times that a device measures itself ([`DeviceTimes`]): when dispatches and submissions ran on it. Hosts give it a
//! [`TimesObserver`], such as statistics or a writer of traces. Devices whose kernels run on the host are timed there
//! instead.
//!
//! All times of a device are since one moment, so they can be compared with each other.

use std::sync::Arc;
use std::time::Duration;

/// When a dispatch ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatchTime<'a> {
    /// The queue, by its place among those of the device.
    pub queue: u32,
    /// The submission of the queue that it was part of.
    pub submission: u64,
    /// The name of the kernel; empty if it is not known.
    pub kernel: &'a str,
    /// Its workgroups; 0 if only the device knows.
    pub workgroups: u64,
    /// When it began and ended; none if the device did not say.
    pub times: Option<(Duration, Duration)>,
    /// The values of the device's [counters](DeviceTimes::counters) for it, in their order; empty unless the observer
    /// [wants](TimesObserver::wants_counters) them, or if the device did not say.
    pub counters: &'a [u64],
}

/// A counter of a device: of something that dispatches do a number of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceCounter {
    /// The part of the device, as the profiler of the vendor has it.
    pub block: &'static str,
    /// Its name there.
    pub name: &'static str,
    /// The events that it counts, for people.
    pub description: &'static str,
}

/// When a submission ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubmissionTime {
    /// The queue, by its place among those of the device.
    pub queue: u32,
    /// Its number on the queue.
    pub submission: u64,
    /// Its dispatches.
    pub dispatches: u32,
    /// When the host gave it to the device, in the order of the queue.
    pub submitted: Duration,
    /// When its first command that is timed began and its last one ended; none if it has none, or the device did not
    /// say. Dispatches are timed, and transfers where the device does not make dispatches of them.
    pub times: Option<(Duration, Duration)>,
    /// When the host learned that it had completed.
    pub completed: Duration,
}

/// Something that learns of times. It is called on threads of the device, and should not take long.
pub trait TimesObserver: Send + Sync {
    /// Whether it wants times now. It is asked for each submission; without times a device works at full speed.
    fn is_active(&self) -> bool;

    /// Whether it wants the times of dispatches, not of submissions alone. Those of submissions may cost a device less.
    fn wants_dispatches(&self) -> bool {
        true
    }

    /// Whether it wants what the device counts for each dispatch. It is asked when it begins to observe.
    fn wants_counters(&self) -> bool {
        false
    }

    /// A dispatch completed. Devices call it only where it [wants](Self::wants_dispatches) that.
    fn dispatch(&self, time: &DispatchTime<'_>);

    /// A submission completed, after its dispatches.
    fn submission(&self, time: &SubmissionTime);
}

/// A device that measures times. Hosts get it from [`Device::device_times`](crate::Device).
pub trait DeviceTimes: Send + Sync {
    /// Tells an observer of what is submitted from here on, instead of the one before; none ends that.
    fn observe(&self, observer: Option<Arc<dyn TimesObserver>>);

    /// The counters that dispatches have values of; most devices have none.
    fn counters(&self) -> Vec<DeviceCounter> {
        Vec::new()
    }
}
