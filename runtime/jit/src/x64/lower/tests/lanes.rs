//! Lanes compute what the interpreter's functions do.

use dynasmrt::DynasmApi;

use super::super::lanes;
use super::super::{Asm, Src, emit};
use super::cases::{Case, cases};
use super::machine::{Code, State};
use super::{Features, Random};
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{ConstantDivision, Interleave, Rows};
use crate::ir::types::Width;
use crate::ir::types::{Lanes, Scalar, Ty};

/// The register that holds the address of memory.
const MEMORY: u8 = 7;
const REGISTERS: [u8; 15] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];
/// Those that values of so many lanes may be in.
fn registers(width: Width) -> Vec<u8> {
    let upper = if width == Width::Sixteen { 16..32 } else { 0..0 };
    REGISTERS.into_iter().chain(upper).collect()
}

/// A register that only values of sixteen lanes may be in, or else one of all.
fn upper(width: Width, register: u8) -> u8 {
    if width == Width::Sixteen { register + 16 } else { register }
}

/// The vector in memory that is the result. Those before it are operands.
const RESULT: usize = 3;

/// The numbers of lanes that this processor has vectors of.
fn widths() -> &'static [Width] {
    let widths = Features::detect().widths();
    for width in [Width::Eight, Width::Sixteen] {
        if !widths.contains(&width) {
            println!("skipped: this processor has no vectors of {} lanes", width.lanes());
        }
    }
    widths
}

/// Code on vectors in memory.
struct Vectors {
    width: Width,
    memory: Vec<u32>,
}

impl Vectors {
    fn new(width: Width) -> Vectors {
        Vectors { width, memory: vec![0; width.lanes() as usize * (RESULT + 1)] }
    }

    fn lanes(&mut self, number: usize) -> &mut [u32] {
        let lanes = self.width.lanes() as usize;
        &mut self.memory[number * lanes..][..lanes]
    }

    fn run(&mut self, body: impl FnOnce(&mut Asm, Width)) {
        let width = self.width;
        let code = Code::new(Features::detect(), |asm, _| {
            body(asm, width);
            emit!(asm; vzeroupper);
        });
        let mut state = State::new();
        state.general[usize::from(MEMORY)] = self.memory.as_mut_ptr() as u64;
        code.call(&mut state);
    }
}

fn load(asm: &mut Asm, width: Width, register: u8, operand: usize) {
    lanes::load(asm, width, Primitive::LoadI32, register, (MEMORY, Src::Imm(0)), operand as u8, None);
}

fn store(asm: &mut Asm, width: Width, register: u8) {
    lanes::store(asm, width, Primitive::StoreI32, (MEMORY, Src::Imm(0)), register, RESULT as u8, None);
}

#[test]
fn lanes_compute_what_the_interpreter_does() {
    let mut random = Random(7);
    for width in widths() {
        let mut seen = 0;
        for case in cases() {
            let narrow = case.params.iter().all(|of| !of.is_wide()) && !case.result().is_wide();
            // A function is called elsewhere, and bits are the same.
            if narrow && case.primitive.lanes(case.of) == Some(Lanes::Instructions) {
                seen += 1;
                (0..60).for_each(|_| check(&case, *width, &mut random));
            }
        }
        assert!(seen > 40, "only {seen} primitives");
    }
}

