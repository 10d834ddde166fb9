//! Code objects, which are ELF files with kernels for AMD GPUs, as LLVM writes them: [`CodeObject`] reads headers,
//! targets, symbols and kernel descriptors, and [`metadata`] what compilers say of kernels. The driver, the software
//! agent and listings of code use it; it loads nothing, and says what is there instead of refusing what a loader lacks.
//!
//! All input is hostile: every offset and count is checked before it is used, and memory is at most in proportion to
//! the file.

mod elf;
mod error;
mod file;
mod message_pack;
pub mod metadata;
#[cfg(test)]
mod tests;

pub use elf::{CodeObject, Segment, is_elf};
pub use error::CodeObjectError;
pub use file::{Symbol, SymbolKind};
pub use message_pack::MetadataError;
pub use metadata::{Argument, ArgumentKind, KernelMetadata, Metadata};
