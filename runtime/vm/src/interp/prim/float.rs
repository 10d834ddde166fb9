//! Float primitives on `f32` and `f64`: IEEE arithmetic in round-to-nearest-even with denormals kept.
//!
//! The payload of an arithmetic NaN is unspecified. `fneg`, `fabs`, `bits` and `from_bits` keep every bit.

use super::math;

/// The float primitives; `f32` and `f64` have them.
pub trait Float: Copy {
    /// The integer with the same number of bits.
    type Bits;

    /// IEEE sum.
    fn fadd(self, rhs: Self) -> Self;
    /// IEEE difference.
    fn fsub(self, rhs: Self) -> Self;
    /// IEEE product.
    fn fmul(self, rhs: Self) -> Self;
    /// IEEE quotient.
    fn fdiv(self, rhs: Self) -> Self;
    /// `self * b + c` rounded twice; never fused.
    fn fmul_fadd(self, b: Self, c: Self) -> Self;
    /// Flips the sign bit, of NaNs too.
    fn fneg(self) -> Self;
    /// Clears the sign bit, of NaNs too.
    fn fabs(self) -> Self;
    /// Rounds up; keeps -0.0.
    fn fceil(self) -> Self;
    /// Rounds down; keeps -0.0.
    fn ffloor(self) -> Self;
    /// Rounds to nearest, half away from zero.
    fn fround_away(self) -> Self;
    /// Rounds to nearest, half to even, except that -0.5 gives +0.0.
    fn fround_even_pz(self) -> Self;
    /// `rhs < self ? rhs : self`: `self` if either is NaN and for equal zeros.
    fn fmin_lhs(self, rhs: Self) -> Self;
    /// `self < rhs ? rhs : self`: `self` if either is NaN and for equal zeros.
    fn fmax_lhs(self, rhs: Self) -> Self;
    /// Correctly rounded square root.
    fn fsqrt(self) -> Self;
    /// One divided by the square root, rounded twice.
    fn frsqrt(self) -> Self;
    /// IEEE remainder: `self - n * rhs` with `n` the quotient rounded to nearest even.
    fn fremainder(self, rhs: Self) -> Self;
    /// Equal; false if unordered.
    fn feq(self, rhs: Self) -> bool;
    /// Equal or unordered.
    fn feq_u(self, rhs: Self) -> bool;
    /// Not equal; true if unordered.
    fn fne(self, rhs: Self) -> bool;
    /// Less; false if unordered.
    fn flt(self, rhs: Self) -> bool;
    /// Less or equal; false if unordered.
    fn fle(self, rhs: Self) -> bool;
    /// Less or unordered.
    fn flt_u(self, rhs: Self) -> bool;
    /// Less, equal or unordered.
    fn fle_u(self, rhs: Self) -> bool;
    /// True for a NaN.
    fn is_nan(self) -> bool;
    /// The bits as an integer.
    fn bits(self) -> Self::Bits;
    /// The float with these bits.
    fn from_bits(bits: Self::Bits) -> Self;
    /// From a signed 32-bit integer.
    fn i32_to_f(value: i32) -> Self;
    /// From an unsigned 32-bit integer.
    fn u32_to_f(value: i32) -> Self;
    /// From a signed 64-bit integer.
    fn i64_to_f(value: i64) -> Self;
    /// From an unsigned 64-bit integer, rounded once.
    fn u64_to_f(value: i64) -> Self;
    /// Rounds half away from zero to a signed 64-bit integer; `i64::MIN` for NaN and outside the range.
    fn round_i64(self) -> i64;
    /// The low 32 bits of [`Float::round_i64`].
    #[inline(always)]
    fn round_i32(self) -> i32 {
        self.round_i64() as i32
    }
    /// Arc tangent.
    fn atan(self) -> Self;
    /// Angle of the point (`x`, `self`).
    fn atan2(self, x: Self) -> Self;
    /// Cosine.
    fn cos(self) -> Self;
    /// Sine.
    fn sin(self) -> Self;
    /// e to the power of `self`.
    fn exp(self) -> Self;
    /// 2 to the power of `self`.
    fn exp2(self) -> Self;
    /// `exp(self) - 1`, accurate near 0.
    fn expm1(self) -> Self;
    /// Natural logarithm.
    fn log(self) -> Self;
    /// Logarithm to base 10.
    fn log10(self) -> Self;
    /// `log(1 + self)`, accurate near 0.
    fn log1p(self) -> Self;
    /// Logarithm to base 2.
    fn log2(self) -> Self;
    /// `self` to the power of `exponent`.
    fn pow(self, exponent: Self) -> Self;
    /// `self` to the power of an integer.
    fn powi(self, exponent: i32) -> Self;
    /// Hyperbolic tangent.
    fn tanh(self) -> Self;
    /// Error function.
    fn erf(self) -> Self;
}

