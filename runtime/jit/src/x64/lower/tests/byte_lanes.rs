//! Vectors of bytes compute the lowest bytes of what the interpreter's functions do.

use dynasmrt::DynasmApi;

use super::super::lanes;
use super::super::{Asm, Src, emit};
use super::cases::{Case, cases};
use super::machine::run_vectors;
use super::{Features, Random};
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::Rows;
use crate::ir::types::{Lanes, Scalar, Ty, Width};

/// The register that holds the address of memory.
const MEMORY: u8 = 7;
const REGISTERS: [u8; 15] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];
/// The vector in memory that is the result. Those before it are operands.
const RESULT: usize = 3;

/// The widths that this processor has.
fn widths() -> &'static [Width] {
    if Features::detect().avx2 {
        return &[Width::SixteenBytes, Width::ThirtyTwoBytes];
    }
    println!("skipped: this processor has no vectors of bytes");
    &[]
}

fn run(memory: &mut [u8], body: impl FnOnce(&mut Asm)) {
    run_vectors(memory, MEMORY, body);
}

fn load(asm: &mut Asm, width: Width, register: u8, operand: usize) {
    lanes::load(asm, width, Primitive::LoadI8s, register, (MEMORY, Src::Imm(0)), operand as u8, None);
}

fn store(asm: &mut Asm, width: Width, register: u8) {
    lanes::store(asm, width, Primitive::StoreI8, (MEMORY, Src::Imm(0)), register, RESULT as u8, None);
}

/// A value whose lowest byte this is.
fn extended(byte: u8, signed: bool) -> u64 {
    if signed { u64::from(i32::from(byte as i8) as u32) } else { byte.into() }
}

#[test]
fn byte_lanes_compute_what_the_interpreter_does() {
    use Primitive::*;
    let mut random = Random(7);
    for width in widths() {
        let mut seen = 0;
        for case in cases().iter().filter(|case| case.of == Scalar::I32) {
            match case.primitive.byte_lanes() {
                Some(Lanes::Instructions) => {
                    seen += 1;
                    for _ in 0..60 {
                        check(case, *width, true, &mut random);
                        // The order of numbers without signs is that of bytes without signs, and what has none is no
                        // absolute value.
                        if !matches!(case.primitive, MinS | MaxS | LtS | AbsWrapping) {
                            check(case, *width, false, &mut random);
                        }
                    }
                }
                // The lowest byte stays the same, whatever the value is.
                Some(Lanes::SameBits) => (0..60).for_each(|_| {
                    let value = random.value(Scalar::I32);
                    let (_, result) = (case.expect)(&[value]);
                    assert_eq!(result.unwrap() as u8, value as u8, "{:?} of {value:x}", case.primitive);
                }),
                Some(Lanes::Call) | None => {}
            }
        }
        assert!(seen >= 18, "only {seen} primitives");
    }
}

/// Computes a primitive in random registers, of bytes that are extended with their signs or without.
fn check(case: &Case, width: Width, signed: bool, random: &mut Random) {
    let lanes = width.lanes() as usize;
    let chooses = |index: usize| case.primitive == Primitive::Select && index == 0;
    let registers: Vec<u8> = case.params.iter().map(|_| random.of(&REGISTERS)).collect();
    let dst = random.of(&REGISTERS);
    if case.primitive == Primitive::Select && registers[1..].contains(&registers[0]) {
        return;
    }
    let mut memory = vec![0_u8; lanes * (RESULT + 1)];
    for index in 0..registers.len() {
        for lane in 0..lanes {
            let byte = (random.next() >> 24) as u8;
            // Some bytes are the same in two operands.
            let byte = if byte.is_multiple_of(8) { memory[lane] } else { byte };
            memory[index * lanes + lane] = if chooses(index) { 0_u8.wrapping_sub(byte & 1) } else { byte };
        }
        // Operands that share a register have one value.
        if let Some(same) = registers[..index].iter().position(|other| *other == registers[index]) {
            memory.copy_within(same * lanes..(same + 1) * lanes, index * lanes);
        }
    }
    run(&mut memory, |asm| {
        for (index, register) in registers.iter().enumerate() {
            load(asm, width, *register, index);
        }
        lanes::value(asm, width, (case.primitive, case.of), dst, &registers);
        store(asm, width, dst);
    });
    for lane in 0..lanes {
        let values: Vec<u64> =
            (0..registers.len()).map(|index| extended(memory[index * lanes + lane], signed)).collect();
        let (_, expected) = (case.expect)(&values);
        let (actual, mut expected) = (memory[RESULT * lanes + lane], expected.unwrap() as u8);
        if case.primitive.result(case.of) == Ty::Truth {
            expected = 0_u8.wrapping_sub(expected);
        }
        assert_eq!(
            actual, expected,
            "{:?} of {values:x?} in {registers:?} to {dst}, lane {lane} of {width:?}",
            case.primitive
        );
    }
}

