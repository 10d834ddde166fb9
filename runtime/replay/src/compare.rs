//! Comparison of bytes as elements of a type, with tolerances: the first element that differs, and the worst one.

use std::fmt;
use std::str::FromStr;

use vireo_hal::narrow_float::{BF16, F16};

use crate::options::ParseError;

/// The type of the elements that are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompareAs {
    /// Bytes.
    #[default]
    Bytes,
    /// `f64`.
    F64,
    /// `f32`.
    F32,
    /// `f16`.
    F16,
    /// `bf16`.
    Bf16,
    /// `i64`.
    I64,
    /// `i32`.
    I32,
    /// `i8`.
    I8,
}

impl CompareAs {
    /// Bytes of an element.
    pub fn size(self) -> usize {
        match self {
            CompareAs::Bytes | CompareAs::I8 => 1,
            CompareAs::F16 | CompareAs::Bf16 => 2,
            CompareAs::F32 | CompareAs::I32 => 4,
            CompareAs::F64 | CompareAs::I64 => 8,
        }
    }

    /// True for floats.
    pub fn is_float(self) -> bool {
        matches!(self, CompareAs::F64 | CompareAs::F32 | CompareAs::F16 | CompareAs::Bf16)
    }

    fn read(self, bytes: &[u8]) -> ElementValue {
        let mut wide = [0; 8];
        for (to, from) in wide.iter_mut().zip(bytes) {
            *to = *from;
        }
        let bits = u64::from_le_bytes(wide);
        match self {
            _ if bytes.len() < self.size() => ElementValue::Byte(wide[0]),
            CompareAs::Bytes => ElementValue::Byte(bits as u8),
            CompareAs::F64 => ElementValue::Float(f64::from_bits(bits)),
            CompareAs::F32 => ElementValue::Float(f64::from(f32::from_bits(bits as u32))),
            CompareAs::F16 => ElementValue::Float(f64::from(F16.widen(bits as u32))),
            CompareAs::Bf16 => ElementValue::Float(f64::from(BF16.widen(bits as u32))),
            CompareAs::I64 => ElementValue::Int(bits.cast_signed()),
            CompareAs::I32 => ElementValue::Int(i64::from((bits as u32).cast_signed())),
            CompareAs::I8 => ElementValue::Int(i64::from((bits as u8).cast_signed())),
        }
    }

    /// How many values of the type are from one float to another.
    fn ulps(self, one: &[u8], other: &[u8]) -> u64 {
        let ordered = |bytes: &[u8]| {
            let mut wide = [0; 8];
            for (to, from) in wide.iter_mut().zip(bytes) {
                *to = *from;
            }
            let sign = 1u64 << (self.size() * 8 - 1);
            let bits = u64::from_le_bytes(wide);
            let magnitude = i128::from(bits & (sign - 1));
            if bits & sign == 0 { magnitude } else { -magnitude }
        };
        u64::try_from((ordered(one) - ordered(other)).unsigned_abs()).unwrap_or(u64::MAX)
    }
}

impl FromStr for CompareAs {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<CompareAs, ParseError> {
        Ok(match text {
            "bytes" => CompareAs::Bytes,
            "f64" => CompareAs::F64,
            "f32" => CompareAs::F32,
            "f16" => CompareAs::F16,
            // fact: a value of the flag, of which the spec knows nothing.
            "bf16" => CompareAs::Bf16,
            "i64" => CompareAs::I64,
            "i32" => CompareAs::I32,
            "i8" => CompareAs::I8,
            _ => return Err(ParseError::new("expected `bytes`, `f64`, `f32`, `f16`, `bf16`, `i64`, `i32` or `i8`")),
        })
    }
}

/// The way in which bytes are compared. Elements are equal if one of the tolerances allows their difference; two NaNs
/// are equal, and so are both zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Comparison {
    /// The type of elements.
    pub elements: CompareAs,
    /// How many values of the type two floats may be apart.
    pub ulps: u64,
    /// How far two numbers may be apart.
    pub absolute: f64,
    /// How far two numbers may be apart, as a part of the larger one.
    pub relative: f64,
}

impl Comparison {
    /// True if elements may differ and count as equal.
    pub fn has_tolerance(&self) -> bool {
        self.ulps > 0 || self.absolute > 0.0 || self.relative > 0.0
    }

    /// How far two elements are apart, unless they count as equal.
    fn error(&self, one: &[u8], other: &[u8]) -> Option<ElementError> {
        if one == other {
            return None;
        }
        let elements = self.elements;
        let values = [elements.read(one), elements.read(other)];
        let [a, b] = values.map(ElementValue::number);
        let is_whole = one.len() == elements.size();
        let ulps = if elements.is_float() && is_whole { elements.ulps(one, other) } else { 0 };
        let absolute = match values {
            // Differences of large numbers have no place in a float.
            [ElementValue::Int(a), ElementValue::Int(b)] => a.abs_diff(b) as f64,
            _ if a.is_nan() && b.is_nan() => return None,
            _ if a.is_nan() || b.is_nan() => f64::INFINITY,
            _ if a == b => return None,
            _ => (a - b).abs(),
        };
        let is_number = a.is_finite() && b.is_finite();
        let within = is_number
            && elements != CompareAs::Bytes
            && is_whole
            && (elements.is_float() && ulps <= self.ulps
                || absolute <= self.absolute
                || absolute <= self.relative * a.abs().max(b.abs()));
        (!within).then_some(ElementError { values, absolute, ulps })
    }
}

/// The value of an element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ElementValue {
    /// A byte.
    Byte(u8),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
}

impl ElementValue {
    fn number(self) -> f64 {
        match self {
            ElementValue::Byte(byte) => f64::from(byte),
            ElementValue::Int(number) => number as f64,
            ElementValue::Float(number) => number,
        }
    }
}

