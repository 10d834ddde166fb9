//! Transient buffers: what `queue_alloca` gives out and `queue_dealloca` takes back.
//!
//! `buffer` is the buffer, `memory_source` the allocator or pool that its memory is from. Queues call them; they know no queue and no driver, so that any
//! driver whose memory the host reaches can use them.

mod buffer;
mod memory_source;

pub use buffer::TransientBuffer;
pub use memory_source::{DeviceMemory, MemorySource};
