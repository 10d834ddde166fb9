//! Kernels that a compiler made, run on buffers and compared with loops. `kernels/make.sh` compiles them.

use crate::support::{Buffers, load, run};
use vireo_ptx::Trap;
use vireo_simt::prim::{F16, fdemote_bf16};

/// Small whole numbers, whose sums and products are exact.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 7919 + seed * 104_729) % 17) as f32 - 8.0).collect()
}

fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Runs the only kernel of a text on buffers of bytes, and returns the last one.
fn run_kernel(text: &str, inputs: &[Vec<u8>], blocks: u32, block: [u32; 3]) -> Result<Vec<u8>, Trap> {
    let module = load(text);
    let mut buffers = Buffers::new();
    let addresses: Vec<u64> = inputs.iter().map(|bytes| buffers.add(bytes)).collect();
    run(&module.kernels()[0], &buffers, [blocks, 1, 1], block, &addresses)?;
    let mut result = buffers.bytes(*addresses.last().unwrap());
    result.truncate(inputs.last().unwrap().len());
    Ok(result)
}

macro_rules! kernel {
    ($name:literal, $inputs:expr, $blocks:expr, $block:expr) => {
        run_kernel(include_str!(concat!("../kernels/", $name, ".ptx")), &$inputs, $blocks, $block)
            .unwrap_or_else(|trap| panic!("{trap}"))
    };
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

fn matmul(a: &[f32], b: &[f32], m: usize, n: usize, k: usize) -> Vec<f32> {
    let mut c = vec![0.0; m * n];
    for row in 0..m {
        for inner in 0..k {
            for column in 0..n {
                c[row * n + column] += a[row * k + inner] * b[inner * n + column];
            }
        }
    }
    c
}

#[test]
fn products_of_f32_matrices() {
    let (m, n, k) = (128, 256, 512);
    let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
    let result = kernel!("mm_f32", [bytes_of(&a), bytes_of(&b), vec![0xFF; 4 * m * n]], 8, [32, 8, 1]);
    assert!(floats(&result) == matmul(&a, &b, m, n, k));
    let (m, n, k) = (33, 65, 17);
    let (a, b) = (numbers(m * k, 5), numbers(k * n, 6));
    let result = kernel!("mm_f32_odd", [bytes_of(&a), bytes_of(&b), vec![0xFF; 4 * m * n]], 2, [32, 8, 1]);
    assert!(floats(&result) == matmul(&a, &b, m, n, k));
}

#[test]
fn products_of_16_bit_matrices() {
    let (m, n, k) = (128, 256, 512);
    let few = |count, seed| numbers(count, seed).iter().map(|value| (value * 0.25).round()).collect::<Vec<f32>>();
    let (a, b) = (few(m * k, 3), few(k * n, 4));
    let expected = matmul(&a, &b, m, n, k);
    let short = |values: &[f32], of: fn(f32) -> u16| values.iter().flat_map(|value| of(*value).to_le_bytes()).collect();
    let half = |value: f32| F16::of_f32(value).0;
    let inputs = |of: fn(f32) -> u16, result: usize| [short(&a, of), short(&b, of), vec![0xFF; result]];
    let result = kernel!("mm_f16", inputs(half, 4 * m * n), 8, [128, 1, 1]);
    assert!(floats(&result) == expected);
    let result = kernel!("mm_bf16", inputs(fdemote_bf16, 4 * m * n), 8, [128, 1, 1]);
    assert!(floats(&result) == expected);
    let result = kernel!("mm_f16_f16", inputs(half, 2 * m * n), 8, [128, 1, 1]);
    assert!(result == short(&expected, half));
}

#[test]
fn a_product_of_byte_matrices() {
    let (m, n, k) = (128, 256, 512);
    let bytes = |count: usize, seed: usize| (0..count).map(|at| (at * seed % 251) as u8).collect::<Vec<u8>>();
    let (a, b) = (bytes(m * k, 7), bytes(k * n, 13));
    let result = kernel!("mm_i8", [a.clone(), b.clone(), vec![0xFF; 4 * m * n]], 8, [32, 8, 1]);
    for (at, value) in result.chunks(4).enumerate() {
        let (row, column) = (at / n, at % n);
        let product = |inner: usize| i32::from(a[row * k + inner] as i8) * i32::from(b[inner * n + column] as i8);
        let expected = (0..k).map(product).sum::<i32>();
        assert_eq!(i32::from_le_bytes(value.try_into().unwrap()), expected, "row {row}, column {column}");
    }
}

#[test]
fn sums_of_rows_and_a_transposition() {
    let input = numbers(64 * 1024, 8);
    let result = kernel!("red_addf_f32", [bytes_of(&input), vec![0xFF; 4 * 64]], 64, [256, 1, 1]);
    let expected: Vec<f32> = input.chunks(1024).map(|row| row.iter().sum()).collect();
    assert_eq!(floats(&result), expected);
    let input: Vec<f32> = (0..128 * 96).map(|at| at as f32).collect();
    let result = floats(&kernel!("transpose", [bytes_of(&input), vec![0xFF; 4 * 128 * 96]], 12, [8, 32, 1]));
    assert!((0..96 * 128).all(|at| result[at] == input[at % 128 * 96 + at / 128]));
}

#[test]
fn softmax_of_rows() {
    let input: Vec<f32> = (0..16 * 1000).map(|at| ((at * 7919) % 997) as f32 / 100.0 - 5.0).collect();
    let result = floats(&kernel!("softmax_f32", [bytes_of(&input), vec![0xFF; 4 * 16 * 1000]], 16, [32, 1, 1]));
    for (input, result) in input.chunks(1000).zip(result.chunks(1000)) {
        let total: f64 = input.iter().map(|value| f64::from(*value).exp()).sum();
        for (value, found) in input.iter().zip(result) {
            let expected = f64::from(*value).exp() / total;
            assert!((f64::from(*found) - expected).abs() < 1e-5 * expected, "{found}, not {expected}");
        }
    }
}

#[test]
fn quotients_and_exponentials() {
    let special = [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NAN, f32::MAX, f32::MIN_POSITIVE, 1e-45, 3e-39];
    let mut state = 1u32;
    let mut wild = || -> Vec<f32> {
        (0..1000)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 17;
                state ^= state << 5;
                if state.is_multiple_of(4) {
                    special[state as usize / 4 % special.len()]
                } else {
                    f32::from_bits(state)
                }
            })
            .collect()
    };
    let (a, b) = (wild(), wild());
    let result = floats(&kernel!("ew_divf_f32", [bytes_of(&a), bytes_of(&b), vec![0xFF; 4000]], 32, [32, 1, 1]));
    for ((a, b), quotient) in a.iter().zip(&b).zip(result) {
        let expected = a / b;
        assert!(expected.to_bits() == quotient.to_bits() || expected.is_nan() && quotient.is_nan(), "{a:e} / {b:e}");
    }
    let input: Vec<f32> = (0..1000).map(|at| at as f32 * 0.2 - 100.0).collect();
    let result = floats(&kernel!("ew_exp_f32", [bytes_of(&input), vec![0xFF; 4000]], 32, [32, 1, 1]));
    for (x, value) in input.iter().zip(result) {
        let near = f64::from(*x).exp() as f32;
        // Subnormal results are zero.
        let near = if near < f32::MIN_POSITIVE && value == 0.0 { 0.0 } else { near };
        assert!(near.to_bits().abs_diff(value.to_bits()) <= 2, "exp({x}) = {value:e}, not {near:e}");
    }
    let mut state = 7u64;
    let mut longs = || -> Vec<i64> {
        (0..1003)
            .map(|at| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                ((state ^ state >> 29) as i64 >> (at % 60)) | 1
            })
            .collect()
    };
    let (a, b) = (longs(), longs());
    let bytes = |values: &[i64]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let result = kernel!("ew_divsi_i64", [bytes(&a), bytes(&b), vec![0; 8 * 1003]], 32, [32, 1, 1]);
    for ((a, b), quotient) in a.iter().zip(&b).zip(result.chunks(8)) {
        assert_eq!(i64::from_le_bytes(quotient.try_into().unwrap()), a.wrapping_div(*b), "{a} / {b}");
    }
}

