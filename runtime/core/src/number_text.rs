//! Floats as text: printing in the form of C's `printf` with `%g`, and parsing of hexadecimal floats. The command, the
//! assembler and the disassembler use it.
//!
//! The standard library parses decimal floats. The crate `hexf-parse` refuses hexadecimal digits that have to be
//! rounded, which C's `strtof` accepts, so those are parsed here.

/// `value` with at most `digits` significant digits (at least one): trailing zeros are dropped, and an exponent is
/// written where it is below -4 or not below `digits`. NaN and infinity are `nan` and `inf`, with their sign.
pub fn general(value: f64, digits: usize) -> String {
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value.is_nan() {
        return format!("{sign}nan");
    }
    if value.is_infinite() {
        return format!("{sign}inf");
    }
    // The exponent of the rounded value decides the form, and the scientific form has it.
    let digits = digits.max(1);
    let scientific = format!("{:.*e}", digits - 1, value.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent = exponent.parse::<i32>().unwrap_or(0);
    let limit = i32::try_from(digits).unwrap_or(i32::MAX);
    if (-4..limit).contains(&exponent) {
        let decimals = usize::try_from(limit - 1 - exponent).unwrap_or(0);
        format!("{sign}{}", strip_zeros(&format!("{:.decimals$}", value.abs())))
    } else {
        let exponent_sign = if exponent < 0 { '-' } else { '+' };
        format!("{sign}{}e{exponent_sign}{:02}", strip_zeros(mantissa), exponent.unsigned_abs())
    }
}

fn strip_zeros(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

/// Parses the part of a hexadecimal float after `0x`, such as `1.8p-3`, rounded once to nearest, ties to even. A value
/// that is too large is infinity. None if the text is not such a number.
pub fn hexadecimal_f32(text: &str) -> Option<f32> {
    // The bits of the format, which are 32.
    hexadecimal(text, Format { precision: 24, max_exponent: 127 }).map(|bits| f32::from_bits(bits as u32))
}

/// As [`hexadecimal_f32`].
pub fn hexadecimal_f64(text: &str) -> Option<f64> {
    hexadecimal(text, Format { precision: 53, max_exponent: 1023 }).map(f64::from_bits)
}

/// A binary format of floats.
#[derive(Clone, Copy)]
struct Format {
    /// Bits of the significand, with the leading one.
    precision: u32,
    /// Largest exponent of a finite number.
    max_exponent: i64,
}

fn hexadecimal(text: &str, format: Format) -> Option<u64> {
    let (digits, mut exponent) = match text.find(['p', 'P']) {
        // No exponent of a float has more than a few digits; the bound keeps the arithmetic below from overflowing.
        Some(at) => (&text[..at], text[at + 1..].parse::<i64>().ok()?.clamp(-1 << 40, 1 << 40)),
        None => (text, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // Digits that do not fit into the significand only decide between rounding up and down: the sticky bit.
    let (mut significand, mut sticky) = (0_u64, false);
    for (index, digit) in whole.chars().chain(fraction.chars()).enumerate() {
        let (digit, is_fraction) = (digit.to_digit(16)?, index >= whole.len());
        if significand >> 60 == 0 {
            significand = significand << 4 | u64::from(digit);
            exponent -= if is_fraction { 4 } else { 0 };
        } else {
            sticky |= digit != 0;
            exponent += if is_fraction { 0 } else { 4 };
        }
    }
    Some(round(significand, sticky, exponent, format))
}

/// The bits of `significand * 2^exponent`, or of a slightly larger number if `sticky`.
fn round(significand: u64, sticky: bool, exponent: i64, format: Format) -> u64 {
    if significand == 0 {
        return 0;
    }
    let precision = i64::from(format.precision);
    let length = i64::from(64 - significand.leading_zeros());
    let smallest = 2 - format.max_exponent - precision;
    // The exponent of the last bit of the result.
    let mut unit = (exponent + length - precision).max(smallest);
    let shift = unit - exponent;
    let mut rounded = if shift <= 0 {
        significand << -shift
    } else if shift > length {
        0
    } else {
        let significand = u128::from(significand);
        let (kept, rest, half) = (significand >> shift, significand & ((1 << shift) - 1), 1_u128 << (shift - 1));
        let up = rest > half || (rest == half && (sticky || kept & 1 == 1));
        // At most 64 bits were kept.
        kept as u64 + u64::from(up)
    };
    if rounded >> precision != 0 {
        rounded >>= 1;
        unit += 1;
    }
    let leading = 1_u64 << (precision - 1);
    if rounded < leading {
        return rounded;
    }
    let top = unit + precision - 1;
    // The exponent of a normal number is at least that of the smallest one, so it is positive with the bias.
    let biased = top.min(format.max_exponent + 1) + format.max_exponent;
    let fraction = if top > format.max_exponent { 0 } else { rounded & (leading - 1) };
    (biased as u64) << (precision - 1) | fraction
}

#[cfg(test)]
mod tests {
    use super::{general, hexadecimal_f32, hexadecimal_f64};

    #[test]
    fn six_digits() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (1.5, "1.5"),
            (123456.0, "123456"),
            (1234567.0, "1.23457e+06"),
            (999999.5, "1e+06"),
            // Ties go to even, as everywhere.
            (100000.5, "100000"),
            (0.0009765625, "0.000976562"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1e100, "1e+100"),
            (f64::from(f32::from_bits(1)), "1.4013e-45"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
            (-f64::NAN, "-nan"),
        ];
        for (value, text) in cases {
            assert_eq!(general(value, 6), text, "{value:e}");
        }
    }

    #[test]
    fn as_many_digits_as_name_every_float() {
        assert_eq!(general(0.1_f32.into(), 9), "0.100000001");
        assert_eq!(general(0.1, 17), "0.10000000000000001");
        assert_eq!(general(1e9, 9), "1e+09");
        assert_eq!(general(123_456_789.0, 9), "123456789");
        assert_eq!(general(5.0, 0), "5");
    }

    #[test]
    fn hexadecimal_floats_are_rounded_once() {
        let f32s = [
            ("1.8p-3", 0.1875_f32),
            ("10", 16.0),
            ("0p0", 0.0),
            (".8p1", 1.0),
            ("1.8P+1", 3.0),
            ("1p-149", f32::from_bits(1)),
            ("1p-150", 0.0),
            ("1.8p-150", f32::from_bits(1)),
            ("1.000001p-150", f32::from_bits(1)),
            ("1.000001p0", 1.0),
            ("1.0000011p0", f32::from_bits(0x3F80_0001)),
            ("1.0000010000000001p0", f32::from_bits(0x3F80_0001)),
            ("1.fffffep127", f32::MAX),
            ("1.ffffffp127", f32::INFINITY),
            ("1p128", f32::INFINITY),
            ("1.fffffep-127", f32::MIN_POSITIVE),
        ];
        for (text, value) in f32s {
            assert_eq!(hexadecimal_f32(text).map(f32::to_bits), Some(value.to_bits()), "{text}");
        }
        let f64s = [
            ("1p-1074", f64::from_bits(1)),
            ("1.fffffffffffffp1023", f64::MAX),
            ("1p1024", f64::INFINITY),
            ("1.8p-3", 0.1875),
            ("1p-999999999999", 0.0),
            ("1p999999999999", f64::INFINITY),
            ("1.000000000000000000000000001p0", 1.0),
            (&format!("{}p-4000", "f".repeat(1000)), 1.0),
        ];
        for (text, value) in f64s {
            assert_eq!(hexadecimal_f64(text).map(f64::to_bits), Some(value.to_bits()), "{text}");
        }
        for text in ["", ".", "p1", "1p", "1.2.3", "1g", "+1", "1p99999999999999999999", "1p1.5"] {
            assert_eq!(hexadecimal_f64(text), None, "{text}");
        }
    }
}
