//! Each form of an instruction that computes on lanes, run on edge vectors and drawn ones, against a reference that
//! shares nothing with the interpreter: integers of 128 bits, and floats in integers.

use super::reference::{Case, Expected, format};
use super::soft::{self, Number};
use crate::support::{Buffers, load, run, text};
use vireo_ptx::instructions::INSTRUCTIONS;
use vireo_ptx::isa::Form;
use vireo_ptx::suffixes::{Type, TypeKind};

const THREADS: usize = 96;

struct Draw(u64);

impl Draw {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 ^ self.0 >> 29
    }

    /// A value of a type: half of them edges.
    fn value(&mut self, ty: Type) -> u64 {
        let bits = ty.bits();
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        let edges: &[u64] = match ty {
            Type::F16 => &[0, 0x8000, 0x3C00, 0xBC00, 1, 0x3FF, 0x400, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0x3555, 0x6400],
            Type::Bf16 => &[0, 0x8000, 0x3F80, 0xBF80, 1, 0x7F, 0x80, 0x7F7F, 0x7F80, 0xFF80, 0x7FC0, 0x3EAA],
            Type::F32 => &[
                0,
                1 << 31,
                0x3F80_0000,
                0xBF80_0000,
                1,
                0x7F_FFFF,
                0x80_0000,
                0x7F7F_FFFF,
                0x7F80_0000,
                0xFF80_0000,
                0x7FC0_0000,
                0x3EAA_AAAB,
                0x4B80_0001,
                0x3F00_0000,
                0x4F00_0000,
                0xCF00_0000,
                0x4F80_0000,
                0x5F00_0000,
            ],
            Type::F64 => &[
                0,
                1 << 63,
                0x3FF0 << 48,
                0xBFF0 << 48,
                1,
                0xF_FFFF_FFFF_FFFF,
                0x10 << 48,
                0x7FEF_FFFF_FFFF_FFFF,
                0x7FF0 << 48,
                0xFFF0 << 48,
                0x7FF8 << 48,
                0x3FD5_5555_5555_5555,
                0x41E0 << 48,
                0x43E0 << 48,
                0x41DF_FFFF_FFC0_0000,
            ],
            _ => &[0, 1, 2, u64::MAX, u64::MAX >> 1, 1 << 63, 0x7FFF, 0x8000, 0xFF, 0x80, 31, 32, 33, 63, 64, 1 << 31],
        };
        let value = match self.bits() >> 40 & 7 {
            0..=2 => edges[(self.bits() >> 20) as usize % edges.len()],
            // Floats near to one, and small integers.
            3 | 4 if ty.kind() == TypeKind::Float => match ty {
                Type::F16 => 0x3000 + (self.bits() >> 30) % 0x1800,
                Type::Bf16 => 0x3E00 + (self.bits() >> 30) % 0x200,
                Type::F32 => (0x3D00_0000 + (self.bits() >> 20) % 0x600_0000) | ((self.bits() >> 40 & 1) << 31),
                _ => 0x3F90 << 48 | self.bits() >> 6 & !(0xFFF << 52) | (((self.bits() >> 30) % 16) << 52),
            },
            3 => (self.bits() >> 50) & 0x3F,
            4 => edges[(self.bits() >> 20) as usize % edges.len()].wrapping_add(self.bits() >> 60),
            _ => self.bits() ^ self.bits() << 32,
        };
        match ty {
            Type::F16x2 | Type::Bf16x2 => {
                let part = if ty == Type::F16x2 { Type::F16 } else { Type::Bf16 };
                self.value(part) | self.value(part) << 16
            }
            Type::E4m3x2 | Type::E5m2x2 => self.bits() >> 20 & 0xFFFF,
            Type::F32x2 => self.value(Type::F32) | self.value(Type::F32) << 32,
            _ => value & mask,
        }
    }
}

/// A register for a type, by its number.
fn register(ty: Type, number: usize) -> String {
    match ty.bits() {
        1 => format!("%p{number}"),
        8 | 32 => format!("%r{number}"),
        16 => format!("%h{number}"),
        _ => format!("%rd{number}"),
    }
}

/// A kernel that runs a form on inputs of four values for each thread, with results of two values.
fn kernel_of(form: &str, types: &[Type], results: usize, carry: (bool, bool)) -> String {
    let mut body = String::from(
        "ld.param.u64 %rd40, [p0]; ld.param.u64 %rd41, [p1]; mov.u32 %r60, %tid.x; mul.wide.u32 %rd42, %r60, 40;\n\
         add.s64 %rd43, %rd40, %rd42; mul.wide.u32 %rd44, %r60, 16; add.s64 %rd45, %rd41, %rd44;\n",
    );
    let mut operands = Vec::new();
    for (index, ty) in types.iter().enumerate() {
        let name = register(*ty, index);
        if index >= results {
            let at = 8 * (index - results);
            body += &match ty.bits() {
                1 => format!("ld.global.b32 %r70, [%rd43+{at}]; setp.ne.b32 {name}, %r70, 0;\n"),
                8 | 32 => format!("ld.global.b32 {name}, [%rd43+{at}];\n"),
                16 => format!("ld.global.b16 {name}, [%rd43+{at}];\n"),
                _ => format!("ld.global.b64 {name}, [%rd43+{at}];\n"),
            };
        }
        operands.push(name);
    }
    if carry.0 {
        body += "ld.global.b32 %r71, [%rd43+32]; add.cc.u32 %r72, %r71, 0xFFFFFFFF;\n";
    }
    body += &format!("{form} {};\n", operands.join(", "));
    if carry.1 {
        body += "addc.u32 %r73, 0, 0; st.global.b32 [%rd45+8], %r73;\n";
    }
    let name = &operands[0];
    body += &match types[0].bits() {
        1 => format!("selp.b32 %r74, 1, 0, {name}; cvt.u64.u32 %rd46, %r74; st.global.b64 [%rd45], %rd46;\n"),
        8 | 32 => format!("cvt.u64.u32 %rd46, {name}; st.global.b64 [%rd45], %rd46;\n"),
        16 => format!("cvt.u64.u16 %rd46, {name}; st.global.b64 [%rd45], %rd46;\n"),
        _ => format!("st.global.b64 [%rd45], {name};\n"),
    };
    text(&format!(
        ".visible .entry k(.param .u64 p0, .param .u64 p1) {{\n.reg .pred %p<20>; .reg .b16 %h<20>; .reg .b32 %r<80>;\n\
         .reg .b64 %rd<60>;\n{body}ret;\n}}\n"
    ))
}

