//! `wmma`: matrices of a warp are loaded from memory, multiplied and added, and stored.
//!
//! Where the elements of a matrix are in the lanes is open in the documents; `spec/isa/ptx/fragments.yaml` has a layout
//! for each matrix, the same whether it was loaded by rows or by columns. The sums are those of `matrix`, but for f64,
//! whose products are added one after another, each rounded once.

use vireo_simt::{Access, LANES, Row, TrapKind, prim};

use super::matrix::{Element, Sums};
use super::memory::{Addresses, Shape, Space, list, shown};
use crate::generated::fragments::TILES;
use crate::generated::suffixes::{MatrixSuffix, RoundingSuffix, ShapeSuffix, Type};
use crate::isa::{Suffixes, Tile};
use crate::machine::{Block, Inst, NONE, Next, Warp};

/// Elements of the largest matrix.
const MOST: usize = 512;
/// Rows of the registers of a matrix at most: f16 has eight registers of one row, f32 eight.
const MOST_ROWS: usize = 8;

impl Tile {
    /// The matrix of a product with these sizes.
    pub(crate) fn find(matrix: MatrixSuffix, shape: ShapeSuffix, ty: Type) -> Option<(u32, &'static Tile)> {
        let is_it = |tile: &&Tile| tile.matrix == matrix && tile.shape == shape && tile.ty == ty;
        TILES.iter().zip(0..).find(|(tile, _)| is_it(tile)).map(|(tile, number)| (number, tile))
    }

    /// How many rows and columns it has.
    pub(crate) fn sizes(&self) -> [usize; 2] {
        [1 << self.fragment.row.len(), 1 << self.fragment.column.len()]
    }

    /// Rows that have its elements once.
    fn rows(&self) -> usize {
        (self.fragment.elements() * self.ty.bits()).div_ceil(32) as usize
    }

    /// Calls `access` for each element of each lane: with the lane, the place among the rows, the shift there, and the
    /// row and column of the element.
    fn each(&self, mut access: impl FnMut(usize, usize, u32, usize, usize)) {
        let bits = self.ty.bits();
        for (lane, places) in self.fragment.places().chunks(self.fragment.elements() as usize).enumerate() {
            for (element, (row, column)) in (0u32..).zip(places) {
                let first = element * bits;
                access(lane, (first / 32) as usize, first % 32, usize::from(*row), usize::from(*column));
            }
        }
    }

    /// The rows of its registers.
    fn read(&self, warp: &Warp, registers: &[u16]) -> [Row; MOST_ROWS] {
        let per_register = self.ty.bits().div_ceil(32) as usize;
        let mut rows = [Row::ZERO; MOST_ROWS];
        for (at, row) in rows.iter_mut().enumerate().take(self.rows()) {
            *row = *warp.row(registers[at / per_register] + (at % per_register) as u16);
        }
        rows
    }

    /// Writes its registers, those that have the same elements several times, too.
    fn write(&self, warp: &mut Warp, registers: &[u16], rows: &[Row; MOST_ROWS]) {
        let per_register = self.ty.bits().div_ceil(32) as usize;
        let count = self.rows();
        for (at, register) in registers.iter().enumerate().filter(|(_, register)| **register != NONE) {
            for part in 0..per_register {
                warp.put(register + part as u16, &rows[(at * per_register + part) % count]);
            }
        }
    }
}

/// A load or store of a matrix as the number of an instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TileAccess {
    /// The number of the matrix.
    pub(crate) tile: u32,
    /// Whether columns are one after another in memory.
    pub(crate) by_columns: bool,
    pub(crate) space: Space,
    pub(crate) is_short: bool,
}

impl TileAccess {
    pub(crate) fn number(self) -> u32 {
        let shape = Shape { space: self.space, bytes: 1, is_signed: false, count: 1, rows: 1, is_short: self.is_short };
        shape.number() | u32::from(self.by_columns) << 15 | self.tile << 16
    }

    fn of(number: u32) -> Option<(Self, &'static Tile)> {
        let (shape, tile) = (Shape::of(number), number >> 16);
        let by_columns = number >> 15 & 1 != 0;
        let access = TileAccess { tile, by_columns, space: shape.space, is_short: shape.is_short };
        Some((access, TILES.get(tile as usize)?))
    }
}

