//! Floats as text, in the form of C's `printf` with `%g`.

/// `value` with at most `digits` significant digits (at least one): trailing zeros are dropped, and an exponent is written where it is
/// below -4 or not below `digits`. NaN and infinity are `nan` and `inf`, with their sign.
pub fn general(value: f64, digits: usize) -> String {
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value.is_nan() {
        return format!("{sign}nan");
    }
    if value.is_infinite() {
        return format!("{sign}inf");
    }
    // The scientific form says which exponent the rounded value has, and that decides the form.
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

#[cfg(test)]
mod tests {
    use super::general;

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
}
