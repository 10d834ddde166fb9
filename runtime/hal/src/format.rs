//! The text form of tensors: `2x2xf32=[1 2][3 4]`, as `iree-run-module` prints it.
//!
//! The leaf dimension is written without brackets of its own, each outer one with a pair for every index. Floats are
//! written with six significant digits in the manner of C's `%G`, types without a text form as the hexadecimal bytes in
//! memory order. Integers that are packed into parts of bytes are numbers as well; the reference's tools have no text
//! for them.

use std::fmt::Write as _;

use super::buffer_view::dense_byte_length;
use super::narrow_float;
use super::transfer::buffer_read;
use super::{BufferView, ElementType, ElementValue, NumericalType};
use crate::number_text::general;
use crate::status::{Result, Status};

/// Significant digits of floats.
const PRECISION: usize = 6;

/// Most rows without elements that are printed.
const MAX_EMPTY_ROWS: u64 = 1 << 20;

/// The shape, the element type and at most `max_elements` elements of a view; `...` stands where elements are left out.
///
/// # Errors
/// As [`buffer_read`] and [`format_elements`]; `OUT_OF_RANGE` for a buffer that does not fit the address space.
pub fn format_view(view: &BufferView, max_elements: usize) -> Result<String> {
    let mut out = view.shape_and_type();
    out.push('=');
    let length = usize::try_from(view.buffer().byte_length())
        .map_err(|_| Status::out_of_range("the buffer does not fit the address space"))?;
    let mut bytes = vec![0; length];
    buffer_read(&**view.buffer(), 0, &mut bytes)?;
    format_elements(&bytes, view.shape(), view.element_type(), max_elements, &mut out)?;
    Ok(out)
}

/// Appends at most `max_elements` elements of a dense tensor to `out`.
///
/// # Errors
/// `OUT_OF_RANGE` if there are fewer bytes than the shape has, `RESOURCE_EXHAUSTED` for a shape with very many rows
/// without elements.
pub fn format_elements(
    bytes: &[u8],
    shape: &[u64],
    element_type: ElementType,
    max_elements: usize,
    out: &mut String,
) -> Result<()> {
    let expected = dense_byte_length(shape, element_type)?;
    if (bytes.len() as u64) < expected {
        let message = format!("{} bytes are too few for the elements: expected {expected}", bytes.len());
        return Err(Status::out_of_range(message));
    }
    let (outer, leaf) = match shape.split_last() {
        Some((leaf, outer)) => (outer, *leaf),
        None => (shape, 1),
    };
    // Rows outside an empty dimension are not backed by bytes, so nothing else limits their number.
    let rows = shape.iter().take_while(|dim| **dim != 0).try_fold(1u64, |count, dim| count.checked_mul(*dim));
    if expected == 0 && rows.is_none_or(|rows| rows > MAX_EMPTY_ROWS) {
        return Err(Status::resource_exhausted("a shape with that many empty rows is not printed"));
    }
    let mut printer = Printer { bytes, element_type, leaf, next: 0, left: max_elements, out };
    printer.dimension(outer);
    Ok(())
}

struct Printer<'a> {
    bytes: &'a [u8],
    element_type: ElementType,
    leaf: u64,
    /// Index of the element that comes next.
    next: usize,
    left: usize,
    out: &'a mut String,
}

impl Printer<'_> {
    fn dimension(&mut self, outer: &[u64]) {
        let Some((dim, inner)) = outer.split_first() else { return self.leaf() };
        for _ in 0..*dim {
            self.out.push('[');
            self.dimension(inner);
            self.out.push(']');
        }
    }

    fn leaf(&mut self) {
        let count = usize::try_from(self.leaf).unwrap_or(usize::MAX).min(self.left);
        self.left -= count;
        for index in 0..count {
            if index > 0 {
                self.out.push(' ');
            }
            self.element(self.next + index);
        }
        if (count as u64) < self.leaf {
            self.out.push_str("...");
        }
        // The shape's byte length was checked, so there are fewer elements than the address space has bits; those of no
        // width may be more, but none of them is looked at.
        self.next = self.next.wrapping_add(self.leaf as usize);
    }

    fn element(&mut self, index: usize) {
        if format_at(self.bytes, self.element_type, index, self.out).is_none() {
            self.out.push('?');
        }
    }
}

