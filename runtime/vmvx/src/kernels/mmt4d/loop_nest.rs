//! The loop nest of a product: ranges of the depth, groups of columns, blocks of rows. The kernel calls it for results
//! of 32 bits. It looks at the limits between blocks, which constants bound.

use super::super::simd_level::SimdLevel;
use super::super::work::KernelWork;
#[cfg(test)]
use super::super::work::audit;
use super::accumulator::{Accumulator, Columns, LANES, PortableFloats, PortableIntegers, Word};
use super::operands::Operands;
use super::staging::{self, DepthRange, GROUP, Rows, Staged, for_each_run};
use crate::Result;

/// The time of a first access to a page of the result, in steps of the depth.
const PAGE_STEPS: usize = 64;

/// Computes a product of floats.
///
/// # Safety
/// The factors must be readable and the result writable for all elements of the product, which has at least one, and
/// the processor must have `level`.
pub(super) unsafe fn floats(
    level: SimdLevel,
    operands: Operands,
    staged: &mut Staged,
    work: &mut KernelWork,
) -> Result<()> {
    // SAFETY: the caller guarantees that factors and result have all elements of the product, and that the processor
    // has `level`.
    unsafe {
        match level {
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx512 | SimdLevel::Avx512Vnni => x86::floats_avx512(operands, staged, work),
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx2 => x86::floats_avx2(operands, staged, work),
            _ => run::<PortableFloats>(operands, staged, work),
        }
    }
}

/// Computes a product of integers.
///
/// # Safety
/// As for [`floats`].
pub(super) unsafe fn integers(
    level: SimdLevel,
    operands: Operands,
    staged: &mut Staged,
    work: &mut KernelWork,
) -> Result<()> {
    // SAFETY: the caller guarantees that factors and result have all elements of the product, and that the processor
    // has `level`.
    unsafe {
        match level {
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx512Vnni => x86::integers_vnni(operands, staged, work),
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx512 => x86::integers_avx512(operands, staged, work),
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx2 => x86::integers_avx2(operands, staged, work),
            _ => run::<PortableIntegers>(operands, staged, work),
        }
    }
}

/// The loop nest compiled for each SIMD level.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::super::accumulator::x86::*;
    use super::{KernelWork, Operands, Result, Staged, run};

    macro_rules! levels {
        ($($name:ident: $sums:ident, $features:literal;)*) => {$(
            /// # Safety
            /// As for [`super::floats`]; the processor must have the features.
            #[target_feature(enable = $features)]
            pub unsafe fn $name(operands: Operands, staged: &mut Staged, work: &mut KernelWork) -> Result<()> {
                // SAFETY: the caller guarantees that factors and result have all elements of the product, and that the
                // processor has `level`.
                unsafe { run::<$sums>(operands, staged, work) }
            }
        )*};
    }

    levels! {
        floats_avx2: Avx2Floats, "avx2";
        floats_avx512: Avx512Floats, "avx512f,avx512bw";
        integers_avx2: Avx2Integers, "avx2";
        integers_avx512: Avx512Integers, "avx512f,avx512bw";
        integers_vnni: VnniIntegers, "avx512f,avx512bw,avx512vnni";
    }
}

