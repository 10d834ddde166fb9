//! Matrices that warps load, multiply and store.

use std::fmt::Write;

use crate::support::{Buffers, load, run, text};
use vireo_simt::prim::{F16, fdemote_bf16};

/// How values are in memory.
#[derive(Clone, Copy)]
struct Format {
    name: &'static str,
    bytes: usize,
    to_bits: fn(f64) -> u64,
    from_bits: fn(u64) -> f64,
}

const HALF: Format = Format {
    name: "f16",
    bytes: 2,
    to_bits: |value| F16::of_f64(value).0.into(),
    from_bits: |bits| F16(bits as u16).to_f32().into(),
};
const BRAIN: Format = Format {
    name: "bf16",
    bytes: 2,
    to_bits: |value| fdemote_bf16(value as f32).into(),
    from_bits: |bits| f32::from_bits((bits as u32) << 16).into(),
};
const SHORT_SINGLE: Format = Format { name: "tf32", ..SINGLE };
const SINGLE: Format = Format {
    name: "f32",
    bytes: 4,
    to_bits: |value| (value as f32).to_bits().into(),
    from_bits: |bits| f32::from_bits(bits as u32).into(),
};
const DOUBLE: Format = Format { name: "f64", bytes: 8, to_bits: f64::to_bits, from_bits: f64::from_bits };
const SIGNED: Format =
    Format { name: "s8", bytes: 1, to_bits: |value| value as i8 as u8 as u64, from_bits: |bits| (bits as i8).into() };
const UNSIGNED: Format =
    Format { name: "u8", bytes: 1, to_bits: |value| value as u8 as u64, from_bits: |bits| (bits as u8).into() };
const INTEGER: Format = Format {
    name: "s32",
    bytes: 4,
    to_bits: |value| value as i32 as u32 as u64,
    from_bits: |bits| (bits as i32).into(),
};

/// Sizes, whether the matrices are by columns in memory, and types of the factors, sums and results, each with the
/// number of registers.
struct Case {
    sizes: [usize; 3],
    by_columns: [bool; 4],
    formats: [Format; 4],
    registers: [usize; 4],
    suffixes: &'static str,
    space: &'static str,
}

fn layout(by_columns: bool) -> &'static str {
    if by_columns { "col" } else { "row" }
}

fn place(by_columns: bool, [row, column]: [usize; 2], stride: usize) -> usize {
    if by_columns { column * stride + row } else { row * stride + column }
}

impl Case {
    /// Rows and columns of the factors, the sums and the results.
    fn sizes(&self) -> [[usize; 2]; 4] {
        let [m, n, k] = self.sizes;
        [[m, k], [k, n], [m, n], [m, n]]
    }

    /// Elements from one row or column to the next: more than there are, but for the first factor, which names none.
    fn stride(&self, index: usize) -> usize {
        let [rows, columns] = self.sizes()[index];
        let inner = if self.by_columns[index] { rows } else { columns };
        if index == 0 { inner } else { inner + 16 }
    }

    fn text(&self) -> String {
        let [m, n, k] = self.sizes;
        let shape = format!("m{m}n{n}k{k}");
        let (mut body, mut lists) = (String::new(), Vec::new());
        for (index, count) in self.registers.into_iter().enumerate() {
            let is_wide = self.formats[index].bytes == 8;
            let names: Vec<String> =
                (0..count).map(|at| format!("%{}{}", if is_wide { "rd" } else { "r" }, 20 * index + at + 10)).collect();
            lists.push(format!("{{{}}}", names.join(", ")));
        }
        for (index, matrix) in ["a", "b", "c"].into_iter().enumerate() {
            let (layout, ty) = (layout(self.by_columns[index]), self.formats[index].name);
            let stride = if index == 0 { String::new() } else { format!(", {}", self.stride(index)) };
            writeln!(
                body,
                "ld.param.u64 %rd{index}, [p{index}]; wmma.load.{matrix}.sync.aligned.{layout}.{shape}{}.{ty} {}, [%rd{index}]{stride};",
                self.space, lists[index]
            )
            .unwrap();
        }
        let [a, b, ..] = self.by_columns.map(layout);
        let (to, layout) = (self.formats[3].name, layout(self.by_columns[3]));
        writeln!(
            body,
            "wmma.mma.sync.aligned.{a}.{b}.{shape}{} {}, {}, {}, {};\n\
             mov.u32 %r1, {}; ld.param.u64 %rd3, [p3]; wmma.store.d.sync.aligned.{layout}.{shape}{}.{to} [%rd3], {}, %r1;",
            self.suffixes, lists[3], lists[0], lists[1], lists[2], self.stride(3), self.space, lists[3]
        )
        .unwrap();
        text(&format!(
            ".entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3) {{\n\
             .reg .b32 %r<100>; .reg .b64 %rd<100>;\n{body}ret; }}"
        ))
    }

