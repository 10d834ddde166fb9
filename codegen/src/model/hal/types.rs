//! Objects of the hardware abstraction layer, the numbers and structs they exchange, and what is found by name among
//! them. The reader and the checks of `spec/hal/` use these types, and so does every emitter of the HAL.

use serde::Deserialize;

use super::kind::Shape;
use super::layout::{Function, Layout};
use super::option::DeviceOption;
use super::rules::Rules;
use crate::diag::Origin;
use crate::model::constant::Constant;
use crate::model::int::Int;

/// Every entry of `spec/hal/`.
#[derive(Clone, Debug, Default)]
pub struct Hal {
    /// The files, in the order of their paths.
    pub files: Vec<SpecFile>,
}

/// The entries of one file.
#[derive(Clone, Debug, Default)]
pub struct SpecFile {
    /// `device` for `spec/hal/device.yaml`.
    pub stem: String,
    /// Constants.
    pub constants: Vec<Constant>,
    /// Enums, bit sets and open sets of numbers.
    pub numbers: Vec<Numbers>,
    /// Identifiers without a meaning of their own.
    pub handles: Vec<Handle>,
    /// Structs that methods exchange.
    pub structs: Vec<Struct>,
    /// The object that the file describes, if it describes one.
    pub object: Option<Object>,
    /// Binary layouts.
    pub layouts: Vec<Layout>,
    /// Types of native functions.
    pub functions: Vec<Function>,
    /// Processor state that an operating system must have enabled.
    pub cpu_states: Vec<CpuState>,
    /// Processor features and their bits.
    pub cpu_features: Vec<CpuFeature>,
    /// Features of 64-bit Arm processors and their bits.
    pub arm_features: Vec<ArmFeature>,
    /// Options of the device that the file is about.
    pub options: Vec<DeviceOption>,
}

/// How a set of named numbers is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One of the values.
    Enum,
    /// Any union of the values.
    Bits,
    /// Any union of bits, named or not.
    OpenBits,
    /// Any number; some have names.
    Code,
}

/// A set of named numbers.
#[derive(Clone, Debug)]
pub struct Numbers {
    /// `memory_type`
    pub name: String,
    /// The form of the set of values.
    pub form: Form,
    /// The type that holds them.
    pub int: Int,
    /// Its documentation.
    pub doc: String,
    /// The named values.
    pub values: Vec<NamedValue>,
    /// Where it is declared.
    pub origin: Origin,
}

/// One of a set of named numbers.
#[derive(Clone, Debug)]
pub struct NamedValue {
    /// `host_visible`
    pub name: String,
    /// Its number.
    pub value: u64,
    /// How tools print it, if not by its name.
    pub text: Option<String>,
    /// The prefix of the names of types of its class.
    pub prefix: Option<String>,
    /// The sentence that stands for it, where it is a status.
    pub message: Option<String>,
    /// The format of a float that is narrower than binary32 and has a sign.
    pub float: Option<NarrowFloat>,
    /// Its documentation.
    pub doc: String,
}

/// The bits of a float after its sign, and what it has besides numbers.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NarrowFloat {
    /// Bits of the exponent.
    pub exponent: u8,
    /// Bits of the mantissa.
    pub mantissa: u8,
    /// The values it has besides numbers.
    pub specials: Specials,
}

impl NarrowFloat {
    /// Whether it is one: exponents fit those of binary32, and all bits 16.
    pub(crate) fn is_narrow(self) -> bool {
        let NarrowFloat { exponent, mantissa, .. } = self;
        (2..=8).contains(&exponent) && mantissa > 0 && u32::from(exponent) + u32::from(mantissa) < 16
    }
}

/// The values that a float has besides numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Specials {
    /// Infinities, NaNs and a negative zero, as IEEE 754 has them.
    Ieee,
    /// NaNs, and finite values instead of infinities.
    Fn,
    /// One NaN instead of the negative zero, and finite values instead of infinities.
    Fnuz,
}

/// An identifier without a meaning of its own.
#[derive(Clone, Debug)]
pub struct Handle {
    /// `executable_function`
    pub name: String,
    /// The type that holds it.
    pub int: Int,
    /// Its documentation.
    pub doc: String,
    /// Where it is declared.
    pub origin: Origin,
}

/// A struct that methods exchange.
#[derive(Clone, Debug)]
pub struct Struct {
    /// `buffer_params`
    pub name: String,
    /// Its documentation.
    pub doc: String,
    /// Its fields.
    pub fields: Vec<Field>,
    /// Where it is declared.
    pub origin: Origin,
}

