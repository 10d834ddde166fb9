//! Vireo: a runtime for IREE programs.
//!
//! It loads the `.vmfb` modules that `iree-compile` writes, verifies every byte of them, and runs them: host code on a register
//! virtual machine, device code on HAL devices.

// The macros write `::vireo::...`, inside this crate as well.
extern crate self as vireo;

pub mod abi;
pub mod bytecode;
mod executable_memory;
mod generated;
pub mod hal;
pub mod interp;
pub mod modules;
pub mod status;
pub mod vm;
pub mod vmfb;

/// Modules in Rust that programs import from: `#[vm_module]`, `#[vm_export]`, `#[vm_state]`.
pub use vireo_macros::{vm_export, vm_module, vm_state};

pub use status::{Result, Status, StatusCode};
