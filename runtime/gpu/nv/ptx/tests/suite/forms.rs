//! Each form of an instruction that computes on lanes, run on edge vectors and drawn ones, against a reference that
//! shares nothing with the interpreter: integers of 128 bits, and floats in integers.

use super::form_kernels::{Draw, kernel_of};
use super::reference::{Case, Expected, format};
use super::soft::{self, Number};
use crate::support::{Buffers, load, run, text};
use vireo_ptx::instructions::INSTRUCTIONS;
use vireo_ptx::isa::Form;
use vireo_ptx::suffixes::Type;

const THREADS: usize = 96;

fn check(form: &Form, draw: &mut Draw) -> Result<usize, String> {
    let count = form.variant.operands.len();
    let types: Vec<Type> = (0..count).map(|index| form.operand_type(index).unwrap()).collect();
    let (name, results) = (form.text(), form.variant.results);
    let kernel = kernel_of(&name, &types, results, (form.variant.carry_in, form.variant.carry_out));
    let module = load(&text(&kernel));
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
