//! Floats in integers: the reference that forms are compared with. A number is a significand and an exponent, whose
//! lowest bit is set if anything below it was lost.

/// A format: bits of the significand with the hidden one, the least exponent of a normal number, all bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Format {
    pub digits: u32,
    pub least: i32,
    pub bits: u32,
}

pub const F16: Format = Format { digits: 11, least: -14, bits: 16 };
pub const BF16: Format = Format { digits: 8, least: -126, bits: 16 };
pub const F32: Format = Format { digits: 24, least: -126, bits: 32 };
pub const F64: Format = Format { digits: 53, least: -1022, bits: 64 };

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    Even,
    Zero,
    Down,
    Up,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Nan,
    Infinity(bool),
    /// The sign, the significand and the exponent of its lowest bit.
    Finite(bool, u128, i32),
}

use Number::{Finite, Infinity, Nan};

pub fn decode(format: Format, bits: u64) -> Number {
    let significand = format.digits - 1;
    let width = format.bits - 1 - significand;
    let negative = bits >> (format.bits - 1) & 1 == 1;
    let (power, fraction) = (bits >> significand & ((1 << width) - 1), bits & ((1 << significand) - 1));
    match power {
        0 => Finite(negative, fraction.into(), format.least - significand as i32),
        power if power == (1 << width) - 1 => {
            if fraction == 0 {
                Infinity(negative)
            } else {
                Nan
            }
        }
        power => {
            let exponent = format.least + power as i32 - 1 - significand as i32;
            Finite(negative, (fraction | 1 << significand).into(), exponent)
        }
    }
}

fn quiet(format: Format) -> u64 {
    ((1 << (format.bits - 1)) - 1) & !0 >> (64 - format.bits)
}

fn infinity(format: Format, negative: bool) -> u64 {
    let significand = format.digits - 1;
    let width = format.bits - 1 - significand;
    u64::from(negative) << (format.bits - 1) | ((1 << width) - 1) << significand
}

pub fn round(format: Format, number: Number, mode: Mode) -> u64 {
    let (negative, significand, exponent) = match number {
        Nan => return quiet(format),
        Infinity(negative) => return infinity(format, negative),
        Finite(negative, 0, _) => return u64::from(negative) << (format.bits - 1),
        Finite(negative, significand, exponent) => (negative, significand, exponent),
    };
    let top = 127 - significand.leading_zeros() as i32;
    let lowest = (exponent + top - (format.digits as i32 - 1)).max(format.least - (format.digits as i32 - 1));
    let shift = lowest - exponent;
    let (mut kept, up) = if shift <= 0 {
        (significand << -shift, false)
    } else {
        let kept = if shift > 127 { 0 } else { significand >> shift };
        let rest = if shift > 127 { significand } else { significand & ((1 << shift) - 1) };
        let half = if shift > 127 { u128::MAX } else { 1 << (shift - 1) };
        let up = match mode {
            Mode::Even => rest > half || rest == half && kept & 1 == 1,
            Mode::Zero => false,
            Mode::Down => negative && rest != 0,
            Mode::Up => !negative && rest != 0,
        };
        (kept, up)
    };
    kept += u128::from(up);
    let mut lowest = lowest;
    if kept >> format.digits != 0 {
        kept >>= 1;
        lowest += 1;
    }
    let power = lowest + format.digits as i32 - 1;
    let largest = -format.least + 1;
    if kept >> (format.digits - 1) != 0 && power > largest {
        let goes = match mode {
            Mode::Even => true,
            Mode::Zero => false,
            Mode::Down => negative,
            Mode::Up => !negative,
        };
        return if goes { infinity(format, negative) } else { infinity(format, negative) - 1 };
    }
    let field = if kept >> (format.digits - 1) == 0 { 0 } else { (power - format.least + 1) as u64 };
    let fraction = kept as u64 & ((1 << (format.digits - 1)) - 1);
    u64::from(negative) << (format.bits - 1) | field << (format.digits - 1) | fraction
}

/// Shifts to the right; the lowest bit says whether something was lost.
fn sticky(value: u128, shift: u32) -> u128 {
    match shift {
        0 => value,
        128.. => u128::from(value != 0),
        shift => value >> shift | u128::from(value & ((1 << shift) - 1) != 0),
    }
}

pub fn negate(number: Number) -> Number {
    match number {
        Nan => Nan,
        Infinity(negative) => Infinity(!negative),
        Finite(negative, significand, exponent) => Finite(!negative, significand, exponent),
    }
}

