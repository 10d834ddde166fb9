//! The text form of tensors: `2x2xf32=[1 2][3 4]`, as `iree-run-module` prints it.
//!
//! The leaf dimension is written without brackets of its own, each outer one with a pair for every index. Floats are written with
//! six significant digits in the manner of C's `%G`, types without a text form as the hexadecimal bytes in memory order.

use std::fmt::Write as _;

use half::{bf16, f16};

use super::buffer_view::dense_byte_length;
use super::transfer::buffer_read;
use super::{BufferView, ElementType, float8};
use crate::status::{Result, Status};

/// Significant digits of floats.
const PRECISION: usize = 6;

/// Most rows without elements that are printed.
const MAX_EMPTY_ROWS: u64 = 1 << 20;

/// The shape, the element type and at most `max_elements` elements of a view; `...` stands where elements are left out.
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
pub fn format_elements(
    bytes: &[u8],
    shape: &[u64],
    element_type: ElementType,
    max_elements: usize,
    out: &mut String,
) -> Result<()> {
    // Elements narrower than a byte are expected one in each byte, as the reference's printer does.
    let size = element_type.byte_count();
    let padded = ElementType::new(element_type.numerical(), (size * 8).min(255) as u8);
    let expected = dense_byte_length(shape, if size * 8 > 255 { element_type } else { padded })?;
    if (bytes.len() as u64) < expected {
        let message = format!("{} bytes are too few for the elements: expected {expected}", bytes.len());
        return Err(Status::out_of_range(message));
    }
    let (outer, leaf) = match shape.split_last() {
        Some((leaf, outer)) => (outer, *leaf),
        None => (shape, 1),
    };
    // Rows before an empty dimension are not backed by bytes, so nothing else limits them.
    let rows = shape.iter().take_while(|dim| **dim != 0).try_fold(1u64, |count, dim| count.checked_mul(*dim));
    if expected == 0 && rows.is_none_or(|rows| rows > MAX_EMPTY_ROWS) {
        return Err(Status::resource_exhausted("a shape with that many empty rows is not printed"));
    }
    let mut printer = Printer { bytes, element_type, leaf, left: max_elements, out };
    printer.dimension(outer);
    Ok(())
}

struct Printer<'a> {
    bytes: &'a [u8],
    element_type: ElementType,
    leaf: u64,
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
        let size = self.element_type.byte_count();
        let count = usize::try_from(self.leaf).unwrap_or(usize::MAX).min(self.left);
        self.left -= count;
        for index in 0..count {
            if index > 0 {
                self.out.push(' ');
            }
            format_element(&self.bytes[index * size..][..size], self.element_type, self.out);
        }
        if (count as u64) < self.leaf {
            self.out.push_str("...");
        }
        // The shape's byte length was checked, so the leaf ends within the bytes.
        self.bytes = &self.bytes[self.leaf as usize * size..];
    }
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
    match element_type {
        ElementType::INT_8 | ElementType::SINT_8 => integer!(i8),
        ElementType::UINT_8 => integer!(u8),
        ElementType::INT_16 | ElementType::SINT_16 => integer!(i16),
        ElementType::UINT_16 => integer!(u16),
        ElementType::INT_32 | ElementType::SINT_32 => integer!(i32),
        ElementType::UINT_32 => integer!(u32),
        ElementType::INT_64 | ElementType::SINT_64 => integer!(i64),
        ElementType::UINT_64 => integer!(u64),
        ElementType::FLOAT_16 => format_float(half(f16::from_le_bytes(head(bytes)).into()), out),
        ElementType::BFLOAT_16 => format_float(half(bf16::from_le_bytes(head(bytes)).into()), out),
        ElementType::FLOAT_32 => format_float(f32::from_le_bytes(head(bytes)).into(), out),
        ElementType::FLOAT_64 => format_float(f64::from_le_bytes(head(bytes)), out),
        ElementType::FLOAT_8_E5M2 => format_float(float8::e5m2(head::<1>(bytes)[0]).into(), out),
        ElementType::FLOAT_8_E4M3_FN => format_float(float8::e4m3fn(head::<1>(bytes)[0]).into(), out),
        ElementType::FLOAT_8_E5M2_FNUZ => format_float(float8::e5m2fnuz(head::<1>(bytes)[0]).into(), out),
        ElementType::FLOAT_8_E4M3_FNUZ => format_float(float8::e4m3fnuz(head::<1>(bytes)[0]).into(), out),
        ElementType::FLOAT_8_E8M0_FNU => format_float(float8::e8m0fnu(head::<1>(bytes)[0]).into(), out),
        _ => {
            for byte in bytes {
                let _ = write!(out, "{byte:02X}");
            }
        }
    }
}

/// Widened 16-bit floats lose the sign of a NaN, as in the reference's tools; `f32` and `f64` keep theirs.
fn half(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value }
}

/// Appends `value` as C's `%G` writes it: six significant digits, trailing zeros dropped, an exponent where it is below -4 or at
/// least six.
pub(super) fn format_float(value: f64, out: &mut String) {
    if value.is_sign_negative() {
        out.push('-');
    }
    if value.is_nan() {
        return out.push_str("NAN");
    }
    if value.is_infinite() {
        return out.push_str("INF");
    }
    // `d.ddddde-7`; the digits are rounded once, and placed according to the exponent that rounding gave.
    let scientific = format!("{:.*e}", PRECISION - 1, value.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits: String = mantissa.chars().filter(|digit| *digit != '.').collect();
    let digits = digits.trim_end_matches('0');
    let digits = if digits.is_empty() { "0" } else { digits };
    if exponent < -4 || exponent >= PRECISION as i32 {
        let (first, rest) = digits.split_at(1);
        out.push_str(first);
        if !rest.is_empty() {
            out.push('.');
            out.push_str(rest);
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "E{sign}{:02}", exponent.abs());
    } else if exponent < 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', (-exponent - 1) as usize));
        out.push_str(digits);
    } else {
        let whole = exponent as usize + 1;
        let (integer, fraction) = digits.split_at(digits.len().min(whole));
        out.push_str(integer);
        out.extend(std::iter::repeat_n('0', whole - integer.len()));
        if !fraction.is_empty() {
            out.push('.');
            out.push_str(fraction);
        }
    }
}
