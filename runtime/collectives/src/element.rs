//! Elements of collective operations, and reductions of them.
//!
//! A reduction combines the data of ranks in the order of ranks, so its result does not depend on who computes it.
//! Integers wrap in their own type. 16-bit floats are combined as `f32` and rounded once. An average is the sum,
//! divided once by the number of ranks: before the rounding for floats, towards zero for integers. The least and the
//! greatest are those of IEEE 754-2019: a NaN wins, and negative zero is below zero. Roundings are to nearest, ties to
//! even, also below the smallest subnormal, where the conversions of the IREE tools (`vireo_hal::narrow_float`) make
//! zero of everything.

use crate::hal::{CollectiveElementType, CollectiveReduction};

/// An element type, as it is stored and as it is reduced.
trait Element {
    type Wide: Copy;
    const SIZE: usize;

    fn load(bytes: &[u8]) -> Self::Wide;
    fn store(value: Self::Wide, bytes: &mut [u8]);
    fn add(left: Self::Wide, right: Self::Wide) -> Self::Wide;
    fn multiply(left: Self::Wide, right: Self::Wide) -> Self::Wide;
    fn least(left: Self::Wide, right: Self::Wide) -> Self::Wide;
    fn greatest(left: Self::Wide, right: Self::Wide) -> Self::Wide;
    fn divide(value: Self::Wide, count: u32) -> Self::Wide;
}

/// Copies the bytes of one element.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut copy = [0; N];
    copy.copy_from_slice(bytes);
    copy
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Element for $type {
            type Wide = $type;
            const SIZE: usize = size_of::<$type>();

            fn load(bytes: &[u8]) -> $type {
                <$type>::from_le_bytes(array(bytes))
            }
            fn store(value: $type, bytes: &mut [u8]) {
                bytes.copy_from_slice(&value.to_le_bytes());
            }
            fn add(left: $type, right: $type) -> $type {
                left.wrapping_add(right)
            }
            fn multiply(left: $type, right: $type) -> $type {
                left.wrapping_mul(right)
            }
            fn least(left: $type, right: $type) -> $type {
                left.min(right)
            }
            fn greatest(left: $type, right: $type) -> $type {
                left.max(right)
            }
            fn divide(value: $type, count: u32) -> $type {
                // The quotient is no further from zero than the value, so it fits.
                (i128::from(value) / i128::from(count.max(1))) as $type
            }
        }
    )*};
}

integers! { i8 u8 i16 u16 i32 u32 i64 u64 }

/// The lesser of two floats. A NaN wins, and negative zero is below zero.
macro_rules! least {
    ($left:expr, $right:expr) => {
        match ($left, $right) {
            (left, right) if left.is_nan() || right.is_nan() => left + right,
            (left, right) if left == right => {
                if left.is_sign_negative() {
                    left
                } else {
                    right
                }
            }
            (left, right) => {
                if left < right {
                    left
                } else {
                    right
                }
            }
        }
    };
}

/// A type of floats that are stored as `$bits` and reduced as `$wide`.
macro_rules! floats {
    ($($name:ident: $bits:ty as $wide:ty, $load:expr, $store:expr;)*) => {$(
        enum $name {}

        impl Element for $name {
            type Wide = $wide;
            const SIZE: usize = size_of::<$bits>();

            fn load(bytes: &[u8]) -> $wide {
                ($load)(<$bits>::from_le_bytes(array(bytes)))
            }
            fn store(value: $wide, bytes: &mut [u8]) {
                let bits: $bits = ($store)(value);
                bytes.copy_from_slice(&bits.to_le_bytes());
            }
            fn add(left: $wide, right: $wide) -> $wide {
                left + right
            }
            fn multiply(left: $wide, right: $wide) -> $wide {
                left * right
            }
            fn least(left: $wide, right: $wide) -> $wide {
                least!(left, right)
            }
            fn greatest(left: $wide, right: $wide) -> $wide {
                -least!(-left, -right)
            }
            fn divide(value: $wide, count: u32) -> $wide {
                value / count as $wide
            }
        }
    )*};
}

floats! {
    Float16: u16 as f32, widen_f16, narrow_f16;
    BFloat16: u16 as f32, widen_bf16, narrow_bf16;
    Float32: u32 as f32, f32::from_bits, f32::to_bits;
    Float64: u64 as f64, f64::from_bits, f64::to_bits;
}

/// The value of a binary16. Without branches, so that loops over elements use vectors: a sum of two ranks
/// is six times as fast as one by one.
fn widen_f16(bits: u16) -> f32 {
    let (magnitude, sign) = (u32::from(bits & 0x7FFF) << 13, u32::from(bits & 0x8000) << 16);
    // Exact, since the bias of an `f32` is greater by 112 and its subnormal numbers reach further down.
    let value = (f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23)).to_bits();
    let special = if magnitude >= 0x1F << 23 { 0xFF << 23 } else { 0 };
    f32::from_bits(value | special | sign)
}

/// The nearest binary16, ties to even.
fn narrow_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let (magnitude, sign) = (bits & 0x7FFF_FFFF, bits >> 16 & 0x8000);
    let special = if magnitude > 0xFF << 23 { 0x7E00 } else { 0x7C00 };
    // The unit in the last place of a half is that of the smallest numbers, so the addition rounds to those.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5_f32.to_bits());
    // The exponent changes its bias by 112; a carry out of the mantissa increments it, up to infinity.
    let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xFFF + (magnitude >> 13 & 1)) >> 13;
    let narrow = if magnitude < 113 << 23 { subnormal } else { normal };
    let narrow = if magnitude >= 143 << 23 { special } else { narrow };
    (narrow | sign) as u16
}

