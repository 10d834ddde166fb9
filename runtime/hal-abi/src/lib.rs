//! HAL objects across libraries: the C interface between a driver in a shared library and its host.
//!
//! The vtables, and the code on both sides of them, are generated from `spec/hal/`. [`plugin`] has their building
//! blocks: objects, lists, texts and statuses in C layout. `library` opens driver libraries and registers their
//! drivers. `docs/driver-abi.md` describes the interface for C.
//!
//! It stands on `vireo-hal`, whose objects it exchanges. Hosts that load driver libraries and the libraries themselves
//! use it, through the crate `vireo`.

// Users call what is here: its documentation says how it fails.
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod generated;
mod library;
pub mod plugin;

use vireo_core::status::{self, Result, Status};
use vireo_hal::{DRIVER_ABI_VERSION, DRIVER_PLUGIN_MAGIC, DRIVER_PLUGIN_SYMBOL, Driver, unimplemented};

pub use generated::hal::vtables;
pub use library::load_driver_library;
