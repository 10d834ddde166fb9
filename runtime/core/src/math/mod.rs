//! Elementary functions. The interpreter, machine code and the kernels of `vmvx` call them.
//!
//! The functions on `f32` in which kernels spend their time, `exp`, `log`, `tanh` and `erf`, are polynomial
//! approximations. Each is one sequence of IEEE operations without branches and calls, so the interpreter, machine code
//! that calls it for one value, and [`vector`] code for many give the same bits, on every processor; only the payload
//! of a NaN is unspecified. Vector code fuses products and sums where the processor can, which gives the same bits for
//! every `f32`: a test compares samples, and one that is run by hand all values.
//!
//! They compute in `f64`, where polynomials of few terms have a relative error of at most 2^-37, and round once, at the
//! end. Results are at most 0.5001 units in the last place away from the true value: the nearest `f32`, except where
//! the true value is almost in the middle between two. `vmvx` kernels use the same `exp` and `log`.
//!
//! All other functions, and those for `f64`, are correctly rounded: [`exact`]. Six of those for `f32` have vector code,
//! too: it approximates in `f64`, and calls the function for one value where that does not decide which `f32` is
//! nearest.

pub mod exact;
pub mod nearest;
pub mod scalar;
#[cfg(target_arch = "x86_64")]
pub mod vector;

#[cfg(test)]
mod tests;

/// e to the power of x, to 0.5001 units in the last place.
#[inline]
pub fn exp(x: f32) -> f32 {
    scalar::exp(f64::from(x)) as f32
}

/// The natural logarithm, to 0.5001 units in the last place: negative infinity for zeros, NaN for negative numbers.
#[inline]
pub fn log(x: f32) -> f32 {
    scalar::log(f64::from(x)) as f32
}

/// The hyperbolic tangent, to 0.5001 units in the last place.
#[inline]
pub fn tanh(x: f32) -> f32 {
    scalar::tanh(f64::from(x)) as f32
}

/// The error function, to 0.5001 units in the last place.
#[inline]
pub fn erf(x: f32) -> f32 {
    scalar::erf(f64::from(x)) as f32
}
