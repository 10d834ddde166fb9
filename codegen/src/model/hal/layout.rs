//! Binary layouts: structs at fixed offsets, shared with code that the runtime did not compile.

use super::{Int, SpecFile};
use crate::diag::{Diagnostics, Origin};

/// A struct with fixed offsets.
#[derive(Clone, Debug)]
pub struct Layout {
    /// `dispatch_state`
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// Alignment in bytes.
    pub align: u64,
    /// True if it is read from the bytes of a file; it then has only little-endian integers.
    pub readable: bool,
    /// What it describes.
    pub doc: String,
    /// Its fields in the order of their offsets.
    pub fields: Vec<LayoutField>,
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
    /// What stands there.
    pub ty: LayoutType,
    /// How many stand there; none for one.
    pub count: Option<u64>,
    /// What it means.
    pub doc: String,
    /// Where it is declared.
    pub origin: Origin,
}

/// What stands at an offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayoutType {
    /// An integer.
    Int(Int),
    /// A pointer; `mutable` if the other side writes through it.
    Pointer {
        /// What it points to.
        to: Box<LayoutType>,
        /// True for `mut`.
        mutable: bool,
    },
    /// Memory of no known type; only behind a pointer.
    Void,
    /// A nullable function pointer.
    Function(String),
    /// An embedded layout.
    Layout(String),
}

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

    /// Size and alignment on a 64-bit machine, if all names it refers to are declared in `file`.
    fn measure(&self, file: &SpecFile) -> Option<(u64, u64)> {
        match self {
            LayoutType::Int(int) => Some((int.size(), int.size())),
            LayoutType::Pointer { to, .. } => {
                let known = matches!(**to, LayoutType::Void) || to.measure(file).is_some();
                known.then_some((8, 8))
            }
            LayoutType::Void => None,
            LayoutType::Function(name) => file.functions.iter().any(|item| item.name == *name).then_some((8, 8)),
            LayoutType::Layout(name) => {
                file.layouts.iter().find(|item| item.name == *name).map(|item| (item.size, item.align))
            }
        }
    }
}

/// The type of a native function.
#[derive(Clone, Debug)]
pub struct Function {
    /// `dispatch`
    pub name: String,
    /// What it does.
    pub doc: String,
    /// Names and types of its arguments.
    pub args: Vec<(String, LayoutType)>,
    /// What it returns, if anything.
    pub result: Option<LayoutType>,
    /// Where it is declared.
    pub origin: Origin,
}

impl Layout {
    /// Checks that the offsets are those that `repr(C)` gives; what lies between fields must be declared.
    pub(super) fn check(&self, file: &SpecFile, diagnostics: &mut Diagnostics) {
        let (mut end, mut align, mut misplaced) = (0u64, 1u64, false);
        for field in &self.fields {
            let Some((size, field_align)) = field.ty.measure(file) else {
                diagnostics
                    .error(&field.origin, format!("field `{}`: its type is not declared in this file", field.name));
                return;
            };
            if self.readable && !matches!(field.ty, LayoutType::Int(_)) {
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
        // The size follows from the places, so it is not worth a word while those are wrong.
        if misplaced {
            return;
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
    }
}
