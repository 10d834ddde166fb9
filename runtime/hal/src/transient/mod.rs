//! Transient buffers: the buffers of `queue_alloca` and `queue_dealloca`, and where their memory is from.
//!
//! `buffer` is the buffer, `memory_source` the allocator or pool that its memory is from. Queues call them. They know no queue and no
//! driver, so any driver whose memory the host reaches can use them.

mod buffer;
mod memory_source;

pub use buffer::{Memory, TransientBuffer};
pub use memory_source::{DeviceMemory, MemorySource};
