//! The functions on [`Real`], for arguments whose result is neither special nor exact. `exact` calls them with two
//! words, and with four if two do not decide.
//!
//! Each reduces its argument with the constants of [`tables`] until a polynomial of few terms is as accurate as the
//! number has words.

use super::real::{Real, polynomial};
use super::tables::{
    ATAN, EXP2, FIRST_LOG, HALF_FACTORIALS, HALF_PI, HALF_RECIPROCALS, LN_2, LN_2_OVER_64, LOG, LOG2_E, LOG10_E, PI,
    TWO_OVER_PI, TWO_OVER_SQRT_PI,
};

/// How many terms of a polynomial numbers of N words need: `few` for 2, `many` for 4.
const fn terms<const N: usize>(few: usize, many: usize) -> usize {
    if N <= 2 { few } else { many }
}

/// exp(r) - 1 for |r| up to ln(2) / 128.
fn exp_m1_small<const N: usize>(r: Real<N>) -> Real<N> {
    let coefficients = &HALF_FACTORIALS[1..=terms::<N>(13, 25)];
    r.mul(Real::fraction(polynomial(coefficients.iter(), &r.to_fraction(), r.negative), 1))
}

/// The multiple of ln(2) / 64 next to x, and x less that.
fn split<const N: usize>(x: Real<N>) -> (i32, Real<N>) {
    if x.exponent < -10 {
        return (0, x);
    }
    let multiple = (x.approximate() * (64.0 * std::f64::consts::LOG2_E)).round_ties_even();
    (multiple as i32, x.sub(Real::integer(multiple as i64).mul(Real::constant(&LN_2_OVER_64))))
}

/// e to the power of x, which is below 2^20 in magnitude.
pub(super) fn exp<const N: usize>(x: Real<N>) -> Real<N> {
    let (multiple, rest) = split(x);
    let power = Real::constant(&EXP2[(multiple & 63) as usize]);
    power.add(power.mul(exp_m1_small(rest))).scale(multiple >> 6)
}

pub(super) fn exp2<const N: usize>(x: Real<N>) -> Real<N> {
    exp(x.mul(Real::constant(&LN_2)))
}

pub(super) fn expm1<const N: usize>(x: Real<N>) -> Real<N> {
    match split(x) {
        (0, x) => exp_m1_small(x),
        _ => exp(x).sub(Real::integer(1)),
    }
}

/// log(1 + f) for |f| up to 2^-6.4.
fn log_1p_small<const N: usize>(f: Real<N>) -> Real<N> {
    let coefficients = &HALF_RECIPROCALS[..terms::<N>(19, 39)];
    f.mul(Real::fraction(polynomial(coefficients.iter(), &f.to_fraction(), !f.negative), 1))
}

/// The natural logarithm of a number above 0.
pub(super) fn log<const N: usize>(x: Real<N>) -> Real<N> {
    const SQRT_HALF: u64 = 0xB504_F333_F9DE_6484;
    // x is a power of two, times what lies between the square roots of 1/2 and 2.
    let exponent = if x.digits[0] < SQRT_HALF { x.exponent - 1 } else { x.exponent };
    let m = x.scale(-exponent);
    let divisor = (64.0 / m.approximate()).round_ties_even() as i64;
    let f = m.mul(Real::integer(divisor)).scale(-6).sub(Real::integer(1));
    let of_divisor = Real::constant(&LOG[divisor as usize - FIRST_LOG]);
    let of_power = Real::integer(i64::from(exponent)).mul(Real::constant(&LN_2));
    of_power.sub(of_divisor).add(log_1p_small(f))
}

pub(super) fn log2<const N: usize>(x: Real<N>) -> Real<N> {
    log(x).mul(Real::constant(&LOG2_E))
}

pub(super) fn log10<const N: usize>(x: Real<N>) -> Real<N> {
    log(x).mul(Real::constant(&LOG10_E))
}

pub(super) fn log1p<const N: usize>(x: Real<N>) -> Real<N> {
    if x.exponent <= -7 { log_1p_small(x) } else { log(Real::integer(1).add(x)) }
}

/// x, above 0, to the power of y.
pub(super) fn pow<const N: usize>(x: Real<N>, y: Real<N>) -> Real<N> {
    exp(y.mul(log(x)))
}

/// The sum of `z^k / (2k + first)!` with alternating signs, for z up to 0.62.
fn circular<const N: usize>(z: Real<N>, first: usize) -> Real<N> {
    let coefficients = HALF_FACTORIALS[first..].iter().step_by(2).take(terms::<N>(16, 28));
    Real::fraction(polynomial(coefficients, &z.to_fraction(), true), 1)
}

