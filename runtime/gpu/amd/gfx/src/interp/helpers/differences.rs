//! Sums of differences of bytes, at four places of a source of 64 bits.

use vireo_simt::Row;

use super::write;
use crate::interp::lanes::{source_row, source_rows};
use crate::interp::prim::{difference_of_bytes, difference_of_some_bytes};
use crate::machine::{Group, Inst, Next, Wave};

/// The sums at the four places in a lane.
#[inline(always)]
fn sums(low: u32, high: u32, reference: u32, difference: impl Fn(u32, u32) -> u32) -> [u32; 4] {
    let bytes = u64::from(low) | u64::from(high) << 32;
    let mut sums = [0; 4];
    for place in 0..4 {
        sums[place] = difference((bytes >> (8 * place)) as u32, reference);
    }
    sums
}

/// Adds them to the halves of the third source.
#[inline(always)]
fn halves(wave: &mut Wave, inst: &Inst, difference: impl Fn(u32, u32) -> u32) -> Next {
    let clamp = inst.modifiers().clamp;
    let (bytes, reference, start) = (source_rows(wave, inst, 0), source_row(wave, inst, 1), source_rows(wave, inst, 2));
    let mut rows = [Row::ZERO; 2];
    for lane in 0..rows[0].0.len() {
        let sums = sums(bytes[0].0[lane], bytes[1].0[lane], reference.0[lane], &difference);
        for place in 0..4 {
            let (word, shift) = (place / 2, 16 * (place % 2));
            let sum = (start[word].0[lane] >> shift & 0xFFFF) + sums[place];
            let sum = if clamp { sum.min(0xFFFF) } else { sum & 0xFFFF };
            rows[word].0[lane] |= sum << shift;
        }
    }
    put(wave, inst, &rows)
}

/// Writes rows as the result, in active lanes.
#[inline(always)]
fn put(wave: &mut Wave, inst: &Inst, rows: &[Row]) -> Next {
    let exec = wave.exec_row;
    for index in 1..rows.len() {
        wave.rows[usize::from(inst.result) + index].blend(&rows[index], &exec);
    }
    write(wave, inst, &rows[0])
}

#[inline(always)]
pub(crate) fn qsad_u16(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    halves(wave, inst, difference_of_bytes)
}

#[inline(always)]
pub(crate) fn mqsad_u16(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    halves(wave, inst, difference_of_some_bytes)
}

#[inline(always)]
pub(crate) fn mqsad_u32(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    let clamp = inst.modifiers().clamp;
    let (bytes, reference) = (source_rows(wave, inst, 0), source_row(wave, inst, 1));
    // The decoder makes four rows of a constant, too, and a scalar there is what no compiler writes.
    let Some(first) = super::row_of(inst, 2) else { return super::scalar_in_place_of_rows(wave) };
    let mut rows = [Row::ZERO; 4];
    for place in 0..4 {
        rows[place] = wave.rows[first + place];
    }
    for lane in 0..rows[0].0.len() {
        let sums = sums(bytes[0].0[lane], bytes[1].0[lane], reference.0[lane], difference_of_some_bytes);
        for place in 0..4 {
            let start = rows[place].0[lane];
            rows[place].0[lane] =
                if clamp { start.saturating_add(sums[place]) } else { start.wrapping_add(sums[place]) };
        }
    }
    put(wave, inst, &rows)
}
