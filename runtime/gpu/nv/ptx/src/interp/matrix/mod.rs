//! Products of matrices that the lanes of a warp hold together, and loads of such matrices.
//!
//! The sums of a product of floats are added up in the order of the columns of the first matrix, exactly as f64, and
//! rounded once; the documents leave the order open.

use vireo_simt::prim::{self, F16};
use vireo_simt::row::lanes;
use vireo_simt::{Row, TrapKind};

use super::memory::{Space, list, shown};
use super::sync::show_meeting;
use crate::generated::fragments;
use crate::generated::suffixes::Type;
use crate::isa::Fragment;
use crate::machine::{Block, Inst, Next, Warp};

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod avx2;
mod rows;
mod tiles;

pub(crate) use rows::{store_matrix, transpose_matrix};

/// The type of the elements of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    Half,
    Brain,
    Single,
    E4m3,
    E5m2,
    Unsigned8,
    Signed8,
}

const ELEMENTS: [Element; 7] = [
    Element::Half,
    Element::Brain,
    Element::Single,
    Element::E4m3,
    Element::E5m2,
    Element::Unsigned8,
    Element::Signed8,
];

impl Element {
    /// That of a type, if it is one of a matrix.
    pub(crate) fn of(ty: Type) -> Option<Self> {
        Some(match ty {
            Type::F16 => Element::Half,
            Type::Bf16 => Element::Brain,
            Type::Tf32 => Element::Single,
            Type::E4m3 => Element::E4m3,
            Type::E5m2 => Element::E5m2,
            Type::U8 => Element::Unsigned8,
            Type::S8 => Element::Signed8,
            _ => return None,
        })
    }

    pub(crate) fn number(self) -> u32 {
        ELEMENTS.iter().position(|element| *element == self).unwrap_or(0) as u32
    }

    fn bits(self) -> u32 {
        match self {
            Element::Half | Element::Brain => 16,
            Element::Single => 32,
            _ => 8,
        }
    }

    /// The number of the lowest bits.
    pub(super) fn value(self, bits: u32) -> f64 {
        match self {
            Element::Half => f64::from(F16(bits as u16).to_f32()),
            Element::Brain => f64::from(prim::fpromote_bf16(bits as u16)),
            // Of a tf32 the lowest bits do not count.
            Element::Single => f64::from(f32::from_bits(bits & !0x1FFF)),
            Element::E4m3 => prim::e4m3_value(bits as u8),
            Element::E5m2 => prim::e5m2_value(bits as u8),
            Element::Unsigned8 => f64::from(bits as u8),
            Element::Signed8 => f64::from(bits as i8),
        }
    }
}

/// The layouts of the first and the second matrix with this many columns and bits of an element.
pub(crate) fn layouts(columns: u32, bits: u32) -> Option<(&'static Fragment, &'static Fragment)> {
    Some(match (columns, bits) {
        (4, 32) => (&fragments::A_16X4, &fragments::B_4X8),
        (8, 32) => (&fragments::A_16X8_WIDE, &fragments::B_8X8_WIDE),
        (8, 16) => (&fragments::A_16X8, &fragments::B_8X8),
        (16, 16) => (&fragments::A_16X16, &fragments::B_16X8),
        (32, 8) => (&fragments::A_16X32, &fragments::B_32X8),
        (16, 8) => (&fragments::A_16X16_BYTES, &fragments::B_16X8_BYTES),
        _ => return None,
    })
}

/// The elements of a matrix in rows of registers, by row and column.
fn gather(rows: &[Row], fragment: &Fragment, bits: u32, mut set: impl FnMut(usize, usize, u32)) {
    let (per_word, elements) = (32 / bits, fragment.elements());
    for (lane, places) in fragment.places().chunks(elements as usize).enumerate() {
        for (element, (row, column)) in places.iter().enumerate() {
            let element = element as u32;
            let Some(words) = rows.get((element / per_word) as usize) else { continue };
            set(usize::from(*row), usize::from(*column), words.0[lane] >> (element % per_word * bits));
        }
    }
}

/// The number of an instruction: columns of the first matrix, elements of both, the types of sums, and a limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    pub(crate) columns: u32,
    pub(crate) a: Element,
    pub(crate) b: Element,
    /// Whether sums that are read have 16 bits.
    pub(crate) short_sums: bool,
    /// Whether results have 16 bits.
    pub(crate) short_results: bool,
    pub(crate) saturates: bool,
}

