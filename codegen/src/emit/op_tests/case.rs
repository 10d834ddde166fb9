//! A test of an op as a program and the expected outcome, whatever form its example has.

use crate::model::example::{After, ProgramExample};

/// A module made of an example, the arguments of its first function and the expected outcome of the call.
pub(super) struct Case {
    pub(super) program: ProgramExample,
    /// Bytes of the value globals before; zero where this is shorter than they are.
    pub(super) globals: Vec<u8>,
    /// The contents of arguments (by index) afterwards.
    pub(super) after: Vec<(usize, After)>,
    /// The contents of the value globals afterwards.
    pub(super) globals_after: Option<Vec<u8>>,
    pub(super) any_nan: bool,
    pub(super) ulp: u32,
}