/// Computes a primitive in random registers.
fn check(case: &Case, width: Width, random: &mut Random) {
    let all = registers(width);
    let registers: Vec<u8> = case.params.iter().map(|_| random.of(&all)).collect();
    let dst = random.of(&all);
    if case.primitive == Primitive::Select && registers[1..].contains(&registers[0]) {
        return;
    }
    let mut vectors = Vectors::new(width);
    for index in 0..registers.len() {
        for lane in 0..width.lanes() as usize {
            let value = random.value(case.params[index]) as u32;
            let chooses = case.primitive == Primitive::Select && index == 0;
            vectors.lanes(index)[lane] = if chooses { 0_u32.wrapping_sub(value & 1) } else { value };
        }
        // Operands that share a register have one value.
        if let Some(same) = registers[..index].iter().position(|other| *other == registers[index]) {
            let lanes = vectors.lanes(same).to_vec();
            vectors.lanes(index).copy_from_slice(&lanes);
        }
    }
    vectors.run(|asm, width| {
        for (index, register) in registers.iter().enumerate() {
            load(asm, width, *register, index);
        }
        lanes::value(asm, width, (case.primitive, case.of), dst, &registers);
        store(asm, width, dst);
    });
    for lane in 0..width.lanes() as usize {
        let values: Vec<u64> = (0..registers.len()).map(|index| u64::from(vectors.lanes(index)[lane])).collect();
        let (of, expected) = (case.expect)(&values);
        let (actual, mut expected) = (vectors.lanes(RESULT)[lane], expected.unwrap() as u32);
        let is_truth = case.primitive.result(case.of) == Ty::Truth;
        if is_truth {
            expected = 0_u32.wrapping_sub(expected);
        }
        let nans = of == Scalar::F32 && f32::from_bits(actual).is_nan() && f32::from_bits(expected).is_nan();
        assert!(
            actual == expected || nans,
            "{:?} of {values:x?} in {registers:?} to {dst} is {actual:x}, not {expected:x}, in {width:?} lanes",
            case.primitive
        );
    }
}

/// Vectors of which the first one holds something.
fn filled(width: Width) -> (Vectors, Vec<u32>) {
    let mut vectors = Vectors::new(width);
    let values: Vec<u32> = (1..=width.lanes() as u32).map(|lane| lane.wrapping_mul(0x9000_0001)).collect();
    vectors.lanes(0).copy_from_slice(&values);
    (vectors, values)
}

#[test]
fn lanes_come_and_go_one_by_one() {
    for width in widths().iter().copied() {
        for lane in 0..width.lanes() as u8 {
            for of in [Scalar::F32, Scalar::I32] {
                let (mut vectors, values) = filled(width);
                vectors.run(|asm, width| {
                    let (from, to) = (upper(width, 3), upper(width, 4));
                    load(asm, width, from, 0);
                    lanes::extract(asm, width, of, 9, from, lane);
                    lanes::splat(asm, width, of, to, 9);
                    store(asm, width, to);
                });
                assert!(vectors.lanes(RESULT).iter().all(|value| *value == values[usize::from(lane)]), "{lane}");
            }
        }
    }
}

#[test]
fn lanes_are_added_up() {
    for width in widths().iter().copied() {
        let (mut vectors, values) = filled(width);
        vectors.run(|asm, width| {
            load(asm, width, upper(width, 3), 0);
            lanes::sum(asm, width, 9, upper(width, 3));
            lanes::splat(asm, width, Scalar::I32, 4, 9);
            store(asm, width, 4);
        });
        let sum = values.iter().fold(0_u32, |sum, value| sum.wrapping_add(*value));
        assert!(vectors.lanes(RESULT).iter().all(|value| *value == sum), "{width:?}");
    }
}

#[test]
fn quotients_by_constants_are_upper_halves_of_products() {
    let mut random = Random(19);
    // 7, -7, 10 and 2 with signs, and 7, 10 and 641 without.
    let divisions = [
        (7_u32, true, false, true, 2, 0x9249_2493_u32),
        (7_u32.wrapping_neg(), true, true, true, 2, 0x9249_2493),
        (10, true, false, false, 2, 0x6666_6667),
        (2, true, false, true, 0, 0x8000_0001),
        (7, false, false, true, 3, 0x2492_4925),
        (10, false, false, false, 3, 0xCCCC_CCCD),
        (641, false, false, false, 0, 0x0066_3D81),
    ];
    for width in widths().iter().copied().filter(|width| *width == Width::Eight) {
        for (divisor, signed, is_negative, adds_dividend, shift, multiplier) in divisions {
            let division = ConstantDivision { signed, is_negative, adds_dividend, shift };
            for _ in 0..60 {
                let [dst, a, factor] = [(); 3].map(|()| random.of(&REGISTERS[..14]));
                if a == factor {
                    continue;
                }
                let mut vectors = Vectors::new(width);
                let values: Vec<u32> = (0..8).map(|_| random.value(Scalar::I32) as u32).collect();
                vectors.lanes(0).copy_from_slice(&values);
                vectors.lanes(1).fill(multiplier);
                vectors.run(|asm, width| {
                    load(asm, width, a, 0);
                    load(asm, width, factor, 1);
                    lanes::constant_quotients(asm, width, dst, a, factor, 14, division);
                    store(asm, width, dst);
                });
                for (value, actual) in values.into_iter().zip(vectors.lanes(RESULT)) {
                    let expected =
                        if signed { (value as i32).wrapping_div(divisor as i32) as u32 } else { value / divisor };
                    assert_eq!(*actual, expected, "{value} / {divisor} by {division:?}");
                }
            }
        }
    }
}

