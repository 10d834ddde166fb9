//! The entries of a module's tables: dependencies, imports, exports, functions and segments, as
//! [`Archive`](super::Archive) returns them.

use std::ops::Range;

use super::schema::bytecode_module_def::{FeatureBits, FunctionSignatureDef};

/// Another module that this one imports from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependency<'a> {
    /// Its name.
    pub name: &'a str,
    /// Least version that it needs.
    pub minimum_version: u32,
    /// True if it may be absent.
    pub optional: bool,
}

/// A function that the module calls and another provides.
#[derive(Clone, Copy, Debug)]
pub struct Import<'a> {
    /// `module.function`; the name of the module ends at the first dot.
    pub full_name: &'a str,
    /// The convention that the importer expects; empty if it states none.
    pub convention: &'a str,
    /// True if the program asks before it calls.
    pub optional: bool,
}

impl<'a> Import<'a> {
    /// Name of the providing module and of the function in it.
    pub fn split(&self) -> Option<(&'a str, &'a str)> {
        self.full_name.split_once('.')
    }
}

/// A function that other modules and the host can call.
#[derive(Clone, Copy, Debug)]
pub struct Export<'a> {
    /// Name without the module.
    pub name: &'a str,
    /// Ordinal of the function; in range.
    pub ordinal: usize,
}

/// One function of the module, exported or not.
#[derive(Clone, Debug)]
pub struct Function<'a> {
    /// Its code as a range of the bytecode; not empty and in range.
    pub code: Range<usize>,
    /// The features that it requires.
    pub requirements: FeatureBits,
    /// Number of blocks; at least one.
    pub blocks: u32,
    /// Number of 32-bit slots of its frame.
    pub slots: u32,
    /// Number of reference registers of its frame.
    pub refs: u32,
    pub(super) signature: FunctionSignatureDef<'a>,
}

impl<'a> Function<'a> {
    /// Its calling convention; empty if it states none.
    pub fn convention(&self) -> &'a str {
        self.signature.calling_convention().unwrap_or_default()
    }

    /// Its reflection attributes: `iree.abi`, ...
    pub fn attrs(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let attrs = self.signature.attrs().unwrap_or_default();
        attrs.iter().map(|attr| (attr.key().unwrap_or_default(), attr.value().unwrap_or_default()))
    }
}

/// Where a read-only segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RodataLocation {
    /// Inside of the FlatBuffer.
    Embedded,
    /// After it.
    External,
}

/// A read-only segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rodata {
    /// Where it is.
    pub location: RodataLocation,
    /// Its range in the file.
    pub range: Range<usize>,
}
