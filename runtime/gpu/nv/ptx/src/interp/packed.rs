//! Packed values as their parts, and back.

use vireo_simt::prim::F16;

#[inline(always)]
pub(crate) fn halves(value: u32) -> [F16; 2] {
    [F16(value as u16), F16((value >> 16) as u16)]
}

#[inline(always)]
pub(crate) fn of_halves([low, high]: [F16; 2]) -> u32 {
    u32::from(low.0) | u32::from(high.0) << 16
}

#[inline(always)]
pub(crate) fn words(value: u32) -> [u16; 2] {
    [value as u16, (value >> 16) as u16]
}

#[inline(always)]
pub(crate) fn of_words([low, high]: [u16; 2]) -> u32 {
    u32::from(low) | u32::from(high) << 16
}

#[inline(always)]
pub(crate) fn singles(value: u64) -> [f32; 2] {
    [f32::from_bits(value as u32), f32::from_bits((value >> 32) as u32)]
}

#[inline(always)]
pub(crate) fn of_singles([low, high]: [f32; 2]) -> u64 {
    u64::from(low.to_bits()) | u64::from(high.to_bits()) << 32
}
