//! Helpers of generated layouts and words: range checks of bit fields, tags of families, text forms, and errors.

use crate::Status;
use std::fmt;

/// A field of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitField {
    /// The word, `packet_header`.
    pub word: &'static str,
    /// The field, `barrier`.
    pub name: &'static str,
    /// Its lowest bit.
    pub bit: u32,
    /// How many bits it has.
    pub width: u32,
}

/// The error for a value that does not fit its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The field.
    pub field: &'static BitField,
    /// The value.
    pub value: u64,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BitField { word, name, width, .. } = self.field;
        write!(f, "{word}.{name}: {:#x} does not fit {width} bits", self.value)
    }
}

impl std::error::Error for FieldError {}

impl From<FieldError> for Status {
    fn from(error: FieldError) -> Self {
        Status::out_of_range(error.to_string())
    }
}

/// Refuses a value that does not fit.
pub(crate) const fn check_field(field: &'static BitField, value: u64) -> Result<(), FieldError> {
    if value >> field.width == 0 { Ok(()) } else { Err(FieldError { field, value }) }
}

/// The error for bytes that are no member of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// They end within the member that their tags name.
    Short {
        /// The member.
        member: &'static str,
        /// The bytes it has.
        expected: usize,
        /// The bytes there are.
        actual: usize,
    },
    /// No member has these tags.
    Unknown {
        /// The family.
        family: &'static str,
        /// The first bytes, which have the tags; zero after the end.
        head: [u8; 4],
    },
}

impl ReadError {
    pub(crate) fn short(member: &'static str, expected: usize, actual: usize) -> Self {
        ReadError::Short { member, expected, actual }
    }

    pub(crate) fn unknown(family: &'static str, bytes: &[u8]) -> Self {
        let mut head = [0; 4];
        for (to, from) in head.iter_mut().zip(bytes) {
            *to = *from;
        }
        ReadError::Unknown { family, head }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Short { member, expected, actual } => {
                write!(f, "{member}: expected {expected} bytes, found {actual}")
            }
            ReadError::Unknown { family, head } => write!(f, "no {family} begins with {head:02x?}"),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<ReadError> for Status {
    fn from(error: ReadError) -> Self {
        Status::invalid_argument(error.to_string())
    }
}

/// The `width` bits from `bit` on of the little-endian integer of `size` bytes at `offset`; none if it is not within
/// the bytes.
pub(crate) fn tag(bytes: &[u8], offset: usize, size: usize, bit: u32, width: u32) -> Option<u64> {
    let bytes = bytes.get(offset..)?.get(..size)?;
    let value = bytes.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    let mask = u64::MAX >> (64 - width);
    Some(value >> bit & mask)
}

/// Writes `name{field=value, ...}`.
pub(crate) struct Dump<'a, 'b> {
    f: &'a mut fmt::Formatter<'b>,
    first: bool,
}

impl<'a, 'b> Dump<'a, 'b> {
    pub(crate) fn new(f: &'a mut fmt::Formatter<'b>, name: &str) -> Result<Self, fmt::Error> {
        write!(f, "{name}{{")?;
        Ok(Self { f, first: true })
    }

    pub(crate) fn field(&mut self, name: &str, value: fmt::Arguments<'_>) -> fmt::Result {
        let comma = if std::mem::take(&mut self.first) { "" } else { ", " };
        write!(self.f, "{comma}{name}={value}")
    }

    pub(crate) fn finish(self) -> fmt::Result {
        self.f.write_str("}")
    }
}

/// Writes `[flag field=value]`, with the fields of a word that are not zero.
pub(crate) struct WordDump<'a, 'b> {
    f: &'a mut fmt::Formatter<'b>,
    first: bool,
}

impl<'a, 'b> WordDump<'a, 'b> {
    pub(crate) fn new(f: &'a mut fmt::Formatter<'b>) -> Result<Self, fmt::Error> {
        f.write_str("[")?;
        Ok(Self { f, first: true })
    }

    pub(crate) fn flag(&mut self, name: &str, set: bool) -> fmt::Result {
        if set { self.item(format_args!("{name}")) } else { Ok(()) }
    }

    pub(crate) fn value(&mut self, name: &str, value: fmt::Arguments<'_>, is_zero: bool) -> fmt::Result {
        if is_zero { Ok(()) } else { self.item(format_args!("{name}={value}")) }
    }

    pub(crate) fn finish(mut self, word: u64, reserved: u64) -> fmt::Result {
        if word & reserved != 0 {
            self.item(format_args!("reserved={:#x}", word & reserved))?;
        }
        self.f.write_str("]")
    }

    fn item(&mut self, item: fmt::Arguments<'_>) -> fmt::Result {
        let space = if std::mem::take(&mut self.first) { "" } else { " " };
        write!(self.f, "{space}{item}")
    }
}

/// Writes numbers as `[0x1, 0x2]`.
pub(crate) struct HexRow<'a, T>(pub(crate) &'a [T]);

impl<T: fmt::LowerHex> fmt::Display for HexRow<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (index, value) in self.0.iter().enumerate() {
            write!(f, "{}{value:#x}", if index == 0 { "" } else { ", " })?;
        }
        f.write_str("]")
    }
}