macro_rules! float {
    ($float:ident, $bits:ident, $unsigned:ident, $math:ident) => {
        impl Float for $float {
            type Bits = $bits;

            #[inline(always)]
            fn fadd(self, rhs: Self) -> Self {
                self + rhs
            }
            #[inline(always)]
            fn fsub(self, rhs: Self) -> Self {
                self - rhs
            }
            #[inline(always)]
            fn fmul(self, rhs: Self) -> Self {
                self * rhs
            }
            #[inline(always)]
            fn fdiv(self, rhs: Self) -> Self {
                self / rhs
            }
            // Rust never contracts a product and a sum into a fused operation.
            #[inline(always)]
            fn fmul_fadd(self, b: Self, c: Self) -> Self {
                self * b + c
            }
            #[inline(always)]
            fn fneg(self) -> Self {
                -self
            }
            #[inline(always)]
            fn fabs(self) -> Self {
                self.abs()
            }
            #[inline(always)]
            fn fceil(self) -> Self {
                self.ceil()
            }
            #[inline(always)]
            fn ffloor(self) -> Self {
                self.floor()
            }
            #[inline(always)]
            fn fround_away(self) -> Self {
                self.round()
            }
            #[inline]
            fn fround_even_pz(self) -> Self {
                if self == -0.5 { 0.0 } else { self.round_ties_even() }
            }
            #[inline(always)]
            fn fmin_lhs(self, rhs: Self) -> Self {
                if rhs < self { rhs } else { self }
            }
            #[inline(always)]
            fn fmax_lhs(self, rhs: Self) -> Self {
                if self < rhs { rhs } else { self }
            }
            #[inline(always)]
            fn fsqrt(self) -> Self {
                self.sqrt()
            }
            #[inline(always)]
            fn frsqrt(self) -> Self {
                1.0 / self.sqrt()
            }
            // Handlers call the function itself, not this.
            #[inline(always)]
            fn fremainder(self, rhs: Self) -> Self {
                math::$math::remainder(self, rhs)
            }
            #[inline(always)]
            fn feq(self, rhs: Self) -> bool {
                self == rhs
            }
            #[inline(always)]
            fn feq_u(self, rhs: Self) -> bool {
                self == rhs || self != self || rhs != rhs
            }
            #[inline(always)]
            fn fne(self, rhs: Self) -> bool {
                self != rhs
            }
            #[inline(always)]
            fn flt(self, rhs: Self) -> bool {
                self < rhs
            }
            #[inline(always)]
            fn fle(self, rhs: Self) -> bool {
                self <= rhs
            }
            #[expect(clippy::neg_cmp_op_on_partial_ord, reason = "the negation is what makes unordered true")]
            #[inline(always)]
            fn flt_u(self, rhs: Self) -> bool {
                !(self >= rhs)
            }
            #[expect(clippy::neg_cmp_op_on_partial_ord, reason = "the negation is what makes unordered true")]
            #[inline(always)]
            fn fle_u(self, rhs: Self) -> bool {
                !(self > rhs)
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                self != self
            }
            #[inline(always)]
            fn bits(self) -> $bits {
                self.to_bits() as $bits
            }
            #[inline(always)]
            fn from_bits(bits: $bits) -> Self {
                $float::from_bits(bits as $unsigned)
            }
            #[inline(always)]
            fn i32_to_f(value: i32) -> Self {
                value as $float
            }
            #[inline(always)]
            fn u32_to_f(value: i32) -> Self {
                value as u32 as $float
            }
            #[inline(always)]
            fn i64_to_f(value: i64) -> Self {
                value as $float
            }
            #[inline(always)]
            fn u64_to_f(value: i64) -> Self {
                value as u64 as $float
            }
            #[inline]
            fn round_i64(self) -> i64 {
                const TWO_TO_63: $float = 9_223_372_036_854_775_808.0;
                let rounded = self.round();
                // False for NaN as well; a plain `as` would saturate instead.
                if (-TWO_TO_63..TWO_TO_63).contains(&rounded) { rounded as i64 } else { i64::MIN }
            }
            #[inline(always)]
            fn atan(self) -> Self {
                math::$math::atan(self)
            }
            #[inline(always)]
            fn atan2(self, x: Self) -> Self {
                math::$math::atan2(self, x)
            }
            #[inline(always)]
            fn cos(self) -> Self {
                math::$math::cos(self)
            }
            #[inline(always)]
            fn sin(self) -> Self {
                math::$math::sin(self)
            }
            #[inline(always)]
            fn exp(self) -> Self {
                math::$math::exp(self)
            }
            #[inline(always)]
            fn exp2(self) -> Self {
                math::$math::exp2(self)
            }
            #[inline(always)]
            fn expm1(self) -> Self {
                math::$math::expm1(self)
            }
            #[inline(always)]
            fn log(self) -> Self {
                math::$math::log(self)
            }
            #[inline(always)]
            fn log10(self) -> Self {
                math::$math::log10(self)
            }
            #[inline(always)]
            fn log1p(self) -> Self {
                math::$math::log1p(self)
            }
            #[inline(always)]
            fn log2(self) -> Self {
                math::$math::log2(self)
            }
            #[inline(always)]
            fn pow(self, exponent: Self) -> Self {
                math::$math::pow(self, exponent)
            }
            // No other order of products: each one is rounded. A product that overflows has the reciprocal zero, even
            // where the true result is a denormal.
            fn powi(self, exponent: i32) -> Self {
                let (mut square, mut rest, mut product) = (self, exponent.unsigned_abs(), 1.0);
                loop {
                    if rest % 2 == 1 {
                        product *= square;
                    }
                    rest /= 2;
                    if rest == 0 {
                        break;
                    }
                    square *= square;
                }
                if exponent < 0 { 1.0 / product } else { product }
            }
            #[inline(always)]
            fn tanh(self) -> Self {
                math::$math::tanh(self)
            }
            #[inline(always)]
            fn erf(self) -> Self {
                math::$math::erf(self)
            }
        }
    };
}

