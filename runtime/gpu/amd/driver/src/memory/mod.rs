//! Memory of devices: `class` says what memory is for, `buffer` is a range of it, wherever it is from.

mod buffer;
mod class;

pub use buffer::{
    AgentMask, DeviceBuffer, DeviceMemory, DeviceRange, HdpRegister, Publication, device_range, fixed_memory,
};
pub use class::MemoryClass;
