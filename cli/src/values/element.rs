//! Types of tensor elements: their names, sizes, and how one element is read from text and written as text.

use std::fmt;

use super::narrow::{self, NarrowFloat};
use super::number::{self, NumberError};

/// The type of an element, as programs encode it: the class in the top byte, the width in bits in the lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementType(u32);

/// What the bits of an element mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Nothing is known about them.
    Opaque,
    /// An integer without a sign of its own; printed as signed, read as either.
    Integer,
    /// A signed integer.
    Signed,
    /// An unsigned integer.
    Unsigned,
    /// A boolean; named `i1`, stored as a byte.
    Boolean,
    /// An IEEE 754 float.
    Float,
    /// A `bfloat`.
    Brain,
    /// A pair of floats, real part first.
    Complex,
    /// `f8E5M2`.
    Float8E5M2,
    /// `f8E4M3FN`.
    Float8E4M3Fn,
    /// `f8E5M2FNUZ`.
    Float8E5M2Fnuz,
    /// `f8E4M3FNUZ`.
    Float8E4M3Fnuz,
    /// `f8E8M0FNU`.
    Float8E8M0Fnu,
}

/// Class, its number in the encoding, and what names of its types begin with. Eight-bit floats have their whole name here.
const CLASSES: [(Class, u32, &str); 13] = [
    (Class::Opaque, 0x00, "*"),
    (Class::Integer, 0x10, "i"),
    (Class::Signed, 0x11, "si"),
    (Class::Unsigned, 0x12, "ui"),
    (Class::Boolean, 0x13, "i"),
    (Class::Float, 0x21, "f"),
    (Class::Brain, 0x22, "bf"),
    (Class::Complex, 0x23, "cf"),
    (Class::Float8E5M2, 0x24, "f8E5M2"),
    (Class::Float8E4M3Fn, 0x25, "f8E4M3FN"),
    (Class::Float8E5M2Fnuz, 0x26, "f8E5M2FNUZ"),
    (Class::Float8E4M3Fnuz, 0x27, "f8E4M3FNUZ"),
    (Class::Float8E8M0Fnu, 0x28, "f8E8M0FNU"),
];

impl ElementType {
    /// 32-bit integers.
    pub const I32: ElementType = ElementType(0x1000_0020);
    /// 16-bit integers.
    pub const I16: ElementType = ElementType(0x1000_0010);
    /// 64-bit integers.
    pub const I64: ElementType = ElementType(0x1000_0040);
    /// 8-bit integers.
    pub const I8: ElementType = ElementType(0x1000_0008);
    /// 32-bit floats.
    pub const F32: ElementType = ElementType(0x2100_0020);
    /// 64-bit floats.
    pub const F64: ElementType = ElementType(0x2100_0040);

    /// The type of `class` with `bits` bits.
    pub fn new(class: Class, bits: u8) -> ElementType {
        let number = CLASSES.iter().find(|(other, ..)| *other == class).map_or(0, |(_, number, _)| *number);
        ElementType(number << 24 | u32::from(bits))
    }

    /// The type with the encoding `value`.
    pub fn from_encoding(value: u32) -> ElementType {
        ElementType(value)
    }

    /// The encoding.
    pub fn encoding(self) -> u32 {
        self.0
    }

    /// What the bits mean. An unknown class is opaque.
    pub fn class(self) -> Class {
        CLASSES.iter().find(|(_, number, _)| *number == self.0 >> 24).map_or(Class::Opaque, |(class, ..)| *class)
    }

    /// Width in bits.
    pub fn bits(self) -> u32 {
        self.0 & 0xFF
    }

    /// Bytes of one element; `None` for types whose elements are packed into bytes or which have no width at all.
    pub fn byte_size(self) -> Option<usize> {
        let bits = self.bits() as usize;
        (bits > 0 && bits.is_multiple_of(8)).then_some(bits / 8)
    }

    /// Reads a name such as `f32`, `ui8`, `bf16`, `cf64`, `i1`, `f8E4M3FN`.
    pub fn parse(name: &str) -> Option<ElementType> {
        if name == "i1" {
            return Some(ElementType::new(Class::Boolean, 8));
        }
        for (class, _, prefix) in CLASSES {
            if prefix == name && prefix.starts_with("f8") {
                return Some(ElementType::new(class, 8));
            }
            let Some(width) = name.strip_prefix(prefix) else { continue };
            let digits = !width.is_empty() && width.bytes().all(|c| c.is_ascii_digit());
            if let (true, Ok(bits)) = (digits, width.parse::<u8>()) {
                return Some(ElementType::new(class, bits));
            }
        }
        None
    }

