//! Vector code of the functions on `f32`, for 8 and 16 lanes. Machine code of the JIT calls it.

use std::arch::is_x86_feature_detected;

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

/// Replaces each lane of a vector in memory by the result of the function. As in any function of the calling convention, vector registers are
/// caller-saved; the upper halves of the lower 16 are zero when it returns.
///
/// # Safety
/// The pointer is to as many `f32` as the function has lanes, and nothing else accesses them during the call. It need not be aligned.
pub type VectorFunction = unsafe extern "sysv64" fn(*mut f32);

/// Vector code of a function for 8 or 16 lanes, if this processor has the instructions: AVX2 for 8, AVX-512F for 16.
pub fn code(function: Function, lanes: usize) -> Option<VectorFunction> {
    variants(function, lanes).next()
}

/// All vector code that this processor has the instructions for, the fastest first.
pub(super) fn variants(function: Function, lanes: usize) -> impl Iterator<Item = VectorFunction> {
    let has_avx2 = lanes == 8 && is_x86_feature_detected!("avx2");
    let has_avx512 = lanes == 16 && is_x86_feature_detected!("avx512f");
    let (fused, eight, sixteen): (VectorFunction, VectorFunction, VectorFunction) = match function {
        Function::Exp => (x8_fused::exp, x8::exp, x16::exp),
        Function::Log => (x8_fused::log, x8::log, x16::log),
        Function::Tanh => (x8_fused::tanh, x8::tanh, x16::tanh),
        Function::Erf => (x8_fused::erf, x8::erf, x16::erf),
    };
    let fused = (has_avx2 && is_x86_feature_detected!("fma")).then_some(fused);
    fused.into_iter().chain(has_avx2.then_some(eight)).chain(has_avx512.then_some(sixteen))
}

/// # Safety
/// As for [`VectorFunction`].
#[inline(always)]
unsafe fn each<const LANES: usize>(values: *mut f32, function: impl Fn(f32) -> f32) {
    let values = values.cast::<[f32; LANES]>();
    // SAFETY: the caller has exclusive access to the values.
    let mut lanes = unsafe { values.read_unaligned() };
    for lane in &mut lanes {
        *lane = function(*lane);
    }
    // SAFETY: as above.
    unsafe { values.write_unaligned(lanes) };
}

macro_rules! functions {
    ($($module:ident: $lanes:literal, $features:literal, $fused:literal;)*) => {$(
        #[doc = concat!(" ", $lanes, " lanes.")]
        mod $module {
            use super::{each, scalar};

            functions! { $lanes $features $fused: exp log tanh erf }
        }
    )*};
    ($lanes:literal $features:literal $fused:literal: $($name:ident)*) => {$(
        /// # Safety
        /// As for [`VectorFunction`](super::VectorFunction), and the processor has the features.
        #[target_feature(enable = $features)]
        pub(super) unsafe extern "sysv64" fn $name(values: *mut f32) {
            // SAFETY: the caller's promise.
            unsafe { each::<$lanes>(values, |x| scalar::$name::<$fused>(x)) }
        }
    )*};
}

functions! {
    x8: 8, "avx2", false;
    x8_fused: 8, "avx2,fma", true;
    x16: 16, "avx512f", false;
}
