//! Values of lanes ([`Lane`]): how a type of one lane is one or two words of rows, and results of all lanes.
//!
//! An interpreter computes an expression in each lane by [`collect`] or [`collect_bits`]. The loops go over all lanes
//! of local arrays without branches, so that the compiler makes vector instructions of them.

use crate::prim::F16;
use crate::row::{LANES, Mask, Row};

/// The formats of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// An integer of 16 bits, in the low half of a word.
    Bits16,
    /// An integer of a word.
    Bits32,
    /// An integer of two words, the low one first.
    Bits64,
    /// An f16, in the low half of a word.
    Half,
    /// An f32.
    Single,
    /// An f64, in two words.
    Double,
}

impl Format {
    /// Whether values have two words.
    #[inline(always)]
    pub const fn is_wide(self) -> bool {
        matches!(self, Format::Bits64 | Format::Double)
    }
}

/// A type of values of lanes.
pub trait Lane: Copy + Default {
    /// Its format.
    const FORMAT: Format;
    /// From the low and high word.
    fn of_words(low: u32, high: u32) -> Self;
    /// The low and high word.
    fn words(self) -> (u32, u32);
}

macro_rules! lane {
    ($($ty:ty, $format:ident, |$low:ident, $high:ident| $of:expr, |$value:ident| $words:expr;)*) => {$(
        impl Lane for $ty {
            const FORMAT: Format = Format::$format;
            #[inline(always)]
            fn of_words($low: u32, $high: u32) -> Self { $of }
            #[inline(always)]
            fn words(self) -> (u32, u32) { let $value = self; $words }
        }
    )*};
}

lane! {
    u16, Bits16, |low, _high| low as u16, |value| (u32::from(value), 0);
    u32, Bits32, |low, _high| low, |value| (value, 0);
    u64, Bits64, |low, high| u64::from(low) | u64::from(high) << 32, |value| (value as u32, (value >> 32) as u32);
    F16, Half, |low, _high| F16(low as u16), |value| (u32::from(value.0), 0);
    f32, Single, |low, _high| f32::from_bits(low), |value| (value.to_bits(), 0);
    f64, Double, |low, high| f64::from_bits(u64::from(low) | u64::from(high) << 32),
        |value| (value.to_bits() as u32, (value.to_bits() >> 32) as u32);
}

/// The words of a value that is computed in each lane.
#[inline(always)]
pub fn collect<T: Lane>(value: impl Fn(usize) -> T) -> [Row; 2] {
    let mut rows = [Row::ZERO; 2];
    for lane in 0..LANES {
        let (low, high) = value(lane).words();
        rows[0].0[lane] = low;
        rows[1].0[lane] = high;
    }
    rows
}

/// The mask of a bit that is computed in each lane.
#[inline(always)]
pub fn collect_bits(bit: impl Fn(usize) -> bool) -> Mask {
    let mut row = Row::ZERO;
    for lane in 0..LANES {
        row.0[lane] = u32::from(bit(lane)) << lane;
    }
    row.0.iter().fold(0, |mask, bit| mask | bit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_words_and_return() {
        fn returns<T: Lane + PartialEq + std::fmt::Debug>(values: &[T]) {
            let rows = collect(|lane| values[lane % values.len()]);
            for lane in 0..LANES {
                let value = T::of_words(rows[0].0[lane], rows[1].0[lane]);
                assert_eq!(value, values[lane % values.len()]);
                assert!(T::FORMAT.is_wide() || rows[1].0[lane] == 0);
            }
        }
        returns(&[0u16, 1, u16::MAX]);
        returns(&[0u32, u32::MAX]);
        returns(&[0x1234_5678_9ABC_DEF0u64, u64::MAX]);
        returns(&[F16(0x3C00), F16(0x8000)]);
        returns(&[1.5f32, f32::NEG_INFINITY]);
        returns(&[-0.1f64, f64::MAX]);
        assert_eq!(collect_bits(|lane| lane % 4 == 1), 0x2222_2222);
    }
}