impl Product {
    pub(crate) fn number(self) -> u32 {
        self.columns
            | self.a.number() << 8
            | self.b.number() << 12
            | u32::from(self.short_sums) << 16
            | u32::from(self.short_results) << 17
            | u32::from(self.saturates) << 18
    }

    fn of(number: u32) -> Option<Self> {
        Some(Product {
            columns: number & 0xFF,
            a: *ELEMENTS.get(number as usize >> 8 & 15)?,
            b: *ELEMENTS.get(number as usize >> 12 & 15)?,
            short_sums: number >> 16 & 1 != 0,
            short_results: number >> 17 & 1 != 0,
            saturates: number >> 18 & 1 != 0,
        })
    }

    /// Registers of the second matrix if each one is a tile of [`tiles`].
    fn tiles(self) -> Option<usize> {
        let is_of_tiles = self.a == self.b && matches!(self.a, Element::Half | Element::Brain);
        (is_of_tiles && matches!(self.columns, 8 | 16)).then_some(self.columns as usize / 8)
    }

    /// Registers of the results, of both matrices and of the sums.
    pub(crate) fn registers(self) -> Option<[usize; 4]> {
        let sums = |short: bool| if short { 2 } else { 4 };
        if let Some(parts) = self.tiles() {
            return Some([sums(self.short_results), 2 * parts, parts, sums(self.short_sums)]);
        }
        let (a, b) = layouts(self.columns, self.a.bits())?;
        let words = |fragment: &Fragment, bits: u32| (fragment.elements() * bits / 32) as usize;
        Some([sums(self.short_results), words(a, self.a.bits()), words(b, self.b.bits()), sums(self.short_sums)])
    }
}

/// The types of the sums of a product.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sums {
    pub(super) is_integer: bool,
    pub(super) saturates: bool,
    pub(super) short_sums: bool,
    pub(super) short_results: bool,
}

impl Sums {
    /// The bits of a result: those of a sum that was read, and the products of a row and a column added to it.
    pub(super) fn result(self, products: f64, sum: u32) -> u32 {
        if self.is_integer {
            // The sum of the products of 32 bytes is exact.
            let total = i64::from(sum as i32) + products as i64;
            return match self.saturates {
                true => total.clamp(i32::MIN.into(), i32::MAX.into()) as i32 as u32,
                false => total as u32,
            };
        }
        let first = match self.short_sums {
            true => f64::from(F16(sum as u16).to_f32()),
            false => f64::from(f32::from_bits(sum)),
        };
        match self.short_results {
            true => F16::of_f64(products + first).0.into(),
            false => ((products + first) as f32).to_bits(),
        }
    }
}

/// The product of two matrices, and a sum.
#[inline(always)]
pub(crate) fn matrix(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    if warp.mask != u32::MAX {
        let message = "a product of matrices in which not all lanes of the warp take part";
        return warp.trapped(TrapKind::InvalidOperand(message.into()), None);
    }
    if block.hook.is_some() {
        show_meeting(warp, block, &Row::splat(u32::MAX));
    }
    let parts = Product::of(inst.number).and_then(|product| Some((product, product.registers()?)));
    let Some((product, counts)) = parts else { return Next::Trap };
    let list = list(block, inst, counts[0] + counts[1] + counts[2] + counts[3]);
    // Functions of slices are not inlined into code for newer processors.
    let [first, second, third] = [counts[0], counts[0] + counts[1], counts[0] + counts[1] + counts[2]];
    let (result, a, b, sums) = (&list[..first], &list[first..second], &list[second..third], &list[third..]);
    let mut results = [Row::ZERO; 4];
    if product.tiles().is_some() {
        tiles::product(warp, product, [a, b, sums], &mut block.matrices, &mut results);
    } else {
        results = general(warp, product, [a, b, sums]);
    }
    for index in 0..result.len().min(4) {
        warp.put(result[index], &results[index]);
    }
    Next::Continue
}

