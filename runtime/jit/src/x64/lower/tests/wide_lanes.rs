//! Vectors of four lanes, of 64 bits or of 32 in the lower half of a register, compute what the interpreter's functions
//! do.

use dynasmrt::DynasmApi;

use super::super::lanes;
use super::super::{Asm, Src, emit};
use super::cases::{Case, cases};
use super::machine::run_vectors;
use super::{Features, Random};
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{Interleave, Rows};
use crate::ir::types::{Lanes, Scalar, Ty, Width};

const WIDTH: Width = Width::Four;
const LANES: usize = 4;
/// The register that holds the address of memory.
const MEMORY: u8 = 7;
const REGISTERS: [u8; 15] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];
/// The vector in memory that is the result. Those before it are operands.
const RESULT: usize = 3;

fn has_vectors() -> bool {
    let has = Features::detect().avx2;
    if !has {
        println!("skipped: this processor has no vectors of four lanes");
    }
    has
}

fn run(memory: &mut [u64], body: impl FnOnce(&mut Asm)) {
    run_vectors(memory, MEMORY, body);
}

/// Loads vector number `operand` in memory, each of which has room for four lanes of 64 bits.
fn load(asm: &mut Asm, is_wide: bool, register: u8, operand: usize) {
    let (primitive, per_vector) = if is_wide { (Primitive::LoadI64, 4) } else { (Primitive::LoadI32, 8) };
    lanes::load(asm, WIDTH, primitive, register, (MEMORY, Src::Imm((operand * per_vector) as i32)), 0, None);
}

fn store(asm: &mut Asm, is_wide: bool, register: u8) {
    let (primitive, per_vector) = if is_wide { (Primitive::StoreI64, 4) } else { (Primitive::StoreI32, 8) };
    lanes::store(asm, WIDTH, primitive, (MEMORY, Src::Imm((RESULT * per_vector) as i32)), register, 0, None);
}

/// A lane of a vector in memory.
fn lane(memory: &[u64], vector: usize, lane: usize, is_wide: bool) -> u64 {
    match is_wide {
        true => memory[vector * LANES + lane],
        false => memory[vector * LANES + lane / 2] >> (32 * (lane % 2)) & u64::from(u32::MAX),
    }
}

#[test]
fn four_lanes_compute_what_the_interpreter_does() {
    if !has_vectors() {
        return;
    }
    let mut random = Random(7);
    let (mut wide, mut narrow) = (0, 0);
    for case in cases().iter().filter(|case| case.primitive.lanes(case.of) == Some(Lanes::Instructions)) {
        *if case.primitive.is_wide(case.of) { &mut wide } else { &mut narrow } += 1;
        (0..60).for_each(|_| check(case, &mut random));
    }
    assert!(wide > 45 && narrow > 40, "only {wide} and {narrow} primitives");
}

/// Computes a primitive in random registers.
fn check(case: &Case, random: &mut Random) {
    let chooses = |index: usize| case.primitive == Primitive::Select && index == 0;
    let is_wide = |index: usize| if chooses(index) { case.of.is_wide() } else { case.params[index].is_wide() };
    let is_truth = case.primitive.result(case.of) == Ty::Truth;
    let is_result_wide = if is_truth { case.of.is_wide() } else { case.result().is_wide() };
    let registers: Vec<u8> = case.params.iter().map(|_| random.of(&REGISTERS)).collect();
    let dst = random.of(&REGISTERS);
    let count = registers.len();
    let share = |a: usize, b: usize| registers[a] == registers[b];
    // A register has one operand of one size, and what chooses is no operand to choose from.
    if (0..count).any(|a| (0..a).any(|b| share(a, b) && (is_wide(a) != is_wide(b) || chooses(b)))) {
        return;
    }
    let mut memory = vec![0_u64; LANES * (RESULT + 1)];
    for index in 0..count {
        for lane in 0..LANES {
            let value = random.value(case.params[index]);
            let value = if chooses(index) { 0_u64.wrapping_sub(value & 1) } else { value };
            match is_wide(index) {
                true => memory[index * LANES + lane] = value,
                false => memory[index * LANES + lane / 2] |= (value & u64::from(u32::MAX)) << (32 * (lane % 2)),
            }
        }
        // Operands that share a register have one value.
        if let Some(same) = (0..index).find(|other| share(*other, index)) {
            memory.copy_within(same * LANES..(same + 1) * LANES, index * LANES);
        }
    }
    run(&mut memory, |asm| {
        for (index, register) in registers.iter().enumerate() {
            load(asm, is_wide(index), *register, index);
        }
        lanes::value(asm, WIDTH, (case.primitive, case.of), dst, &registers);
        store(asm, is_result_wide, dst);
    });
    for number in 0..LANES {
        let values: Vec<u64> = (0..count).map(|index| lane(&memory, index, number, is_wide(index))).collect();
        let (of, expected) = (case.expect)(&values);
        let (actual, mut expected) = (lane(&memory, RESULT, number, is_result_wide), expected.unwrap());
        if is_truth {
            expected = 0_u64.wrapping_sub(expected) & if is_result_wide { u64::MAX } else { u32::MAX.into() };
        }
        let is_nan = |bits: u64| match of {
            Scalar::F32 => f32::from_bits(bits as u32).is_nan(),
            Scalar::F64 => f64::from_bits(bits).is_nan(),
            Scalar::I32 | Scalar::I64 => false,
        };
        assert!(
            actual == expected || is_nan(actual) && is_nan(expected),
            "{:?} on {:?} of {values:x?} in {registers:?} to {dst} is {actual:x}, not {expected:x}",
            case.primitive,
            case.of
        );
    }
}

