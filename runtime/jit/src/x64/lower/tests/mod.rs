//! Assembles every primitive, in many choices of registers and constants, and compares what it computes with the
//! interpreter's function. Each run also checks that no register changed that must not.

mod byte_lanes;
mod cases;
mod evex;
mod lanes;
mod listing;
mod machine;
mod memory_operands;
mod wide_lanes;

use dynasmrt::DynasmApi;

use super::{
    Asm, Cc, Flags, MemoryOp, Src, attempt, compare_memory, constant, emit, has_mask, jump_if, load, load_slot,
    move_value, select, select_by_mask, set_if, store, store_slot, test, test_mask, value, with_memory,
};
use crate::generated::vm::primitive::Primitive;
use crate::ir::types::{Effect, Scalar, Ty};
use crate::processor::features::Features;
use crate::processor::registers::{RAX, RCX, RDX, RSP};
use cases::{Case, Word, cases};
use machine::{Code, State};

/// The same numbers in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = self.0 ^ self.0 >> 29;
        mixed.wrapping_mul(0xBF58_476D_1CE4_E5B9) ^ mixed >> 32
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[(self.next() >> 33) as usize % choices.len()]
    }

    /// A value of the type: an edge, or anything.
    fn value(&mut self, of: Scalar) -> u64 {
        if self.next().is_multiple_of(4) {
            return if of.is_wide() { self.next() } else { self.next() >> 32 };
        }
        self.of(&edges(of))
    }
}

fn edges(of: Scalar) -> Vec<u64> {
    const INTS: [i64; 18] =
        [0, 1, -1, 2, -2, 3, 7, 8, 31, 32, 33, 63, 64, 255, 0x8000, i32::MAX as i64, i32::MIN as i64, 0xFFFF_FFFF];
    const FLOATS: [f64; 34] = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.0,
        -1.0,
        1.5,
        3.0,
        -7.25,
        0.1,
        1e30,
        -1e-30,
        1e300,
        1e-310,
        2147483648.0,
        2.5,
        -2.5,
        0.499_999_999_999_999_94,
        0.499_999_97,
        -0.499_999_97,
        -0.25,
        1.499_999_9,
        8_388_607.5,
        -8_388_609.0,
        4_503_599_627_370_495.5,
        9223372036854775808.0,
        1e19,
        18446744073709551616.0,
        -9223372036854775808.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        f64::MAX,
        f64::MIN_POSITIVE,
    ];
    match of {
        Scalar::I32 => INTS.iter().map(|int| u64::from(*int as u32)).collect(),
        Scalar::I64 => INTS.iter().map(|int| *int as u64).chain([i64::MAX as u64, i64::MIN as u64]).collect(),
        Scalar::F32 => {
            // With a denormal, and a NaN that has a sign and a payload.
            let bits = FLOATS.iter().map(|float| (*float as f32).to_bits()).chain([1, 0x8040_0000, 0xFFC1_2345]);
            bits.map(u64::from).collect()
        }
        Scalar::F64 => FLOATS.iter().map(|float| float.to_bits()).chain([1, 0xFFF8_1234_5678_9ABC]).collect(),
    }
}

const ALL: [Scalar; 4] = [Scalar::I32, Scalar::I64, Scalar::F32, Scalar::F64];
/// Those with a meaning for some instruction.
const FEW: [u8; 4] = [RAX, RCX, RDX, 6];
const GENERAL: [u8; 14] = [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15];
const VECTOR: [u8; 15] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];
const IMMEDIATES: [i32; 22] =
    [0, 1, -1, 2, 3, 5, 7, 8, 9, 10, 31, 33, 64, 65, 127, 128, -128, -129, 1 << 30, i32::MAX, i32::MIN, -7];

/// Those of this processor, and none. As no primitive has code for a combination, these two suffice.
fn all_features() -> [Features; 2] {
    [Features::default(), Features::detect()]
}

