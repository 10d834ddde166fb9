//! Functions of 16 lanes, with AVX-512F, which has fused operations: two vectors of eight `f64`, whose operations take
//! turns. By intrinsics, as a compiler that makes vectors of a loop writes halves to memory and reads them as one.

use std::arch::x86_64::*;
use std::ops::{Add, Div, Mul, Sub};

use super::super::scalar::{self, Floats};
use super::{decide, one};

/// Two vectors of eight `f64`.
#[derive(Clone, Copy)]
struct Halves([__m512d; 2]);

/// Computes an expression of intrinsics for both vectors.
macro_rules! both {
    ($($name:ident),* => $value:expr) => {{
        let mut result = [_mm512_setzero_pd(); 2];
        let mut index = 0;
        // A closure would not be compiled for the features of the function that this becomes part of.
        while index < 2 {
            $(let $name = $name.0[index];)*
            result[index] = $value;
            index += 1;
        }
        Halves(result)
    }};
}

macro_rules! operators {
    ($($trait:ident $name:ident $intrinsic:ident;)*) => {$(
        impl $trait for Halves {
            type Output = Halves;

            #[inline(always)]
            fn $name(self, other: Halves) -> Halves {
                let (a, b) = (self, other);
                // SAFETY: there are vectors only where the processor has the instructions.
                unsafe { both!(a, b => $intrinsic(a, b)) }
            }
        }
    )*};
}

operators! {
    Add add _mm512_add_pd;
    Sub sub _mm512_sub_pd;
    Mul mul _mm512_mul_pd;
    Div div _mm512_div_pd;
}

#[inline(always)]
unsafe fn bits(vector: __m512d) -> __m512i {
    // SAFETY: the caller has AVX-512F.
    unsafe { _mm512_castpd_si512(vector) }
}

#[inline(always)]
unsafe fn of_bits(bits: __m512i) -> __m512d {
    // SAFETY: the caller has AVX-512F.
    unsafe { _mm512_castsi512_pd(bits) }
}

impl Floats for Halves {
    #[inline(always)]
    fn all(value: f64) -> Halves {
        // SAFETY: there are vectors only where the processor has the instructions.
        Halves(unsafe { [_mm512_set1_pd(value); 2] })
    }

    #[inline(always)]
    fn multiply_add(self, factor: Halves, summand: Halves) -> Halves {
        let (a, b, c) = (self, factor, summand);
        // SAFETY: there are vectors only where the processor has the instructions.
        unsafe { both!(a, b, c => _mm512_fmadd_pd(a, b, c)) }
    }

    #[inline(always)]
    fn if_less(self, other: Halves, then: Halves, otherwise: Halves) -> Halves {
        let (a, b) = (self, other);
        // SAFETY: there are vectors only where the processor has the instructions.
        unsafe {
            both!(a, b, then, otherwise =>
                _mm512_mask_blend_pd(_mm512_cmp_pd_mask::<_CMP_LT_OQ>(a, b), otherwise, then))
        }
    }

    #[inline(always)]
    fn at_most(self, limit: f64) -> Halves {
        let (a, b) = (self, Self::all(limit));
        // Of a NaN and a number the instruction gives the second operand. SAFETY: there are vectors only where the
        // processor has the instructions.
        unsafe { both!(a, b => _mm512_min_pd(b, a)) }
    }

    #[inline(always)]
    fn at_least(self, limit: f64) -> Halves {
        let (a, b) = (self, Self::all(limit));
        // SAFETY: there are vectors only where the processor has the instructions.
        unsafe { both!(a, b => _mm512_max_pd(b, a)) }
    }

    #[inline(always)]
    fn add_bits(self, other: Halves) -> Halves {
        let (a, b) = (self, other);
        // SAFETY: there are vectors only where the processor has the instructions.
        unsafe { both!(a, b => of_bits(_mm512_add_epi64(bits(a), bits(b)))) }
    }

