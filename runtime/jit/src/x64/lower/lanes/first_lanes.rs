//! Stores of the first lanes of a vector: those that are on in a mask, which is one of the first lanes, as all masks of
//! accesses are.
//!
//! AVX2 has an instruction that stores by a mask. It takes twelve cycles on some processors (Zen 2 to Zen 4), whatever
//! the mask is. Two or three stores of four, two and one lanes, chosen by tests of the mask, take two or three, since a
//! loop that ends with such a store nearly always ends in the same way as before.

use dynasmrt::{DynasmApi, DynasmLabelApi};

use super::super::{Asm, Cc, Src, emit, jump_short};
use super::common::mask_bits;
use super::eight::elements;
use crate::ir::types::Width;
use crate::processor::registers::{SCRATCH, VECTOR_SCRATCH};

/// Stores lanes of elements of 4 or 8 bytes, from element `at` on.
pub(super) fn store(asm: &mut Asm, width: Width, shift: u8, to: (u8, Src), src: u8, at: u8, mask: u8) {
    let of_half = 16_u8 >> shift;
    let half = if shift == 3 { two } else { four };
    mask_bits(asm, width, shift, SCRATCH, mask);
    half(asm, to, src, at);
    if width.lanes() > u64::from(of_half) {
        let done = asm.ops.new_dynamic_label();
        emit!(asm; shr Rd(SCRATCH), BYTE of_half as i8);
        jump_short(asm, Cc::E, done);
        emit!(asm; vextractf128 Rx(VECTOR_SCRATCH), Ry(src), BYTE 1);
        half(asm, to, VECTOR_SCRATCH, at + of_half);
        emit!(asm; =>done);
    }
}

/// Stores up to four lanes of 32 bits: as many as there are low bits in the scratch register.
fn four(asm: &mut Asm, (base, index): (u8, Src), src: u8, at: u8) {
    let [fewer, one, done] = std::array::from_fn(|_| asm.ops.new_dynamic_label());
    emit!(asm; test Rb(SCRATCH), BYTE 0b1000);
    jump_short(asm, Cc::E, fewer);
    elements!(asm, 1, base, index * 4, at; [vmovups] [, Rx(src)]);
    emit!(asm; jmp BYTE =>done; =>fewer; test Rb(SCRATCH), BYTE 0b10);
    jump_short(asm, Cc::E, one);
    elements!(asm, 1, base, index * 4, at; [vmovlps] [, Rx(src)]);
    emit!(asm; test Rb(SCRATCH), BYTE 0b100);
    jump_short(asm, Cc::E, done);
    let third = at + 2;
    elements!(asm, 1, base, index * 4, third; [vextractps] [, Rx(src), BYTE 2]);
    emit!(asm; jmp BYTE =>done; =>one; test Rb(SCRATCH), BYTE 0b1);
    jump_short(asm, Cc::E, done);
    elements!(asm, 1, base, index * 4, at; [vmovss] [, Rx(src)]);
    emit!(asm; =>done);
}

/// Stores up to two lanes of 64 bits.
fn two(asm: &mut Asm, (base, index): (u8, Src), src: u8, at: u8) {
    let [one, done] = std::array::from_fn(|_| asm.ops.new_dynamic_label());
    emit!(asm; test Rb(SCRATCH), BYTE 0b10);
    jump_short(asm, Cc::E, one);
    elements!(asm, 1, base, index * 8, at; [vmovups] [, Rx(src)]);
    emit!(asm; jmp BYTE =>done; =>one; test Rb(SCRATCH), BYTE 0b1);
    jump_short(asm, Cc::E, done);
    elements!(asm, 1, base, index * 8, at; [vmovlps] [, Rx(src)]);
    emit!(asm; =>done);
}
