//! Vector code of the functions on `f32`, for 8 and 16 lanes, and for two vectors of 8. Machine code of the JIT calls
//! it.

#![expect(
    improper_ctypes_definitions,
    reason = "C compilers pass these types in registers where the processor has them, and so does this one for functions with the feature"
)]

mod x16;

use std::arch::is_x86_feature_detected;
use std::arch::x86_64::*;
use std::ops::{Add, Div, Mul, Sub};

use super::scalar::{self, Floats};

/// A function with vector code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// e to a power.
    Exp,
    /// The natural logarithm.
    Log,
    /// The hyperbolic tangent.
    Tanh,
    /// The error function.
    Erf,
    /// The sine.
    Sin,
    /// The cosine.
    Cos,
    /// 2 to a power.
    Exp2,
    /// e to a power, less 1.
    Expm1,
    /// The natural logarithm of the operand and 1.
    Log1p,
    /// The logarithm to base 2.
    Log2,
}

/// Vector code of a function for 8 or 16 lanes. It takes the vector in the first vector register and returns it there,
/// by the System V calling convention: all vector registers are caller-saved.
#[derive(Clone, Copy, Debug)]
pub enum VectorFunction {
    /// For 8 lanes.
    Eight(OfVector<__m256>),
    /// For 16 lanes.
    Sixteen(OfVector<__m512>),
}

/// Code for one type of vectors. The processor must have the instructions of the code.
pub type OfVector<V> = unsafe extern "sysv64" fn(V) -> V;

impl VectorFunction {
    /// The address of the code.
    pub fn address(self) -> usize {
        match self {
            VectorFunction::Eight(function) => function as usize,
            VectorFunction::Sixteen(function) => function as usize,
        }
    }
}

/// Vector code of a function for two vectors of 8 lanes. Their operations take turns, so that the processor computes
/// with both at a time: it takes three quarters of the time of two calls.
#[derive(Clone, Copy, Debug)]
pub struct PairFunction(unsafe extern "sysv64" fn());

impl PairFunction {
    /// The address of code that takes the vectors in the first two vector registers and returns the results there.
    /// Otherwise it is as that of a [`VectorFunction`].
    pub fn address(self) -> usize {
        self.0 as usize
    }
}

/// Vector code of a function for 8 or 16 lanes, if this processor has the instructions: AVX2 for 8, AVX-512F for 16.
pub fn code(function: Function, lanes: usize) -> Option<VectorFunction> {
    variants(function, lanes).next()
}

/// Vector code of a function for two vectors of 8 lanes, if this processor has the instructions.
pub fn pair_code(function: Function) -> Option<PairFunction> {
    pair_variants(function).next()
}

/// All vector code that this processor has the instructions for, the fastest first.
pub(super) fn variants(function: Function, lanes: usize) -> impl Iterator<Item = VectorFunction> {
    let of_eight = eight_variants(function).filter(move |_| lanes == 8).map(|(one, _)| VectorFunction::Eight(one));
    let has_avx512 = lanes == 16 && is_x86_feature_detected!("avx512f");
    let sixteen = match function {
        Function::Exp => x16::exp,
        Function::Log => x16::log,
        Function::Tanh => x16::tanh,
        Function::Erf => x16::erf,
        Function::Sin => x16::sin,
        Function::Cos => x16::cos,
        Function::Exp2 => x16::exp2,
        Function::Expm1 => x16::expm1,
        Function::Log1p => x16::log1p,
        Function::Log2 => x16::log2,
    };
    of_eight.chain(has_avx512.then_some(VectorFunction::Sixteen(sixteen)))
}

/// As [`variants`], for two vectors.
pub(super) fn pair_variants(function: Function) -> impl Iterator<Item = PairFunction> {
    eight_variants(function).map(|(_, pair)| pair)
}

fn eight_variants(function: Function) -> impl Iterator<Item = (OfVector<__m256>, PairFunction)> {
    let has_avx2 = is_x86_feature_detected!("avx2");
    let (fused, eight) = match function {
        Function::Exp => (x8_fused::EXP, x8::EXP),
        Function::Log => (x8_fused::LOG, x8::LOG),
        Function::Tanh => (x8_fused::TANH, x8::TANH),
        Function::Erf => (x8_fused::ERF, x8::ERF),
        Function::Sin => (x8_fused::SIN, x8::SIN),
        Function::Cos => (x8_fused::COS, x8::COS),
        Function::Exp2 => (x8_fused::EXP2, x8::EXP2),
        Function::Expm1 => (x8_fused::EXPM1, x8::EXPM1),
        Function::Log1p => (x8_fused::LOG1P, x8::LOG1P),
        Function::Log2 => (x8_fused::LOG2, x8::LOG2),
    };
    let fused = (has_avx2 && is_x86_feature_detected!("fma")).then_some(fused);
    fused.into_iter().chain(has_avx2.then_some(eight))
}

