//! Sources with modifiers, results that are limited or scaled, subnormal numbers that are zero, and DPP.

use vireo_simt::lanes::{Format, Lane};
use vireo_simt::{LANES, Row};

use super::parts::Parts;
use crate::interp::prim::{self, F16};
use crate::isa::immediates::{Dpp8Word, Dpp16Word, DppControl, OutputModifier, QuadPerm};
use crate::isa::operands::{DPP8_FETCH_INACTIVE, DPP16};
use crate::machine::{Dpp, Group, Inst, MODIFIED, Modifiers, Next, SCALAR, Wave};

/// The lane from which each lane gets its value, or none: by the number of the first source and the word of DPP.
fn dpp_lane(source: u32, word: u32, lane: usize) -> Option<usize> {
    if source != DPP16 {
        return Some(lane / 8 * 8 + Dpp8Word(word).lane(lane as u32 % 8) as usize);
    }
    let (row, within) = (lane / 16 * 16, lane % 16);
    let within = match Dpp16Word(word).control()? {
        DppControl::QuadPerm(lanes) => Some(within / 4 * 4 + QuadPerm(lanes).lane(within as u32 % 4) as usize),
        DppControl::RowShl(amount) => Some(within + amount as usize).filter(|within| *within < 16),
        DppControl::RowShr(amount) => within.checked_sub(amount as usize),
        DppControl::RowRor(amount) => Some((within + 16 - amount as usize) % 16),
        DppControl::RowMirror => Some(15 - within),
        DppControl::RowHalfMirror => Some(within / 8 * 8 + 7 - within % 8),
        DppControl::RowShare(lane) => Some(lane as usize),
        DppControl::RowXmask(mask) => Some(within ^ mask as usize),
    };
    within.map(|within| row + within)
}

impl Dpp {
    /// By the number of the first source and the word of DPP.
    pub(crate) fn new(source: u32, word: u32) -> Self {
        // DPP8 has no masks.
        let word16 = (source == DPP16).then_some(Dpp16Word(word));
        let (mut from, mut has_source, mut allowed) = (Row::ZERO, 0, 0);
        for lane in 0..LANES {
            if let Some(pick) = dpp_lane(source, word, lane) {
                from.0[lane] = pick as u32;
                has_source |= 1 << lane;
            }
            let row = word16.is_none_or(|word| word.row_mask() >> (lane / 16) & 1 == 1);
            let bank = word16.is_none_or(|word| word.bank_mask() >> (lane % 16 / 4) & 1 == 1);
            allowed |= u32::from(row && bank) << lane;
        }
        Dpp {
            from,
            has_source,
            allowed,
            // In the short form a lane without a source gets zero.
            zero_outside: word16.is_none_or(Dpp16Word::bound_ctrl),
            fetch_inactive: word16.map_or(source == DPP8_FETCH_INACTIVE, Dpp16Word::fetch_inactive),
        }
    }
}

/// Executes an instruction whose first source comes from other lanes. Lanes without a source, and lanes outside the
/// masks of rows and banks, keep their results.
#[inline(always)]
pub(crate) fn with_dpp(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    let Some(modifiers) = inst.modifiers.as_deref() else { return Next::Trap };
    let (Some(dpp), Some(inner)) = (modifiers.dpp.as_deref(), modifiers.inner) else { return Next::Trap };
    let exec = wave.exec();
    let first = usize::from(modifiers.sources[0]);
    if modifiers.sources[0] & (SCALAR | MODIFIED) != 0 {
        return wave.trapped(vireo_simt::TrapKind::InvalidOperand("a scalar with DPP".into()), None);
    }
    let active = if dpp.fetch_inactive { u32::MAX } else { exec };
    let row = &wave.rows[first];
    let (mut source, mut picked) = (Row::ZERO, Row::ZERO);
    for lane in 0..LANES {
        // Lanes are below 32, which the compiler does not know.
        let from = dpp.from.0[lane] as usize % LANES;
        picked.0[lane] = (active >> from) & (dpp.has_source >> lane) & 1;
        source.0[lane] = row.0[from] & 0u32.wrapping_sub(picked.0[lane]);
    }
    wave.dpp_source = source;
    let written = dpp.allowed & if dpp.zero_outside { u32::MAX } else { picked.to_mask() };
    wave.set_exec(exec & written);
    // SAFETY: `inner` is a handler of the table from which this instruction was decoded, which suits the processor.
    let next = unsafe { inner(wave, group, inst) };
    if !modifiers.sets_exec {
        wave.set_exec(exec);
    }
    next
}

/// Changes each lane of a row. A loop, since closures of the library are not inlined.
#[inline(always)]
fn change(row: &mut Row, value: impl Fn(u32) -> u32) {
    for lane in 0..LANES {
        row.0[lane] = value(row.0[lane]);
    }
}

