//! Dot products: sums of the products of the parts of two registers. The products of floats are exact, and each sum is
//! rounded, that of the lowest part first.

use vireo_simt::{LANES, Row, TrapKind};

use super::packed::sources;
use super::{bf16, half_of, to_bf16, write};
use crate::interp::prim::{self, F16};
use crate::machine::{Group, Inst, Next, Wave};

/// A part of a word as a number.
#[inline(always)]
fn part(word: u32, index: u32, bits: u32, signed: bool) -> i32 {
    let top = word << (32 - bits * (index + 1));
    if signed { top as i32 >> (32 - bits) } else { (top >> (32 - bits)) as i32 }
}

/// The sum of the products of all parts of so many bits, of sources that may have signs, and of the third source. All
/// products together fit.
#[inline(always)]
fn integers<const BITS: u32>(wave: &mut Wave, inst: &Inst, signs: Option<u32>) -> Next {
    let modifiers = inst.modifiers();
    let rows: [Row; 3] = sources(wave, inst);
    let neg = signs.unwrap_or(0);
    let signed = [neg & 1 == 1, neg >> 1 & 1 == 1];
    let clamp = modifiers.clamp;
    let row = Row::from_fn(|lane| {
        let (a, b, c) = (rows[0].0[lane], rows[1].0[lane], rows[2].0[lane]);
        let mut sum = 0i32;
        for index in 0..32 / BITS {
            sum += part(a, index, BITS, signed[0]) * part(b, index, BITS, signed[1]);
        }
        match (clamp, signs) {
            (true, Some(_)) => sum.saturating_add(c as i32) as u32,
            (true, None) => c.saturating_add(sum as u32),
            (false, _) => c.wrapping_add(sum as u32),
        }
    });
    write(wave, inst, &row)
}

#[inline(always)]
pub(crate) fn dot4_i32_iu8(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    integers::<8>(wave, inst, Some(inst.modifiers().neg))
}

#[inline(always)]
pub(crate) fn dot4_u32_u8(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    integers::<8>(wave, inst, None)
}

#[inline(always)]
pub(crate) fn dot8_i32_iu4(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    integers::<4>(wave, inst, Some(inst.modifiers().neg))
}

#[inline(always)]
pub(crate) fn dot8_u32_u4(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    integers::<4>(wave, inst, None)
}

/// The bits of a bf16, or of a zero of its sign if it is subnormal.
#[inline(always)]
fn flush_bf16(bits: u16) -> u16 {
    if bits & 0x7F80 == 0 { bits & 0x8000 } else { bits }
}

/// The third source and both products, as f32. Which halves of the others the products are of, and their signs, is in
/// bits of the modifiers.
#[inline(always)]
fn singles(
    wave: &mut Wave,
    inst: &Inst,
    (convert, flush_bits): (impl Fn(u16) -> f32, impl Fn(u16) -> u16),
    plain: bool,
) -> Next {
    let modifiers = inst.modifiers();
    let rows: [Row; 3] = sources(wave, inst);
    // The short encoding has no modifiers: the products are of the low halves and of the high ones.
    let (high, neg) = match plain {
        true => ([0, 3], [0, 0]),
        false => ([modifiers.high, modifiers.high_of_high], [modifiers.neg, modifiers.neg_high]),
    };
    if neg[1] >> 2 & 1 == 1 {
        return wave.trapped(TrapKind::NotImplemented("the absolute value of a sum".into()), None);
    }
    let (flush, nan_is_zero) = (wave.denormals_32, wave.clamp_nan);
    let flush_half = wave.denormals_16_64.flush_sources;
    let half = |lane: usize, source: usize, product: usize| {
        let bits = (rows[source].0[lane] >> (16 * (high[product] >> source & 1))) as u16;
        let value = convert(if flush_half { flush_bits(bits) } else { bits });
        if neg[product] >> source & 1 == 1 { -value } else { value }
    };
    let row = Row::from_fn(|lane| {
        let first = rows[2].0[lane] ^ (neg[0] >> 2 & 1) << 31;
        let mut sum = f32::from_bits(if flush.flush_sources { prim::flush_f32(first) } else { first });
        for product in 0..2 {
            sum += half(lane, 0, product) * half(lane, 1, product);
        }
        let sum = if modifiers.clamp { prim::clamp_f32(sum, nan_is_zero) } else { sum };
        if flush.flush_results { prim::flush_f32(sum.to_bits()) } else { sum.to_bits() }
    });
    write(wave, inst, &row)
}

