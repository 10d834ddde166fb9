//! Transient buffers: the buffers of `queue_alloca` and `queue_dealloca`, and where their memory is from.
//!
//! `buffer` is the buffer, `memory_source` the allocator or pool that its memory is from, and `bind` hands ranges of buffers to kernels that
//! run on the host. Queues call them. They know no queue and no driver, so any driver whose memory the host reaches can use them.

mod bind;
mod buffer;
mod memory_source;

pub use bind::bind;
pub use buffer::{Memory, TransientBuffer};
pub use memory_source::{DeviceMemory, MemorySource};
