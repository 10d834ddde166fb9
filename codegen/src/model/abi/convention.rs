//! Calling conventions and their notation, whose letters are entries of `spec/abi/types.yaml`. Exports derive their
//! strings with it.

use serde::Deserialize;

use crate::diag::{Diagnostics, Origin};
use crate::entry::Entry;

/// Kind of one value in a convention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A 32-bit integer.
    I32,
    /// A 64-bit integer.
    I64,
    /// A 32-bit float.
    F32,
    /// A 64-bit float.
    F64,
    /// A reference.
    Ref,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 5] = [Kind::I32, Kind::I64, Kind::F32, Kind::F64, Kind::Ref];

    /// The name that specs and Rust use: `i32`, `ref`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::I32 => "i32",
            Kind::I64 => "i64",
            Kind::F32 => "f32",
            Kind::F64 => "f64",
            Kind::Ref => "ref",
        }
    }

    /// The kind that `name` names.
    pub fn from_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A calling convention. [`Grammar::text`] is the string that module files hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Convention {
    /// Arguments in order.
    pub args: Vec<Slot>,
    /// Results in order.
    pub results: Vec<Kind>,
}

impl Convention {
    /// The kinds of the arguments, if none of them is a span.
    pub fn fixed_args(&self) -> Option<Vec<Kind>> {
        let one = |slot: &Slot| match slot {
            Slot::One(kind) => Some(*kind),
            Slot::Span(_) => None,
        };
        self.args.iter().map(one).collect()
    }
}

/// One argument of a convention.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// One value.
    One(Kind),
    /// Any number of tuples of these kinds.
    Span(Vec<Kind>),
}

/// The two letters around the fields of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bracket {
    /// Stands before the fields.
    Opens,
    /// Stands after them.
    Closes,
}

/// One letter of a convention string.
#[derive(Clone, Debug)]
pub struct Letter {
    /// The letter.
    pub letter: char,
    /// The kind of its values; none for letters that are not values.
    pub kind: Option<Kind>,
    /// The span that it opens or closes.
    pub bracket: Option<Bracket>,
    /// Number of 32-bit slots that a value takes in a frame.
    pub slots: u32,
    /// Its documentation.
    pub doc: String,
    /// Where it is declared.
    pub origin: Origin,
}

