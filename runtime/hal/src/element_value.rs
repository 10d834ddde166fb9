//! Values of single elements of tensors, whatever their type: reading one from bytes, its text, and packing narrow
//! ones. Tools and the `check` module use it.
//!
//! Elements narrower than a byte are packed: the first one is in the lowest bits of the first byte. That is how
//! compiled programs lay them out and what the sizes of buffer views count.

use std::fmt;

use super::narrow_float;
use super::{ElementType, NumericalType};

/// The value of one element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ElementValue {
    /// An integer of at most 64 bits, or a boolean.
    Integer(i128),
    /// A float of at most 32 bits.
    F32(f32),
    /// A float of 64 bits.
    F64(f64),
    /// A complex number of two floats of 32 bits.
    Complex32(f32, f32),
    /// A complex number of two floats of 64 bits.
    Complex64(f64, f64),
}

impl ElementValue {
    /// True unless it is zero, whatever the sign. NaN is not zero.
    pub fn is_nonzero(self) -> bool {
        match self {
            ElementValue::Integer(value) => value != 0,
            ElementValue::F32(value) => value != 0.0,
            ElementValue::F64(value) => value != 0.0,
            ElementValue::Complex32(re, im) => re != 0.0 || im != 0.0,
            ElementValue::Complex64(re, im) => re != 0.0 || im != 0.0,
        }
    }
}

/// The shortest text that is read as the same value.
impl fmt::Display for ElementValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ElementValue::Integer(value) => value.fmt(f),
            ElementValue::F32(value) => write!(f, "{}", shortest(value)),
            ElementValue::F64(value) => write!(f, "{}", shortest(value)),
            ElementValue::Complex32(re, im) => complex(f, &shortest(re), &shortest(im)),
            ElementValue::Complex64(re, im) => complex(f, &shortest(re), &shortest(im)),
        }
    }
}

fn complex(f: &mut fmt::Formatter<'_>, re: &str, im: &str) -> fmt::Result {
    let plus = if im.starts_with('-') { "" } else { "+" };
    write!(f, "{re}{plus}{im}i")
}

/// Whole numbers have no `.0`; very large and very small ones have an exponent.
fn shortest(value: &impl fmt::Debug) -> String {
    let text = format!("{value:?}");
    text.strip_suffix(".0").map(str::to_string).unwrap_or(text)
}

impl ElementType {
    /// Least and greatest value if this is a type of integers of at most 64 bits. Those without a sign of their own are
    /// read as either, so theirs is the least signed and the greatest unsigned one.
    pub fn integer_range(self) -> Option<(i128, i128)> {
        let bits @ 1..=64 = self.bit_count() else { return None };
        let (signed_low, signed_high, unsigned_high) = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1, (1 << bits) - 1);
        match self.numerical() {
            NumericalType::INTEGER => Some((signed_low, unsigned_high)),
            NumericalType::INTEGER_SIGNED => Some((signed_low, signed_high)),
            NumericalType::INTEGER_UNSIGNED => Some((0, unsigned_high)),
            _ => None,
        }
    }

    /// True if elements share bytes.
    pub fn is_packed(self) -> bool {
        !self.bit_count().is_multiple_of(8)
    }

    /// The value of element `index` of a dense tensor; none if it is not within `bytes`, or if the type has no
    /// numerical meaning.
    pub fn value_at(self, bytes: &[u8], index: usize) -> Option<ElementValue> {
        if self == ElementType::COMPLEX_FLOAT_128 {
            let half = |index| run_of_bits(bytes, index, 64).map(f64::from_bits);
            let first = index.checked_mul(2)?;
            return Some(ElementValue::Complex64(half(first)?, half(first + 1)?));
        }
        let bits = run_of_bits(bytes, index, self.bit_count())?;
        let narrow = bits as u32;
        if let Some(format) = self.narrow_float() {
            return Some(ElementValue::F32(format.widen(narrow)));
        }
        match self {
            ElementType::FLOAT_32 => Some(ElementValue::F32(f32::from_bits(narrow))),
            ElementType::FLOAT_64 => Some(ElementValue::F64(f64::from_bits(bits))),
            ElementType::FLOAT_8_E8M0_FNU => Some(ElementValue::F32(narrow_float::widen_e8m0(bits as u8))),
            ElementType::COMPLEX_FLOAT_64 => {
                Some(ElementValue::Complex32(f32::from_bits(narrow), f32::from_bits((bits >> 32) as u32)))
            }
            _ if self.numerical() == NumericalType::BOOLEAN => Some(ElementValue::Integer(bits.into())),
            _ => {
                let (low, _) = self.integer_range()?;
                let negative = low < 0 && bits >> (self.bit_count() - 1) == 1;
                Some(ElementValue::Integer(i128::from(bits) - if negative { 1 << self.bit_count() } else { 0 }))
            }
        }
    }
}