/// The rows of the results of any product, which has much memory of its own. Rows are those of the first matrix, of
/// the second one and of the sums.
#[inline(never)]
fn general(warp: &Warp, product: Product, taken: [&[u16]; 3]) -> [Row; 4] {
    let Some((a_layout, b_layout)) = layouts(product.columns, product.a.bits()) else { return [Row::ZERO; 4] };
    let rows = |of: &[u16]| of.iter().map(|row| *warp.row(*row)).collect::<Vec<Row>>();
    let columns = product.columns as usize;
    let (mut a, mut b, mut sums) = ([[0f64; 32]; 16], [[0f64; 8]; 32], [[0u32; 8]; 16]);
    gather(&rows(taken[0]), a_layout, product.a.bits(), |row, column, word| {
        a[row][column] = product.a.value(word);
    });
    gather(&rows(taken[1]), b_layout, product.b.bits(), |row, column, word| {
        b[row][column] = product.b.value(word);
    });
    let sum_bits = if product.short_sums { 16 } else { 32 };
    gather(&rows(taken[2]), &fragments::ACCUMULATOR_16X8, sum_bits, |row, column, word| {
        sums[row][column] = word;
    });
    let kind = Sums {
        is_integer: matches!(product.a, Element::Unsigned8 | Element::Signed8),
        saturates: product.saturates,
        short_sums: product.short_sums,
        short_results: product.short_results,
    };
    let mut totals = [[0f64; 8]; 16];
    for (totals, a) in totals.iter_mut().zip(&a) {
        for (a, b) in a.iter().zip(&b).take(columns) {
            for (total, b) in totals.iter_mut().zip(b) {
                *total += a * b;
            }
        }
    }
    let mut results = [Row::ZERO; 4];
    let (per_word, sums_layout) = (if product.short_results { 2 } else { 1 }, &fragments::ACCUMULATOR_16X8);
    for (lane, places) in sums_layout.places().chunks(sums_layout.elements() as usize).enumerate() {
        for (element, (row, column)) in places.iter().enumerate() {
            let (row, column) = (usize::from(*row), usize::from(*column));
            let bits = kind.result(totals[row][column], sums[row][column]);
            results[element / per_word].0[lane] |= bits << (element % per_word * 16);
        }
    }
    results
}

/// Rows of matrices of 8 by 8 halves from shared memory, whose addresses lanes have in turn. The number says how many
/// matrices, has 16 if they are transposed, and says how addresses are as [`rows::places`] reads it.
pub(crate) fn load_matrix(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    let (count, is_transposed) = (inst.number as usize & 7, inst.number & 16 != 0);
    if warp.mask != u32::MAX {
        let message = "a load of matrices in which not all lanes of the warp take part";
        return warp.trapped(TrapKind::InvalidOperand(message.into()), None);
    }
    let addresses = match rows::places(warp, inst, rows::rows_of(count), vireo_simt::Access::Load) {
        Ok(addresses) => addresses,
        Err(refused) => return warp.refused(refused),
    };
    if block.hook.is_some() {
        show_meeting(warp, block, &Row::splat(u32::MAX));
        warp.set_mask(rows::rows_of(count));
        shown(warp, block, (Space::Shared, &addresses), 16, (vireo_simt::Access::Load, false));
        warp.set_mask(u32::MAX);
    }
    let mut matrices = [[[0u8; 16]; 8]; 4];
    for lane in lanes(rows::rows_of(count)) {
        if !addresses.low.0[lane].is_multiple_of(16) {
            let why = vireo_simt::Refusal::Unaligned;
            let fault = super::memory::fault(&addresses, lane, 16, vireo_simt::Access::Load, why);
            return warp.refused((fault, lane));
        }
        if let Err(refused) = warp.load_bytes(block, Space::Shared, &addresses, lane, &mut matrices[lane / 8][lane % 8])
        {
            return warp.refused(refused);
        }
    }
    for (matrix, register) in matrices.iter().zip(list(block, inst, count)) {
        let half = |row: usize, column: usize| {
            u32::from(matrix[row][2 * column]) | u32::from(matrix[row][2 * column + 1]) << 8
        };
        let row = Row::from_fn(|lane| {
            let (row, column) = (lane / 4, lane % 4 * 2);
            match is_transposed {
                true => half(column, row) | half(column + 1, row) << 16,
                false => half(row, column) | half(row, column + 1) << 16,
            }
        });
        warp.put(*register, &row);
    }
    Next::Continue
}
