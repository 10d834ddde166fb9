//! The flags of profiles, which `vireo run` and `vireo benchmark` have.

use std::ffi::OsString;

use clap::Args;

/// Flags of profiles.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Profile")]
pub struct ProfilingArguments {
    /// Measurements of devices to write to a profile, separated by commas: queue-events, host-execution,
    /// memory-events, executable-metadata and device-metrics; of GPUs also dispatch-events and device-queue-events.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "MODES")]
    pub device_profiling_mode: String,
    /// The profile to write: a .ireeprof file, for `vireo profile` and `iree-profile`.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "FILE")]
    pub device_profiling_output: OsString,
    /// Only dispatches of functions whose names match the pattern, with `*` and `?`. Filters select dispatches; what
    /// queues were asked for is there in any case.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "PATTERN")]
    pub device_profiling_filter_function: String,
    /// Only dispatches of the command buffer with this number.
    #[arg(long, default_value_t = -1, hide_default_value = true, value_name = "ID", allow_hyphen_values = true)]
    pub device_profiling_filter_command_buffer: i64,
    /// Only dispatches that are the command with this index in their command buffer.
    #[arg(long, default_value_t = -1, hide_default_value = true, value_name = "INDEX", allow_hyphen_values = true)]
    pub device_profiling_filter_command_index: i64,
    /// Only dispatches of the device with this place among those of --device.
    #[arg(long, default_value_t = -1, hide_default_value = true, value_name = "ORDINAL", allow_hyphen_values = true)]
    pub device_profiling_filter_physical_device: i64,
    /// Only dispatches of the queue with this place among those of its device.
    #[arg(long, default_value_t = -1, hide_default_value = true, value_name = "ORDINAL", allow_hyphen_values = true)]
    pub device_profiling_filter_queue: i64,
    /// A counter for the modes `counters` and `counter-ranges`. Repeat it for several.
    #[arg(long, value_name = "NAME")]
    pub device_profiling_counter: Vec<String>,
    /// Write measurements this often, in milliseconds; 0: when there are many, and at the end.
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "MS")]
    pub device_profiling_flush_interval_ms: u32,
}