/// The value of a bfloat16.
fn widen_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The nearest bfloat16, ties to even.
fn narrow_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16;
    // A NaN stays one, and quiet.
    (if value.is_nan() { bits >> 16 | 0x40 } else { rounded }) as u16
}

/// Calls `$call::<type>` for the type of an element type, or returns `$otherwise` for a number without a name.
macro_rules! of_type {
    ($element_type:expr, $otherwise:expr, |$name:ident| $call:expr) => {
        match $element_type {
            CollectiveElementType::SINT_8 => of_type!(@ i8, $name, $call),
            CollectiveElementType::UINT_8 => of_type!(@ u8, $name, $call),
            CollectiveElementType::SINT_16 => of_type!(@ i16, $name, $call),
            CollectiveElementType::UINT_16 => of_type!(@ u16, $name, $call),
            CollectiveElementType::SINT_32 => of_type!(@ i32, $name, $call),
            CollectiveElementType::UINT_32 => of_type!(@ u32, $name, $call),
            CollectiveElementType::SINT_64 => of_type!(@ i64, $name, $call),
            CollectiveElementType::UINT_64 => of_type!(@ u64, $name, $call),
            CollectiveElementType::FLOAT_16 => of_type!(@ Float16, $name, $call),
            CollectiveElementType::FLOAT_32 => of_type!(@ Float32, $name, $call),
            CollectiveElementType::FLOAT_64 => of_type!(@ Float64, $name, $call),
            CollectiveElementType::BFLOAT_16 => of_type!(@ BFloat16, $name, $call),
            _ => $otherwise,
        }
    };
    (@ $type:ident, $name:ident, $call:expr) => {{
        type $name = $type;
        $call
    }};
}

/// Bytes of an element, if the type is one.
pub(crate) fn byte_size(element_type: CollectiveElementType) -> Option<u64> {
    of_type!(element_type, None, |T| Some(T::SIZE as u64))
}

/// Reduces the data of ranks, in their order, into `out`. All have the same number of bytes, whole elements of a type
/// that has a size. There is at least one rank.
pub(crate) fn reduce(
    element_type: CollectiveElementType,
    reduction: CollectiveReduction,
    ranks: &[&[u8]],
    out: &mut [u8],
) {
    of_type!(element_type, (), |T| reduce_as::<T>(reduction, ranks, out));
}

fn reduce_as<T: Element>(reduction: CollectiveReduction, ranks: &[&[u8]], out: &mut [u8]) {
    let count = ranks.len() as u32;
    match reduction {
        CollectiveReduction::PRODUCT => combine::<T>(ranks, out, T::multiply, |value| value),
        CollectiveReduction::MINIMUM => combine::<T>(ranks, out, T::least, |value| value),
        CollectiveReduction::MAXIMUM => combine::<T>(ranks, out, T::greatest, |value| value),
        CollectiveReduction::AVERAGE => combine::<T>(ranks, out, T::add, |value| T::divide(value, count)),
        _ => combine::<T>(ranks, out, T::add, |value| value),
    }
}

fn combine<T: Element>(
    ranks: &[&[u8]],
    out: &mut [u8],
    combine: impl Fn(T::Wide, T::Wide) -> T::Wide,
    end: impl Fn(T::Wide) -> T::Wide,
) {
    let Some((first, others)) = ranks.split_first() else { return };
    let mut wide: Vec<T::Wide> = first.chunks_exact(T::SIZE).map(T::load).collect();
    for other in others {
        for (value, bytes) in wide.iter_mut().zip(other.chunks_exact(T::SIZE)) {
            *value = combine(*value, T::load(bytes));
        }
    }
    for (value, bytes) in wide.into_iter().zip(out.chunks_exact_mut(T::SIZE)) {
        T::store(end(value), bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_floats_agree_with_the_half_crate() {
        let same = |left: f32, right: f32| left.to_bits() == right.to_bits() || left.is_nan() && right.is_nan();
        let narrow = |value: f32| {
            let (ours, theirs) = (narrow_f16(value), half::f16::from_f32(value));
            assert!(ours == theirs.to_bits() || value.is_nan() && theirs.is_nan(), "f16 of {value:e}");
            assert_eq!(widen_f16(ours).is_nan(), value.is_nan());
            let (ours, theirs) = (narrow_bf16(value), half::bf16::from_f32(value));
            assert!(ours == theirs.to_bits() || value.is_nan() && theirs.is_nan(), "bf16 of {value:e}");
            assert_eq!(widen_bf16(ours).is_nan(), value.is_nan());
        };
        for bits in 0..=u16::MAX {
            assert!(same(widen_f16(bits), half::f16::from_bits(bits).to_f32()), "f16 {bits:#x}");
            assert!(same(widen_bf16(bits), half::bf16::from_bits(bits).to_f32()), "bf16 {bits:#x}");
            // The numbers, the middles between them, and the neighbours of both.
            let next = bits.wrapping_add(1);
            for value in [widen_f16(bits), (widen_f16(bits) + widen_f16(next)) / 2.0] {
                [value, value.next_up(), value.next_down()].into_iter().for_each(narrow);
            }
            for low in [0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF] {
                narrow(f32::from_bits(u32::from(bits) << 16 | low));
            }
        }
    }
}
