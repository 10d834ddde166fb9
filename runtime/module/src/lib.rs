//! Module files: what is in one, before anything runs.
//!
//! - [`vmfb`]: the archive and the FlatBuffer in it, read where all of it may be hostile.
//! - [`bytecode`]: functions, decoded and verified, and their text.
//! - [`convention`]: what functions take and return.
//! - [`asm`]: modules from text.
//!
//! It stands on `vireo-core` alone. Users take the crate `vireo`, which has the public part of this.

pub mod asm;
pub mod bytecode;
pub mod convention;
mod generated;
pub mod vmfb;

use vireo_core::{heap_bytes, number_text, status};

pub use generated::vm::{opcode, verify};