fn whole_warp(warp: &mut Warp) -> Result<(), Next> {
    if warp.mask == u32::MAX {
        return Ok(());
    }
    let message = "a matrix of a warp in which not all lanes of the warp take part";
    Err(warp.trapped(TrapKind::InvalidOperand(message.into()), None))
}

/// Loads a matrix, or stores it. The sources are the address and how many elements are from one row or column to the
/// next; those of the first lane count.
fn access_tile(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst, access: Access) -> Next {
    if let Err(next) = whole_warp(warp) {
        return next;
    }
    let Some((kind, tile)) = TileAccess::of(inst.number) else { return Next::Trap };
    let registers = list(block, inst, tile.registers as usize);
    let of_lanes = Addresses::of(warp, inst, kind.is_short);
    let (base, stride) = (of_lanes.lane(0), u64::from(warp.row(inst.sources[1]).0[0]));
    let length = tile.ty.bits() / 8;
    let elements = tile.fragment.elements() as usize;
    let places = tile.fragment.places();
    let mut rows = match access {
        Access::Store => tile.read(warp, registers),
        _ => [Row::ZERO; MOST_ROWS],
    };
    for element in 0..elements {
        let address = |lane: usize| {
            let (row, column) = places[lane * elements + element];
            let (row, column) = (u64::from(row), u64::from(column));
            let index = if kind.by_columns { column * stride + row } else { row * stride + column };
            base.wrapping_add(index * u64::from(length))
        };
        let addresses = Addresses {
            low: Row::from_fn(|lane| address(lane) as u32),
            high: Row::from_fn(|lane| (address(lane) >> 32) as u32),
        };
        let mut mask = warp.mask;
        if block.hook.is_some() {
            mask = shown(warp, block, (kind.space, &addresses), length, (access, false));
        }
        let first = element as u32 * tile.ty.bits();
        let (at, shift) = ((first / 32) as usize, first % 32);
        let of_element = |row: &Row| Row::from_fn(|lane| row.0[lane] >> shift);
        let mut words = [Row::ZERO; MOST_ROWS];
        let done = match access {
            Access::Store => {
                words[0] = of_element(&rows[at]);
                if length == 8 {
                    words[1] = rows[at + 1];
                }
                warp.store_element(block, (kind.space, &addresses, mask), length, &words)
            }
            _ => warp.load_element(block, (kind.space, &addresses, mask), length, &mut words),
        };
        if let Err(refused) = done {
            return warp.refused(refused);
        }
        if access != Access::Store {
            for lane in 0..LANES {
                rows[at].0[lane] |= words[0].0[lane] << shift;
            }
            if length == 8 {
                rows[at + 1] = words[1];
            }
        }
    }
    if access != Access::Store {
        tile.write(warp, registers, &rows);
    }
    Next::Continue
}

/// A matrix from memory.
pub(crate) fn load_tile(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    access_tile(warp, block, inst, Access::Load)
}

/// A matrix to memory.
pub(crate) fn store_tile(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    access_tile(warp, block, inst, Access::Store)
}

/// A product as the number of an instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TileProduct {
    pub(crate) shape: ShapeSuffix,
    /// The type of both factors.
    pub(crate) factors: Type,
    pub(crate) results: Type,
    pub(crate) sums: Type,
    pub(crate) rounding: RoundingSuffix,
    pub(crate) saturates: bool,
}

impl TileProduct {
    pub(crate) fn number(self) -> u32 {
        self.shape as u32
            | (self.factors as u32) << 4
            | (self.results as u32) << 10
            | (self.sums as u32) << 16
            | (self.rounding as u32) << 22
            | u32::from(self.saturates) << 25
    }

    fn of(number: u32) -> Option<Self> {
        let ty = |shift: u32| Type::ALL.get(number as usize >> shift & 0x3F).copied();
        Some(TileProduct {
            shape: *ShapeSuffix::ALL.get(number as usize & 15)?,
            factors: ty(4)?,
            results: ty(10)?,
            sums: ty(16)?,
            rounding: *RoundingSuffix::ALL.get(number as usize >> 22 & 7)?,
            saturates: number >> 25 & 1 != 0,
        })
    }

