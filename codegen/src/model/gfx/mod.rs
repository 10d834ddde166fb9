//! The model of `spec/isa/gfx11/`: encodings, instructions, the numbers of source fields, and the words and choices of
//! immediates.
//!
//! `operands` and `words` read and check the last three, `counters` those of profiles, `assembler` compares
//! instructions with the mnemonics of an assembler, `types` holds the others, `read` makes them of entries, `check` has
//! the rules across entries.

use crate::diag::Diagnostics;
use crate::entry::Entry;
use crate::sem::Vocabulary;

mod assembler;
mod check;
mod counters;
mod operands;
mod read;
mod types;
mod words;

pub use operands::{Bank, Float, RegisterText, SCALAR_BITS, Source, SourceKind, VECTOR_BITS};
pub use types::{
    Access, Body, Counter, Encoding, Field, FieldKind, Fixed, Form, Gfx, Instruction, LeftOut, MemoryValue, Mnemonics,
    Operand, OperandTy, PARTS, SPACES,
};
pub use words::{Case, Choice, Word, WordField};

impl Gfx {
    /// Reads the entries of all files below `spec/isa/NAME/`, in the order of their paths.
    pub fn load(name: &str, entries: &[Entry], primitives: Vocabulary, diagnostics: &mut Diagnostics) -> Self {
        let gfx = Gfx { name: name.to_string(), ..read::all(entries, primitives, diagnostics) };
        gfx.check(diagnostics);
        gfx.check_mnemonics(diagnostics);
        gfx.check_counters(diagnostics);
        gfx
    }
}
