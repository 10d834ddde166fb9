//! Devices that run on the host's processors: loaders of native kernels, recorded commands, and the `local-sync` device.

mod alloca;
mod command_buffer;
mod cpu;
mod device;
mod dispatch;
pub mod elf;
mod executable;
mod executable_plugin;
mod execution;
mod host_call;
mod imports;
mod inline;
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

pub use cpu::{feature, processor_data};
pub use device::LocalDevice;
pub use executable::LocalExecutable;
pub use executable_plugin::ExecutablePlugin;
pub use imports::{Import, ImportProvider, ImportProviders, ImportTable, NoImports};
pub(crate) use inline::{HostBinding, HostDispatch, dispatch_on_host};
pub(crate) use loader::unsupported;
pub use loader::{EmbeddedElfLoader, LocalExecutableCache, default_loaders};
pub use static_library::StaticLibraryLoader;
#[cfg(target_os = "linux")]
pub use system_library::SystemLibraryLoader;
pub use task::{TaskOptions, Topology};

// Where the loader was before it was a room of its own.
pub use crate::vmvx::{VmvxExecutable, VmvxLoader};
