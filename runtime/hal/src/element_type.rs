//! Element types of tensors: a numerical type and a width in bits, and their text forms. Numbers and prefixes are
//! generated from `spec/hal/types.yaml`.

use std::fmt;

use super::types::{ELEMENT_TYPE_CLASS_SHIFT, ELEMENT_TYPE_WIDTH_MASK};
use super::{ElementType, NumericalType};
use crate::status::{Result, Status};

impl ElementType {
    /// The element type of this numerical type and width in bits.
    pub const fn new(numerical: NumericalType, bits: u8) -> ElementType {
        // `From` is not for constants yet; both are widened.
        ElementType((numerical.0 as u32) << ELEMENT_TYPE_CLASS_SHIFT | bits as u32)
    }

    /// The numerical type.
    pub fn numerical(self) -> NumericalType {
        NumericalType((self.0 >> ELEMENT_TYPE_CLASS_SHIFT) as u8)
    }

    /// Width in bits.
    pub fn bit_count(self) -> u32 {
        self.0 & ELEMENT_TYPE_WIDTH_MASK
    }

    /// Bytes of one element that stands alone.
    pub fn byte_count(self) -> usize {
        self.bit_count().div_ceil(8) as usize
    }

    /// Bytes of one element among others; none if elements share bytes or have no width.
    pub fn byte_size(self) -> Option<usize> {
        let bits = self.bit_count();
        (bits > 0 && bits.is_multiple_of(8)).then(|| self.byte_count())
    }

    /// Bytes of `count` elements, narrow ones packed; none if that is more than 64 bits can count.
    pub fn packed_byte_count(self, count: u64) -> Option<u64> {
        // Widths are below 256, so the product fits 128 bits.
        u64::try_from((u128::from(count) * u128::from(self.bit_count())).div_ceil(8)).ok()
    }

    /// The element type that tools write as `text`: `f32`, `i1`, `bf16`, `cf64`, `f8E4M3FN`, `*16`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if it is none of them.
    pub fn parse(text: &str) -> Result<ElementType> {
        if let Some((element_type, _)) = Self::NAMED.iter().find(|(_, name)| *name == text) {
            return Ok(*element_type);
        }
        // `x8` is the shell-friendly spelling of `*8`.
        let prefixes = NumericalType::PREFIXES.iter().copied().chain([("x", NumericalType::UNKNOWN)]);
        for (prefix, numerical) in prefixes {
            let digits =
                text.strip_prefix(prefix).filter(|rest| rest.bytes().next().is_some_and(|b| b.is_ascii_digit()));
            if let Some(bits) = digits.and_then(|digits| digits.parse().ok()) {
                return Ok(ElementType::new(numerical, bits));
            }
        }
        Err(Status::invalid_argument(format!("`{text}` is not an element type such as f32, i8, ui16, bf16 or i1")))
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.name() {
            return f.write_str(name);
        }
        if self.numerical() == NumericalType::BOOLEAN {
            return f.write_str(ElementType::BOOL_8.name().unwrap_or_default());
        }
        // A type without a prefix is written as opaque bits.
        let of = |class: NumericalType| NumericalType::PREFIXES.iter().find(move |(_, found)| *found == class);
        let prefix = of(self.numerical()).or_else(|| of(NumericalType::UNKNOWN)).map_or("", |(prefix, _)| prefix);
        write!(f, "{prefix}{}", self.bit_count())
    }
}
