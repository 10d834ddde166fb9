//! HAL objects across libraries: what a driver in a shared library and its host exchange.
//!
//! The vtables, and the code on both sides of them, are generated from `spec/hal/`. [`plugin`] is what they are made of: objects, lists, texts and
//! statuses as C has them. `library` opens driver libraries, whose drivers are then in a registry like all others. `docs/driver-abi.md`
//! says the same for C.
//!
//! It stands on `vireo-hal`, whose objects it passes on, and is used by hosts that load driver libraries and by the libraries themselves.
//! Users take the crate `vireo`.

mod generated;
mod library;
pub mod plugin;

use vireo_core::status::{self, Result, Status};
use vireo_hal::{DRIVER_ABI_VERSION, DRIVER_PLUGIN_MAGIC, DRIVER_PLUGIN_SYMBOL, Driver, unimplemented};

pub use generated::hal::vtables;
pub use library::load_driver_library;
