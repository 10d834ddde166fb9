//! The conversions of `printf`: what is between the percent sign and the letter, and the text of a value.

/// Widths and precisions at most.
const MOST: usize = 4096;

/// How many bits an integer has in memory and in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    Byte,
    Half,
    Word,
    Long,
}

/// A conversion.
#[derive(Debug)]
pub(super) struct Spec {
    is_left: bool,
    has_plus: bool,
    has_space: bool,
    is_alternative: bool,
    has_zeros: bool,
    width: usize,
    precision: Option<usize>,
    /// Whether the width is a value, until it is taken.
    pub(super) width_is_value: Option<bool>,
    /// The same for the precision.
    pub(super) precision_is_value: Option<bool>,
    pub(super) length: Length,
    pub(super) conversion: u8,
}

/// A value of a conversion.
#[derive(Debug)]
pub(super) enum Value {
    Percent,
    Text(Vec<u8>),
    Float(f64),
    /// The bits in memory.
    Integer(u64),
}

/// A number of digits, and how many there are.
fn number(text: &[u8]) -> Result<(usize, usize), String> {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value = text[..count]
        .iter()
        .fold(0usize, |value, digit| value.saturating_mul(10).saturating_add(usize::from(digit - b'0')));
    if value > MOST { Err(format!("a width or precision of more than {MOST}")) } else { Ok((value, count)) }
}

/// The conversion after a percent sign, and how many bytes it has.
pub(super) fn parse(text: &[u8]) -> Result<(Spec, usize), String> {
    let mut spec = Spec {
        is_left: false,
        has_plus: false,
        has_space: false,
        is_alternative: false,
        has_zeros: false,
        width: 0,
        precision: None,
        width_is_value: None,
        precision_is_value: None,
        length: Length::Word,
        conversion: 0,
    };
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'-' => spec.is_left = true,
            b'+' => spec.has_plus = true,
            b' ' => spec.has_space = true,
            b'#' => spec.is_alternative = true,
            b'0' => spec.has_zeros = true,
            _ => break,
        }
        at += 1;
    }
    if text.get(at) == Some(&b'*') {
        (spec.width_is_value, at) = (Some(true), at + 1);
    } else {
        let (width, count) = number(&text[at..])?;
        (spec.width, at) = (width, at + count);
    }
    if text.get(at) == Some(&b'.') {
        at += 1;
        if text.get(at) == Some(&b'*') {
            (spec.precision_is_value, at) = (Some(true), at + 1);
        } else {
            let (precision, count) = number(&text[at..])?;
            (spec.precision, at) = (Some(precision), at + count);
        }
    }
    let lengths: [(&[u8], Length); 8] = [
        (b"hh", Length::Byte),
        (b"h", Length::Half),
        (b"ll", Length::Long),
        (b"l", Length::Long),
        (b"j", Length::Long),
        (b"z", Length::Long),
        (b"t", Length::Long),
        (b"L", Length::Long),
    ];
    if let Some((name, length)) = lengths.iter().find(|(name, _)| text[at..].starts_with(name)) {
        (spec.length, at) = (*length, at + name.len());
    }
    let Some(conversion) = text.get(at).filter(|byte| b"diuoxXcspfFeEgGaA%".contains(byte)) else {
        let end = text.get(at).map_or_else(|| "nothing".to_string(), |byte| format!("`{}`", byte.escape_ascii()));
        return Err(format!("{end} in the place of a conversion"));
    };
    spec.conversion = *conversion;
    if spec.conversion == b'p' {
        spec.length = Length::Long;
    }
    Ok((spec, at + 1))
}

impl Spec {
    /// Takes the value of the width, or else of the precision.
    pub(super) fn take(&mut self, value: i32) -> Result<(), String> {
        let size = value.unsigned_abs() as usize;
        if size > MOST {
            return Err(format!("a width or precision of {value}: expected {MOST} at most"));
        }
        if self.width_is_value == Some(true) {
            (self.width_is_value, self.width) = (Some(false), size);
            self.is_left |= value < 0;
        } else {
            (self.precision_is_value, self.precision) = (Some(false), (value >= 0).then_some(size));
        }
        Ok(())
    }

    pub(super) fn is_float(&self) -> bool {
        b"fFeEgGaA".contains(&self.conversion)
    }