pub fn add(a: Number, b: Number, mode: Mode) -> Number {
    match (a, b) {
        (Nan, _) | (_, Nan) => Nan,
        (Infinity(a), Infinity(b)) if a != b => Nan,
        (Infinity(negative), _) | (_, Infinity(negative)) => Infinity(negative),
        (Finite(a, 0, _), Finite(b, 0, _)) => Finite(if a == b { a } else { mode == Mode::Down }, 0, 0),
        (Finite(_, 0, _), other) | (other, Finite(_, 0, _)) => other,
        (Finite(a, x, p), Finite(b, y, q)) => {
            // Both with the highest bit at 120.
            let (x, p) = (x << (x.leading_zeros() - 7), p - x.leading_zeros() as i32 + 7);
            let (y, q) = (y << (y.leading_zeros() - 7), q - y.leading_zeros() as i32 + 7);
            let exponent = p.max(q);
            let (x, y) = (sticky(x, (exponent - p) as u32) as i128, sticky(y, (exponent - q) as u32) as i128);
            let sum = if a { -x } else { x } + if b { -y } else { y };
            if sum == 0 { Finite(mode == Mode::Down, 0, 0) } else { Finite(sum < 0, sum.unsigned_abs(), exponent) }
        }
    }
}

pub fn multiply(a: Number, b: Number) -> Number {
    match (a, b) {
        (Nan, _) | (_, Nan) => Nan,
        (Infinity(_), Finite(_, 0, _)) | (Finite(_, 0, _), Infinity(_)) => Nan,
        (Infinity(a) | Finite(a, ..), Infinity(b)) | (Infinity(a), Finite(b, ..)) => Infinity(a != b),
        (Finite(a, x, p), Finite(b, y, q)) => Finite(a != b, x * y, p + q),
    }
}

pub fn divide(a: Number, b: Number) -> Number {
    match (a, b) {
        (Nan, _) | (_, Nan) | (Infinity(_), Infinity(_)) | (Finite(_, 0, _), Finite(_, 0, _)) => Nan,
        (Infinity(a), Finite(b, ..)) | (Finite(a, ..), Finite(b, 0, _)) => Infinity(a != b),
        (Finite(a, ..), Infinity(b)) | (Finite(a, 0, _), Finite(b, ..)) => Finite(a != b, 0, 0),
        (Finite(a, x, p), Finite(b, y, q)) => {
            let shift = x.leading_zeros() - 1;
            let x = x << shift;
            Finite(a != b, ((x / y) << 1) | u128::from(x % y != 0), p - q - shift as i32 - 1)
        }
    }
}

pub fn root(a: Number) -> Number {
    match a {
        Nan | Infinity(true) => Nan,
        Infinity(false) => a,
        Finite(_, 0, _) => a,
        Finite(true, ..) => Nan,
        Finite(false, x, p) => {
            let mut shift = x.leading_zeros() - 2;
            if (p - shift as i32) % 2 != 0 {
                shift -= 1;
            }
            let x = x << shift;
            let (mut low, mut high) = (0u128, 1 << 63);
            while low + 1 < high {
                let middle = (low + high) / 2;
                if middle * middle <= x { low = middle } else { high = middle }
            }
            Finite(false, low << 1 | u128::from(low * low != x), (p - shift as i32) / 2 - 1)
        }
    }
}

/// The number as f64, nearly.
pub fn value(number: Number) -> f64 {
    f64::from_bits(round(F64, number, Mode::Even))
}

/// Compares; none if one is no number.
pub fn compare(a: Number, b: Number) -> Option<std::cmp::Ordering> {
    match add(a, negate(b), Mode::Even) {
        Nan if a != Nan && b != Nan => Some(std::cmp::Ordering::Equal),
        Nan => None,
        Infinity(true) | Finite(true, 1.., _) => Some(std::cmp::Ordering::Less),
        Finite(_, 0, _) => Some(std::cmp::Ordering::Equal),
        _ => Some(std::cmp::Ordering::Greater),
    }
}

/// The integer that a rounding of a number gives, far from zero if it is too large.
pub fn integer(number: Number, mode: &str) -> Option<i128> {
    let Finite(negative, significand, exponent) = number else {
        return match number {
            Infinity(true) => Some(i128::MIN / 4),
            Infinity(false) => Some(i128::MAX / 4),
            _ => None,
        };
    };
    let sign = |value: i128| if negative { -value } else { value };
    if significand == 0 {
        return Some(0);
    }
    if exponent >= 0 {
        let top = 127 - significand.leading_zeros() as i32 + exponent;
        return Some(sign(if top > 100 { i128::MAX / 4 } else { (significand << exponent) as i128 }));
    }
    let shift = (-exponent) as u32;
    let (whole, rest, half) = match shift {
        128.. => (0, significand, u128::MAX),
        shift => (significand >> shift, significand & ((1 << shift) - 1), 1 << (shift - 1)),
    };
    let up = match mode {
        "rni" => rest > half || rest == half && whole & 1 == 1,
        "rzi" => false,
        "rmi" => negative && rest != 0,
        _ => !negative && rest != 0,
    };
    Some(sign(whole as i128 + i128::from(up)))
}
