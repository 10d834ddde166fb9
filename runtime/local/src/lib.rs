//! The drivers of the host's processors: `local-sync`, which runs on the submitting threads, and `local-task`, with
//! worker threads.
//!
//! `device` implements both; `queue/` is the discipline of their queues, `command_buffer/` records and executes command
//! programs, `executable/` loads kernels in machine code, and `task/` has the worker threads. Queues, memory and files
//! are shared with other drivers and in `vireo-hal-driver`. [`null`] is a variant that runs no kernels.
//!
//! It stands on `vireo-core`, `vireo-hal` and `vireo-hal-driver`; the facade chooses the loaders of a device. Users
//! depend on the crate `vireo`.
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod command_buffer;
mod device;
mod executable;
mod generated;
pub mod null;
mod queue;
mod rules;
mod sync;
pub mod task;

use vireo_core::{blocking, executable_memory, glob, limits, status, visible_text};
use vireo_hal as hal;
use vireo_hal_driver as hal_driver;

pub use device::LocalDevice;
#[cfg(target_os = "linux")]
pub use executable::SystemLibraryLoader;
#[cfg(all(target_arch = "x86_64", feature = "check-kernels"))]
pub use executable::required_features;
pub use executable::{
    EmbeddedElfLoader, ExecutablePlugin, LocalExecutable, LocalExecutableCache, StaticLibraryLoader, elf,
};
pub use task::{TaskOptions, Topology};
pub use vireo_hal_driver::collectives::Collectives;
