//! Floats in the forms that C reads and that `spec/` writes: decimal, hexadecimal, `nan`, `inf`, or the bits as `f32:0x7fc00000`.

/// A binary format of floats.
#[derive(Clone, Copy)]
pub(super) struct Format {
    /// Its name in front of bits.
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

/// The bits of the float that `text` names, if it names one. What is too large is none; what is too small is rounded.
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
    // Rust reads names of special values too, and they were read above.
    if !text.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    match format.precision {
        24 => text.parse::<f32>().ok().filter(|value| value.is_finite()).map(|value| value.to_bits().into()),
        _ => text.parse::<f64>().ok().filter(|value| value.is_finite()).map(f64::to_bits),
    }
}

/// `1.8p-3`, rounded once to the nearest, ties to even.
fn hexadecimal(text: &str, format: Format) -> Option<u64> {
    let (digits, exponent) = text.split_once('p').unwrap_or((text, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // Exponents beyond these limits are beyond those of both formats, whatever the digits.
    let mut exponent = exponent.parse::<i32>().ok().filter(|exponent| exponent.unsigned_abs() < 1 << 20)?;
    let (mut significand, mut sticky) = (0_u64, false);
    let fraction_start = whole.len();
    for (index, digit) in whole.chars().chain(fraction.chars()).enumerate() {
        let digit = digit.to_digit(16)?;
        if significand >> 59 == 0 {
            significand = significand << 4 | u64::from(digit);
            exponent = exponent.checked_sub(if index >= fraction_start { 4 } else { 0 })?;
        } else {
            sticky |= digit != 0;
            exponent = exponent.checked_add(if index >= fraction_start { 0 } else { 4 })?;
        }
    }
    round(significand, sticky, exponent.into(), format)
}

/// `significand * 2^exponent`, plus a little if `sticky`.
fn round(significand: u64, sticky: bool, exponent: i64, format: Format) -> Option<u64> {
    if significand == 0 {
        return Some(0);
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
        return Some(rounded);
    }
    let top = unit + precision - 1;
    let biased = u64::try_from(top + format.max_exponent).ok().filter(|_| top <= format.max_exponent)?;
    Some(biased << (precision - 1) | (rounded & (leading - 1)))
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