impl Case {
    fn result(&self) -> Scalar {
        (self.expect)(&vec![1; self.params.len()]).0
    }

    fn assemble(&self, features: Features, dst: u8, src: &[Src]) -> Code {
        Code::new(features, |asm, trap| {
            if self.primitive.effect() == Effect::Trap {
                attempt(asm, self.primitive, self.of, dst, [src[0], src[1]], trap);
            } else if self.primitive.result(self.of) == Ty::Truth {
                let flags = test(asm, self.primitive, self.of, src);
                set_if(asm, flags, dst);
            } else {
                value(asm, self.primitive, self.of, dst, src);
            }
        })
    }

    /// Compares one result with the interpreter's. Operands that share a register have one value.
    fn check(&self, code: &Code, dst: u8, src: &[Src], values: &[u64]) {
        let (mut state, mut values) = (State::new(), values.to_vec());
        for index in 0..src.len() {
            match src[index] {
                Src::Imm(imm) if self.params[index].is_wide() => values[index] = i64::from(imm) as u64,
                Src::Imm(imm) => values[index] = u64::from(imm as u32),
                Src::Reg(number) => {
                    let sharing = |other: usize| {
                        src[other] == src[index] && self.params[other].is_float() == self.params[index].is_float()
                    };
                    let shared: Vec<usize> = (0..src.len()).filter(|other| sharing(*other)).collect();
                    values[index] = values[shared[0]];
                    if shared.iter().any(|other| !self.params[*other].is_wide()) {
                        values[index] &= u64::from(u32::MAX);
                    }
                    *state.register(self.params[index], number) = values[index];
                }
            }
        }
        let (result, expected) = (self.expect)(&values);
        let mut after = code.run(&state, Some((result, dst)));
        // Values may be in `rdx` wherever there is no division.
        if self.primitive.effect() != Effect::Trap && (result.is_float() || dst != RDX) {
            let rdx = usize::from(RDX);
            assert_eq!(after.general[rdx], state.general[rdx], "{:?} of {:?} changes rdx", self.primitive, self.of);
        }
        let mut actual = *after.register(result, dst);
        if result == Scalar::F32 {
            actual &= u64::from(u32::MAX);
        }
        let actual = (after.trapped == 0).then_some(actual);
        let exact = matches!(self.primitive, Primitive::Fneg | Primitive::Fabs | Primitive::FromBits);
        let is_nan = |word: u64| match result {
            Scalar::F32 => f32::from_word(word).is_nan(),
            Scalar::F64 => f64::from_word(word).is_nan(),
            _ => false,
        };
        let both_nan = !exact && expected.is_some_and(is_nan) && actual.is_some_and(is_nan);
        assert!(
            actual == expected || both_nan,
            "{:?} of {:?} to {dst} from {src:?} with {values:x?}: {actual:x?} instead of {expected:x?}",
            self.primitive,
            self.of
        );
    }
}

fn pool(of: Scalar) -> &'static [u8] {
    if of.is_float() { &VECTOR } else { &GENERAL }
}

fn all_cases() -> impl Iterator<Item = (Features, Case)> {
    all_features().into_iter().flat_map(|features| cases().into_iter().map(move |case| (features, case)))
}

#[test]
fn registers() {
    let mut random = Random(1);
    for (features, case) in all_cases() {
        let count = case.params.len() as u32;
        // All choices of a few registers, then some of all registers.
        let few = (0..FEW.len().pow(count + 1)).map(|choice| {
            let at = |position: u32| FEW[choice / FEW.len().pow(position) % FEW.len()];
            (at(0), (1..=count).map(|position| Src::Reg(at(position))).collect::<Vec<_>>())
        });
        let mut placements: Vec<_> = few.collect();
        for _ in 0..24 {
            let dst = random.of(pool(case.result()));
            placements.push((dst, case.params.iter().map(|param| Src::Reg(random.of(pool(*param)))).collect()));
        }
        for (dst, src) in placements {
            let code = case.assemble(features, dst, &src);
            for _ in 0..10 {
                let values: Vec<u64> = case.params.iter().map(|param| random.value(*param)).collect();
                case.check(&code, dst, &src, &values);
            }
        }
        // All edges with all edges.
        let src: Vec<Src> = (0..count).map(|index| Src::Reg(index as u8 + 8)).collect();
        let code = case.assemble(features, 3, &src);
        for a in edges(case.params[0]) {
            for b in edges(*case.params.get(1).unwrap_or(&Scalar::I32)) {
                let values: Vec<u64> = [a, b, random.value(case.of)].into_iter().take(count as usize).collect();
                case.check(&code, 3, &src, &values);
            }
        }
    }
}

