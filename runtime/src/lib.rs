//! Vireo: a runtime for IREE programs.
//!
//! It loads the `.vmfb` modules that `iree-compile` writes, verifies every byte of them, and runs them: host code on a register
//! virtual machine, device code on HAL devices.

// The macros write `::vireo::...`, inside this crate as well.
extern crate self as vireo;

pub mod abi;
pub mod bytecode;
mod generated;
pub mod interp;
pub mod status;
pub mod vm;

pub use status::{Result, Status, StatusCode};
