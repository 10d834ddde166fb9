//! Module files: reading `.vmfb`.

pub mod flatbuffer;

pub use crate::generated::schema;
