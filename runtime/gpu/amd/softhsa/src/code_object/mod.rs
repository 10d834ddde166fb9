//! Code objects: ELF files with kernels, as LLVM writes them. [`elf`] reads their headers, segments and symbols,
//! [`metadata`] what the compiler says of kernels, [`lacking`] refuses what the interpreter cannot run, [`storage`] is
//! where the file is. All input is hostile: nothing here trusts a number of a file.

pub(crate) mod elf;
pub(crate) mod lacking;
pub(crate) mod metadata;
pub(crate) mod storage;

use std::fmt;

/// The error for a code object that cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeObjectError(pub(crate) String);

impl CodeObjectError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        CodeObjectError(what.into())
    }
}

impl fmt::Display for CodeObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "code object: {}", self.0)
    }
}

impl std::error::Error for CodeObjectError {}
