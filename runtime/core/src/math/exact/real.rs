//! [`Real`]: multiple-precision floats with a fixed number of words, in integer arithmetic only, so they have the same
//! bits on every processor. The functions of `exact` compute with them.
//!
//! Results of operations are truncated: their error is at most a few units of the last word, relative to the result (to
//! the larger operand, where a difference cancels). [`Real::round`] allows for far more than any function here adds up.

use std::cmp::Ordering;

/// Words of the constants, which is also how many words a number has at most.
pub(super) const WORDS: usize = 4;

/// Bits of the last word that may be wrong in the result of a function.
const WRONG_BITS: u32 = 28;

/// A constant in all of its words.
pub(super) struct Constant {
    pub(super) negative: bool,
    pub(super) exponent: i32,
    pub(super) digits: [u64; WORDS],
}

/// `digits` as a fraction, most significant word first, times 2^`exponent`. The first bit of the digits is set unless
/// the number is zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Real<const N: usize> {
    pub(super) negative: bool,
    pub(super) exponent: i32,
    pub(super) digits: [u64; N],
}

/// A binary format of IEEE 754 that results are rounded to.
pub trait Format: Copy + PartialEq + std::ops::Neg<Output = Self> {
    /// Bits of the significand.
    const PRECISION: i32;
    /// The exponent of the least positive value, which is a power of two.
    const LEAST: i32;

    /// `significand` times 2^`exponent`, which is infinite or a value of the format.
    fn scaled(negative: bool, significand: u64, exponent: i32) -> Self;
}

impl Format for f64 {
    const PRECISION: i32 = f64::MANTISSA_DIGITS as i32;
    const LEAST: i32 = f64::MIN_EXP - f64::MANTISSA_DIGITS as i32;

    fn scaled(negative: bool, significand: u64, exponent: i32) -> f64 {
        let sign = u64::from(negative) << 63;
        if significand == 0 {
            return f64::from_bits(sign);
        }
        // The bits of consecutive values are consecutive, so the first bit of the significand adds one to the
        // exponent's field.
        let field = i64::from(exponent - Self::LEAST);
        if field >= 0x7FE {
            return f64::from_bits(sign | f64::INFINITY.to_bits());
        }
        f64::from_bits(sign | (((field as u64) << 52) + significand))
    }
}

impl Format for f32 {
    const PRECISION: i32 = f32::MANTISSA_DIGITS as i32;
    const LEAST: i32 = f32::MIN_EXP - f32::MANTISSA_DIGITS as i32;

    fn scaled(negative: bool, significand: u64, exponent: i32) -> f32 {
        // Every f32 is a normal f64, and so is a value that is too large for an f32.
        let power = f64::from_bits(((1023 + exponent.min(200)) as u64) << 52);
        let value = (significand as f64 * power) as f32;
        if negative { -value } else { value }
    }
}

/// The top words of a table's fraction.
pub(super) fn top<const N: usize>(digits: &[u64; WORDS]) -> [u64; N] {
    std::array::from_fn(|word| digits[word])
}

/// The sum, without its carry.
#[inline(always)]
fn add_digits<const N: usize>(a: &[u64; N], b: &[u64; N]) -> ([u64; N], bool) {
    let (mut sum, mut carry) = ([0; N], false);
    for word in (0..N).rev() {
        let (partial, first) = a[word].overflowing_add(b[word]);
        let (total, second) = partial.overflowing_add(u64::from(carry));
        sum[word] = total;
        carry = first | second;
    }
    (sum, carry)
}

/// The difference, and whether it is below zero.
#[inline(always)]
fn sub_digits<const N: usize>(a: &[u64; N], b: &[u64; N]) -> ([u64; N], bool) {
    let (mut difference, mut borrow) = ([0; N], false);
    for word in (0..N).rev() {
        let (partial, first) = a[word].overflowing_sub(b[word]);
        let (total, second) = partial.overflowing_sub(u64::from(borrow));
        difference[word] = total;
        borrow = first | second;
    }
    (difference, borrow)
}

/// The product of two fractions: the first N words, and the word after them.
#[inline(always)]
fn mul_digits<const N: usize>(a: &[u64; N], b: &[u64; N]) -> ([u64; N], u64) {
    if N == 2 {
        // The usual width; of the product of the last words only the carry counts.
        let wide = |i: usize, j: usize| u128::from(a[i]) * u128::from(b[j]);
        let (middle, carry) = wide(0, 1).overflowing_add(wide(1, 0));
        let (middle, low_carry) = middle.overflowing_add(wide(1, 1) >> 64);
        let carries = u128::from(carry) + u128::from(low_carry);
        let high = wide(0, 0) + (middle >> 64) + (carries << 64);
        let words = [(high >> 64) as u64, high as u64];
        return (std::array::from_fn(|word| words[word]), middle as u64);
    }
    let mut product = [0u64; 2 * WORDS];
    for i in (0..N).rev() {
        let mut carry = 0;
        for j in (0..N).rev() {
            let wide = u128::from(a[i]) * u128::from(b[j]) + u128::from(product[i + j + 1]) + u128::from(carry);
            product[i + j + 1] = wide as u64;
            carry = (wide >> 64) as u64;
        }
        product[i] = carry;
    }
    (std::array::from_fn(|word| product[word]), product[N])
}

