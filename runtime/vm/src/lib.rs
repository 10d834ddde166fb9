//! The virtual machine: its objects, the interface to native modules, and the interpreter.
//!
//! - Objects: [`Ref`] counts any [`Object`], among them [`Buffer`] and [`List`]; a [`Value`] is what functions take and return.
//! - [`native`]: modules in Rust, and [`abi`]: how their functions read arguments and write results.
//! - [`interp`]: what runs programs. It knows no more of a compiler than [`interp::threaded::Compile`].
//!
//! It stands on `vireo-core` and `vireo-module`. The compiler, devices and the modules of programs are above. Users take the crate
//! `vireo`, which has the public part of this.

pub mod abi;
pub mod buffer;
mod constant;
mod generated;
pub mod interp;
pub mod list;
pub mod native;
pub mod object;
mod object_memory;
pub mod value;
mod wait_source;

// Shims name what is here as users of `vireo` do.
use crate as vm;
use vireo_core::status::Result;
use vireo_core::{limits, math, status};
use vireo_module::{bytecode, convention, vmfb};

pub use buffer::Buffer;
pub use constant::Constant;
pub use generated::abi::refs as type_names;
pub use list::List;
pub use native::{Call, NativeExport, NativeModule, Outcome, WaitSource};
pub use object::{Obj, Object, Ref, offsets};
pub use value::Value;
pub use wait_source::BoxedWaitSource;
