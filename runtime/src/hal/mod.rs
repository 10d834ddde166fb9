//! The hardware abstraction layer: devices, their memory, queues and programs.
//!
//! The traits and the types they exchange are generated from `spec/hal/`. This module holds what does not depend on a device
//! (buffer views, fences, timelines, transfers through mappings) and the devices that run on the host's processors.
//!
//! **Who checks**: an object checks what memory safety needs (ranges, access, usage, slots, argument counts), since hosts call it
//! directly. The `hal` module of programs checks what only programs can get wrong, and repeats nothing. Kernels are native code and are
//! trusted once they are loaded; what a queue hands them is within the buffers the caller named.

mod accounting;
mod allocator;
pub mod amdgpu;
pub(crate) mod bits;
pub(crate) mod buffer;
mod buffer_view;
mod element_type;
mod element_value;
mod fence;
mod format;
mod handle;
mod host_element;
mod host_file;
pub(crate) mod host_kernels;
pub mod local;
pub mod narrow_float;
pub mod null;
pub mod plugin;
mod points;
pub(crate) mod policy;
pub mod pool;
mod recycle;
pub(crate) mod registry;
mod semaphore;
mod shown;
mod transfer;
mod transient;

pub use crate::generated::hal::cpu_features;
pub use crate::generated::hal::elf as elf_format;
pub use crate::generated::hal::executable_library;
pub use crate::generated::hal::executable_plugin;
pub use crate::generated::hal::traits::*;
pub use crate::generated::hal::types::{self, *};
pub use crate::generated::hal::vmvx as vmvx_format;
pub use crate::generated::hal::vtables;
pub use allocator::HeapAllocator;
pub use buffer::{HeapBuffer, Subspan, subspan};
pub use buffer_view::BufferView;
pub use element_value::{BitPacker, ElementValue};
pub use fence::Fence;
pub use format::{format_elements, format_view};
pub use handle::{
    AllocatorRef, BufferRefObject, BufferViewRef, ChannelRef, CommandBufferRef, DeviceRef, ExecutableCacheRef,
    ExecutableRef, FenceRef, FileRef, Handle, SemaphoreRef, VmType,
};
pub use host_element::HostElement;
pub(crate) use host_kernels::HostKernels;
pub(crate) use policy::SecurityPolicy;
pub use registry::{AvailableDevice, DeviceUri, DriverFactory, DriverInfo, DriverRegistry};
pub use semaphore::{HostSemaphore, MultiWait, wait_all, wait_any};
pub use transfer::{
    buffer_copy, buffer_fill, buffer_from_bytes, buffer_read, buffer_to_vec, buffer_write, check_range, require_access,
    require_usage,
};

// Paths of what belongs to a room above, which were here first.
pub use crate::builtin::{BuiltinOptions, create_device, list_devices};

/// The failure of a method that an object leaves out: `device.create_channel`.
pub(crate) fn unimplemented(method: &str) -> crate::Status {
    crate::Status::unimplemented(format!("`{method}` is not supported by this implementation"))
}
