//! Values of calls: arguments and results of exports and callees with their types, and what functions in Rust get for
//! them.

use super::convention::Kind;

/// One argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arg {
    /// One value.
    One(Field),
    /// Any number of tuples.
    Span {
        /// Name of the argument.
        name: String,
        /// The fields of one tuple.
        fields: Vec<Field>,
    },
}

/// A value with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// True if it is a reference that may be null.
    pub nullable: bool,
    /// The type that functions in Rust get instead of the plain value, if any.
    pub meaning: Option<Meaning>,
}

/// The meaning of a value (`as`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// An `i32` that is false if it is zero.
    Bool,
    /// A `vm.buffer` that holds UTF-8.
    Text,
    /// A `hal.fence`, of which the points on timelines are meant; null has none.
    Timepoints,
    /// A number of `spec/hal`: a `bits`, `enum`, `code` or `handle` of this name.
    Number(String),
}

impl Meaning {
    pub(super) fn from_name(name: &str) -> Meaning {
        match name {
            "bool" => Meaning::Bool,
            "text" => Meaning::Text,
            "timepoints" => Meaning::Timepoints,
            name => Meaning::Number(name.to_string()),
        }
    }

    /// How it is written.
    pub fn name(&self) -> &str {
        match self {
            Meaning::Bool => "bool",
            Meaning::Text => "text",
            Meaning::Timepoints => "timepoints",
            Meaning::Number(name) => name,
        }
    }

    /// The type of the values that can have it; `check` refines it for numbers.
    pub(super) fn is_of(&self, ty: &Type) -> bool {
        match self {
            Meaning::Bool => *ty == Type::Number(Kind::I32),
            Meaning::Text => matches!(ty, Type::Object(name) if name == "vm.buffer"),
            Meaning::Timepoints => matches!(ty, Type::Object(name) if name == "hal.fence"),
            Meaning::Number(_) => matches!(ty, Type::Number(Kind::I32 | Kind::I64)),
        }
    }
}

/// Type of a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Type {
    /// A number.
    Number(Kind),
    /// A reference to an object of any type.
    Ref,
    /// A reference to an object of the named type.
    Object(String),
}

impl Type {
    /// How a value of this type crosses a call.
    pub fn kind(&self) -> Kind {
        match self {
            Type::Number(kind) => *kind,
            Type::Ref | Type::Object(_) => Kind::Ref,
        }
    }
}
