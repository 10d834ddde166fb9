//! Element types of lists, and [`Element`]: one element, which converts to the type that it is read or stored as.
//! `list/mod.rs` and hosts use them.

use std::fmt;

pub use crate::generated::names::list_elements::ElementType;
use crate::object::Ref;
use crate::value::Value;

/// The element type of a list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ListType {
    /// Values of one type.
    Value(ElementType),
    /// References to objects of the type with this name (without the `!`), or null.
    Ref(String),
    /// Anything: each element has its own type, and none until it is set.
    Variant,
}

impl ListType {
    /// Bytes of memory that one element takes.
    pub fn element_bytes(&self) -> usize {
        match self {
            ListType::Value(ElementType::I8) => size_of::<i8>(),
            ListType::Value(ElementType::I16) => size_of::<i16>(),
            ListType::Value(ElementType::I32 | ElementType::F32) => size_of::<i32>(),
            ListType::Value(ElementType::I64 | ElementType::F64) => size_of::<i64>(),
            ListType::Ref(_) => size_of::<Option<Ref>>(),
            ListType::Variant => size_of::<Element>(),
        }
    }
}

impl fmt::Display for ListType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListType::Value(element) => f.write_str(element.name()),
            ListType::Ref(name) => write!(f, "!{name}"),
            ListType::Variant => f.write_str("?"),
        }
    }
}

/// One element.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Element {
    /// Never set.
    #[default]
    None,
    /// 8-bit integer.
    I8(i8),
    /// 16-bit integer.
    I16(i16),
    /// 32-bit integer.
    I32(i32),
    /// 64-bit integer.
    I64(i64),
    /// 32-bit float.
    F32(f32),
    /// 64-bit float.
    F64(f64),
    /// A reference, or null.
    Ref(Option<Ref>),
}

impl Element {
    /// The type, if the element is a value.
    pub(super) fn value_type(&self) -> Option<ElementType> {
        Some(match self {
            Element::I8(_) => ElementType::I8,
            Element::I16(_) => ElementType::I16,
            Element::I32(_) => ElementType::I32,
            Element::I64(_) => ElementType::I64,
            Element::F32(_) => ElementType::F32,
            Element::F64(_) => ElementType::F64,
            Element::None | Element::Ref(_) => return None,
        })
    }

    /// The value as `target`: integers convert among each other by sign extension or truncation, floats by rounding;
    /// between the two classes there is no conversion and the result is zero. None if this is not a value.
    pub fn convert(&self, target: ElementType) -> Option<Element> {
        let integer = match self {
            Element::I8(value) => Some(i64::from(*value)),
            Element::I16(value) => Some(i64::from(*value)),
            Element::I32(value) => Some(i64::from(*value)),
            Element::I64(value) => Some(*value),
            Element::F32(_) | Element::F64(_) => None,
            Element::None | Element::Ref(_) => return None,
        };
        Some(match target {
            ElementType::I8 => Element::I8(integer.unwrap_or(0) as i8),
            ElementType::I16 => Element::I16(integer.unwrap_or(0) as i16),
            ElementType::I32 => Element::I32(integer.unwrap_or(0) as i32),
            ElementType::I64 => Element::I64(integer.unwrap_or(0)),
            ElementType::F32 => Element::F32(match self {
                Element::F32(value) => *value,
                Element::F64(value) => *value as f32,
                _ => 0.0,
            }),
            ElementType::F64 => Element::F64(match self {
                Element::F32(value) => f64::from(*value),
                Element::F64(value) => *value,
                _ => 0.0,
            }),
        })
    }
}

impl From<Value> for Element {
    fn from(value: Value) -> Element {
        match value {
            Value::I32(value) => Element::I32(value),
            Value::I64(value) => Element::I64(value),
            Value::F32(value) => Element::F32(value),
            Value::F64(value) => Element::F64(value),
            Value::Ref(value) => Element::Ref(value),
        }
    }
}
