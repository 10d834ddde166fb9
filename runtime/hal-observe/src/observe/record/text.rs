//! The text of what is recorded, as a visitor writes it. Nothing is left out of it: an update is as long as its bytes.

use std::fmt::{self, Debug, Write};

use super::keep::Unseen;
use super::visit::{Visit, Visitor};
use crate::generated::hal::records::RecordedCall;
use crate::observe::ObjectId;
use crate::status::Status;

/// The text of a value.
pub(super) fn of(value: &impl Visit) -> String {
    let mut text = Text::default();
    value.visit(&mut text);
    text.text
}

/// The arguments of a call with their names, without braces.
pub(super) fn of_arguments(call: &RecordedCall) -> String {
    let text = of(call);
    text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).map_or_else(|| text.clone(), str::to_string)
}

/// Text that is written.
#[derive(Default)]
struct Text {
    text: String,
    /// Whether the next value has to be set apart from one before it.
    is_separated: bool,
}

impl Text {
    /// Writes the beginning of a value; `is_complete` if it is all of it.
    fn push(&mut self, text: fmt::Arguments<'_>, is_complete: bool) {
        if std::mem::replace(&mut self.is_separated, is_complete) {
            self.text.push_str(", ");
        }
        // Writing to a string cannot fail.
        let _ = self.text.write_fmt(text);
    }

    fn value(&mut self, text: fmt::Arguments<'_>) {
        self.push(text, true);
    }

    fn end(&mut self, text: char) {
        self.text.push(text);
        self.is_separated = true;
    }
}

impl Visitor for Text {
    fn begin_fields(&mut self) {
        self.push(format_args!("{{"), false);
    }

    fn field(&mut self, name: &'static str) {
        self.push(format_args!("{name}="), false);
    }

    fn end_fields(&mut self) {
        self.end('}');
    }

    fn begin_list(&mut self, _length: usize) {
        self.push(format_args!("["), false);
    }

    fn end_list(&mut self) {
        self.end(']');
    }

    fn present(&mut self) {}

    fn absent(&mut self) {
        self.value(format_args!("none"));
    }

    fn flag(&mut self, value: bool) {
        self.value(format_args!("{value}"));
    }

    fn unsigned(&mut self, value: u64) {
        match value {
            // It stands for all there is wherever it is allowed.
            u64::MAX => self.value(format_args!("max")),
            value => self.value(format_args!("{value}")),
        }
    }

    fn signed(&mut self, value: i64) {
        self.value(format_args!("{value}"));
    }

    fn symbol(&mut self, _number: u64, value: &dyn Debug) {
        self.value(format_args!("{value:?}"));
    }

    fn text(&mut self, value: &str) {
        self.value(format_args!("{value:?}"));
    }

    fn bytes(&mut self, value: &[u8]) {
        let bytes: Vec<String> = value.iter().map(|byte| format!("{byte:02x}")).collect();
        self.value(format_args!("[{}]", bytes.join(" ")));
    }

    fn object(&mut self, id: ObjectId) {
        self.value(format_args!("{id}"));
    }

    fn unseen(&mut self, what: Unseen) {
        self.value(format_args!("{what:?}"));
    }

    fn status(&mut self, status: &Status) {
        self.value(format_args!("{}", status.to_string().escape_debug()));
    }
}
