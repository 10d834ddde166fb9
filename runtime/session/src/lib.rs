//! What a host works with: modules, contexts of them, and functions that it calls.
//!
//! A [`Module`] is verified once and can be part of many contexts; a [`Context`] has the state of its modules, and a [`Function`] is called
//! in one. It stands on the virtual machine and, with the feature `jit`, on the compiler, which it gives to the modules that it binds.
//! Users take the crate `vireo`, which has the public part of this.

pub mod context;
pub mod function;
mod generated;
pub mod module;
#[cfg(test)]
pub(crate) mod op_tests;
#[cfg(test)]
mod tests;

use vireo_core::{blocking, limits, status};
use vireo_module::{bytecode, vmfb};
use vireo_vm::interp;

pub use context::Context;
pub use function::{Function, PendingCall};
pub use generated::names::reflection::{InvocationModel, ReflectionAttribute};
pub use module::{ExportInfo, Module};

/// Lets all functions that are compiled from now on be looked at between the passes of the compiler, as debug builds do anyway. A pass that
/// breaks what the others rely on is a bug, and panics.
pub fn verify_between_passes() {
    #[cfg(jit)]
    vireo_jit::verify_always();
}
