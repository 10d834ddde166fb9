//! Executables in portable bytecode (VMVX): their loader, the `vmvx` module that they import, and its microkernels.
//!
//! `loader` makes executables for devices of the host (`hal::host_kernels`), whose kernels the VM runs in contexts with
//! the module in `module`. Arguments of programs are hostile: `matrix_view` computes the bytes that a call may access,
//! with arithmetic that cannot wrap, before a microkernel runs. The functions in `kernels` get only checked addresses
//! and sizes.
//!
//! It stands on `vireo-context`, for the contexts that run kernels, and on `vireo-hal`, and knows no device; the facade
//! adds its loader to those of a device. Users depend on the crate `vireo`.

// Users call what is here: its documentation says how it fails.
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

// The macros write `::vireo::...`.
extern crate self as vireo;

mod kernels;
mod loader;
mod matrix_view;
mod module;

use vireo_core::status::{Result, Status};
use vireo_core::{background, limits, math, status};
use vireo_hal as hal;
use vireo_module::{bytecode, vmfb};
use vireo_vm::{abi, interp};

/// The module of this name in the facade, which generated code refers to.
mod vm {
    pub use vireo_context::{Context, ExportInfo, LinkedModules, Module};
    pub use vireo_vm::interp::threaded::MachineCode;
    pub use vireo_vm::*;
}

pub use kernels::SimdLevel;
pub use loader::{LoadedKernels, VmvxExecutable, VmvxLoader};
pub use module::VmvxModule;
