//! Instructions on whole rows: exchange between lanes, packed values, mixed precision, dot products and matrices. Those that exchange values
//! read every lane before they write one.

mod exchange;
mod matrix;
mod packed;

pub(crate) use exchange::*;
pub(crate) use matrix::*;
pub(crate) use packed::*;

use vireo_simt::Row;

use super::Next;
use super::wave::Wave;
use crate::program::Inst;

/// Writes a row as the result, in active lanes.
#[inline(always)]
fn write(wave: &mut Wave, inst: &Inst, row: &Row) -> Next {
    wave.rows[usize::from(inst.result)].blend(row, &wave.exec_row);
    Next::Continue
}
