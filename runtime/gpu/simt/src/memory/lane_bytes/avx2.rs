//! Loads and stores of rows with AVX2: the words of eight lanes at a time, transposed in registers.
//!
//! Kernels on several cores and the host share the memory, so Rust must not see these accesses as plain ones, which no
//! other thread may make at the same time. They are assembly: to the compiler, loads and stores of each word without an
//! order.

use std::arch::asm;
use std::arch::x86_64::{
    __m128i, __m256i, _mm256_add_epi32, _mm256_castps_si256, _mm256_castsi128_si256, _mm256_castsi256_ps,
    _mm256_castsi256_si128, _mm256_cmpeq_epi32, _mm256_cvtepu8_epi32, _mm256_cvtepu16_epi32, _mm256_extracti128_si256,
    _mm256_inserti128_si256, _mm256_load_si256, _mm256_movemask_epi8, _mm256_movemask_ps, _mm256_mullo_epi32,
    _mm256_set1_epi32, _mm256_setr_epi32, _mm256_shuffle_epi32, _mm256_shuffle_ps, _mm256_store_si256,
    _mm256_unpackhi_epi32, _mm256_unpackhi_epi64, _mm256_unpacklo_epi32, _mm256_unpacklo_epi64,
};

use super::rows::Rows;
use crate::row::{LANES, Row};

/// Lanes of a register.
const WIDTH: usize = 8;

/// Whether the functions below know values of so many words.
#[inline(always)]
pub(super) const fn has_words(count: usize) -> bool {
    matches!(count, 1 | 2 | 4)
}

