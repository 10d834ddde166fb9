//! Floating-point formats that are narrower than `f32`: their values as `f32` and back, for tools.
//!
//! The conversions are those of the IREE tools, so that texts and bytes agree with theirs: rounding is to nearest, ties
//! to even; a magnitude below the smallest subnormal becomes zero; NaNs lose sign and payload when widened and become
//! all ones when narrowed. The crate `half` preserves sign and payload of NaNs as far as they fit, and has only two of
//! the formats. The bits of each format are in `spec/hal/types.yaml`.

use crate::ElementType;

/// A binary format with a sign bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NarrowFloat {
    exponent_bits: u32,
    mantissa_bits: u32,
    /// The top exponent means infinity or NaN, as in IEEE 754. Otherwise it is one more range of finite values.
    has_infinity: bool,
    /// The only NaN is the pattern that would be negative zero, and the bias is one more than IEEE 754 says.
    unsigned_zero: bool,
}

/// The values of a format besides numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Specials {
    /// Infinities, NaNs and a negative zero, as IEEE 754 has them.
    Ieee,
    /// NaNs with all bits set, and finite values instead of infinities.
    Fn,
    /// One NaN instead of the negative zero, finite values instead of infinities, and a bias that is greater by one.
    Fnuz,
}

/// IEEE 754 binary16.
pub const F16: NarrowFloat = of(ElementType::FLOAT_16);
/// The upper half of binary32.
pub const BF16: NarrowFloat = of(ElementType::BFLOAT_16);

const fn of(element_type: ElementType) -> NarrowFloat {
    match element_type.narrow_float() {
        Some(format) => format,
        None => panic!("the spec says the format of this type"),
    }
}

const F32_MANTISSA_BITS: u32 = 23;
const F32_BIAS: i32 = 127;

impl NarrowFloat {
    /// A format with so many bits of exponent and mantissa after the sign.
    pub const fn new(exponent_bits: u32, mantissa_bits: u32, specials: Specials) -> NarrowFloat {
        let has_infinity = matches!(specials, Specials::Ieee);
        NarrowFloat { exponent_bits, mantissa_bits, has_infinity, unsigned_zero: matches!(specials, Specials::Fnuz) }
    }

    fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1 + i32::from(self.unsigned_zero)
    }

    fn sign_mask(self) -> u32 {
        1 << (self.exponent_bits + self.mantissa_bits)
    }

    fn exponent_mask(self) -> u32 {
        ((1 << self.exponent_bits) - 1) << self.mantissa_bits
    }

    fn mantissa_mask(self) -> u32 {
        (1 << self.mantissa_bits) - 1
    }

    fn nan(self, sign: u32) -> u32 {
        if self.unsigned_zero { self.sign_mask() } else { sign | self.exponent_mask() | self.mantissa_mask() }
    }

    /// The value of the low bits of `bits`.
    pub fn widen(self, bits: u32) -> f32 {
        let sign = if bits & self.sign_mask() != 0 { -1.0 } else { 1.0 };
        let exponent = (bits & self.exponent_mask()) >> self.mantissa_bits;
        let mantissa = bits & self.mantissa_mask();
        let top = exponent == self.exponent_mask() >> self.mantissa_bits;
        if self.unsigned_zero {
            if exponent == 0 && mantissa == 0 && sign < 0.0 {
                return f32::NAN;
            }
        } else if top && self.has_infinity {
            return if mantissa == 0 { sign * f32::INFINITY } else { f32::NAN };
        } else if top && mantissa == self.mantissa_mask() {
            return f32::NAN;
        }
        // Subnormals have the exponent of 1 and no implied leading bit. `f64` holds every intermediate value exactly.
        let (significand, exponent) =
            if exponent == 0 { (mantissa, 1) } else { (mantissa | (1 << self.mantissa_bits), exponent as i32) };
        let scale = exponent - self.bias() - self.mantissa_bits as i32;
        (f64::from(sign) * f64::from(significand) * power_of_two(scale)) as f32
    }

    /// The bits of the nearest value to `value`.
    pub fn narrow(self, value: f32) -> u32 {
        let sign = if value.is_sign_negative() { self.sign_mask() } else { 0 };
        if value.is_nan() {
            return self.nan(sign);
        }
        let overflow = if self.has_infinity { sign | self.exponent_mask() } else { self.nan(sign) };
        let zero = if self.unsigned_zero { 0 } else { sign };
        if value.is_infinite() {
            return overflow;
        }
        let bits = value.to_bits();
        let mantissa = bits & ((1 << F32_MANTISSA_BITS) - 1);
        let biased = (bits >> F32_MANTISSA_BITS) & 0xFF;
        let exponent = biased as i32 - F32_BIAS;
        let shift = F32_MANTISSA_BITS - self.mantissa_bits;
        let magnitude = if biased == 0 {
            // A subnormal `f32` is a subnormal `bf16`, and far below every other format.
            if self.exponent_bits == 8 { round_shift(mantissa, shift) } else { 0 }
        } else if exponent > (1 << (self.exponent_bits - 1)) - i32::from(self.has_infinity) {
            return overflow;
        } else if exponent + self.bias() <= 0 {
            let shift = shift as i32 + 1 - self.bias() - exponent;
            if shift > F32_MANTISSA_BITS as i32 {
                0
            } else {
                round_shift(mantissa | (1 << F32_MANTISSA_BITS), shift as u32)
            }
        } else {
            // A carry out of the mantissa increments the exponent, which is what addition does.
            (((exponent + self.bias()) as u32) << self.mantissa_bits) + round_shift(mantissa, shift)
        };
        let limit = self.exponent_mask() | self.mantissa_mask();
        match magnitude {
            0 => zero,
            magnitude if magnitude > limit => overflow,
            magnitude => sign | magnitude,
        }
    }
}

