//! The device of the driver: a wrapper of `local-sync` that counts queue operations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vireo::hal::{Device, Forward, ForwardDevice, ForwardedMethod};
use vireo::{Result, Status};

/// The category of [`Device::query_i64`] with the counters.
const COUNTERS: &str = "counting";

/// The operations that are counted; `NAMES` has the names of their counters.
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

/// A wrapper of a device that counts the operations it forwards; [`Forward`] makes it a device.
///
/// Only the device is wrapped. Its buffers, timelines, executables and command buffers are those of the inner device,
/// so it recognises them when they come back.
#[derive(Debug)]
pub struct CountingDevice {
    inner: Arc<dyn Device>,
    counts: [AtomicU64; NAMES.len()],
    log: bool,
}

impl CountingDevice {
    /// Wraps `inner`, and writes each operation to stderr if `log`.
    pub fn wrap(inner: Arc<dyn Device>, log: bool) -> Forward<CountingDevice> {
        Forward(CountingDevice { inner, counts: Default::default(), log })
    }
}

/// Counts operations, and has an id and queries of its own. All other methods are forwarded to the inner device.
impl ForwardDevice for CountingDevice {
    fn inner(&self) -> &Arc<dyn Device> {
        &self.inner
    }

    /// Called before each forwarded method: counts operations and ignores other methods.
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

    /// Answers queries of counters. Those of programs go to the inner device: whether it is the `local*` that they were
    /// compiled for, which formats of executables it supports, and which features the processor has.
    fn query_i64(&self, category: &str, key: &str) -> Result<i64> {
        if category != COUNTERS {
            return self.inner.query_i64(category, key);
        }
        let index = NAMES.iter().position(|name| *name == key);
        let index = index.ok_or_else(|| Status::not_found(format!("there is no counter `{key}`: {NAMES:?}")))?;
        Ok(self.counts[index].load(Ordering::Relaxed).cast_signed())
    }
}