    fn sign(&self, is_negative: bool) -> &'static str {
        match (is_negative, self.has_plus, self.has_space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        }
    }

    /// Writes a value.
    pub(super) fn write(&self, value: &Value, out: &mut Vec<u8>) {
        match value {
            Value::Percent => out.push(b'%'),
            Value::Text(text) => {
                let length = self.precision.map_or(text.len(), |most| most.min(text.len()));
                self.pad("", &text[..length], false, out);
            }
            Value::Integer(bits) if self.conversion == b'c' => self.pad("", &[*bits as u8], false, out),
            Value::Integer(bits) => self.integer(*bits, out),
            Value::Float(value) => self.float(*value, out),
        }
    }

    /// Writes a sign or prefix and digits, with spaces or zeros up to the width.
    fn pad(&self, prefix: &str, digits: &[u8], may_have_zeros: bool, out: &mut Vec<u8>) {
        let missing = self.width.saturating_sub(prefix.len() + digits.len());
        let fill = |out: &mut Vec<u8>, byte: u8, is_there: bool| {
            out.extend(std::iter::repeat_n(byte, if is_there { missing } else { 0 }));
        };
        let has_zeros = self.has_zeros && may_have_zeros && !self.is_left;
        fill(out, b' ', !self.is_left && !has_zeros);
        out.extend(prefix.as_bytes());
        fill(out, b'0', has_zeros);
        out.extend(digits);
        fill(out, b' ', self.is_left);
    }

    fn integer(&self, bits: u64, out: &mut Vec<u8>) {
        let unsigned = match self.length {
            Length::Byte => bits & 0xFF,
            Length::Half => bits & 0xFFFF,
            Length::Word => bits & 0xFFFF_FFFF,
            Length::Long => bits,
        };
        let signed = match self.length {
            Length::Byte => i64::from(bits as i8),
            Length::Half => i64::from(bits as i16),
            Length::Word => i64::from(bits as i32),
            Length::Long => bits as i64,
        };
        let (mut prefix, mut digits) = match self.conversion {
            b'd' | b'i' => (self.sign(signed < 0), signed.unsigned_abs().to_string()),
            b'u' => ("", unsigned.to_string()),
            b'o' => ("", format!("{unsigned:o}")),
            b'X' => (if self.is_alternative { "0X" } else { "" }, format!("{unsigned:X}")),
            b'p' => ("0x", format!("{unsigned:x}")),
            _ => (if self.is_alternative { "0x" } else { "" }, format!("{unsigned:x}")),
        };
        if unsigned == 0 {
            prefix = if matches!(self.conversion, b'x' | b'X') { "" } else { prefix };
            if self.precision == Some(0) {
                digits.clear();
            }
        }
        if let Some(precision) = self.precision {
            digits.insert_str(0, &"0".repeat(precision.saturating_sub(digits.len())));
        }
        if self.conversion == b'o' && self.is_alternative && !digits.starts_with('0') {
            digits.insert(0, '0');
        }
        self.pad(prefix, digits.as_bytes(), self.precision.is_none(), out);
    }

    fn float(&self, value: f64, out: &mut Vec<u8>) {
        let (sign, magnitude) = (self.sign(value.is_sign_negative()), value.abs());
        let mut text = if value.is_nan() {
            "nan".to_string()
        } else if value.is_infinite() {
            "inf".to_string()
        } else {
            match self.conversion.to_ascii_lowercase() {
                b'f' => self.fixed(magnitude, self.precision.unwrap_or(6)),
                b'e' => self.exponential(magnitude, self.precision.unwrap_or(6)),
                b'g' => self.general(magnitude),
                _ => self.hexadecimal(magnitude),
            }
        };
        if self.conversion.is_ascii_uppercase() {
            text.make_ascii_uppercase();
        }
        // A hexadecimal prefix comes before zeros of the width.
        let prefix_length = if text.starts_with("0x") || text.starts_with("0X") { 2 } else { 0 };
        let prefix = format!("{sign}{}", &text[..prefix_length]);
        self.pad(&prefix, &text.as_bytes()[prefix_length..], value.is_finite(), out);
    }

    fn fixed(&self, value: f64, precision: usize) -> String {
        let point = if precision == 0 && self.is_alternative { "." } else { "" };
        format!("{value:.precision$}{point}")
    }

    fn exponential(&self, value: f64, precision: usize) -> String {
        let text = format!("{value:.precision$e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or_default();
        let point = if precision == 0 && self.is_alternative { "." } else { "" };
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{digits}{point}e{sign}{:02}", exponent.unsigned_abs())
    }

    fn general(&self, value: f64) -> String {
        let precision = self.precision.unwrap_or(6).max(1);
        let rounded = format!("{value:.*e}", precision - 1);
        let exponent: i32 = rounded.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or_default();
        let is_fixed = exponent >= -4 && exponent < precision as i32;
        let text = if is_fixed {
            self.fixed(value, (precision as i32 - 1 - exponent) as usize)
        } else {
            self.exponential(value, precision - 1)
        };
        if self.is_alternative {
            return text;
        }
        let (digits, exponent) = text.find('e').map_or((text.as_str(), ""), |at| text.split_at(at));
        let digits = if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
        format!("{digits}{exponent}")
    }

    fn hexadecimal(&self, value: f64) -> String {
        let bits = value.to_bits();
        let (power, mut fraction) = ((bits >> 52) as i32, bits & ((1 << 52) - 1));
        let (mut first, power) = match (power, fraction) {
            (0, 0) => (0, 0),
            (0, _) => (0, -1022),
            (power, _) => (1, power - 1023),
        };
        let digits = match self.precision {
            Some(precision) if precision < 13 => {
                // To the nearest, of two the even one.
                let dropped = 4 * (13 - precision as u32);
                let (whole, rest, half) =
                    ((first << 52) | fraction, fraction & ((1 << dropped) - 1), 1 << (dropped - 1));
                let kept = whole >> dropped;
                let up = rest > half || (rest == half && kept & 1 == 1);
                let kept = kept + u64::from(up);
                first = kept >> (4 * precision);
                fraction = kept & ((1 << (4 * precision)) - 1);
                if precision == 0 { String::new() } else { format!("{fraction:0precision$x}") }
            }
            Some(precision) => format!("{fraction:013x}{}", "0".repeat(precision - 13)),
            None => format!("{fraction:013x}").trim_end_matches('0').to_string(),
        };
        let point = if digits.is_empty() && !self.is_alternative { "" } else { "." };
        format!("0x{first}{point}{digits}p{power:+}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: &str, value: &Value) -> String {
        let (spec, length) = parse(&format.as_bytes()[1..]).expect(format);
        assert_eq!(length, format.len() - 1);
        let mut out = Vec::new();
        spec.write(value, &mut out);
        String::from_utf8(out).expect("ASCII")
    }

    /// Results of the C library.
    #[test]
    fn texts_are_those_of_c() {
        let integers = [
            ("%d", -7i64, "-7"),
            ("%5d", 42, "   42"),
            ("%-5d", 42, "42   "),
            ("%05d", -42, "-0042"),
            ("%+d", 42, "+42"),
            ("% d", 42, " 42"),
            ("%.3d", 7, "007"),
            ("%05.3d", 7, "  007"),
            ("%.0d", 0, ""),
            ("%hhd", 300, "44"),
            ("%hd", 70000, "4464"),
            ("%u", -1, "4294967295"),
            ("%llu", -1, "18446744073709551615"),
            ("%x", 255, "ff"),
            ("%#X", 255, "0XFF"),
            ("%#x", 0, "0"),
            ("%#o", 8, "010"),
            ("%p", 4096, "0x1000"),
            ("%3c", 65, "  A"),
        ];
        for (format, value, expected) in integers {
            assert_eq!(written(format, &Value::Integer(value as u64)), expected, "{format}");
        }
        let floats = [
            ("%f", 1.5, "1.500000"),
            ("%.0f", 2.5, "2"),
            ("%#.0f", 2.5, "2."),
            ("%8.3f", -std::f64::consts::PI, "  -3.142"),
            ("%08.2f", -1.5, "-0001.50"),
            ("%e", 12345.678, "1.234568e+04"),
            ("%.2E", 1.5e-10, "1.50E-10"),
            ("%e", 0.0, "0.000000e+00"),
            ("%e", 1e300, "1.000000e+300"),
            ("%g", 100_000.0, "100000"),
            ("%g", 1_000_000.0, "1e+06"),
            ("%g", 0.0001, "0.0001"),
            ("%g", 0.00001, "1e-05"),
            ("%g", 999_999.5, "1e+06"),
            ("%#g", 1.0, "1.00000"),
            ("%.3g", 2.0 / 3.0, "0.667"),
            ("%G", 1e-7, "1E-07"),
            ("%f", f64::INFINITY, "inf"),
            ("%05F", f64::NEG_INFINITY, " -INF"),
            ("%f", f64::NAN, "nan"),
            ("%a", 1.0, "0x1p+0"),
            ("%a", 0.1, "0x1.999999999999ap-4"),
            ("%.2a", 0.1, "0x1.9ap-4"),
            ("%.0a", 1.5, "0x2p+0"),
            ("%A", -0.5, "-0X1P-1"),
        ];
        for (format, value, expected) in floats {
            assert_eq!(written(format, &Value::Float(value)), expected, "{format}");
        }
        assert_eq!(written("%-6.2s", &Value::Text(b"abc".to_vec())), "ab    ");
        assert_eq!(written("%%", &Value::Percent), "%");
    }

    /// Programs may write anything there.
    #[test]
    fn drawn_conversions_have_a_text_or_are_refused() {
        let alphabet = b"-+ #0123456789.*hlLjztdiuoxXcspfFeEgGaA%n";
        let mut state = 0xF0_u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 24
        };
        let mut count = 0;
        for _ in 0..20_000 {
            let text: Vec<u8> = (0..1 + draw() % 8).map(|_| alphabet[draw() as usize % alphabet.len()]).collect();
            let Ok((mut spec, length)) = parse(&text) else { continue };
            assert!(length <= text.len());
            let sizes = [spec.width_is_value, spec.precision_is_value];
            if sizes.iter().flatten().any(|_| spec.take((draw() as i32) >> (draw() % 32)).is_err()) {
                continue;
            }
            let bits = draw() << 40 | draw();
            let value = match spec.conversion {
                b's' => Value::Text(text.clone()),
                _ if spec.is_float() => Value::Float(f64::from_bits(bits << (draw() % 24))),
                _ => Value::Integer(bits),
            };
            let mut out = Vec::new();
            spec.write(&value, &mut out);
            assert!(out.len() >= spec.width, "{}", text.escape_ascii());
            count += 1;
        }
        assert!(count > 5_000, "{count}");
    }

    #[test]
    fn other_conversions_are_refused() {
        for format in ["n", "5", "", ".y", "99999d", ".99999f", "l"] {
            assert!(parse(format.as_bytes()).is_err(), "{format}");
        }
    }
}