#[inline(always)]
fn shift_right<const N: usize>(digits: &[u64; N], count: u32) -> [u64; N] {
    if N == 2 {
        let shifted = (u128::from(digits[0]) << 64 | u128::from(digits[1])).checked_shr(count).unwrap_or(0);
        let words = [(shifted >> 64) as u64, shifted as u64];
        return std::array::from_fn(|word| words[word]);
    }
    let (words, bits) = (count as usize / 64, count % 64);
    let word = |at: usize| if at >= words && at - words < N { digits[at - words] } else { 0 };
    std::array::from_fn(|at| {
        let carried = if at == 0 || bits == 0 { 0 } else { word(at - 1) << (64 - bits) };
        word(at) >> bits | carried
    })
}

#[inline(always)]
fn shift_left<const N: usize>(digits: &[u64; N], count: u32) -> [u64; N] {
    if N == 2 {
        let shifted = (u128::from(digits[0]) << 64 | u128::from(digits[1])).checked_shl(count).unwrap_or(0);
        let words = [(shifted >> 64) as u64, shifted as u64];
        return std::array::from_fn(|word| words[word]);
    }
    let (words, bits) = (count as usize / 64, count % 64);
    let word = |at: usize| if at < N { digits[at] } else { 0 };
    std::array::from_fn(|at| {
        let carried = if bits == 0 { 0 } else { word(at + words + 1) >> (64 - bits) };
        word(at + words) << bits | carried
    })
}

/// The sum of `coefficients[k] * z^k` for fractions whose sums stay below 1; with the signs of odd powers changed if
/// `alternating`.
#[inline(always)]
pub(super) fn polynomial<'c, const N: usize>(
    coefficients: impl DoubleEndedIterator<Item = &'c [u64; WORDS]>,
    z: &[u64; N],
    alternating: bool,
) -> [u64; N] {
    let mut sum = [0; N];
    for coefficient in coefficients.rev() {
        let (product, _) = mul_digits(&sum, z);
        let coefficient = top(coefficient);
        let next = if alternating { sub_digits(&coefficient, &product) } else { add_digits(&coefficient, &product) };
        sum = next.0;
    }
    sum
}

impl<const N: usize> Real<N> {
    pub(super) const ZERO: Self = Real { negative: false, exponent: 0, digits: [0; N] };

    pub(super) fn constant(constant: &Constant) -> Self {
        Real { negative: constant.negative, exponent: constant.exponent, digits: top(&constant.digits) }
    }

    /// The integer, exactly.
    pub(super) fn integer(value: i64) -> Self {
        let mut digits = [0; N];
        digits[0] = value.unsigned_abs();
        Real { negative: value < 0, exponent: 64, digits }.normal()
    }

    /// The finite `value`, exactly.
    pub(super) fn float(value: f64) -> Self {
        let field = (value.to_bits() >> 52 & 0x7FF) as i32;
        let fraction = value.to_bits() & ((1 << 52) - 1);
        let significand = if field == 0 { fraction } else { fraction | 1 << 52 };
        let mut digits = [0; N];
        digits[0] = significand;
        Real { negative: value.is_sign_negative(), exponent: 64 + field.max(1) + f64::LEAST - 1, digits }.normal()
    }

    /// The digits of a fraction times 2^`exponent`.
    pub(super) fn fraction(digits: [u64; N], exponent: i32) -> Self {
        Real { negative: false, exponent, digits }.normal()
    }

    /// The same number, with the first bit of its digits set.
    #[inline(always)]
    fn normal(mut self) -> Self {
        let Some(word) = self.digits.iter().position(|word| *word != 0) else {
            return Real { exponent: 0, ..self };
        };
        let zeros = word as u32 * 64 + self.digits[word].leading_zeros();
        self.digits = shift_left(&self.digits, zeros);
        self.exponent -= zeros as i32;
        self
    }

    pub(super) fn is_zero(&self) -> bool {
        self.digits[0] == 0
    }

    pub(super) fn abs(self) -> Self {
        Real { negative: false, ..self }
    }

    /// Times 2^`exponent`.
    pub(super) fn scale(self, exponent: i32) -> Self {
        if self.is_zero() { self } else { Real { exponent: self.exponent + exponent, ..self } }
    }

    /// The magnitude, which is below 1, as a fraction.
    pub(super) fn to_fraction(self) -> [u64; N] {
        shift_right(&self.digits, self.exponent.unsigned_abs())
    }

    /// The number to a few units in the last place of an `f64`; it must be in the range of that.
    pub(super) fn approximate(self) -> f64 {
        f64::scaled(self.negative, self.digits[0] >> 11, self.exponent - 53)
    }

