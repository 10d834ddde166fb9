//! A parsed module, which the module parser and the code writer fill and the file writer writes.

use std::borrow::Cow;
use std::collections::HashMap;

use super::statement::Symbol;

/// A parsed module.
#[derive(Default)]
pub(super) struct ParsedModule<'t> {
    pub name: Cow<'t, str>,
    pub version: u32,
    /// The requirement word, if the text states it.
    pub stated_features: Option<u32>,
    pub attrs: Vec<(String, String)>,
    pub types: Vec<Cow<'t, str>>,
    pub type_ordinals: HashMap<Cow<'t, str>, u32>,
    pub dependencies: Vec<Dependency<'t>>,
    pub imports: Vec<Import<'t>>,
    pub import_ordinals: HashMap<Cow<'t, str>, u32>,
    pub exports: Vec<Export<'t>>,
    pub export_names: HashMap<Cow<'t, str>, ()>,
    pub rodata: Vec<Rodata>,
    pub globals: Vec<GlobalDef>,
    pub global_names: HashMap<Cow<'t, str>, usize>,
    pub global_bytes: u32,
    pub global_refs: u32,
    pub functions: Vec<Function>,
    pub function_ordinals: HashMap<Cow<'t, str>, u32>,
    /// Names in code, resolved once all definitions are known.
    pub fixups: Vec<Fixup<'t>>,
    pub bytecode: Vec<u8>,
}

/// A module that it depends on.
pub(super) struct Dependency<'t> {
    pub name: Cow<'t, str>,
    pub minimum_version: u32,
    pub optional: bool,
}

/// An imported function.
pub(super) struct Import<'t> {
    pub name: Cow<'t, str>,
    pub convention: Option<String>,
    pub optional: bool,
}

/// An exported function.
pub(super) struct Export<'t> {
    pub name: Cow<'t, str>,
    pub function: Symbol<'t>,
    /// Set when all functions are known.
    pub ordinal: u32,
}

/// A segment of read-only data.
pub(super) struct Rodata {
    pub bytes: Vec<u8>,
    /// True if it is after the FlatBuffer, not in it.
    pub external: bool,
}

/// A global.
pub(super) struct GlobalDef {
    /// Bytes; 0 for a reference.
    pub width: u32,
    pub number: u32,
}

/// A function, whose code is in the bytecode of the module.
pub(super) struct Function {
    /// Offset in the bytecode, and length.
    pub offset: usize,
    pub length: usize,
    pub convention: String,
    pub attrs: Vec<(String, String)>,
    pub features: u32,
    pub blocks: u16,
    pub slots: u16,
    pub refs: u16,
}

/// A name in code that is not resolved yet: four zero bytes, to be replaced by an ordinal or offset.
pub(super) struct Fixup<'t> {
    pub function: usize,
    /// From the start of the function.
    pub offset: usize,
    pub kind: FixupKind,
    pub symbol: Symbol<'t>,
}

/// The definition that a name in code refers to.
#[derive(Clone, Copy)]
pub(super) enum FixupKind {
    /// A global of so many bytes; 0 for a reference.
    Global { width: u32 },
    /// An import.
    Import,
    /// A function or an import.
    Function,
}
