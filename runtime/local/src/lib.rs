//! Devices that run on the host's processors: `local-sync`, on the threads that submit, and `local-task`, with workers.
//!
//! `device` is both; `queue/` orders what is submitted, `command_buffer/` records and runs command buffers, `executable/` loads kernels in machine
//! code, and `task/` are the workers. Memory, kernels as such and files are not of these devices alone, and in
//! `vireo-hal`. [`null`] is a variant without kernels.
//!
//! It stands on `vireo-core` and `vireo-hal`. Which loaders a device has is said above. Users take the crate `vireo`.

mod command_buffer;
mod device;
mod executable;
mod generated;
pub mod null;
mod queue;
pub mod task;

use vireo_core::{blocking, executable_memory, glob, limits, status};
use vireo_hal as hal;

pub use device::LocalDevice;
#[cfg(target_os = "linux")]
pub use executable::SystemLibraryLoader;
pub use executable::{
    EmbeddedElfLoader, ExecutablePlugin, LocalExecutable, LocalExecutableCache, StaticLibraryLoader, elf,
};
pub use task::{TaskOptions, Topology};