#[inline(always)]
pub(crate) fn dot2_f32_f16(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    singles(wave, inst, (|bits| F16(bits).to_f32(), prim::flush_f16), false)
}

#[inline(always)]
pub(crate) fn dot2_f32_bf16(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    singles(wave, inst, (bf16, flush_bf16), false)
}

/// The decoder has made the old result the third source.
#[inline(always)]
pub(crate) fn dot2acc_f32_f16(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    singles(wave, inst, (|bits| F16(bits).to_f32(), prim::flush_f16), true)
}

/// The same with a sum of 16 bits, of which `add` makes the next one by a product, and `flush_half` a zero if it is
/// subnormal.
#[inline(always)]
fn halves(wave: &mut Wave, inst: &Inst, flush_half: impl Fn(u16) -> u16, add: impl Fn(u16, u16, u16) -> u16) -> Next {
    let modifiers = inst.modifiers();
    if modifiers.neg | modifiers.abs | modifiers.high & 3 != 0 || modifiers.clamp {
        return wave.trapped(TrapKind::NotImplemented("modifiers of a dot product of 16 bits".into()), None);
    }
    let flush = wave.denormals_16_64;
    let source = |bits: u16| if flush.flush_sources { flush_half(bits) } else { bits };
    let rows: [Row; 3] = sources(wave, inst);
    let old = wave.rows[usize::from(inst.result)];
    let row = Row::from_fn(|lane| {
        let mut sum = source((rows[2].0[lane] >> (16 * (modifiers.high >> 2 & 1))) as u16);
        for shift in [0, 16] {
            let product = [0, 1].map(|index: usize| source((rows[index].0[lane] >> shift) as u16));
            sum = add(product[0], product[1], sum);
        }
        let sum = if flush.flush_results { flush_half(sum) } else { sum };
        half_of(modifiers.result_high, sum, old.0[lane])
    });
    write(wave, inst, &row)
}

#[inline(always)]
pub(crate) fn dot2_f16_f16(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    halves(wave, inst, prim::flush_f16, |a, b, sum| prim::fma(F16(a), F16(b), F16(sum)).0)
}

/// The product is exact as f32, and so is the sum as f64 but for numbers that are too far apart to matter.
#[inline(always)]
pub(crate) fn dot2_bf16_bf16(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    halves(wave, inst, flush_bf16, |a, b, sum| {
        let total = prim::sum_to_odd(f64::from(bf16(a)) * f64::from(bf16(b)), f64::from(bf16(sum)));
        to_bf16(prim::to_odd_f32(total))
    })
}

/// The old result, which the decoder has made the third source, plus the products of both halves.
#[inline(always)]
pub(crate) fn pk_fmac_f16(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    let flush = wave.denormals_16_64;
    let rows: [Row; 3] = sources(wave, inst);
    let mut row = Row::ZERO;
    for lane in 0..LANES {
        for shift in [0, 16] {
            let half = |source: usize| {
                let bits = (rows[source].0[lane] >> shift) as u16;
                F16(if flush.flush_sources { prim::flush_f16(bits) } else { bits })
            };
            let sum = prim::fma(half(0), half(1), half(2)).0;
            row.0[lane] |= u32::from(if flush.flush_results { prim::flush_f16(sum) } else { sum }) << shift;
        }
    }
    write(wave, inst, &row)
}