    /// The results, the factors, and the sums.
    pub(crate) fn tiles(self) -> Option<[&'static Tile; 4]> {
        let find = |matrix, ty| Tile::find(matrix, self.shape, ty).map(|(_, tile)| tile);
        Some([
            find(MatrixSuffix::D, self.results)?,
            find(MatrixSuffix::A, self.factors)?,
            find(MatrixSuffix::B, self.factors)?,
            find(MatrixSuffix::C, self.sums)?,
        ])
    }
}

/// The bits of the elements of a matrix, row after row.
fn elements(tile: &Tile, rows: &[Row; MOST_ROWS]) -> [u64; MOST] {
    let (mut bits, columns) = ([0; MOST], tile.sizes()[1]);
    let is_wide = tile.ty.bits() == 64;
    tile.each(|lane, at, shift, row, column| {
        let high = if is_wide { rows[at + 1].0[lane] } else { 0 };
        bits[row * columns + column] = u64::from(rows[at].0[lane] >> shift) | u64::from(high) << 32;
    });
    bits
}

/// The product of two matrices, and a sum.
pub(crate) fn multiply_tiles(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    if let Err(next) = whole_warp(warp) {
        return next;
    }
    let product = TileProduct::of(inst.number).and_then(|product| Some((product, product.tiles()?)));
    let Some((product, tiles)) = product else { return Next::Trap };
    let mut rest = list(block, inst, tiles.iter().map(|tile| tile.registers as usize).sum());
    let registers = tiles.map(|tile| {
        let (first, others) = rest.split_at(tile.registers as usize);
        rest = others;
        first
    });
    let [_, a, b, sums] =
        std::array::from_fn(|index| elements(tiles[index], &tiles[index].read(warp, registers[index])));
    let ([rows, inner], columns) = (tiles[1].sizes(), tiles[2].sizes()[1]);
    let mut results = [0u64; MOST];
    if product.factors == Type::F64 {
        let step: fn(f64, f64, f64) -> f64 = match product.rounding {
            RoundingSuffix::Rz => prim::fma_rz,
            RoundingSuffix::Rm => prim::fma_rm,
            RoundingSuffix::Rp => prim::fma_rp,
            _ => prim::fma,
        };
        for (at, result) in results.iter_mut().enumerate().take(rows * columns) {
            let (row, column) = (at / columns, at % columns);
            let factors = (0..inner).map(|k| [a[row * inner + k], b[k * columns + column]].map(f64::from_bits));
            *result = factors.fold(f64::from_bits(sums[at]), |sum, [a, b]| step(a, b, sum)).to_bits();
        }
    } else {
        let Some(element) = Element::of(product.factors) else { return Next::Trap };
        let (a, b) = (a.map(|bits| element.value(bits as u32)), b.map(|bits| element.value(bits as u32)));
        let kind = Sums {
            is_integer: product.results == Type::S32,
            saturates: product.saturates,
            short_sums: product.sums == Type::F16,
            short_results: product.results == Type::F16,
        };
        for row in 0..rows {
            let mut totals = [0f64; 32];
            for k in 0..inner {
                let a = a[row * inner + k];
                for (total, b) in totals.iter_mut().zip(&b[k * columns..][..columns]) {
                    *total += a * b;
                }
            }
            for (column, total) in totals.iter().enumerate().take(columns) {
                let at = row * columns + column;
                results[at] = kind.result(*total, sums[at] as u32).into();
            }
        }
    }
    let (mut words, is_wide) = ([Row::ZERO; MOST_ROWS], tiles[0].ty.bits() == 64);
    tiles[0].each(|lane, at, shift, row, column| {
        let bits = results[row * columns + column];
        words[at].0[lane] |= (bits as u32) << shift;
        if is_wide {
            words[at + 1].0[lane] = (bits >> 32) as u32;
        }
    });
    tiles[0].write(warp, registers[0], &words);
    Next::Continue
}
