//! Float literals of the assembler, in the forms that C reads and that `spec/` writes: decimal, hexadecimal, `nan`,
//! `inf`, or the bits as `f32:0x7fc00000`. The parsers of immediates call it.

use crate::number_text::{hexadecimal_f32, hexadecimal_f64};

/// A binary format of floats.
#[derive(Clone, Copy)]
pub(super) struct Format {
    /// Its name, as the prefix of literal bits.
    name: &'static str,
    /// Bits of the significand, with the leading one.
    precision: u32,
    /// Largest exponent of a finite number.
    max_exponent: i64,
}

pub(super) const F32: Format = Format { name: "f32", precision: 24, max_exponent: 127 };
pub(super) const F64: Format = Format { name: "f64", precision: 53, max_exponent: 1023 };

impl Format {
    fn sign_bit(self) -> u64 {
        if self.precision == 24 { 1 << 31 } else { 1 << 63 }
    }

    fn infinity(self) -> u64 {
        (2 * self.max_exponent as u64 + 1) << (self.precision - 1)
    }

    fn quiet_bit(self) -> u64 {
        1 << (self.precision - 2)
    }
}

/// The bits of the float literal `text`. None if it is no float, or too large for the format; what is too small is
/// rounded.
pub(super) fn float_bits(text: &str, format: Format) -> Option<u64> {
    if let Some(bits) = text.strip_prefix(format.name).and_then(|text| text.strip_prefix(":0x")) {
        return u64::from_str_radix(bits, 16).ok().filter(|bits| *bits <= (format.sign_bit() - 1) * 2 + 1);
    }
    let (sign, magnitude) = match text.strip_prefix('-') {
        Some(magnitude) => (format.sign_bit(), magnitude),
        None => (0, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = magnitude.to_ascii_lowercase();
    let bits = match lower.as_str() {
        "inf" | "infinity" => format.infinity(),
        "nan" => format.infinity() | format.quiet_bit(),
        _ => match lower.strip_prefix("0x") {
            Some(digits) => hexadecimal(digits, format)?,
            None => decimal(&lower, format)?,
        },
    };
    Some(sign | bits)
}

fn decimal(text: &str, format: Format) -> Option<u64> {
    // Rust also parses names of special values; those were parsed above, in the forms of C.
    if !text.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    match format.precision {
        24 => text.parse::<f32>().ok().filter(|value| value.is_finite()).map(|value| value.to_bits().into()),
        _ => text.parse::<f64>().ok().filter(|value| value.is_finite()).map(f64::to_bits),
    }
}

/// Parses `1.8p-3`. None if it is too large for the format.
fn hexadecimal(text: &str, format: Format) -> Option<u64> {
    // Exponents beyond these limits are beyond those of both formats, whatever the digits.
    let exponent = text.split_once('p').map_or("0", |(_, exponent)| exponent);
    exponent.parse::<i32>().ok().filter(|exponent| exponent.unsigned_abs() < 1 << 20)?;
    match format.precision {
        24 => hexadecimal_f32(text).filter(|value| value.is_finite()).map(|value| value.to_bits().into()),
        _ => hexadecimal_f64(text).filter(|value| value.is_finite()).map(f64::to_bits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_floats_are_rounded_once() {
        let f32s = [
            ("0x1.8p-3", 0.1875_f32),
            ("0x10", 16.0),
            ("-0x0p0", -0.0),
            ("0x.8p1", 1.0),
            ("0x1p-149", f32::from_bits(1)),
            ("0x1p-150", 0.0),
            ("0x1.000001p-150", f32::from_bits(1)),
            ("0x1.000001p0", 1.0),
            ("0x1.0000011p0", f32::from_bits(0x3F80_0001)),
            ("0x1.fffffep127", f32::MAX),
            ("0x1.fffffep-127", f32::MIN_POSITIVE),
        ];
        for (text, value) in f32s {
            assert_eq!(float_bits(text, F32), Some(value.to_bits().into()), "{text}");
        }
        let f64s = [("0x1p-1074", f64::from_bits(1)), ("0x1.fffffffffffffp1023", f64::MAX), ("0x1.8p-3", 0.1875)];
        for (text, value) in f64s {
            assert_eq!(float_bits(text, F64), Some(value.to_bits()), "{text}");
        }
        assert_eq!(float_bits("0x1.000000000000000000000000001p0", F64), Some(1.0_f64.to_bits()));
        assert_eq!(float_bits("0x1.ffffffp127", F32), None);
    }

    #[test]
    fn the_other_forms() {
        assert_eq!(float_bits("-nan", F32), Some(0xFFC0_0000));
        assert_eq!(float_bits("inf", F64), Some(f64::INFINITY.to_bits()));
        assert_eq!(float_bits("f32:0x7f800001", F32), Some(0x7F80_0001));
        assert_eq!(float_bits("f64:0x7FF0000000000001", F64), Some(0x7FF0_0000_0000_0001));
        assert_eq!(float_bits("0.100000001", F32), Some(0.1_f32.to_bits().into()));
        for text in
            ["", "-", "0x", "0x.", "0xp1", "1e", "1e999", "f32:0x1ffffffff", "f64:0x1", "nan1", "0x1p99999999999"]
        {
            assert_eq!(float_bits(text, F32), None, "{text}");
        }
    }
}
