//! Vector code of the functions on `f32`, for 8 and 16 lanes. Machine code of the JIT calls it.

#![expect(
    improper_ctypes_definitions,
    reason = "C compilers pass these types in registers where the processor has them, and so does this one for functions with the feature"
)]

use std::arch::is_x86_feature_detected;
use std::arch::x86_64::{__m256, __m512};

use super::scalar;

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
}

/// Vector code of a function for 8 or 16 lanes. It takes the vector in the first vector register and returns it there, by the System V calling
/// convention: all vector registers are caller-saved.
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

/// Vector code of a function for 8 or 16 lanes, if this processor has the instructions: AVX2 for 8, AVX-512F for 16.
pub fn code(function: Function, lanes: usize) -> Option<VectorFunction> {
    variants(function, lanes).next()
}

/// All vector code that this processor has the instructions for, the fastest first.
pub(super) fn variants(function: Function, lanes: usize) -> impl Iterator<Item = VectorFunction> {
    let has_avx2 = lanes == 8 && is_x86_feature_detected!("avx2");
    let has_avx512 = lanes == 16 && is_x86_feature_detected!("avx512f");
    let (fused, eight, sixteen) = match function {
        Function::Exp => (x8_fused::EXP, x8::EXP, x16::EXP),
        Function::Log => (x8_fused::LOG, x8::LOG, x16::LOG),
        Function::Tanh => (x8_fused::TANH, x8::TANH, x16::TANH),
        Function::Erf => (x8_fused::ERF, x8::ERF, x16::ERF),
    };
    let fused = (has_avx2 && is_x86_feature_detected!("fma")).then_some(fused);
    fused.into_iter().chain(has_avx2.then_some(eight)).chain(has_avx512.then_some(sixteen))
}

macro_rules! functions {
    ($($module:ident: $lanes:literal $vector:ident $variant:ident, $features:literal, $fused:literal;)*) => {$(
        #[doc = concat!(" ", $lanes, " lanes.")]
        mod $module {
            use super::{$vector, VectorFunction, scalar};

            functions! { $lanes $vector $variant $features $fused: exp EXP, log LOG, tanh TANH, erf ERF }
        }
    )*};
    ($lanes:literal $vector:ident $variant:ident $features:literal $fused:literal: $($name:ident $constant:ident),*) => {$(
        pub(super) const $constant: VectorFunction = VectorFunction::$variant($name);

        /// # Safety
        /// The processor has the features.
        #[target_feature(enable = $features)]
        unsafe extern "sysv64" fn $name(vector: $vector) -> $vector {
            // SAFETY: a vector has the bits of its lanes.
            let mut lanes: [f32; $lanes] = unsafe { std::mem::transmute(vector) };
            for lane in &mut lanes {
                *lane = scalar::$name::<$fused>(*lane);
            }
            // SAFETY: as above.
            unsafe { std::mem::transmute(lanes) }
        }
    )*};
}

functions! {
    x8: 8 __m256 Eight, "avx2", false;
    x8_fused: 8 __m256 Eight, "avx2,fma", true;
    x16: 16 __m512 Sixteen, "avx512f", false;
}
