//! The assembler: from the text of a module to a module file, and back. The commands `asm` and `disasm` and the tests
//! call it.
//!
//! [`assemble`] reads the VM assembly of the reference runtime and what [`disassemble`] writes, which is the same
//! language with a few more directives: `docs/cli.md` lists them. The form of each op is generated from `spec/isa/vm`;
//! this module knows operands, directives and the tables of the file. Locations of source lines are not in the text, so
//! they do not survive it.
//!
//! The text is untrusted. Memory stays proportional to its length, and every error names the line and the column. The
//! assembler encodes what it is told; whether a program is sound is for the verifier to say.

mod code_writer;
mod error;
mod file_writer;
mod module_parser;
mod number;
mod operands;
mod parsed_module;
mod print;
mod register;
mod signature;
mod statement;

pub use crate::generated::names::assembly::{Directive, Keyword};
pub(crate) use code_writer::CodeWriter;
pub use error::{AsmError, Location};
pub(crate) use operands::ListKind;
pub use print::{disassemble, signature};
pub(crate) use statement::Statement;

/// One op of the generated table.
pub(crate) struct AsmOp {
    /// The mnemonic without `vm.`.
    pub mnemonic: &'static str,
    /// True if it ends its block.
    pub terminator: bool,
    /// Reads the operands and writes the op.
    pub assemble: for<'t> fn(&mut Statement<'t>, &mut CodeWriter<'_, 't>) -> Result<(), AsmError>,
}

/// Assembles the text of a module into the bytes of a module file.
///
/// # Errors
/// The first violation of the grammar or of the limits of the file format.
pub fn assemble(text: &str) -> Result<Vec<u8>, AsmError> {
    if u32::try_from(text.len()).is_err() {
        let message = format!("the text has {} bytes, expected at most 4 GiB", text.len());
        return Err(AsmError { location: Location { line: 1, column: 1 }, message });
    }
    file_writer::write(&module_parser::parse(text)?)
}
