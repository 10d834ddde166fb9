//! Parts of drivers: [`queue`]s, [`deferred`] command buffers, memory [`pool`]s, sources of memory for transient
//! buffers ([`memory_source`]), and files of the host. A driver takes those that suit its device.
//!
//! It knows the traits of `vireo-hal` and no driver. Users depend on the crate `vireo`.
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

pub mod allocation;
pub mod deferred;
pub mod device_alloca;
pub mod device_blocks;
pub mod device_counters;
pub mod device_queue;
pub mod device_slabs;
pub mod device_state;
pub mod device_submission;
pub mod device_timeline;
pub mod fact_cache;
pub mod host_file;
pub mod memory_source;
pub mod panics;
pub mod pool;
pub mod queue;
pub mod queue_times;
pub mod references;
pub mod staging;

pub use vireo_collectives as collectives;
use vireo_core::{limits, status};
use vireo_hal as hal;

/// The items that the methods of [`device_state_methods`] name.
#[doc(hidden)]
pub mod reexports {
    pub use vireo_core::status::Result;
    pub use vireo_hal::{
        AllocaFlags, Allocator, Buffer, BufferParams, Channel, ChannelParams, ChannelProvider, CommandBuffer,
        CommandBufferMode, CommandCategory, Device, DeviceTopologyInfo, Event, EventFlags, ExternalFile,
        ExternalFileFlags, File, MemoryAccess, OptionalMethod, Pool, QueueAffinity, QueueOperation, Semaphore,
        SemaphoreCompatibility, SemaphoreFlags, SlabProvider, Timepoint, TopologyEdge, semaphore,
    };
}
