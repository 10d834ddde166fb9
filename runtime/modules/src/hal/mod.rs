//! The `hal` module: devices, memory and command recording for programs.
//!
//! Its interface is `spec/abi/modules/hal.yaml`; the shims between programs and the functions in `exports` are
//! generated from there. The module checks what only programs can get wrong: flags, text, ranges of VM buffers, null
//! references. Objects of the HAL check ranges and usages of device buffers themselves. Calls that a device does not
//! support, such as channels for collective operations, fail with the device's reason.

pub(super) mod checks;
pub(super) mod convert;
mod exports;
mod fence_await;
mod shared_executables;
mod trace;

use std::sync::Arc;

use crate::vm::Obj;
use crate::{Result, Status};
use vireo_hal::{AllocatorRef, BufferUsage, BufferView, Device, ExecutableCache, MemoryType, QueueAffinity};

use shared_executables::SharedExecutables;
pub use trace::{trace_to, trace_to_stderr};

/// The host's sink of traced tensors, called with the program's key and the tensors. Its failure fails the program.
pub type TraceSink = dyn Fn(&str, &[Obj<BufferView>]) -> Result<()> + Send + Sync;

/// The host's choice among devices and queues for an allocation: called with the candidates, the memory types, the
/// usage and the flags of the program, it returns the index of one candidate.
pub type AllocatorPolicy =
    dyn Fn(&[(Arc<dyn Device>, QueueAffinity)], MemoryType, BufferUsage, u64) -> Result<usize> + Send + Sync;

/// The `hal` module over a fixed list of devices. One module may serve many contexts.
pub struct HalModule {
    devices: Vec<Arc<dyn Device>>,
    trace_sink: Option<Arc<TraceSink>>,
    allocator_policy: Option<Arc<AllocatorPolicy>>,
    executables: SharedExecutables,
}

impl HalModule {
    /// A module that offers `devices` to programs, in this order.
    pub fn new(devices: Vec<Arc<dyn Device>>) -> HalModule {
        HalModule { devices, trace_sink: None, allocator_policy: None, executables: SharedExecutables::default() }
    }

    /// The same module with `sink` receiving the tensors that programs trace. Without one they are ignored.
    pub fn with_trace_sink(mut self, sink: Arc<TraceSink>) -> HalModule {
        self.trace_sink = Some(sink);
        self
    }

    /// The same module with `policy` choosing where programs that can use several devices allocate. Without one it is
    /// the first candidate.
    pub fn with_allocator_policy(mut self, policy: Arc<AllocatorPolicy>) -> HalModule {
        self.allocator_policy = Some(policy);
        self
    }

    /// The devices programs see.
    pub fn devices(&self) -> &[Arc<dyn Device>] {
        &self.devices
    }
}

/// The state of the module in one context.
pub struct HalState {
    /// A cache, for each device, of the executables that the context created on it.
    executable_caches: Vec<(Arc<dyn Device>, Arc<dyn ExecutableCache>)>,
    /// The allocator of each device, as the reference that the program asks for at every call. Each context has its
    /// own: threads that count the references of one object wait for each other.
    allocators: Vec<(Arc<dyn Device>, Obj<AllocatorRef>)>,
    pending_deadlines: fence_await::PendingDeadlines,
}

impl HalState {
    fn new(devices: &[Arc<dyn Device>]) -> Result<HalState> {
        let cached = |device: &Arc<dyn Device>| Ok((device.clone(), device.create_executable_cache("")?));
        let executable_caches = devices.iter().map(cached).collect::<Result<_>>()?;
        let allocators = devices.iter().map(|device| (device.clone(), convert::object(device.allocator()))).collect();
        Ok(HalState { executable_caches, allocators, pending_deadlines: fence_await::PendingDeadlines::default() })
    }

    /// The allocator of `device`, which need not be one of the module's.
    fn allocator(&self, device: &Arc<dyn Device>) -> Obj<AllocatorRef> {
        let found = self.allocators.iter().find(|(known, _)| Arc::ptr_eq(known, device));
        found.map_or_else(|| convert::object(device.allocator()), |(_, allocator)| allocator.clone())
    }

    /// The cache of `device`, which must be one of the module's.
    fn executable_cache(&self, device: &Arc<dyn Device>) -> Result<&Arc<dyn ExecutableCache>> {
        let found = self.executable_caches.iter().find(|(known, _)| Arc::ptr_eq(known, device));
        found.map(|(_, cache)| cache).ok_or_else(|| {
            Status::not_found(format!("device `{}` does not belong to the program's hal module", device.id()))
        })
    }
}
