//! The typed form of the specs: one module for each folder of `spec/`.

pub mod abi;
pub mod api;
pub mod constant;
pub mod example;
pub mod format;
pub mod gfx;
pub mod hal;
pub mod instruction_set;
pub mod int;
pub mod jit;
pub mod names;
pub mod ptx;
pub mod schema;
pub mod status;
pub mod vm;
