//! The model of `spec/amdgpu/`: words of bit fields, the layouts that hold them, families of layouts told apart by tags, the functions
//! of the HSA library, and the names that C headers have for all of these.
//!
//! Constants, codes, handles, layouts and callback types are those of `spec/hal/` and read by [`super::hal`]; this module adds the kinds
//! that only GPUs need. Names are unique across the folder and a type may refer to any file of it.

use std::collections::BTreeMap;

use crate::diag::{Diagnostics, Origin};
use crate::entry::Entry;
use crate::model::hal::{self, Form, Function, Layout, LayoutType, Measure, Numbers, SpecFile};
use crate::model::int::Int;

mod family;
mod header;
mod read;

pub use family::{Family, Tag, Variant};
pub use header::{Header, HeaderNames};

/// Every entry of `spec/amdgpu/`.
#[derive(Clone, Debug, Default)]
pub struct Amdgpu {
    /// What files declare in the kinds of `spec/hal/`, in the order of their paths.
    pub files: Vec<SpecFile>,
    /// Words of bit fields.
    pub words: Vec<Word>,
    /// Families of layouts.
    pub families: Vec<Family>,
    /// Functions of the HSA library, in the order of the specs.
    pub symbols: Vec<Symbol>,
    /// What C headers call these things.
    pub headers: Vec<HeaderNames>,
}

/// A word of bit fields.
#[derive(Clone, Debug)]
pub struct Word {
    /// `packet_header`
    pub name: String,
    /// The type that holds it; at most 32 bits.
    pub int: Int,
    /// What it is.
    pub doc: String,
    /// Its fields from the lowest bit up; bits between them are reserved and zero.
    pub fields: Vec<BitField>,
    /// Where it is declared.
    pub origin: Origin,
}

/// A field of a word.
#[derive(Clone, Debug)]
pub struct BitField {
    /// `acquire_fence_scope`
    pub name: String,
    /// Its lowest bit.
    pub bit: u32,
    /// How many bits it has.
    pub width: u32,
    /// The code that names its values, if there is one.
    pub kind: Option<String>,
    /// What it means.
    pub doc: String,
    /// Where it is declared.
    pub origin: Origin,
}

impl BitField {
    /// The largest value that fits.
    pub fn max(&self) -> u64 {
        (1u64 << self.width) - 1
    }
}

/// A function of the HSA library.
#[derive(Clone, Debug)]
pub struct Symbol {
    /// Name, signature and doc; the name is that of the library.
    pub function: Function,
    /// False if the driver does without it.
    pub required: bool,
    /// The last release of the library that does not have it, where headers to compare with are as old.
    pub after: Option<String>,
}

