//! The library functions of the float primitives: one Rust function for each name and width, shared by all tiers.
//!
//! Every result is correctly rounded: it is the float nearest to the true value. `exp`, `log`, `tanh` and `erf` for
//! `f32` alone are those of [`crate::math`], which have vector code and are the nearest float but for a few arguments.
//!
//! Zeros, infinities, NaNs and what overflows come from the `libm` crate, which has what C prescribes. The functions
//! for `f32` are those of `libm` for `f64`, rounded once, wherever an error of many times theirs cannot change the
//! result.
//!
//! A result never depends on the machine, since no platform library is called. The functions are not inlined: handlers
//! of the threaded dispatcher call them and nothing else.

use crate::math::exact;

/// Functions of one operand, each with the operands for which the result is neither special nor out of range: first
/// those that are nearly always decided in floats, then the others.
macro_rules! unary {
    ($($quick:ident: $y:ident => $usual:expr;)* ; $($name:ident: $x:ident => $ordinary:expr;)*) => {
        /// The functions on `f64`.
        pub mod double {
            use super::*;

            $(#[inline(never)]
            pub fn $quick($y: f64) -> f64 {
                match exact::fast::$quick($y) {
                    Some(value) => value,
                    None => if $usual { exact::$quick($y) } else { libm::$quick($y) },
                }
            })*

            $(#[inline(never)]
            pub fn $name($x: f64) -> f64 {
                if $ordinary { exact::$name($x) } else { libm::$name($x) }
            })*

            #[inline(never)]
            pub fn atan2(y: f64, x: f64) -> f64 {
                if is_ordinary(x) && is_ordinary(y) { exact::atan2(y, x) } else { libm::atan2(y, x) }
            }

            #[inline(never)]
            pub fn pow(x: f64, y: f64) -> f64 {
                if power_is_ordinary(x, y) { exact::pow(x, y) } else { libm::pow(x, y) }
            }

            #[inline(never)]
            pub fn remainder(x: f64, y: f64) -> f64 {
                libm::remainder(x, y)
            }
        }
    };
}

/// Neither zero, infinite nor NaN.
fn is_ordinary(x: f64) -> bool {
    x != 0.0 && x.is_finite()
}

/// Whether a power is neither special nor far out of the range of an `f64`.
fn power_is_ordinary(x: f64, y: f64) -> bool {
    is_ordinary(x) && is_ordinary(y) && (x > 0.0 || y.fract() == 0.0) && (libm::log2(x.abs()) * y).abs() < 1100.0
}

unary! {
    exp: x => x != 0.0 && x.abs() < 750.0;
    exp2: x => x.abs() < 1100.0;
    expm1: x => x != 0.0 && x.abs() < 750.0;
    log: x => x > 0.0 && x < f64::INFINITY;
    log1p: x => x > -1.0 && x != 0.0 && x < f64::INFINITY;
    log2: x => x > 0.0 && x < f64::INFINITY;
    log10: x => x > 0.0 && x < f64::INFINITY;
    ;
    sin: x => is_ordinary(x);
    cos: x => is_ordinary(x);
    atan: x => is_ordinary(x);
    tanh: x => x != 0.0 && x.abs() < 30.0;
    erf: x => x != 0.0 && x.abs() < 6.0;
}

/// The functions on `f32`.
pub mod single {
    use super::*;
    use crate::math::nearest::narrow;
    pub use crate::math::nearest::{atan, cos, exp2, expm1, log1p, log2, log10, sin};
    pub use crate::math::{erf, exp, log, tanh};

    #[inline(never)]
    pub fn atan2(y: f32, x: f32) -> f32 {
        let (y, x) = (f64::from(y), f64::from(x));
        narrow(libm::atan2(y, x), || exact::atan2(y, x))
    }

    #[inline(never)]
    pub fn pow(x: f32, y: f32) -> f32 {
        let (x, y) = (f64::from(x), f64::from(y));
        narrow(libm::pow(x, y), || exact::pow(x, y))
    }

    #[inline(never)]
    pub fn remainder(x: f32, y: f32) -> f32 {
        // It is exact in f64 and is itself an f32 value.
        libm::remainder(f64::from(x), f64::from(y)) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::{double, single};

    #[test]
    fn remainder_rounds_the_quotient_to_nearest_even() {
        for (x, y, expected) in [
            (5.0, 3.0, -1.0),
            (5.5, 3.0, -0.5),
            (-5.0, 3.0, 1.0),
            (3.0, 2.0, -1.0),
            (1.0, 2.0, 1.0),
            (6.0, 3.0, 0.0),
            (1e30, 3.0, 1.0),
        ] {
            assert_eq!(double::remainder(x, y), expected, "{x} rem {y}");
        }
        assert_eq!(single::remainder(5.5, 3.0), -0.5);
        assert_eq!(single::remainder(f32::MAX, 3.0), 0.0);
        assert_eq!(single::remainder(-6.0, 3.0).to_bits(), 0x8000_0000);
        assert!(double::remainder(1.0, 0.0).is_nan() && double::remainder(f64::INFINITY, 1.0).is_nan());
        assert_eq!(double::remainder(1.0, f64::INFINITY), 1.0);
    }

    #[test]
    fn special_values() {
        assert_eq!(double::exp(f64::NEG_INFINITY), 0.0);
        assert_eq!(double::log(0.0), f64::NEG_INFINITY);
        assert!(double::log(-1.0).is_nan());
        assert_eq!(single::pow(0.0, 0.0), 1.0);
        assert_eq!(single::pow(f32::NAN, 0.0), 1.0);
        assert_eq!(single::atan2(0.0, -1.0), std::f32::consts::PI);
        assert_eq!(single::atan2(-0.0, -1.0), -std::f32::consts::PI);
        assert_eq!((single::tanh(100.0), single::erf(-100.0)), (1.0, -1.0));
        assert_eq!(single::expm1(-0.0).to_bits(), 0x8000_0000);
        assert_eq!(single::log1p(-0.0).to_bits(), 0x8000_0000);
        assert_eq!(single::exp(1000.0), f32::INFINITY);
        assert!(single::sin(f32::INFINITY).is_nan() && single::cos(f32::NAN).is_nan());
    }

    #[test]
    fn exact_cases() {
        for n in -1022..=1023 {
            assert_eq!(double::log2(double::exp2(f64::from(n))), f64::from(n));
            assert_eq!(double::log2(2f64.powi(n)), f64::from(n));
        }
        for n in 0..=22 {
            assert_eq!(double::log10(10f64.powi(n)), f64::from(n));
            assert_eq!(double::pow(10.0, f64::from(n)), 10f64.powi(n));
        }
        assert_eq!(double::exp(1.0), std::f64::consts::E);
        assert_eq!(double::log(10.0), std::f64::consts::LN_10);
        assert_eq!(single::sin(1.0), 0.841_470_96);
        assert_eq!(single::exp(0.1), 1.105_171);
    }
}