/// How conventions are written.
#[derive(Clone, Debug, Default)]
pub struct Grammar {
    /// The first character of strings: the version.
    pub version: String,
    /// The separator of arguments and results.
    pub results: String,
    /// The letters of strings.
    pub doc: String,
    /// Where that is said; none if no entry does.
    pub origin: Option<Origin>,
    /// The letters, in the order of the file.
    pub letters: Vec<Letter>,
    /// Whether letters were left out because of errors.
    has_errors: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNotation {
    convention: String,
    results: String,
    #[serde(default)]
    doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLetter {
    #[serde(rename = "type")]
    letter: char,
    name: Option<String>,
    opens: Option<String>,
    closes: Option<String>,
    #[serde(default)]
    slots: u32,
    #[serde(default)]
    doc: String,
}

impl Grammar {
    pub(super) fn read_notation(&mut self, entry: &Entry, diagnostics: &mut Diagnostics) {
        let Some(raw) = entry.parse::<RawNotation>(diagnostics) else { return };
        entry.need_doc(&raw.doc, diagnostics);
        if let Some(other) = &self.origin {
            diagnostics.error(&entry.origin, format!("the notation is already described at {other}"));
        }
        for (key, text) in [("convention", &raw.convention), ("results", &raw.results)] {
            if text.chars().count() != 1 {
                diagnostics.error(&entry.origin_of(key), format!("`{text}` is not one character"));
            }
        }
        self.version = raw.convention;
        self.results = raw.results;
        self.doc = raw.doc.split_whitespace().collect::<Vec<_>>().join(" ");
        self.origin = Some(entry.origin.clone());
    }

    pub(super) fn read_letter(&mut self, entry: &Entry, diagnostics: &mut Diagnostics) {
        let before = diagnostics.len();
        let Some(raw) = entry.parse::<RawLetter>(diagnostics) else {
            self.has_errors = true;
            return;
        };
        entry.need_doc(&raw.doc, diagnostics);
        let bracket = match (raw.opens.as_deref(), raw.closes.as_deref()) {
            (None, None) => None,
            (Some("span"), None) => Some(Bracket::Opens),
            (None, Some("span")) => Some(Bracket::Closes),
            _ => {
                diagnostics.error(&entry.origin, "expected `opens: span` or `closes: span`");
                None
            }
        };
        let kind = raw.name.as_deref().and_then(Kind::from_name);
        if let (Some(name), None) = (&raw.name, kind) {
            let message = format!("no emitter knows values of type `{name}`");
            diagnostics.unknown(&entry.origin_of("name"), name, message, Kind::ALL.map(Kind::name));
        } else if kind.is_none_or(|kind| kind == Kind::Ref) != (raw.slots == 0) {
            diagnostics.error(&entry.origin_of("slots"), "`slots` are those of a number: references are not in slots");
        }
        if diagnostics.len() > before {
            self.has_errors = true;
            return;
        }
        let letter =
            Letter { letter: raw.letter, kind, bracket, slots: raw.slots, doc: raw.doc, origin: entry.origin.clone() };
        let role = |letter: &Letter| (letter.kind, letter.bracket);
        if let Some(other) = self.letters.iter().find(|other| other.letter == letter.letter) {
            let message = format!("the letter `{}` is already described at {}", letter.letter, other.origin);
            diagnostics.error(&entry.origin, message);
        } else if let Some(other) = self.letters.iter().find(|other| role(other) == role(&letter)) {
            let message = format!("the letter `{}` at {} stands for the same", other.letter, other.origin);
            diagnostics.error(&entry.origin, message);
        }
        self.letters.push(letter);
    }

    /// The missing entry, if one is missing.
    pub(super) fn missing(&self) -> Option<String> {
        if self.has_errors {
            return None;
        }
        if self.origin.is_none() {
            return Some("which version strings start with".to_string());
        }
        let kind = Kind::ALL.into_iter().find(|kind| self.find(Some(*kind), None).is_none());
        if let Some(kind) = kind {
            return Some(format!("which letter a value of type `{}` has", kind.name()));
        }
        let roles = [
            (None, "which letter stands for an empty list"),
            (Some(Bracket::Opens), "which letter opens a span"),
            (Some(Bracket::Closes), "which letter closes a span"),
        ];
        let role = roles.into_iter().find(|(bracket, _)| self.find(None, *bracket).is_none());
        role.map(|(_, what)| what.to_string())
    }

    fn find(&self, kind: Option<Kind>, bracket: Option<Bracket>) -> Option<char> {
        let letter = self.letters.iter().find(|letter| (letter.kind, letter.bracket) == (kind, bracket));
        letter.map(|letter| letter.letter)
    }

    /// The letter of values of a kind. A spec in which one is missing is not accepted if it has modules.
    pub fn letter(&self, kind: Kind) -> char {
        self.find(Some(kind), None).unwrap_or('?')
    }

    /// The string of a convention: `0rIiiI_r`.
    pub fn text(&self, convention: &Convention) -> String {
        format!("{}{}", self.version, self.name(convention))
    }

    /// The string without its version, which is an identifier: `rIiiI_r`.
    pub fn name(&self, convention: &Convention) -> String {
        let mut text = String::new();
        for arg in &convention.args {
            match arg {
                Slot::One(kind) => text.push(self.letter(*kind)),
                Slot::Span(kinds) => {
                    text.extend(self.find(None, Some(Bracket::Opens)));
                    text.extend(kinds.iter().map(|kind| self.letter(*kind)));
                    text.extend(self.find(None, Some(Bracket::Closes)));
                }
            }
        }
        if convention.args.is_empty() {
            text.extend(self.find(None, None));
        }
        text.push_str(&self.results);
        text.extend(convention.results.iter().map(|kind| self.letter(*kind)));
        if convention.results.is_empty() {
            text.extend(self.find(None, None));
        }
        text
    }

    /// The convention without spans that a string of this kind writes, if it is one.
    pub fn parse_fixed(&self, text: &str) -> Option<Convention> {
        let body = text.strip_prefix(&self.version).filter(|_| self.origin.is_some())?;
        let (args, results) = body.split_once(&self.results).unwrap_or((body, ""));
        let nothing = self.find(None, None);
        let kinds = |text: &str| -> Option<Vec<Kind>> {
            if text.chars().eq(nothing) {
                return Some(Vec::new());
            }
            let kind = |letter: char| self.letters.iter().find(|other| other.letter == letter)?.kind;
            text.chars().map(kind).collect()
        };
        let args = kinds(args)?.into_iter().map(Slot::One).collect();
        Some(Convention { args, results: kinds(results)? })
    }
}
