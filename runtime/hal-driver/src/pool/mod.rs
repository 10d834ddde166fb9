//! Memory pools: slabs of device memory divided into reservations that are used again in queue order. Hosts create them
//! and name them in queue allocations.
//!
//! A [`SlabProvider`](crate::hal::SlabProvider) hands out slabs, which are large pieces of a device's memory, and a
//! [`MemoryPool`] divides them: into blocks of one size, whole slabs, or ranges of any size (TLSF). A range is released
//! with a death frontier, the points of queues after which it may be used, and reserved again for operations that come
//! after those. Without a pool, `Device::queue_alloca` takes transient buffers from the block cache of the device's
//! allocator ([`BlockCache`](crate::hal::block_cache::BlockCache)), whose blocks are slabs too:
//! `Device::queue_pool_backend` provides them for pools of the host.

mod fixed_block;
mod frontier;
mod host_slabs;
mod memory_pool;
mod notice;
mod strategy;
#[cfg(test)]
mod tests;
mod tlsf;
mod whole_slab;

pub use host_slabs::HostSlabProvider;
pub use memory_pool::Reservation;
pub use memory_pool::{MAX_ALIGNMENT, MemoryPool, PoolOptions, Reached};
pub use notice::{Notice, notify};
