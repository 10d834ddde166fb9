//! Products of matrices of floats of 16 bits, which compilers use most. A register of such a matrix is a tile of eight
//! rows of eight elements, in the order of lanes: lane `4 * g + t` has elements `2 * t` and `2 * t + 1` of row `g`. The
//! second matrix has its columns in place of rows. Registers of f32 sums have the even and the odd columns of a tile.
//!
//! Results are those of the general way: products of such floats are exact as f64, so a fused sum is the same. Where
//! the processor has them, vector instructions compute them ([`super::avx2`]).

use vireo_simt::LANES;
use vireo_simt::Row;
use vireo_simt::prim::{F16, fpromote_bf16};

use super::{Element, Product};
use crate::machine::{Matrices, Warp};

/// Eight rows of eight elements, one row after another.
type Tile = [f64; 64];

/// The f32 of an f16, by steps that are the same for all values, so that the compiler makes vector instructions of it.
#[inline(always)]
fn single_of_half(bits: u32) -> f32 {
    let (sign, rest) = ((bits & 0x8000) << 16, (bits & 0x7FFF) << 13);
    let special = if rest >= 0x7C00 << 13 { 0x7F80_0000 - (0x7C00 << 13) } else { 112 << 23 };
    // A subnormal value counts from the smallest normal one.
    let subnormal = f32::from_bits(rest + (113 << 23)) - f32::from_bits(113 << 23);
    let magnitude = if rest < 0x0400 << 13 { subnormal.to_bits() } else { rest + special };
    f32::from_bits(magnitude | sign)
}

/// The tile of a register of halves.
#[inline(always)]
fn tile(row: &Row, value: impl Fn(u32) -> f32) -> Tile {
    // One loop for each step, which the compiler makes vector instructions of.
    let mut bits = [0; 64];
    for lane in 0..LANES {
        bits[2 * lane] = row.0[lane] & 0xFFFF;
        bits[2 * lane + 1] = row.0[lane] >> 16;
    }
    let mut values = [0.0; 64];
    for at in 0..64 {
        values[at] = value(bits[at]);
    }
    let mut tile = [0.0; 64];
    for at in 0..64 {
        tile[at] = f64::from(values[at]);
    }
    tile
}

/// A tile with its columns as rows.
#[inline(always)]
fn transposed(tile: &Tile) -> [[f64; 8]; 8] {
    let mut rows = [[0.0; 8]; 8];
    for row in 0..8 {
        for column in 0..8 {
            rows[row][column] = tile[8 * column + row];
        }
    }
    rows
}

/// Adds the products of the rows of a tile and the columns of a matrix with these rows.
#[inline(always)]
fn add_product(sums: &mut Tile, a: &Tile, rows: &[[f64; 8]; 8], sum: impl Fn(f64, f64, f64) -> f64) {
    // Two rows at a time have enough sums that do not wait for each other.
    for pair in 0..4 {
        let mut totals = [[0.0; 8]; 2];
        for which in 0..2 {
            for column in 0..8 {
                totals[which][column] = sums[16 * pair + 8 * which + column];
            }
        }
        for inner in 0..8 {
            for which in 0..2 {
                let a = a[16 * pair + 8 * which + inner];
                for column in 0..8 {
                    totals[which][column] = sum(a, rows[inner][column], totals[which][column]);
                }
            }
        }
        for which in 0..2 {
            for column in 0..8 {
                sums[16 * pair + 8 * which + column] = totals[which][column];
            }
        }
    }
}

