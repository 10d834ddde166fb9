//! Native modules that programs import from. Hosts add them to contexts; their interfaces are listed in
//! `spec/abi/modules/`.
//!
//! - `hal`: devices, command buffers and queues, for programs that are compiled for devices.
//! - `hal_inline` and `hal_loader`: buffers and kernels without devices or queues, for programs that run kernels
//!   themselves.
//! - `io_parameters`: parameters that are stored outside of programs, from the host's parameter providers.
//! - `check`: expectations of test programs.
//!
//! They check what only programs can get wrong; objects of the HAL check the rest. They stand on `vireo-vm`, for native
//! modules, and on `vireo-hal`, for the objects that they create. Users depend on the crate `vireo`.

// Users call what is here: its documentation says how it fails.
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

#[macro_use]
mod buffer_views;
pub mod check;
pub mod hal;
pub mod hal_inline;
pub mod hal_loader;
pub mod io_parameters;

mod generated;

// The macros write `::vireo::...`.
extern crate self as vireo;

pub use generated::schema;

use vireo_core::status::{Result, Status};
use vireo_core::{limits, number_text, status, visible_text};
use vireo_vm::{self as vm, abi};
