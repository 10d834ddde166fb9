//! The model of `spec/isa/vm/`: opcode sets, operand encodings and ops.
//!
//! `isa` has the types, `examples` reads the examples of ops, `sequences` those that one handler executes, and `load`
//! makes an [`Isa`] of entries.

mod examples;
mod isa;
mod load;
mod sequences;

pub use isa::{
    Body, Bytecode, ControlOp, Encoding, EncodingField, Feature, Field, FieldKind, GapFill, Isa, Op, OpcodeSet,
    Sequence, SequenceStep, Structure, TextPart, Type,
};
pub(super) use load::LANGUAGE;