/// # Safety
/// As for [`floats`]; the processor must have the registers of `S`.
#[inline(always)]
unsafe fn run<S: Accumulator>(operands: Operands, staged: &mut Staged, work: &mut KernelWork) -> Result<()> {
    let [tile_rows, _, tiles] = operands.tiles;
    let [m0, n0, k0] = operands.tile;
    let columns = operands.columns();
    for depth_range in DepthRange::all(tiles, k0) {
        let starts = !operands.accumulate && depth_range.tile == 0 && depth_range.column == 0;
        for first in (0..columns).step_by(GROUP * LANES) {
            let group = (columns - first).min(GROUP * LANES);
            for (vector, staged) in (0..group).step_by(LANES).zip(&mut staged.columns) {
                let count = LANES.min(group - vector);
                work.elements(LANES * depth_range.depth())?;
                // SAFETY: the columns are in the product, and the range in its depth.
                unsafe { staging::columns::<S>(operands.rhs, [n0, k0], depth_range, first + vector, count, staged) };
            }
            for tile_row in 0..tile_rows {
                for row in (0..m0).step_by(S::ROWS) {
                    let rows = S::ROWS.min(m0 - row);
                    // Rows are staged once for all columns; a vector of products and its sums take about as long as an
                    // element.
                    let steps = 1 + group.div_ceil(LANES);
                    work.elements(rows * (depth_range.depth() + PAGE_STEPS) * steps)?;
                    // SAFETY: the rows are in the product, and the range in its depth.
                    let block = unsafe {
                        staging::rows(operands.lhs, [m0, k0], depth_range, [tile_row, row], rows, &mut staged.rows)
                    };
                    for (vector, columns) in (0..group).step_by(LANES).zip(&staged.columns) {
                        let count = LANES.min(group - vector);
                        let mut sums = [[[0; 4]; LANES]; staging::ROWS];
                        let result_tile = ResultTile { operands, tile_row, row, column: first + vector, count };
                        // SAFETY: the block and the columns were staged for this range, and the tile is within the
                        // result.
                        unsafe {
                            if !starts {
                                result_tile.load(&mut sums[..rows]);
                            }
                            match rows {
                                1 => block_of::<S, 1>(block, columns, &mut sums),
                                2 => block_of::<S, 2>(block, columns, &mut sums),
                                3 => block_of::<S, 3>(block, columns, &mut sums),
                                4 => block_of::<S, 4>(block, columns, &mut sums),
                                5 => block_of::<S, 5>(block, columns, &mut sums),
                                6 => block_of::<S, 6>(block, columns, &mut sums),
                                7 => block_of::<S, 7>(block, columns, &mut sums),
                                _ => block_of::<S, 8>(block, columns, &mut sums),
                            }
                            result_tile.store(&sums[..rows]);
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

/// Adds the products of `R` rows and a vector of columns to `sums`.
///
/// # Safety
/// There must be `R` rows and as many steps of columns, and the processor must have the registers of `S`.
#[inline(always)]
unsafe fn block_of<S: Accumulator, const R: usize>(
    rows: Rows,
    columns: &[Columns],
    sums: &mut [Columns; staging::ROWS],
) {
    // Blocks have at most `S::ROWS` rows, so such instances are never called.
    if R > S::ROWS {
        return;
    }
    // SAFETY: the caller guarantees that there are as many rows and steps of columns, and that the processor has the
    // registers; there are at least as many sums as rows.
    unsafe {
        let mut registers: [S; R] = std::array::from_fn(|row| S::load(&raw const sums[row]));
        let mut columns = columns.as_ptr();
        #[cfg(test)]
        audit::done(R * rows.tiles * rows.steps);
        for tile in 0..rows.tiles {
            let tile = rows.data.add(tile * rows.tile);
            for step in 0..rows.steps {
                for (row, sums) in registers.iter_mut().enumerate() {
                    let word = tile.add(row * rows.row).cast::<Word>().add(step).read();
                    *sums = sums.add_products(word, columns);
                }
                columns = columns.add(1);
            }
        }
        for (row, sums_of_row) in registers.into_iter().enumerate() {
            sums_of_row.store(&raw mut sums[row]);
        }
    }
}

/// The position of a block of sums in the result.
#[derive(Clone, Copy)]
struct ResultTile {
    operands: Operands,
    tile_row: usize,
    row: usize,
    column: usize,
    count: usize,
}

impl ResultTile {
    /// Reads sums of a few rows.
    ///
    /// # Safety
    /// They must be in the result.
    #[inline(always)]
    unsafe fn load(&self, rows: &mut [Columns]) {
        for (offset, sums) in rows.iter_mut().enumerate() {
            self.for_each_run(offset, |lane, address, count| {
                // SAFETY: the run is a part of the row, which the caller vouches for.
                unsafe { address.copy_to_nonoverlapping(sums[lane..][..count].as_mut_ptr(), count) };
            });
        }
    }

    /// Writes sums of a few rows.
    ///
    /// # Safety
    /// As for [`ResultTile::load`].
    #[inline(always)]
    unsafe fn store(&self, rows: &[Columns]) {
        for (offset, sums) in rows.iter().enumerate() {
            self.for_each_run(offset, |lane, address, count| {
                // SAFETY: the run is a part of the row, which the caller vouches for.
                unsafe { address.copy_from_nonoverlapping(sums[lane..][..count].as_ptr(), count) };
            });
        }
    }

    /// Calls `run` for each run of adjacent sums, with its first lane, its address and its length.
    #[inline(always)]
    fn for_each_run(&self, offset: usize, mut run: impl FnMut(usize, *mut Word, usize)) {
        let ResultTile { operands, tile_row, row, column, count } = *self;
        for_each_run(operands.tile[1], column, count, |lane, _, _, count| {
            let element = operands.out_offset(tile_row, row + offset, column + lane);
            run(lane, operands.out.cast::<Word>().wrapping_add(element), count);
        });
    }
}
