//! The types of the model of a folder of `spec/api/`, and the lookup of names. The readers and checks beside this file
//! create and check them; emitters use them.

use std::collections::BTreeMap;

use crate::diag::Origin;
use crate::model::hal::{Form, Function, Layout, Numbers, SpecFile};
use crate::model::int::Int;

/// Every entry of a folder of `spec/api/`.
#[derive(Clone, Debug, Default)]
pub struct Api {
    /// The name of the folder.
    pub name: String,
    /// The entries of the kinds of `spec/hal/`, in the order of their paths.
    pub files: Vec<SpecFile>,
    /// Words of bit fields.
    pub words: Vec<Word>,
    /// Families of layouts.
    pub families: Vec<Family>,
    /// Functions of the HSA library, in the order of the specs.
    pub symbols: Vec<Symbol>,
    /// The names in C headers.
    pub headers: Vec<HeaderNames>,
}

/// A word of bit fields.
#[derive(Clone, Debug)]
pub struct Word {
    /// `packet_header`
    pub name: String,
    /// The type that holds it; at most 32 bits.
    pub int: Int,
    /// Its documentation.
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
    /// Its documentation.
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

/// A named type with a size in bytes.
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

/// Layouts that are distinguished by tags.
#[derive(Clone, Debug)]
pub struct Family {
    /// `packet`
    pub name: String,
    /// Its documentation.
    pub doc: String,
    /// Its members.
    pub variants: Vec<Variant>,
    /// Where it is declared.
    pub origin: Origin,
}

/// A member of a family.
#[derive(Clone, Debug)]
pub struct Variant {
    /// `kernel_dispatch`
    pub name: String,
    /// Its layout.
    pub layout: Layout,
    /// The tags by which a decoder recognises this member.
    pub when: Vec<Tag>,
    /// Further values that a constructor sets.
    pub sets: Vec<Tag>,
    /// Where it is declared.
    pub origin: Origin,
}

/// A value at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// `header.type`
    pub path: String,
    /// The offset of the integer.
    pub offset: u64,
    /// Bytes of the integer.
    pub size: u64,
    /// The lowest bit in the integer.
    pub bit: u32,
    /// How many bits.
    pub width: u32,
    /// The value of these bits.
    pub value: u64,
}

/// A set of C headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// Those of the HSA library.
    Hsa,
    /// Those of IREE's AMD GPU driver.
    Iree,
}

/// The names of one entry in a set of headers.
#[derive(Clone, Debug)]
pub struct HeaderNames {
    /// The thing: a layout, word, code, handle or constant.
    pub of: String,
    /// The headers.
    pub header: Header,
    /// The C type.
    pub ty: Option<String>,
    /// The pattern of constants with the shift of a bit field; `{}` is the field.
    pub shift: Option<String>,
    /// The pattern of constants with the width of a bit field.
    pub width: Option<String>,
    /// The pattern of constants with the mask of a bit field in place.
    pub mask: Option<String>,
    /// The pattern of constants with the values of a code, or the name of a constant.
    pub value: Option<String>,
    /// Names of members that the pattern does not give.
    pub names: BTreeMap<String, String>,
    /// Members that the headers do not have.
    pub absent: Vec<String>,
    /// Where it is declared.
    pub origin: Origin,
}

impl HeaderNames {
    /// The name of the member `name` of a struct in the headers.
    pub fn field<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        (!self.absent.iter().any(|absent| absent == name)).then(|| self.names.get(name).map_or(name, String::as_str))
    }

    /// The constant of the member `name` by `pattern`.
    pub fn constant(&self, pattern: Option<&String>, name: &str) -> Option<String> {
        let name = self.field(name)?;
        Some(pattern?.replace("{}", &name.to_ascii_uppercase()))
    }
}

impl Api {
    /// The plain type `name`, if there is one.
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
    pub(super) fn names(&self) -> Vec<&str> {
        let words = self.words.iter().map(|word| word.name.as_str());
        self.files.iter().flat_map(SpecFile::names).map(|(name, _)| name).chain(words).collect()
    }

    /// The callback type `name`.
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.files.iter().flat_map(|file| &file.functions).find(|function| function.name == name)
    }

    /// The stem of the file that declares `name`.
    pub fn stem_of(&self, name: &str) -> Option<&str> {
        let word = self.words.iter().find(|word| word.name == name).map(|word| word.origin.stem());
        word.or_else(|| {
            let mut names = self.files.iter().flat_map(SpecFile::names);
            names.find(|(other, _)| *other == name).map(|(_, origin)| origin.stem())
        })
    }
}
