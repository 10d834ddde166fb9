//! Binary layouts: structs at fixed offsets, shared with code that the runtime did not compile.

use std::fmt;

use crate::diag::{Diagnostics, Origin};
use crate::model::int::Int;

/// A struct with fixed offsets.
#[derive(Clone, Debug)]
pub struct Layout {
    /// `dispatch_state`
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// Alignment in bytes.
    pub align: u64,
    /// True if it is read from bytes; it then has only little-endian integers.
    pub readable: bool,
    /// True if it can be converted to bytes and text; it is readable then.
    pub writable: bool,
    /// True if its alignment exceeds that of its fields.
    pub over_aligned: bool,
    /// Its documentation.
    pub doc: String,
    /// Its fields in the order of their offsets.
    pub fields: Vec<LayoutField>,
    /// The parts that follow it, in their order.
    pub then: Vec<Trailing>,
    /// Where it is declared.
    pub origin: Origin,
}

/// A part that follows a layout: as many elements or bytes as one of its fields says.
#[derive(Clone, Debug)]
pub struct Trailing {
    /// `wait`
    pub name: String,
    /// The type of an element; none for bytes.
    pub part: Option<LayoutType>,
    /// The field that has the number of elements or bytes.
    pub count: String,
    /// The layout that bytes begin with, if there are any.
    pub holds: Option<String>,
    /// Its documentation.
    pub doc: String,
    /// Where it is declared.
    pub origin: Origin,
}

/// A field at an offset.
#[derive(Clone, Debug)]
pub struct LayoutField {
    /// `workgroup_size_x`
    pub name: String,
    /// Bytes from the start.
    pub offset: u64,
    /// Its type.
    pub ty: LayoutType,
    /// The length of an array; none for a single value.
    pub count: Option<u64>,
    /// True if people read it in hexadecimal.
    pub hex: bool,
    /// Its documentation.
    pub doc: String,
    /// Where it is declared.
    pub origin: Origin,
}

/// The type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayoutType {
    /// An integer.
    Int(Int),
    /// A pointer; `mutable` if the other side writes through it.
    Pointer {
        /// The target of the pointer.
        to: Box<LayoutType>,
        /// True for `mut`.
        mutable: bool,
    },
    /// Memory of unknown type; only as the target of a pointer.
    Void,
    /// A nullable function pointer.
    Function(String),
    /// Something declared by name: an embedded layout or, where the specs of a folder have them, a number with names, a
    /// handle or a word of bit fields.
    Layout(String),
}

/// How much room a declared type takes on a 64-bit machine.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// Bytes.
    pub size: u64,
    /// Alignment in bytes.
    pub align: u64,
    /// True if it can be read from bytes: it has only integers.
    pub plain: bool,
}

/// Resolves the names in a `Function` or a `Layout`.
pub(crate) type Declared<'a> = &'a dyn Fn(&LayoutType) -> Option<Measure>;

impl LayoutType {
    /// Parses `u32`, `ptr u8`, `mut void`, `ptr fn dispatch`, `exports`.
    pub fn parse(text: &str) -> Option<LayoutType> {
        let text = text.trim();
        if let Some(int) = Int::from_name(text) {
            return Some(LayoutType::Int(int));
        }
        match text.split_once(' ') {
            Some((word @ ("ptr" | "mut"), rest)) => {
                Some(LayoutType::Pointer { to: Box::new(LayoutType::parse(rest)?), mutable: word == "mut" })
            }
            Some(("fn", rest)) if !rest.contains(' ') => Some(LayoutType::Function(rest.to_string())),
            Some(_) => None,
            None if text == "void" => Some(LayoutType::Void),
            None => Some(LayoutType::Layout(text.to_string())),
        }
    }

    /// The name that it refers to, itself or through pointers.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            LayoutType::Pointer { to, .. } => to.name(),
            LayoutType::Function(name) | LayoutType::Layout(name) => Some(name),
            LayoutType::Int(_) | LayoutType::Void => None,
        }
    }

    /// Its measure, if all names it refers to are declared.
    pub(crate) fn measure(&self, declared: Declared<'_>) -> Option<Measure> {
        const POINTER: Measure = Measure { size: 8, align: 8, plain: false };
        match self {
            LayoutType::Int(int) => Some(Measure { size: int.size(), align: int.size(), plain: true }),
            LayoutType::Pointer { to, .. } => {
                let known = matches!(**to, LayoutType::Void) || to.measure(declared).is_some();
                known.then_some(POINTER)
            }
            LayoutType::Void => None,
            LayoutType::Function(_) => declared(self).and(Some(POINTER)),
            LayoutType::Layout(_) => declared(self),
        }
    }
}

