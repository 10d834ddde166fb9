//! PTX, the text form of programs for NVIDIA GPUs: a parser, and an interpreter over [`vireo_simt`].
//!
//! Everything that follows from `spec/isa/ptx/` is generated: which suffixes an instruction may have, and a handler for
//! each expression on lanes. The crate adds the lexer and the parser ([`syntax`]), modules with their kernels and
//! variables ([`module`]), and the interpreter, which a [`Launch`] runs on the owner's memory. It knows no driver.
//!
//! **Who checks**: the text may be anything; what is wrong or not supported is a [`LoadError`] with its line. A kernel
//! may compute any address: memory is checked by `vireo-simt`, and what is refused is a [`Trap`].

mod allocate;
mod error;
mod generated;
mod interp;
pub mod isa;
mod launch;
mod lower;
mod machine;
pub mod module;
pub mod syntax;
mod trap;

pub use error::{LoadError, LoadErrorKind};
pub use generated::{fragments, instructions, limits, suffixes};
pub use launch::{InstructionLine, Launch, MOST_RESIDENT};
pub use machine::Print;
pub use module::{Global, GlobalSpace, Kernel, Module, Options, Parameter, Relocation};
pub use trap::{Trap, TrapDetails, TrapKind, Waiting};