/// The rows of a product, by the way in which values are read and added.
#[inline(always)]
fn compute(
    a: &[&Row],
    b: &[&Row],
    sums: &[&Row],
    product: Product,
    value: impl Fn(u32) -> f32 + Copy,
    sum: impl Fn(f64, f64, f64) -> f64 + Copy,
) -> [Row; 4] {
    let mut results = [Row::ZERO; 4];
    let mut totals = [[0.0; 64]; 2];
    for part in 0..b.len() {
        let rows = transposed(&tile(b[part], value));
        for upper in 0..2 {
            if 2 * part + upper < a.len() {
                add_product(&mut totals[upper], &tile(a[2 * part + upper], value), &rows, sum);
            }
        }
    }
    for upper in 0..2 {
        let totals = &totals[upper];
        if product.short_sums {
            let first = tile(sums[upper.min(sums.len() - 1)], single_of_half);
            write(&mut results, product, upper, |at| totals[at] + first[at]);
        } else {
            let last = sums.len() - 1;
            let (even, odd) = (sums[last.min(2 * upper)], sums[last.min(2 * upper + 1)]);
            let mut first = [0.0; 64];
            for lane in 0..LANES {
                first[2 * lane] = f64::from(f32::from_bits(even.0[lane]));
                first[2 * lane + 1] = f64::from(f32::from_bits(odd.0[lane]));
            }
            write(&mut results, product, upper, |at| totals[at] + first[at]);
        }
    }
    results
}

/// Writes the sums of a tile to registers of results.
#[inline(always)]
fn write(results: &mut [Row; 4], product: Product, upper: usize, value: impl Fn(usize) -> f64) {
    if product.short_results {
        let half = |at: usize| u32::from(F16::of_f64(value(at)).0);
        results[upper] = Row::from_fn(|lane| half(2 * lane) | half(2 * lane + 1) << 16);
        return;
    }
    for lane in 0..LANES {
        results[2 * upper].0[lane] = (value(2 * lane) as f32).to_bits();
        results[2 * upper + 1].0[lane] = (value(2 * lane + 1) as f32).to_bits();
    }
}

/// The rows of a product of floats of 16 bits.
pub(super) fn product(
    warp: &Warp,
    product: Product,
    [a, b, sums]: [&[u16]; 3],
    matrices: &mut Matrices,
    results: &mut [Row; 4],
) {
    let mut rows = [[warp.row(0); 4]; 3];
    for (which, list) in [a, b, sums].into_iter().enumerate() {
        for at in 0..list.len().min(4) {
            rows[which][at] = warp.row(list[at]);
        }
    }
    let (a, b, sums) = (&rows[0][..a.len().min(4)], &rows[1][..b.len().min(2)], &rows[2][..sums.len().min(4)]);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if has_vectors() {
        // SAFETY: The processor has these features.
        return unsafe { super::avx2::product([a, b, sums], product, matrices, results) };
    }
    let _ = matrices;
    *results = plain(a, b, sums, product);
}

/// Whether the processor has what the product with vectors needs.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn has_vectors() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c")
}

#[inline(always)]
fn of_element(
    a: &[&Row],
    b: &[&Row],
    sums: &[&Row],
    product: Product,
    sum: impl Fn(f64, f64, f64) -> f64 + Copy,
) -> [Row; 4] {
    if product.a == Element::Brain {
        compute(a, b, sums, product, |bits| fpromote_bf16(bits as u16), sum)
    } else {
        compute(a, b, sums, product, single_of_half, sum)
    }
}

