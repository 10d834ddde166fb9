//! Sequences that vectors of several widths are made of.

use dynasmrt::DynasmApi;

use super::super::code::{Asm, Src, emit};
use crate::ir::graph::Interleave;
use crate::ir::types::{Scalar, Width};
use crate::processor::registers::SCRATCH;

/// Writes the address of an element of `1 << shift` bytes to the scratch register.
pub(super) fn address(asm: &mut Asm, (base, index): (u8, Src), shift: u8) {
    match (index, shift) {
        (Src::Reg(index), 0) => emit!(asm; lea Rq(SCRATCH), [Rq(base) + Rq(index)]),
        (Src::Reg(index), 3) => emit!(asm; lea Rq(SCRATCH), [Rq(base) + Rq(index) * 8]),
        (Src::Reg(index), _) => emit!(asm; lea Rq(SCRATCH), [Rq(base) + Rq(index) * 4]),
        (Src::Imm(index), _) => emit!(asm; lea Rq(SCRATCH), [Rq(base) + index.wrapping_shl(shift.into())]),
    }
}

/// The operand that chooses pairs of lanes: two bits for each, of which the first two are of the first operand.
pub(super) fn pairs(which: Interleave) -> u8 {
    match which {
        Interleave::Low | Interleave::LowPairs | Interleave::Even => 0b01_00_01_00,
        Interleave::High | Interleave::HighPairs | Interleave::Odd => 0b11_10_11_10,
    }
}

/// The value of one of the first four lanes.
pub(super) fn extract_from_four(asm: &mut Asm, of: Scalar, dst: u8, src: u8, lane: u8) {
    let lane = lane as i8;
    if of.is_float() {
        emit!(asm; vpermilps Rx(dst), Rx(src), BYTE lane);
    } else {
        emit!(asm; vpextrd Rd(dst), Rx(src), BYTE lane);
    }
}

/// Writes a bit for each of four or eight lanes that is on in a mask.
pub(super) fn mask_bits(asm: &mut Asm, width: Width, shift: u8, dst: u8, mask: u8) {
    let is_wide = u8::from(shift == 3);
    let is_256 = if width == Width::Four { is_wide } else { 1 };
    // `vmovmskps` or `vmovmskpd`, of which the assembler takes no operands. Bits of registers above the lowest eight
    // are inverted.
    let registers = (!dst >> 3 & 1) << 7 | 1 << 6 | (!mask >> 3 & 1) << 5;
    [0xC4, registers | 1, 0b1111 << 3 | is_256 << 2 | is_wide, 0x50, 0b11 << 6 | (dst & 7) << 3 | mask & 7]
        .into_iter()
        .for_each(|byte| asm.ops.push(byte));
}
