//! Accumulators: the sums of a vector of columns, in the registers of each SIMD level. The loop nest is generic over
//! them.

/// Columns of a vector, which lower SIMD levels hold in several registers.
pub(super) const LANES: usize = 16;

/// The unit of staged factors and of sums: an `f32`, two `i16` that are multiplied and added together, or an `i32` sum.
pub(super) type Word = [u8; 4];
/// Words of a vector of columns.
pub(super) type Columns = [Word; LANES];

/// Columns whose words [`Accumulator::transpose`] finds next to each other.
pub(super) const QUAD: usize = 4;
/// Number of such groups in a vector of columns.
pub(super) const QUADS: usize = LANES / QUAD;
/// Words of each column that it transposes.
pub(super) const STEPS: usize = 4;

/// The sums of a vector of columns.
pub(super) trait Accumulator: Copy {
    /// Rows of sums that fit the registers beside the operands.
    const ROWS: usize;

    /// # Safety
    /// The processor must have the registers, and the sums must be readable.
    unsafe fn load(from: *const Columns) -> Self;

    /// # Safety
    /// As for [`Accumulator::load`], writable.
    unsafe fn store(self, to: *mut Columns);

    /// Transposes four words of each column: those of columns 4i to 4i + 3 are at `from[i]`.
    ///
    /// # Safety
    /// As for [`Accumulator::load`], of `from`; four vectors must be writable at `to`.
    #[inline(always)]
    unsafe fn transpose(from: [*const Word; QUADS], to: *mut Columns) {
        for (quad, from) in from.into_iter().enumerate() {
            // SAFETY: the caller guarantees that the words are there.
            let columns = unsafe { from.cast::<[[Word; STEPS]; QUAD]>().read() };
            for step in 0..STEPS {
                // SAFETY: the caller guarantees that the words are there.
                unsafe { to.add(step).cast::<[Word; QUAD]>().add(quad).write(columns.map(|column| column[step])) };
            }
        }
    }

    /// Adds the products of a word of a row and the words of columns.
    ///
    /// # Safety
    /// As for [`Accumulator::load`], of `columns`.
    unsafe fn add_products(self, word: Word, columns: *const Columns) -> Self;
}

/// Sums of `f32`.
#[derive(Clone, Copy)]
pub(super) struct PortableFloats([f32; LANES]);

impl Accumulator for PortableFloats {
    const ROWS: usize = 2;

    #[inline(always)]
    unsafe fn load(from: *const Columns) -> Self {
        // SAFETY: the caller guarantees that the words are there.
        PortableFloats(unsafe { from.read() }.map(f32::from_ne_bytes))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut Columns) {
        // SAFETY: the caller guarantees that the words are there.
        unsafe { to.write(self.0.map(f32::to_ne_bytes)) };
    }