/// Memory in which each word has its own value.
fn numbered(words: usize) -> Vec<u64> {
    (1..=words as u64).map(|word| word.wrapping_mul(0x9000_0001_3000_0007)).collect()
}

#[test]
fn four_lanes_come_and_go_one_by_one() {
    if !has_vectors() {
        return;
    }
    for of in [Scalar::F64, Scalar::I64, Scalar::F32, Scalar::I32] {
        for number in 0..LANES {
            let mut memory = numbered(LANES * (RESULT + 1));
            let expected = lane(&memory, 1, number, of.is_wide());
            run(&mut memory, |asm| {
                load(asm, of.is_wide(), 3, 1);
                lanes::extract(asm, WIDTH, of, 9, 3, number as u8);
                lanes::splat(asm, WIDTH, of, 4, 9);
                store(asm, of.is_wide(), 4);
            });
            let all = (0..LANES).all(|other| lane(&memory, RESULT, other, of.is_wide()) == expected);
            assert!(all, "lane {number} of {of:?}");
        }
    }
}

/// Makes the mask of the first lanes as the vectoriser makes it: of 32 bits in register 3, and of 64 in register 2.
fn mask(asm: &mut Asm, count: i32) {
    emit!(asm; mov Rd(6), count);
    lanes::splat(asm, WIDTH, Scalar::I32, 4, 6);
    lanes::multiples(asm, WIDTH, 5, 1);
    lanes::value(asm, WIDTH, (Primitive::LtS, Scalar::I32), 3, &[5, 4]);
    lanes::value(asm, WIDTH, (Primitive::Sext64, Scalar::I64), 2, &[3]);
}

#[test]
fn masks_of_four_lanes_leave_memory_alone() {
    if !has_vectors() {
        return;
    }
    for count in 0..=LANES {
        for (is_wide, loads, stores) in
            [(true, Primitive::LoadF64, Primitive::StoreF64), (false, Primitive::LoadF32, Primitive::StoreF32)]
        {
            let mut memory = numbered(LANES * (RESULT + 1));
            let before = memory.clone();
            let (address, per_vector) = ((MEMORY, Src::Imm(0)), if is_wide { 1 } else { 2 });
            run(&mut memory, |asm| {
                mask(asm, count as i32);
                let mask = Some(if is_wide { 2 } else { 3 });
                lanes::load(asm, WIDTH, loads, 8, address, 0, mask);
                store(asm, is_wide, 8);
                load(asm, is_wide, 9, 0);
                lanes::store(asm, WIDTH, stores, address, 9, per_vector, mask);
                // The third vector is gathered from every other element, and stored whole.
                lanes::multiples(asm, WIDTH, 5, 2);
                let displacement = (1, if is_wide { 3 } else { 2 });
                // Without a mask where none is needed.
                let mask_of_load = mask.filter(|_| count < LANES);
                lanes::load_apart(asm, WIDTH, 13, address, (5, 2), displacement, mask_of_load);
                lanes::store(asm, WIDTH, stores, address, 13, 2 * per_vector, mask);
            });
            for number in 0..LANES {
                let is_in = number < count;
                let what = format!("lane {number} of {count}, {loads:?}");
                let at = |memory: &[u64], vector| lane(memory, vector, number, is_wide);
                assert_eq!(at(&memory, RESULT), if is_in { at(&before, 0) } else { 0 }, "{what}");
                assert_eq!(at(&memory, 1), at(&before, usize::from(!is_in)), "{what} that is stored");
                if is_in {
                    // The element that was stored before is at odd indices.
                    let element = 1 + 2 * number;
                    let from = if is_wide { (element / LANES, element % LANES) } else { (element / 8, element % 8) };
                    let gathered = if is_wide {
                        lane(&memory, from.0, from.1, true)
                    } else {
                        memory[(from.0 * 8 + from.1) / 2] >> (32 * (from.1 % 2)) & u64::from(u32::MAX)
                    };
                    assert_eq!(at(&memory, 2), gathered, "{what} that is gathered");
                } else {
                    assert_eq!(at(&memory, 2), at(&before, 2), "{what} that is not gathered");
                }
            }
        }
    }
}