#[test]
fn immediates() {
    let mut random = Random(2);
    for (features, case) in all_cases() {
        if case.params.iter().any(|param| param.is_float()) {
            continue;
        }
        for constants in 1..1u32 << case.params.len() {
            for immediate in IMMEDIATES {
                for _ in 0..4 {
                    let dst = random.of(&FEW);
                    let mut immediate = Some(immediate);
                    let mut operand = |index: usize| match constants >> index & 1 {
                        0 => Src::Reg(random.of(&FEW)),
                        _ => Src::Imm(immediate.take().unwrap_or_else(|| random.of(&IMMEDIATES))),
                    };
                    let src: Vec<Src> = (0..case.params.len()).map(&mut operand).collect();
                    let code = case.assemble(features, dst, &src);
                    for _ in 0..8 {
                        let values: Vec<u64> = case.params.iter().map(|param| random.value(*param)).collect();
                        case.check(&code, dst, &src, &values);
                    }
                }
            }
        }
    }
}

#[test]
fn selections_and_jumps() {
    type Holds = fn(f64, f64) -> bool;
    let tests: [(Primitive, Holds); 4] = [
        (Primitive::Feq, |x, y| x == y),
        (Primitive::Fne, |x, y| x != y),
        (Primitive::Flt, |x, y| x < y),
        (Primitive::IsNan, |x, _| x.is_nan()),
    ];
    let floats = [0.0, 1.0, f64::NAN];
    for features in all_features() {
        for ((primitive, holds), negated) in tests.into_iter().flat_map(|test| [(test, false), (test, true)]) {
            let operands = [Src::Reg(3), Src::Reg(14)];
            let operands = &operands[..if primitive == Primitive::IsNan { 1 } else { 2 }];
            let tested = |asm: &mut Asm| -> Flags {
                let flags = test(asm, primitive, Scalar::F64, operands);
                if negated { flags.negate() } else { flags }
            };
            let inputs = || floats.into_iter().flat_map(|x| floats.into_iter().map(move |y| (x, y)));
            let truth = |x: f64, y: f64| holds(x, y) != negated;
            let state = |x: f64, y: f64| {
                let mut state = State::new();
                (state.vector[3], state.vector[14]) = (x.to_bits(), y.to_bits());
                state
            };
            let jumping = Code::new(features, |asm, label| {
                let flags = tested(asm);
                jump_if(asm, flags, label);
            });
            for (x, y) in inputs() {
                assert_eq!(
                    jumping.run(&state(x, y), None).trapped == 1,
                    truth(x, y),
                    "{primitive:?} {negated} {x} {y}"
                );
            }
            for (of, dst, a, b) in ALL.into_iter().flat_map(|of| {
                [(6, 6, 8), (6, 8, 6), (6, 8, 9), (12, 0, 1), (0, 0, 0), (1, 0, 0)].map(|(dst, a, b)| (of, dst, a, b))
            }) {
                let code = Code::new(features, |asm, _| {
                    let flags = tested(asm);
                    select(asm, of, flags, dst, a, b);
                });
                for (x, y) in inputs() {
                    let mut before = state(x, y);
                    *before.register(of, a) = 0x1111_2222;
                    *before.register(of, b) = if a == b { 0x1111_2222 } else { 0x3333_4444 };
                    let expected = *before.register(of, if truth(x, y) { a } else { b });
                    let mut after = code.run(&before, Some((of, dst)));
                    assert_eq!(
                        *after.register(of, dst),
                        expected,
                        "{primitive:?} {negated} {of:?} {dst} {a} {b} {x} {y}"
                    );
                }
            }
        }
    }
}

