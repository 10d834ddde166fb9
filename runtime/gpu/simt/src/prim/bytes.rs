//! Floats of eight bits: e4m3, which has no infinities and one NaN, and e5m2.

use super::F16;

/// A format of eight bits.
#[derive(Clone, Copy)]
struct Format {
    exponent: u32,
    significand: u32,
    /// The bits of the largest number.
    largest: u8,
}

const E4M3: Format = Format { exponent: 4, significand: 3, largest: 0x7E };
const E5M2: Format = Format { exponent: 5, significand: 2, largest: 0x7B };
/// The NaN of both.
const NAN: u8 = 0x7F;

impl Format {
    fn least(self) -> i32 {
        2 - (1 << (self.exponent - 1))
    }

    /// Rounds to nearest, and limits to the largest number.
    fn round(self, value: f64) -> u8 {
        if value.is_nan() {
            return NAN;
        }
        let magnitude = value.abs();
        // The exponent of its highest bit; zero and what is tiny have the least one.
        let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(self.least());
        let unit = 2f64.powi(exponent - self.significand as i32);
        let units = (magnitude / unit).round_ties_even().min(f64::from(2u32 << self.significand)) as u32;
        // A significand without the hidden bit has the exponent before the least one, and a carry goes there.
        let bits = (((exponent - self.least()) as u32) << self.significand) + units;
        let sign = if value.is_sign_negative() { 0x80 } else { 0 };
        bits.min(self.largest.into()) as u8 | sign
    }

    fn value(self, bits: u8) -> f64 {
        let (power, fraction) = (
            i32::from(bits >> self.significand & ((1 << self.exponent) - 1)),
            f64::from(bits & ((1 << self.significand) - 1)),
        );
        let unit = 2f64.powi(-(self.significand as i32));
        let magnitude = match power {
            0 => fraction * unit * 2f64.powi(self.least()),
            power => (1.0 + fraction * unit) * 2f64.powi(power - 1 + self.least()),
        };
        if bits & 0x80 != 0 { -magnitude } else { magnitude }
    }
}

/// The value of an e4m3.
pub fn e4m3_value(bits: u8) -> f64 {
    if bits & NAN == NAN { f64::NAN } else { E4M3.value(bits) }
}

/// The value of an e5m2, which is the upper half of an f16.
pub fn e5m2_value(bits: u8) -> f64 {
    F16(u16::from(bits) << 8).to_f32().into()
}

fn pair(format: Format, high: f64, low: f64) -> u16 {
    u16::from_le_bytes([format.round(low), format.round(high)])
}

fn halves(value: u32) -> [f64; 2] {
    [value as u16, (value >> 16) as u16].map(|bits| F16(bits).to_f32().into())
}

fn of_values([low, high]: [f64; 2]) -> u32 {
    let half = |value: f64| if value.is_nan() { 0x7FFF } else { F16::of_f64(value).0 };
    u32::from(half(low)) | u32::from(half(high)) << 16
}

pub fn e4m3_above(high: f32, low: f32) -> u16 {
    pair(E4M3, high.into(), low.into())
}

pub fn e5m2_above(high: f32, low: f32) -> u16 {
    pair(E5M2, high.into(), low.into())
}

pub fn e4m3_of_halves(value: u32) -> u16 {
    let [low, high] = halves(value);
    pair(E4M3, high, low)
}

pub fn e5m2_of_halves(value: u32) -> u16 {
    let [low, high] = halves(value);
    pair(E5M2, high, low)
}

pub fn halves_of_e4m3(value: u16) -> u32 {
    of_values(value.to_le_bytes().map(e4m3_value))
}

pub fn halves_of_e5m2(value: u16) -> u32 {
    of_values(value.to_le_bytes().map(e5m2_value))
}

pub fn relu_halves(value: u32) -> u32 {
    let half = |bits: u16| if bits > 0x8000 && bits <= 0xFC00 || bits == 0x8000 { 0 } else { bits };
    u32::from(half(value as u16)) | u32::from(half((value >> 16) as u16)) << 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_the_nearest_to_itself() {
        for bits in 0..=255u8 {
            if bits & NAN != NAN {
                assert_eq!(E4M3.round(e4m3_value(bits)), bits, "{bits:#x}");
            }
            if bits & NAN <= E5M2.largest {
                assert_eq!(E5M2.round(e5m2_value(bits)), bits, "{bits:#x}");
                assert_eq!(E5M2.value(bits), e5m2_value(bits));
            }
        }
        assert_eq!([448.0, 464.0, 1e9, f64::INFINITY].map(|value| E4M3.round(value)), [0x7E; 4]);
        assert_eq!([-57344.0, -1e9, f64::NEG_INFINITY].map(|value| E5M2.round(value)), [0xFB; 3]);
        assert_eq!([2f64.powi(-10), 1.5 * 2f64.powi(-10), -1e-300].map(|value| E4M3.round(value)), [0, 1, 0x80]);
    }
}