/// Fetches a source that is not just a row or a scalar into `temp`.
#[inline(never)]
pub(super) fn fetch(parts: &Parts<'_>, source: u16, index: usize, format: Format, flush: bool, temp: &mut [Row; 2]) {
    let modified = source & SCALAR == 0 && source & MODIFIED != 0;
    let modifiers = if modified { parts.inst.modifiers() } else { &Modifiers::NONE };
    let source = if modified { modifiers.sources[index] } else { source };
    let two = format.is_wide();
    for (word, row) in temp.iter_mut().enumerate().take(1 + usize::from(two)) {
        *row = if source & SCALAR != 0 {
            Row::splat(parts.scalars[usize::from(source & !SCALAR) + word])
        } else if index == 0 && modifiers.dpp.is_some() {
            *parts.dpp_source
        } else {
            parts.rows[usize::from(source) + word]
        };
    }
    let bit = |bits: u32| bits >> index & 1 == 1;
    if bit(modifiers.high) {
        change(&mut temp[0], |value| value >> 16);
    }
    let (sign, row) = match format {
        Format::Half | Format::Bits16 => (0x8000, 0),
        Format::Double | Format::Bits64 => (0x8000_0000, 1),
        _ => (0x8000_0000, 0),
    };
    if bit(modifiers.abs) {
        change(&mut temp[row], |value| value & !sign);
    }
    if bit(modifiers.neg) {
        change(&mut temp[row], |value| value ^ sign);
    }
    if flush {
        flush_rows(format, temp);
    }
}

/// Makes subnormal numbers zeros of their signs.
fn flush_rows(format: Format, rows: &mut [Row; 2]) {
    match format {
        Format::Half => change(&mut rows[0], |low| u32::from(prim::flush_f16(low as u16))),
        Format::Single => change(&mut rows[0], prim::flush_f32),
        Format::Double => {
            for lane in 0..LANES {
                let (low, high) = (rows[0].0[lane], rows[1].0[lane]);
                let subnormal = high & 0x7FF0_0000 == 0;
                rows[0].0[lane] = if subnormal { 0 } else { low };
                rows[1].0[lane] = if subnormal { high & 0x8000_0000 } else { high };
            }
        }
        _ => {}
    }
}

/// The modes of a kernel that results depend on.
#[derive(Clone, Copy)]
pub(super) struct ResultModes {
    /// Subnormal results are zero.
    pub(super) flush: bool,
    /// Clamping turns NaN into zero.
    pub(super) clamp_nan: bool,
    /// Results are not scaled.
    pub(super) ieee: bool,
}

/// Limits and scales a result; returns whether it goes to the high half.
#[inline(never)]
pub(super) fn finish(
    modifiers: &Modifiers,
    format: Format,
    ResultModes { flush, clamp_nan, ieee }: ResultModes,
    rows: &mut [Row; 2],
) -> bool {
    // Scaling is not compatible with subnormal results and IEEE.
    let (scaled, clamp) = (modifiers.output.is_some() && flush && !ieee, modifiers.clamp);
    let scale = match modifiers.output {
        None | Some(OutputModifier::Unchanged) => 1.0f32,
        Some(OutputModifier::Twice) => 2.0,
        Some(OutputModifier::FourTimes) => 4.0,
        Some(OutputModifier::Half) => 0.5,
    };
    let single = |value: f32| {
        let value = if scaled { value * scale } else { value };
        if clamp { prim::clamp_f32(value, clamp_nan) } else { value }
    };
    if scaled || clamp {
        match format {
            Format::Single => change(&mut rows[0], |bits| single(f32::from_bits(bits)).to_bits()),
            Format::Half => change(&mut rows[0], |bits| {
                let value = single(prim::fpromote_f16(F16(bits as u16)));
                u32::from(prim::fdemote_f16(value).0)
            }),
            Format::Double => {
                for lane in 0..LANES {
                    let mut value = f64::of_words(rows[0].0[lane], rows[1].0[lane]);
                    value = if scaled { value * f64::from(scale) } else { value };
                    if clamp {
                        value = if value.is_nan() & clamp_nan { 0.0 } else { value.clamp(0.0, 1.0) };
                    }
                    (rows[0].0[lane], rows[1].0[lane]) = value.words();
                }
            }
            _ => {}
        }
    }
    if flush {
        flush_rows(format, rows);
    }
    if scaled {
        // A zero has no sign then.
        match format {
            Format::Half => change(&mut rows[0], |low| if low & 0x7FFF == 0 { 0 } else { low }),
            Format::Single => change(&mut rows[0], |low| if low & 0x7FFF_FFFF == 0 { 0 } else { low }),
            Format::Double => {
                for lane in 0..LANES {
                    let zero = rows[0].0[lane] | (rows[1].0[lane] & 0x7FFF_FFFF) == 0;
                    rows[1].0[lane] = if zero { 0 } else { rows[1].0[lane] };
                }
            }
            _ => {}
        }
    }
    modifiers.result_high
}
