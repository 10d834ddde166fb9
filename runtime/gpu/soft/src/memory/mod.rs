//! Memory of devices: the map of all allocations ([`map`]), their bytes ([`backing`]), what a device sees of them
//! ([`view`]), and addresses apart from memory ([`virtual_memory`]).

pub mod backing;
pub mod map;
pub mod view;
#[cfg(target_os = "linux")]
pub mod virtual_memory;

/// Allocations are multiples of this, and aligned to it.
pub const GRANULE: u64 = 4096;