/// Vectors of four `f64`, on processors with AVX2, and FMA if products and sums are `FUSED`. Each operation is on all
/// of them in turn.
#[derive(Clone, Copy)]
struct Vectors<const COUNT: usize, const FUSED: bool>([__m256d; COUNT]);

/// Computes an expression of intrinsics for each of some vectors in turn.
macro_rules! each {
    ($first:ident $(, $other:ident)* => $value:expr) => {{
        let mut result = $first;
        let mut index = 0;
        // A closure would not be compiled for the features of the function that this becomes part of.
        while index < COUNT {
            let $first = $first.0[index];
            $(let $other = $other.0[index];)*
            // SAFETY: there are vectors only where the processor has the instructions.
            result.0[index] = unsafe { $value };
            index += 1;
        }
        result
    }};
}

macro_rules! operators {
    ($($trait:ident $name:ident $intrinsic:ident;)*) => {$(
        impl<const COUNT: usize, const FUSED: bool> $trait for Vectors<COUNT, FUSED> {
            type Output = Self;

            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                let (a, b) = (self, other);
                each!(a, b => $intrinsic(a, b))
            }
        }
    )*};
}

operators! {
    Add add _mm256_add_pd;
    Sub sub _mm256_sub_pd;
    Mul mul _mm256_mul_pd;
    Div div _mm256_div_pd;
}

#[inline(always)]
unsafe fn bits(vector: __m256d) -> __m256i {
    // SAFETY: the caller has AVX.
    unsafe { _mm256_castpd_si256(vector) }
}

#[inline(always)]
unsafe fn of_bits(bits: __m256i) -> __m256d {
    // SAFETY: the caller has AVX.
    unsafe { _mm256_castsi256_pd(bits) }
}

impl<const COUNT: usize, const FUSED: bool> Floats for Vectors<COUNT, FUSED> {
    #[inline(always)]
    fn all(value: f64) -> Self {
        // SAFETY: there are vectors only where the processor has the instructions.
        Vectors([unsafe { _mm256_set1_pd(value) }; COUNT])
    }

    #[inline(always)]
    fn multiply_add(self, factor: Self, summand: Self) -> Self {
        let (a, b, c) = (self, factor, summand);
        if FUSED { each!(a, b, c => _mm256_fmadd_pd(a, b, c)) } else { a * b + c }
    }

    #[inline(always)]
    fn if_less(self, other: Self, then: Self, otherwise: Self) -> Self {
        let (a, b) = (self, other);
        each!(a, b, then, otherwise => _mm256_blendv_pd(otherwise, then, _mm256_cmp_pd::<_CMP_LT_OQ>(a, b)))
    }

    #[inline(always)]
    fn at_most(self, limit: f64) -> Self {
        let (a, b) = (self, Self::all(limit));
        // Of a NaN and a number the instruction gives the second operand.
        each!(a, b => _mm256_min_pd(b, a))
    }

    #[inline(always)]
    fn at_least(self, limit: f64) -> Self {
        let (a, b) = (self, Self::all(limit));
        each!(a, b => _mm256_max_pd(b, a))
    }

    #[inline(always)]
    fn add_bits(self, other: Self) -> Self {
        let (a, b) = (self, other);
        each!(a, b => of_bits(_mm256_add_epi64(bits(a), bits(b))))
    }

    #[inline(always)]
    fn subtract_bits(self, other: Self) -> Self {
        let (a, b) = (self, other);
        each!(a, b => of_bits(_mm256_sub_epi64(bits(a), bits(b))))
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        let (a, b) = (self, other);
        each!(a, b => _mm256_and_pd(a, b))
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        let (a, b) = (self, other);
        each!(a, b => _mm256_or_pd(a, b))
    }

    #[inline(always)]
    fn bits_to_exponent(self) -> Self {
        let a = self;
        each!(a => of_bits(_mm256_slli_epi64::<{ scalar::MANTISSA_BITS as i32 }>(bits(a))))
    }

    #[inline(always)]
    fn exponent_to_bits(self) -> Self {
        let a = self;
        each!(a => of_bits(_mm256_srli_epi64::<{ scalar::MANTISSA_BITS as i32 }>(bits(a))))
    }
}

/// The two halves of a vector.
#[inline(always)]
unsafe fn widen(vector: __m256) -> [__m256d; 2] {
    // SAFETY: the caller has AVX.
    unsafe { [_mm256_cvtps_pd(_mm256_castps256_ps128(vector)), _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(vector))] }
}

/// The vector of two halves.
#[inline(always)]
unsafe fn narrow(low: __m256d, high: __m256d) -> __m256 {
    // SAFETY: the caller has AVX.
    unsafe { _mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low)) }
}

/// The functions for one value.
mod one {
    pub(super) use super::super::nearest::{cos, exp2, expm1, log1p, log2, sin};
    pub(super) use super::super::{erf, exp, log, tanh};
}