#[test]
fn selections_by_masks() {
    use Primitive::*;
    let is_test = |case: &Case| matches!(case.primitive, Feq | FeqU | Fne | Flt | Fle | FltU | FleU | IsNan);
    let features = Features::detect();
    for (case, selected) in cases().iter().filter(|case| is_test(case)).flat_map(|case| ALL.map(|of| (case, of))) {
        if !has_mask(&Asm::new(features), case.of, selected) {
            let is_narrow = selected == Scalar::F64 && case.of == Scalar::F32;
            assert!(!features.avx || !selected.is_float() || is_narrow);
            continue;
        }
        let operands = &[Src::Reg(3), Src::Reg(14)][..case.params.len()];
        for (dst, a, b) in [(3, 3, 14), (6, 8, 6), (6, 8, 9), (8, 8, 9), (12, 0, 0), (14, 3, 3)] {
            let code = Code::new(features, |asm, _| {
                assert!(test_mask(asm, case.primitive, case.of, operands));
                select_by_mask(asm, selected, dst, a, b);
            });
            for (x, y) in edges(case.of).iter().flat_map(|x| edges(case.of).into_iter().map(move |y| (*x, y))) {
                let mut before = State::new();
                (before.vector[3], before.vector[14]) = (x, y);
                let truth = (case.expect)(&[x, y]).1 == Some(1);
                let low = |word: u64| if selected.is_wide() { word } else { word & u64::from(u32::MAX) };
                let expected = low(*before.register(selected, if truth { a } else { b }));
                let actual = low(*code.run(&before, Some((selected, dst))).register(selected, dst));
                assert_eq!(actual, expected, "{:?} {selected:?} {dst} {a} {b} {x:x} {y:x}", case.primitive);
            }
        }
    }
}

#[test]
fn negations() {
    for cc in [Cc::O, Cc::B, Cc::E, Cc::Be, Cc::S, Cc::P, Cc::L, Cc::Le] {
        assert_ne!(cc.negate(), cc);
        assert_eq!(cc.negate().negate(), cc);
        assert_eq!(Flags::Both(cc, Cc::E).negate(), Flags::Either(cc.negate(), Cc::Ne));
    }
}

/// The value that a load makes of the bytes at an address.
type Extension = fn(u64) -> u64;

/// Registers whose use as a base or an index has encodings of its own, and others.
const ADDRESSES: [(u8, u8); 8] = [(0, 1), (3, 5), (5, 12), (12, 13), (13, 12), (1, 0), (6, 2), (15, 14)];