/// Run `index` of `width` bits, at most 64, as an unsigned number; none if it is not within `bytes`.
fn run_of_bits(bytes: &[u8], index: usize, width: u32) -> Option<u64> {
    if !(1..=64).contains(&width) {
        return None;
    }
    let first = (index as u128).checked_mul(width.into())?;
    let byte = usize::try_from(first / 8).ok()?;
    // A run that does not begin with a byte may reach into a ninth one.
    let skipped = (first % 8) as u32;
    let end = byte.checked_add((skipped + width).div_ceil(8) as usize)?;
    let run = bytes.get(byte..end)?;
    let value = run.iter().rev().fold(0u128, |value, byte| value << 8 | u128::from(*byte)) >> skipped;
    Some((value & ((1 << width) - 1)) as u64)
}

/// Appends elements narrower than a byte to a packed run of them.
#[derive(Debug, Default)]
pub struct BitPacker {
    bytes: Vec<u8>,
    /// Bits of the last byte that are in use; zero if it is full or there is none.
    taken: u32,
}

impl BitPacker {
    /// A packer that appends to whole bytes.
    pub fn new(bytes: Vec<u8>) -> BitPacker {
        BitPacker { bytes, taken: 0 }
    }

    /// Appends the low `width` bits of `value`, at most 64.
    pub fn push(&mut self, value: u64, width: u32) {
        let mut value = value;
        let mut left = width.min(64);
        while left > 0 {
            if self.taken == 0 {
                self.bytes.push(0);
            }
            let count = left.min(8 - self.taken);
            let chunk = (value & ((1 << count) - 1)) as u8;
            if let Some(last) = self.bytes.last_mut() {
                *last |= chunk << self.taken;
            }
            self.taken = (self.taken + count) % 8;
            value >>= count;
            left -= count;
        }
    }

    /// The bytes. Bits of the last one that nothing was put into are zero.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(name: &str, bytes: &[u8], count: usize) -> Vec<String> {
        let element_type = ElementType::parse(name).unwrap();
        let text = |index| element_type.value_at(bytes, index).map_or_else(|| "?".into(), |value| value.to_string());
        (0..count).map(text).collect()
    }

    #[test]
    fn values_of_all_kinds() {
        assert_eq!(texts("i8", &[1, 255], 3), ["1", "-1", "?"]);
        assert_eq!(texts("ui16", &[1, 255], 1), ["65281"]);
        assert_eq!(texts("ui64", &[255; 8], 1), [u64::MAX.to_string()]);
        assert_eq!(texts("si64", &[255; 8], 1), ["-1"]);
        assert_eq!(texts("i24", &[0, 0, 0x80], 1), ["-8388608"]);
        assert_eq!(texts("i1", &[0, 1, 7], 3), ["0", "1", "7"]);
        assert_eq!(texts("f16", &[0, 0x3C, 0x66, 0x2E], 2), ["1", "0.099975586"]);
        assert_eq!(texts("f8E8M0FNU", &[127, 255], 2), ["1", "NaN"]);
        assert_eq!(texts("f32", &0.1f32.to_le_bytes(), 1), ["0.1"]);
        assert_eq!(texts("f64", &1e300f64.to_le_bytes(), 1), ["1e300"]);
        let complex: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(texts("cf64", &complex, 2), ["1.5-2i", "?"]);
        let complex: Vec<u8> = [0.0f64, 2.5].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(texts("cf128", &complex, 2), ["0+2.5i", "?"]);
        assert_eq!(texts("*16", &[1, 2], 1), ["?"]);
        assert_eq!(texts("i128", &[0; 16], 1), ["?"]);
        assert_eq!(texts("i0", &[0; 16], 1), ["?"]);
    }

    #[test]
    fn narrow_integers_are_packed_from_the_low_bits_on() {
        assert_eq!(texts("i4", &[0x21, 0xF8], 5), ["1", "2", "-8", "-1", "?"]);
        assert_eq!(texts("ui4", &[0x21, 0xF8], 4), ["1", "2", "8", "15"]);
        assert_eq!(texts("si2", &[0b11_10_01_00], 5), ["0", "1", "-2", "-1", "?"]);
        assert_eq!(texts("ui3", &[0b01_111_000, 0b1], 3), ["0", "7", "5"]);
        assert_eq!(texts("i12", &[0x23, 0xF1, 0xFF], 3), ["291", "-1", "?"]);
    }

    #[test]
    fn packing_is_the_inverse() {
        for width in [1, 2, 3, 4, 5, 6, 7, 12, 33, 63] {
            let element_type = ElementType::new(NumericalType::INTEGER_UNSIGNED, width);
            let values: Vec<u64> =
                (1..50u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15) & ((1 << width) - 1)).collect();
            let mut packer = BitPacker::default();
            values.iter().for_each(|value| packer.push(*value, width.into()));
            let bytes = packer.finish();
            assert_eq!(Some(bytes.len() as u64), element_type.packed_byte_count(49));
            for (index, value) in values.iter().enumerate() {
                assert_eq!(
                    element_type.value_at(&bytes, index),
                    Some(ElementValue::Integer((*value).into())),
                    "{width}"
                );
            }
        }
    }

    #[test]
    fn nonzero() {
        assert!(ElementValue::F32(f32::NAN).is_nonzero());
        assert!(!ElementValue::F64(-0.0).is_nonzero());
        assert!(ElementValue::Complex32(0.0, 1.0).is_nonzero());
        assert!(!ElementValue::Complex64(0.0, -0.0).is_nonzero());
    }
}
