//! Sessions: the interface of hosts to the virtual machine, which is modules, contexts of them, and functions to call.
//!
//! A [`Module`] is verified once and can be part of many contexts; a [`Context`] has the state of its modules; a [`Function`] is called
//! in a context. The crate stands on the virtual machine and, with the feature `jit`, on the JIT, which it passes to the modules that it binds.
//! Users take the crate `vireo`, which has the public part of this.

mod call_future;
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

pub use call_future::CallFuture;
pub use context::{Context, LinkedModules};
pub use function::{Function, PendingCall};
pub use generated::names::reflection::{InvocationModel, ReflectionAttribute};
pub use module::{ExportInfo, Module};

/// From now on the JIT verifies the graph of each function between its passes, as it does in debug builds anyway. A pass that breaks an invariant of
/// the graph is a bug, and panics.
pub fn verify_between_passes() {
    #[cfg(jit)]
    vireo_jit::verify_always();
}
