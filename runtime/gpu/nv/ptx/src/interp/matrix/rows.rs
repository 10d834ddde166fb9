//! Matrices of 8 by 8 halves, whose rows lanes have together: stores to shared memory, and the change of rows and
//! columns.

use vireo_simt::row::lanes;
use vireo_simt::{Access, Fault, Refusal, Row, TrapKind};

use crate::generated::limits::SHARED_WINDOW;
use crate::interp::memory::{Addresses, Space, fault, list, shown};
use crate::interp::sync::show_meeting;
use crate::machine::{Block, Inst, Next, Warp};

/// Lanes that give the addresses of the rows of so many matrices.
pub(super) fn rows_of(count: usize) -> u32 {
    if count >= 4 { u32::MAX } else { (1 << (8 * count)) - 1 }
}

/// Where rows of matrices are in shared memory, for `load_matrix` and [`store_matrix`]: the number of an instruction
/// has 32 if addresses have one row, and 64 if they are generic.
pub(super) fn places(warp: &Warp, inst: &Inst, rows: u32, access: Access) -> Result<Addresses, (Fault, usize)> {
    let addresses = Addresses::of(warp, inst, inst.number & 32 != 0);
    if inst.number & 64 == 0 {
        return Ok(addresses);
    }
    let is_outside = |lane: &usize| addresses.lane(*lane) >> 24 != SHARED_WINDOW >> 24;
    match lanes(rows).find(is_outside) {
        Some(lane) => Err((fault(&addresses, lane, 16, access, Refusal::OtherSpace), lane)),
        None => Ok(Addresses { low: Row::from_fn(|lane| addresses.low.0[lane] & 0xFF_FFFF), high: Row::ZERO }),
    }
}

/// The element of a matrix at a row and a column.
fn half(register: &Row, row: usize, column: usize) -> u16 {
    (register.0[4 * row + column / 2] >> (16 * (column % 2))) as u16
}

fn needs_all_lanes(warp: &mut Warp, what: &str) -> Option<Next> {
    if warp.mask == u32::MAX {
        return None;
    }
    let message = format!("{what} in which not all lanes of the warp take part");
    Some(warp.trapped(TrapKind::InvalidOperand(message.into()), None))
}

/// Rows of matrices to shared memory, at addresses that lanes have in turn. The number is that of
/// [`super::load_matrix`].
pub(crate) fn store_matrix(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    let (count, is_transposed) = (inst.number as usize & 7, inst.number & 16 != 0);
    if let Some(next) = needs_all_lanes(warp, "a store of matrices") {
        return next;
    }
    let mut allowed = rows_of(count);
    let addresses = match places(warp, inst, allowed, Access::Store) {
        Ok(addresses) => addresses,
        Err(refused) => return warp.refused(refused),
    };
    if block.hook.is_some() {
        show_meeting(warp, block, &Row::splat(u32::MAX));
        warp.set_mask(allowed);
        allowed = shown(warp, block, (Space::Shared, &addresses), 16, (Access::Store, false));
        warp.set_mask(u32::MAX);
    }
    let registers = list(block, inst, count);
    for lane in lanes(allowed) {
        if !addresses.low.0[lane].is_multiple_of(16) {
            return warp.refused((fault(&addresses, lane, 16, Access::Store, Refusal::Unaligned), lane));
        }
        let (register, row) = (warp.row(registers[lane / 8]), lane % 8);
        let mut bytes = [0; 16];
        for (column, pair) in bytes.chunks_mut(2).enumerate() {
            let value = if is_transposed { half(register, column, row) } else { half(register, row, column) };
            pair.copy_from_slice(&value.to_le_bytes());
        }
        if let Err(refused) = warp.store_bytes(block, Space::Shared, &addresses, lane, &bytes) {
            return warp.refused(refused);
        }
    }
    Next::Continue
}

/// A matrix with its rows as columns.
pub(crate) fn transpose_matrix(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    if let Some(next) = needs_all_lanes(warp, "a transposition of a matrix") {
        return next;
    }
    if block.hook.is_some() {
        show_meeting(warp, block, &Row::splat(u32::MAX));
    }
    let from = *warp.row(inst.sources[0]);
    let row = Row::from_fn(|lane| {
        let (row, column) = (lane / 4, lane % 4 * 2);
        u32::from(half(&from, column, row)) | u32::from(half(&from, column + 1, row)) << 16
    });
    warp.put(inst.result, &row);
    Next::Continue
}
