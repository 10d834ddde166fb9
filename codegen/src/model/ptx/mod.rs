//! The model of `spec/isa/ptx/`: the types and suffixes of instructions in the text form, the instructions with the
//! suffixes that each may have, special registers, and layouts of matrices.
//!
//! An instruction is a lattice: its variants say which suffixes may follow each other, and `words` put texts for
//! suffixes into the semantics. `read` expands that to forms, and forms that compute the same share a handler; `forms`
//! looks a text up.

mod forms;
mod read;
mod types;

pub use types::{
    Bit, Body, ExternalFunction, Form, Fragment, Handler, Instruction, Operand, OperandTy, Position, Ptx, Refused,
    Since, SpecialRegister, Suffix, Tile, Type, Variant,
};

use crate::diag::Diagnostics;
use crate::entry::Entry;
use crate::sem::Vocabulary;

impl Ptx {
    /// Reads the entries of all files below `spec/isa/NAME/`, in the order of their paths.
    pub fn load(name: &str, entries: &[Entry], primitives: Vocabulary, diagnostics: &mut Diagnostics) -> Self {
        read::all(name, entries, primitives, diagnostics)
    }
}