float!(f32, i32, u32, single);
float!(f64, i64, u64, double);

#[cfg(test)]
mod tests {
    use super::*;

    const NAN: f32 = f32::NAN;

    #[test]
    fn multiply_and_add_rounds_twice() {
        assert_eq!(Float::fmul_fadd(1.000_000_1_f32, 1.000_000_1, -1.000_000_2), 0.0);
        assert_eq!(Float::fmul_fadd(1.0 + f64::EPSILON, 1.0 + f64::EPSILON, -1.0 - 2.0 * f64::EPSILON), 0.0);
    }

    #[test]
    fn rounding_to_integral_values() {
        for (value, away, even) in [
            (0.5, 1.0, 0.0),
            (-0.5, -1.0, 0.0),
            (1.5, 2.0, 2.0),
            (2.5, 3.0, 2.0),
            (-2.5, -3.0, -2.0),
            (0.499_999_97, 0.0, 0.0),
            (-0.25, -0.0, -0.0),
            (-0.0, -0.0, -0.0),
            (8_388_609.0, 8_388_609.0, 8_388_609.0),
            (f32::NEG_INFINITY, f32::NEG_INFINITY, f32::NEG_INFINITY),
        ] {
            assert_eq!(f32::to_bits(Float::fround_away(value)), f32::to_bits(away), "{value}");
            assert_eq!(f32::to_bits(Float::fround_even_pz(value)), f32::to_bits(even), "{value}");
        }
        assert_eq!(f64::to_bits(Float::fround_even_pz(-0.5f64)), 0);
        assert_eq!(f64::to_bits(Float::fround_away(0.499_999_999_999_999_94)), 0);
        assert!(Float::fround_away(NAN).is_nan() && Float::fround_even_pz(NAN).is_nan());
        assert_eq!(f32::to_bits(Float::fceil(-0.5)), 0x8000_0000);
        assert_eq!(f32::to_bits(Float::ffloor(-0.0)), 0x8000_0000);
        assert_eq!((Float::ffloor(-0.5f64), Float::fceil(0.5f64)), (-1.0, 1.0));
    }

