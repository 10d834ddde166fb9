//! Numbers in text: the integers and floats that tensors and the values of the command are written with.
//!
//! Texts that C's `strtol` and `strtof` read completely are read here too (`0x` and octal integers, hexadecimal floats,
//! `inf`, `nan`); what they would read only in part, such as `1.5` as an integer or `1.0abc`, is refused.

use std::fmt;

use vireo_core::number_text::{hexadecimal_f32, hexadecimal_f64};

/// Why a text is not the number it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NumberError {
    /// Not an integer in decimal, `0x` hexadecimal or `0` octal.
    NotAnInteger,
    /// Not a float.
    NotAFloat,
    /// Not a boolean.
    NotABoolean,
    /// Not a complex number.
    NotAComplexNumber,
    /// Outside the range of the type.
    OutOfRange {
        /// Least value.
        low: i128,
        /// Greatest value.
        high: i128,
    },
    /// Not as many hexadecimal digits as the bytes of the element need.
    NotHexadecimal {
        /// Digits that are needed.
        digits: usize,
    },
}

impl fmt::Display for NumberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnInteger => f.write_str("expected an integer (decimal, 0x hexadecimal or 0 octal)"),
            Self::NotAFloat => f.write_str("expected a number, `inf` or `nan`"),
            Self::NotAComplexNumber => {
                f.write_str("expected a complex number such as `1+2i`, or the element's bytes as hexadecimal digits")
            }
            Self::NotABoolean => f.write_str("expected 0, 1, true, false or two hexadecimal digits"),
            Self::OutOfRange { low, high } => write!(f, "expected a value from {low} to {high}"),
            Self::NotHexadecimal { digits } => {
                write!(f, "expected the element's bytes in memory order as {digits} hexadecimal digits")
            }
        }
    }
}

impl std::error::Error for NumberError {}

/// Reads an integer from `low` to `high`. A leading `0x` means hexadecimal, a leading `0` octal.
///
/// # Errors
/// If the text is no integer, or one out of range.
pub fn parse_integer(text: &str, low: i128, high: i128) -> Result<i128, NumberError> {
    let (negative, magnitude) = split_sign(text);
    let (digits, radix) = match hexadecimal_digits(text) {
        Some((_, digits)) => (digits, 16),
        None if magnitude.len() > 1 && magnitude.starts_with('0') => (&magnitude[1..], 8),
        None => (magnitude, 10),
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return Err(NumberError::NotAnInteger);
    }
    let out_of_range = NumberError::OutOfRange { low, high };
    let magnitude = i128::from_str_radix(digits, radix).map_err(|_| out_of_range.clone())?;
    let value = if negative { -magnitude } else { magnitude };
    if (low..=high).contains(&value) { Ok(value) } else { Err(out_of_range) }
}

/// Reads an `f32`, also in hexadecimal.
///
/// # Errors
/// If the text is no number of this kind.
pub fn parse_f32(text: &str) -> Result<f32, NumberError> {
    match hexadecimal_digits(text) {
        Some((sign, digits)) => hexadecimal_f32(digits).map(|value| if sign { -value } else { value }),
        None => text.parse().ok(),
    }
    .ok_or(NumberError::NotAFloat)
}

/// Reads an `f64`, also in hexadecimal.
///
/// # Errors
/// If the text is no number of this kind.
pub fn parse_f64(text: &str) -> Result<f64, NumberError> {
    match hexadecimal_digits(text) {
        Some((sign, digits)) => hexadecimal_f64(digits).map(|value| if sign { -value } else { value }),
        None => text.parse().ok(),
    }
    .ok_or(NumberError::NotAFloat)
}

/// Reads `1.5`, `2i`, `1.5+2i` or `1e-3-2e-3i`: a real part, an imaginary part, or both.
///
/// # Errors
/// If a part is missing or `parse` refuses it.
pub fn parse_complex<T: Default>(
    text: &str,
    parse: impl Fn(&str) -> Result<T, NumberError>,
) -> Result<(T, T), NumberError> {
    let error = NumberError::NotAComplexNumber;
    let Some(parts) = text.strip_suffix('i') else {
        return Ok((parse(text).map_err(|_| error)?, T::default()));
    };
    // The sign of the imaginary part is the last one that neither begins the text nor belongs to an exponent.
    let bytes = parts.as_bytes();
    let is_sign = |at: &usize| matches!(bytes[*at], b'+' | b'-') && !matches!(bytes[at - 1], b'e' | b'E' | b'p' | b'P');
    let (re, im) = match (1..bytes.len()).rev().find(is_sign) {
        Some(at) => (parse(&parts[..at]).map_err(|_| error.clone())?, &parts[at..]),
        None => (T::default(), parts),
    };
    Ok((re, parse(im).map_err(|_| error)?))
}

