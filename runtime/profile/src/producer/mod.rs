//! The producer of profiles: [`ProfiledDevices`] wraps devices, so that `profiling_begin`, `profiling_flush` and
//! `profiling_end` of a device work. While a session is open, the wrapper tells a
//! [`ProfileSink`](vireo_hal::ProfileSink) what the queues of the device were asked for, what the host did for it and
//! when, and what a device that measures times itself has measured.
//!
//! `device` has the wrapper, `open` its session, `session` what is written and when, `buffers` the wrapper of its
//! allocator, `work` the observer of a submission, `commands` and
//! `executables` what submissions refer to, `device_events` the times of devices, `metrics` those of the machine,
//! `cpu_counters` those of processors, `session_counters` which of these or of the device's own a session has,
//! `host_clock` the clock of all.
//! Without a session a call of a queue takes one look more.

mod buffers;
mod commands;
mod cpu_counters;
mod device;
mod device_events;
mod executables;
mod host_clock;
mod metrics;
mod open;
mod session;
mod session_counters;
mod work;

pub use device::ProfiledDevices;
