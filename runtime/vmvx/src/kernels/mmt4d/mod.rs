//! The `mmt4d` kernel: the product of two tiled matrices, the second one transposed.
//!
//! The loop nest ignores tile boundaries: a row of the result is a row of a tile of `lhs`, a column is a row of a tile
//! of `rhs`, and the depth runs over all tiles and the columns of each. `staging` copies a range of the depth of a
//! group of columns into an order that vector registers load as a whole, and `loop_nest` multiplies it with one block
//! of rows after the other into the registers of an `accumulator`. Products are summed in the order of the depth,
//! without fused operations, so results depend neither on tile sizes nor on the processor. `narrow_float` has the
//! products with narrow results.

mod accumulator;
mod loop_nest;
mod narrow_float;
mod operands;
mod staging;

use super::simd_level::SimdLevel;
use super::work::KernelWork;
use crate::hal::vmvx_format::{Mmt4dFlags, Mmt4dType, TILE_OPERATION_MASK, TYPE_MASK, TileOperation, TileRole};
use crate::matrix_view::MatrixView;
use crate::{Result, Status};

use operands::{Element, Factor, Operands, ResultElement};
pub(crate) use staging::Scratch;

/// A product as the arguments of a call describe it.
pub(crate) struct Product<'a> {
    /// Tiles of m0 x k0, by rows.
    pub lhs: MatrixView<'a>,
    /// Tiles of n0 x k0, by rows.
    pub rhs: MatrixView<'a>,
    /// Tiles of m0 x n0, by rows.
    pub out: MatrixView<'a>,
    /// Rows, columns and depth in tiles.
    pub tiles: [u64; 3],
    /// m0, n0 and k0.
    pub tile: [u64; 3],
    pub flags: u32,
}

impl Product<'_> {
    /// Checks the product and computes it.
    pub fn run(&self, level: SimdLevel, scratch: &mut Scratch) -> Result<()> {
        let (lhs, rhs, out) = self.elements()?;
        let flags = Mmt4dFlags::from_number(self.flags & !TYPE_MASK)?;
        let accumulate = flags.contains(Mmt4dFlags::ACCUMULATE);
        let [m, n, k] = self.tiles;
        let [m0, n0, k0] = self.tile;
        let too_large =
            || Status::out_of_range(format!("{m} x {n} x {k} tiles of {m0} x {n0} x {k0} do not fit 64 bits"));
        let row = |tiles: u64, rows: u64, columns: u64| {
            tiles.checked_mul(rows).and_then(|size| size.checked_mul(columns)).ok_or_else(too_large)
        };
        let (lhs_row, rhs_row, out_row) = (row(k, m0, k0)?, row(k, n0, k0)?, row(n, m0, n0)?);
        let depth = k.checked_mul(k0).ok_or_else(too_large)?;
        if m == 0 || out_row == 0 || (accumulate && depth == 0) {
            return Ok(());
        }
        let out_matrix = self.out.writable(out.bytes(), [m, out_row])?;
        let operands = Operands {
            lhs: factor(&self.lhs, lhs, [m, lhs_row])?,
            rhs: factor(&self.rhs, rhs, [n, rhs_row])?,
            out: out_matrix.data,
            out_stride: out_matrix.strides[0],
            tiles: [m as usize, n as usize, k as usize],
            tile: [m0 as usize, n0 as usize, k0 as usize],
            accumulate,
        };
        // The product of factors that fit a few buffers can take years, so limits are looked at in each loop.
        let work = &mut KernelWork::default();
        if depth == 0 {
            return operands.clear(out.bytes(), work);
        }
        // SAFETY: all three operands were checked with these sizes, and none of them is zero.
        unsafe {
            match out {
                ResultElement::F32 => loop_nest::floats(level, operands, scratch.staged(), work),
                ResultElement::S32 => loop_nest::integers(level, operands, scratch.staged(), work),
                ResultElement::F16 | ResultElement::Bf16 => {
                    narrow_float::multiply(operands, flags.contains(Mmt4dFlags::SKIP_INTERMEDIATE_ROUNDINGS), work)
                }
            }
        }
    }

    /// The types of `lhs`, `rhs` and the result.
    fn elements(&self) -> Result<(Element, Element, ResultElement)> {
        let ty = Mmt4dType(self.flags & TYPE_MASK);
        Ok(match ty {
            Mmt4dType::F32F32F32 => (Element::F32, Element::F32, ResultElement::F32),
            Mmt4dType::S8S8S32 => (Element::S8, Element::S8, ResultElement::S32),
            Mmt4dType::F16F16F32 => (Element::F16, Element::F16, ResultElement::F32),
            Mmt4dType::F16F16F16 => (Element::F16, Element::F16, ResultElement::F16),
            Mmt4dType::BF16BF16F32 => (Element::Bf16, Element::Bf16, ResultElement::F32),
            Mmt4dType::BF16BF16BF16 => (Element::Bf16, Element::Bf16, ResultElement::Bf16),
            Mmt4dType::S16S16S32 => (Element::S16, Element::S16, ResultElement::S32),
            Mmt4dType::S16U4S32 => (Element::S16, Element::U4, ResultElement::S32),
            Mmt4dType::S16S8S32 => (Element::S16, Element::S8, ResultElement::S32),
            Mmt4dType::S8S4S32 => (Element::S8, Element::S4, ResultElement::S32),
            _ => return Err(Status::invalid_argument(format!("`mmt4d` has no element types {ty:?}"))),
        })
    }
}

