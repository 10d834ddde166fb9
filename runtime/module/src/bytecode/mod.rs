//! Bytecode: decoder, verifier and disassembler, from the bytes of a function to a [`VerifiedFunction`] and to text.
//! Sessions verify the functions of a module with it when they load the module.
//!
//! ```text
//! bytes --reader, generated decoder--> Decoded --generated operand walk, verifier--> VerifiedFunction
//! ```
//!
//! Every byte is hostile until [`verify_function`] has returned `Ok`. The interpreter and the JIT take a
//! [`VerifiedFunction`], which nothing else can build. `spec/isa/vm` defines the ops and their encodings; this module
//! knows only kinds of fields.

mod decoded;
mod disasm;
mod entry;
mod error;
mod evidence;
mod function_info;
mod liveness;
mod marshal;
mod operands;
mod placement;
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
pub use evidence::PlacementEvidence;
pub use function_info::{FunctionInfo, ModuleInfo};
pub use liveness::Liveness;
pub use marshal::{Marshal, Passing, Word};
pub use operands::{
    AnyReg, BlockId, CallId, CasesId, EdgeId, F32Bits, F64Bits, FunctionId, GlobalOffset, GlobalRef, ImportId, ListId,
    RefReg, Reg, RodataId, SegmentsId, StringId, TypeId,
};
pub use placement::{Placement, Rules};
pub(crate) use reader::Reader;
pub use verifier::nameable;
pub use verifier::{VerifiedFunction, verify_function};
pub use visit::{CallForm, OperandVisitor};

/// The single steps of [`verify_function`], for benchmarks; not part of the interface.
#[doc(hidden)]
pub mod steps {
    pub use super::verifier::{decode, verify_again};
}
