//! The virtual machine's objects: references, values, buffers, and the interface to native modules.

pub mod buffer;
mod cells;
mod constant;
pub mod context;
pub mod convention;
pub mod function;
pub mod list;
pub mod module;
pub mod native;
pub mod object;
pub mod value;
mod waiting;

/// The names of reference types, as type tables have them after the `!`.
pub use crate::generated::abi::refs as type_names;
pub use crate::generated::names::reflection::{InvocationModel, ReflectionAttribute};
pub use buffer::Buffer;
pub(crate) use constant::Constant;
pub use context::Context;
pub use convention::{Argument, Convention, Kind};
pub use function::{Function, Pending};
pub use list::List;
pub use module::{ExportInfo, Module};
pub use native::{Call, NativeExport, NativeModule, Outcome, Wait};
#[cfg(jit)]
pub(crate) use object::offsets;
pub use object::{Obj, Object, Ref};
pub use value::Value;
pub use waiting::Waiting;