/// `value >> shift` rounded to nearest, ties to even. `shift` is from 1 to 31.
fn round_shift(value: u32, shift: u32) -> u32 {
    let half = 1 << (shift - 1);
    let odd = (value >> shift) & 1;
    (value + (half - 1) + odd) >> shift
}

/// Two to the power of `exponent`, exact: every exponent of a narrow format is one of a normal `f64`.
fn power_of_two(exponent: i32) -> f64 {
    debug_assert!((f64::MIN_EXP - 1..f64::MAX_EXP).contains(&exponent), "{exponent}");
    f64::from_bits(((exponent + f64::MAX_EXP - 1) as u64) << (f64::MANTISSA_DIGITS - 1))
}

/// The value of an `f8E8M0FNU`: a power of two, or NaN.
pub fn widen_e8m0(bits: u8) -> f32 {
    if bits == 0xFF { f32::NAN } else { power_of_two(i32::from(bits) - F32_BIAS) as f32 }
}

/// The nearest power of two as `f8E8M0FNU`. Values that are not positive become the smallest one, and too large ones
/// NaN.
pub fn narrow_e8m0(value: f32) -> u8 {
    if !value.is_finite() {
        return 0xFF;
    }
    if value <= 0.0 {
        return 0;
    }
    // The bits of an `f64` give exponent and mantissa of every positive `f32`, subnormal ones included, in normal form.
    let bits = f64::from(value).to_bits();
    let exponent = (bits >> 52) as i64 - 1023;
    let rounds_up = bits & (1 << 51) != 0;
    (exponent + i64::from(rounds_up) + 127).clamp(0, 0xFF) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    const F8E5M2: NarrowFloat = of(ElementType::FLOAT_8_E5M2);
    const F8E4M3FN: NarrowFloat = of(ElementType::FLOAT_8_E4M3_FN);
    const F8E5M2FNUZ: NarrowFloat = of(ElementType::FLOAT_8_E5M2_FNUZ);
    const F8E4M3FNUZ: NarrowFloat = of(ElementType::FLOAT_8_E4M3_FNUZ);

    #[test]
    fn every_value_survives_the_round_trip() {
        for format in [F8E5M2, F8E4M3FN, F8E5M2FNUZ, F8E4M3FNUZ, F16, BF16] {
            let width = 1 + format.exponent_bits + format.mantissa_bits;
            for bits in 0..1_u32 << width {
                let value = format.widen(bits);
                if !value.is_nan() {
                    assert_eq!(format.narrow(value), bits, "{format:?} {value}");
                }
            }
        }
        for bits in 0..=0xFE_u8 {
            assert_eq!(narrow_e8m0(widen_e8m0(bits)), bits);
        }
    }

    #[test]
    fn sixteen_bits_agree_with_the_half_crate() {
        for bits in 0..=u16::MAX {
            let (ours, theirs) = (F16.widen(bits.into()), half::f16::from_bits(bits).to_f32());
            assert!(ours == theirs || (ours.is_nan() && theirs.is_nan()), "f16 {bits:#x}");
            let (ours, theirs) = (BF16.widen(bits.into()), half::bf16::from_bits(bits).to_f32());
            assert!(ours == theirs || (ours.is_nan() && theirs.is_nan()), "bf16 {bits:#x}");
        }
    }

    #[test]
    fn rounding_overflow_and_underflow() {
        assert_eq!(F16.widen(F16.narrow(65519.0)), 65504.0);
        assert_eq!(F16.widen(F16.narrow(65520.0)), f32::INFINITY);
        assert_eq!(F16.widen(F16.narrow(6e-8)), 5.960_464_5e-8);
        assert_eq!(F16.narrow(3e-8), 0);
        assert_eq!(F16.narrow(-0.0), 0x8000);
        assert_eq!(BF16.widen(BF16.narrow(3.4e38)), f32::INFINITY);
        assert_eq!(BF16.narrow(1e-40), 1);
        assert_eq!(F8E4M3FN.widen(F8E4M3FN.narrow(464.0)), 448.0);
        assert!(F8E4M3FN.widen(F8E4M3FN.narrow(465.0)).is_nan());
        assert!(F8E4M3FN.widen(F8E4M3FN.narrow(f32::INFINITY)).is_nan());
        assert_eq!(F8E5M2.widen(F8E5M2.narrow(60000.0)), 57344.0);
        assert_eq!(F8E5M2.widen(F8E5M2.narrow(61440.0)), f32::INFINITY);
        assert_eq!(F8E4M3FNUZ.widen(F8E4M3FNUZ.narrow(247.0)), 240.0);
        assert!(F8E4M3FNUZ.widen(F8E4M3FNUZ.narrow(248.0)).is_nan());
        assert_eq!(F8E4M3FNUZ.narrow(-1e-5), 0);
        assert!(F8E5M2FNUZ.widen(0x80).is_nan());
    }

    #[test]
    fn scales_are_powers_of_two() {
        let cases = [(0.0, 0), (-1.0, 0), (1e-45, 0), (1.4, 127), (1.5, 128), (2.9, 128), (5.8e-39, 0), (8.9e-39, 1)];
        for (value, bits) in cases {
            assert_eq!(narrow_e8m0(value), bits, "{value}");
        }
        assert_eq!(narrow_e8m0(3e38), 0xFF);
        assert_eq!(narrow_e8m0(f32::NAN), 0xFF);
    }
}
