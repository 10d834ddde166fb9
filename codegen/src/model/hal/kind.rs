//! The closed set of kinds that arguments, results and fields may have.

use std::collections::BTreeMap;

use crate::model::int::Int;

/// The kind of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Yes or no.
    Bool,
    /// An integer.
    Int(Int),
    /// Borrowed UTF-8.
    String,
    /// Owned UTF-8.
    Text,
    /// Borrowed bytes.
    Bytes,
    /// An address in the host process, not null.
    Pointer,
    /// Something that keeps memory alive.
    Owner,
    /// An error.
    Status,
    /// A point in time.
    Deadline,
    /// Called once with a result.
    Callback,
    /// An enum, a bit set or an open set of numbers.
    Numbers(String),
    /// An identifier.
    Handle(String),
    /// A struct.
    Struct(String),
    /// A shared object.
    Object(String),
    /// A binary layout, declared in the file `module`.yaml.
    Layout {
        /// `executable_library`
        module: String,
        /// `dispatch_state`
        name: String,
    },
}

/// A kind with its multiplicity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The kind of each value.
    pub kind: Kind,
    /// May be absent.
    pub null: bool,
    /// A run of values.
    pub list: bool,
    /// A fixed number of values; none for one.
    pub count: Option<u32>,
}

/// The position of a shape, which decides the kinds that it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Argument of a method.
    Argument,
    /// Result of a method.
    Result,
    /// Field of a struct.
    Field,
}

/// The names that kinds may refer to.
#[derive(Clone, Debug, Default)]
pub struct Names(BTreeMap<String, Kind>);

const BUILT_IN: [(&str, Kind); 9] = [
    ("bool", Kind::Bool),
    ("string", Kind::String),
    ("text", Kind::Text),
    ("bytes", Kind::Bytes),
    ("pointer", Kind::Pointer),
    ("owner", Kind::Owner),
    ("status", Kind::Status),
    ("deadline", Kind::Deadline),
    ("callback", Kind::Callback),
];

impl Names {
    /// Declares `name`.
    pub fn declare(&mut self, name: &str, kind: impl FnOnce(String) -> Kind) {
        self.0.insert(name.to_string(), kind(name.to_string()));
    }

    /// The names of all kinds but the integers.
    pub fn all(&self) -> Vec<&str> {
        BUILT_IN.iter().map(|(name, _)| *name).chain(self.0.keys().map(String::as_str)).collect()
    }

    /// The kind called `name`.
    pub fn find(&self, name: &str) -> Option<Kind> {
        let built_in = BUILT_IN.iter().find(|(built_in, _)| *built_in == name).map(|(_, kind)| kind.clone());
        built_in.or_else(|| Int::from_name(name).map(Kind::Int)).or_else(|| self.0.get(name).cloned())
    }
}

impl Shape {
    /// The mistake of a shape at `position`, if it has one.
    pub fn problem(&self, position: Position) -> Option<&'static str> {
        let plain = matches!(self.kind, Kind::Int(_) | Kind::Numbers(_) | Kind::Handle(_));
        let aggregate = plain || matches!(self.kind, Kind::Struct(_) | Kind::Object(_));
        let text = matches!(self.kind, Kind::Text) && position != Position::Argument;
        let bytes = matches!(self.kind, Kind::Bytes) && position == Position::Argument;
        if self.null && !matches!(self.kind, Kind::Object(_) | Kind::Deadline | Kind::Pointer | Kind::Owner) {
            return Some("only objects, deadlines, pointers and owners may be null");
        }
        if self.list && (!(aggregate || text || bytes) || self.null) {
            return Some(
                "a list holds integers, numbers, handles, structs or objects, as an argument bytes, else texts",
            );
        }
        if matches!(self.kind, Kind::Deadline) && !self.null {
            return Some("a deadline may be null: say so");
        }
        if matches!(self.kind, Kind::Layout { .. }) && position != Position::Argument {
            return Some("only an argument is a layout");
        }
        if self.count.is_some() && !(plain && position == Position::Field) {
            return Some("only a field of integers, numbers or handles has a count");
        }
        match position {
            Position::Argument => matches!(self.kind, Kind::Text).then_some("an argument borrows: use `string`"),
            Position::Result => matches!(
                self.kind,
                Kind::Bytes | Kind::Pointer | Kind::Owner | Kind::Status | Kind::Deadline | Kind::Callback
            )
            .then_some("a result cannot be of this kind"),
            Position::Field => {
                matches!(self.kind, Kind::String | Kind::Bytes | Kind::Status | Kind::Deadline | Kind::Callback)
                    .then_some("a struct borrows nothing: a field cannot be of this kind")
            }
        }
    }
}