fn plain(a: &[&Row], b: &[&Row], sums: &[&Row], product: Product) -> [Row; 4] {
    of_element(a, b, sums, product, |a, b, total| a * b + total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::fragments;

    #[test]
    fn halves_become_singles() {
        for bits in 0..=u16::MAX {
            let (expected, found) = (F16(bits).to_f32(), single_of_half(bits.into()));
            let is_equal = expected.to_bits() == found.to_bits() || expected.is_nan() && found.is_nan();
            assert!(is_equal, "{bits:#x}: {found:e}, not {expected:e}");
        }
    }

    #[test]
    fn registers_are_tiles() {
        for lane in 0..LANES as u32 {
            for element in 0..8 {
                let (row, column) = ((lane / 4) as usize, (lane % 4 * 2 + element % 2) as usize);
                let (first, second) = ((element / 2 % 2) as usize * 8, (element / 4) as usize * 8);
                assert_eq!(fragments::A_16X16.place(lane, element), (row + first, column + second));
                if element < 4 {
                    assert_eq!(fragments::A_16X8.place(lane, element), (row + first, column));
                    assert_eq!(fragments::ACCUMULATOR_16X8.place(lane, element), (row + first, column));
                    assert_eq!(fragments::B_16X8.place(lane, element), (column + first, row));
                }
                if element < 2 {
                    assert_eq!(fragments::B_8X8.place(lane, element), (column, row));
                }
            }
        }
    }

    #[test]
    fn fused_and_plain_sums_are_those_of_each_product() {
        let mut state = 0x5EED_u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) as u32
        };
        for round in 0..200 {
            let rows: [Row; 10] = std::array::from_fn(|_| Row::from_fn(|_| draw()));
            let (a, b) = (&[&rows[0], &rows[1], &rows[2], &rows[3]], &[&rows[4], &rows[5]]);
            let sums = &[&rows[6], &rows[7], &rows[8], &rows[9]];
            let (element, columns) = ([Element::Half, Element::Brain][round % 2], [8, 16][round / 2 % 2]);
            let product = Product {
                columns,
                a: element,
                b: element,
                short_sums: element == Element::Half && round % 3 == 0,
                short_results: element == Element::Half && round % 5 == 0,
                saturates: false,
            };
            let parts = columns as usize / 8;
            let (a, b) = (&a[..2 * parts], &b[..parts]);
            let found = plain(a, b, sums, product);
            let value =
                |row: &Row, lane: usize, which: usize| f64::from(element.value(row.0[lane] >> (16 * which)) as f32);
            for (lane, element) in (0..LANES).flat_map(|lane| (0..4).map(move |element| (lane, element))) {
                let (row, column) = fragments::ACCUMULATOR_16X8.place(lane as u32, element as u32);
                let mut total = 0.0;
                for k in 0..columns as usize {
                    let (a_row, b_row) = (a[row / 8 + 2 * (k / 8)], b[k / 8]);
                    total += value(a_row, row % 8 * 4 + k % 8 / 2, k % 2) * value(b_row, column * 4 + k % 8 / 2, k % 2);
                }
                let first = match product.short_sums {
                    true => f64::from(F16((sums[element / 2].0[lane] >> (element % 2 * 16)) as u16).to_f32()),
                    false => f64::from(f32::from_bits(sums[element].0[lane])),
                };
                let expected = total + first;
                let is_equal = match product.short_results {
                    true => {
                        let found = F16((found[element / 2].0[lane] >> (element % 2 * 16)) as u16);
                        found == F16::of_f64(expected) || expected.is_nan() && found.to_f32().is_nan()
                    }
                    false => {
                        let found = f32::from_bits(found[element].0[lane]);
                        found.to_bits() == (expected as f32).to_bits() || expected.is_nan() && found.is_nan()
                    }
                };
                assert!(is_equal, "round {round}, row {row}, column {column}: {expected:e}");
            }
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            if has_vectors() {
                let mut fused = [Row::ZERO; 4];
                let sums = &sums[..if product.short_sums { 2 } else { 4 }];
                // SAFETY: The processor has these features.
                unsafe {
                    let matrices = &mut Matrices::default();
                    crate::interp::matrix::avx2::product([a, b, sums], product, matrices, &mut fused);
                };
                let is_nan = |bits: u32| f32::from_bits(bits).is_nan() || product.short_results;
                for (fused, plain) in fused.iter().zip(&found) {
                    let differs = |lane: &usize| fused.0[*lane] != plain.0[*lane] && !is_nan(plain.0[*lane]);
                    assert_eq!((0..LANES).find(differs), None, "round {round}");
                }
            }
        }
    }
}
