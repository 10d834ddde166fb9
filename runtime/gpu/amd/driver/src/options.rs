//! Options of devices ([`DeviceOptions`]): what the driver was made with, and parameters of URIs.

use std::time::Duration;

use crate::hal::StringPair;
use crate::limits::MemoryBudget;
use crate::queue::QueueOptions;
use crate::status::{Result, Status};

/// The options that devices are made with.
#[derive(Clone, Debug)]
pub struct DeviceOptions {
    /// Queues of each agent.
    pub queues: usize,
    /// Sizes of a queue.
    pub queue: QueueOptions,
    /// Whether programs may bring code for the device.
    pub native_code: bool,
    /// Whether the memory of transient buffers is zeroed.
    pub zeroed_transients: bool,
    /// Whether each buffer is an allocation of its own that the driver does not write to, so that a sanitizer of the
    /// library sees what programs do with it. Otherwise buffers that are not transient begin as zeros, and memory is
    /// used again.
    pub new_memory: bool,
    /// The budget that memory is charged to.
    pub memory: Option<MemoryBudget>,
    /// A code object with the driver's own kernels, for tests of builds that are for other processors.
    #[doc(hidden)]
    pub kernels: Option<&'static [u8]>,
}

impl Default for DeviceOptions {
    fn default() -> DeviceOptions {
        DeviceOptions {
            queues: 1,
            queue: QueueOptions::default(),
            native_code: true,
            zeroed_transients: false,
            new_memory: false,
            memory: None,
            kernels: None,
        }
    }
}

impl DeviceOptions {
    /// The options with those of a URI.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a key or value that there is not.
    pub fn with_params(mut self, params: &[StringPair]) -> Result<DeviceOptions> {
        for StringPair { key, value } in params {
            let number = value.parse::<u64>().ok();
            let wrong = |expected: &str| Status::invalid_argument(format!("`{key}={value}`: expected {expected}"));
            match key.as_str() {
                "amdgpu_queues" => {
                    let count = number.filter(|count| (1..=16).contains(count));
                    self.queues = count.ok_or_else(|| wrong("a number of queues from 1 to 16"))? as usize;
                }
                "amdgpu_queue_packets" => {
                    let count = number.filter(|count| count.is_power_of_two() && (256..=1 << 17).contains(count));
                    self.queue.packets = Some(count.ok_or_else(|| wrong("a power of two from 256 to 131072"))? as u32);
                }
                "amdgpu_drop_ms" => {
                    let most = Duration::from_secs(24 * 3600).as_millis() as u64;
                    let time = number.filter(|time| *time <= most);
                    let time = time.ok_or_else(|| wrong("milliseconds, at most a day"))?;
                    self.queue.drop_patience = Duration::from_millis(time);
                }
                "amdgpu_kernarg_memory" => {
                    self.queue.kernargs_on_device = match value.as_str() {
                        "host" => false,
                        "device" => true,
                        _ => return Err(wrong("`host` or `device`")),
                    };
                }
                "amdgpu_memory" => {
                    self.new_memory = match value.as_str() {
                        "recycled" => false,
                        "new" => true,
                        _ => return Err(wrong("`recycled` or `new`")),
                    };
                }
                _ => {
                    let known =
                        "amdgpu_queues, amdgpu_queue_packets, amdgpu_kernarg_memory, amdgpu_memory, amdgpu_drop_ms";
                    return Err(Status::invalid_argument(format!("there is no parameter `{key}`: there are {known}")));
                }
            }
        }
        Ok(self)
    }
}
