//! Tests that compare the fast path with integers, and two words with four. `tests/suite/math.rs` compares with
//! recorded results.

use super::real::Real;
use super::{exact_power, fast, functions};

/// Numbers from 0 to 1, always the same.
fn random() -> impl Iterator<Item = f64> {
    let mut state = 1u64;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    })
}

#[test]
fn floats_decide_nearly_always_and_as_integers_do() {
    let (mut decided, mut undecided) = (0, 0);
    let mut check = |name: &str, x: f64, float: Option<f64>, integer: f64| match float {
        Some(float) => {
            assert_eq!(float.to_bits(), integer.to_bits(), "{name} of {x:e}");
            decided += 1;
        }
        None => undecided += 1,
    };
    for random in random().take(4000) {
        let near_one = 1.0 + (random - 0.5) / 30.0;
        for x in [random, near_one, random * 4.0, 1.0 / random] {
            check("log2", x, fast::log2(x), functions::log2::<4>(Real::float(x)).round_exact());
            check("log10", x, fast::log10(x), functions::log10::<4>(Real::float(x)).round_exact());
            check("log", x, fast::log(x), functions::log::<4>(Real::float(x)).round_exact());
        }
        for x in [random - 0.5, 40.0 * random - 20.0, 1400.0 * random - 700.0] {
            check("exp2", x, fast::exp2(x), functions::exp2::<4>(Real::float(x)).round_exact());
            check("exp", x, fast::exp(x), functions::exp::<4>(Real::float(x)).round_exact());
        }
        let small = (random - 0.5) * (1.0 / 64.0);
        for x in [random - 0.5, small, 4.0 * random - 2.0, 736.0 * random - 36.0, 1.0 / random] {
            check("expm1", x, fast::expm1(x), functions::expm1::<4>(Real::float(x)).round_exact());
        }
        for x in [random - 1.0, small, 4.0 * random, 1.0 / random, 1e300 * random] {
            check("log1p", x, fast::log1p(x), functions::log1p::<4>(Real::float(x)).round_exact());
        }
    }
    assert!(undecided < decided / 20, "{undecided} of {decided}");
    assert_eq!((fast::exp(709.0), fast::exp(-720.0), fast::log(1e-310), fast::log(f64::NAN)), (None, None, None, None));
}

#[test]
fn powers_that_are_exact() {
    assert_eq!(exact_power(3.0, 2.0), Some((9, 0)));
    assert_eq!(exact_power(12.0, 3.0), Some((27, 6)));
    assert_eq!(exact_power(81.0 / 16.0, 0.25), Some((3, -1)));
    assert_eq!(exact_power(9.0, 1.5), Some((27, 0)));
    assert_eq!(exact_power(2.0, -1074.0), Some((1, -1074)));
    assert_eq!(exact_power(f64::MIN_POSITIVE / 4.0, 1.0 / 1024.0), Some((1, -1)));
    for (x, y) in [(3.0, -1.0), (3.0, 0.5), (8.0, 0.5), (2.0, 1.0 / 3.0), (3.0, 41.0), (5.0, 1e300), (2.0, 1e-300)] {
        assert_eq!(exact_power(x, y), None, "{x} to the power of {y}");
    }
}

#[test]
fn division_and_its_digits() {
    let third = Real::<4>::integer(1).div(Real::integer(3));
    assert_eq!(third.exponent, -1);
    assert!(third.digits[..3].iter().all(|word| *word == 0xAAAA_AAAA_AAAA_AAAA), "{third:x?}");
    assert_eq!(third.round_exact::<f64>(), 1.0 / 3.0);
    assert_eq!(third.round_exact::<f32>(), 1.0 / 3.0);
}
