//! The gfx11 instruction set (RDNA3, waves of 32 lanes) of AMD GPUs: decoder, disassembler, encoder and interpreter.
//!
//! Everything that follows from `spec/isa/gfx11/` is generated: the tables of encodings and instructions, and a handler
//! for each instruction. The crate adds the tables' types ([`isa`]), single instructions ([`instruction`]), their text
//! ([`disasm`]), programs decoded for execution ([`program`]) and the interpreter ([`interp`]); with the feature
//! `listing`, the text of whole code objects. It knows no driver: a runner of dispatches hands it code, a descriptor
//! and memory.
//!
//! **Who checks**: the code of a kernel may be any bytes. What is not an instruction, or names a register that the
//! kernel does not have, becomes a trap that is raised when a wave gets there; memory is checked by `vireo-simt`.

mod counters;
pub mod disasm;
mod generated;
pub mod instruction;
pub mod interp;
pub mod isa;
#[cfg(feature = "listing")]
pub mod listing;
mod machine;
pub mod program;

pub use counters::Counts;
pub use instruction::{DecodeError, Instruction};
pub use interp::kernel::{GridDispatch, KernelRegisters, run, run_counted, vector_registers};
pub use isa::{Encoding, Opcode};
pub use machine::HalfSums;
pub use program::{Missing, Program};
