//! Native modules that programs import from. Their interfaces are listed in `spec/abi/modules/`.

pub mod check;
pub mod hal;
pub mod hal_inline;
pub mod hal_loader;
pub mod io_parameters;

/// The module that executables in portable bytecode import.
pub mod vmvx {
    pub use crate::vmvx::{Level, VmvxModule};
}
