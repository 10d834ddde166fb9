//! Memory of devices: `buffer` is a range of it, wherever it is from.

mod buffer;

pub use buffer::{DeviceBuffer, DeviceMemory, DeviceRange, HdpRegister, Publication, device_range, fixed_address};