#[test]
fn lanes_are_shifted_by_constants() {
    let mut random = Random(31);
    for width in widths().iter().copied() {
        for primitive in [Primitive::Shl, Primitive::ShrS, Primitive::ShrU] {
            for amount in 0..32_u8 {
                let [dst, a] = [(); 2].map(|()| random.of(&REGISTERS[..14]));
                let mut vectors = Vectors::new(width);
                let values: Vec<u32> = (0..width.lanes()).map(|_| random.value(Scalar::I32) as u32).collect();
                vectors.lanes(0).copy_from_slice(&values);
                vectors.run(|asm, width| {
                    load(asm, width, a, 0);
                    lanes::shift(asm, width, (primitive, Scalar::I32), dst, a, amount);
                    store(asm, width, dst);
                });
                for (value, actual) in values.into_iter().zip(vectors.lanes(RESULT)) {
                    let expected = match primitive {
                        Primitive::Shl => value << amount,
                        Primitive::ShrS => (value as i32 >> amount) as u32,
                        _ => value >> amount,
                    };
                    assert_eq!(*actual, expected, "{primitive:?} of {value:x} by {amount} in {a} to {dst}");
                }
            }
        }
    }
}

#[test]
fn lanes_are_gathered_at_even_distances() {
    for width in widths().iter().copied() {
        let (mut vectors, _) = filled(width);
        vectors.run(|asm, width| {
            lanes::multiples(asm, width, 4, 3);
            store(asm, width, 4);
        });
        let expected: Vec<u32> = (0..width.lanes() as u32).map(|lane| 3 * lane).collect();
        assert_eq!(vectors.lanes(RESULT), expected);
        // Every third element of all that there is, from the second one on, and one after it.
        for (displacement, is_known) in [(0, false), (1, false), (0, true), (1, true)] {
            let (mut vectors, _) = filled(width);
            vectors.memory.iter_mut().enumerate().for_each(|(index, value)| *value = index as u32);
            vectors.run(|asm, width| {
                let offsets = upper(width, 4);
                lanes::multiples(asm, width, offsets, 3);
                let from = (MEMORY, Src::Imm(1));
                match is_known {
                    true => lanes::load_apart(asm, width, 13, from, (offsets, 3), (displacement, 2), None),
                    false => lanes::gather(asm, width, 13, from, offsets, (displacement, 2), None),
                }
                store(asm, width, 13);
            });
            let expected: Vec<u32> = (0..width.lanes() as u32).map(|lane| 1 + 3 * lane + displacement as u32).collect();
            assert_eq!(vectors.lanes(RESULT), expected);
        }
    }
}

