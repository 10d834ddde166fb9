//! The device: `local-sync` with counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vireo::hal::{Device, Forward, ForwardDevice, ForwardedMethod};
use vireo::{Result, Status};

/// The category of [`Device::query_i64`] under which the counters are.
const COUNTERS: &str = "counting";

/// What is counted, with the names that the counters have.
#[derive(Clone, Copy)]
enum Operation {
    Alloca,
    Dealloca,
    Transfer,
    Dispatch,
    Execute,
    Barrier,
    HostCall,
}

const NAMES: [&str; 7] = ["alloca", "dealloca", "transfer", "dispatch", "execute", "barrier", "host_call"];

/// A wrapper of a device that counts operations on their way to it; [`Forward`] makes a device of it.
///
/// Only the device is wrapped. Its buffers, timelines, executables and command buffers are those of the inner device, so it
/// recognises them when they come back.
#[derive(Debug)]
pub struct CountingDevice {
    inner: Arc<dyn Device>,
    counts: [AtomicU64; NAMES.len()],
    log: bool,
}

impl CountingDevice {
    /// Counts what `inner` does, and writes it to stderr if `log`.
    pub fn wrap(inner: Arc<dyn Device>, log: bool) -> Forward<CountingDevice> {
        Forward(CountingDevice { inner, counts: Default::default(), log })
    }
}

/// What is counted, and what the device says of itself. All methods but two do what they do on the inner device.
impl ForwardDevice for CountingDevice {
    fn inner(&self) -> &Arc<dyn Device> {
        &self.inner
    }

    /// Counts operations; other calls go by.
    fn before(&self, method: ForwardedMethod) {
        let operation = match method {
            ForwardedMethod::DeviceQueueAlloca => Operation::Alloca,
            ForwardedMethod::DeviceQueueDealloca => Operation::Dealloca,
            ForwardedMethod::DeviceQueueFill
            | ForwardedMethod::DeviceQueueUpdate
            | ForwardedMethod::DeviceQueueCopy
            | ForwardedMethod::DeviceQueueRead
            | ForwardedMethod::DeviceQueueWrite => Operation::Transfer,
            ForwardedMethod::DeviceQueueDispatch => Operation::Dispatch,
            ForwardedMethod::DeviceQueueExecute => Operation::Execute,
            ForwardedMethod::DeviceQueueBarrier => Operation::Barrier,
            ForwardedMethod::DeviceQueueHostCall => Operation::HostCall,
            _ => return,
        };
        let index = operation as usize;
        let count = self.counts[index].fetch_add(1, Ordering::Relaxed) + 1;
        if self.log {
            eprintln!("counting: {} {count}", NAMES[index]);
        }
    }

    fn id(&self) -> &str {
        "counting"
    }

    /// Whatever programs ask for they ask the inner device: whether it is the `local*` that they were compiled for, which formats of
    /// executables it takes, and what the processor can do.
    fn query_i64(&self, category: &str, key: &str) -> Result<i64> {
        if category != COUNTERS {
            return self.inner.query_i64(category, key);
        }
        let index = NAMES.iter().position(|name| *name == key);
        let index = index.ok_or_else(|| Status::not_found(format!("there is no counter `{key}`: {NAMES:?}")))?;
        Ok(self.counts[index].load(Ordering::Relaxed).cast_signed())
    }
}
