//! Devices that run on the host's processors: `local-sync`, on the threads that submit, and `local-task`, with workers.
//!
//! `device` is both; `queue/` orders what is submitted, `commands/` records and runs command buffers, `executable/` loads kernels in machine
//! code, and `task/` are the workers. Memory, kernels as such and files are not of these devices alone: `hal/transient`, `hal/host_kernels`,
//! `hal/host_file.rs`.

mod commands;
mod device;
mod executable;
mod queue;
pub mod task;

pub use device::LocalDevice;
#[cfg(target_os = "linux")]
pub use executable::SystemLibraryLoader;
pub use executable::{
    EmbeddedElfLoader, ExecutablePlugin, LocalExecutable, LocalExecutableCache, StaticLibraryLoader, elf,
};
pub use task::{TaskOptions, Topology};

pub use crate::hal::host_kernels::{
    Import, ImportProvider, ImportProviders, ImportTable, NoImports, feature, processor_data,
};

// Paths of what belongs to rooms above, which were here first.
pub use crate::builtin::{default_loaders, loaders_for};
pub use crate::vmvx::{VmvxExecutable, VmvxLoader};
