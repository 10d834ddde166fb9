//! Module files: reading and verifying `.vmfb` archives and their bytecode, and the assembler. Contexts and the virtual
//! machine stand on it; nothing here runs a program.
//!
//! - [`vmfb`]: the archive and the FlatBuffer in it, all of which may be hostile.
//! - [`bytecode`]: decoder, verifier and disassembler of functions.
//! - [`verified`]: the functions of a file, verified.
//! - [`convention`]: calling conventions, the types of functions.
//! - [`declaration`]: declarations of functions, with the names and types of their source.
//! - [`asm`]: the assembler of modules.
//!
//! It stands on `vireo-core` alone. Users take the crate `vireo`, which has the public part of this.

// Users call what is here: its documentation says how it fails.
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

pub mod asm;
pub mod bytecode;
pub mod convention;
pub mod declaration;
mod generated;
pub mod tensor_types;
pub mod verified;
pub mod vmfb;

use vireo_core::{heap_bytes, number_text, status, visible_text};

pub use generated::names::reflection;
pub use generated::vm::{opcode, verify};