/// The quarter of a circle nearest to x, modulo four, and the angle from there. The angle is as accurate as a number
/// can be however large x is, since x is an `f64`.
fn quarter<const N: usize>(x: f64) -> (u64, Real<N>) {
    /// One word of 2 / pi for the bits of x, one for those that cancel, one that shifting needs.
    const MORE: usize = 3;
    const MOST: usize = super::real::WORDS + MORE;
    let real = Real::<N>::float(x);
    if real.exponent < 0 {
        return (0, real);
    }
    // x is an integer times a power of two. Bits of 2 / pi whose products with it are multiples of 4 are left out; the
    // first of the others is so many bits after the beginning of the table.
    let significand = real.digits[0] >> 11;
    let first = (real.exponent - 53 - 2 + 64) as usize;
    let (word, bit) = (first / 64, first % 64);
    let mut product = [0u64; MOST];
    let mut carry = 0;
    for at in (0..N + MORE).rev() {
        let next = if bit == 0 { 0 } else { TWO_OVER_PI[word + at + 1] >> (64 - bit) };
        let digit = TWO_OVER_PI[word + at] << bit | next;
        let wide = u128::from(digit) * u128::from(significand) + u128::from(carry);
        product[at] = wide as u64;
        carry = (wide >> 64) as u64;
    }
    // Two bits of the fraction are the quarter, and the third says which one is nearest.
    let quarters = product[0] >> 62;
    let above = product[0] >> 61 & 1 == 1;
    product[0] = product[0] << 2 >> 2;
    if above {
        product.iter_mut().for_each(|word| *word = !*word);
        product[0] = product[0] << 2 >> 2;
    }
    let wide = Real::<MOST>::fraction(product, 2);
    let fraction =
        Real { negative: above, exponent: wide.exponent, digits: std::array::from_fn(|word| wide.digits[word]) };
    let angle = fraction.mul(Real::constant(&HALF_PI));
    (quarters + u64::from(above), if x < 0.0 { angle.neg() } else { angle })
}

pub(super) fn sin<const N: usize>(x: f64) -> Real<N> {
    let (quarters, angle) = quarter::<N>(x);
    // Angles are counted from zero towards x.
    let quarters = if x < 0.0 { quarters.wrapping_neg() } else { quarters };
    from_quarter(quarters, angle)
}

pub(super) fn cos<const N: usize>(x: f64) -> Real<N> {
    let (quarters, angle) = quarter::<N>(x.abs());
    from_quarter(quarters + 1, angle)
}

/// The sine of an angle after so many quarters of a circle.
fn from_quarter<const N: usize>(quarters: u64, angle: Real<N>) -> Real<N> {
    let square = angle.mul(angle);
    let sine = if quarters & 1 == 0 { angle.mul(circular(square, 1)) } else { circular(square, 0) };
    if quarters & 2 == 0 { sine } else { sine.neg() }
}

/// The angle of the point (x, y). Neither is zero.
pub(super) fn atan2<const N: usize>(y: Real<N>, x: Real<N>) -> Real<N> {
    let (a, b) = (y.abs(), x.abs());
    let difference = a.sub(b);
    let steep = !difference.negative && !difference.is_zero();
    let (a, b) = if steep { (b, a) } else { (a, b) };
    let angle = atan_of_quotient(a, b);
    let angle = if steep { Real::constant(&HALF_PI).sub(angle) } else { angle };
    let angle = if x.negative { Real::constant(&PI).sub(angle) } else { angle };
    angle.with_sign(y.negative)
}

/// The arc tangent of a / b, where a is not larger than b and both are above 0.
fn atan_of_quotient<const N: usize>(a: Real<N>, b: Real<N>) -> Real<N> {
    let (a, b) = (a.scale(-b.exponent), b.scale(-b.exponent));
    let nearest = if a.exponent < -8 { 0 } else { (32.0 * a.approximate() / b.approximate()).round_ties_even() as i64 };
    let tangent = Real::integer(nearest).scale(-5);
    let u = a.sub(tangent.mul(b)).div(b.add(tangent.mul(a)));
    let coefficients = HALF_RECIPROCALS.iter().step_by(2).take(terms::<N>(10, 22));
    let quotient = Real::fraction(polynomial(coefficients, &u.mul(u).to_fraction(), true), 1);
    Real::constant(&ATAN[nearest as usize]).add(u.mul(quotient))
}

pub(super) fn atan<const N: usize>(x: Real<N>) -> Real<N> {
    atan2(x, Real::integer(1))
}

pub(super) fn tanh<const N: usize>(x: Real<N>) -> Real<N> {
    let power = expm1(x.abs().scale(1));
    power.div(power.add(Real::integer(2))).with_sign(x.negative)
}

/// 2 / sqrt(pi) * x * exp(-x^2) * (1 + 2x^2 / 3 + (2x^2)^2 / (3 * 5) + ...), whose terms are all of one sign. |x| is at
/// most 6.
pub(super) fn erf<const N: usize>(x: Real<N>) -> Real<N> {
    let square = x.mul(x);
    let (mut sum, mut term) = (Real::integer(1), Real::integer(1));
    let mut odd = 3;
    while !term.is_zero() && term.exponent > sum.exponent - 64 * N as i32 {
        term = term.mul(square.scale(1)).div_small(odd);
        sum = sum.add(term);
        odd += 2;
    }
    Real::constant(&TWO_OVER_SQRT_PI).mul(x).mul(exp(square.neg())).mul(sum)
}
