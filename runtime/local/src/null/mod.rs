//! The null device: everything but kernels.
//!
//! It accepts what a real device accepts and orders it the same way. Buffers have memory, fills, updates and copies are done, wait and
//! signal points are respected, and arguments are checked as the `local-sync` device checks them, of which this is a variant. Only
//! dispatches do nothing: nobody looks into executables, so those of every format and for every processor are accepted, and what kernels
//! would have written keeps the bytes it had, which are zeros in a new buffer.
//!
//! That makes it a device for measuring what the host does, and for going through the host side of a program without the hardware that
//! it was compiled for. Programs look for devices by name and format, and this one answers to all of them.
//! Results of programs on it mean nothing.

mod executable;

use std::sync::Arc;

pub use executable::NullLoader;

use crate::LocalDevice;
use crate::hal::{Device, HeapAllocator};

/// A null device called `id`.
pub fn null_device(id: &str) -> Arc<dyn Device> {
    null_device_on(id, HeapAllocator::without_reuse())
}

/// The same with memory of `allocator`.
pub fn null_device_on(id: &str, allocator: HeapAllocator) -> Arc<dyn Device> {
    let allocator = Arc::new(allocator);
    let answers_to = |_: &str, _: &str| true;
    Arc::new(LocalDevice::null(id, allocator, vec![Arc::new(NullLoader)], answers_to))
}