/// Appends element `index` of a dense tensor; nothing if it is not within `bytes`, or shares bytes and has more than 64
/// bits.
fn format_at(bytes: &[u8], element_type: ElementType, index: usize, out: &mut String) -> Option<()> {
    if element_type.is_packed() {
        return format_packed(bytes, element_type, index, out);
    }
    let size = element_type.byte_count();
    let start = index.checked_mul(size)?;
    format_element(bytes.get(start..start.checked_add(size)?)?, element_type, out);
    Some(())
}

impl ElementType {
    /// The text of element `index` of a dense tensor, as [`format_elements`] writes it; none if it is not within
    /// `bytes`, or shares bytes with others and has more than 64 bits.
    pub fn text_at(self, bytes: &[u8], index: usize) -> Option<String> {
        let mut text = String::new();
        format_at(bytes, self, index, &mut text).map(|()| text)
    }
}

/// Appends an element that shares its bytes with others: a number if it is one, else its bits as a hexadecimal number.
/// The reference prints none of these types.
fn format_packed(bytes: &[u8], element_type: ElementType, index: usize, out: &mut String) -> Option<()> {
    let bits = ElementType::new(NumericalType::INTEGER_UNSIGNED, element_type.bit_count() as u8);
    // Writing to a string does not fail.
    let _ = match (element_type.value_at(bytes, index), bits.value_at(bytes, index)) {
        (Some(value), _) => write!(out, "{value}"),
        (None, Some(ElementValue::Integer(bits))) => write!(out, "{bits:X}"),
        _ => return None,
    };
    Some(())
}

/// The first `N` bytes, zero where there are fewer.
fn head<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    let count = bytes.len().min(N);
    out[..count].copy_from_slice(&bytes[..count]);
    out
}

/// Appends one element, whose bytes are `bytes`.
fn format_element(bytes: &[u8], element_type: ElementType, out: &mut String) {
    macro_rules! integer {
        ($ty:ty) => {{
            // Writing to a string does not fail.
            let _ = write!(out, "{}", <$ty>::from_le_bytes(head(bytes)));
        }};
    }
    if let Some(format) = element_type.narrow_float() {
        return format_float(format.widen(u16::from_le_bytes(head(bytes)).into()).into(), out);
    }
    match element_type {
        ElementType::INT_8 | ElementType::SINT_8 => integer!(i8),
        ElementType::UINT_8 => integer!(u8),
        ElementType::INT_16 | ElementType::SINT_16 => integer!(i16),
        ElementType::UINT_16 => integer!(u16),
        ElementType::INT_32 | ElementType::SINT_32 => integer!(i32),
        ElementType::UINT_32 => integer!(u32),
        ElementType::INT_64 | ElementType::SINT_64 => integer!(i64),
        ElementType::UINT_64 => integer!(u64),
        ElementType::FLOAT_32 => format_float(f32::from_le_bytes(head(bytes)).into(), out),
        ElementType::FLOAT_64 => format_float(f64::from_le_bytes(head(bytes)), out),
        ElementType::FLOAT_8_E8M0_FNU => format_float(narrow_float::widen_e8m0(head::<1>(bytes)[0]).into(), out),
        _ => {
            for byte in bytes {
                let _ = write!(out, "{byte:02X}");
            }
        }
    }
}

/// Appends a float as C's `%G` writes it.
fn format_float(value: f64, out: &mut String) {
    out.push_str(&general(value, PRECISION).to_uppercase());
}
