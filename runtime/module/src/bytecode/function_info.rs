//! The declarations that a function is decoded and verified against: its own, and the tables of its module.

use super::error::VerifyError;
use super::placement::Rules;
use crate::convention::Convention;

/// The declaration of a function in its module.
#[derive(Clone, Copy, Debug)]
pub struct FunctionInfo<'a> {
    /// Its ordinal, for errors.
    pub ordinal: u32,
    /// Its calling convention.
    pub convention: &'a Convention,
    /// Number of 32-bit slots of its frame.
    pub slots: u32,
    /// Number of reference registers of its frame.
    pub refs: u32,
    /// Number of its blocks.
    pub blocks: u32,
    /// The feature bits that it declares.
    pub features: u32,
    /// The rules of its module.
    pub rules: Rules,
}

impl FunctionInfo<'_> {
    /// An error of the declaration, not of an op.
    pub(super) fn error(&self, message: String) -> VerifyError {
        VerifyError { function: self.ordinal, offset: 0, message }
    }
}

/// The tables of a module that a function may refer to.
#[derive(Clone, Copy, Debug)]
pub struct ModuleInfo<'a> {
    /// Bytes of value globals.
    pub global_bytes: u64,
    /// Number of ref globals.
    pub global_refs: u32,
    /// Number of entries of the type table.
    pub types: u32,
    /// Number of rodata segments.
    pub rodata: u32,
    /// The conventions of the imports, by ordinal.
    pub imports: &'a [Convention],
    /// The conventions of the functions, by ordinal.
    pub functions: &'a [Convention],
}