#[test]
fn elements() {
    use Primitive::*;
    let data: [u8; 96] = std::array::from_fn(|index| (index * 37 + 129) as u8);
    let at = |offset: i32| {
        let offset = (48 + offset) as usize;
        u64::from_le_bytes(data[offset..offset + 8].try_into().unwrap())
    };
    let loads: [(Primitive, Scalar, Extension); 8] = [
        (LoadI8u, Scalar::I32, |word| u64::from(word as u8)),
        (LoadI8s, Scalar::I32, |word| u64::from(word as i8 as u32)),
        (LoadI16u, Scalar::I32, |word| u64::from(word as u16)),
        (LoadI16s, Scalar::I32, |word| u64::from(word as i16 as u32)),
        (LoadI32, Scalar::I32, |word| u64::from(word as u32)),
        (LoadI64, Scalar::I64, |word| word),
        (LoadF32, Scalar::F32, |word| u64::from(word as u32)),
        (LoadF64, Scalar::F64, |word| word),
    ];
    let stores = [
        (StoreI8, Scalar::I32),
        (StoreI16, Scalar::I32),
        (StoreI32, Scalar::I32),
        (StoreI64, Scalar::I64),
        (StoreF32, Scalar::F32),
        (StoreF64, Scalar::F64),
    ];
    for (features, (base, register)) in
        all_features().into_iter().flat_map(|features| ADDRESSES.map(|address| (features, address)))
    {
        let pointed = |data: &[u8; 96], index: i32| {
            let mut state = State::new();
            state.general[usize::from(base)] = data.as_ptr() as u64 + 48;
            state.general[usize::from(register)] = i64::from(index) as u64;
            state
        };
        for (index, source) in
            [0, 1, -3, 4].into_iter().flat_map(|index| [(index, Src::Reg(register)), (index, Src::Imm(index))])
        {
            for (primitive, of, expect) in loads {
                for dst in [base, register, 3, 8] {
                    let code = Code::new(features, |asm, _| load(asm, primitive, dst, base, source));
                    let mut after = code.run(&pointed(&data, index), Some((of, dst)));
                    let expected = expect(at(index << primitive.element_shift()));
                    assert_eq!(*after.register(of, dst), expected, "{primitive:?} {dst} {base} {source:?} {index}");
                }
            }
            for (primitive, of) in stores {
                // The registers whose low byte needs a prefix, and operands that are the address itself.
                for value in [Src::Reg(base), Src::Reg(register), Src::Reg(6), Src::Reg(7), Src::Reg(9), Src::Imm(-2)] {
                    if of.is_float() && matches!(value, Src::Imm(_)) {
                        continue;
                    }
                    let code = Code::new(features, |asm, _| store(asm, primitive, base, source, value));
                    let mut target = data;
                    let pointer = target.as_mut_ptr() as u64;
                    let mut state = pointed(&target, index);
                    state.general[usize::from(base)] = pointer + 48;
                    let stored = match value {
                        Src::Reg(number) => *state.register(of, number),
                        Src::Imm(imm) => i64::from(imm) as u64,
                    };
                    code.run(&state, None);
                    let (mut expected, size) = (data, 1usize << primitive.element_shift());
                    let start = (48 + (index << primitive.element_shift())) as usize;
                    expected[start..start + size].copy_from_slice(&stored.to_le_bytes()[..size]);
                    // Read through the pointer that the code wrote to.
                    // SAFETY: it points to `target`, which is alive.
                    let target = unsafe { std::ptr::read_volatile(pointer as *const [u8; 96]) };
                    assert_eq!(target, expected, "{primitive:?} {base} {source:?} {value:?} {index}");
                }
            }
        }
    }
}

