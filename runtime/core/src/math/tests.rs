//! Tests that compare the functions with those of larger formats, and vector code with scalar code.

#[cfg(target_arch = "x86_64")]
use super::vector::{self, Function, OfVector, PairFunction, VectorFunction};
use super::*;

type One = fn(f32) -> f32;
type Wide = fn(f64) -> f64;

/// Each function with the one for `f64`, which is accurate to a few of its own units.
const FUNCTIONS: [(&str, One, Wide); 4] =
    [("exp", exp, libm::exp), ("log", log, libm::log), ("tanh", tanh, libm::tanh), ("erf", erf, libm::erf)];

/// The bound that the documentation states, in units in the last place.
const BOUND: f64 = 0.5001;

/// Values of all magnitudes and both signs, and those around which something changes.
fn samples() -> impl Iterator<Item = f32> {
    const EDGES: [f32; 23] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        std::f32::consts::FRAC_1_SQRT_2,
        std::f32::consts::SQRT_2,
        std::f32::consts::LN_2,
        88.722_84,
        90.0,
        -87.336_55,
        -103.278_93,
        -103.972_08,
        -110.0,
        3.919_206,
        3.93,
        9.010_913,
        10.0,
        f32::MIN_POSITIVE,
        f32::MAX,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
    ];
    let around = EDGES.into_iter().flat_map(|edge| {
        let bits = edge.to_bits();
        (bits.saturating_sub(3)..=bits.saturating_add(3)).flat_map(|bits| [bits, bits ^ 1 << 31])
    });
    (0..=u32::MAX).step_by(9973).chain(around).map(f32::from_bits)
}

/// The distance from the true value in units in the last place, and whether a nearer `f32` exists. None if the result
/// is not even the right zero, infinity or NaN.
fn error(result: f32, exact: f64) -> Option<(f64, bool)> {
    let nearest = exact as f32;
    if exact.is_nan() || nearest.is_infinite() || exact == 0.0 {
        let same = result.to_bits() == nearest.to_bits() || result.is_nan() && exact.is_nan();
        return same.then_some((0.0, false));
    }
    if result.is_nan() || result.is_infinite() || result.is_sign_negative() != exact.is_sign_negative() {
        return None;
    }
    let exponent = (exact.abs().to_bits() >> 52) as i32 - 1023;
    let unit = 2f64.powi(exponent.max(f32::MIN_EXP - 1) - (f32::MANTISSA_DIGITS as i32 - 1));
    Some(((f64::from(result) - exact).abs() / unit, result != nearest))
}

/// The largest error, and how many results are not the nearest `f32`.
fn worst(one: One, wide: Wide, samples: impl Iterator<Item = f32>) -> (f64, u64) {
    let (mut largest, mut off) = (0f64, 0);
    for x in samples {
        let (result, exact) = (one(x), wide(f64::from(x)));
        let Some((error, is_off)) = error(result, exact) else {
            panic!("{:#010x}: {result:e} instead of {exact:e}", x.to_bits());
        };
        largest = largest.max(error);
        off += u64::from(is_off);
    }
    (largest, off)
}

#[test]
fn results_are_within_the_bound() {
    for (name, one, wide) in FUNCTIONS {
        let (error, off) = worst(one, wide, samples());
        assert!(error <= BOUND && off < 100, "{name}: {error}, {off} not the nearest");
    }
}

/// `cargo test -p vireo-core --release every_value -- --ignored --nocapture`
#[test]
#[ignore = "a minute with optimisation, hours without"]
fn every_value_is_within_the_bound() {
    const PARTS: u32 = 64;
    let workers = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    for (name, one, wide) in FUNCTIONS {
        let part = |worker: u32| {
            let parts = (worker..PARTS).step_by(workers as usize);
            let values = parts.flat_map(|part| {
                let first = part << (32 - PARTS.trailing_zeros());
                first..=first + (u32::MAX >> PARTS.trailing_zeros())
            });
            worst(one, wide, values.map(f32::from_bits))
        };
        let results: Vec<(f64, u64)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..workers).map(|worker| scope.spawn(move || part(worker))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let error = results.iter().fold(0f64, |largest, (error, _)| largest.max(*error));
        let off: u64 = results.iter().map(|(_, off)| off).sum();
        println!("{name}: at most {error:.6} units in the last place, {off} results are not the nearest");
        assert!(error <= BOUND, "{name}: {error}");
    }
}

/// Replaces the values by the results of vector code.
///
/// # Safety
/// The processor must have the instructions of the code, and there must be as many values as lanes.
#[cfg(target_arch = "x86_64")]
unsafe fn run(code: VectorFunction, values: &mut [f32]) {
    use std::arch::x86_64::{__m256, __m512, _mm256_loadu_ps, _mm256_storeu_ps, _mm512_loadu_ps, _mm512_storeu_ps};

    #[target_feature(enable = "avx2")]
    unsafe fn eight(code: OfVector<__m256>, values: *mut f32) {
        // SAFETY: the processor has the instructions of the code, and there are as many values as lanes.
        unsafe { _mm256_storeu_ps(values, code(_mm256_loadu_ps(values))) }
    }

    #[target_feature(enable = "avx512f")]
    unsafe fn sixteen(code: OfVector<__m512>, values: *mut f32) {
        // SAFETY: the processor has the instructions of the code, and there are as many values as lanes.
        unsafe { _mm512_storeu_ps(values, code(_mm512_loadu_ps(values))) }
    }

    // SAFETY: the processor has the instructions of the code, and there are as many values as lanes.
    unsafe {
        match code {
            VectorFunction::Eight(code) => eight(code, values.as_mut_ptr()),
            VectorFunction::Sixteen(code) => sixteen(code, values.as_mut_ptr()),
        }
    }
}

