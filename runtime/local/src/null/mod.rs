//! The null device: a local device that does everything but run kernels.
//!
//! It accepts what a real device accepts and orders it the same way. Buffers have memory, fills, updates and copies are
//! performed, points are waited for and signaled, and arguments are checked as `local-sync` checks them. Only
//! dispatches do nothing: executables are not read, so every format for every processor is accepted, and the outputs of
//! kernels keep their bytes, which are zeros in a new buffer.
//!
//! It is for measuring the host side of a program, and for running that without the hardware that the program was
//! compiled for. Programs ask for devices by name and format, and this one matches all of them. Their results on it are
//! meaningless.

mod executable;

use std::sync::Arc;

pub use executable::NullLoader;

use crate::LocalDevice;
use crate::hal::{Device, HeapAllocator};

/// A null device called `id`.
pub fn null_device(id: &str) -> Arc<dyn Device> {
    null_device_on(id, HeapAllocator::without_reuse())
}

/// A null device with memory of `allocator`.
pub fn null_device_on(id: &str, allocator: HeapAllocator) -> Arc<dyn Device> {
    let allocator = Arc::new(allocator);
    let answers_to = |_: &str, _: &str| true;
    Arc::new(LocalDevice::null(id, allocator, vec![Arc::new(NullLoader)], answers_to))
}
