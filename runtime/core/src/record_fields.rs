//! The two forms of fields in dumps of files with records: ` label=value` for people, and members of a JSON object for
//! programs. Code that is generated from specs of formats calls them.

use std::fmt::Write as _;
use std::ops::Range;

use crate::record_file::ReadError;
use crate::visible_text::{visible, visible_json};

/// The end of a field, which cannot fail: fields are written to memory, a record at a time.
pub type Done = Result<(), ReadError>;

/// Where the fields of a payload are written.
pub trait Fields {
    /// Begins a line with text as it is.
    fn begin(&mut self, text: &str) -> Done;
    /// A value as it is.
    fn verbatim(&mut self, label: &str, value: &str) -> Done;
    /// A number.
    fn number(&mut self, label: &str, value: u64) -> Done;
    /// A number of which all digits are written.
    fn hex(&mut self, label: &str, value: u64, digits: usize) -> Done;
    /// Eight bytes as a number.
    fn word(&mut self, label: &str, value: u64) -> Done;
    /// A row of numbers.
    fn array(&mut self, label: &str, values: &[u32]) -> Done;
    /// The name of a number.
    fn name(&mut self, label: &str, name: Option<&str>) -> Done;
    /// The name of a number, and the number.
    fn named(&mut self, label: &str, name: Option<&str>, value: u64) -> Done;
    /// A place in the file.
    fn range(&mut self, label: &str, range: Range<u64>) -> Done;
    /// A number with a sign.
    fn signed(&mut self, label: &str, value: i64) -> Done;
    /// Whether something is so.
    fn flag(&mut self, label: &str, is: bool) -> Done;
    /// A text that needs no escapes, or nothing.
    fn text(&mut self, label: &str, text: Option<&str>) -> Done;
    /// A row of wide numbers.
    fn numbers(&mut self, label: &str, values: &mut dyn Iterator<Item = u64>) -> Done;
    /// Characters.
    fn string(&mut self, label: &str, bytes: &[u8]) -> Done;
    /// Begins a group of fields.
    fn open(&mut self, label: &str) -> Done;
    /// Ends a group of fields, or an element.
    fn close(&mut self) -> Done;
    /// Begins a list.
    fn open_list(&mut self, label: &str) -> Done;
    /// Begins an element of a list.
    fn open_element(&mut self) -> Done;
    /// Ends a list.
    fn close_list(&mut self) -> Done;
}

/// The first eight bytes as a number.
pub fn first_word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The name of a number that may have none.
pub fn known(name: Option<&str>) -> &str {
    name.unwrap_or("unknown")
}

/// Fields for people.
#[derive(Debug, Default)]
pub struct TextFields {
    /// The text so far.
    pub written: Vec<u8>,
}

impl TextFields {
    /// Appends text as it is.
    pub fn push(&mut self, args: std::fmt::Arguments<'_>) {
        use std::io::Write as _;
        // Writing to memory cannot fail.
        let _ = self.written.write_fmt(args);
    }

    fn label(&mut self, label: &str) {
        if !matches!(self.written.last(), Some(b'{')) {
            self.written.push(b' ');
        }
        self.written.extend_from_slice(label.as_bytes());
        self.written.push(b'=');
    }

    fn field(&mut self, label: &str, value: std::fmt::Arguments<'_>) -> Done {
        self.label(label);
        self.push(value);
        Ok(())
    }
}

impl Fields for TextFields {
    fn begin(&mut self, text: &str) -> Done {
        self.written.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn verbatim(&mut self, label: &str, value: &str) -> Done {
        self.field(label, format_args!("{value}"))
    }

    fn number(&mut self, label: &str, value: u64) -> Done {
        self.field(label, format_args!("{value}"))
    }

    fn hex(&mut self, label: &str, value: u64, digits: usize) -> Done {
        self.field(label, format_args!("0x{value:0digits$x}"))
    }

    fn word(&mut self, label: &str, value: u64) -> Done {
        self.hex(label, value, 16)
    }

    fn array(&mut self, label: &str, values: &[u32]) -> Done {
        self.field(label, format_args!("[{}]", Joined(values)))
    }

    fn name(&mut self, label: &str, name: Option<&str>) -> Done {
        self.field(label, format_args!("{}", known(name)))
    }

    fn named(&mut self, label: &str, name: Option<&str>, value: u64) -> Done {
        self.field(label, format_args!("{}({value})", known(name)))
    }

    fn range(&mut self, label: &str, range: Range<u64>) -> Done {
        self.field(label, format_args!("[{}, +{}]", range.start, range.end - range.start))
    }

    fn signed(&mut self, label: &str, value: i64) -> Done {
        self.field(label, format_args!("{value}"))
    }

    fn flag(&mut self, label: &str, is: bool) -> Done {
        self.field(label, format_args!("{is}"))
    }

    fn text(&mut self, label: &str, text: Option<&str>) -> Done {
        self.field(label, format_args!("{}", text.unwrap_or("none")))
    }

    fn numbers(&mut self, label: &str, values: &mut dyn Iterator<Item = u64>) -> Done {
        let values = values.map(|value| value.to_string()).collect::<Vec<_>>();
        self.field(label, format_args!("[{}]", values.join(",")))
    }

    fn string(&mut self, label: &str, bytes: &[u8]) -> Done {
        let text = String::from_utf8_lossy(bytes);
        self.field(label, format_args!("\"{}\"", visible(&text)))
    }

    fn open(&mut self, label: &str) -> Done {
        self.field(label, format_args!("{{"))
    }

    fn close(&mut self) -> Done {
        self.written.push(b'}');
        Ok(())
    }

    fn open_list(&mut self, label: &str) -> Done {
        self.field(label, format_args!("["))
    }

    fn open_element(&mut self) -> Done {
        self.written.extend_from_slice(if matches!(self.written.last(), Some(b'[')) { b"{" } else { b",{" });
        Ok(())
    }

    fn close_list(&mut self) -> Done {
        self.written.push(b']');
        Ok(())
    }
}

/// Fields for programs.
#[derive(Debug, Default)]
pub struct JsonFields {
    /// The text so far.
    pub written: String,
}

impl JsonFields {
    /// Appends text as it is.
    pub fn push(&mut self, args: std::fmt::Arguments<'_>) {
        // Writing to memory cannot fail.
        let _ = self.written.write_fmt(args);
    }

