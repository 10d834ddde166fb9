//! Lanes compute what the interpreter's functions do.

use super::super::lanes::{self, LANES};
use super::super::{Asm, Src, emit};
use super::cases::cases;
use super::machine::{Code, State};
use super::{Features, Random};
use crate::jit::{Primitive, Scalar, Ty};

/// The register that holds the address of memory.
const MEMORY: u8 = 7;
const REGISTERS: [u8; 15] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];

/// Lanes in memory: three operands, and the result.
type Memory = [[u32; LANES as usize]; 4];

/// Runs code on lanes; none if this processor has none.
fn run(memory: &mut Memory, body: impl FnOnce(&mut Asm)) -> Option<()> {
    let features = Features::detect();
    if !features.avx2 {
        println!("skipped: this processor has no AVX2");
        return None;
    }
    let code = Code::new(features, |asm, _| {
        body(asm);
        emit!(asm; vzeroupper);
    });
    let mut state = State::new();
    state.general[usize::from(MEMORY)] = memory.as_mut_ptr() as u64;
    code.call(&mut state);
    Some(())
}

fn load(asm: &mut Asm, register: u8, operand: usize) {
    lanes::load(asm, Primitive::LoadI32, register, MEMORY, Src::Imm(0), operand as u8);
}

fn store(asm: &mut Asm, register: u8) {
    lanes::store(asm, Primitive::StoreI32, MEMORY, Src::Imm(0), register, 3);
}

#[test]
#[expect(clippy::needless_range_loop, reason = "a lane is one of several vectors")]
fn lanes_compute_what_the_interpreter_does() {
    let mut random = Random(7);
    let mut seen = 0;
    for case in cases() {
        let narrow = case.params.iter().all(|of| !of.is_wide()) && !case.result().is_wide();
        if !narrow || !lanes::can(case.primitive, case.of) || !Features::detect().avx2 {
            continue;
        }
        seen += 1;
        for _ in 0..60 {
            let registers: Vec<u8> = case.params.iter().map(|_| random.of(&REGISTERS)).collect();
            let dst = random.of(&REGISTERS);
            let mut memory: Memory = [[0; 8]; 4];
            for index in 0..registers.len() {
                // Operands that share a register have one value.
                let same = registers.iter().position(|other| *other == registers[index]).unwrap();
                for lane in 0..LANES as usize {
                    let value = random.value(case.params[index]) as u32;
                    let chooses = case.primitive == Primitive::Select && index == 0;
                    let value = if chooses { 0_u32.wrapping_sub(value & 1) } else { value };
                    memory[index][lane] = if same == index { value } else { memory[same][lane] };
                }
            }
            if case.primitive == Primitive::Select && registers[1..].contains(&registers[0]) {
                continue;
            }
            if lanes::function(case.primitive).is_some()
                || matches!(case.primitive, Primitive::Bits | Primitive::FromBits)
            {
                // A function is called elsewhere, and bits are the same.

                break;
            }
            run(&mut memory, |asm| {
                for (index, register) in registers.iter().enumerate() {
                    load(asm, *register, index);
                }
                lanes::value(asm, case.primitive, case.of, dst, &registers);
                store(asm, dst);
            });
            for lane in 0..LANES as usize {
                let values: Vec<u64> = (0..registers.len()).map(|index| u64::from(memory[index][lane])).collect();
                let (of, expected) = (case.expect)(&values);
                let (actual, mut expected) = (memory[3][lane], expected.unwrap() as u32);
                let is_truth = case.primitive.result(case.of) == Ty::Truth;
                if is_truth {
                    expected = 0_u32.wrapping_sub(expected);
                }
                let nans = of == Scalar::F32 && f32::from_bits(actual).is_nan() && f32::from_bits(expected).is_nan();
                assert!(
                    actual == expected || nans,
                    "{:?} of {values:x?} in {registers:?} is {actual:x}, not {expected:x}",
                    case.primitive
                );
            }
        }
    }
    assert!(seen > 40 || !Features::detect().avx2, "only {seen} primitives");
}

#[test]
fn lanes_come_and_go_one_by_one() {
    let values = [1, 2, 0x8000_0003, 4, 0xFFFF_FFFB, 6, 7, 8];
    for lane in 0..LANES as u8 {
        for of in [Scalar::F32, Scalar::I32] {
            let mut memory: Memory = [values, [0; 8], [0; 8], [0; 8]];
            let done = run(&mut memory, |asm| {
                load(asm, 3, 0);
                lanes::extract(asm, of, 9, 3, lane);
                lanes::splat(asm, of, 4, 9);
                store(asm, 4);
            });
            assert!(done.is_none() || memory[3] == [values[usize::from(lane)]; 8]);
        }
    }
    let mut memory: Memory = [values, [0; 8], [0; 8], [0; 8]];
    let done = run(&mut memory, |asm| {
        load(asm, 3, 0);
        lanes::sum(asm, 9, 3);
        lanes::splat(asm, Scalar::I32, 4, 9);
        store(asm, 4);
    });
    let sum = values.iter().fold(0_u32, |sum, value| sum.wrapping_add(*value));
    assert!(done.is_none() || memory[3] == [sum; 8]);
    let done = run(&mut memory, |asm| {
        lanes::multiples(asm, 4, 3);
        store(asm, 4);
    });
    assert!(done.is_none() || memory[3] == [0, 3, 6, 9, 12, 15, 18, 21]);
    // Every third element of all that there is, from the second one on.
    let done = run(&mut memory, |asm| {
        lanes::multiples(asm, 4, 3);
        lanes::gather(asm, Primitive::LoadF32, 13, (MEMORY, Src::Imm(1)), 4, 0);
        store(asm, 13);
    });
    assert!(done.is_none() || memory[3][..3] == [values[1], values[4], values[7]]);
}
