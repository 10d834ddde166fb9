//! Native modules that programs import from: `hal`, `hal_inline`, `hal_loader`, `check` and `io_parameters`. Hosts add them to contexts; their
//! interfaces are listed in `spec/abi/modules/`.
//!
//! They stand on `vireo-vm`, for native modules as such, and on `vireo-hal`, for the objects that they hand out. Users depend on the crate
//! `vireo`.

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
use vireo_core::{limits, number_text, status};
use vireo_vm::{self as vm, abi};