/// Something declared by name that stands for bytes.
#[derive(Clone, Copy, Debug)]
pub enum Plain<'a> {
    /// A word of bit fields.
    Word(&'a Word),
    /// A number with names.
    Code(&'a Numbers),
    /// A number without a meaning of its own.
    Handle(Int),
    /// A struct.
    Layout(&'a Layout),
}

impl Plain<'_> {
    /// The integer that holds it, if it is one.
    pub fn int(&self) -> Option<Int> {
        match self {
            Plain::Word(word) => Some(word.int),
            Plain::Code(numbers) => Some(numbers.int),
            Plain::Handle(int) => Some(*int),
            Plain::Layout(_) => None,
        }
    }
}

impl Amdgpu {
    /// Reads the entries of all files below `spec/amdgpu/`, in the order of their paths.
    pub fn load(entries: &[Entry], diagnostics: &mut Diagnostics) -> Self {
        let mut amdgpu = read::files(entries, diagnostics);
        amdgpu.check_names(diagnostics);
        let known = amdgpu.names();
        for file in &amdgpu.files {
            for layout in &file.layouts {
                layout.check(&|ty| amdgpu.declared(ty), &known, "spec/amdgpu", diagnostics);
            }
            for function in &file.functions {
                amdgpu.check_function(function, diagnostics);
            }
        }
        for symbol in &amdgpu.symbols {
            amdgpu.check_function(&symbol.function, diagnostics);
        }
        for word in &amdgpu.words {
            amdgpu.check_kinds(word, diagnostics);
        }
        amdgpu.families = family::read(&amdgpu, entries, diagnostics);
        amdgpu.headers = header::read(&amdgpu, entries, diagnostics);
        amdgpu
    }

    /// What `name` stands for, if it stands for bytes.
    pub fn plain(&self, name: &str) -> Option<Plain<'_>> {
        if let Some(word) = self.words.iter().find(|word| word.name == name) {
            return Some(Plain::Word(word));
        }
        self.files.iter().find_map(|file| {
            let code = file.numbers.iter().find(|numbers| numbers.name == name && numbers.form == Form::Code);
            let handle = || file.handles.iter().find(|handle| handle.name == name);
            let layout = || file.layouts.iter().find(|layout| layout.name == name);
            code.map(Plain::Code)
                .or_else(|| handle().map(|handle| Plain::Handle(handle.int)))
                .or_else(|| layout().map(Plain::Layout))
        })
    }

    /// The names that types may have.
    fn names(&self) -> Vec<&str> {
        let words = self.words.iter().map(|word| word.name.as_str());
        self.files.iter().flat_map(SpecFile::names).map(|(name, _)| name).chain(words).collect()
    }

    /// The callback type `name`.
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.files.iter().flat_map(|file| &file.functions).find(|function| function.name == name)
    }

    /// The stem of the file that declares `name`.
    pub fn stem_of(&self, name: &str) -> Option<String> {
        let word = self.words.iter().find(|word| word.name == name).map(|word| stem(&word.origin));
        word.or_else(|| {
            let mut names = self.files.iter().flat_map(SpecFile::names);
            names.find(|(other, _)| *other == name).map(|(_, origin)| stem(origin))
        })
    }

    fn declared(&self, ty: &LayoutType) -> Option<Measure> {
        match ty {
            LayoutType::Function(name) => self.function(name).map(|_| Measure { size: 8, align: 8, plain: false }),
            LayoutType::Layout(name) => Some(match self.plain(name)? {
                Plain::Layout(layout) => Measure { size: layout.size, align: layout.align, plain: layout.readable },
                number => {
                    let size = number.int()?.size();
                    Measure { size, align: size, plain: true }
                }
            }),
            _ => None,
        }
    }

    fn check_function(&self, function: &Function, diagnostics: &mut Diagnostics) {
        let args = function.args.iter().map(|(name, ty)| (name.as_str(), ty));
        for (name, ty) in args.chain(function.result.iter().map(|ty| ("result", ty))) {
            let by_value = ty.measure(&|ty| self.declared(ty)).is_some();
            // A struct by value has a calling convention of its own; none is needed.
            let layout = matches!(ty, LayoutType::Layout(name) if matches!(self.plain(name), Some(Plain::Layout(_))));
            if !by_value || layout {
                let message =
                    format!("`{name}` is `{ty}`: expected an integer, a pointer or the name of a code or handle");
                diagnostics.unknown(&function.origin, ty.name().unwrap_or_default(), message, self.names());
            }
        }
    }

    fn check_kinds(&self, word: &Word, diagnostics: &mut Diagnostics) {
        for field in &word.fields {
            let Some(kind) = &field.kind else { continue };
            let Some(Plain::Code(numbers)) = self.plain(kind) else {
                let known = self.files.iter().flat_map(|file| &file.numbers).map(|numbers| numbers.name.as_str());
                diagnostics.unknown(&field.origin, kind, format!("`{}`: there is no code `{kind}`", field.name), known);
                continue;
            };
            if let Some(value) = numbers.values.iter().find(|value| value.value > field.max()) {
                let message =
                    format!("`{}`: `{}` of `{kind}` does not fit {} bits", field.name, value.name, field.width);
                diagnostics.error(&field.origin, message);
            }
            if numbers.int.size() * 8 < u64::from(field.width) {
                let message = format!("`{}`: {} bits do not fit `{kind}`", field.name, field.width);
                diagnostics.error(&field.origin, message);
            }
        }
    }

    fn check_names(&self, diagnostics: &mut Diagnostics) {
        let mut seen: BTreeMap<&str, &Origin> = BTreeMap::new();
        let words = self.words.iter().map(|word| (word.name.as_str(), &word.origin));
        let symbols = self.symbols.iter().map(|symbol| (symbol.function.name.as_str(), &symbol.function.origin));
        for (name, origin) in self.files.iter().flat_map(SpecFile::names).chain(words).chain(symbols) {
            if let Some(first) = seen.insert(name, origin) {
                diagnostics.error(origin, format!("`{name}` is declared at {first} already"));
            }
        }
    }
}

/// `packet` for `spec/amdgpu/packet.yaml`.
pub(crate) fn stem(origin: &Origin) -> String {
    origin.file.rsplit('/').next().unwrap_or_default().trim_end_matches(".yaml").to_string()
}

/// The Rust name of a type.
pub fn type_name(name: &str) -> String {
    hal::type_name(name)
}