/// A kernel whose buffer is too short traps with its line and thread, and does no harm.
#[test]
fn accesses_outside_of_buffers_trap() {
    let input = numbers(64 * 1024, 8);
    let text = include_str!("../kernels/red_addf_f32.ptx");
    let trap = run_kernel(text, &[bytes_of(&input[..1000]), vec![0; 256]], 64, [256, 1, 1]).unwrap_err().to_string();
    assert!(trap.starts_with("load of") && trap.contains("no allocation, in kernel red_addf_f32"), "{trap}");
}

/// IREE multiplies by the logarithm of two in f16, and takes the exponential of the rounded product, so that large
/// powers are off by many units; a GPU computes the same.
#[test]
fn powers_of_two_in_halves_are_exponentials_of_rounded_products() {
    let half = |bits: u16| f64::from(F16(bits).to_f32());
    let log2 = half(0x398C);
    let inputs: Vec<u16> = (0..1000u16).map(|at| F16::of_f64(f64::from(at) * 0.03 - 15.0).0).collect();
    let bytes = inputs.iter().flat_map(|bits| bits.to_le_bytes()).collect();
    let result = kernel!("ew_exp2_f16", [bytes, vec![0xFF; 2000]], 32, [32, 1, 1]);
    let mut furthest = 0;
    for (x, found) in inputs.iter().zip(result.chunks(2)) {
        let found = u16::from_le_bytes(found.try_into().unwrap());
        let product = half(F16::of_f64(half(*x) * log2).0);
        let expected = F16::of_f64(product.exp()).0;
        assert!(found.abs_diff(expected) <= 1, "exp2({}): {found:#x}, not {expected:#x}", half(*x));
        furthest = furthest.max(found.abs_diff(F16::of_f64(half(*x).exp2()).0));
    }
    assert_eq!(furthest, 13, "units between the results and powers of two");
}