#[test]
fn narrow_elements_are_made_wider() {
    use Primitive::*;
    for width in widths().iter().copied() {
        // The element that is made of two bytes at its address.
        type Widened = fn([u8; 2]) -> u32;
        let widened: [(Primitive, Widened); 4] = [
            (LoadI8u, |[low, _]| u32::from(low)),
            (LoadI8s, |[low, _]| i32::from(low as i8) as u32),
            (LoadI16u, |both| u32::from(u16::from_le_bytes(both))),
            (LoadI16s, |both| i32::from(i16::from_le_bytes(both)) as u32),
        ];
        for (primitive, widened) in widened {
            let bytes = 1 << primitive.element_shift();
            let (mut vectors, _) = filled(width);
            let mut random = Random(11);
            vectors.memory.iter_mut().for_each(|value| *value = random.next() as u32);
            let before = vectors.memory.clone();
            let byte = |at: usize| before[at / 4].to_le_bytes()[at % 4];
            // The second vector from element number 5 on.
            vectors.run(|asm, width| {
                lanes::load(asm, width, primitive, 2, (MEMORY, Src::Imm(5)), 1, None);
                store(asm, width, 2);
            });
            for lane in 0..width.lanes() as usize {
                let at = (5 + width.lanes() as usize + lane) * bytes;
                let expected = widened([byte(at), byte(at + 1)]);
                assert_eq!(vectors.lanes(RESULT)[lane], expected, "{primitive:?} in {width:?} lanes");
            }
        }
    }
}

#[test]
fn lanes_are_stored_as_narrow_elements() {
    for width in widths().iter().copied() {
        let lanes = width.lanes() as usize;
        for (primitive, bytes) in [(Primitive::StoreI8, 1), (Primitive::StoreI16, 2)] {
            // Eight lanes have no masks for narrow elements.
            let counts = 0..=lanes as i32;
            for count in counts.filter(|count| width == Width::Sixteen || *count == lanes as i32) {
                let (mut vectors, values) = filled(width);
                vectors.lanes(RESULT).fill(0x5555_5555);
                vectors.run(|asm, width| {
                    emit!(asm; mov Rd(6), count);
                    lanes::splat(asm, width, Scalar::I32, 4, 6);
                    lanes::multiples(asm, width, 5, 1);
                    lanes::value(asm, width, (Primitive::LtS, Scalar::I32), 3, &[5, 4]);
                    load(asm, width, 2, 0);
                    // The second vector of bytes, and the first one of words, from the fourth element of the result on.
                    let at = (RESULT * lanes * 4) / bytes + 3;
                    let mask = (count < lanes as i32).then_some(3);
                    lanes::store(asm, width, primitive, (MEMORY, Src::Imm(at as i32)), 2, 2 - bytes as u8, mask);
                });
                let stored: Vec<u8> = vectors.lanes(RESULT).iter().flat_map(|value| value.to_le_bytes()).collect();
                let first = (3 + lanes * (2 - bytes)) * bytes;
                for (at, byte) in stored.iter().enumerate() {
                    let lane = at.checked_sub(first).map(|at| at / bytes).filter(|lane| *lane < count as usize);
                    let expected = lane.map_or(0x55, |lane| values[lane].to_le_bytes()[(at - first) % bytes]);
                    assert_eq!(*byte, expected, "byte {at} of {primitive:?} in {width:?}, {count} lanes");
                }
            }
        }
    }
}