impl fmt::Display for ElementValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ElementValue::Byte(byte) => write!(f, "{byte:#04x}"),
            ElementValue::Int(number) => write!(f, "{number}"),
            ElementValue::Float(number) => write!(f, "{number:?}"),
        }
    }
}

/// How far two elements are apart.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ElementError {
    values: [ElementValue; 2],
    absolute: f64,
    ulps: u64,
}

/// An element that differs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DifferentElement {
    /// Its first byte, counted from that of the range.
    pub offset: u64,
    /// Its value on each side.
    pub values: [ElementValue; 2],
    /// How far they are apart; infinite if one of them is no number.
    pub absolute: f64,
    /// How many values of the type they are apart; 0 unless they are floats.
    pub ulps: u64,
}

/// How two ranges differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RangeDifference {
    /// How many elements differ.
    pub count: u64,
    /// The first of them.
    pub first: DifferentElement,
    /// The one that is furthest apart.
    pub worst: DifferentElement,
}

impl RangeDifference {
    /// Adds the difference of two parts of the ranges, which are as long as each other and begin at `offset`. All parts
    /// but the last have whole elements.
    pub(crate) fn add(
        found: &mut Option<RangeDifference>,
        comparison: &Comparison,
        offset: u64,
        [one, other]: [&[u8]; 2],
    ) {
        if one == other {
            return;
        }
        let size = comparison.elements.size();
        let whole = one.len() - one.len() % size;
        let (one, one_rest) = one.split_at(whole);
        let (other, other_rest) = other.split_at(whole);
        let rest = one_rest.chunks(1).zip(other_rest.chunks(1)).map(|pair| (pair, 1));
        let pairs = one.chunks(size).zip(other.chunks(size)).map(|pair| (pair, size)).chain(rest);
        let mut place = offset;
        for ((one, other), size) in pairs {
            if let Some(ElementError { values, absolute, ulps }) = comparison.error(one, other) {
                let element = DifferentElement { offset: place, values, absolute, ulps };
                let found = found.get_or_insert(RangeDifference { count: 0, first: element, worst: element });
                found.count += 1;
                if element.absolute > found.worst.absolute {
                    found.worst = element;
                }
            }
            place += size as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(comparison: Comparison, one: &[u8], other: &[u8]) -> Option<RangeDifference> {
        let mut found = None;
        RangeDifference::add(&mut found, &comparison, 0, [one, other]);
        found
    }

    fn floats(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn the_first_and_the_worst_element_are_found() {
        let comparison = Comparison { elements: CompareAs::F32, ..Comparison::default() };
        let one = floats(&[0.0, 1.0, 2.0, f32::NAN, 4.0]);
        let other = floats(&[-0.0, 1.5, 4.0, -f32::NAN, 4.0]);
        let found = difference(comparison, &one, &other).expect("two differ");
        assert_eq!((found.count, found.first.offset, found.worst.offset), (2, 4, 8));
        assert_eq!(found.worst.values, [ElementValue::Float(2.0), ElementValue::Float(4.0)]);
        assert_eq!((found.first.absolute, found.first.ulps), (0.5, 1 << 22));
        let found = difference(Comparison::default(), &one, &other).expect("bytes differ");
        assert_eq!((found.count, found.first.offset), (4, 3));
    }

    #[test]
    fn tolerances_are_those_of_numbers() {
        let with = |change: fn(&mut Comparison)| {
            let mut comparison = Comparison { elements: CompareAs::F32, ..Comparison::default() };
            change(&mut comparison);
            difference(comparison, &floats(&[100.0]), &floats(&[100.00001])).is_some()
        };
        assert!(with(|_| {}));
        assert!(!with(|comparison| comparison.ulps = 1));
        assert!(!with(|comparison| comparison.absolute = 1e-4));
        assert!(with(|comparison| comparison.absolute = 1e-6));
        assert!(!with(|comparison| comparison.relative = 1e-6));
        let loose = Comparison { elements: CompareAs::F32, ulps: u64::MAX, absolute: f64::MAX, relative: 1.0 };
        for (one, other) in [(f32::NAN, 1.0), (f32::INFINITY, 1.0), (f32::INFINITY, f32::NEG_INFINITY)] {
            assert!(difference(loose, &floats(&[one]), &floats(&[other])).is_some(), "{one} {other}");
        }
        assert!(difference(loose, &floats(&[f32::NAN]), &floats(&[-f32::NAN])).is_none());
        let ints = Comparison { elements: CompareAs::I64, absolute: 2.0, ..Comparison::default() };
        let ends = [i64::MIN, i64::MAX].map(i64::to_le_bytes);
        assert!(difference(ints, &ends[0], &ends[1]).is_some_and(|found| found.worst.absolute > 1e19));
        assert!(difference(ints, &7i64.to_le_bytes(), &9i64.to_le_bytes()).is_none());
    }

    /// Bytes after the last whole element are compared as bytes.
    #[test]
    fn nothing_at_the_end_is_left_out() {
        for elements in [CompareAs::F64, CompareAs::Bf16, CompareAs::F16, CompareAs::I32, CompareAs::I8] {
            for length in 0..20usize {
                let one = vec![0; length];
                for place in 0..length {
                    let mut other = one.clone();
                    other[place] = 1;
                    let found = difference(Comparison { elements, ..Comparison::default() }, &one, &other);
                    let found = found.expect("a byte differs");
                    let size = elements.size();
                    let whole = length - length % size;
                    let expected = if place < whole { place - place % size } else { place };
                    assert_eq!((found.count, found.first.offset), (1, expected as u64), "{elements:?}");
                }
            }
        }
    }
}
