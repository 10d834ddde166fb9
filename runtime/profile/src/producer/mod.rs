//! The producer of profiles: [`ProfiledDevices`] wraps devices, so that `profiling_begin`, `profiling_flush` and
//! `profiling_end` of a device work. While a session is open, the wrapper tells a
//! [`ProfileSink`](vireo_hal::ProfileSink) what the queues of the device were asked for, what the host did for it and
//! when, and what a device that measures times itself has measured.
//!
//! `device` has the wrapper, `session` what is written and when, `work` the observer of a submission, `commands` and
//! `executables` what submissions refer to, `device_events` the times of devices, `metrics` those of the machine,
//! `cpu_counters` those of processors, `host_clock` the clock of all.
//! Without a session a call of a queue takes one look more.

mod commands;
mod cpu_counters;
mod device;
mod device_events;
mod executables;
mod host_clock;
mod metrics;
mod session;
mod work;

pub use device::ProfiledDevices;