#[test]
fn bytes_of_rows_are_loaded() {
    for width in widths().iter().copied() {
        let lanes = width.lanes() as usize;
        // Rows of eleven bytes, from byte five on; the third row is the first that counts.
        let rows = Rows { stride: 11, first: 2 };
        for primitive in [Primitive::LoadI8s, Primitive::LoadI8u] {
            for number in 0..4 {
                for index in [Src::Imm(5), Src::Reg(6)] {
                    let mut vectors = Vectors::new(width);
                    let mut random = Random(13);
                    vectors.memory.iter_mut().for_each(|value| *value = random.next() as u32);
                    let bytes: Vec<u8> = vectors.memory.iter().flat_map(|value| value.to_le_bytes()).collect();
                    vectors.run(|asm, width| {
                        emit!(asm; mov Rd(6), 5);
                        let (offsets, gathered, byte) = (upper(width, 4), upper(width, 13), upper(width, 2));
                        lanes::multiples(asm, width, offsets, rows.stride);
                        let displacement = (rows.stride * rows.first, 0);
                        lanes::gather(asm, width, gathered, (MEMORY, index), offsets, displacement, None);
                        lanes::byte(asm, width, byte, gathered, number, primitive == Primitive::LoadI8s);
                        lanes::load_bytes(asm, width, primitive, upper(width, 3), (MEMORY, index), rows, 5);
                        store(asm, width, byte);
                        lanes::store(asm, width, Primitive::StoreI32, (MEMORY, Src::Imm(0)), upper(width, 3), 0, None);
                    });
                    for lane in 0..lanes {
                        let at = 5 + (2 + lane) * 11;
                        let extended = |byte: u8| match primitive {
                            Primitive::LoadI8s => i32::from(byte as i8) as u32,
                            _ => byte.into(),
                        };
                        let expected = extended(bytes[at + usize::from(number)]);
                        assert_eq!(vectors.lanes(RESULT)[lane], expected, "byte {number} of {lane}, {width:?}");
                        assert_eq!(vectors.lanes(0)[lane], extended(bytes[at]), "{lane}, {width:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn every_other_element_is_loaded() {
    for width in widths().iter().copied() {
        let lanes = width.lanes() as usize;
        for (index, number) in [(Src::Imm(1), 0), (Src::Reg(6), 0), (Src::Imm(1), 1), (Src::Reg(6), 1)] {
            let mut vectors = Vectors::new(width);
            vectors.memory.iter_mut().enumerate().for_each(|(index, value)| *value = 7 * index as u32);
            let first = 1 + 2 * lanes as u32 * u32::from(number);
            vectors.run(|asm, width| {
                emit!(asm; mov Rd(6), 1);
                let [even, four, order] = [4, 8, 9].map(|register| upper(width, register));
                lanes::multiples(asm, width, even, 2);
                emit!(asm; mov eax, 4);
                lanes::splat(asm, width, Scalar::I32, four, 0);
                lanes::value(asm, width, (Primitive::ShrU, Scalar::I32), four, &[even, four]);
                lanes::value(asm, width, (Primitive::WrappingAdd, Scalar::I32), order, &[even, four]);
                // The result may be where the order is.
                let into = if number == 0 { order } else { upper(width, 3) };
                lanes::load_even(asm, width, into, (MEMORY, index), order, 13, number);
                store(asm, width, into);
            });
            let expected: Vec<u32> = (0..lanes as u32).map(|lane| 7 * (first + 2 * lane)).collect();
            assert_eq!(vectors.lanes(RESULT), expected, "vector {number}, {width:?}");
        }
    }
}

#[test]
fn every_other_byte_is_loaded() {
    for width in widths().iter().copied() {
        let lanes = width.lanes() as usize;
        for primitive in [Primitive::LoadI8s, Primitive::LoadI8u] {
            let rows = Rows { stride: 2, first: lanes as i32 };
            let mut vectors = Vectors::new(width);
            let mut random = Random(17);
            vectors.memory.iter_mut().for_each(|value| *value = random.next() as u32);
            let bytes: Vec<u8> = vectors.memory.iter().flat_map(|value| value.to_le_bytes()).collect();
            vectors.run(|asm, width| {
                lanes::load_bytes(asm, width, primitive, upper(width, 3), (MEMORY, Src::Imm(3)), rows, 13);
                store(asm, width, upper(width, 3));
            });
            for lane in 0..lanes {
                let byte = bytes[3 + 2 * (lanes + lane)];
                let expected = if primitive == Primitive::LoadI8s { i32::from(byte as i8) as u32 } else { byte.into() };
                assert_eq!(vectors.lanes(RESULT)[lane], expected, "{lane}, {width:?}");
            }
        }
    }
}

#[test]
fn rows_are_transposed() {
    for width in widths().iter().copied() {
        let lanes = width.lanes() as usize;
        // Rows of seven elements, from the third one on; the second row is the first that counts.
        let (stride, index, first) = (7, 3, 1);
        for iteration in 0..4 {
            let mut vectors = Vectors::new(width);
            vectors.memory.resize((lanes + 4) * stride, 0);
            vectors.memory.iter_mut().enumerate().for_each(|(index, value)| *value = 3 * index as u32);
            let before = vectors.memory.clone();
            vectors.run(|asm, width| {
                emit!(asm; mov Rd(6), index as i32);
                for row in 0..4 {
                    let rows = Rows { stride: stride as i32, first: first + i32::from(row) };
                    lanes::load_rows(asm, width, upper(width, row), MEMORY, 6, rows);
                }
                let (of_both, of_pairs) = (
                    if iteration < 2 { Interleave::Low } else { Interleave::High },
                    if iteration % 2 == 0 { Interleave::LowPairs } else { Interleave::HighPairs },
                );
                lanes::interleave(asm, width, upper(width, 8), upper(width, 0), upper(width, 1), of_both);
                lanes::interleave(asm, width, upper(width, 3), upper(width, 2), upper(width, 3), of_both);
                lanes::interleave(asm, width, upper(width, 8), upper(width, 8), upper(width, 3), of_pairs);
                store(asm, width, upper(width, 8));
            });
            for lane in 0..lanes {
                let expected = before[index + (first as usize + lane) * stride + iteration];
                assert_eq!(vectors.lanes(RESULT)[lane], expected, "lane {lane} of {width:?}, iteration {iteration}");
            }
        }
    }
}

#[test]
fn splats_load_one_element() {
    for width in widths().iter().copied() {
        for (index, displacement) in [(0, 0), (5, 0), (0, 7), (9, -4), (-40, 45), (40, -33)] {
            let (mut vectors, _) = filled(width);
            let before = vectors.memory.clone();
            vectors.run(|asm, width| {
                emit!(asm; mov Rq(6), index);
                lanes::load_splat(asm, width, upper(width, 9), MEMORY, 6, displacement);
                store(asm, width, upper(width, 9));
            });
            let expected = before[(index + displacement) as usize];
            let actual = vectors.lanes(RESULT);
            assert!(actual.iter().all(|lane| *lane == expected), "{width:?}, {index} and {displacement}: {actual:?}");
        }
    }
}

#[test]
fn masks_leave_memory_alone() {
    for width in widths().iter().copied() {
        let lanes = width.lanes() as usize;
        for count in 0..=lanes as i32 {
            let (mut vectors, values) = filled(width);
            // The mask is made as the vectoriser makes it.
            let mask = |asm: &mut Asm| {
                emit!(asm; mov Rd(6), count);
                lanes::splat(asm, width, Scalar::I32, 4, 6);
                lanes::multiples(asm, width, 5, 1);
                lanes::value(asm, width, (Primitive::LtS, Scalar::I32), 3, &[5, 4]);
            };
            let (before, address) = (vectors.memory.clone(), (MEMORY, Src::Imm(0)));
            vectors.run(|asm, width| {
                mask(asm);
                lanes::load(asm, width, Primitive::LoadF32, 2, address, 0, Some(3));
                store(asm, width, 2);
                lanes::store(asm, width, Primitive::StoreF32, address, 5, 1, Some(3));
            });
            let is_in = |lane: usize| (lane as i32) < count;
            for lane in 0..lanes {
                assert_eq!(
                    vectors.lanes(RESULT)[lane],
                    if is_in(lane) { values[lane] } else { 0 },
                    "{lane} of {count}"
                );
                let expected = if is_in(lane) { lane as u32 } else { before[lanes + lane] };
                assert_eq!(vectors.lanes(1)[lane], expected, "stored {lane} of {count}");
            }
            let (mut vectors, values) = filled(width);
            vectors.run(|asm, width| {
                mask(asm);
                lanes::gather(asm, width, 13, address, 5, (0, 2), Some(3));
                lanes::store(asm, width, Primitive::StoreI32, address, 13, RESULT as u8, Some(3));
            });
            for lane in (0..lanes).filter(|lane| is_in(*lane)) {
                assert_eq!(vectors.lanes(RESULT)[lane], values[lane], "gathered {lane} of {count}");
            }
        }
    }
}
