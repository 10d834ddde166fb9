//! Kernels that a compiler made, run on buffers and compared with loops. `kernels/make.sh` compiles them.

mod common;

use common::{Buffer, Kernel, bytes_of_f32, f32_of_bytes, numbers};

macro_rules! kernel {
    ($name:literal) => {
        Kernel::load(include_bytes!(concat!("kernels/", $name, ".hsaco")))
    };
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

fn floats(values: &[f32]) -> Buffer {
    Buffer::new(&bytes_of_f32(values), true)
}

#[test]
fn a_product_of_f32_matrices() {
    let (m, n, k) = (128, 256, 512);
    let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
    let mut kernel = kernel!("mm_f32");
    let bindings = || vec![floats(&a), floats(&b), floats(&vec![f32::NAN; m * n])];
    for threads in [1, 3] {
        kernel.run(bindings(), 8, [32, 8, 1], threads).unwrap_or_else(|trap| panic!("{trap}"));
        assert_eq!(f32_of_bytes(&kernel.binding(2)), matmul(&a, &b, m, n, k), "sums of small numbers are exact");
    }
}

fn half_of(value: f32) -> u16 {
    half::f16::from_f32(value).to_bits()
}

fn halves(values: &[f32], convert: impl Fn(f32) -> u16) -> Buffer {
    Buffer::new(&values.iter().flat_map(|value| convert(*value).to_le_bytes()).collect::<Vec<_>>(), true)
}

fn words16(bytes: &[u8]) -> Vec<u16> {
    bytes.as_chunks::<2>().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect()
}

#[test]
fn products_of_16_bit_matrices() {
    let (m, n, k) = (128, 256, 512);
    // Whole numbers whose sums are exact even in the results of 16 bits.
    let few = |count, seed| numbers(count, seed).iter().map(|value| (value * 0.5).round()).collect::<Vec<f32>>();
    let (a, b) = (few(m * k, 3), few(k * n, 4));
    let expected = matmul(&a, &b, m, n, k);
    let bf16 = |value: f32| half::bf16::from_f32(value).to_bits();
    for (mut kernel, is_half) in [(kernel!("mm_f16"), true), (kernel!("mm_bf16"), false)] {
        let convert = |value| if is_half { half_of(value) } else { bf16(value) };
        let bindings = vec![halves(&a, convert), halves(&b, convert), floats(&vec![f32::NAN; m * n])];
        kernel.run(bindings, 4, [128, 1, 1], 1).unwrap_or_else(|trap| panic!("{trap}"));
        assert_eq!(f32_of_bytes(&kernel.binding(2)), expected);
    }
    let mut kernel = kernel!("mm_f16_f16");
    let bindings = vec![halves(&a, half_of), halves(&b, half_of), Buffer::new(&vec![0xFF; 2 * m * n], true)];
    kernel.run(bindings, 4, [128, 1, 1], 1).unwrap_or_else(|trap| panic!("{trap}"));
    let expected: Vec<u16> = expected.iter().map(|value| half_of(*value)).collect();
    assert_eq!(words16(&kernel.binding(2)), expected);
}

#[test]
fn a_product_of_byte_matrices() {
    let (m, n, k) = (128, 256, 512);
    let bytes = |count: usize, seed: usize| (0..count).map(|at| (at * seed % 251) as u8).collect::<Vec<u8>>();
    let (a, b) = (bytes(m * k, 7), bytes(k * n, 13));
    let mut kernel = kernel!("mm_i8");
    let bindings = vec![Buffer::new(&a, true), Buffer::new(&b, true), Buffer::new(&vec![0xFF; 4 * m * n], true)];
    kernel.run(bindings, 4, [128, 1, 1], 2).unwrap_or_else(|trap| panic!("{trap}"));
    let result = kernel.binding(2);
    let result = result.as_chunks::<4>().0.iter().map(|bytes| i32::from_le_bytes(*bytes));
    for (at, value) in result.enumerate() {
        let (row, column) = (at / n, at % n);
        let product = |inner: usize| i32::from(a[row * k + inner] as i8) * i32::from(b[inner * n + column] as i8);
        assert_eq!(value, (0..k).map(product).sum::<i32>(), "row {row}, column {column}");
    }
}

#[test]
fn a_product_of_odd_sizes_stays_in_its_buffers() {
    let (m, n, k) = (33, 65, 17);
    let (a, b) = (numbers(m * k, 5), numbers(k * n, 6));
    let mut kernel = kernel!("mm_f32_odd");
    let bindings = vec![floats(&a), floats(&b), floats(&vec![f32::NAN; m * n])];
    kernel.run(bindings, 2, [32, 8, 1], 1).unwrap_or_else(|trap| panic!("{trap}"));
    assert_eq!(f32_of_bytes(&kernel.binding(2)), matmul(&a, &b, m, n, k));
}

#[test]
fn softmax_sums_and_exponentials() {
    let (rows, columns) = (16, 1000);
    let input = numbers(rows * columns, 7);
    let mut kernel = kernel!("softmax_f32");
    kernel
        .run(vec![floats(&input), floats(&vec![f32::NAN; rows * columns])], 16, [32, 1, 1], 1)
        .unwrap_or_else(|trap| panic!("{trap}"));
    let result = f32_of_bytes(&kernel.binding(1));
    for (row, result) in input.chunks(columns).zip(result.chunks(columns)) {
        let most = row.iter().copied().fold(f32::MIN, f32::max);
        let powers: Vec<f64> = row.iter().map(|value| f64::from(value - most).exp()).collect();
        let sum: f64 = powers.iter().sum();
        for (value, power) in result.iter().zip(powers) {
            assert!((f64::from(*value) - power / sum).abs() <= 1e-5 * power / sum, "{value} for {}", power / sum);
        }
    }
}

#[test]
fn sums_of_rows() {
    let input = numbers(64 * 1024, 8);
    let mut kernel = kernel!("red_addf_f32");
    kernel
        .run(vec![floats(&input), floats(&[f32::NAN; 64])], 64, [256, 1, 1], 2)
        .unwrap_or_else(|trap| panic!("{trap}"));
    let expected: Vec<f32> = input.chunks(1024).map(|row| row.iter().sum()).collect();
    assert_eq!(f32_of_bytes(&kernel.binding(1)), expected);
}

/// Numbers of all magnitudes, and special ones.
fn wild(count: usize, seed: u32) -> Vec<f32> {
    let special =
        [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN_POSITIVE, 1e-45, 3e-39];
    let mut state = seed;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    (0..count)
        .map(|_| if next() % 4 == 0 { special[next() as usize % special.len()] } else { f32::from_bits(next()) })
        .collect()
}

#[test]
fn quotients_are_exact() {
    let (a, b) = (wild(1000, 1), wild(1000, 2));
    let mut kernel = kernel!("ew_divf_f32");
    kernel
        .run(vec![floats(&a), floats(&b), floats(&[7.0; 1000])], 32, [32, 1, 1], 1)
        .unwrap_or_else(|trap| panic!("{trap}"));
    let result = f32_of_bytes(&kernel.binding(2));
    for ((a, b), quotient) in a.iter().zip(&b).zip(result) {
        let expected = a / b;
        assert!(
            expected.to_bits() == quotient.to_bits() || expected.is_nan() && quotient.is_nan(),
            "{a:e} / {b:e} = {quotient:e}, not {expected:e}"
        );
    }
}

#[test]
fn exponentials_are_within_two_units() {
    let input: Vec<f32> = (0..1000).map(|at| at as f32 * 0.2 - 100.0).collect();
    let mut kernel = kernel!("ew_exp_f32");
    kernel.run(vec![floats(&input), floats(&[7.0; 1000])], 32, [32, 1, 1], 1).unwrap_or_else(|trap| panic!("{trap}"));
    for (x, value) in input.iter().zip(f32_of_bytes(&kernel.binding(1))) {
        let expected = f64::from(*x).exp();
        let near = expected as f32;
        assert!(near.to_bits().abs_diff(value.to_bits()) <= 2, "exp({x}) = {value:e}, not {near:e}");
    }
}

#[test]
fn a_transposition_through_memory_of_work_groups() {
    let input: Vec<f32> = (0..128 * 96).map(|at| at as f32).collect();
    let mut kernel = kernel!("transpose");
    kernel
        .run(vec![floats(&input), floats(&vec![-1.0; 128 * 96])], 12, [8, 32, 1], 2)
        .unwrap_or_else(|trap| panic!("{trap}"));
    let result = f32_of_bytes(&kernel.binding(1));
    assert!((0..96 * 128).all(|at| result[at] == input[at % 128 * 96 + at / 128]));
}

#[test]
fn quotients_of_64_bit_integers() {
    let values = |seed: u64| -> Vec<i64> {
        let mut state = seed;
        (0..1003)
            .map(|at| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                ((state ^ state >> 29) as i64 >> (at % 60)) | 1
            })
            .collect()
    };
    let buffer =
        |values: &[i64]| Buffer::new(&values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>(), true);
    let (a, b) = (values(1), values(2));
    let mut kernel = kernel!("ew_divsi_i64");
    kernel
        .run(vec![buffer(&a), buffer(&b), buffer(&vec![0; 1003])], 32, [32, 1, 1], 1)
        .unwrap_or_else(|trap| panic!("{trap}"));
    let result = kernel.binding(2);
    let result = result.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes));
    for ((a, b), quotient) in a.iter().zip(&b).zip(result) {
        assert_eq!(quotient, a.wrapping_div(*b), "{a} / {b}");
    }
}

/// Memory that a binding does not have is zero or dropped by the buffer's bounds, or traps with the instruction's name.
#[test]
fn accesses_outside_of_buffers_do_no_harm() {
    let input = numbers(64 * 1024, 8);
    let mut kernel = kernel!("red_addf_f32");
    let trap = kernel.run(vec![floats(&input[..1000]), floats(&[f32::NAN; 64])], 64, [256, 1, 1], 1).unwrap_err();
    let text = trap.to_string();
    assert!(text.starts_with("load of") && text.contains("no allocation, in buffer_load_b"), "{text}");
}
