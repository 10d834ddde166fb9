//! The checks across entries of the specs, which `load` calls after every entry has been read.

pub mod abi;
pub mod vm;
