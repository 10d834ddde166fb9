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
