//! Sources with modifiers, results that are limited or scaled, subnormal numbers that are zero, and DPP.

use vireo_simt::{LANES, Row};

use super::{Format, Parts};
use crate::instruction::DPP16;
use crate::interp::prim::{self, F16};
use crate::interp::wave::{Group, Wave};
use crate::interp::{Next, lanes};
use crate::program::{Inst, MODIFIED, Modifiers, SCALAR};

/// The lane from which each lane gets its value, or none: by the number of the first source and the word of DPP.
fn dpp_lane(source: u32, word: u32, lane: usize) -> Option<usize> {
    if source != DPP16 {
        let pick = word >> (8 + 3 * (lane % 8)) & 7;
        return Some(lane / 8 * 8 + pick as usize);
    }
    let control = word >> 8 & 0x1FF;
    let (row, within, amount) = (lane / 16 * 16, lane % 16, (control & 15) as usize);
    let within = match control {
        0..=0xFF => Some(within / 4 * 4 + (control >> (2 * (within % 4)) & 3) as usize),
        0x101..=0x10F => Some(within + amount).filter(|within| *within < 16),
        0x111..=0x11F => within.checked_sub(amount),
        0x121..=0x12F => Some((within + 16 - amount) % 16),
        0x140 => Some(15 - within),
        0x141 => Some(within / 8 * 8 + 7 - within % 8),
        0x150..=0x15F => Some(amount),
        0x160..=0x16F => Some(within ^ amount),
        _ => None,
    };
    within.map(|within| row + within)
}

/// Executes an instruction whose first source comes from other lanes. Lanes without a source, and lanes outside the masks of rows and banks,
/// keep their results.
pub(crate) fn with_dpp(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    let Some(modifiers) = inst.modifiers.as_deref() else { return Next::Trap };
    let (Some((source, word)), Some(inner)) = (modifiers.dpp, modifiers.inner) else { return Next::Trap };
    let exec = wave.exec();
    let dpp16 = source == DPP16;
    let (zero_outside, fetch_inactive) =
        (dpp16 && word >> 19 & 1 == 1, if dpp16 { word >> 18 & 1 == 1 } else { source == 234 });
    let (mut written, mut picked) = (0u32, [None; LANES]);
    for (lane, pick) in picked.iter_mut().enumerate() {
        *pick = dpp_lane(source, word, lane).filter(|from| fetch_inactive || exec >> from & 1 == 1);
        let row = !dpp16 || word >> 28 >> (lane / 16) & 1 == 1;
        let bank = !dpp16 || word >> 24 >> (lane % 16 / 4) & 1 == 1;
        let source = pick.is_some() || zero_outside || !dpp16;
        written |= u32::from(row && bank && source) << lane;
    }
    let first = usize::from(modifiers.sources[0]);
    if modifiers.sources[0] & (SCALAR | MODIFIED) != 0 {
        return wave.trapped(vireo_simt::TrapKind::InvalidOperand("a scalar with DPP".into()), None);
    }
    let from = wave.rows[first];
    wave.dpp_source = Row::from_fn(|lane| picked[lane].map_or(0, |from_lane| from.0[from_lane]));
    wave.set_exec(exec & written);
    // SAFETY: `inner` is a handler of the table from which this instruction was decoded, which suits the processor.
    let next = unsafe { inner(wave, group, inst) };
    // A comparison with EXEC as its result has set it.
    if wave.exec() == exec & written {
        wave.set_exec(exec);
    }
    next
}

/// Fetches a source that is not just a row or a scalar into `temp`.
#[inline(never)]
pub(super) fn fetch(parts: &Parts<'_>, source: u16, index: usize, format: Format, flush: bool, temp: &mut [Row; 2]) {
    let none = Modifiers::default();
    let modifiers = if source & SCALAR == 0 && source & MODIFIED != 0 {
        parts.inst.modifiers.as_deref().unwrap_or(&none)
    } else {
        &none
    };
    let source = if std::ptr::eq(modifiers, &none) { source } else { modifiers.sources[index] };
    let two = matches!(format, Format::Bits64 | Format::Double);
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
        temp[0] = Row(temp[0].0.map(|value| value >> 16));
    }
    let (sign, row) = match format {
        Format::Half | Format::Bits16 => (0x8000, 0),
        Format::Double | Format::Bits64 => (0x8000_0000, 1),
        _ => (0x8000_0000, 0),
    };
    if bit(modifiers.abs) {
        temp[row] = Row(temp[row].0.map(|value| value & !sign));
    }
    if bit(modifiers.neg) {
        temp[row] = Row(temp[row].0.map(|value| value ^ sign));
    }
    if flush {
        flush_rows(format, temp);
    }
}

/// Makes subnormal numbers zeros of their signs.
fn flush_rows(format: Format, rows: &mut [Row; 2]) {
    for lane in 0..LANES {
        let (low, high) = (rows[0].0[lane], rows[1].0[lane]);
        match format {
            Format::Half if low & 0x7C00 == 0 => rows[0].0[lane] = low & 0x8000,
            Format::Single if low & 0x7F80_0000 == 0 => rows[0].0[lane] = low & 0x8000_0000,
            Format::Double if high & 0x7FF0_0000 == 0 => {
                (rows[0].0[lane], rows[1].0[lane]) = (0, high & 0x8000_0000);
            }
            _ => {}
        }
    }
}

/// Limits and scales a result; returns whether it goes to the high half.
#[inline(never)]
pub(super) fn finish(modifiers: Option<&Modifiers>, format: Format, flush: bool, rows: &mut [Row; 2]) -> bool {
    let none = Modifiers::default();
    let modifiers = modifiers.unwrap_or(&none);
    let scale = [1.0, 2.0, 4.0, 0.5][(modifiers.omod & 3) as usize];
    for lane in 0..LANES {
        match format {
            Format::Single => {
                let mut value = f32::from_bits(rows[0].0[lane]);
                if modifiers.omod != 0 {
                    value *= scale as f32;
                }
                if modifiers.clamp {
                    value = if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) };
                }
                rows[0].0[lane] = value.to_bits();
            }
            Format::Half => {
                let mut value = prim::fpromote_f16(F16(rows[0].0[lane] as u16));
                if modifiers.omod != 0 {
                    value *= scale as f32;
                }
                if modifiers.clamp {
                    value = if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) };
                }
                if modifiers.omod != 0 || modifiers.clamp {
                    rows[0].0[lane] = u32::from(prim::fdemote_f16(value).0);
                }
            }
            Format::Double => {
                let mut value = <f64 as lanes::Lane>::of_words(rows[0].0[lane], rows[1].0[lane]) * scale;
                if modifiers.clamp {
                    value = if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) };
                }
                (rows[0].0[lane], rows[1].0[lane]) = lanes::Lane::words(value);
            }
            _ => {}
        }
    }
    if flush {
        flush_rows(format, rows);
    }
    modifiers.result_high
}
