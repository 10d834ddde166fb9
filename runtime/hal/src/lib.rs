//! The hardware abstraction layer: devices, their memory, their queues, and the command programs that queues run.
//! Drivers implement it; modules of programs and hosts call it.
//!
//! The traits and the types they exchange are generated from `spec/hal/`. The rest is what programs and hosts hold:
//! buffers, those of queues ([`transient`]) among them, buffer views, fences, timelines; and what all use: transfers
//! through mappings, free lists ([`recycle`]), kernels that run on the host ([`host_kernels`]), the [`registry`] of
//! drivers, security policies ([`policy`]) and wrappers of objects ([`forward`]). It contains no driver; what drivers
//! are made of is in `vireo-hal-driver`, observers of devices are in `vireo-hal-observe`.
//!
//! **Who checks**: an object checks what memory safety needs (ranges, access, usage, slots, argument counts), since
//! hosts call it directly. The `hal` module of programs checks what only programs can get wrong, and repeats nothing.
//! Kernels are native code and are trusted once they are loaded; the bindings that a queue passes to them are within
//! the buffers that the caller named.
//!
//! It stands on `vireo-core`, and on `vireo-vm` for objects that programs hold. Users depend on the crate `vireo`,
//! which exports the public part.
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod accesses;
mod accounting;
pub mod allocation_state;
mod allocator;
mod bind;
pub mod bit_set;
pub mod block_cache;
pub mod buffer;
mod buffer_view;
pub mod device_times;
mod element_type;
mod element_value;
mod exclusive;
mod fence;
mod format;
pub mod forward;
mod generated;
mod handle;
mod host_element;
pub mod host_kernels;
pub mod host_times;
mod multi_wait;
pub mod narrow_float;
pub mod policy;
mod progress;
pub mod recycle;
pub mod registry;
pub mod semaphore;
pub mod timepoints;
pub mod transfer;
pub mod transient;
mod watch;

use vireo_core::status::{Result, Status};
use vireo_core::{blocking, heap_bytes, limits, number_text, pages, release, status, visible_text};
use vireo_vm as vm;

pub use accesses::{Access, Accessed};
pub use allocator::{HEAP_BUFFER_ALIGNMENT, HeapAllocator};
pub use bind::bind;
pub use buffer::{HeapBuffer, Subspan, subspan};
pub use buffer_view::{BufferView, BufferViewRef, ShapeAndType, dense_byte_length};
pub use device_times::{DeviceCounter, DeviceTimes, DispatchTime, SubmissionTime, TimesObserver};
pub use element_value::{BitPacker, ElementValue};
pub use exclusive::{ExclusiveBytes, overwrite_exclusive};
pub use fence::{Fence, Timepoints};
pub use format::{format_elements, format_view};
pub use forward::Forward;
pub use generated::hal::elf as elf_format;
pub use generated::hal::operations::*;
pub use generated::hal::owned_operations::*;
pub use generated::hal::traits::*;
pub use generated::hal::types::{self, *};
pub use generated::hal::vmvx as vmvx_format;
pub use generated::hal::{cpu_features, executable_library, executable_plugin, traits};
pub use generated::names::executable_formats::ExecutableFormat;
pub use generated::names::queries::{GpuQueryCategory, GpuQueryKey, QueryCategory, QueryKey};
pub use handle::{
    AllocatorRef, BufferRefObject, ChannelRef, CommandBufferRef, DeviceRef, ExecutableCacheRef, ExecutableRef,
    FenceRef, FileRef, Handle, SemaphoreRef, VmType,
};
pub use host_element::{HostElement, bytes_of, check_readable, elements_of};
pub use host_kernels::HostKernels;
pub use multi_wait::{MultiWait, wait_all, wait_any};
pub use policy::SecurityPolicy;
pub use progress::{Progress, report_count};
pub use registry::{AvailableDevice, DeviceUri, DriverFactory, DriverInfo, DriverRegistry};
pub use semaphore::HostSemaphore;
pub use transfer::{
    buffer_copy, buffer_fill, buffer_from_bytes, buffer_read, buffer_to_vec, buffer_write, check_range, require_access,
    require_usage,
};
pub use watch::{MappingWatcher, WatchSlot, WatchedMapping, WrittenRange};

/// The error of an optional method that an object does not implement, such as `device.create_channel`.
pub fn unimplemented(method: &str) -> Status {
    Status::unimplemented(format!("`{method}` is not supported by this implementation"))
}
