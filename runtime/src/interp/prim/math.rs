//! The library functions of the float primitives: one Rust function for each name and width, shared by all tiers.
//!
//! The functions for `f64` are those of the `libm` crate. Measured against 64-bit precision, their results are less than 1 unit in
//! the last place away from the true value, `atan2` and `erf` less than 2, `tanh` less than 3. The functions for `f32` compute in
//! `f64` and round once: they differ from the correctly rounded value only where the true value is within a few 2^-29 units in the
//! last place of the middle between two `f32` values. `exp`, `log`, `tanh` and `erf` for `f32` are those of [`crate::math`], which has
//! their bounds. `remainder` is exact.
//!
//! A result never depends on the machine, since no platform library is called.

macro_rules! functions {
    ($($both:ident),*; $($both2:ident),*; $($double:ident),*) => {
        /// The functions on `f64`.
        pub mod double {
            $(pub fn $both(x: f64) -> f64 {
                libm::$both(x)
            })*
            $(pub fn $both2(x: f64, y: f64) -> f64 {
                libm::$both2(x, y)
            })*
            $(pub fn $double(x: f64) -> f64 {
                libm::$double(x)
            })*
        }

        /// The functions on `f32`.
        pub mod single {
            $(pub(crate) use crate::math::$double;)*

            $(pub fn $both(x: f32) -> f32 {
                libm::$both(f64::from(x)) as f32
            })*
            $(pub fn $both2(x: f32, y: f32) -> f32 {
                libm::$both2(f64::from(x), f64::from(y)) as f32
            })*
        }
    };
}

// The remainder of two f32 values is exact in f64 and is itself an f32 value.
functions!(
    atan, cos, sin, exp2, expm1, log10, log1p, log2;
    atan2, pow, remainder;
    exp, log, tanh, erf
);

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
        for (value, nearest) in [
            (double::exp(1.0), std::f64::consts::E),
            (double::erf(0.5), 0.520_499_877_813_046_5),
            (double::tanh(0.5), 0.462_117_157_260_009_76),
            (double::log(10.0), std::f64::consts::LN_10),
        ] {
            assert!(value.to_bits().abs_diff(nearest.to_bits()) <= 1, "{value} is not within a unit of {nearest}");
        }
        assert_eq!(single::sin(1.0), 0.841_470_96);
        assert_eq!(single::exp(0.1), 1.105_171);
    }
}
