//! Rules that need more than one entry of a spec.

pub mod abi;
pub mod vm;
