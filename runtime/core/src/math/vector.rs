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
    match lanes {
        8 if is_x86_feature_detected!("avx2") => Some(match function {
            Function::Exp => x8::exp,
            Function::Log => x8::log,
            Function::Tanh => x8::tanh,
            Function::Erf => x8::erf,
        }),
        16 if is_x86_feature_detected!("avx512f") => Some(match function {
            Function::Exp => x16::exp,
            Function::Log => x16::log,
            Function::Tanh => x16::tanh,
            Function::Erf => x16::erf,
        }),
        _ => None,
    }
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
    ($($module:ident: $lanes:literal, $feature:literal;)*) => {$(
        #[doc = concat!(" ", $lanes, " lanes.")]
        mod $module {
            use super::{each, scalar};

            functions! { $lanes $feature: exp log tanh erf }
        }
    )*};
    ($lanes:literal $feature:literal: $($name:ident)*) => {$(
        /// # Safety
        /// As for [`VectorFunction`](super::VectorFunction), and the processor has the feature.
        #[target_feature(enable = $feature)]
        pub(super) unsafe extern "sysv64" fn $name(values: *mut f32) {
            // SAFETY: the caller's promise.
            unsafe { each::<$lanes>(values, |x| scalar::$name(x)) }
        }
    )*};
}

functions! { x8: 8, "avx2"; x16: 16, "avx512f"; }
