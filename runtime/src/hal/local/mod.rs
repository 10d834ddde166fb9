//! Devices that run on the host's processors: loaders of native kernels, recorded commands, and the `local-sync` device.

mod alloca;
mod command_buffer;
mod device;
mod dispatch;
pub mod elf;
mod executable;
mod executable_plugin;
mod execution;
mod host_call;
#[cfg(target_arch = "x86_64")]
mod instructions;
mod library;
mod loader;
mod operation;
mod program;
mod queue;
mod ready;
mod static_library;
#[cfg(target_os = "linux")]
mod system_library;
pub mod task;

pub use device::LocalDevice;
pub use executable::LocalExecutable;
pub use executable_plugin::ExecutablePlugin;
pub use loader::{EmbeddedElfLoader, LocalExecutableCache};
pub use static_library::StaticLibraryLoader;
#[cfg(target_os = "linux")]
pub use system_library::SystemLibraryLoader;
pub use task::{TaskOptions, Topology};

pub use crate::hal::host_kernels::{
    Import, ImportProvider, ImportProviders, ImportTable, NoImports, feature, processor_data,
};

// Paths of what belongs to rooms above, which were here first.
pub use crate::builtin::default_loaders;
pub use crate::vmvx::{VmvxExecutable, VmvxLoader};
