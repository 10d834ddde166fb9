//! Operations that only this architecture has: numbers of 24 bits, products with zero that are zero, and instructions
//! on bytes.

use vireo_simt::prim::difference_u;

#[inline(always)]
pub(crate) fn low24_sext(value: u32) -> u32 {
    ((value << 8) as i32 >> 8) as u32
}

#[inline(always)]
pub(crate) fn low24_zext(value: u32) -> u32 {
    value & 0x00FF_FFFF
}

#[inline(always)]
pub(crate) fn difference_of_some_bytes(a: u32, reference: u32) -> u32 {
    let mut sum = 0;
    for shift in [0, 8, 16, 24] {
        let (byte, other) = (a >> shift & 0xFF, reference >> shift & 0xFF);
        sum += if other == 0 { 0 } else { difference_u(byte, other) };
    }
    sum
}

#[inline(always)]
pub(crate) fn halves_to_bytes(value: u32) -> u16 {
    let byte = |half: i16| half.clamp(0, 255) as u16;
    byte(value as i16) | byte((value >> 16) as i16) << 8
}

#[inline(always)]
pub(crate) fn permute_bytes(high: u32, low: u32, selectors: u32) -> u32 {
    let mut result = 0;
    for index in 0..4 {
        let selector = selectors >> (8 * index) & 0xFF;
        // All cases are computed, so that lanes need no branches.
        let word = if selector & 4 == 0 { low } else { high };
        let byte = word >> (8 * (selector & 3)) & 0xFF;
        // The signs of the halves, lowest first.
        let word = if selector & 2 == 0 { low } else { high };
        let sign = (word >> (16 * (selector & 1) + 15) & 1) * 0xFF;
        let constant = if selector == 12 { 0 } else { 0xFF };
        let byte = if selector >= 8 { sign } else { byte };
        let byte = if selector >= 12 { constant } else { byte };
        result |= byte << (8 * index);
    }
    result
}

#[inline(always)]
pub(crate) fn double_bits(value: u32) -> u64 {
    let mut bits = 0;
    for bit in 0..32 {
        bits |= (u64::from(value >> bit & 1) * 3) << (2 * bit);
    }
    bits
}

#[inline(always)]
pub(crate) fn fmul_with_zero(a: f32, b: f32) -> f32 {
    if (a == 0.0) | (b == 0.0) { 0.0 } else { a * b }
}

#[inline(always)]
pub(crate) fn fma_with_zero(a: f32, b: f32, c: f32) -> f32 {
    if (a == 0.0) | (b == 0.0) { c } else { a.mul_add(b, c) }
}

#[inline(always)]
pub(crate) fn fmullit(a: f32, b: f32, c: f32) -> f32 {
    // Written so that what is no number fails.
    if (b > f32::MIN) & (c > 0.0) { a * b } else { f32::MIN }
}

#[inline(always)]
pub(crate) fn nibble_to_f32(value: u32) -> f32 {
    ((value << 28) as i32 >> 28) as f32 / 16.0
}
