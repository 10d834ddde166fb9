//! Executables in portable bytecode: the loader for them, the `vmvx` module that they import, and its microkernels.
//!
//! `loader` makes executables whose kernels devices of the host run (`hal::host_kernels`); the VM runs them, in contexts that have the module of
//! `module`. What a program passes to that is hostile: `view` finds the bytes that a call may touch, with arithmetic that cannot wrap, before
//! a kernel runs. The kernels in `kernels` get addresses and sizes that were checked and nothing else.
//!
//! The room is above the VM and the core of the HAL and knows no device; `builtin` puts it on the list of loaders that a device is given.

mod kernels;
mod loader;
mod module;
mod view;

pub use kernels::Level;
pub use loader::{VmvxExecutable, VmvxLoader};
pub use module::VmvxModule;
