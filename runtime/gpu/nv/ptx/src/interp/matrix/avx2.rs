//! Products of floats of 16 bits with AVX2, FMA and F16C. Sums are those of [`super::tiles`], bit by bit: the values as
//! f64, added in the order of columns.
//!
//! Eight sums of four rows stay in registers, and each takes two fused sums of four columns for a column of the first
//! matrix, so that the units for these are always busy.

use std::arch::x86_64::{
    __m128i, __m256, __m256d, _mm_castps_si128, _mm_castsi128_ps, _mm_load_si128, _mm_shuffle_ps, _mm_store_si128,
    _mm_unpackhi_ps, _mm_unpacklo_ps, _mm256_add_pd, _mm256_broadcast_sd, _mm256_castps256_ps128, _mm256_castsi256_ps,
    _mm256_cvtepu16_epi32, _mm256_cvtpd_ps, _mm256_cvtph_ps, _mm256_cvtps_pd, _mm256_extractf128_ps, _mm256_fmadd_pd,
    _mm256_loadu_pd, _mm256_permute2f128_ps, _mm256_setzero_pd, _mm256_shuffle_ps, _mm256_slli_epi32, _mm256_storeu_pd,
    _mm256_unpackhi_ps, _mm256_unpacklo_ps,
};

use vireo_simt::Row;
use vireo_simt::prim::F16;

use super::{Element, Product};
use crate::machine::Matrices;

