//! Layers around devices: [`observe`] sees each call of a device and of its objects, checks, records or traces it;
//! statistics and [`ExecutionTrace`] say what devices ran; allocators wrap another one, to keep blocks or to find
//! mistakes.
//!
//! It knows the traits of `vireo-hal` and no driver. Users depend on the crate `vireo`.
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod allocators;
mod execution_trace;
mod generated;
pub mod observe;
mod statistics;

use vireo_core::{byte_size, limits, status, visible_text};
use vireo_hal as hal;

pub use allocators::{
    AllocationLedger, AllocatorSpec, CachePool, CachePoolSpec, CacheStatistics, CachingAllocator, DebugAllocator,
    LiveAllocation, wrap_allocator,
};
pub use execution_trace::ExecutionTrace;
pub use statistics::{DispatchStatistics, ExecutionStatistics, OperationCount};
