//! Values as users write and read them: the syntax of inputs, the text of outputs, files, and comparison. Commands call
//! it; it runs nothing.

pub mod collection;
pub mod compare;
pub mod datum;
pub mod error;
pub mod json;
pub mod output;
pub mod spec;
pub mod streams;

pub use datum::Datum;

/// Bounds on what a value may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most bytes of one tensor.
    pub max_tensor_bytes: u64,
}
