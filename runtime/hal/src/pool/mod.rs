//! Memory that is used again.
//!
//! A [`SlabProvider`](super::SlabProvider) hands out large pieces of a device's memory, and a pool divides them: [`MemoryPool`] into blocks of
//! one size, into whole slabs, or into ranges of any size by two levels of size classes. What was returned is used again in the order of
//! the queues: by who comes after the points that it was returned with. Queues take transient buffers from a pool that a host names
//! (`Device::queue_alloca`). The device's own choice are the blocks of its allocator (`block_cache`), which are slabs too:
//! `Device::queue_pool_backend` provides them for pools of the host.

pub mod block_cache;
mod fixed_block;
mod frontier;
mod host_slabs;
mod memory_pool;
mod strategy;
#[cfg(test)]
mod tests;
mod tlsf;
mod whole_slab;

pub use host_slabs::HostSlabProvider;
pub use memory_pool::Reservation;
pub use memory_pool::{MAX_ALIGNMENT, MemoryPool, PoolOptions, Reached};
