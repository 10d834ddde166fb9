//! Module files: reading `.vmfb` without trusting a byte of it.
//!
//! [`Archive`] opens a file, finds the FlatBuffer in it, verifies both and hands out what it says. It proves that every offset, range
//! and ordinal of the tables lies where it should; what the code of the functions does is the business of [`crate::bytecode`]. The
//! tables and headers are described in `spec/schema`, from which the readers are generated.

pub mod archive;
pub mod bytes;
mod debug;
pub mod flatbuffer;
mod metadata;

pub use archive::Archive;
pub use archive::Segment;
pub use debug::{DebugDatabase, SourceMap};
pub use metadata::{Dependency, Export, Function, Import, Rodata, RodataLocation};

/// The generated readers.
pub use crate::generated::schema;
