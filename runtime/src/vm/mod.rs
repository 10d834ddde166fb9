//! The virtual machine's objects: references, values, buffers, and the interface to native modules.

pub mod buffer;
pub mod convention;
pub mod list;
pub mod native;
pub mod object;
pub mod value;

pub use buffer::Buffer;
pub use convention::{Argument, Convention, Kind};
pub use list::List;
pub use native::{Call, NativeExport, NativeModule, Outcome, Wait};
pub use object::{Obj, Object, Ref};
pub use value::Value;
