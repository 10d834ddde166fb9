//! The summary of a module: its metadata as plain data, made from the module reader for the printers `text` and `json`.

use vireo::vm::{Argument, Convention, Kind};

/// A module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: u32,
    /// Version of the bytecode, `17.0`.
    pub bytecode_version: String,
    /// The features of the virtual machine that it requires.
    pub requirements: Vec<String>,
    /// Reflection attributes.
    pub attributes: Vec<(String, String)>,
    /// The type table.
    pub types: Vec<String>,
    /// Modules it imports from.
    pub dependencies: Vec<Dependency>,
    /// Functions it imports.
    pub imports: Vec<Import>,
    /// Functions it exports.
    pub exports: Vec<Export>,
    /// Read-only data.
    pub rodata: Vec<Rodata>,
    /// Bytes of value globals.
    pub global_bytes: u64,
    /// Number of reference globals.
    pub global_refs: u64,
    /// Bytes of code.
    pub code_bytes: u64,
    /// All functions.
    pub functions: Vec<Function>,
    /// True if there are source locations.
    pub has_source_map: bool,
}

/// A module that another imports from.
#[derive(Clone, Debug, PartialEq)]
pub struct Dependency {
    /// Its name.
    pub name: String,
    /// The least version that serves.
    pub minimum_version: u32,
    /// True if it may be missing.
    pub optional: bool,
}

/// An imported function.
#[derive(Clone, Debug, PartialEq)]
pub struct Import {
    /// Its full name.
    pub name: String,
    /// Its calling convention; empty if the module states none.
    pub convention: String,
    /// True if it may be missing.
    pub optional: bool,
}

/// An exported function.
#[derive(Clone, Debug, PartialEq)]
pub struct Export {
    /// Its name.
    pub name: String,
    /// Its number in the function table.
    pub ordinal: usize,
    /// Its calling convention.
    pub convention: String,
    /// Reflection attributes.
    pub attributes: Vec<(String, String)>,
}

/// A read-only segment.
#[derive(Clone, Debug, PartialEq)]
pub struct Rodata {
    /// Its length.
    pub bytes: u64,
    /// True if it lies outside the FlatBuffer.
    pub external: bool,
    /// The contents, if they are a short text.
    pub text: Option<String>,
}

/// A function.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Offset of its code.
    pub offset: u64,
    /// Length of its code.
    pub length: u64,
    /// Number of basic blocks.
    pub blocks: usize,
    /// Size of the value bank in 32-bit slots.
    pub value_registers: usize,
    /// Size of the reference bank.
    pub ref_registers: usize,
    /// The features of the virtual machine that it requires.
    pub requirements: Vec<String>,
    /// Its calling convention.
    pub convention: String,
    /// The names it is exported by, or the one that debug information gives it.
    pub names: Vec<String>,
    /// True if one of the names is an export.
    pub exported: bool,
}

impl Function {
    /// The name that assembly text uses: the first one, or `fn` and the number.
    pub fn title(&self, ordinal: usize) -> String {
        self.names.first().cloned().unwrap_or_else(|| format!("fn{ordinal}"))
    }
}

/// `(i32, ref, (i32, i64)...) -> (ref)` for `0irCiID_r`; the string itself if it is not a calling convention.
pub fn signature(convention: &str) -> String {
    let Ok(parsed) = convention.parse::<Convention>() else { return format!("`{convention}`") };
    let kinds = |kinds: &[Kind]| kinds.iter().map(|kind| kind_name(*kind)).collect::<Vec<_>>().join(", ");
    let arguments = parsed.args.iter().map(|argument| match argument {
        Argument::One(kind) => kind_name(*kind).to_string(),
        Argument::Span(fields) => format!("({})...", kinds(fields)),
    });
    format!("({}) -> ({})", arguments.collect::<Vec<_>>().join(", "), kinds(&parsed.results))
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::I32 => "i32",
        Kind::I64 => "i64",
        Kind::F32 => "f32",
        Kind::F64 => "f64",
        Kind::Ref => "ref",
    }
}

/// `bytes` as text if they are a short name rather than data.
pub fn short_text(bytes: &[u8]) -> Option<String> {
    const LONGEST: usize = 64;
    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.is_empty() && text.len() <= LONGEST)?;
    text.chars().all(|c| c.is_ascii_graphic() || c == ' ').then(|| text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_readable() {
        assert_eq!(signature("0v_v"), "() -> ()");
        assert_eq!(signature("0irCiID_rf"), "(i32, ref, (i32, i64)...) -> (ref, f32)");
        assert_eq!(signature("nonsense"), "`nonsense`");
        assert_eq!(short_text(b"input0").as_deref(), Some("input0"));
        assert_eq!(short_text(b"\x7fELF"), None);
    }
}