    fn narrow_float(self) -> Option<NarrowFloat> {
        match (self.class(), self.bits()) {
            (Class::Float, 16) => Some(narrow::F16),
            (Class::Brain, 16) => Some(narrow::BF16),
            (Class::Float8E5M2, _) => Some(narrow::F8E5M2),
            (Class::Float8E4M3Fn, _) => Some(narrow::F8E4M3FN),
            (Class::Float8E5M2Fnuz, _) => Some(narrow::F8E5M2FNUZ),
            (Class::Float8E4M3Fnuz, _) => Some(narrow::F8E4M3FNUZ),
            _ => None,
        }
    }

    /// Least and greatest integer of the type; `None` if it is not an integer type with a printed form.
    fn integer_range(self) -> Option<(i128, i128)> {
        let bits @ (8 | 16 | 32 | 64) = self.bits() else { return None };
        let (signed_low, signed_high, unsigned_high) = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1, (1 << bits) - 1);
        match self.class() {
            Class::Integer => Some((signed_low, unsigned_high)),
            Class::Signed => Some((signed_low, signed_high)),
            Class::Unsigned => Some((0, unsigned_high)),
            _ => None,
        }
    }

    /// Appends the bytes of the element that `text` says. The type must have a byte size.
    pub fn parse_element(self, text: &str, out: &mut Vec<u8>) -> Result<(), NumberError> {
        let size = self.byte_size().unwrap_or(0);
        if let Some((low, high)) = self.integer_range() {
            out.extend_from_slice(&number::parse_integer(text, low, high)?.to_le_bytes()[..size]);
        } else if let Some(format) = self.narrow_float() {
            out.extend_from_slice(&format.narrow(number::parse_f32(text)?).to_le_bytes()[..size]);
        } else if self.class() == Class::Float8E8M0Fnu {
            out.push(narrow::narrow_e8m0(number::parse_f32(text)?));
        } else if self == Self::F32 {
            out.extend_from_slice(&number::parse_f32(text)?.to_le_bytes());
        } else if self == Self::F64 {
            out.extend_from_slice(&number::parse_f64(text)?.to_le_bytes());
        } else if self.class() == Class::Boolean && size == 1 && text.len() != 2 {
            out.push(match text {
                "0" | "false" => 0,
                "1" | "true" => 1,
                _ => return Err(NumberError::NotABoolean),
            });
        } else {
            let digits = 2 * size;
            let error = NumberError::NotHexadecimal { digits };
            if text.len() != digits {
                return Err(error);
            }
            for pair in text.as_bytes().chunks_exact(2) {
                let digit = |c: u8| char::from(c).to_digit(16).ok_or_else(|| error.clone());
                out.push((digit(pair[0])? << 4 | digit(pair[1])?) as u8);
            }
        }
        Ok(())
    }

    /// The text of the element with these bytes. Types without a form of their own are written as hexadecimal bytes.
    pub fn format_element(self, bytes: &[u8]) -> String {
        let little_endian = bytes.iter().take(16).rev().fold(0_u128, |value, byte| value << 8 | u128::from(*byte));
        if let Some((low, high)) = self.integer_range() {
            // A type that reads both signs prints as signed.
            let value = little_endian as i128;
            let signed = low < 0 && value > high.min(-low - 1);
            return (if signed { value - (1 << self.bits()) } else { value }).to_string();
        }
        if let Some(format) = self.narrow_float() {
            return number::upper_general(f64::from(format.widen(little_endian as u32)));
        }
        match (self.class(), self.bits()) {
            (Class::Float, 32) => number::upper_general(f64::from(f32::from_bits(little_endian as u32))),
            (Class::Float, 64) => number::upper_general(f64::from_bits(little_endian as u64)),
            (Class::Float8E8M0Fnu, 8) => number::upper_general(f64::from(narrow::widen_e8m0(little_endian as u8))),
            _ => bytes.iter().map(|byte| format!("{byte:02X}")).collect(),
        }
    }

    /// The value of an element of a float type that is compared with a tolerance, and the bytes otherwise.
    pub fn approximate(self, bytes: &[u8]) -> Option<f64> {
        let little_endian = bytes.iter().take(8).rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
        match (self.class(), self.bits()) {
            (Class::Float | Class::Brain, 16) => {
                self.narrow_float().map(|format| f64::from(format.widen(little_endian as u32)))
            }
            (Class::Float, 32) => Some(f64::from(f32::from_bits(little_endian as u32))),
            (Class::Float, 64) => Some(f64::from_bits(little_endian)),
            _ => None,
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (class, bits) = (self.class(), self.bits());
        let prefix = CLASSES.iter().find(|(other, ..)| *other == class).map_or("*", |(.., prefix)| *prefix);
        match class {
            Class::Boolean => f.write_str("i1"),
            _ if prefix.starts_with("f8") => f.write_str(prefix),
            _ => write!(f, "{prefix}{bits}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(name: &str, texts: &str) -> String {
        let element = ElementType::parse(name).unwrap();
        assert_eq!(element.to_string(), name);
        let mut bytes = Vec::new();
        texts.split(' ').for_each(|text| element.parse_element(text, &mut bytes).unwrap());
        let size = element.byte_size().unwrap();
        bytes.chunks(size).map(|bytes| element.format_element(bytes)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_type_is_read_and_written() {
        assert_eq!(round_trip("i1", "0 1 true false 00 01 ff"), "00 01 01 00 00 01 FF");
        assert_eq!(round_trip("i8", "-1 255 0x10 010 128 -128"), "-1 -1 16 8 -128 -128");
        assert_eq!(round_trip("si8", "-128 127"), "-128 127");
        assert_eq!(round_trip("ui8", "0 255"), "0 255");
        assert_eq!(round_trip("i16", "65535 -32768"), "-1 -32768");
        assert_eq!(round_trip("ui16", "65535"), "65535");
        assert_eq!(round_trip("i32", "4294967295 -5 2147483647"), "-1 -5 2147483647");
        assert_eq!(round_trip("ui32", "4294967295"), "4294967295");
        assert_eq!(
            round_trip("i64", "-9223372036854775808 9223372036854775807"),
            "-9223372036854775808 9223372036854775807"
        );
        assert_eq!(round_trip("ui64", "18446744073709551615"), "18446744073709551615");
        assert_eq!(round_trip("f16", "1.5 65504 70000 1e-8"), "1.5 65504 INF 0");
        assert_eq!(round_trip("bf16", "1.1 3"), "1.10156 3");
        assert_eq!(round_trip("f32", "1e10 1e-10 nan -nan"), "1E+10 1E-10 NAN -NAN");
        assert_eq!(round_trip("f64", "1.23456789012 inf"), "1.23457 INF");
        assert_eq!(round_trip("cf64", "0000803F00000040"), "0000803F00000040");
        assert_eq!(round_trip("cf128", &"0f".repeat(16)), "0F".repeat(16));
        assert_eq!(round_trip("f8E5M2", "1.5 2"), "1.5 2");
        assert_eq!(round_trip("f8E4M3FN", "1.7 400"), "1.75 384");
        assert_eq!(round_trip("f8E5M2FNUZ", "1.5 -0"), "1.5 0");
        assert_eq!(round_trip("f8E4M3FNUZ", "3 inf"), "3 NAN");
        assert_eq!(round_trip("f8E8M0FNU", "2 3"), "2 4");
        assert_eq!(round_trip("i24", "010203"), "010203");
        assert_eq!(round_trip("*16", "beef"), "BEEF");
    }

    #[test]
    fn names_and_encodings() {
        assert_eq!(ElementType::parse("f32").unwrap().encoding(), 0x2100_0020);
        assert_eq!(ElementType::parse("i1").unwrap().encoding(), 0x1300_0008);
        assert_eq!(ElementType::parse("f8E8M0FNU").unwrap().encoding(), 0x2800_0008);
        for name in ["", "F32", "f", "f256", "f+8", "ix", "f8E5", "16", "i-1"] {
            assert_eq!(ElementType::parse(name), None, "{name}");
        }
        assert_eq!(ElementType::parse("i4").unwrap().byte_size(), None);
        assert_eq!(ElementType::parse("i0").unwrap().byte_size(), None);
        assert_eq!(ElementType::from_encoding(0).to_string(), "*0");
    }

    #[test]
    fn wrong_elements_are_refused() {
        for (name, text) in [
            ("i8", "256"),
            ("i8", "-129"),
            ("si8", "128"),
            ("ui8", "-1"),
            ("i32", "1.5"),
            ("i1", "2"),
            ("cf64", "1"),
            ("i24", "01020g"),
        ] {
            let element = ElementType::parse(name).unwrap();
            assert!(element.parse_element(text, &mut Vec::new()).is_err(), "{name} {text}");
        }
    }
}