/// A field of a struct, or an argument of a method.
#[derive(Clone, Debug)]
pub struct Field {
    /// `queue_affinity`
    pub name: String,
    /// Its type.
    pub shape: Shape,
    /// Its documentation; may be empty for an argument whose name explains it.
    pub doc: String,
    /// The rules that callers must keep; arguments alone have some.
    pub rules: Option<Rules>,
    /// Values of `memory_access`: what an operation of a queue does to the memory of the argument, where that is not
    /// the access that the rules ask for.
    pub accesses: Vec<String>,
}

impl Field {
    /// Values of `memory_access`: what an operation of a queue does to the memory of the argument.
    pub fn accesses(&self) -> &[String] {
        match &self.rules {
            Some(rules) if self.accesses.is_empty() => &rules.access,
            _ => &self.accesses,
        }
    }
}

/// An object of the HAL.
#[derive(Clone, Debug)]
pub struct Object {
    /// `command_buffer`
    pub name: String,
    /// Its number in the interface between libraries; 0 for a concrete object, which crosses none.
    pub id: u32,
    /// The reference type of programs, such as `hal.command_buffer`; none if programs never see it.
    pub vm_type: Option<String>,
    /// True if there is one implementation, which the runtime contains, and hence no trait.
    pub concrete: bool,
    /// The object whose methods this one has too, if there is one. They come first.
    pub extends: Option<String>,
    /// The Rust traits that it may implement in addition, for code of the runtime.
    pub facets: Vec<Facet>,
    /// True if observers of devices number it without wrapping it.
    pub bare: bool,
    /// Its documentation.
    pub doc: String,
    /// Its methods in slot order.
    pub methods: Vec<Method>,
    /// Where it is declared.
    pub origin: Origin,
}

/// A Rust trait that objects may have besides their methods. Only code of the runtime uses it, so it has no slot.
#[derive(Clone, Debug)]
pub struct Facet {
    /// `host_kernels`; the trait, or the type of a part, is called like it.
    pub name: String,
    /// True if it is a part of the object and no object of its own: it is borrowed.
    pub part: bool,
    /// Its documentation.
    pub doc: String,
}

/// A method of an object. Its slot is its index.
#[derive(Clone, Debug)]
pub struct Method {
    /// `queue_alloca`
    pub name: String,
    /// Its documentation.
    pub doc: String,
    /// The reason for which it fails.
    pub errors: Option<String>,
    /// The guarantee of the caller; only methods that are not safe have it.
    pub safety: Option<String>,
    /// Its arguments.
    pub args: Vec<Field>,
    /// Its result, if it has one.
    pub result: Option<Shape>,
    /// True if it cannot fail.
    pub infallible: bool,
    /// Of a method that records: the categories of commands that the command buffer must hold.
    pub recorded: Option<Vec<String>>,
    /// Of an operation of a queue: its name as a value, `fill`. Its first arguments are those of [`POINTS`].
    pub operation: Option<String>,
    /// The default of an implementation that omits it; none if it is required.
    pub default: Option<DefaultBody>,
    /// Where it is declared.
    pub origin: Origin,
}

/// The first arguments of every operation of a queue: the queue, and the points that it waits for and signals.
pub const POINTS: [&str; 3] = ["queue_affinity", "wait", "signal"];

impl Method {
    /// The arguments of an operation besides the queue and the points.
    pub fn operands(&self) -> &[Field] {
        self.args.get(POINTS.len()..).unwrap_or_default()
    }
}

/// The behaviour of an omitted method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultBody {
    /// It fails with UNIMPLEMENTED, naming the method.
    Unimplemented,
    /// Its result is zero, false, empty or null.
    Zero,
}

/// Processor state that an operating system must have enabled before features work that use it.
#[derive(Clone, Debug)]
pub struct CpuState {
    /// `ymm`
    pub name: String,
    /// Bits of the extended control register that must be set.
    pub mask: u32,
    /// Its documentation.
    pub doc: String,
    /// Where it is declared.
    pub origin: Origin,
}

/// A processor feature.
#[derive(Clone, Debug)]
pub struct CpuFeature {
    /// The name that programs query, `avx512f`.
    pub name: String,
    /// The word of the processor data and the bit in it of the feature, if it is visible to programs.
    pub place: Option<(u8, u8)>,
    /// Where the processor reports it.
    pub cpuid: Cpuid,
    /// Index into the list of states, if it needs one.
    pub state: Option<usize>,
    /// Its documentation.
    pub doc: String,
    /// Where it is declared.
    pub origin: Origin,
}

