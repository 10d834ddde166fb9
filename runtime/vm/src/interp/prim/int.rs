//! Integer primitives on `i32` and `i64`.
//!
//! Registers hold bits without a sign; the primitives whose names end in `_u` read them as unsigned. Everything wraps.

use super::Trap;

/// The integer primitives; `i32` and `i64` have them.
pub trait Int: Copy {
    /// Two's-complement sum, wraps.
    fn wrapping_add(self, rhs: Self) -> Self;
    /// Two's-complement difference, wraps.
    fn wrapping_sub(self, rhs: Self) -> Self;
    /// Two's-complement product, wraps.
    fn wrapping_mul(self, rhs: Self) -> Self;
    /// `self * b + c`, wraps.
    fn wrapping_mul_add(self, b: Self, c: Self) -> Self;
    /// Signed quotient, truncated toward zero.
    ///
    /// # Errors
    /// [`Trap::DivisionByZero`], and [`Trap::DivisionOverflow`] for a quotient that the type does not have.
    fn checked_div_s(self, rhs: Self) -> Result<Self, Trap>;
    /// Unsigned quotient.
    ///
    /// # Errors
    /// [`Trap::DivisionByZero`] for a divisor of zero.
    fn checked_div_u(self, rhs: Self) -> Result<Self, Trap>;
    /// Signed remainder with the sign of the dividend; `MIN % -1` is 0.
    ///
    /// # Errors
    /// [`Trap::DivisionByZero`] for a divisor of zero.
    fn checked_rem_s(self, rhs: Self) -> Result<Self, Trap>;
    /// Unsigned remainder.
    ///
    /// # Errors
    /// [`Trap::DivisionByZero`] for a divisor of zero.
    fn checked_rem_u(self, rhs: Self) -> Result<Self, Trap>;
    /// Complement of all bits.
    fn not(self) -> Self;
    /// Bitwise and.
    fn and(self, rhs: Self) -> Self;
    /// Bitwise or.
    fn or(self, rhs: Self) -> Self;
    /// Bitwise exclusive or.
    fn xor(self, rhs: Self) -> Self;
    /// Shift left by `amount` modulo the width.
    fn shl(self, amount: i32) -> Self;
    /// Arithmetic shift right by `amount` modulo the width.
    fn shr_s(self, amount: i32) -> Self;
    /// Logical shift right by `amount` modulo the width.
    fn shr_u(self, amount: i32) -> Self;
    /// Absolute value; that of `MIN` is `MIN`.
    fn abs_wrapping(self) -> Self;
    /// Signed minimum.
    fn min_s(self, rhs: Self) -> Self;
    /// Unsigned minimum.
    fn min_u(self, rhs: Self) -> Self;
    /// Signed maximum.
    fn max_s(self, rhs: Self) -> Self;
    /// Unsigned maximum.
    fn max_u(self, rhs: Self) -> Self;
    /// Zero bits above the highest one bit; the width for 0.
    fn leading_zeros(self) -> Self;
    /// Equality.
    fn eq(self, rhs: Self) -> bool;
    /// Inequality.
    fn ne(self, rhs: Self) -> bool;
    /// Signed less-than.
    fn lt_s(self, rhs: Self) -> bool;
    /// Unsigned less-than.
    fn lt_u(self, rhs: Self) -> bool;
    /// True unless all bits are zero.
    fn is_nonzero(self) -> bool;
}

macro_rules! int {
    ($signed:ident, $unsigned:ident) => {
        impl Int for $signed {
            #[inline(always)]
            fn wrapping_add(self, rhs: Self) -> Self {
                $signed::wrapping_add(self, rhs)
            }
            #[inline(always)]
            fn wrapping_sub(self, rhs: Self) -> Self {
                $signed::wrapping_sub(self, rhs)
            }
            #[inline(always)]
            fn wrapping_mul(self, rhs: Self) -> Self {
                $signed::wrapping_mul(self, rhs)
            }
            #[inline(always)]
            fn wrapping_mul_add(self, b: Self, c: Self) -> Self {
                $signed::wrapping_add($signed::wrapping_mul(self, b), c)
            }
            #[inline]
            fn checked_div_s(self, rhs: Self) -> Result<Self, Trap> {
                match rhs {
                    0 => Err(Trap::DivisionByZero),
                    _ => self.checked_div(rhs).ok_or(Trap::DivisionOverflow),
                }
            }
            #[inline]
            fn checked_div_u(self, rhs: Self) -> Result<Self, Trap> {
                let quotient = (self as $unsigned).checked_div(rhs as $unsigned).ok_or(Trap::DivisionByZero)?;
                Ok(quotient as $signed)
            }
            #[inline]
            fn checked_rem_s(self, rhs: Self) -> Result<Self, Trap> {
                match rhs {
                    0 => Err(Trap::DivisionByZero),
                    _ => Ok(self.wrapping_rem(rhs)),
                }
            }
            #[inline]
            fn checked_rem_u(self, rhs: Self) -> Result<Self, Trap> {
                let remainder = (self as $unsigned).checked_rem(rhs as $unsigned).ok_or(Trap::DivisionByZero)?;
                Ok(remainder as $signed)
            }
            #[inline(always)]
            fn not(self) -> Self {
                !self
            }
            #[inline(always)]
            fn and(self, rhs: Self) -> Self {
                self & rhs
            }
            #[inline(always)]
            fn or(self, rhs: Self) -> Self {
                self | rhs
            }
            #[inline(always)]
            fn xor(self, rhs: Self) -> Self {
                self ^ rhs
            }
            #[inline(always)]
            fn shl(self, amount: i32) -> Self {
                self.wrapping_shl(amount as u32)
            }
            #[inline(always)]
            fn shr_s(self, amount: i32) -> Self {
                self.wrapping_shr(amount as u32)
            }
            #[inline(always)]
            fn shr_u(self, amount: i32) -> Self {
                (self as $unsigned).wrapping_shr(amount as u32) as $signed
            }
            #[inline(always)]
            fn abs_wrapping(self) -> Self {
                self.wrapping_abs()
            }
            #[inline(always)]
            fn min_s(self, rhs: Self) -> Self {
                Ord::min(self, rhs)
            }
            #[inline(always)]
            fn min_u(self, rhs: Self) -> Self {
                Ord::min(self as $unsigned, rhs as $unsigned) as $signed
            }
            #[inline(always)]
            fn max_s(self, rhs: Self) -> Self {
                Ord::max(self, rhs)
            }
            #[inline(always)]
            fn max_u(self, rhs: Self) -> Self {
                Ord::max(self as $unsigned, rhs as $unsigned) as $signed
            }
            #[inline(always)]
            fn leading_zeros(self) -> Self {
                $signed::leading_zeros(self) as $signed
            }
            #[inline(always)]
            fn eq(self, rhs: Self) -> bool {
                self == rhs
            }
            #[inline(always)]
            fn ne(self, rhs: Self) -> bool {
                self != rhs
            }
            #[inline(always)]
            fn lt_s(self, rhs: Self) -> bool {
                self < rhs
            }
            #[inline(always)]
            fn lt_u(self, rhs: Self) -> bool {
                (self as $unsigned) < rhs as $unsigned
            }
            #[inline(always)]
            fn is_nonzero(self) -> bool {
                self != 0
            }
        }
    };
}

