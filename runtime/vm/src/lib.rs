//! The virtual machine: its objects, the interface to native modules, and the interpreter.
//!
//! - Objects: a [`Ref`] is a counted reference to any [`Object`], such as a [`Buffer`] or [`List`]; functions take and
//!   return [`Value`]s.
//! - [`native`]: modules in Rust; [`abi`]: typed access to the arguments and results of their functions.
//! - [`interp`]: runs programs. Of the JIT it knows only the trait [`interp::threaded::FunctionCompiler`].
//!
//! It stands on `vireo-core` and `vireo-module`. The compiler, devices and the modules of programs are above. Users
//! take the crate `vireo`, which has the public part of this.

// Users call what is here: its documentation says how it fails.
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

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

use vireo_core::status::Result;
use vireo_core::{background, limits, math, pages, release, status, visible_text};
use vireo_module::{bytecode, convention, vmfb};

pub use buffer::{Buffer, offsets};
pub use constant::Constant;
pub use generated::abi::refs as type_names;
pub use list::List;
pub use native::{Call, NativeExport, NativeModule, Outcome, WaitSource};
pub use object::{Obj, Object, Ref};
pub use value::Value;
pub use wait_source::BoxedWaitSource;