/// As [`run`], for the values of two vectors of 8 lanes.
#[cfg(target_arch = "x86_64")]
unsafe fn run_pair(code: PairFunction, values: &mut [f32]) {
    use std::arch::x86_64::{_mm256_loadu_ps, _mm256_storeu_ps};

    #[target_feature(enable = "avx2")]
    unsafe fn two(code: usize, values: *mut f32) {
        // SAFETY: the processor has the instructions of the code, and there are as many values as lanes; the code has
        // the convention for all but the second vector.
        unsafe {
            let (mut a, mut b) = (_mm256_loadu_ps(values), _mm256_loadu_ps(values.add(8)));
            std::arch::asm!("call {code}", code = in(reg) code, inout("ymm0") a, inout("ymm1") b, clobber_abi("sysv64"));
            _mm256_storeu_ps(values, a);
            _mm256_storeu_ps(values.add(8), b);
        }
    }

    // SAFETY: the processor has the instructions of the code, and there are as many values as lanes.
    unsafe { two(code.address(), values.as_mut_ptr()) }
}

/// The lanes of a vector hold values from all over, so that none can depend on its neighbours.
#[cfg(target_arch = "x86_64")]
fn compare_lanes(samples: &[f32]) {
    let functions = [
        (Function::Exp, exp as One),
        (Function::Log, log),
        (Function::Tanh, tanh),
        (Function::Erf, erf),
        (Function::Sin, nearest::sin),
        (Function::Cos, nearest::cos),
        (Function::Exp2, nearest::exp2),
        (Function::Expm1, nearest::expm1),
        (Function::Log1p, nearest::log1p),
        (Function::Log2, nearest::log2),
    ];
    for (function, one) in functions {
        for lanes in [8, 16] {
            if vector::code(function, lanes).is_none() {
                println!("skipped: this processor has no vectors of {lanes} lanes");
            }
            // SAFETY: this processor has what the variants need, and there are as many values as lanes.
            vector::variants(function, lanes)
                .for_each(|code| compare(samples, lanes, function, one, |values| unsafe { run(code, values) }));
        }
        // SAFETY: this processor has what the variants need, and there are as many values as lanes.
        vector::pair_variants(function)
            .for_each(|code| compare(samples, 16, function, one, |values| unsafe { run_pair(code, values) }));
    }
}

#[cfg(target_arch = "x86_64")]
fn compare(samples: &[f32], lanes: usize, function: Function, one: One, run: impl Fn(&mut [f32])) {
    let stride = samples.len() / lanes;
    let mut outputs = vec![0.0; lanes];
    for start in 0..stride {
        let input = |lane: usize| samples[start + lane * stride];
        outputs.iter_mut().enumerate().for_each(|(lane, value)| *value = input(lane));
        run(&mut outputs);
        for (lane, output) in outputs.iter().enumerate() {
            let expected = one(input(lane));
            assert!(
                output.to_bits() == expected.to_bits() || output.is_nan() && expected.is_nan(),
                "{function:?} of {:#010x} in {lanes} lanes: {output:e} instead of {expected:e}",
                input(lane).to_bits()
            );
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn vector_code_gives_the_same_bits() {
    compare_lanes(&samples().collect::<Vec<_>>());
}

/// As [`every_value_is_within_the_bound`].
#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "ten minutes with optimisation, hours without"]
fn vector_code_gives_the_same_bits_for_every_value() {
    const PART: u32 = 1 << 20;
    for part in (0..=u32::MAX).step_by(PART as usize) {
        let values: Vec<f32> = (part..=part + (PART - 1)).map(f32::from_bits).collect();
        compare_lanes(&values);
    }
}

#[test]
fn special_values() {
    let bits = |x: f32| x.to_bits();
    assert_eq!((exp(f32::NEG_INFINITY), exp(f32::INFINITY), exp(0.0), exp(-0.0)), (0.0, f32::INFINITY, 1.0, 1.0));
    assert_eq!((exp(-104.0), exp(-103.0), exp(88.723)), (0.0, f32::from_bits(1), f32::INFINITY));
    assert_eq!((log(0.0), log(-0.0), log(1.0)), (f32::NEG_INFINITY, f32::NEG_INFINITY, 0.0));
    assert_eq!(log(f32::INFINITY), f32::INFINITY);
    assert!(log(-1.0).is_nan() && log(f32::NEG_INFINITY).is_nan() && log(-f32::from_bits(1)).is_nan());
    for odd in [tanh as One, erf] {
        assert_eq!((odd(f32::INFINITY), odd(f32::NEG_INFINITY), odd(50.0)), (1.0, -1.0, 1.0));
        assert_eq!((bits(odd(0.0)), bits(odd(-0.0))), (0, 1 << 31));
        assert!(samples().all(|x| x.is_nan() || bits(odd(-x)) == bits(-odd(x))));
    }
    for (name, one, _) in FUNCTIONS {
        for nan in [f32::NAN, -f32::NAN, f32::from_bits(0x7F80_0001), f32::from_bits(0xFFFF_FFFF)] {
            assert!(one(nan).is_nan(), "{name}");
        }
    }
}