int!(i32, u32);
int!(i64, u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_traps_by_name_and_never_faults() {
        assert_eq!(Int::checked_div_s(-7, 2), Ok(-3));
        assert_eq!(Int::checked_div_s(1, 0), Err(Trap::DivisionByZero));
        assert_eq!(Int::checked_div_s(i32::MIN, -1), Err(Trap::DivisionOverflow));
        assert_eq!(Int::checked_div_s(i64::MIN, -1), Err(Trap::DivisionOverflow));
        assert_eq!(Int::checked_div_s(i64::MIN, 0), Err(Trap::DivisionByZero));
        assert_eq!(Int::checked_div_u(-1, 2), Ok(i32::MAX));
        assert_eq!(Int::checked_div_u(i64::MIN, -1), Ok(0));
        assert_eq!(Int::checked_div_u(1, 0), Err(Trap::DivisionByZero));
        assert_eq!(Int::checked_rem_s(-7, 2), Ok(-1));
        assert_eq!(Int::checked_rem_s(7, -2), Ok(1));
        assert_eq!(Int::checked_rem_s(i32::MIN, -1), Ok(0));
        assert_eq!(Int::checked_rem_s(i64::MIN, -1), Ok(0));
        assert_eq!(Int::checked_rem_s(0, 0), Err(Trap::DivisionByZero));
        assert_eq!(Int::checked_rem_u(-1, 10), Ok(5));
        assert_eq!(Int::checked_rem_u(3i64, 0), Err(Trap::DivisionByZero));
    }

    #[test]
    fn arithmetic_wraps() {
        assert_eq!(Int::wrapping_add(i32::MAX, 1), i32::MIN);
        assert_eq!(Int::wrapping_sub(i64::MIN, 1), i64::MAX);
        assert_eq!(Int::wrapping_mul(0x1_0000, 0x1_0000), 0);
        assert_eq!(Int::wrapping_mul_add(i32::MAX, 2, 3), 1);
        assert_eq!(Int::abs_wrapping(i32::MIN), i32::MIN);
        assert_eq!(Int::abs_wrapping(-5i64), 5);
    }

    #[test]
    fn shift_amounts_are_modulo_the_width() {
        assert_eq!(Int::shl(1i32, 33), 2);
        assert_eq!(Int::shl(1i64, 65), 2);
        assert_eq!(Int::shl(1i64, 33), 1 << 33);
        assert_eq!(Int::shr_s(-8i32, 33), -4);
        assert_eq!(Int::shr_u(-8i32, 1), 0x7FFF_FFFC);
        assert_eq!(Int::shr_u(-1i64, -1), 1);
        assert_eq!(Int::shr_s(i32::MIN, -1), -1);
    }

    #[test]
    fn signs_matter_where_the_name_says_so() {
        assert_eq!((Int::min_s(-1, 1), Int::min_u(-1, 1)), (-1, 1));
        assert_eq!((Int::max_s(-1i64, 1), Int::max_u(-1i64, 1)), (1, -1));
        assert_eq!((Int::lt_s(-1, 1), Int::lt_u(-1, 1)), (true, false));
        assert!(Int::eq(3, 3) && Int::ne(3, 4) && Int::is_nonzero(i64::MIN) && !Int::is_nonzero(0));
        assert_eq!((Int::leading_zeros(0i32), Int::leading_zeros(0i64)), (32, 64));
        assert_eq!(Int::leading_zeros(-1i32), 0);
        assert_eq!((Int::not(0), Int::and(6, 3), Int::or(6, 3), Int::xor(6, 3)), (-1, 2, 7, 5));
    }
}