/// The vector of two halves, of which all lanes are results.
#[inline(always)]
unsafe fn finish([low, high]: [__m256d; 2], _: __m256, _: fn(f32) -> f32) -> __m256 {
    // SAFETY: the caller has AVX.
    unsafe { narrow(low, high) }
}

/// The vector of two halves that approximate: `one` gives the lanes for which that does not decide the nearest float.
#[inline(always)]
unsafe fn decided([low, high]: [__m256d; 2], of: __m256, one: fn(f32) -> f32) -> __m256 {
    // SAFETY: the caller has AVX.
    unsafe {
        let doubt = _mm256_set1_pd(scalar::DOUBT);
        let [low_doubt, high_doubt] = [_mm256_mul_pd(low, doubt), _mm256_mul_pd(high, doubt)];
        let least = narrow(_mm256_sub_pd(low, low_doubt), _mm256_sub_pd(high, high_doubt));
        let most = narrow(_mm256_add_pd(low, low_doubt), _mm256_add_pd(high, high_doubt));
        let open = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_NEQ_UQ>(least, most));
        // The sum has the sign of a zero, which the difference has not.
        if open == 0 {
            return most;
        }
        let (mut lanes, mut operands) = ([0f32; 8], [0f32; 8]);
        _mm256_storeu_ps(lanes.as_mut_ptr(), most);
        _mm256_storeu_ps(operands.as_mut_ptr(), of);
        decide(&mut lanes, &operands, open as u32, one);
        _mm256_loadu_ps(lanes.as_ptr())
    }
}

/// Computes the lanes that are open.
#[cold]
#[inline(never)]
fn decide(lanes: &mut [f32], operands: &[f32], open: u32, one: fn(f32) -> f32) {
    for (number, (lane, operand)) in lanes.iter_mut().zip(operands).enumerate() {
        if open >> number & 1 != 0 {
            *lane = one(*operand);
        }
    }
}

macro_rules! functions {
    ($($module:ident: $features:literal, $fused:literal;)*) => {$(
        #[doc = concat!("8 lanes, with ", $features, ".")]
        mod $module {
            use super::{OfVector, PairFunction, Vectors, decided, finish, scalar, widen};
            use std::arch::x86_64::__m256;

            functions! { $features $fused finish: exp exp_pair exp_registers EXP, log log_pair log_registers LOG,
                tanh tanh_pair tanh_registers TANH, erf erf_pair erf_registers ERF }
            functions! { $features $fused decided: sin sin_pair sin_registers SIN, cos cos_pair cos_registers COS,
                exp2 exp2_pair exp2_registers EXP2, expm1 expm1_pair expm1_registers EXPM1,
                log1p log1p_pair log1p_registers LOG1P, log2 log2_pair log2_registers LOG2 }
        }
    )*};
    ($features:literal $fused:literal $finish:ident: $($name:ident $pair:ident $registers:ident $constant:ident),*) => {$(
        pub(super) const $constant: (OfVector<__m256>, PairFunction) =
            ($name, PairFunction($registers));

        /// # Safety
        /// The processor has the features.
        #[target_feature(enable = $features)]
        unsafe extern "sysv64" fn $name(vector: __m256) -> __m256 {
            // SAFETY: the caller guarantees that the processor has the features and that the vectors may be written.
            unsafe {
                let results = scalar::$name(Vectors::<2, $fused>(widen(vector)));
                $finish(results.0, vector, super::one::$name)
            }
        }

        /// # Safety
        /// The processor has the features, and `second` may be written to.
        #[target_feature(enable = $features)]
        unsafe extern "sysv64" fn $pair(a: __m256, b: __m256, second: *mut __m256) -> __m256 {
            // SAFETY: the caller guarantees that the processor has the features and that the vectors may be written.
            unsafe {
                let ([a0, a1], [b0, b1]) = (widen(a), widen(b));
                let Vectors([a0, a1, b0, b1]) = scalar::$name(Vectors::<4, $fused>([a0, a1, b0, b1]));
                second.write_unaligned($finish([b0, b1], b, super::one::$name));
                $finish([a0, a1], a, super::one::$name)
            }
        }

        /// The same, with the second result in the second vector register, as no convention has it.
        ///
        /// # Safety
        /// The processor has the features.
        #[unsafe(naked)]
        unsafe extern "sysv64" fn $registers() {
            // The stack is a multiple of 16 less 8 at the entry of a function, and a multiple of 16 at a call. The
            // result is read in halves, because it may have been written so: a wider load would wait until both are in
            // the cache.
            std::arch::naked_asm!(
                "sub rsp, 40",
                "mov rdi, rsp",
                "call {pair}",
                "vmovups xmm1, [rsp]",
                "vinsertf128 ymm1, ymm1, [rsp + 16], 1",
                "add rsp, 40",
                "ret",
                pair = sym $pair,
            )
        }
    )*};
}

functions! {
    x8: "avx2", false;
    x8_fused: "avx2,fma", true;
}
