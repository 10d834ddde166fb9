//! The operands of a product once they were checked, and the types of their elements.

use super::super::work::KernelWork;
use crate::Result;

/// Bytes of a result that are set to zero at once.
const CLEARED: usize = 1 << 12;

/// An element type of a factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    F32,
    F16,
    Bf16,
    S16,
    S8,
    /// Two elements in a byte, the first one in the low half.
    U4,
    /// As `U4`, signed.
    S4,
}

/// An element type of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResultElement {
    F32,
    F16,
    Bf16,
    S32,
}

impl ResultElement {
    pub(super) fn bytes(self) -> usize {
        match self {
            ResultElement::F32 | ResultElement::S32 => 4,
            ResultElement::F16 | ResultElement::Bf16 => 2,
        }
    }
}

impl Element {
    pub(super) fn is_float(self) -> bool {
        matches!(self, Element::F32 | Element::F16 | Element::Bf16)
    }

    pub(super) fn bits(self) -> u64 {
        match self {
            Element::F32 => 32,
            Element::F16 | Element::Bf16 | Element::S16 => 16,
            Element::S8 => 8,
            Element::U4 | Element::S4 => 4,
        }
    }
}

/// A product whose operands were checked. Offsets and distances are in elements.
#[derive(Clone, Copy)]
pub(super) struct Operands {
    pub lhs: Factor,
    pub rhs: Factor,
    pub out: *mut u8,
    /// Distance between rows of tiles of the result.
    pub out_stride: usize,
    /// Rows, columns and depth in tiles.
    pub tiles: [usize; 3],
    /// The sizes of the tiles.
    pub tile: [usize; 3],
    pub accumulate: bool,
}

/// A factor of a product.
#[derive(Clone, Copy)]
pub(super) struct Factor {
    pub data: *const u8,
    /// Distance between rows of tiles, in elements.
    pub stride: usize,
    pub element: Element,
}

impl Operands {
    /// Elements of a tile of the result.
    pub(super) fn out_tile(&self) -> usize {
        self.tile[0] * self.tile[1]
    }

    /// Sets the result to zeros: the sums of no products.
    pub(super) fn clear(&self, out_bytes: usize, work: &mut KernelWork) -> Result<()> {
        let bytes = self.columns() * self.tile[0] * out_bytes;
        for row in 0..self.tiles[0] {
            for start in (0..bytes).step_by(CLEARED) {
                let part = CLEARED.min(bytes - start);
                work.elements(part)?;
                // SAFETY: the row is one of the result, which was checked, and the part is inside of it.
                unsafe { self.out.add(row * self.out_stride * out_bytes + start).write_bytes(0, part) };
            }
        }
        Ok(())
    }

    /// Columns of the result.
    pub(super) fn columns(&self) -> usize {
        self.tiles[1] * self.tile[1]
    }

    /// The offset in the result of an element, by row of a tile and column.
    pub(super) fn out_offset(&self, tile_row: usize, row: usize, column: usize) -> usize {
        let [_, n0, _] = self.tile;
        tile_row * self.out_stride + column / n0 * self.out_tile() + row * n0 + column % n0
    }
}