impl fmt::Display for LayoutType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutType::Int(int) => f.write_str(int.name()),
            LayoutType::Pointer { to, mutable } => write!(f, "{} {to}", if *mutable { "mut" } else { "ptr" }),
            LayoutType::Void => f.write_str("void"),
            LayoutType::Function(name) => write!(f, "fn {name}"),
            LayoutType::Layout(name) => f.write_str(name),
        }
    }
}

/// The type of a native function.
#[derive(Clone, Debug)]
pub struct Function {
    /// `dispatch`
    pub name: String,
    /// Its documentation.
    pub doc: String,
    /// Names and types of its arguments.
    pub args: Vec<(String, LayoutType)>,
    /// Its result, if it has one.
    pub result: Option<LayoutType>,
    /// Where it is declared.
    pub origin: Origin,
}

impl Layout {
    /// Checks that the offsets are those that `repr(C)` gives; padding must be declared.
    /// `known` are the names that types may have.
    pub(crate) fn check(&self, declared: Declared<'_>, known: &[&str], place: &str, diagnostics: &mut Diagnostics) {
        let (mut end, mut align, mut misplaced) = (0u64, 1u64, false);
        for field in &self.fields {
            let Some(Measure { size, align: field_align, plain }) = field.ty.measure(declared) else {
                let message = format!("field `{}`: its type `{}` is not declared in {place}", field.name, field.ty);
                diagnostics.unknown(&field.origin, field.ty.name().unwrap_or_default(), message, known.iter().copied());
                return;
            };
            if self.readable && !plain {
                let message = format!("field `{}`: a readable layout has only integers", field.name);
                diagnostics.error(&field.origin, message);
            }
            let expected = end.next_multiple_of(field_align);
            misplaced |= field.offset != expected;
            if field.offset < end {
                let message = format!(
                    "field `{}` at {} overlaps the field before it, which ends at {end}",
                    field.name, field.offset
                );
                diagnostics.error(&field.origin, message);
            } else if field.offset != expected {
                let message = format!(
                    "field `{}` at {}: expected {expected}; declare what lies between",
                    field.name, field.offset
                );
                diagnostics.error(&field.origin, message);
            }
            end = field.offset.saturating_add(size.saturating_mul(field.count.unwrap_or(1)));
            align = align.max(field_align);
        }
        // The size follows from the offsets, so it is not reported while those are wrong.
        if misplaced {
            return;
        }
        if self.over_aligned && self.align > align && self.align.is_power_of_two() {
            align = self.align;
        }
        if self.writable && !self.readable {
            diagnostics.error(&self.origin, "a writable layout is readable too");
        }
        if self.align != align || self.size != end.next_multiple_of(align) {
            let message = format!(
                "size {} and alignment {}: the fields make {} and {align}",
                self.size,
                self.align,
                end.next_multiple_of(align)
            );
            diagnostics.error(&self.origin, message);
        }
        self.check_then(declared, diagnostics);
    }

    /// Checks the parts that follow: a single integer counts them, and elements are integers or readable layouts.
    fn check_then(&self, declared: Declared<'_>, diagnostics: &mut Diagnostics) {
        for part in &self.then {
            let counts =
                self.fields.iter().filter(|field| matches!(field.ty, LayoutType::Int(_)) && field.count.is_none());
            if !counts.clone().any(|field| field.name == part.count) {
                let message = format!("`{}`: there is no integer `{}` that counts it", part.name, part.count);
                let known = counts.map(|field| field.name.as_str());
                diagnostics.unknown(&part.origin, &part.count, message, known);
            }
            if self.then.iter().filter(|other| other.name == part.name).count() > 1 {
                diagnostics.error(&part.origin, format!("two parts are called `{}`", part.name));
            }
            let held = part.holds.clone().map(LayoutType::Layout);
            for ty in part.part.iter().chain(&held) {
                if !ty.measure(declared).is_some_and(|measure| measure.plain) {
                    let message = format!("`{}`: `{ty}` is no integer and no readable layout", part.name);
                    diagnostics.unknown(&part.origin, ty.name().unwrap_or_default(), message, []);
                }
            }
        }
        if !self.then.is_empty() && !self.writable {
            diagnostics.error(&self.origin, "parts follow a writable layout alone");
        }
    }

    /// The fields that count the parts that follow.
    pub fn counts(&self) -> impl Iterator<Item = &str> {
        self.then.iter().map(|part| part.count.as_str())
    }
}