/// The digits after `0x`, and whether a minus stands before it; nothing if the text has no such prefix.
fn hexadecimal_digits(text: &str) -> Option<(bool, &str)> {
    let (negative, magnitude) = split_sign(text);
    let digits = magnitude.strip_prefix("0x").or_else(|| magnitude.strip_prefix("0X"))?;
    Some((negative, digits))
}

fn split_sign(text: &str) -> (bool, &str) {
    match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers() {
        let i32_range = |text| parse_integer(text, i32::MIN.into(), u32::MAX.into());
        for (text, value) in [("0", 0), ("-5", -5), ("0x10", 16), ("010", 8), ("+7", 7), ("4294967295", 4294967295)] {
            assert_eq!(i32_range(text), Ok(value), "{text}");
        }
        for text in ["", "-", "1.5", "1e3", "0x", "08", "1_000", "0b11", "１"] {
            assert_eq!(i32_range(text), Err(NumberError::NotAnInteger), "{text}");
        }
        for text in ["4294967296", "-2147483649", "99999999999999999999999999999999999999999999"] {
            assert!(matches!(i32_range(text), Err(NumberError::OutOfRange { .. })), "{text}");
        }
    }

    #[test]
    fn floats() {
        for (text, value) in
            [("1", 1.0), ("-.5", -0.5), ("5.", 5.0), ("1e-3", 0.001), ("0x1p3", 8.0), ("-0x1.8p1", -3.0), ("0x.8", 0.5)]
        {
            assert_eq!(parse_f32(text), Ok(value), "{text}");
            assert_eq!(parse_f64(text).map(|v| v as f32), Ok(value), "{text}");
        }
        assert_eq!(parse_f32("1e400"), Ok(f32::INFINITY));
        assert_eq!(parse_f32("-infinity"), Ok(f32::NEG_INFINITY));
        assert_eq!(parse_f32("nan").unwrap().to_bits(), 0x7FC0_0000);
        assert_eq!(parse_f32("-nan").unwrap().to_bits(), 0xFFC0_0000);
        for text in ["", "-", "abc", "1.0abc", "1e", "0x", "0x1p", "0x1.2.3", "1,2"] {
            assert_eq!(parse_f32(text), Err(NumberError::NotAFloat), "{text}");
        }
    }

    #[test]
    fn complex_numbers() {
        for (text, value) in [
            ("1", (1.0, 0.0)),
            ("2i", (0.0, 2.0)),
            ("-2i", (0.0, -2.0)),
            ("1+2i", (1.0, 2.0)),
            ("-1.5-2.5i", (-1.5, -2.5)),
            ("1e-3-2e-3i", (1e-3, -2e-3)),
            ("1e-3i", (0.0, 1e-3)),
            ("inf+1i", (f32::INFINITY, 1.0)),
        ] {
            assert_eq!(parse_complex(text, parse_f32), Ok(value), "{text}");
        }
        for text in ["", "i", "+i", "1+", "1+i2", "1++2i", "ä+1i", "1+2j"] {
            assert_eq!(parse_complex(text, parse_f32), Err(NumberError::NotAComplexNumber), "{text}");
        }
    }

    #[test]
    fn hexadecimal_floats_round_once() {
        assert_eq!(parse_f32("0x1.000001p0"), Ok(1.0));
        assert_eq!(parse_f32("0x1.0000010000000001p0"), Ok(1.000_000_1));
        assert_eq!(parse_f32("0x1.000003p0"), Ok(1.000_000_2));
        assert_eq!(parse_f32("0x1p-149"), Ok(f32::from_bits(1)));
        assert_eq!(parse_f32("0x1p-150"), Ok(0.0));
        assert_eq!(parse_f32("0x1.8p-150"), Ok(f32::from_bits(1)));
        assert_eq!(parse_f32("0x1p128"), Ok(f32::INFINITY));
        assert_eq!(parse_f64("0x1p-1074"), Ok(f64::from_bits(1)));
        assert_eq!(parse_f64("0x1.fffffffffffffp1023"), Ok(f64::MAX));
        assert_eq!(parse_f64("0x1p1024"), Ok(f64::INFINITY));
        assert_eq!(parse_f64("0x1p-999999999999"), Ok(0.0));
        assert_eq!(parse_f64(&format!("0x{}p-4000", "f".repeat(1000))), Ok(1.0));
    }
}
