//! The 8-bit float formats, widened to `f32`, which holds all their values exactly. NaNs lose their sign, as in the reference's tools.

/// What distinguishes the formats: width of the mantissa, bias of the exponent, and which bit patterns are not finite.
#[derive(Clone, Copy)]
struct Format {
    mantissa_bits: u32,
    bias: i32,
    special: Special,
}

#[derive(Clone, Copy, PartialEq)]
enum Special {
    /// All exponent bits set: infinity and NaN, as in IEEE 754.
    Ieee,
    /// All bits but the sign set: NaN. No infinities.
    AllOnes,
    /// The pattern of negative zero: NaN. No infinities.
    NegativeZero,
}

fn widen(bits: u8, format: Format) -> f32 {
    let sign = if bits & 0x80 == 0 { 1.0f32 } else { -1.0 };
    let magnitude = u32::from(bits & 0x7F);
    let mantissa = magnitude & ((1 << format.mantissa_bits) - 1);
    let exponent = magnitude >> format.mantissa_bits;
    let exponent_max = 0x7F >> format.mantissa_bits;
    match format.special {
        Special::Ieee if exponent == exponent_max => {
            return if mantissa == 0 { sign * f32::INFINITY } else { f32::NAN };
        }
        Special::AllOnes if magnitude == 0x7F => return f32::NAN,
        Special::NegativeZero if bits == 0x80 => return f32::NAN,
        _ => {}
    }
    let (significand, exponent) = match exponent {
        0 => (mantissa, 1 - format.bias),
        exponent => (mantissa | 1 << format.mantissa_bits, exponent as i32 - format.bias),
    };
    // Both factors are powers of two or small integers, so the product is exact.
    sign * significand as f32 * 2f32.powi(exponent - format.mantissa_bits as i32)
}

pub(super) fn e5m2(bits: u8) -> f32 {
    widen(bits, Format { mantissa_bits: 2, bias: 15, special: Special::Ieee })
}

pub(super) fn e4m3fn(bits: u8) -> f32 {
    widen(bits, Format { mantissa_bits: 3, bias: 7, special: Special::AllOnes })
}

pub(super) fn e5m2fnuz(bits: u8) -> f32 {
    widen(bits, Format { mantissa_bits: 2, bias: 16, special: Special::NegativeZero })
}

pub(super) fn e4m3fnuz(bits: u8) -> f32 {
    widen(bits, Format { mantissa_bits: 3, bias: 8, special: Special::NegativeZero })
}

/// A power of two; all ones is NaN.
pub(super) fn e8m0fnu(bits: u8) -> f32 {
    match bits {
        0xFF => f32::NAN,
        // 2^-127 is subnormal.
        0 => f32::from_bits(1 << 22),
        bits => f32::from_bits(u32::from(bits) << 23),
    }
}
