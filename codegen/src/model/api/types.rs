//! The types of the model of a folder of `spec/api/`, and the lookup of names. The readers and checks beside this file
//! create and check them; emitters use them.

use std::collections::BTreeMap;

use crate::diag::Origin;
use crate::model::hal::{Form, Function, Layout, LayoutType, Numbers, SpecFile};
use crate::model::int::Int;

/// Every entry of a folder of `spec/api/`.
#[derive(Clone, Debug, Default)]
pub struct Api {
    /// The name of the folder.
    pub name: String,
    /// Its path, `spec/api/amdgpu`.
    pub folder: String,
    /// True for a format of files, which has its own dumps and pads its layouts.
    pub is_format: bool,
    /// The entries of the kinds of `spec/hal/`, in the order of their paths.
    pub files: Vec<SpecFile>,
    /// Words of bit fields.
    pub words: Vec<Word>,
    /// Families of layouts.
    pub families: Vec<Family>,
    /// Tables of values.
    pub tables: Vec<Table>,
    /// Libraries, in the order of the specs.
    pub libraries: Vec<Library>,
    /// The functions that a driver calls, in the order of the specs.
    pub calls: Vec<Call>,
    /// The library of another vendor with the same calls.
    pub partner: Option<Partner>,
    /// The meaning of statuses for a driver.
    pub failures: Option<Failures>,
    /// Libraries whose functions do nothing.
    pub nulls: Vec<NullLibrary>,
    /// Sets of C headers that the entries are compared with.
    pub header_sets: Vec<Headers>,
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

/// A shared library that exports C functions.
#[derive(Clone, Debug)]
pub struct Library {
    /// `hsa`, the beginning of the names that are generated.
    pub name: String,
    /// `HSA`, its name in text.
    pub title: String,
    /// The names of its file, in the order in which they are tried; the first one is its soname.
    pub names: Vec<String>,
    /// The version of its symbols, if they have one.
    pub version: Option<String>,
    /// The way to find its functions.
    pub finder: Finder,
    /// The function that finds them where there is no `finder`, by name and version as well.
    pub older_finder: Option<String>,
    /// The set of C headers that declares its functions, if there is one to compare with.
    pub headers: Option<String>,
    /// The folder of generated files for the software library of the same functions, if there is one.
    pub software: Option<String>,
    /// The ends of symbols that a finder of the library is not asked for.
    pub suffixes: Suffixes,
    /// The status that a software library returns for symbols that it exports and does not implement, if it has any.
    pub refusal: Option<Refusal>,
    /// Its functions, in the order of the specs.
    pub symbols: Vec<Symbol>,
    /// Symbols that a software library exports and does not implement.
    pub refused: Vec<Refused>,
    /// Its documentation.
    pub doc: String,
    /// Where it is declared.
    pub origin: Origin,
}

/// The ends of symbols that a finder of the library is not asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suffixes {
    /// Those of later versions of a function.
    pub version: Vec<String>,
    /// Those of variants for programs whose default stream is that of the thread.
    pub per_thread: Vec<String>,
}

impl Suffixes {
    /// The symbol without its suffixes, and whether it is a variant for the stream of the thread.
    pub fn split<'a>(&self, symbol: &'a str) -> (&'a str, bool) {
        let per_thread = self.per_thread.iter().find_map(|suffix| symbol.strip_suffix(suffix.as_str()));
        let rest = per_thread.unwrap_or(symbol);
        let name = self.version.iter().find_map(|suffix| rest.strip_suffix(suffix.as_str()));
        (name.unwrap_or(rest), per_thread.is_some())
    }
}

/// The status that a software library returns for what it does not implement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The code that functions of the library return.
    pub code: String,
    /// Its value.
    pub value: String,
}

/// A symbol that a software library exports and does not implement.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The symbol.
    pub name: String,
    /// The version that a finder of the library has to be asked for.
    pub version: u32,
}

/// A table of values of a code, such as the attributes of a device.
#[derive(Clone, Debug)]
pub struct Table {
    /// `sm_86`
    pub name: String,
    /// The code whose values have values here.
    pub of: String,
    /// The name that people know it by.
    pub text: String,
    /// The values by the names of the code, in the order of their numbers.
    pub values: Vec<(String, u64)>,
    /// Its documentation.
    pub doc: String,
    /// Where it is declared.
    pub origin: Origin,
}

/// A function that a driver calls.
#[derive(Clone, Debug)]
pub struct Call {
    /// `stream_create`
    pub name: String,
    /// The function of the CUDA driver library.
    pub symbol: Symbol,
    /// The name of the function in the HIP runtime library, if there is one.
    pub hip: Option<String>,
    /// The arguments through which it returns results.
    pub returns: Vec<String>,
    /// False if a driver works without it.
    pub required: bool,
    /// The calls that a driver works without if one of them is missing, by their name.
    pub group: Option<String>,
    /// Where it is declared.
    pub origin: Origin,
}