    fn check(&self) {
        let text = self.text();
        let module = load(&text);
        let (mut buffers, mut values, mut addresses) = (Buffers::new(), Vec::new(), Vec::new());
        for index in 0..4 {
            let ([rows, columns], stride) = (self.sizes()[index], self.stride(index));
            let format = self.formats[index];
            let outer = if self.by_columns[index] { columns } else { rows };
            let mut bytes = vec![0xEE; stride * outer * format.bytes];
            let number = |row: usize, column: usize| ((row * 7 + column * 13 + index * 5) % 11) as f64 - 5.0;
            let mut matrix = vec![0.0; rows * columns];
            for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
                let bits = (format.to_bits)(number(row, column));
                matrix[row * columns + column] = (format.from_bits)(bits);
                let at = place(self.by_columns[index], [row, column], stride) * format.bytes;
                if index < 3 {
                    bytes[at..at + format.bytes].copy_from_slice(&bits.to_le_bytes()[..format.bytes]);
                }
            }
            values.push(matrix);
            addresses.push(buffers.add(&bytes));
        }
        run(module.kernel("k").unwrap(), &buffers, [1, 1, 1], [32, 1, 1], &addresses)
            .unwrap_or_else(|trap| panic!("{trap}\n{text}"));
        let ([m, n, k], format) = (self.sizes, self.formats[3]);
        let found = buffers.bytes(addresses[3]);
        for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
            let products = (0..k).map(|inner| values[0][row * k + inner] * values[1][inner * n + column]);
            let expected = products.sum::<f64>() + values[2][row * n + column];
            let at = place(self.by_columns[3], [row, column], self.stride(3)) * format.bytes;
            let mut bits = [0; 8];
            bits[..format.bytes].copy_from_slice(&found[at..at + format.bytes]);
            let value = (format.from_bits)(u64::from_le_bytes(bits));
            assert_eq!(value, expected, "row {row}, column {column}:\n{text}");
        }
        // The bytes between rows are as they were.
        let untouched = found.iter().filter(|byte| **byte == 0xEE).count();
        assert!(untouched >= 16 * format.bytes, "{untouched}");
    }
}

/// All layouts of a product, in turn.
fn check(sizes: [usize; 3], formats: [Format; 4], registers: [usize; 4], suffixes: &'static str) {
    for number in 0..8 {
        let by_columns = [number & 1 != 0, number & 2 != 0, number & 4 != 0, number % 3 == 0];
        let space = if number % 2 == 0 { ".global" } else { "" };
        Case { sizes, by_columns, formats, registers, suffixes, space }.check();
    }
}

/// The sizes with sixteen columns of the first matrix, and the registers of bf16 and bytes for each.
const SIZES: [([usize; 3], [usize; 2], [usize; 2]); 3] =
    [([16, 16, 16], [4, 4], [2, 2]), ([32, 8, 16], [8, 2], [4, 1]), ([8, 32, 16], [2, 8], [1, 4])];

#[test]
fn products_of_halves() {
    for (sizes, [a, b], _) in SIZES {
        check(sizes, [HALF, HALF, SINGLE, SINGLE], [8, 8, 8, 8], ".f32.f32");
        check(sizes, [HALF, HALF, HALF, HALF], [8, 8, 4, 4], ".f16.f16");
        check(sizes, [HALF, HALF, SINGLE, HALF], [8, 8, 8, 4], ".f16.f32");
        check(sizes, [HALF, HALF, HALF, SINGLE], [8, 8, 4, 8], ".f32.f16");
        check(sizes, [BRAIN, BRAIN, SINGLE, SINGLE], [a, b, 8, 8], ".f32.bf16.bf16.f32");
    }
}

#[test]
fn products_of_bytes() {
    for (sizes, _, [a, b]) in SIZES {
        check(sizes, [SIGNED, SIGNED, INTEGER, INTEGER], [a, b, 8, 8], ".s32.s8.s8.s32");
        check(sizes, [UNSIGNED, UNSIGNED, INTEGER, INTEGER], [a, b, 8, 8], ".s32.u8.u8.s32.satfinite");
    }
}

#[test]
fn products_of_words_and_doubles() {
    check([16, 16, 8], [SHORT_SINGLE, SHORT_SINGLE, SINGLE, SINGLE], [4, 4, 8, 8], ".f32.tf32.tf32.f32");
    check([8, 8, 4], [DOUBLE, DOUBLE, DOUBLE, DOUBLE], [1, 1, 2, 2], ".f64.f64.f64.f64");
    check([8, 8, 4], [DOUBLE, DOUBLE, DOUBLE, DOUBLE], [1, 1, 2, 2], ".rz.f64.f64.f64.f64");
}

#[test]
fn a_matrix_needs_the_whole_warp_its_alignment_and_its_registers() {
    let case = Case {
        sizes: [16, 16, 16],
        by_columns: [false; 4],
        formats: [HALF, HALF, SINGLE, SINGLE],
        registers: [8; 4],
        suffixes: ".f32.f32",
        space: ".global",
    };
    let module = load(&case.text());
    let mut buffers = Buffers::new();
    let address = buffers.add(&[0; 4096]);
    let run = |threads: u32, address: u64| {
        run(module.kernel("k").unwrap(), &buffers, [1, 1, 1], [threads, 1, 1], &[address; 4]).unwrap_err().to_string()
    };
    assert!(run(20, address).contains("not all lanes"));
    assert!(run(32, address + 1).contains("not aligned"));
    assert!(run(32, address + 4096 - 64).contains("no allocation"));
    let wrong = case.text().replace("{%r10, ", "{");
    let error = vireo_ptx::Module::load(wrong.as_bytes(), &vireo_ptx::Options::default()).unwrap_err();
    assert!(error.message.contains("7 registers of a matrix: expected 8"), "{error}");
}
