//! The text of arguments and results of observed calls. Structs are written field by field, as the generated `calls`
//! lists them; here are the values that those are made of, and the few structs with a form of their own:
//! `semaphore#1@5`, `buffer#2[0..64]`, `slot 0[0..64]`.
//!
//! The text is the same in each run that makes the same calls: addresses, times and contents of memory are not in it.

use crate::visible_text::visible;
use std::any::Any;
use std::fmt::{self, Write};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

use super::observation::{Known, Observation};
use crate::hal::{Buffer, BufferBinding, BufferRef, Timepoint, WHOLE_BUFFER};
use crate::status::Status;

/// Items of a list that are written.
const MAX_ITEMS: usize = 64;
/// Bytes that are written out: as many as a pattern has, or a few constants.
const MAX_BYTES: usize = 16;

/// Text that is being written.
pub(crate) struct Text<'a> {
    observation: &'a Observation,
    text: String,
    /// Whether something was written that the next name has to be told apart from.
    is_separated: bool,
}

impl<'a> Text<'a> {
    pub(crate) fn new(observation: &'a Observation) -> Text<'a> {
        Text { observation, text: String::new(), is_separated: false }
    }

    pub(crate) fn into_string(self) -> String {
        self.text
    }

    pub(crate) fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub(crate) fn write(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.text.write_fmt(text);
    }

    /// `name=value`, with a comma before it if it is not the first.
    pub(crate) fn named<S: Show + ?Sized>(&mut self, name: &str, value: &S) {
        if std::mem::replace(&mut self.is_separated, true) {
            self.push(", ");
        }
        self.write(format_args!("{name}="));
        value.show(self);
    }

    /// `{...}`
    pub(crate) fn braces(&mut self, write: impl FnOnce(&mut Self)) {
        let outside = std::mem::replace(&mut self.is_separated, false);
        self.push("{");
        write(self);
        self.push("}");
        self.is_separated = outside;
    }

    /// `semaphore#3`
    pub(crate) fn object<T: Known + ?Sized>(&mut self, object: &Arc<T>) {
        let id = self.observation.id(object);
        self.write(format_args!("{id}"));
    }

    /// `buffer#2[0..64]`, within the allocation that the buffer is part of. A buffer of which all is meant stands
    /// without a range.
    fn buffer(&mut self, buffer: &Arc<dyn Buffer>, range: Option<(u64, u64)>) {
        let knows = |allocation: &Arc<dyn Buffer>| <dyn Buffer>::table(&self.observation.tables).knows(allocation);
        let (whole, start) = match buffer.allocation().filter(knows) {
            Some(allocation) => (allocation, buffer.byte_offset()),
            None => (buffer.clone(), 0),
        };
        let is_part = !Arc::ptr_eq(&whole, buffer);
        self.object(&whole);
        let (offset, length) = match range {
            Some(range) => range,
            None if is_part => (0, WHOLE_BUFFER),
            None => return,
        };
        let begin = start.saturating_add(offset);
        let end = match length {
            WHOLE_BUFFER => start.saturating_add(buffer.byte_length()),
            length => begin.saturating_add(length),
        };
        self.write(format_args!("[{begin}..{end}]"));
    }

    /// The range of a buffer, or of a slot.
    fn range(&mut self, buffer: Option<&Arc<dyn Buffer>>, slot: u32, (offset, length): (u64, u64)) {
        match (buffer, length) {
            (Some(buffer), _) => self.buffer(buffer, Some((offset, length))),
            (None, WHOLE_BUFFER) => self.write(format_args!("slot {slot}[{offset}..]")),
            (None, length) => self.write(format_args!("slot {slot}[{offset}..{}]", offset.saturating_add(length))),
        }
    }
}

/// A value with a text.
pub(crate) trait Show {
    fn show(&self, text: &mut Text<'_>);

    /// `[1, 2, 3]`
    fn show_list(list: &[Self], text: &mut Text<'_>)
    where
        Self: Sized,
    {
        text.push("[");
        for (index, item) in list.iter().take(MAX_ITEMS).enumerate() {
            if index > 0 {
                text.push(", ");
            }
            item.show(text);
        }
        if list.len() > MAX_ITEMS {
            text.write(format_args!(", ... {} in all", list.len()));
        }
        text.push("]");
    }
}

macro_rules! numbers {
    ($($number:ident),*) => {
        $(impl Show for $number {
            fn show(&self, text: &mut Text<'_>) {
                text.write(format_args!("{self}"));
            }
        })*
    };
}

numbers!(bool, u16, u32, i32, i64);

impl Show for u64 {
    fn show(&self, text: &mut Text<'_>) {
        match *self {
            // It stands for all there is wherever it is allowed.
            u64::MAX => text.push("max"),
            number => text.write(format_args!("{number}")),
        }
    }
}

impl Show for u8 {
    fn show(&self, text: &mut Text<'_>) {
        text.write(format_args!("{self}"));
    }

    /// `[00 ff]`, or how many there are.
    fn show_list(list: &[u8], text: &mut Text<'_>) {
        if list.len() > MAX_BYTES {
            return text.write(format_args!("{} bytes", list.len()));
        }
        let bytes: Vec<String> = list.iter().map(|byte| format!("{byte:02x}")).collect();
        text.write(format_args!("[{}]", bytes.join(" ")));
    }
}

impl Show for str {
    fn show(&self, text: &mut Text<'_>) {
        text.write(format_args!("{self:?}"));
    }
}

impl Show for String {
    fn show(&self, text: &mut Text<'_>) {
        self.as_str().show(text);
    }
}

/// The code and the message, on one line.
impl Show for Status {
    fn show(&self, text: &mut Text<'_>) {
        text.text.push_str(&visible(&self.to_string()));
    }
}

impl Show for Instant {
    fn show(&self, text: &mut Text<'_>) {
        text.push("set");
    }
}

impl Show for NonNull<u8> {
    fn show(&self, text: &mut Text<'_>) {
        text.push("memory");
    }
}

impl Show for Arc<dyn Any + Send + Sync> {
    fn show(&self, text: &mut Text<'_>) {
        text.push("held");
    }
}

impl Show for Timepoint {
    fn show(&self, text: &mut Text<'_>) {
        text.object(&self.semaphore);
        text.push("@");
        self.value.show(text);
    }
}

impl Show for Arc<dyn Buffer> {
    fn show(&self, text: &mut Text<'_>) {
        text.buffer(self, None);
    }
}

impl Show for BufferRef {
    fn show(&self, text: &mut Text<'_>) {
        text.range(self.buffer.as_ref(), self.slot, (self.offset, self.length));
    }
}

impl Show for BufferBinding {
    fn show(&self, text: &mut Text<'_>) {
        match &self.buffer {
            Some(buffer) => text.buffer(buffer, Some((self.offset, self.length))),
            None => text.push("none"),
        }
    }
}

impl<S: Show + ?Sized> Show for &S {
    fn show(&self, text: &mut Text<'_>) {
        S::show(self, text);
    }
}

impl<S: Show> Show for Option<S> {
    fn show(&self, text: &mut Text<'_>) {
        match self {
            Some(value) => value.show(text),
            None => text.push("none"),
        }
    }
}

impl<S: Show> Show for [S] {
    fn show(&self, text: &mut Text<'_>) {
        S::show_list(self, text);
    }
}

impl<S: Show> Show for Vec<S> {
    fn show(&self, text: &mut Text<'_>) {
        S::show_list(self, text);
    }
}

impl<S: Show, const COUNT: usize> Show for [S; COUNT] {
    fn show(&self, text: &mut Text<'_>) {
        S::show_list(self, text);
    }
}
