//! The functions of the library with the C ABI. They check pointers and handles, and leave the work to the rest of the
//! crate; `generated` puts them into a table.

mod agents;
mod copies;
mod executables;
mod images;
mod loader;
mod memory;
mod pointers;
mod queues;
mod signals;
mod system;
mod unsupported;
mod virtual_memory;

pub(crate) use agents::*;
pub(crate) use copies::*;
pub(crate) use executables::*;
pub(crate) use images::*;
pub(crate) use memory::*;
pub(crate) use queues::*;
pub(crate) use signals::*;
pub(crate) use system::*;
pub(crate) use unsupported::*;
pub(crate) use virtual_memory::*;