/// The logarithm of zero is negative infinity, which times zero is no number; a library for hosts would return one.
#[test]
fn zero_to_the_power_of_zero_is_no_number() {
    let (mut a, mut b) = ([0.0; 1000], [0.0; 1000]);
    (a[1], b[1], a[2], b[2], a[3], b[3]) = (2.0, 3.0, 0.0, 2.0, 5.0, 0.0);
    let short = |values: &[f32]| values.iter().flat_map(|value| fdemote_bf16(*value).to_le_bytes()).collect();
    let result = kernel!("ew_pow_bf16", [short(&a), short(&b), vec![0xFF; 2000]], 32, [32, 1, 1]);
    let value = |at: usize| f32::from_bits(u32::from(u16::from_le_bytes([result[2 * at], result[2 * at + 1]])) << 16);
    assert!(value(0).is_nan());
    assert_eq!([value(1), value(3)], [8.0, 1.0]);
    assert!(value(2) < 1e-37, "the exponential is limited from below");
}

/// The float next to a quarter turn is reduced by that float itself, so nothing is left, and the quotient is infinite.
#[test]
fn the_tangent_of_a_quarter_turn_is_infinite() {
    let quarter = std::f32::consts::FRAC_PI_2;
    let inputs: Vec<f32> = (0..1000).map(|at| if at == 0 { quarter } else { at as f32 * 0.0015 }).collect();
    let result = floats(&kernel!("ew_tan_f32", [bytes_of(&inputs), vec![0xFF; 4000]], 32, [32, 1, 1]));
    assert_eq!(result[0], f32::NEG_INFINITY);
    for (x, y) in inputs.iter().zip(&result).skip(1) {
        assert!((y - x.tan()).abs() <= 1e-4 * x.tan().abs(), "tan({x}): {y}");
    }
}