    #[inline(always)]
    fn subtract_bits(self, other: Halves) -> Halves {
        let (a, b) = (self, other);
        // SAFETY: there are vectors only where the processor has the instructions.
        unsafe { both!(a, b => of_bits(_mm512_sub_epi64(bits(a), bits(b)))) }
    }

    #[inline(always)]
    fn and(self, other: Halves) -> Halves {
        let (a, b) = (self, other);
        // SAFETY: there are vectors only where the processor has the instructions.
        unsafe { both!(a, b => of_bits(_mm512_and_si512(bits(a), bits(b)))) }
    }

    #[inline(always)]
    fn or(self, other: Halves) -> Halves {
        let (a, b) = (self, other);
        // SAFETY: there are vectors only where the processor has the instructions.
        unsafe { both!(a, b => of_bits(_mm512_or_si512(bits(a), bits(b)))) }
    }

    #[inline(always)]
    fn bits_to_exponent(self) -> Halves {
        let a = self;
        // SAFETY: there are vectors only where the processor has the instructions.
        unsafe { both!(a => of_bits(_mm512_slli_epi64::<{ scalar::MANTISSA_BITS }>(bits(a)))) }
    }

    #[inline(always)]
    fn exponent_to_bits(self) -> Halves {
        let a = self;
        // SAFETY: there are vectors only where the processor has the instructions.
        unsafe { both!(a => of_bits(_mm512_srli_epi64::<{ scalar::MANTISSA_BITS }>(bits(a)))) }
    }
}

/// The two halves of a vector.
#[inline(always)]
unsafe fn widen(vector: __m512) -> Halves {
    // SAFETY: the caller has AVX-512F.
    unsafe {
        let high = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(vector)));
        Halves([_mm512_cvtps_pd(_mm512_castps512_ps256(vector)), _mm512_cvtps_pd(high)])
    }
}

/// The vector of two halves.
#[inline(always)]
unsafe fn narrow(Halves([low, high]): Halves) -> __m512 {
    // SAFETY: the caller has AVX-512F.
    unsafe {
        let (low, high) = (_mm256_castps_pd(_mm512_cvtpd_ps(low)), _mm256_castps_pd(_mm512_cvtpd_ps(high)));
        _mm512_castpd_ps(_mm512_insertf64x4::<1>(_mm512_castpd256_pd512(low), high))
    }
}

/// The vector of two halves, of which all lanes are results.
#[inline(always)]
unsafe fn finish(results: Halves, _: __m512, _: fn(f32) -> f32) -> __m512 {
    // SAFETY: the caller has AVX-512F.
    unsafe { narrow(results) }
}

/// The vector of two halves that approximate: `one` gives the lanes for which that does not decide the nearest float.
#[inline(always)]
unsafe fn decided(results: Halves, of: __m512, one: fn(f32) -> f32) -> __m512 {
    let doubt = results * Halves::all(scalar::DOUBT);
    // SAFETY: the caller has AVX-512F.
    unsafe {
        let (least, most) = (narrow(results - doubt), narrow(results + doubt));
        let open = _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(least, most);
        // The sum has the sign of a zero, which the difference has not.
        if open == 0 {
            return most;
        }
        let (mut lanes, mut operands) = ([0f32; 16], [0f32; 16]);
        _mm512_storeu_ps(lanes.as_mut_ptr(), most);
        _mm512_storeu_ps(operands.as_mut_ptr(), of);
        decide(&mut lanes, &operands, open.into(), one);
        _mm512_loadu_ps(lanes.as_ptr())
    }
}

macro_rules! functions {
    ($finish:ident: $($name:ident),*) => {$(
        /// # Safety
        /// The processor has AVX-512F.
        #[target_feature(enable = "avx512f")]
        pub(super) unsafe extern "sysv64" fn $name(vector: __m512) -> __m512 {
            // SAFETY: the caller guarantees that the processor has AVX-512F.
            unsafe { $finish(scalar::$name(widen(vector)), vector, one::$name) }
        }
    )*};
}

functions! { finish: exp, log, tanh, erf }
functions! { decided: sin, cos, exp2, expm1, log1p, log2 }
