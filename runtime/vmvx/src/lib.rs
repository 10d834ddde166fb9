//! Executables in portable bytecode: the loader for them, the `vmvx` module that they import, and its microkernels.
//!
//! `loader` makes executables whose kernels devices of the host run (`hal::host_kernels`); the VM runs them, in contexts that have the module of
//! `module`. What a program passes to that is hostile: `matrix_view` finds the bytes that a call may touch, with arithmetic that cannot wrap, before
//! a kernel runs. The kernels in `kernels` get addresses and sizes that were checked and nothing else.
//!
//! It stands on `vireo-session`, for the contexts that run kernels, and on `vireo-hal`, and knows no device; the facade puts its loader on
//! the list that a device is given. Users take the crate `vireo`.

// The macros write `::vireo::...`.
extern crate self as vireo;

mod kernels;
mod loader;
mod matrix_view;
mod module;

use vireo_core::status::{Result, Status};
use vireo_core::{limits, math, status};
use vireo_hal as hal;
use vireo_module::{bytecode, vmfb};
use vireo_vm::{abi, interp};

/// What the facade has under this name.
mod vm {
    pub use vireo_session::{Context, ExportInfo, Module};
    pub use vireo_vm::*;
}

pub use kernels::SimdLevel;
pub use loader::{VmvxExecutable, VmvxLoader};
pub use module::VmvxModule;
