//! Sums of a vector of columns, in the registers of each level.

use super::LANES;
use super::stage::{Columns, Word};

/// Sums of columns.
pub(super) trait Sums: Copy {
    /// Rows of sums that the registers hold, besides what else is needed.
    const ROWS: usize;

    /// # Safety
    /// The processor must have the registers, and the sums must be readable.
    unsafe fn load(from: *const Columns) -> Self;

    /// # Safety
    /// As for [`Sums::load`], writable.
    unsafe fn store(self, to: *mut Columns);

    /// The sums with the products of a word of a row and the words of columns added.
    ///
    /// # Safety
    /// As for [`Sums::load`], of `columns`.
    unsafe fn add_products(self, word: Word, columns: *const Columns) -> Self;
}

/// Sums of `f32`.
#[derive(Clone, Copy)]
pub(super) struct PortableFloats([f32; LANES]);

impl Sums for PortableFloats {
    const ROWS: usize = 2;

    #[inline(always)]
    unsafe fn load(from: *const Columns) -> Self {
        // SAFETY: the caller guarantees it.
        PortableFloats(unsafe { from.read() }.map(f32::from_ne_bytes))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut Columns) {
        // SAFETY: the caller guarantees it.
        unsafe { to.write(self.0.map(f32::to_ne_bytes)) };
    }

    #[inline(always)]
    unsafe fn add_products(mut self, word: Word, columns: *const Columns) -> Self {
        // SAFETY: the caller guarantees it.
        let columns = unsafe { columns.read() };
        for (sum, column) in self.0.iter_mut().zip(columns) {
            *sum += f32::from_ne_bytes(word) * f32::from_ne_bytes(column);
        }
        self
    }
}

/// Sums of `i32`, of products of pairs of `i16`.
#[derive(Clone, Copy)]
pub(super) struct PortableIntegers([i32; LANES]);

impl Sums for PortableIntegers {
    const ROWS: usize = 2;

    #[inline(always)]
    unsafe fn load(from: *const Columns) -> Self {
        // SAFETY: the caller guarantees it.
        PortableIntegers(unsafe { from.read() }.map(i32::from_ne_bytes))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut Columns) {
        // SAFETY: the caller guarantees it.
        unsafe { to.write(self.0.map(i32::to_ne_bytes)) };
    }

    #[inline(always)]
    unsafe fn add_products(mut self, word: Word, columns: *const Columns) -> Self {
        let pair = |[a, b, c, d]: Word| (i16::from_ne_bytes([a, b]).into(), i16::from_ne_bytes([c, d]).into());
        let (first, second): (i32, i32) = pair(word);
        // SAFETY: the caller guarantees it.
        let columns = unsafe { columns.read() };
        for (sum, column) in self.0.iter_mut().zip(columns) {
            let (a, b): (i32, i32) = pair(column);
            // Only the sum can overflow: products of 16 bits have 31.
            *sum = sum.wrapping_add((first * a).wrapping_add(second * b));
        }
        self
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    use std::arch::x86_64::*;

    use super::{Columns, Sums, Word};

    macro_rules! sums {
        ($($(#[$doc:meta])* $name:ident($register:ty; $count:literal), $rows:literal rows:
            $load:expr, $store:expr, $splat:expr, $add:expr;)*) => {$(
            $(#[$doc])*
            #[derive(Clone, Copy)]
            pub struct $name([$register; $count]);

            impl Sums for $name {
                const ROWS: usize = $rows;

                #[inline(always)]
                unsafe fn load(from: *const Columns) -> Self {
                    // SAFETY: the caller guarantees it; the registers hold as many bytes as there are, and need no alignment.
                    unsafe {
                        $name(std::array::from_fn(|index| $load(from.cast::<$register>().add(index).cast())))
                    }
                }

                #[inline(always)]
                unsafe fn store(self, to: *mut Columns) {
                    for (index, sums) in self.0.into_iter().enumerate() {
                        // SAFETY: as for `load`.
                        unsafe { $store(to.cast::<$register>().add(index).cast(), sums) };
                    }
                }

                #[inline(always)]
                unsafe fn add_products(mut self, word: Word, columns: *const Columns) -> Self {
                    // SAFETY: as for `load`.
                    unsafe {
                        let word = $splat(word);
                        for (index, sums) in self.0.iter_mut().enumerate() {
                            let columns = $load(columns.cast::<$register>().add(index).cast());
                            *sums = $add(*sums, word, columns);
                        }
                    }
                    self
                }
            }
        )*};
    }

    sums! {
        /// Sums of `f32` in AVX.
        Avx2Floats(__m256; 2), 4 rows:
            _mm256_loadu_ps, _mm256_storeu_ps,
            |word| _mm256_set1_ps(f32::from_ne_bytes(word)),
            |sums, word, columns| _mm256_add_ps(sums, _mm256_mul_ps(word, columns));
        /// Sums of `i32` in AVX2.
        Avx2Integers(__m256i; 2), 4 rows:
            _mm256_loadu_si256, _mm256_storeu_si256,
            |word| _mm256_set1_epi32(i32::from_ne_bytes(word)),
            |sums, word, columns| _mm256_add_epi32(sums, _mm256_madd_epi16(word, columns));
        /// Sums of `f32` in AVX-512.
        Avx512Floats(__m512; 1), 8 rows:
            _mm512_loadu_ps, _mm512_storeu_ps,
            |word| _mm512_set1_ps(f32::from_ne_bytes(word)),
            |sums, word, columns| _mm512_add_ps(sums, _mm512_mul_ps(word, columns));
        /// Sums of `i32` in AVX-512.
        Avx512Integers(__m512i; 1), 8 rows:
            _mm512_loadu_si512, _mm512_storeu_si512,
            |word| _mm512_set1_epi32(i32::from_ne_bytes(word)),
            |sums, word, columns| _mm512_add_epi32(sums, _mm512_madd_epi16(word, columns));
        /// Sums of `i32` in AVX-512 with its own instruction for them.
        VnniIntegers(__m512i; 1), 8 rows:
            _mm512_loadu_si512, _mm512_storeu_si512,
            |word| _mm512_set1_epi32(i32::from_ne_bytes(word)),
            |sums, word, columns| _mm512_dpwssd_epi32(sums, word, columns);
    }
}
