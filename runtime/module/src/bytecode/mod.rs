//! Bytecode: from the bytes of a function to a [`VerifiedFunction`], and to text.
//!
//! ```text
//! bytes --reader, generated decoder--> Decoded --generated operand walk, verifier--> VerifiedFunction
//! ```
//!
//! Every byte is hostile until [`verify_function`] has returned `Ok`. Interpreter and compiler take a [`VerifiedFunction`], which
//! nothing else can build. What the ops are and how they are encoded is `spec/vm`; this module knows field kinds only.

mod decoded;
mod disasm;
mod error;
mod liveness;
mod marshal;
mod operands;
mod reader;
#[cfg(test)]
mod tests;
mod verifier;
mod visit;

pub use crate::generated::vm::decode::Op;
pub use crate::generated::vm::opcode;
pub use decoded::{Block, CallSite, Callee, Decoded, Edge, Remap};
pub use disasm::{Names, Printer, RegisterValues, disassemble, disassemble_op, disassemble_op_with_values};
pub use error::VerifyError;
pub use liveness::Liveness;
pub use marshal::{Marshal, Passing, Word};
pub use operands::{
    AnyReg, BlockId, CallId, CasesId, EdgeId, F32Bits, F64Bits, FunctionId, GlobalOffset, GlobalRef, ImportId, ListId,
    RefReg, Reg, RodataId, SegmentsId, StringId, TypeId,
};
pub use reader::Reader;
pub use verifier::nameable;
pub use verifier::{FunctionInfo, ModuleInfo, VerifiedFunction, verify_function};
pub use visit::{CallForm, OperandVisitor};

/// The steps of [`verify_function`] by themselves, for benchmarks; no part of the interface.
#[doc(hidden)]
pub mod steps {
    pub use super::verifier::{decode, verify_again};
}
