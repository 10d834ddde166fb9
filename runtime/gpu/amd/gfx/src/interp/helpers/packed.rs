//! Packed halves and mixed precision.

use vireo_simt::{LANES, Row, TrapKind};

use super::write;
use crate::interp::lanes::source_row;
use crate::interp::prim::{self, F16};
use crate::machine::{Group, Inst, Next, Wave};

/// The first sources.
#[inline(always)]
pub(super) fn sources<const N: usize>(wave: &mut Wave, inst: &Inst) -> [Row; N] {
    let mut rows = [Row::ZERO; N];
    for index in 0..N {
        rows[index] = source_row(wave, inst, index);
    }
    rows
}

/// Runs `value` on the halves that the modifiers pick, for the low and the high half of the result, or with the
/// modifier `clamp` on integers what saturates, if there is that.
#[inline(always)]
fn halves<const N: usize>(
    wave: &mut Wave,
    inst: &Inst,
    float: bool,
    value: impl Fn([u16; N]) -> u16,
    saturating: Option<impl Fn([u16; N]) -> u16>,
) -> Next {
    let modifiers = inst.modifiers();
    let rows: [Row; N] = sources(wave, inst);
    let flush_sources = float && wave.denormals_16_64.flush_sources;
    let flush_results = float && wave.denormals_16_64.flush_results;
    let pick = |lane: usize, high: u32, neg: u32| -> [u16; N] {
        // A closure of `array::from_fn` would not be inlined into code for newer processors.
        let mut halves = [0; N];
        for index in 0..N {
            let half = (rows[index].0[lane] >> (16 * (high >> index & 1))) as u16;
            let half = if flush_sources { prim::flush_f16(half) } else { half };
            halves[index] = half ^ if float { ((neg >> index & 1) as u16) << 15 } else { 0 };
        }
        halves
    };
    let nan_is_zero = wave.clamp_nan;
    let limit = |value: u16| {
        let value = match modifiers.clamp && float {
            true => F16::of_f32(prim::clamp_f32(F16(value).to_f32(), nan_is_zero)).0,
            false => value,
        };
        if flush_results { prim::flush_f16(value) } else { value }
    };
    let saturates = modifiers.clamp && !float;
    if saturates && saturating.is_none() {
        return wave.trapped(TrapKind::NotImplemented("clamp of an integer".into()), None);
    }
    let both = |lane: usize| {
        [pick(lane, modifiers.high, modifiers.neg), pick(lane, modifiers.high_of_high, modifiers.neg_high)]
    };
    let row = match saturating {
        Some(value) if saturates => Row::from_fn(|lane| {
            let [low, high] = both(lane);
            u32::from(value(low)) | u32::from(value(high)) << 16
        }),
        _ => Row::from_fn(|lane| {
            let [low, high] = both(lane);
            u32::from(limit(value(low))) | u32::from(limit(value(high))) << 16
        }),
    };
    write(wave, inst, &row)
}

macro_rules! packed {
    (@saturating [$($arg:ident),*]) => { None::<fn([u16; _]) -> u16> };
    (@saturating [$($arg:ident),*] $value:expr) => { Some(|[$($arg),*]: [u16; _]| $value) };
    ($($name:ident($($arg:ident),*), $float:literal, $value:expr $(, $saturating:expr)?;)*) => {$(
        #[inline(always)]
        pub(crate) fn $name(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
            let saturating = packed!(@saturating [$($arg),*] $($saturating)?);
            halves(wave, inst, $float, |[$($arg),*]: [u16; _]| $value, saturating)
        }
    )*};
}