/// A feature of 64-bit Arm processors.
#[derive(Clone, Debug)]
pub struct ArmFeature {
    /// The name that programs query, `dotprod`.
    pub name: String,
    /// The word of the processor data and the bit in it of the feature.
    pub place: (u8, u8),
    /// The word of the capabilities that Linux reports, 0 for `AT_HWCAP` and 1 for `AT_HWCAP2`, and the bit in it.
    pub hwcap: (u8, u8),
    /// Its documentation.
    pub doc: String,
    /// Where it is declared.
    pub origin: Origin,
}

/// A bit that the `cpuid` instruction reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpuid {
    /// The leaf, in `eax`.
    pub leaf: u32,
    /// The subleaf, in `ecx`.
    pub subleaf: u32,
    /// `eax`, `ebx`, `ecx` or `edx`.
    pub register: String,
    /// The bit in that register.
    pub bit: u8,
}

impl Object {
    /// The methods that submit an operation to a queue.
    pub fn operations(&self) -> impl Iterator<Item = &Method> {
        self.methods.iter().filter(|method| method.operation.is_some())
    }
}

impl Hal {
    /// Every object, in the order of the files.
    pub fn objects(&self) -> impl Iterator<Item = &Object> {
        self.files.iter().filter_map(|file| file.object.as_ref())
    }

    /// The methods of a device, and of the objects that it makes, that it need not have.
    pub fn optional_methods(&self) -> Vec<(&Object, &Method)> {
        let made = self.made_by_devices();
        let methods = made.into_iter().flat_map(|object| object.methods.iter().map(move |method| (object, method)));
        methods.filter(|(_, method)| method.default == Some(DefaultBody::Unimplemented)).collect()
    }

    /// The object called `name`.
    pub fn object(&self, name: &str) -> Option<&Object> {
        self.objects().find(|object| object.name == name)
    }

    /// The enum, bits or code called `name`.
    pub fn numbers(&self, name: &str) -> Option<&Numbers> {
        self.files.iter().flat_map(|file| &file.numbers).find(|numbers| numbers.name == name)
    }

    /// The handle called `name`.
    pub fn handle(&self, name: &str) -> Option<&Handle> {
        self.files.iter().flat_map(|file| &file.handles).find(|handle| handle.name == name)
    }

    /// The methods of an object in slot order, those of the object it extends first, each with the object that declares
    /// it.
    pub fn slots<'a>(&'a self, object: &'a Object) -> Vec<(&'a Object, &'a Method)> {
        let base = object.extends.as_ref().and_then(|name| self.object(name));
        let of = |object: &'a Object| object.methods.iter().map(move |method| (object, method));
        base.into_iter().flat_map(of).chain(of(object)).collect()
    }

    /// The struct called `name`.
    pub fn structure(&self, name: &str) -> Option<&Struct> {
        self.files.iter().flat_map(|file| &file.structs).find(|structure| structure.name == name)
    }

    /// The file `stem`.yaml, empty if there is none.
    pub fn file(&self, stem: &str) -> SpecFile {
        self.files.iter().find(|file| file.stem == stem).cloned().unwrap_or_default()
    }

    /// The name and type of everything that is one number: sets of named numbers, and handles, of the interface.
    pub fn integers(&self) -> impl Iterator<Item = (&str, Int)> {
        self.files.iter().filter(|file| file.is_interface()).flat_map(|file| {
            let numbers = file.numbers.iter().map(|numbers| (numbers.name.as_str(), numbers.int));
            numbers.chain(file.handles.iter().map(|handle| (handle.name.as_str(), handle.int)))
        })
    }
}

/// The files that describe the contents of executables, not types that objects exchange.
const CONTENTS: [&str; 2] = ["local_task", "vmvx"];

impl SpecFile {
    /// Whether the file describes types that objects exchange.
    pub fn is_interface(&self) -> bool {
        self.layouts.is_empty() && !CONTENTS.contains(&self.stem.as_str())
    }

    /// Every name that another entry may refer to, with the position of its declaration.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&str, &Origin)> {
        let numbers = self.numbers.iter().map(|item| (item.name.as_str(), &item.origin));
        let handles = self.handles.iter().map(|item| (item.name.as_str(), &item.origin));
        let structs = self.structs.iter().map(|item| (item.name.as_str(), &item.origin));
        let objects = self.object.iter().map(|item| (item.name.as_str(), &item.origin));
        let layouts = self.layouts.iter().map(|item| (item.name.as_str(), &item.origin));
        let functions = self.functions.iter().map(|item| (item.name.as_str(), &item.origin));
        numbers.chain(handles).chain(structs).chain(objects).chain(layouts).chain(functions)
    }
}

/// `queue_affinity` to `QueueAffinity`.
pub fn type_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for word in name.split('_') {
        let mut characters = word.chars();
        out.extend(characters.next().map(|first| first.to_ascii_uppercase()));
        out.push_str(characters.as_str());
    }
    out
}