#[test]
fn slots_moves_and_constants() {
    let mut memory = [0x1122_3344_5566_7788_u64; 64];
    memory[40] = 0xFEDC_BA98_7654_3210;
    for (features, of) in all_features().into_iter().flat_map(|features| ALL.map(|of| (features, of))) {
        let low = |word: u64| if of.is_wide() { word } else { word & u64::from(u32::MAX) };
        for (base, register) in ADDRESSES {
            for offset in [0, 8, 120, 320] {
                let mut state = State::new();
                let pointer = memory.as_mut_ptr() as u64;
                state.general[usize::from(base)] = pointer;
                let code = Code::new(features, |asm, _| load_slot(asm, of, register, base, offset));
                let mut after = code.run(&state, Some((of, register)));
                assert_eq!(*after.register(of, register), low(memory[offset as usize / 8]), "{of:?} {base} {offset}");

                let mut target = memory;
                let pointer = target.as_mut_ptr() as u64;
                state.general[usize::from(base)] = pointer;
                let stored = low(*state.register(of, register));
                let code = Code::new(features, |asm, _| store_slot(asm, of, base, offset, register));
                code.run(&state, None);
                let mut expected = memory;
                let kept = if of.is_wide() { 0 } else { memory[offset as usize / 8] >> 32 << 32 };
                expected[offset as usize / 8] = kept | stored;
                // SAFETY: it points to `target`, which is alive.
                let target = unsafe { std::ptr::read_volatile(pointer as *const [u64; 64]) };
                assert_eq!(target, expected, "{of:?} {base} {offset}");
            }
        }
        // The stack pointer as a base; what is below it belongs to the function.
        let code = Code::new(features, |asm, _| {
            store_slot(asm, of, RSP, -16, 9);
            load_slot(asm, of, 3, RSP, -16);
        });
        let mut state = State::new();
        assert_eq!(*code.run(&state, Some((of, 3))).register(of, 3), low(*state.register(of, 9)));
        for (dst, src) in [(3, 3), (3, 9), (12, 0), (0, 12)] {
            let code = Code::new(features, |asm, _| move_value(asm, of, dst, src));
            let mut state = State::new();
            *state.register(of, src) = low(0xFEDC_BA98_7654_3210);
            assert_eq!(*code.run(&state, Some((of, dst))).register(of, dst), *state.register(of, src));
        }
        for bits in [0, 1, 0x7FFF_FFFF, 0x8000_0000, u64::MAX, u64::MAX << 31, 0x3FF0_0000_0000_0000].map(low) {
            for dst in [0, 3, 13] {
                let code = Code::new(features, |asm, _| constant(asm, of, dst, bits));
                assert_eq!(*code.run(&State::new(), Some((of, dst))).register(of, dst), bits);
            }
        }
    }
}

#[test]
fn operands_in_the_frame_are_as_in_registers() {
    type Computes = fn(u64, u64) -> u64;
    let ops: [(MemoryOp, Computes); 5] = [
        (MemoryOp::Add, u64::wrapping_add),
        (MemoryOp::Sub, u64::wrapping_sub),
        (MemoryOp::And, |a, b| a & b),
        (MemoryOp::Or, |a, b| a | b),
        (MemoryOp::Xor, |a, b| a ^ b),
    ];
    let mut random = Random(3);
    // Distances of one byte and of four.
    for (of, offset) in [Scalar::I32, Scalar::I64].into_iter().flat_map(|of| [8, 200].map(|offset| (of, offset))) {
        let code = |op: &dyn Fn(&mut Asm), jumps: bool| {
            Code::new(Features::detect(), |asm, label| {
                emit!(asm; sub rsp, 256; mov [rsp + offset], r9);
                op(asm);
                emit!(asm; lea rsp, [rsp + 256]);
                if jumps {
                    jump_if(asm, Flags::One(Cc::L), label);
                }
            })
        };
        let low = |word: u64| if of.is_wide() { word } else { word & u64::from(u32::MAX) };
        let signed = |word: u64| if of.is_wide() { word as i64 } else { i64::from(word as i32) };
        let compared = code(&|asm| with_memory(asm, MemoryOp::Cmp, of, 8, offset), true);
        let swapped = code(&|asm| compare_memory(asm, of, offset, Src::Reg(8)), true);
        let constant = code(&|asm| compare_memory(asm, of, offset, Src::Imm(-7)), true);
        for _ in 0..100 {
            let mut state = State::new();
            let (a, b) = (random.value(of), random.value(of));
            (state.general[8], state.general[9]) = (low(a), low(b));
            for (op, expect) in ops {
                let mut after = code(&|asm| with_memory(asm, op, of, 8, offset), false).run(&state, Some((of, 8)));
                assert_eq!(*after.register(of, 8), low(expect(a, b)), "{op:?} of {of:?}: {a:x} {b:x}");
            }
            let is_less = |code: &Code| code.run(&state, None).trapped == 1;
            assert_eq!(is_less(&compared), signed(a) < signed(b), "{of:?}: {a:x} {b:x}");
            assert_eq!(is_less(&swapped), signed(b) < signed(a), "{of:?}: {a:x} {b:x}");
            assert_eq!(is_less(&constant), signed(b) < -7, "{of:?}: {b:x}");
        }
    }
}
