//! The model of `spec/gfx11/`: encodings, instructions and the primitives of their semantics.
//!
//! `types` holds them, `expr` types semantics, `read` makes them of entries, `check` has the rules across entries.

use crate::diag::Diagnostics;
use crate::entry::Entry;

mod check;
mod expr;
mod read;
mod types;

pub use expr::{LaneExpr, LaneKind};
pub use types::{
    Access, Body, Encoding, Field, FieldKind, Fixed, Form, Gfx, Instruction, LaneTy, Operand, OperandTy, Primitive, Sig,
};

impl Gfx {
    /// Reads the entries of all files below `spec/gfx11/`, in the order of their paths.
    pub fn load(entries: &[Entry], diagnostics: &mut Diagnostics) -> Self {
        let gfx = read::all(entries, diagnostics);
        gfx.check(diagnostics);
        gfx
    }
}