fn check(form: &Form, draw: &mut Draw) -> Result<usize, String> {
    let count = form.variant.operands.len();
    let types: Vec<Type> = (0..count).map(|index| form.operand_type(index).unwrap()).collect();
    let (name, results) = (form.text(), form.variant.results);
    let module = load(&kernel_of(&name, &types, results, (form.variant.carry_in, form.variant.carry_out)));
    let mut inputs = Vec::new();
    for _ in 0..THREADS {
        let mut values = [0u64; 5];
        for (value, ty) in values.iter_mut().zip(&types[results..]) {
            *value = draw.value(*ty);
        }
        values[4] = draw.bits() >> 17 & 1;
        inputs.push(values);
    }
    let mut buffers = Buffers::new();
    let bytes: Vec<u8> = inputs.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
    let (from, to) = (buffers.add(&bytes), buffers.add(&[0; 16 * THREADS]));
    run(module.kernel("k").unwrap(), &buffers, [1, 1, 1], [THREADS as u32, 1, 1], &[from, to])
        .unwrap_or_else(|trap| panic!("{name}: {trap}"));
    let outputs = buffers.bytes(to);
    let mut checked = 0;
    for (thread, values) in inputs.iter().enumerate() {
        let parts: Vec<&str> = name.split('.').collect();
        let from = match parts[0] {
            "slct" => types[3],
            "selp" => types[1],
            _ => types[results.min(count - 1)],
        };
        let inputs = [values[0], values[1], values[2], values[3]];
        let case = Case { parts, to: types[0], from, values: inputs, carry: values[4] != 0, sources: count - results };
        let Some((expected, carry)) = case.expected() else { continue };
        let word = |at: usize| u64::from_le_bytes(outputs[16 * thread + at..][..8].try_into().unwrap());
        let found = word(0);
        checked += 1;
        match expected {
            Expected::Bits(expected) => {
                let both_nan = float_nan(types[0], found) && float_nan(types[0], expected);
                let same = match types[0] {
                    Type::F16x2 | Type::Bf16x2 | Type::F32x2 => same_parts(types[0], found, expected),
                    _ => found == expected || both_nan,
                };
                if !same {
                    return Err(format!("{name} of {inputs:x?}: {found:#x}, not {expected:#x}"));
                }
            }
            Expected::Near(expected) => near(&name, types[0], &inputs, found, expected)?,
        }
        if let (true, Some(carry)) = (form.variant.carry_out, carry)
            && word(8) != u64::from(carry)
        {
            return Err(format!("the carry of {name} of {inputs:x?}"));
        }
    }
    Ok(checked)
}

fn float_nan(ty: Type, bits: u64) -> bool {
    format(ty).is_some_and(|format| soft::decode(format, bits) == Number::Nan)
}

fn same_parts(ty: Type, found: u64, expected: u64) -> bool {
    let Some(format) = format(ty) else { return false };
    let mask = !0 >> (64 - format.bits);
    [0, format.bits].into_iter().all(|shift| {
        let (found, expected) = (found >> shift & mask, expected >> shift & mask);
        let is_nan = |bits| soft::decode(format, bits) == Number::Nan;
        found == expected || is_nan(found) && is_nan(expected)
    })
}

/// Approximations: within a few units of the format, and zero where the result would be subnormal.
fn near(name: &str, ty: Type, inputs: &[u64; 4], found: u64, expected: f64) -> Result<(), String> {
    let Some(format) = format(ty) else { return Ok(()) };
    let value = soft::value(soft::decode(format, found));
    let unit = 2f64.powi(-(format.digits.min(22) as i32 - 2));
    let least = 2f64.powi(format.least);
    let largest = 2f64.powi((-format.least + 1).min(1023));
    let fits = expected.is_nan() && value.is_nan()
        || value == expected
        || (value - expected).abs() <= unit * expected.abs()
        || expected.abs() < least * 1.01 && value.abs() <= least * 1.01
        || expected.abs() >= largest && value.is_infinite();
    if fits { Ok(()) } else { Err(format!("{name} of {inputs:x?}: {value:e}, not {expected:e}")) }
}

#[test]
fn forms_compute_what_the_reference_does() {
    let mut draw = Draw(0x5EED_0005);
    let (mut forms, mut unchecked, mut wrong) = (0, Vec::new(), Vec::new());
    for info in INSTRUCTIONS {
        for variant in info.variants {
            for form in Form::of_lanes(info, variant) {
                forms += 1;
                match check(&form, &mut draw) {
                    Ok(0) => unchecked.push(form.text()),
                    Ok(_) => {}
                    Err(error) => wrong.push(error),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {forms} forms are wrong:\n{}", wrong.len(), wrong.join("\n"));
    println!("{forms} forms, {} without a reference: {unchecked:?}", unchecked.len());
    assert!(forms > 1500 && unchecked.len() < 12, "{forms} forms, without a reference: {unchecked:?}");
}