#[test]
fn rows_of_four_lanes_are_transposed() {
    if !has_vectors() {
        return;
    }
    // Rows of seven elements, from the third one on; the second row is the first that counts.
    let (stride, index, first) = (7, 3, 1);
    for iteration in 0..LANES {
        let mut memory = numbered((LANES + 4) * stride);
        let before = memory.clone();
        run(&mut memory, |asm| {
            emit!(asm; mov Rd(6), index as i32);
            for row in 0..4 {
                let rows = Rows { stride: stride as i32, first: first + i32::from(row) };
                lanes::load_rows(asm, WIDTH, row, MEMORY, 6, rows);
            }
            let of_both = if iteration % 2 == 0 { Interleave::Even } else { Interleave::Odd };
            let of_pairs = if iteration < 2 { Interleave::LowPairs } else { Interleave::HighPairs };
            lanes::interleave(asm, WIDTH, 8, 0, 1, of_both);
            lanes::interleave(asm, WIDTH, 3, 2, 3, of_both);
            lanes::interleave(asm, WIDTH, 8, 8, 3, of_pairs);
            store(asm, true, 8);
        });
        for number in 0..LANES {
            let expected = before[index + (first as usize + number) * stride + iteration];
            assert_eq!(lane(&memory, RESULT, number, true), expected, "lane {number}, iteration {iteration}");
        }
    }
}

#[test]
fn splats_load_one_wide_element() {
    if !has_vectors() {
        return;
    }
    for (index, displacement) in [(0, 0), (5, 0), (0, 7), (9, -4), (-40, 45), (40, -33)] {
        let mut memory = numbered(LANES * (RESULT + 1));
        let expected = memory[(index + i64::from(displacement)) as usize];
        run(&mut memory, |asm| {
            emit!(asm; mov Rq(6), QWORD index);
            lanes::load_wide_splat(asm, 9, MEMORY, 6, displacement);
            store(asm, true, 9);
        });
        let all = (0..LANES).all(|number| lane(&memory, RESULT, number, true) == expected);
        assert!(all, "{index} and {displacement}");
    }
}

#[test]
fn four_lanes_are_shifted_by_constants() {
    if !has_vectors() {
        return;
    }
    let mut random = Random(23);
    for primitive in [Primitive::Shl, Primitive::ShrS, Primitive::ShrU] {
        for amount in 0..64_u8 {
            for (a, dst) in [(random.of(&REGISTERS), random.of(&REGISTERS)), (3, 3), (11, 2), (2, 11)] {
                let mut memory = vec![0_u64; LANES * (RESULT + 1)];
                memory[..LANES].iter_mut().for_each(|value| *value = random.value(Scalar::I64));
                run(&mut memory, |asm| {
                    load(asm, true, a, 0);
                    lanes::shift(asm, WIDTH, (primitive, Scalar::I64), dst, a, amount);
                    store(asm, true, dst);
                });
                for number in 0..LANES {
                    let value = memory[number];
                    let expected = match primitive {
                        Primitive::Shl => value << amount,
                        Primitive::ShrS => (value as i64 >> amount) as u64,
                        _ => value >> amount,
                    };
                    let actual = lane(&memory, RESULT, number, true);
                    assert_eq!(actual, expected, "{primitive:?} of {value:x} by {amount} in {a} to {dst}");
                }
            }
        }
    }
}

#[test]
fn lower_halves_of_four_lanes_are_multiplied() {
    if !has_vectors() {
        return;
    }
    let mut random = Random(29);
    for _ in 0..200 {
        let [a, b, dst] = [(); 3].map(|()| random.of(&REGISTERS));
        let mut memory = vec![0_u64; LANES * (RESULT + 1)];
        memory[..2 * LANES].iter_mut().for_each(|value| *value = random.value(Scalar::I64));
        if a == b {
            memory.copy_within(..LANES, LANES);
        }
        run(&mut memory, |asm| {
            load(asm, true, a, 0);
            load(asm, true, b, 1);
            lanes::low_products(asm, dst, a, b);
            store(asm, true, dst);
        });
        for number in 0..LANES {
            let [first, second] = [0, 1].map(|operand| memory[operand * LANES + number] & u64::from(u32::MAX));
            assert_eq!(lane(&memory, RESULT, number, true), first * second, "in {a} and {b} to {dst}");
        }
    }
}
