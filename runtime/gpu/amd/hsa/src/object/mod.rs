//! Code objects, which are ELF files with kernels for AMD GPUs: their headers, targets, symbols and metadata.

mod elf;
pub mod metadata;

pub use elf::{CodeObject, CodeObjectError, is_elf};
pub use metadata::{Argument, ArgumentKind, Kernel, MetadataError};