/// A library of another vendor that has the calls under names of its own. Its functions have the arguments of this
/// library, with handles of its own, except for the differences.
#[derive(Clone, Debug)]
pub struct Partner {
    /// `hip`
    pub name: String,
    /// The name that people know it by.
    pub title: String,
    /// The names of its file.
    pub names: Vec<String>,
    /// The numbers of codes that are others there, by their names here; values that are not listed do not exist.
    pub numbers: BTreeMap<String, BTreeMap<String, u64>>,
    /// The layouts that are others there.
    pub layouts: BTreeMap<String, PartnerLayout>,
    /// The arguments of calls that have others there.
    pub arguments: BTreeMap<String, Vec<PartnerArgument>>,
    /// Its documentation.
    pub doc: String,
    /// Where it is declared.
    pub origin: Origin,
}

/// A layout in the partner.
#[derive(Clone, Debug)]
pub struct PartnerLayout {
    /// Its size.
    pub size: u64,
    /// The fields in the order of their offsets there.
    pub offsets: Vec<(String, u64)>,
}

/// An argument of a function of the partner.
#[derive(Clone, Debug)]
pub enum PartnerArgument {
    /// The argument of this name.
    Same(String),
    /// An argument that is a constant.
    Constant(String, u64),
    /// The device of an argument.
    DeviceOf(String),
}

/// The meaning of statuses for a driver.
#[derive(Clone, Debug)]
pub struct Failures {
    /// The code of statuses.
    pub code: String,
    /// The name of the interface with the calls, if it is not that of libraries with streams.
    pub interface: Option<String>,
    /// The status of work that has not ended.
    pub pending: String,
    /// The calls that return texts for a status.
    pub texts: Vec<String>,
    /// The statuses by the status of ours.
    pub statuses: BTreeMap<String, Vec<String>>,
    /// The statuses after which a context is of no use.
    pub lost: Vec<String>,
    /// Where it is declared.
    pub origin: Origin,
}

/// A library whose functions return at once.
#[derive(Clone, Debug)]
pub struct NullLibrary {
    /// The name of the library whose functions it has.
    pub library: String,
    /// The folder of its generated files.
    pub folder: String,
    /// The functions that succeed, by their name; the others are refused.
    pub functions: BTreeMap<String, NullFunction>,
    /// Its documentation.
    pub doc: String,
    /// Where it is declared.
    pub origin: Origin,
}

/// A function of a null library.
#[derive(Clone, Debug)]
pub enum NullFunction {
    /// It is written by hand.
    ByHand,
    /// It writes these results, by its arguments.
    Returns(Vec<(String, NullResult)>),
}

/// A result of a function of a null library.
#[derive(Clone, Copy, Debug)]
pub enum NullResult {
    /// A new handle, which is such a number.
    Next(Int),
    /// This number.
    Number(u64),
}

/// The way to find the functions of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finder {
    /// The loader of the system, by name.
    Dlsym,
    /// This function of the library, by name and version.
    Function(String),
}

/// A set of C headers.
#[derive(Clone, Debug)]
pub struct Headers {
    /// `hsa`
    pub name: String,
    /// The files to include, in this order.
    pub includes: Vec<String>,
    /// Where it is declared.
    pub origin: Origin,
}

/// A function of a library.
#[derive(Clone, Debug)]
pub struct Symbol {
    /// Name, signature and doc; the name is that of the library.
    pub function: Function,
    /// False if the driver does without it.
    pub required: bool,
    /// The version of the function that a finder of the library is asked for.
    pub version: Option<u32>,
    /// The last release of the library that does not have it, where headers to compare with are as old.
    pub after: Option<String>,
    /// The suffix of its variant for programs whose default stream is that of the thread, if it has one.
    pub per_thread: Option<String>,
    /// Other names by which a finder of the library returns it, with their versions.
    pub also: BTreeMap<String, u32>,
}

impl Symbol {
    /// The name of its variant for the stream of the thread.
    pub fn per_thread_name(&self) -> Option<String> {
        Some(format!("{}{}", self.function.name, self.per_thread.as_ref()?))
    }
}

impl Library {
    /// Every name that a software library exports.
    pub fn exported(&self) -> Vec<String> {
        let names =
            self.symbols.iter().flat_map(|symbol| [Some(symbol.function.name.clone()), symbol.per_thread_name()]);
        names.flatten().chain(self.refused.iter().map(|refused| refused.name.clone())).collect()
    }
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

/// The names of one entry in a set of headers.
#[derive(Clone, Debug)]
pub struct HeaderNames {
    /// The thing: a layout, word, code, handle or constant.
    pub of: String,
    /// The name of the headers.
    pub header: String,
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

    /// Whether a function returns a status of the failures.
    pub fn returns_status(&self, function: &Function) -> bool {
        let code = self.failures.as_ref().map(|failures| LayoutType::Layout(failures.code.clone()));
        code.is_none() || function.result == code
    }

    /// The functions of all libraries.
    pub fn symbols(&self) -> impl Iterator<Item = &Symbol> {
        self.libraries.iter().flat_map(|library| &library.symbols)
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
