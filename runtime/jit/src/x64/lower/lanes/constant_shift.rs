//! Shifts of lanes by a constant: one instruction for lanes of 32 bits, and for most of 64, where that by a vector
//! needs the amounts in a register, and first cuts them to the bits that count.

use dynasmrt::DynasmApi;

use super::super::evex;
use super::super::{Asm, Primitive, Scalar, emit};
use crate::ir::types::Width;
use crate::processor::registers::VECTOR_SCRATCH;

/// Copies the odd lanes of 32 bits to the even ones before them.
const ODD: i8 = 0b11_11_01_01_u8 as i8;
/// The odd lanes of 32 bits of a second operand, and the even ones of a first.
const UPPER_HALVES: i8 = 0b1010_1010_u8 as i8;

/// Shifts all lanes, by less bits than they have.
pub(crate) fn shift(asm: &mut Asm, width: Width, (primitive, of): (Primitive, Scalar), dst: u8, a: u8, amount: u8) {
    if of.is_wide() {
        return shift_wide(asm, primitive, dst, a, amount);
    }
    if width == Width::Sixteen {
        let instruction = match primitive {
            Primitive::Shl => evex::VPSLLD,
            Primitive::ShrS => evex::VPSRAD,
            _ => evex::VPSRLD,
        };
        return instruction.by_constant(asm, dst, a, amount);
    }
    let amount = amount as i8;
    match primitive {
        Primitive::Shl => emit!(asm; vpslld Ry(dst), Ry(a), BYTE amount),
        Primitive::ShrS => emit!(asm; vpsrad Ry(dst), Ry(a), BYTE amount),
        Primitive::ShrU => emit!(asm; vpsrld Ry(dst), Ry(a), BYTE amount),
        _ => unreachable!("{primitive:?} is no shift"),
    }
}

/// Shifts four lanes of 64 bits.
fn shift_wide(asm: &mut Asm, primitive: Primitive, dst: u8, a: u8, amount: u8) {
    match (primitive, amount) {
        (Primitive::Shl, _) => by_constant(asm, 6, dst, a, amount),
        (Primitive::ShrU, _) => by_constant(asm, 2, dst, a, amount),
        // No instruction extends a sign of 64 bits. Of what is negative, all bits are ones.
        (Primitive::ShrS, 63) => emit!(asm
            ; vpxor Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH)
            ; vpcmpgtq Ry(dst), Ry(VECTOR_SCRATCH), Ry(a)
        ),
        // The upper halves are those of a shift with signs of 32 bits.
        (Primitive::ShrS, 0..32) => {
            by_constant(asm, 2, VECTOR_SCRATCH, a, amount);
            emit!(asm; vpsrad Ry(dst), Ry(a), BYTE amount as i8);
            upper_halves(asm, dst);
        }
        // The lower halves are upper halves that are shifted by the rest.
        (Primitive::ShrS, _) => {
            emit!(asm
                ; vpsrad Ry(VECTOR_SCRATCH), Ry(a), BYTE (amount - 32) as i8
                ; vpshufd Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), BYTE ODD
                ; vpsrad Ry(dst), Ry(a), BYTE 31
            );
            upper_halves(asm, dst);
        }
        _ => unreachable!("{primitive:?} is no shift"),
    }
}

/// Puts the upper halves of `dst` above the lower ones of the scratch register.
fn upper_halves(asm: &mut Asm, dst: u8) {
    // The assembler takes the last two of this instruction the other way round.
    emit!(asm; vpblendd Ry(dst), Ry(dst), Ry(VECTOR_SCRATCH), BYTE UPPER_HALVES);
}

/// `vpsrlq dst, a, amount` or, with another digit of the opcode, `vpsllq`, which the assembler encodes for half a
/// register.
fn by_constant(asm: &mut Asm, digit: u8, dst: u8, a: u8, amount: u8) {
    let (inverted_r_x, inverted_b, map_0f) = (0b11 << 6, (!a >> 3 & 1) << 5, 1);
    let (length_256, prefix_66) = (1 << 2, 1);
    let bytes = [
        0xC4,
        inverted_r_x | inverted_b | map_0f,
        (!dst & 15) << 3 | length_256 | prefix_66,
        0x73,
        0b11 << 6 | digit << 3 | a & 7,
        amount,
    ];
    bytes.into_iter().for_each(|byte| asm.ops.push(byte));
}