#[test]
fn truths_in_bytes_become_numbers_and_values_are_splat() {
    for width in widths().iter().copied() {
        let lanes = width.lanes() as usize;
        let mut memory: Vec<u8> = (0..4 * lanes).map(|at| if at % 3 == 0 { 0xFF } else { 0 }).collect();
        let expected: Vec<u8> = memory[..lanes].iter().map(|byte| byte & 1).collect();
        run(&mut memory, |asm| {
            load(asm, width, 9, 0);
            lanes::numbers(asm, width, 11, 9);
            store(asm, width, 11);
            emit!(asm; mov ecx, 0x1234_56A7);
            lanes::splat(asm, width, Scalar::I32, 12, 1);
            lanes::copy(asm, width, 3, 12);
            lanes::store(asm, width, Primitive::StoreI8, (MEMORY, Src::Imm(0)), 3, 1, None);
        });
        assert_eq!(memory[RESULT * lanes..], expected, "{width:?}");
        assert!(memory[lanes..2 * lanes].iter().all(|byte| *byte == 0xA7), "{width:?}");
    }
}

#[test]
fn truths_choose_bytes() {
    for width in widths().iter().copied() {
        let lanes = width.lanes() as usize;
        for dst in [1, 2, 3, 4] {
            let mut memory: Vec<u8> = (0..4 * lanes).map(|at| (at * 11) as u8).collect();
            memory[..lanes].iter_mut().for_each(|byte| *byte = 0_u8.wrapping_sub(*byte & 1));
            let before = memory.clone();
            run(&mut memory, |asm| {
                (1..=3).for_each(|register| load(asm, width, register, usize::from(register) - 1));
                lanes::value(asm, width, (Primitive::Select, Scalar::I32), dst, &[1, 2, 3]);
                store(asm, width, dst);
            });
            for lane in 0..lanes {
                let chosen = if before[lane] == 0 { 2 } else { 1 };
                assert_eq!(memory[RESULT * lanes + lane], before[chosen * lanes + lane], "lane {lane} of {width:?}");
            }
        }
    }
}

#[test]
fn bytes_go_where_the_index_is() {
    for width in widths().iter().copied() {
        let lanes = width.lanes() as usize;
        for (index, number) in [(Src::Imm(3), 0), (Src::Reg(6), 0), (Src::Imm(3), 1), (Src::Reg(6), 1)] {
            let mut memory: Vec<u8> = (0..8 * lanes).map(|at| (at * 7) as u8).collect();
            let mut expected = memory.clone();
            let first = 3 + lanes * usize::from(number);
            expected.copy_within(first..first + lanes, first + 4 * lanes);
            run(&mut memory, |asm| {
                emit!(asm; mov esi, 3);
                lanes::load(asm, width, Primitive::LoadI8u, 4, (MEMORY, index), number, None);
                emit!(asm; lea rdi, [rdi + 4 * lanes as i32]);
                lanes::store(asm, width, Primitive::StoreI8, (MEMORY, index), 4, number, None);
                emit!(asm; lea rdi, [rdi - 4 * lanes as i32]);
            });
            assert_eq!(memory, expected, "{width:?}, vector {number} at {index:?}");
        }
    }
}

#[test]
fn every_other_byte_is_loaded() {
    for width in widths().iter().copied() {
        let lanes = width.lanes() as usize;
        for (index, first) in [(Src::Imm(5), 0), (Src::Reg(6), 0), (Src::Imm(5), lanes), (Src::Reg(6), lanes)] {
            for primitive in [Primitive::LoadI8u, Primitive::LoadI8s] {
                // The last byte that is loaded is the last one before the result.
                let last = 5 + 2 * (first + lanes - 1);
                let mut memory: Vec<u8> = (0..=last + lanes).map(|at| (at * 37) as u8).collect();
                let expected: Vec<u8> = (0..lanes).map(|lane| memory[5 + 2 * (first + lane)]).collect();
                run(&mut memory, |asm| {
                    emit!(asm; mov esi, 5);
                    let rows = Rows { stride: 2, first: first as i32 };
                    lanes::load_bytes(asm, width, primitive, 3, (MEMORY, index), rows, 13);
                    let to = (MEMORY, Src::Imm(last as i32 + 1));
                    lanes::store(asm, width, Primitive::StoreI8, to, 3, 0, None);
                });
                assert_eq!(memory[last + 1..], expected, "{width:?}, {primitive:?} from {first} at {index:?}");
            }
        }
    }
}
