//! Functions on `f32` whose results are correctly rounded. The interpreter and machine code that calls them for one
//! value use them, and [`super::vector`] where its approximations do not decide.
//!
//! Zeros, infinities, NaNs and what overflows come from the `libm` crate, which has what C prescribes. So do results
//! wherever an error of many times its own cannot change them; [`super::exact`] computes the others.

use super::exact;

/// More than the relative error of every function of `libm`, which is below 2^-50.
const DOUBT: f64 = 1.0 / (1u64 << 46) as f64;

/// The `f32` nearest to the true value that `approximate` approximates, unless the rounding is too close to decide;
/// then the correctly rounded function has to.
#[inline]
pub fn narrow(approximate: f64, exact: impl FnOnce() -> f32) -> f32 {
    let special = approximate == 0.0 || !approximate.is_finite();
    let low = (approximate - approximate * DOUBT) as f32;
    let high = (approximate + approximate * DOUBT) as f32;
    if low == high || special { approximate as f32 } else { exact() }
}

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[inline(never)]
        pub fn $name(x: f32) -> f32 {
            let x = f64::from(x);
            narrow(libm::$name(x), || exact::$name(x))
        }
    )*};
}

unary! {
    /// The arc tangent.
    atan
    /// The cosine.
    cos
    /// The sine.
    sin
    /// 2 to a power.
    exp2
    /// e to a power, less 1.
    expm1
    /// The logarithm to base 10.
    log10
    /// The natural logarithm of the operand and 1.
    log1p
    /// The logarithm to base 2.
    log2
}