    #[inline(always)]
    unsafe fn add_products(mut self, word: Word, columns: *const Columns) -> Self {
        // SAFETY: the caller guarantees that the words are there.
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

impl Accumulator for PortableIntegers {
    const ROWS: usize = 2;

    #[inline(always)]
    unsafe fn load(from: *const Columns) -> Self {
        // SAFETY: the caller guarantees that the words are there.
        PortableIntegers(unsafe { from.read() }.map(i32::from_ne_bytes))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut Columns) {
        // SAFETY: the caller guarantees that the words are there.
        unsafe { to.write(self.0.map(i32::to_ne_bytes)) };
    }

    #[inline(always)]
    unsafe fn add_products(mut self, word: Word, columns: *const Columns) -> Self {
        let pair = |[a, b, c, d]: Word| (i16::from_ne_bytes([a, b]).into(), i16::from_ne_bytes([c, d]).into());
        let (first, second): (i32, i32) = pair(word);
        // SAFETY: the caller guarantees that the words are there.
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

    use super::{Accumulator, Columns, QUADS, Word};

    macro_rules! sums {
        ($($(#[$doc:meta])* $name:ident($register:ty; $count:literal), $rows:literal rows:
            $load:expr, $store:expr, $splat:expr, $add:expr $(, $transpose:expr)?;)*) => {$(
            $(#[$doc])*
            #[derive(Clone, Copy)]
            pub struct $name([$register; $count]);

            impl Accumulator for $name {
                const ROWS: usize = $rows;

                #[inline(always)]
                unsafe fn load(from: *const Columns) -> Self {
                    // SAFETY: the caller guarantees that the processor has the registers and that the words are there;
                    // the registers hold as many bytes as there are, and need no alignment.
                    unsafe {
                        $name(std::array::from_fn(|index| $load(from.cast::<$register>().add(index).cast())))
                    }
                }

                #[inline(always)]
                unsafe fn store(self, to: *mut Columns) {
                    for (index, sums) in self.0.into_iter().enumerate() {
                        // SAFETY: the caller guarantees that the processor has the registers and that the words are
                        // there.
                        unsafe { $store(to.cast::<$register>().add(index).cast(), sums) };
                    }
                }

                $(
                    #[inline(always)]
                    unsafe fn transpose(from: [*const Word; QUADS], to: *mut Columns) {
                        // SAFETY: the caller guarantees that the words are there.
                        unsafe { $transpose(from, to) }
                    }
                )?

                #[inline(always)]
                unsafe fn add_products(mut self, word: Word, columns: *const Columns) -> Self {
                    // SAFETY: the caller guarantees that the processor has the registers and that the words are there.
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

    /// # Safety
    /// As for [`Accumulator::transpose`], with AVX2.
    #[target_feature(enable = "avx2")]
    unsafe fn transpose_avx2(from: [*const Word; QUADS], to: *mut Columns) {
        for half in 0..2 {
            let (first, second) = (from[half * 2].cast::<f32>(), from[half * 2 + 1].cast::<f32>());
            // SAFETY: the caller guarantees that the processor has the registers and that the words are there; each
            // column is four words, and half a vector of columns is a register.
            unsafe {
                let pair = |column: usize| {
                    let low = _mm256_castps128_ps256(_mm_loadu_ps(first.add(column * 4)));
                    _mm256_insertf128_ps::<1>(low, _mm_loadu_ps(second.add(column * 4)))
                };
                let (a, b, c, d) = (pair(0), pair(1), pair(2), pair(3));
                let (ab_low, ab_high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
                let (cd_low, cd_high) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
                let steps = [
                    _mm256_shuffle_ps::<0x44>(ab_low, cd_low),
                    _mm256_shuffle_ps::<0xEE>(ab_low, cd_low),
                    _mm256_shuffle_ps::<0x44>(ab_high, cd_high),
                    _mm256_shuffle_ps::<0xEE>(ab_high, cd_high),
                ];
                for (step, columns) in steps.into_iter().enumerate() {
                    _mm256_storeu_ps(to.add(step).cast::<f32>().add(half * 8), columns);
                }
            }
        }
    }

    /// # Safety
    /// As for [`Accumulator::transpose`], with AVX-512.
    #[target_feature(enable = "avx512f")]
    unsafe fn transpose_avx512(from: [*const Word; QUADS], to: *mut Columns) {
        // SAFETY: the caller guarantees that the processor has the registers and that the words are there; four columns
        // of four words are a register.
        unsafe {
            let [a, b, c, d] = from.map(|quad| _mm512_loadu_ps(quad.cast()));
            // The first two words of eight columns, and the last two.
            let first = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
            let last = _mm512_setr_epi32(2, 6, 10, 14, 18, 22, 26, 30, 3, 7, 11, 15, 19, 23, 27, 31);
            let (ab_first, ab_last) = (_mm512_permutex2var_ps(a, first, b), _mm512_permutex2var_ps(a, last, b));
            let (cd_first, cd_last) = (_mm512_permutex2var_ps(c, first, d), _mm512_permutex2var_ps(c, last, d));
            let to: *mut f32 = to.cast();
            _mm512_storeu_ps(to, _mm512_shuffle_f32x4::<0x44>(ab_first, cd_first));
            _mm512_storeu_ps(to.add(16), _mm512_shuffle_f32x4::<0xEE>(ab_first, cd_first));
            _mm512_storeu_ps(to.add(32), _mm512_shuffle_f32x4::<0x44>(ab_last, cd_last));
            _mm512_storeu_ps(to.add(48), _mm512_shuffle_f32x4::<0xEE>(ab_last, cd_last));
        }
    }

    sums! {
        /// Sums of `f32` in AVX.
        Avx2Floats(__m256; 2), 4 rows:
            _mm256_loadu_ps, _mm256_storeu_ps,
            |word| _mm256_set1_ps(f32::from_ne_bytes(word)),
            |sums, word, columns| _mm256_add_ps(sums, _mm256_mul_ps(word, columns)),
            transpose_avx2;
        /// Sums of `i32` in AVX2.
        Avx2Integers(__m256i; 2), 4 rows:
            _mm256_loadu_si256, _mm256_storeu_si256,
            |word| _mm256_set1_epi32(i32::from_ne_bytes(word)),
            |sums, word, columns| _mm256_add_epi32(sums, _mm256_madd_epi16(word, columns));
        /// Sums of `f32` in AVX-512.
        Avx512Floats(__m512; 1), 8 rows:
            _mm512_loadu_ps, _mm512_storeu_ps,
            |word| _mm512_set1_ps(f32::from_ne_bytes(word)),
            |sums, word, columns| _mm512_add_ps(sums, _mm512_mul_ps(word, columns)),
            transpose_avx512;
        /// Sums of `i32` in AVX-512.
        Avx512Integers(__m512i; 1), 8 rows:
            _mm512_loadu_si512, _mm512_storeu_si512,
            |word| _mm512_set1_epi32(i32::from_ne_bytes(word)),
            |sums, word, columns| _mm512_add_epi32(sums, _mm512_madd_epi16(word, columns));
        /// Sums of `i32` with the VNNI instruction of AVX-512.
        VnniIntegers(__m512i; 1), 8 rows:
            _mm512_loadu_si512, _mm512_storeu_si512,
            |word| _mm512_set1_epi32(i32::from_ne_bytes(word)),
            |sums, word, columns| _mm512_dpwssd_epi32(sums, word, columns);
    }
}