/// The words of the four lanes that have a line of a tile.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn line(row: &Row, number: usize) -> __m128i {
    let words: &[u32; 4] = row.0[4 * number..].first_chunk().expect("four lanes");
    // SAFETY: A row is aligned to 64 bytes, and a line begins at a multiple of four lanes.
    unsafe { _mm_load_si128(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn set_line(row: &mut Row, number: usize, value: __m128i) {
    let words: &mut [u32; 4] = row.0[4 * number..].first_chunk_mut().expect("four lanes");
    // SAFETY: A row is aligned to 64 bytes, and a line begins at a multiple of four lanes.
    unsafe { _mm_store_si128(words.as_mut_ptr().cast(), value) };
}

/// The eight values of a line.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn singles<const BRAIN: bool>(words: __m128i) -> __m256 {
    if BRAIN {
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(words)))
    } else {
        _mm256_cvtph_ps(words)
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn doubles(values: __m256) -> [__m256d; 2] {
    [_mm256_cvtps_pd(_mm256_castps256_ps128(values)), _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(values))]
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn set_eight(values: &mut [f64], doubles: [__m256d; 2]) {
    let values: &mut [f64; 8] = values.first_chunk_mut().expect("eight values");
    // SAFETY: There are eight values.
    unsafe {
        _mm256_storeu_pd(values.as_mut_ptr(), doubles[0]);
        _mm256_storeu_pd(values.as_mut_ptr().add(4), doubles[1]);
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn eight(values: &[f64; 8]) -> [__m256d; 2] {
    // SAFETY: There are eight values.
    unsafe { [_mm256_loadu_pd(values.as_ptr()), _mm256_loadu_pd(values.as_ptr().add(4))] }
}

/// Eight lines of eight values with columns as lines.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn transposed(lines: [__m256; 8]) -> [__m256; 8] {
    let [a, b, c, d, e, f, g, h] = lines;
    let (ab, ab_high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    let (cd, cd_high) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
    let (ef, ef_high) = (_mm256_unpacklo_ps(e, f), _mm256_unpackhi_ps(e, f));
    let (gh, gh_high) = (_mm256_unpacklo_ps(g, h), _mm256_unpackhi_ps(g, h));
    let low = [
        _mm256_shuffle_ps::<0x44>(ab, cd),
        _mm256_shuffle_ps::<0xEE>(ab, cd),
        _mm256_shuffle_ps::<0x44>(ab_high, cd_high),
        _mm256_shuffle_ps::<0xEE>(ab_high, cd_high),
    ];
    let high = [
        _mm256_shuffle_ps::<0x44>(ef, gh),
        _mm256_shuffle_ps::<0xEE>(ef, gh),
        _mm256_shuffle_ps::<0x44>(ef_high, gh_high),
        _mm256_shuffle_ps::<0xEE>(ef_high, gh_high),
    ];
    [
        _mm256_permute2f128_ps::<0x20>(low[0], high[0]),
        _mm256_permute2f128_ps::<0x20>(low[1], high[1]),
        _mm256_permute2f128_ps::<0x20>(low[2], high[2]),
        _mm256_permute2f128_ps::<0x20>(low[3], high[3]),
        _mm256_permute2f128_ps::<0x31>(low[0], high[0]),
        _mm256_permute2f128_ps::<0x31>(low[1], high[1]),
        _mm256_permute2f128_ps::<0x31>(low[2], high[2]),
        _mm256_permute2f128_ps::<0x31>(low[3], high[3]),
    ]
}

/// The sums that were read, of a line of a result.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn first(sums: &[&Row], product: Product, upper: usize, number: usize) -> [__m256d; 2] {
    if product.short_sums {
        return doubles(singles::<false>(line(sums[upper], number)));
    }
    let (even, odd) = (line(sums[2 * upper], number), line(sums[2 * upper + 1], number));
    let (even, odd) = (_mm_castsi128_ps(even), _mm_castsi128_ps(odd));
    [_mm256_cvtps_pd(_mm_unpacklo_ps(even, odd)), _mm256_cvtps_pd(_mm_unpackhi_ps(even, odd))]
}

/// Writes a line of a result.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn write(results: &mut [Row; 4], product: Product, upper: usize, number: usize, totals: [__m256d; 2]) {
    if product.short_results {
        let mut values = [0.0; 8];
        set_eight(&mut values, totals);
        for pair in 0..4 {
            let half = |at: usize| u32::from(F16::of_f64(values[at]).0);
            results[upper].0[4 * number + pair] = half(2 * pair) | half(2 * pair + 1) << 16;
        }
        return;
    }
    let (low, high) = (_mm256_cvtpd_ps(totals[0]), _mm256_cvtpd_ps(totals[1]));
    set_line(&mut results[2 * upper], number, _mm_castps_si128(_mm_shuffle_ps::<0x88>(low, high)));
    set_line(&mut results[2 * upper + 1], number, _mm_castps_si128(_mm_shuffle_ps::<0xDD>(low, high)));
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
#[expect(clippy::needless_range_loop, reason = "functions of iterators are not inlined into code for newer processors")]
fn compute<const BRAIN: bool, const PARTS: usize>(
    [a, b, sums]: [&[&Row]; 3],
    product: Product,
    Matrices { lines, columns }: &mut Matrices,
    results: &mut [Row; 4],
) {
    for part in 0..PARTS {
        let mut tile = [singles::<BRAIN>(line(b[part], 0)); 8];
        for number in 1..8 {
            tile[number] = singles::<BRAIN>(line(b[part], number));
        }
        let tile = transposed(tile);
        for number in 0..8 {
            set_eight(&mut columns[8 * part + number], doubles(tile[number]));
        }
        for upper in 0..2 {
            for number in 0..8 {
                let values = doubles(singles::<BRAIN>(line(a[2 * part + upper], number)));
                set_eight(&mut lines[8 * upper + number][8 * part..], values);
            }
        }
    }
    for first_row in (0..16).step_by(4) {
        let mut totals = [[_mm256_setzero_pd(); 2]; 4];
        for column in 0..8 * PARTS {
            let values = eight(&columns[column]);
            for row in 0..4 {
                let factor = _mm256_broadcast_sd(&lines[first_row + row][column]);
                for half in 0..2 {
                    totals[row][half] = _mm256_fmadd_pd(factor, values[half], totals[row][half]);
                }
            }
        }
        for row in 0..4 {
            let (upper, number) = ((first_row + row) / 8, (first_row + row) % 8);
            let first = first(sums, product, upper, number);
            let sum = [_mm256_add_pd(totals[row][0], first[0]), _mm256_add_pd(totals[row][1], first[1])];
            write(results, product, upper, number, sum);
        }
    }
}

/// The rows of a product: of the first matrix there are two for each one of the second, which has one or two.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn product(rows: [&[&Row]; 3], product: Product, matrices: &mut Matrices, results: &mut [Row; 4]) {
    // With their number known, nothing is tested in loops.
    match (product.a == Element::Brain, rows[1].len()) {
        (true, 2) => compute::<true, 2>(rows, product, matrices, results),
        (true, _) => compute::<true, 1>(rows, product, matrices, results),
        (false, 2) => compute::<false, 2>(rows, product, matrices, results),
        (false, _) => compute::<false, 1>(rows, product, matrices, results),
    }
}