    #[inline(always)]
    pub(super) fn mul(self, rhs: Self) -> Self {
        if self.is_zero() || rhs.is_zero() {
            return Self::ZERO;
        }
        let (mut digits, below) = mul_digits(&self.digits, &rhs.digits);
        let mut exponent = self.exponent + rhs.exponent;
        // The product of two fractions from 1/2 to 1 lacks one bit at most.
        if digits[0] >> 63 == 0 {
            digits = shift_left(&digits, 1);
            digits[N - 1] |= below >> 63;
            exponent -= 1;
        }
        Real { negative: self.negative != rhs.negative, exponent, digits }
    }

    /// Divided by a small number.
    pub(super) fn div_small(self, rhs: u64) -> Self {
        let mut digits = [0; N];
        let mut rest = 0;
        for (quotient, word) in digits.iter_mut().zip(self.digits) {
            let wide = u128::from(rest) << 64 | u128::from(word);
            *quotient = (wide / u128::from(rhs)) as u64;
            rest = (wide % u128::from(rhs)) as u64;
        }
        Real { digits, ..self }.normal()
    }

    pub(super) fn neg(self) -> Self {
        Real { negative: !self.negative, ..self }
    }

    pub(super) fn sub(self, rhs: Self) -> Self {
        self.add(rhs.neg())
    }

    #[inline(always)]
    pub(super) fn add(self, rhs: Self) -> Self {
        if rhs.is_zero() {
            return self;
        }
        if self.is_zero() {
            return rhs;
        }
        let (large, small) = if self.exponent >= rhs.exponent { (self, rhs) } else { (rhs, self) };
        let aligned = shift_right(&small.digits, (large.exponent - small.exponent).unsigned_abs());
        if large.negative == small.negative {
            let (digits, carry) = add_digits(&large.digits, &aligned);
            if !carry {
                return Real { digits, ..large };
            }
            let mut digits = shift_right(&digits, 1);
            digits[0] |= 1 << 63;
            return Real { digits, exponent: large.exponent + 1, ..large };
        }
        let (digits, below) = sub_digits(&large.digits, &aligned);
        let (digits, negative) =
            if below { (sub_digits(&[0; N], &digits).0, !large.negative) } else { (digits, large.negative) };
        Real { negative, exponent: large.exponent, digits }.normal()
    }

    /// One divided by the number, which is not zero.
    fn reciprocal(self) -> Self {
        let unit = Real { exponent: 1, ..self.abs() };
        let one = Self::integer(1);
        let mut guess = Self::float(1.0 / unit.approximate());
        // Newton's iteration: each step doubles the number of correct bits, and the float has 50.
        let mut right = 50;
        while right < 64 * N {
            guess = guess.add(guess.mul(one.sub(unit.mul(guess))));
            right *= 2;
        }
        Real { negative: self.negative, exponent: guess.exponent + 1 - self.exponent, ..guess }
    }

    pub(super) fn div(self, rhs: Self) -> Self {
        self.mul(rhs.reciprocal())
    }

    /// The number rounded to nearest, ties to even, as if it were exact.
    pub(super) fn round_exact<F: Format>(self) -> F {
        if self.is_zero() {
            return F::scaled(self.negative, 0, 0);
        }
        let last = (self.exponent - F::PRECISION).max(F::LEAST);
        // How many bits the significand has. All of them are in the first word.
        let bits = self.exponent - last;
        if bits < 0 {
            return F::scaled(self.negative, 0, 0);
        }
        let significand = self.digits[0].checked_shr(64 - bits as u32).unwrap_or(0);
        let rest = self.digits[0] << bits;
        let tail = self.digits[1..].iter().any(|word| *word != 0);
        let up = match rest.cmp(&(1 << 63)) {
            Ordering::Less => false,
            Ordering::Equal => tail || significand & 1 == 1,
            Ordering::Greater => true,
        };
        F::scaled(self.negative, significand + u64::from(up), last)
    }

    /// The number rounded to nearest: with all of its bits as they are if `Ok`, or `Err` with one of two candidates,
    /// the one nearer to zero, where the error of the last bits decides.
    pub(super) fn round<F: Format>(self) -> Result<F, F> {
        if self.is_zero() {
            // A function is zero only where it is exact.
            return Ok(F::scaled(self.negative, 0, 0));
        }
        let mut error = [0; N];
        error[N - 1] = 1 << WRONG_BITS;
        // Neither leaves the range from 1/4 to 1, except for numbers next to a power of two.
        let (low, _) = sub_digits(&self.digits, &error);
        let low = Real { digits: low, ..self }.normal().round_exact();
        let (high, carry) = add_digits(&self.digits, &error);
        let high = if carry {
            Self::integer(1).scale(self.exponent).with_sign(self.negative)
        } else {
            Real { digits: high, ..self }
        };
        if high.round_exact::<F>() == low { Ok(low) } else { Err(low) }
    }

    pub(super) fn with_sign(self, negative: bool) -> Self {
        Real { negative, ..self }
    }
}
