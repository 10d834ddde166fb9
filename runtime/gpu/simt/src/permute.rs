//! Bytes of two rows, picked by a selector that is the same in all lanes ([`Pattern`]).
//!
//! A compiler takes bytes of words apart by such selectors, and joins them, so they are told when a program is loaded:
//! with AVX2 a row takes four shuffles of bytes for each source.

use crate::prim;
use crate::row::Row;

/// The bytes that a selector picks, of the first value and of the second one, and which of them become signs.
///
/// Each is a byte for each byte of the result: the number of the picked one, or [`NOTHING`], and all ones where there
/// are signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Those of the first value.
    pub first: u32,
    /// Those of the second value.
    pub second: u32,
    /// The bytes of the result that become eight copies of their highest bit.
    pub signs: u32,
}

/// No byte of this value.
pub const NOTHING: u32 = 0x8080_8080;

impl Pattern {
    /// That of the selector of [`prim::pick_bytes`].
    pub fn of(selector: u32) -> Self {
        let (mut first, mut second, mut signs) = (NOTHING, NOTHING, 0);
        for byte in 0..4 {
            let (number, shift) = (selector >> (4 * byte), 8 * byte);
            let picks = if number & 4 == 0 { &mut first } else { &mut second };
            *picks = *picks & !(0xFF << shift) | (number & 3) << shift;
            signs |= if number & 8 != 0 { 0xFF << shift } else { 0 };
        }
        Pattern { first, second, signs }
    }

    /// The selector.
    fn selector(self) -> u32 {
        (0..4).fold(0, |selector, byte| {
            let of = |picks: u32| picks >> (8 * byte) & 0xFF;
            let number = if of(self.first) < 4 { of(self.first) } else { of(self.second) & 3 | 4 };
            selector | (number | (of(self.signs) & 8)) << (4 * byte)
        })
    }

    /// The bytes of all lanes.
    #[inline(always)]
    pub fn pick(self, a: &Row, b: &Row) -> Row {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if is_x86_feature_detected!("avx2") {
            let second = (self.second != NOTHING).then_some(self.second);
            // SAFETY: The processor has AVX2.
            return unsafe { avx2::pick((self.first, second), self.signs, a, b) };
        }
        self.pick_one_by_one(a, b)
    }

    fn pick_one_by_one(self, a: &Row, b: &Row) -> Row {
        let selector = self.selector();
        Row::from_fn(|lane| prim::pick_bytes(a.0[lane], b.0[lane], selector))
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod avx2 {
    use std::arch::x86_64::{
        __m256i, _mm256_add_epi8, _mm256_blendv_epi8, _mm256_cmpgt_epi8, _mm256_load_si256, _mm256_or_si256,
        _mm256_set1_epi32, _mm256_setr_epi32, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_store_si256,
    };

    use crate::row::{LANES, Row};

    /// The places that a shuffle of bytes takes for the bytes of a pattern: each is of its own word, and the highest
    /// bit, which says that there is none, stays.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn places(picks: u32) -> __m256i {
        let words =
            _mm256_setr_epi32(0, 0x0404_0404, 0x0808_0808, 0x0C0C_0C0C, 0, 0x0404_0404, 0x0808_0808, 0x0C0C_0C0C);
        _mm256_add_epi8(_mm256_set1_epi32(picks as i32), words)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn pick((first, second): (u32, Option<u32>), signs: u32, a: &Row, b: &Row) -> Row {
        let mut result = Row::ZERO;
        let (first, other) = (places(first), places(second.unwrap_or_default()));
        let has_signs = signs != 0;
        let signs = _mm256_set1_epi32(signs as i32);
        for lane in (0..LANES).step_by(8) {
            // SAFETY: Rows are aligned to 64 bytes, and eight lanes from a multiple of eight on are in a row.
            unsafe {
                let mut picked = _mm256_shuffle_epi8(_mm256_load_si256(a.0.as_ptr().add(lane).cast()), first);
                if second.is_some() {
                    let other = _mm256_shuffle_epi8(_mm256_load_si256(b.0.as_ptr().add(lane).cast()), other);
                    picked = _mm256_or_si256(picked, other);
                }
                if has_signs {
                    let negative = _mm256_cmpgt_epi8(_mm256_setzero_si256(), picked);
                    picked = _mm256_blendv_epi8(picked, negative, signs);
                }
                _mm256_store_si256(result.0.as_mut_ptr().add(lane).cast(), picked);
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_selectors_pick_what_the_primitive_does() {
        let mut state = 0x5EED_u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) as u32
        };
        for selector in 0..=0xFFFF {
            let (a, b) = (Row::from_fn(|_| draw()), Row::from_fn(|_| draw()));
            let pattern = Pattern::of(selector | draw() << 16);
            assert_eq!(pattern.selector(), selector);
            let expected = Row::from_fn(|lane| prim::pick_bytes(a.0[lane], b.0[lane], selector));
            assert_eq!(pattern.pick(&a, &b), expected, "{selector:#x}");
            assert_eq!(pattern.pick_one_by_one(&a, &b), expected, "{selector:#x}");
        }
    }
}