    fn field(&mut self, label: &str, value: std::fmt::Arguments<'_>) -> Done {
        if !self.written.ends_with('{') {
            self.written.push(',');
        }
        self.push(format_args!("\"{label}\":{value}"));
        Ok(())
    }
}

impl Fields for JsonFields {
    fn begin(&mut self, text: &str) -> Done {
        self.written.push_str(text);
        Ok(())
    }

    fn verbatim(&mut self, label: &str, value: &str) -> Done {
        self.field(label, format_args!("{value}"))
    }

    fn number(&mut self, label: &str, value: u64) -> Done {
        self.field(label, format_args!("{value}"))
    }

    fn hex(&mut self, label: &str, value: u64, _digits: usize) -> Done {
        self.number(label, value)
    }

    fn word(&mut self, label: &str, value: u64) -> Done {
        self.field(label, format_args!("\"0x{value:016x}\""))
    }

    fn array(&mut self, label: &str, values: &[u32]) -> Done {
        self.field(label, format_args!("[{}]", Joined(values)))
    }

    fn name(&mut self, label: &str, name: Option<&str>) -> Done {
        self.field(label, format_args!("\"{}\"", known(name)))
    }

    fn named(&mut self, label: &str, name: Option<&str>, _value: u64) -> Done {
        self.name(label, name)
    }

    fn range(&mut self, label: &str, range: Range<u64>) -> Done {
        let (offset, length) = (range.start, range.end - range.start);
        self.field(
            label,
            format_args!(
                "{{\"offset\":{offset},\"length\":{length},\"uncompressed_length\":{length},\
                 \"compression_type\":0,\"digest_type\":0}}"
            ),
        )
    }

    fn signed(&mut self, label: &str, value: i64) -> Done {
        self.field(label, format_args!("{value}"))
    }

    fn flag(&mut self, label: &str, is: bool) -> Done {
        self.field(label, format_args!("{is}"))
    }

    fn text(&mut self, label: &str, text: Option<&str>) -> Done {
        match text {
            Some(text) => self.field(label, format_args!("\"{text}\"")),
            None => self.field(label, format_args!("null")),
        }
    }

    fn numbers(&mut self, label: &str, values: &mut dyn Iterator<Item = u64>) -> Done {
        let values = values.map(|value| value.to_string()).collect::<Vec<_>>();
        self.field(label, format_args!("[{}]", values.join(",")))
    }

    fn string(&mut self, label: &str, bytes: &[u8]) -> Done {
        self.field(label, format_args!("{}", json_text(bytes)))
    }

    fn open(&mut self, label: &str) -> Done {
        self.field(label, format_args!("{{"))
    }

    fn close(&mut self) -> Done {
        self.written.push('}');
        Ok(())
    }

    fn open_list(&mut self, label: &str) -> Done {
        self.field(label, format_args!("["))
    }

    fn open_element(&mut self) -> Done {
        self.written.push_str(if self.written.ends_with('[') { "{" } else { ",{" });
        Ok(())
    }

    fn close_list(&mut self) -> Done {
        self.written.push(']');
        Ok(())
    }
}

/// Numbers with commas between them.
struct Joined<'a>(&'a [u32]);

impl std::fmt::Display for Joined<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, value) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{value}")?;
        }
        Ok(())
    }
}

/// Bytes as a JSON text. What is no character, or none that is visible, is escaped.
pub fn json_text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    visible_json(&JsonText(&text).to_string()).into_owned()
}

/// A text as JSON has it.
struct JsonText<'a>(&'a str);

impl std::fmt::Display for JsonText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("\"")?;
        for char in self.0.chars() {
            match char {
                '\\' | '"' => write!(f, "\\{char}")?,
                '\u{8}' => f.write_str("\\b")?,
                '\u{c}' => f.write_str("\\f")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                char if u32::from(char) < 0x20 => write!(f, "\\u{:04x}", u32::from(char))?,
                char => f.write_char(char)?,
            }
        }
        f.write_str("\"")
    }
}
