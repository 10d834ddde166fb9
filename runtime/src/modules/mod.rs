//! Native modules that programs import from. Their interfaces are listed in `spec/abi/modules/`.

pub mod check;
pub mod hal;
pub mod io_parameters;
pub mod vmvx;
