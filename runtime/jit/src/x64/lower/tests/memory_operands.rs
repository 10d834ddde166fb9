//! Operations on floats in the frame or after the code, and tests of the bits that two numbers have in common.

use dynasmrt::{DynasmApi, DynasmLabelApi};

use super::super::{
    Cc, Flags, FloatOp, FloatOperand, Src, emit, float_with_memory, jump_if, load_float, set_if, test_bits,
};
use super::machine::{Code, State};
use super::{Random, all_features};
use crate::ir::types::Scalar;
use crate::processor::registers::RSP;

/// The result of one of four operations, as bits. The payload of a NaN may be any.
fn expected(op: FloatOp, of: Scalar, a: u64, b: u64) -> Option<u64> {
    macro_rules! computed {
        ($float:ident, $bits:ident) => {{
            let (a, b) = ($float::from_bits(a as $bits), $float::from_bits(b as $bits));
            let result = match op {
                FloatOp::Add => a + b,
                FloatOp::Sub => a - b,
                FloatOp::Mul => a * b,
                FloatOp::Div => a / b,
                FloatOp::Min | FloatOp::Max => unreachable!("they read registers"),
            };
            (!result.is_nan()).then_some(u64::from(result.to_bits()))
        }};
    }
    if of.is_wide() { computed!(f64, u64) } else { computed!(f32, u32) }
}

#[test]
fn floats_in_memory_are_as_in_registers() {
    let ops = [FloatOp::Add, FloatOp::Sub, FloatOp::Mul, FloatOp::Div];
    let mut random = Random(5);
    for (features, of) in
        all_features().into_iter().flat_map(|features| [(features, Scalar::F32), (features, Scalar::F64)])
    {
        let low = |bits: u64| if of.is_wide() { bits } else { bits & u64::from(u32::MAX) };
        for _ in 0..60 {
            let (a, b, op) = (low(random.value(of)), low(random.value(of)), random.of(&ops));
            let (dst, first) = (random.of(&[2, 9]), random.of(&[2, 9, 14]));
            let offset = random.of(&[8, 200]);
            // In the frame, after the code, and loaded from there.
            for place in 0..3 {
                let code = Code::new(features, |asm, _| {
                    let (constant, end) = (asm.ops.new_dynamic_label(), asm.ops.new_dynamic_label());
                    emit!(asm; sub rsp, 256; mov [rsp + offset], r9);
                    let operand =
                        if place == 0 { FloatOperand::Frame(offset) } else { FloatOperand::Constant(constant) };
                    match place {
                        2 => load_float(asm, of, dst, operand),
                        _ => float_with_memory(asm, op, of, (dst, first), operand),
                    }
                    emit!(asm; lea rsp, [Rq(RSP) + 256]; jmp =>end; =>constant; .u64 b; =>end);
                });
                let mut state = State::new();
                (state.general[9], *state.register(of, first)) = (b, a);
                code.call(&mut state);
                let found = low(*state.register(of, dst));
                let wanted = if place == 2 { Some(b) } else { expected(op, of, a, b) };
                if let Some(wanted) = wanted {
                    assert_eq!(found, wanted, "{of:?} {a:x} {b:x}, place {place}");
                } else {
                    let is_nan = if of.is_wide() {
                        f64::from_bits(found).is_nan()
                    } else {
                        f32::from_bits(found as u32).is_nan()
                    };
                    assert!(is_nan, "{of:?} {a:x} {b:x}: {found:x}");
                }
            }
        }
    }
}

#[test]
fn bits_in_common_are_tested() {
    let mut random = Random(6);
    for of in [Scalar::I32, Scalar::I64] {
        for _ in 0..200 {
            let (a, b) = (random.value(of), random.value(of));
            let constant = random.of(&super::IMMEDIATES);
            let a = if random.next().is_multiple_of(4) { !b } else { a };
            for second in [Src::Reg(10), Src::Imm(constant)] {
                let code = Code::new(all_features()[0], |asm, label| {
                    let flags = test_bits(asm, of, 9, second);
                    assert_eq!(flags, Flags::One(Cc::Ne));
                    jump_if(asm, flags, label);
                    set_if(asm, flags, 9);
                });
                let mut state = State::new();
                (state.general[9], state.general[10]) = (a, b);
                code.call(&mut state);
                let second = if second == Src::Reg(10) { b } else { i64::from(constant) as u64 };
                let mask = if of.is_wide() { u64::MAX } else { u32::MAX.into() };
                assert_eq!(state.trapped == 1, a & second & mask != 0, "{of:?}: {a:x} {second:x}");
            }
        }
    }
}