/// Checks a factor with rows of tiles of so many elements.
fn factor(view: &MatrixView<'_>, element: Element, sizes: [u64; 2]) -> Result<Factor> {
    let per_byte = 8 / element.bits().min(8);
    let whole = |elements: u64, what: &str| {
        if elements.is_multiple_of(per_byte) {
            return Ok(elements / per_byte);
        }
        Err(Status::invalid_argument(format!(
            "`{}`: {what} of {elements} elements is not a whole number of bytes",
            view.name
        )))
    };
    let bytes = MatrixView {
        offset: whole(view.offset, "an offset")?,
        strides: [whole(view.strides[0], "a distance")?, view.strides[1]],
        ..*view
    };
    let width = element.bits().div_ceil(8) as usize;
    let matrix = bytes.readable(width, [sizes[0], whole(sizes[1], "a row of tiles")?])?;
    Ok(Factor { data: matrix.data, stride: view.strides[0] as usize, element })
}

/// The best tile sizes for the kernels of a SIMD level, for the operand that the flags name.
pub(crate) fn tile_sizes(level: SimdLevel, flags: u32) -> Result<(u64, u64)> {
    let operation = TileOperation(flags & TILE_OPERATION_MASK);
    let wide = if level >= SimdLevel::Avx512 { 16 } else { 8 };
    let (m, n, k) = match operation {
        TileOperation::MATMUL_F32F32F32 => (wide, 16, 1),
        TileOperation::MATMUL_F16F16F32 | TileOperation::MATMUL_BF16BF16F32 => (wide, 16, 1),
        TileOperation::MATMUL_I8I8I32 => (wide, 16, 2),
        TileOperation::MATMUL_F16F16F16 | TileOperation::MATMUL_BF16BF16BF16 => (8, 8, 1),
        _ => return Err(Status::invalid_argument(format!("there are no tiles for the operation {operation:?}"))),
    };
    let role = TileRole(flags & TYPE_MASK);
    match role {
        _ if flags & !(TILE_OPERATION_MASK | TYPE_MASK) != 0 => {
            Err(Status::invalid_argument(format!("flags of a tile size have unknown bits: {flags:#x}")))
        }
        TileRole::LHS => Ok((m, k)),
        TileRole::RHS => Ok((n, k)),
        TileRole::RESULT => Ok((m, n)),
        _ => Err(Status::invalid_argument(format!("there are no tiles for the operand {role:?}"))),
    }
}

#[cfg(test)]
mod tests;
