//! Contexts: the API of hosts for modules, contexts and functions. Loading, linking and calling programs begin here.
//!
//! A [`Module`] is verified once and can be part of many contexts; a [`Context`] has the state of its modules; a
//! [`Function`] is called in a context.
//!
//! - `module`: files and native modules, verified once.
//! - `context`: binds the imports of modules to each other, and holds their state.
//! - `function`: checks arguments against the calling convention, and starts and polls invocations.
//!
//! It stands on `vireo-core`, `vireo-module` and `vireo-vm` and, with the feature `jit`, on `vireo-jit`, which it
//! attaches to the modules that it binds. `vireo-vmvx` runs kernels in contexts; users depend on the crate `vireo`,
//! which has the public part of this.

// Users call what is here: its documentation says how it fails.
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod call_future;
pub mod context;
pub mod function;
mod generated;
pub mod module;
#[cfg(test)]
pub(crate) mod op_tests;
#[cfg(test)]
mod tests;
mod turns;
pub mod typed_function;

use vireo_core::{background, blocking, limits, status};
use vireo_module::{bytecode, vmfb};
use vireo_vm::interp;

pub use call_future::CallFuture;
pub use context::{Context, LinkedModules};
pub use function::{Function, PendingCall};
pub use module::{ExportInfo, Module};
pub use typed_function::TypedFunction;
pub use vireo_module::reflection::{InvocationModel, ReflectionAttribute};

/// From now on the JIT verifies the graph of each function between its passes, as it does in debug builds anyway. A
/// pass that breaks an invariant of the graph is a bug, and panics.
pub fn verify_between_passes() {
    #[cfg(jit)]
    vireo_jit::verify_always();
}
