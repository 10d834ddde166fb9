//! The functions on `f32` that kernels spend their time in: `exp`, `log`, `tanh` and `erf`, as polynomials of our own.
//!
//! Each is one sequence of IEEE operations without branches, calls and fused operations. So it does not matter who computes it: the
//! interpreter, compiled code that calls it for one value, or code in [`vector`] for many at a time. All give the same bits, on every
//! processor; only the payload of a NaN is unspecified.
//!
//! They compute in `f64`, where polynomials of few terms are good to 2^-37 of the result or better, and round once, in the end.
//! Results are at most 0.5001 units in the last place away from the true value: the nearest `f32`, except where the true value is almost
//! in the middle between two. `exp` and `log` are so for `vmvx` kernels as well.
//!
//! All other functions, and those for `f64`, are correctly rounded: [`exact`].

pub mod exact;
pub mod scalar;
pub mod vector;

#[cfg(test)]
mod tests;

/// e to the power of x, to 0.5001 units in the last place.
pub fn exp(x: f32) -> f32 {
    scalar::exp(x)
}

/// The natural logarithm, to 0.5001 units in the last place: negative infinity for zeros, NaN for what is less.
pub fn log(x: f32) -> f32 {
    scalar::log(x)
}

/// The hyperbolic tangent, to 0.5001 units in the last place.
pub fn tanh(x: f32) -> f32 {
    scalar::tanh(x)
}

/// The error function, to 0.5001 units in the last place.
pub fn erf(x: f32) -> f32 {
    scalar::erf(x)
}
