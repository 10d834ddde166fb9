//! Products with results in narrow floats, one element after the other. Compilers so far make none of them for this
//! module, so they are not optimised.

use super::super::work::KernelWork;
#[cfg(test)]
use super::super::work::audit;
use super::operands::{Element, Operands};
use super::staging::{DepthRange, float};
use crate::Result;
use crate::hal::narrow_float::{BF16, F16, NarrowFloat};

/// Computes the product. Sums are rounded after each addition, or only at the end.
///
/// # Safety
/// The factors must be readable and the result writable for all elements of the product.
pub(super) unsafe fn multiply(operands: Operands, round_once: bool, work: &mut KernelWork) -> Result<()> {
    let format = if operands.lhs.element == Element::F16 { F16 } else { BF16 };
    let [tile_rows, _, tiles] = operands.tiles;
    let [m0, n0, k0] = operands.tile;
    for tile_row in 0..tile_rows {
        for row in 0..m0 {
            for column in 0..operands.columns() {
                let lhs = tile_row * operands.lhs.stride + row * k0;
                let rhs = column / n0 * operands.rhs.stride + column % n0 * k0;
                // SAFETY: the element is one of the result, and those of the factors are in its row and column.
                unsafe {
                    let target = operands.out.cast::<[u8; 2]>().add(operands.out_offset(tile_row, row, column));
                    let mut sum =
                        if operands.accumulate { format.widen(u16::from_ne_bytes(target.read()).into()) } else { 0.0 };
                    for range in DepthRange::all(tiles, k0) {
                        work.elements(2 * range.depth())?;
                        #[cfg(test)]
                        audit::done(2 * range.depth());
                        for tile in range.tile..range.tile + range.tiles {
                            for k in range.column..range.column + range.columns {
                                let a = float(operands.lhs.data, operands.lhs.element, lhs + tile * m0 * k0 + k);
                                let b = float(operands.rhs.data, operands.rhs.element, rhs + tile * n0 * k0 + k);
                                sum += a * b;
                                if !round_once {
                                    sum = rounded(format, sum);
                                }
                            }
                        }
                    }
                    target.write((format.narrow(sum) as u16).to_ne_bytes());
                }
            }
        }
    }
    Ok(())
}

fn rounded(format: NarrowFloat, value: f32) -> f32 {
    format.widen(format.narrow(value))
}
