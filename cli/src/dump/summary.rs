//! The summary of a module: its metadata as plain data, made from the module reader for the printers `text` and `json`.

use std::collections::HashMap;

use vireo::bytecode::Names;
use vireo::vm::{Argument, Convention, Kind};
use vireo::vmfb::schema::bytecode_module_def::FeatureBits;
use vireo::vmfb::{self, Archive, DebugDatabase, RodataLocation};

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

/// The exports of each function that has some.
pub fn exports_by_function(exports: &[Export]) -> HashMap<usize, Vec<&Export>> {
    let mut by_function: HashMap<usize, Vec<&Export>> = HashMap::new();
    for export in exports {
        by_function.entry(export.ordinal).or_default().push(export);
    }
    by_function
}

/// Calls `with` with what the module calls things.
pub fn with_names<R>(summary: &Summary, with: impl FnOnce(Names<'_>) -> R) -> R {
    let imports = summary.imports.iter().map(|import| import.name.clone()).collect::<Vec<_>>();
    let names = summary.functions.iter().enumerate().map(|(ordinal, function)| function.title(ordinal));
    let names = names.map(|name| vireo::visible_text::visible(&name)).collect::<Vec<_>>();
    let sizes = summary.rodata.iter().map(|segment| segment.bytes as usize).collect::<Vec<_>>();
    let names =
        Names { module: &summary.name, types: &summary.types, imports: &imports, functions: &names, rodata: &sizes };
    with(names)
}

/// The summary of a module.
pub fn summarize(archive: &Archive) -> Summary {
    let (major, minor) = archive.bytecode_version();
    let (global_bytes, global_refs) = archive.globals();
    let owned = |(key, value): (&str, &str)| (key.to_string(), value.to_string());
    let functions = archive.functions().collect::<Vec<_>>();
    let exports = archive.exports().map(|export| Export {
        name: export.name.into(),
        ordinal: export.ordinal,
        convention: functions.get(export.ordinal).map(|function| function.convention().to_string()).unwrap_or_default(),
        attributes: functions
            .get(export.ordinal)
            .map(|function| function.attrs().map(owned).collect())
            .unwrap_or_default(),
    });
    let exports = exports.collect::<Vec<_>>();
    let debug = DebugDatabase::of(archive);
    let by_function = exports_by_function(&exports);
    let function = |(ordinal, function): (usize, &vmfb::Function<'_>)| {
        let exported = by_function.get(&ordinal).into_iter().flatten();
        let mut names = exported.map(|export| export.name.clone()).collect::<Vec<_>>();
        let is_exported = !names.is_empty();
        if names.is_empty() {
            names.extend(debug.as_ref().and_then(|debug| debug.function_name(ordinal)).map(str::to_string));
        }
        Function {
            offset: function.code.start as u64,
            length: function.code.len() as u64,
            blocks: function.blocks as usize,
            value_registers: function.slots as usize,
            ref_registers: function.refs as usize,
            requirements: features(function.requirements),
            convention: function.convention().into(),
            names,
            exported: is_exported,
        }
    };
    let all = functions.iter().enumerate().map(function).collect();
    Summary {
        name: archive.name().into(),
        version: archive.version(),
        bytecode_version: format!("{major}.{minor}"),
        requirements: features(archive.def().requirements()),
        attributes: archive.attrs().map(owned).collect(),
        types: archive.types().map(str::to_string).collect(),
        dependencies: archive
            .dependencies()
            .map(|dependency| Dependency {
                name: dependency.name.into(),
                minimum_version: dependency.minimum_version,
                optional: dependency.optional,
            })
            .collect(),
        imports: archive
            .imports()
            .map(|import| Import {
                name: import.full_name.into(),
                convention: import.convention.into(),
                optional: import.optional,
            })
            .collect(),
        rodata: archive
            .rodata()
            .map(|segment| Rodata {
                bytes: segment.range.len() as u64,
                external: segment.location == RodataLocation::External,
                text: archive.bytes().get(segment.range).and_then(short_text),
            })
            .collect(),
        global_bytes: global_bytes as u64,
        global_refs: global_refs as u64,
        code_bytes: archive.bytecode().len() as u64,
        functions: all,
        has_source_map: debug.is_some(),
        exports,
    }
}

fn features(bits: FeatureBits) -> Vec<String> {
    let names = [
        (FeatureBits::EXT_F32, "f32"),
        (FeatureBits::EXT_F64, "f64"),
        (FeatureBits::YIELD, "yield"),
        (FeatureBits::UNWIND, "unwind"),
    ];
    names.iter().filter(|(bit, _)| bits.contains(*bit)).map(|(_, name)| name.to_string()).collect()
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