packed! {
    pk_mul_f16(a, b), true, prim::fmul(F16(a), F16(b)).0;
    pk_add_f16(a, b), true, prim::fadd(F16(a), F16(b)).0;
    pk_fma_f16(a, b, c), true, prim::fma(F16(a), F16(b), F16(c)).0;
    pk_min_f16(a, b), true, prim::fmin_number(F16(a), F16(b)).0;
    pk_max_f16(a, b), true, prim::fmax_number(F16(a), F16(b)).0;
    pk_add_u16(a, b), false, a.wrapping_add(b), a.saturating_add(b);
    pk_sub_u16(a, b), false, a.wrapping_sub(b), a.saturating_sub(b);
    pk_add_i16(a, b), false, a.wrapping_add(b), prim::add_saturating_s(a, b);
    pk_sub_i16(a, b), false, a.wrapping_sub(b), prim::sub_saturating_s(a, b);
    pk_mul_lo_u16(a, b), false, a.wrapping_mul(b), a.saturating_mul(b);
    pk_mad_u16(a, b, c), false, a.wrapping_mul(b).wrapping_add(c),
        prim::saturate_u16(u32::from(a) * u32::from(b) + u32::from(c));
    pk_mad_i16(a, b, c), false, a.wrapping_mul(b).wrapping_add(c),
        prim::saturate_s16((i32::from(a as i16) * i32::from(b as i16) + i32::from(c as i16)) as u32);
    pk_lshlrev_b16(a, b), false, b.wrapping_shl(u32::from(a));
    pk_lshrrev_b16(a, b), false, b.wrapping_shr(u32::from(a)), b.wrapping_shr(u32::from(a));
    pk_ashrrev_i16(a, b), false, (b as i16).wrapping_shr(u32::from(a)) as u16, (b as i16).wrapping_shr(u32::from(a)) as u16;
    pk_min_i16(a, b), false, prim::min_s(a, b), prim::min_s(a, b);
    pk_max_i16(a, b), false, prim::max_s(a, b), prim::max_s(a, b);
    pk_min_u16(a, b), false, a.min(b), a.min(b);
    pk_max_u16(a, b), false, a.max(b), a.max(b);
}

/// The product and sum of sources that are f32 or halves, limited.
#[inline(always)]
fn mixed(wave: &mut Wave, inst: &Inst) -> Row {
    let modifiers = inst.modifiers();
    let rows: [Row; 3] = sources(wave, inst);
    let flush = [wave.denormals_32.flush_sources, wave.denormals_16_64.flush_sources];
    let nan_is_zero = wave.clamp_nan;
    let source = |lane: usize, index: usize| {
        let bits = rows[index].0[lane];
        let value = if modifiers.high_of_high >> index & 1 == 0 {
            f32::from_bits(if flush[0] { prim::flush_f32(bits) } else { bits })
        } else {
            let half = (bits >> (16 * (modifiers.high >> index & 1))) as u16;
            F16(if flush[1] { prim::flush_f16(half) } else { half }).to_f32()
        };
        let value = if modifiers.neg_high >> index & 1 == 1 { value.abs() } else { value };
        if modifiers.neg >> index & 1 == 1 { -value } else { value }
    };
    Row::from_fn(|lane| {
        let value = source(lane, 0).mul_add(source(lane, 1), source(lane, 2));
        if modifiers.clamp { prim::clamp_f32(value, nan_is_zero).to_bits() } else { value.to_bits() }
    })
}

/// That as f16.
#[inline(always)]
fn mixed_half(wave: &mut Wave, inst: &Inst) -> Row {
    let row = mixed(wave, inst);
    let flush = wave.denormals_16_64.flush_results;
    Row::from_fn(|lane| {
        let half = F16::of_f32(f32::from_bits(row.0[lane])).0;
        u32::from(if flush { prim::flush_f16(half) } else { half })
    })
}

#[inline(always)]
pub(crate) fn fma_mix_f32(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    let mut row = mixed(wave, inst);
    if wave.denormals_32.flush_results {
        for lane in 0..LANES {
            row.0[lane] = prim::flush_f32(row.0[lane]);
        }
    }
    write(wave, inst, &row)
}

#[inline(always)]
pub(crate) fn fma_mixlo_f16(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    let (half, old) = (mixed_half(wave, inst), wave.rows[usize::from(inst.result)]);
    let row = Row::from_fn(|lane| half.0[lane] | (old.0[lane] & 0xFFFF_0000));
    write(wave, inst, &row)
}

#[inline(always)]
pub(crate) fn fma_mixhi_f16(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    let (half, old) = (mixed_half(wave, inst), wave.rows[usize::from(inst.result)]);
    let row = Row::from_fn(|lane| half.0[lane] << 16 | (old.0[lane] & 0xFFFF));
    write(wave, inst, &row)
}
