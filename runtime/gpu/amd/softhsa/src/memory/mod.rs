//! Memory of the agents: the map of all allocations ([`map`]), their bytes ([`backing`]), what an agent sees of them
//! ([`view`]), and addresses apart from memory ([`virtual_memory`]).

pub(crate) mod backing;
pub(crate) mod map;
pub(crate) mod view;
#[cfg(target_os = "linux")]
pub(crate) mod virtual_memory;
