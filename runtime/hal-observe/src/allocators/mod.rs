//! Allocators over the allocator of a device: [`CachingAllocator`] uses freed memory again, [`DebugAllocator`] makes
//! wrong uses of memory show. Hosts put them on a device by [`wrap_allocator`], for which [`AllocatorSpec`] reads the
//! texts of IREE's tools, such as `caching:device_local=1gib;*;16`.
//!
//! They work with any allocator whose memory the host can map. Buffers that they hand out are [loans](loan): the memory
//! of an inner buffer, which comes back when nothing refers to it any more, mappings included.

mod caching;
mod debug;
mod loan;
mod spec;

pub use caching::{CachePool, CacheStatistics, CachingAllocator};
pub use debug::{AllocationLedger, DebugAllocator, LiveAllocation};
pub use spec::{AllocatorSpec, CachePoolSpec};

use std::sync::Arc;

use crate::hal::{Allocator, Device};
use crate::status::Result;

/// Replaces the allocator of a device by what `wrap` makes of it. Hosts do this before anything else is done with the
/// device.
///
/// # Errors
/// That of `wrap`; `FAILED_PRECONDITION` if the device has allocated, `UNIMPLEMENTED` if its driver cannot replace
/// allocators.
pub fn wrap_allocator(
    device: &dyn Device,
    wrap: impl FnOnce(Arc<dyn Allocator>) -> Result<Arc<dyn Allocator>>,
) -> Result<()> {
    device.replace_allocator(&wrap(device.allocator())?)
}
