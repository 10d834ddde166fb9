//! The reader of `.vmfb` files, which trusts no byte of them. Sessions and tools open modules with it.
//!
//! [`Archive`] opens a file, finds the FlatBuffer in it, verifies both, and gives access to the tables. It proves that
//! every offset, range and ordinal in the tables is in range; [`crate::bytecode`] verifies the code of the functions.
//! The readers of tables and headers are generated from `spec/schema`.

pub(crate) mod archive;
pub mod bytes;
mod debug;
mod file_kind;
pub(crate) mod flatbuffer;
mod metadata;

pub use archive::Archive;
pub use archive::Segment;
pub use debug::{DebugDatabase, SourceMap};
pub use file_kind::{FileKind, OtherKind};
pub use metadata::{Dependency, Export, Function, Import, Rodata, RodataLocation};

/// Whether a function of this name is there for callers. Compilers add others: `name$async`, which a function stands
/// for, and initialisers, whose names begin with what is reserved for them.
pub fn is_for_callers(name: &str) -> bool {
    !name.contains('$') && !name.starts_with(crate::bytecode::opcode::RESERVED_PREFIX)
}

/// The generated readers.
pub use crate::generated::schema;
