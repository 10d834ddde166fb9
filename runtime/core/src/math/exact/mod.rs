//! Correctly rounded functions: the result is the value of the format that is nearest to the true one. The primitives
//! of the interpreter call them.
//!
//! A function is computed in integers of 128 bits first, and in 256 bits where the result of these is too near to the
//! middle between two values of the format to decide which one is nearer. That happens for one argument in 2^45, and
//! 256 bits always decide: the true values that are nearest to such a middle are known for most functions, and differ
//! from it within the first 120 bits; for `pow` and `atan2`, of which there are 2^128 arguments, they are expected to
//! within 210. True values in the middle are found first. They exist for `pow` only.
//!
//! Floats compute first where that decides nearly always ([`fast`]), and choose between reductions. Whatever they give
//! within their bounds, the result is the same: nothing depends on the processor or the compiler.

pub mod fast;
mod functions;
mod real;
mod tables;
#[cfg(test)]
mod tests;

pub use real::Format;
use real::Real;

/// Computes a function in two words, and in four if two do not decide the rounding.
macro_rules! decide {
    ($function:ident($($argument:expr),*)) => {
        match functions::$function::<2>($($argument),*).round() {
            Ok(value) => value,
            // Only the arc tangent of a quotient in the middle stays undecided. It is less than the quotient, so the
            // lower candidate is right.
            Err(_) => match functions::$function::<4>($($argument),*).round() {
                Ok(value) | Err(value) => value,
            },
        }
    };
}

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name<F: Format>(x: f64) -> F {
            decide!($name(Real::float(x)))
        }
    )*};
}

unary! {
    /// For x that is not 0, of a magnitude below 2000.
    exp;
    /// For x that is not 0, of a magnitude below 2000.
    expm1;
    /// For finite x above 0.
    log;
    /// For finite x above -1 that is not 0.
    log1p;
    /// For finite x that is not 0.
    atan;
    /// For x that is not 0, of a magnitude below 1000.
    tanh;
    /// For x that is not 0, of a magnitude up to 6.
    erf;
}

/// For x of a magnitude below 2000.
pub fn exp2<F: Format>(x: f64) -> F {
    if x.fract() == 0.0 {
        return Real::<2>::integer(1).scale(x as i32).round_exact();
    }
    decide!(exp2(Real::float(x)))
}

/// For finite x above 0.
pub fn log2<F: Format>(x: f64) -> F {
    if let (1, exponent) = odd_part(x) {
        return Real::<2>::integer(i64::from(exponent)).round_exact();
    }
    decide!(log2(Real::float(x)))
}

/// For finite x above 0.
pub fn log10<F: Format>(x: f64) -> F {
    // Larger powers of ten are not floats.
    let mut power = 1.0;
    for exponent in 0..=22 {
        if power == x {
            return Real::<2>::integer(exponent).round_exact();
        }
        power *= 10.0;
    }
    decide!(log10(Real::float(x)))
}

/// For finite x that is not 0.
pub fn sin<F: Format>(x: f64) -> F {
    decide!(sin(x))
}

/// For finite x that is not 0.
pub fn cos<F: Format>(x: f64) -> F {
    decide!(cos(x))
}

/// For finite x and y that are not 0.
pub fn atan2<F: Format>(y: f64, x: f64) -> F {
    decide!(atan2(Real::float(y), Real::float(x)))
}

/// For finite x that is not 0 and finite y that is not 0, an integer if x is below 0, if the result is not far out of
/// the range of an `f64`.
pub fn pow<F: Format>(x: f64, y: f64) -> F {
    let magnitude = match exact_power(x.abs(), y) {
        Some((significand, exponent)) => Real::<2>::fraction([significand, 0], 64 + exponent).round_exact::<F>(),
        None => decide!(pow(Real::float(x.abs()), Real::float(y))),
    };
    let odd = y.abs() < 9_007_199_254_740_992.0 && (y * 0.5).fract() != 0.0;
    if x < 0.0 && odd { -magnitude } else { magnitude }
}

/// A finite float above 0 as an odd integer times a power of two.
fn odd_part(x: f64) -> (u64, i32) {
    let field = (x.to_bits() >> 52) as i32;
    let fraction = x.to_bits() & ((1 << 52) - 1);
    let significand = if field == 0 { fraction } else { fraction | 1 << 52 };
    let zeros = significand.trailing_zeros();
    (significand >> zeros, field.max(1) - 1075 + zeros as i32)
}

/// x^y as an integer times a power of two, if it is one and the integer has 64 bits at most. If it has more the power
/// is neither a float nor in the middle between two.
fn exact_power(x: f64, y: f64) -> Option<(u64, i32)> {
    let (mut base, mut exponent) = odd_part(x);
    let (mut power, scale) = odd_part(y.abs());
    // Below 1: as many square roots, all of them exact. 3^64 has too many bits to be the significand of x.
    if scale < -11 || scale < -5 && base != 1 {
        return None;
    }
    for _ in scale..0 {
        let root = base.isqrt();
        if root * root != base || exponent & 1 != 0 {
            return None;
        }
        (base, exponent) = (root, exponent / 2);
    }
    power = power.checked_shl(scale.max(0) as u32).filter(|shifted| shifted >> scale.max(0) == power)?;
    let power = i32::try_from(power).ok()?;
    let exponent = exponent.checked_mul(if y < 0.0 { -power } else { power })?;
    let significand = match base {
        1 => 1,
        _ if y < 0.0 => return None,
        _ => base.checked_pow(power as u32)?,
    };
    Some((significand, exponent))
}