    #[test]
    fn minimum_and_maximum_prefer_the_left_operand() {
        assert!(Float::fmin_lhs(NAN, 1.0).is_nan());
        assert_eq!(Float::fmin_lhs(1.0, NAN), 1.0);
        assert!(Float::fmax_lhs(NAN, 1.0).is_nan());
        assert_eq!(Float::fmax_lhs(1.0, NAN), 1.0);
        assert_eq!(f32::to_bits(Float::fmin_lhs(0.0, -0.0)), 0);
        assert_eq!(f32::to_bits(Float::fmin_lhs(-0.0, 0.0)), 0x8000_0000);
        assert_eq!(f32::to_bits(Float::fmax_lhs(-0.0, 0.0)), 0x8000_0000);
        assert_eq!((Float::fmin_lhs(2.0f64, 1.0), Float::fmax_lhs(2.0f64, 3.0)), (1.0, 3.0));
    }

    #[test]
    fn sign_bits_of_nans_are_reachable() {
        let nan = f32::from_bits(0x7F80_1234);
        assert_eq!(Float::bits(Float::fneg(nan)) as u32, 0xFF80_1234);
        assert_eq!(Float::bits(Float::fabs(Float::fneg(nan))), 0x7F80_1234);
        assert_eq!(Float::bits(<f64 as Float>::from_bits(i64::MIN)), i64::MIN);
    }

    #[test]
    fn comparisons_of_unordered_operands() {
        for (lhs, rhs) in [(NAN, 1.0), (1.0, NAN), (NAN, NAN)] {
            assert!(!Float::feq(lhs, rhs) && !Float::flt(lhs, rhs) && !Float::fle(lhs, rhs));
            assert!(Float::feq_u(lhs, rhs) && Float::flt_u(lhs, rhs) && Float::fle_u(lhs, rhs) && Float::fne(lhs, rhs));
        }
        assert!(Float::feq(0.0, -0.0) && Float::feq_u(0.0, -0.0) && !Float::fne(0.0, -0.0));
        assert!(Float::fle(1.0, 1.0) && Float::fle_u(1.0, 1.0) && !Float::flt(1.0, 1.0) && !Float::flt_u(1.0, 1.0));
        assert!(Float::flt(1.0, 2.0) && Float::flt_u(1.0, 2.0) && !Float::flt_u(2.0, 1.0) && !Float::fle_u(2.0, 1.0));
        assert!(Float::is_nan(NAN) && !Float::is_nan(f64::INFINITY));
    }

    #[test]
    fn roots() {
        assert!(Float::fsqrt(-1.0f32).is_nan());
        assert_eq!(f64::to_bits(Float::fsqrt(-0.0)), 1 << 63);
        assert_eq!(Float::frsqrt(4.0f32), 0.5);
        assert_eq!(Float::frsqrt(0.0f64), f64::INFINITY);
    }
}
