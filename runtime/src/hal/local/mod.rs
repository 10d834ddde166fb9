//! Devices that run on the host's processors: loaders of native kernels, recorded commands, and the `local-sync` device.

mod command_buffer;
pub(super) mod cost;
mod cpu;
mod device;
mod dispatch;
pub mod elf;
mod executable;
mod file;
mod host_call;
mod imports;
pub(super) mod kernels;
mod loader;
mod memory;
mod program;
mod queue;
pub mod task;
mod transient;
pub(super) mod worker;

pub use cpu::{feature, processor_data};
pub use device::LocalDevice;
pub use executable::LocalExecutable;
pub use imports::{Import, ImportProvider, NoImports};
pub use loader::{EmbeddedElfLoader, LocalExecutableCache};