/// Lanes `first..first + 8` of a row.
#[inline]
#[target_feature(enable = "avx2")]
fn eight(row: &Row, first: usize) -> __m256i {
    let lanes: &[u32; WIDTH] = row.0[first..].first_chunk().expect("eight lanes");
    // SAFETY: A row is aligned to 64 bytes, and `first` is a multiple of eight lanes.
    unsafe { _mm256_load_si256(lanes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn set_eight(row: &mut Row, first: usize, value: __m256i) {
    let lanes: &mut [u32; WIDTH] = row.0[first..].first_chunk_mut().expect("eight lanes");
    // SAFETY: A row is aligned to 64 bytes, and `first` is a multiple of eight lanes.
    unsafe { _mm256_store_si256(lanes.as_mut_ptr().cast(), value) };
}

/// Whether the value of `bytes` of each of eight lanes follows that of the lane before.
#[inline]
#[target_feature(enable = "avx2")]
fn contiguous(offsets: &Row, first: usize, bytes: i32) -> bool {
    let steps = _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(bytes));
    let expected = _mm256_add_epi32(_mm256_set1_epi32(offsets.0[first] as i32), steps);
    _mm256_movemask_epi8(_mm256_cmpeq_epi32(eight(offsets, first), expected)) == -1
}

/// Four rows of four columns in each half, transposed.
#[inline]
#[target_feature(enable = "avx2")]
fn transposed([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
    let (ab, ab_high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    let (cd, cd_high) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
    [
        _mm256_unpacklo_epi64(ab, cd),
        _mm256_unpackhi_epi64(ab, cd),
        _mm256_unpacklo_epi64(ab_high, cd_high),
        _mm256_unpackhi_epi64(ab_high, cd_high),
    ]
}

/// Two halves as one.
#[inline]
#[target_feature(enable = "avx2")]
fn joined(low: __m128i, high: __m128i) -> __m256i {
    _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
}

macro_rules! load {
    ($($name:ident($($at:ident),*) -> $ty:ty, $class:ident: $($line:literal),*;)*) => {$(
        /// Loads the bytes at these places.
        ///
        /// # Safety
        /// They must be mapped.
        #[inline]
        #[target_feature(enable = "avx2")]
        unsafe fn $name($($at: *const u8),*) -> $ty {
            let value: $ty;
            // SAFETY: The caller vouches for the bytes; nothing else is touched.
            unsafe {
                asm!($($line,)* value = out($class) value, $($at = in(reg) $at,)* options(nostack, readonly, preserves_flags));
            }
            value
        }
    )*};
}

load! {
    load32(at) -> __m256i, ymm_reg: "vmovdqu {value}, [{at}]";
    load16(at) -> __m128i, xmm_reg: "vmovdqu {value}, [{at}]";
    load8(at) -> __m128i, xmm_reg: "vmovq {value}, [{at}]";
    load8_two(a, b) -> __m128i, xmm_reg: "vmovq {value}, [{a}]", "vmovhps {value}, {value}, [{b}]";
    load4_four(a, b, c, d) -> __m128i, xmm_reg: "vmovd {value}, dword ptr [{a}]", "vpinsrd {value}, {value}, dword ptr [{b}], 1",
        "vpinsrd {value}, {value}, dword ptr [{c}], 2", "vpinsrd {value}, {value}, dword ptr [{d}], 3";
}

macro_rules! store {
    ($($name:ident($($at:ident),*), $ty:ty, $class:ident: $($line:literal),*;)*) => {$(
        /// Stores the bytes at these places, in this order.
        ///
        /// # Safety
        /// They must be mapped and writable.
        #[inline]
        #[target_feature(enable = "avx2")]
        unsafe fn $name(value: $ty, $($at: *mut u8),*) {
            // SAFETY: The caller vouches for the bytes; nothing else is touched.
            unsafe {
                asm!($($line,)* value = in($class) value, $($at = in(reg) $at,)* options(nostack, preserves_flags));
            }
        }
    )*};
}

store! {
    store32(at), __m256i, ymm_reg: "vmovdqu [{at}], {value}";
    store16(at), __m128i, xmm_reg: "vmovdqu [{at}], {value}";
    store8_two(a, b), __m128i, xmm_reg: "vmovq [{a}], {value}", "vmovhps [{b}], {value}";
    store4_four(a, b, c, d), __m128i, xmm_reg: "vmovd dword ptr [{a}], {value}", "vpextrd dword ptr [{b}], {value}, 1",
        "vpextrd dword ptr [{c}], {value}, 2", "vpextrd dword ptr [{d}], {value}, 3";
}

/// Stores a word.
///
/// # Safety
/// Its bytes must be mapped and writable.
#[inline(always)]
unsafe fn store4(value: u32, at: *mut u8) {
    // SAFETY: The caller vouches for the bytes; nothing else is touched.
    unsafe {
        asm!(
            "mov dword ptr [{at}], {value:e}",
            value = in(reg) value,
            at = in(reg) at,
            options(nostack, preserves_flags)
        );
    }
}

macro_rules! load_small {
    ($name:ident, $bytes:literal, $contiguous:ident, $each:ident: $insert:literal, $widen:ident) => {
        /// Loads the bytes at eight places.
        ///
        /// # Safety
        /// They must be mapped.
        #[inline]
        #[target_feature(enable = "avx2")]
        unsafe fn $each(at: impl Fn(usize) -> *const u8) -> __m128i {
            let value: __m128i;
            // SAFETY: The caller vouches for the bytes; nothing else is touched.
            unsafe {
                asm!(
                    "vpxor {value}, {value}, {value}",
                    concat!($insert, " {value}, {value}, [{a}], 0"),
                    concat!($insert, " {value}, {value}, [{b}], 1"),
                    concat!($insert, " {value}, {value}, [{c}], 2"),
                    concat!($insert, " {value}, {value}, [{d}], 3"),
                    concat!($insert, " {value}, {value}, [{e}], 4"),
                    concat!($insert, " {value}, {value}, [{f}], 5"),
                    concat!($insert, " {value}, {value}, [{g}], 6"),
                    concat!($insert, " {value}, {value}, [{h}], 7"),
                    value = out(xmm_reg) value,
                    a = in(reg) at(0), b = in(reg) at(1), c = in(reg) at(2), d = in(reg) at(3),
                    e = in(reg) at(4), f = in(reg) at(5), g = in(reg) at(6), h = in(reg) at(7),
                    options(nostack, readonly, preserves_flags)
                );
            }
            value
        }

        /// Loads a small value for each lane.
        ///
        /// # Safety
        /// The bytes at `host` plus each offset must be mapped.
        #[target_feature(enable = "avx2")]
        pub(super) unsafe fn $name(host: *mut u8, offsets: &Row, row: &mut Row) {
            for first in (0..LANES).step_by(WIDTH) {
                let at = |lane: usize| host.wrapping_add(offsets.0[first + lane] as usize).cast_const();
                let values = if contiguous(offsets, first, $bytes) {
                    // SAFETY: The caller vouches for the bytes of each lane, which are one range.
                    unsafe { $contiguous(at(0)) }
                } else {
                    // SAFETY: The caller vouches for the bytes of each lane.
                    unsafe { $each(at) }
                };
                set_eight(row, first, $widen(values));
            }
        }
    };
}

load_small!(load_bytes, 1, load8, load1_eight: "vpinsrb", _mm256_cvtepu8_epi32);
load_small!(load_halves, 2, load16, load2_eight: "vpinsrw", _mm256_cvtepu16_epi32);

/// Whether each of eight lanes has the offset of the first one of its half. Lanes of a row of threads often load the
/// same element of a matrix.
#[inline]
#[target_feature(enable = "avx2")]
fn repeated(offsets: &Row, first: usize) -> bool {
    // Most loads are told by two lanes.
    if offsets.0[first] != offsets.0[first + 1] {
        return false;
    }
    let all = eight(offsets, first);
    _mm256_movemask_epi8(_mm256_cmpeq_epi32(all, _mm256_shuffle_epi32::<0>(all))) == -1
}

/// Loads the words of each lane, of which there are as many as [`has_words`] knows.
///
/// # Safety
/// The words at `host` plus each offset must be mapped.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn load_words<const N: usize, R: Rows>(host: *mut u8, offsets: &Row, rows: &mut R) {
    for first in (0..LANES).step_by(WIDTH) {
        let at = |lane: usize| host.wrapping_add(offsets.0[first + lane] as usize).cast_const();
        // SAFETY: The caller vouches for the words of each lane; where they are contiguous, those of eight lanes are
        // one range.
        unsafe {
            match N {
                1 if contiguous(offsets, first, 4) => set_eight(rows.row(0), first, load32(at(0))),
                1 => {
                    let low = load4_four(at(0), at(1), at(2), at(3));
                    let high = load4_four(at(4), at(5), at(6), at(7));
                    set_eight(rows.row(0), first, joined(low, high));
                }
                2 => {
                    let even = joined(load8_two(at(0), at(1)), load8_two(at(4), at(5)));
                    let odd = joined(load8_two(at(2), at(3)), load8_two(at(6), at(7)));
                    let (even, odd) = (_mm256_castsi256_ps(even), _mm256_castsi256_ps(odd));
                    set_eight(rows.row(0), first, _mm256_castps_si256(_mm256_shuffle_ps::<0x88>(even, odd)));
                    set_eight(rows.row(1), first, _mm256_castps_si256(_mm256_shuffle_ps::<0xDD>(even, odd)));
                }
                _ if repeated(offsets, first) => {
                    let both = joined(load16(at(0)), load16(at(4)));
                    set_eight(rows.row(0), first, _mm256_shuffle_epi32::<0x00>(both));
                    set_eight(rows.row(1), first, _mm256_shuffle_epi32::<0x55>(both));
                    set_eight(rows.row(2), first, _mm256_shuffle_epi32::<0xAA>(both));
                    set_eight(rows.row(3), first, _mm256_shuffle_epi32::<0xFF>(both));
                }
                _ => {
                    let values = transposed([
                        joined(load16(at(0)), load16(at(4))),
                        joined(load16(at(1)), load16(at(5))),
                        joined(load16(at(2)), load16(at(6))),
                        joined(load16(at(3)), load16(at(7))),
                    ]);
                    set_eight(rows.row(0), first, values[0]);
                    set_eight(rows.row(1), first, values[1]);
                    set_eight(rows.row(2), first, values[2]);
                    set_eight(rows.row(3), first, values[3]);
                }
            }
        }
    }
}

/// Stores the words of the lanes in `select`, of which there are as many as [`has_words`] knows, in the order of the
/// lanes: eight at once where all of them store, and else one after another.
///
/// # Safety
/// The words at `host` plus each offset must be mapped and writable.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn store_words<'r, const N: usize>(
    host: *mut u8,
    offsets: &Row,
    select: &Row,
    row: impl Fn(usize) -> &'r Row,
) {
    for first in (0..LANES).step_by(WIDTH) {
        let mut wanted = _mm256_movemask_ps(_mm256_castsi256_ps(eight(select, first))) as u32;
        if wanted != 0xFF {
            while wanted != 0 {
                let lane = first + wanted.trailing_zeros() as usize;
                let at = host.wrapping_add(offsets.0[lane] as usize);
                for word in 0..N {
                    // SAFETY: The caller vouches for the words of this lane.
                    unsafe { store4(row(word).0[lane], at.wrapping_add(4 * word)) };
                }
                wanted &= wanted - 1;
            }
            continue;
        }
        let at = |lane: usize| host.wrapping_add(offsets.0[first + lane] as usize);
        // SAFETY: The caller vouches for the words of all lanes.
        unsafe {
            match N {
                1 if contiguous(offsets, first, 4) => store32(eight(row(0), first), at(0)),
                1 => {
                    let value = eight(row(0), first);
                    store4_four(_mm256_castsi256_si128(value), at(0), at(1), at(2), at(3));
                    store4_four(_mm256_extracti128_si256::<1>(value), at(4), at(5), at(6), at(7));
                }
                2 => {
                    let (low, high) = (eight(row(0), first), eight(row(1), first));
                    let (even, odd) = (_mm256_unpacklo_epi32(low, high), _mm256_unpackhi_epi32(low, high));
                    store8_two(_mm256_castsi256_si128(even), at(0), at(1));
                    store8_two(_mm256_castsi256_si128(odd), at(2), at(3));
                    store8_two(_mm256_extracti128_si256::<1>(even), at(4), at(5));
                    store8_two(_mm256_extracti128_si256::<1>(odd), at(6), at(7));
                }
                _ => {
                    let [a, b, c, d] = transposed([
                        eight(row(0), first),
                        eight(row(1), first),
                        eight(row(2), first),
                        eight(row(3), first),
                    ]);
                    store16(_mm256_castsi256_si128(a), at(0));
                    store16(_mm256_castsi256_si128(b), at(1));
                    store16(_mm256_castsi256_si128(c), at(2));
                    store16(_mm256_castsi256_si128(d), at(3));
                    store16(_mm256_extracti128_si256::<1>(a), at(4));
                    store16(_mm256_extracti128_si256::<1>(b), at(5));
                    store16(_mm256_extracti128_si256::<1>(c), at(6));
                    store16(_mm256_extracti128_si256::<1>(d), at(7));
                }
            }
        }
    }
}
