//! Conversions between widths of integers and of floats. Those between integers and floats are methods of
//! [`super::Float`].

/// The low 8 bits, zero-extended.
#[inline(always)]
pub fn low8_zext(value: i32) -> i32 {
    i32::from(value as u8)
}

/// The low 16 bits, zero-extended.
#[inline(always)]
pub fn low16_zext(value: i32) -> i32 {
    i32::from(value as u16)
}

/// The low 8 bits, sign-extended.
#[inline(always)]
pub fn low8_sext(value: i32) -> i32 {
    i32::from(value as i8)
}

/// The low 16 bits, sign-extended.
#[inline(always)]
pub fn low16_sext(value: i32) -> i32 {
    i32::from(value as i16)
}

/// The low 32 bits.
#[inline(always)]
pub fn low32(value: i64) -> i32 {
    value as i32
}

/// Sign-extension.
#[inline(always)]
pub fn sext64(value: i32) -> i64 {
    i64::from(value)
}

/// Zero-extension.
#[inline(always)]
pub fn zext64(value: i32) -> i64 {
    i64::from(value as u32)
}

/// Narrows, rounding to nearest even.
#[inline(always)]
pub fn fdemote(value: f64) -> f32 {
    value as f32
}

/// Widens exactly.
#[inline(always)]
pub fn fpromote(value: f32) -> f64 {
    f64::from(value)
}

/// Rounds half away from zero to an unsigned 64-bit integer. Negative values convert as `round_i64` does; `1 << 63` for
/// NaN and for what is too large.
#[inline]
pub fn round_u64_f32(value: f32) -> i64 {
    const TWO_TO_63: f32 = 9_223_372_036_854_775_808.0;
    let rounded = value.round();
    if (TWO_TO_63..2.0 * TWO_TO_63).contains(&rounded) {
        rounded as u64 as i64
    } else {
        super::Float::round_i64(rounded)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Float;
    use super::*;

    #[test]
    fn widths() {
        assert_eq!((low8_zext(-1), low8_sext(0x1FF), low8_sext(0x80)), (255, -1, -128));
        assert_eq!((low16_zext(-1), low16_sext(0x1_8000)), (65535, -32768));
        assert_eq!(low32(0x1_8000_0000), i32::MIN);
        assert_eq!((sext64(-1), zext64(-1)), (-1, 0xFFFF_FFFF));
    }

    #[test]
    fn float_to_integer_rounds_half_away_from_zero() {
        for (value, expected) in [(0.5, 1), (2.5, 3), (-2.5, -3), (0.499_999_97, 0), (3e9, 3_000_000_000)] {
            assert_eq!(f32::round_i64(value), expected, "{value}");
        }
        assert_eq!(low32(f32::round_i64(3e9)), -1_294_967_296);
        assert_eq!(low32(f32::round_i64(5e9)), 705_032_704);
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e20, -1e20] {
            assert_eq!(f32::round_i64(value), i64::MIN);
            assert_eq!(low32(f32::round_i64(value)), 0);
        }
        assert_eq!(f64::round_i64(-9_223_372_036_854_775_808.0), i64::MIN);
        assert_eq!(f64::round_i64(9_223_372_036_854_774_784.0), 9_223_372_036_854_774_784);
        assert_eq!(f64::round_i64(1e19), i64::MIN);
    }

    #[test]
    fn double_to_i32_goes_through_float() {
        assert_eq!(low32(f32::round_i64(fdemote(16_777_217.0))), 16_777_216);
        assert_eq!(low32(f32::round_i64(fdemote(2_147_483_647.0))), i32::MIN);
        assert_eq!(low32(f32::round_i64(fdemote(4_294_967_295.0))), 0);
    }

    #[test]
    fn float_to_unsigned() {
        assert_eq!(round_u64_f32(1e19) as u64, 9_999_999_980_506_447_872);
        assert_eq!(round_u64_f32(-1.0), -1);
        assert_eq!(round_u64_f32(9_223_372_036_854_775_808.0), i64::MIN);
        assert_eq!(round_u64_f32(4.5), 5);
        for value in [f32::NAN, 1e20, f32::INFINITY, f32::NEG_INFINITY, -1e20] {
            assert_eq!(round_u64_f32(value), i64::MIN);
        }
    }

    #[test]
    fn integer_to_float_rounds_once() {
        assert_eq!(f32::i32_to_f(16_777_217), 16_777_216.0);
        assert_eq!(f32::u32_to_f(-1), 4_294_967_296.0);
        assert_eq!(f64::i64_to_f(i64::MIN), -9_223_372_036_854_775_808.0);
        assert_eq!(f32::u64_to_f(-1), 18_446_744_073_709_551_616.0);
        // Through an intermediate f64 this would round to even twice and end one lower.
        assert_eq!(f32::u64_to_f(0x0100_0001_0000_0001).to_bits(), 0x5B80_0001);
    }

    #[test]
    fn width_of_floats() {
        assert_eq!(fdemote(1.0 + f64::EPSILON), 1.0);
        assert_eq!(fpromote(f32::MIN_POSITIVE / 2.0), 2f64.powi(-127));
        assert!(fdemote(f64::NAN).is_nan());
        assert_eq!(fdemote(1e300), f32::INFINITY);
    }
}
