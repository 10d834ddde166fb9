//! Each form of an instruction that computes on lanes, on the library and on the interpreter, with edge values and
//! drawn ones.

use serde_json::{Value, json};
use vireo_core::status::Result;
use vireo_ptx::instructions::INSTRUCTIONS;
use vireo_ptx::isa::Form;
use vireo_ptx::suffixes::Type;

use self::form_kernels::{Draw, kernel_of};
use crate::Request;
use crate::gpu::Gpu;

#[path = "../../../ptx/tests/suite/form_kernels.rs"]
mod form_kernels;

/// Bytes of the inputs and results of a row.
const INPUT: usize = 40;
const OUTPUT: usize = 16;

/// Threads of a block.
const BLOCK: usize = 128;

/// Rows of a form, and of a short run. A short run takes one form of so many.
const ROWS: usize = 1 << 16;
const SHORT_ROWS: usize = 128;
const SHORT_STEP: usize = 8;

/// The differences between two devices in the rows of a form.
#[derive(Default)]
struct Difference {
    rows: u64,
    /// Both are no numbers, with other bits.
    nans: u64,
    /// The largest distance, in units of the last place.
    units: u64,
    first: Option<Value>,
}

/// Runs all forms that the device has.
pub fn forms(request: &Request) -> Result<Value> {
    let real = Gpu::open(&request.real()?)?;
    let software = Gpu::open(&Request::software(real.context.description.capability)?)?;
    let (rows, step) = if request.short { (SHORT_ROWS, SHORT_STEP) } else { (ROWS, 1) };
    let mut draw = Draw(0x5EED_0005);
    let (mut number, mut ran, mut equal) = (0, 0, 0);
    let (mut newer, mut refused, mut exact, mut approximate) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for form in
        INSTRUCTIONS.iter().flat_map(|info| info.variants.iter().flat_map(|variant| Form::of_lanes(info, variant)))
    {
        number += 1;
        if number % step != 0 {
            continue;
        }
        let name = form.text();
        let of_software = software.capability().min(real.capability());
        if form.since().1 > of_software {
            newer.push(name);
            continue;
        }
        let (found, expected, inputs, ty) = match both(&form, &real, &software, &mut draw, rows) {
            Ok(outcome) => outcome,
            Err(status) => {
                refused.push(json!({"form": name, "why": status.to_string()}));
                continue;
            }
        };
        ran += 1;
        let difference = compare(ty, form.variant.carry_out, &found, &expected, &inputs);
        let entry = json!({
            "form": name,
            "rows": difference.rows,
            "nans": difference.nans,
            "units": difference.units,
            "first": difference.first,
        });
        match (difference.rows, difference.nans, name.contains(".approx")) {
            (0, 0, _) => equal += 1,
            (0, _, _) | (_, _, true) => approximate.push(entry),
            _ => exact.push(entry),
        }
    }
    let outcome = if exact.is_empty() && refused.is_empty() { "passed" } else { "differs" };
    Ok(json!({
        "outcome": outcome,
        "rows": rows,
        "forms": ran,
        "equal": equal,
        "exact_that_differ": exact,
        "approximate_that_differ": approximate,
        "refused": refused,
        "newer_than_the_device": newer.len(),
    }))
}

type Outcome = (Vec<u8>, Vec<u8>, Vec<[u64; 5]>, Type);

fn both(form: &Form, real: &Gpu, software: &Gpu, draw: &mut Draw, rows: usize) -> Result<Outcome> {
    let count = form.variant.operands.len();
    let types: Vec<Type> = (0..count).filter_map(|index| form.operand_type(index)).collect();
    let (name, results) = (form.text(), form.variant.results);
    let kernel = kernel_of(&name, &types, results, (form.variant.carry_in, form.variant.carry_out));
    let mut inputs = Vec::with_capacity(rows);
    for _ in 0..rows {
        let mut values = [0u64; 5];
        for (value, ty) in values.iter_mut().zip(&types[results..]) {
            *value = draw.value(*ty);
        }
        values[4] = draw.bits() >> 17 & 1;
        inputs.push(values);
    }
    let bytes: Vec<u8> = inputs.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
    debug_assert_eq!(bytes.len(), rows * INPUT);
    let run = |gpu: &Gpu| -> Result<Vec<u8>> {
        let code = gpu.load(&format!("{}{kernel}", gpu.header(form.since().0)))?;
        let function = code.function("k")?;
        let (from, to) = (gpu.memory(&bytes)?, gpu.memory(&vec![0; rows * OUTPUT])?);
        let grid = [(rows / BLOCK) as u32, 1, 1];
        gpu.launch(function, (grid, [BLOCK as u32, 1, 1], 0), &[from.address, to.address])?;
        gpu.read(&to, rows * OUTPUT)
    };
    Ok((run(real)?, run(software)?, inputs, types[0]))
}

fn compare(ty: Type, has_carry: bool, found: &[u8], expected: &[u8], inputs: &[[u64; 5]]) -> Difference {
    let mut difference = Difference::default();
    let word = |bytes: &[u8], at: usize| {
        bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
    };
    for (row, values) in inputs.iter().enumerate() {
        let at = row * OUTPUT;
        let (one, other) = (word(found, at), word(expected, at));
        let carries = has_carry && word(found, at + 8) != word(expected, at + 8);
        if one == other && !carries {
            continue;
        }
        let (size, parts) = part(ty);
        let mask = u64::MAX >> (64 - size);
        let pairs = (0..parts).map(|part| (one >> (part * size) & mask, other >> (part * size) & mask));
        let pairs: Vec<(u64, u64)> = pairs.filter(|(one, other)| one != other).collect();
        if !carries && pairs.iter().all(|(one, other)| is_nan(ty, *one) && is_nan(ty, *other)) {
            difference.nans += 1;
            continue;
        }
        difference.rows += 1;
        let units = pairs.iter().map(|(one, other)| distance(*one, *other, size)).max();
        difference.units = difference.units.max(units.unwrap_or(0));
        difference.first.get_or_insert_with(|| {
            json!({"inputs": values.map(|value| format!("{value:#x}")), "found": format!("{one:#x}"), "interpreter": format!("{other:#x}")})
        });
    }
    difference
}

/// Bits of a part of a type, and its parts.
fn part(ty: Type) -> (u32, u32) {
    match ty {
        Type::F16x2 | Type::Bf16x2 => (16, 2),
        Type::F32x2 => (32, 2),
        _ => (ty.bits().max(8), 1),
    }
}

/// Whether bits are no number, in a part of a type.
fn is_nan(ty: Type, bits: u64) -> bool {
    match ty {
        Type::F16 | Type::F16x2 => bits & 0x7FFF > 0x7C00,
        Type::Bf16 | Type::Bf16x2 => bits & 0x7FFF > 0x7F80,
        Type::F32 | Type::F32x2 => bits & 0x7FFF_FFFF > 0x7F80_0000,
        Type::F64 => bits & (u64::MAX >> 1) > 0x7FF0 << 48,
        _ => false,
    }
}

/// How many numbers of the format are between two, if they are floats.
fn distance(one: u64, other: u64, size: u32) -> u64 {
    let ordered = |bits: u64| {
        let sign = 1i128 << (size - 1);
        let bits = i128::from(bits);
        if bits & sign != 0 { sign - bits } else { bits }
    };
    u64::try_from((ordered(one) - ordered(other)).unsigned_abs()).unwrap_or(u64::MAX)
}
