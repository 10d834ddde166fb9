//! Instructions on whole rows: exchange between lanes, registers by a number, packed values, mixed precision, dot
//! products, differences of bytes and matrices. Those that exchange values read every lane before they write one.

mod differences;
mod dot;
mod exchange;
mod matrix;
mod packed;
mod relative;

pub(crate) use super::by_lane::*;
pub(crate) use differences::*;
pub(crate) use dot::*;
pub(crate) use exchange::*;
pub(crate) use matrix::*;
pub(crate) use packed::*;
pub(crate) use relative::*;

use vireo_simt::{Row, TrapKind};

use crate::machine::{Inst, MODIFIED, Next, Wave};

/// The first of the rows of a source that is more than two registers; none if it is a scalar.
#[inline(always)]
fn row_of(inst: &Inst, index: usize) -> Option<usize> {
    (inst.sources[index] < MODIFIED).then_some(usize::from(inst.sources[index]))
}

#[cold]
fn scalar_in_place_of_rows(wave: &mut Wave) -> Next {
    wave.trapped(TrapKind::InvalidOperand("a scalar in place of vector registers".into()), None)
}

/// Writes a row as the result, in active lanes.
#[inline(always)]
fn write(wave: &mut Wave, inst: &Inst, row: &Row) -> Next {
    wave.rows[usize::from(inst.result)].blend(row, &wave.exec_row);
    Next::Continue
}
