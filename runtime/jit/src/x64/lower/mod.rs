//! The machine code of primitives: for each one the instructions that compute on x86-64 what the interpreter's function
//! of its name computes, bit for bit except for the payload of a NaN.
//!
//! Operands are in any registers. Instructions may use `r11` and `xmm15` freely, and `rax`, `rcx` and, for divisions,
//! `rdx` once the sources that live in them were read; they leave all other registers alone. Stores may have their
//! third operand in `r11`, too. A 32-bit integer has zeros in the upper half of its register.
//!
//! Plain x86-64 suffices. Newer instructions are used where [`Features`] has them.

#![expect(
    clippy::useless_conversion,
    reason = "the assembler converts the numbers of registers, which are `u8` already"
)]

mod code;
mod evex;
mod float;
mod int;
pub(super) mod lanes;
mod memory;
mod multiplier;
mod primitives;
mod round;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};

use crate::generated::vm::primitive::Primitive;
use crate::ir::types::Scalar;

pub(super) use crate::generated::vm::primitive::{attempt, load, store, test, value};
use crate::processor::registers::SCRATCH;
pub(crate) use code::Cc;
pub(super) use code::{Asm, move_value};
pub(crate) use code::{Flags, Src};
use code::{emit, integer_constant, jump, jump_by, jump_short, move_if};
pub(super) use float::Op as FloatOp;
pub(super) use int::{compare, test_bits};
pub(super) use memory::{
    FloatOperand, MemoryOp, compare_memory, float_with_memory, load_float, load_slot, store_slot, with_memory,
};

/// Jumps to `label` if a test was true.
pub(super) fn jump_if(asm: &mut Asm, flags: Flags, label: DynamicLabel) {
    jump_by(asm, flags, label, jump);
}

/// Writes 1 if a test was true and 0 if it was false, as an `i32`.
pub(super) fn set_if(asm: &mut Asm, flags: Flags, dst: u8) {
    match flags {
        Flags::One(cc) => set(asm, cc, dst),
        Flags::Both(first, second) => {
            set(asm, first, SCRATCH);
            set(asm, second, dst);
            emit!(asm; and Rb(dst), Rb(SCRATCH));
        }
        Flags::Either(first, second) => {
            set(asm, first, SCRATCH);
            set(asm, second, dst);
            emit!(asm; or Rb(dst), Rb(SCRATCH));
        }
    }
    emit!(asm; movzx Rd(dst), Rb(dst));
}

/// Writes the low byte of `dst` and leaves the flags alone.
fn set(asm: &mut Asm, cc: Cc, dst: u8) {
    macro_rules! sets {
        ($($cc:ident $op:ident),*) => { match cc { $(Cc::$cc => emit!(asm; $op Rb(dst)),)* } };
    }
    sets!(
        O seto, No setno, B setb, Ae setae, E sete, Ne setne, Be setbe, A seta, S sets, Ns setns, P setp, Np setnp,
        L setl, Ge setge, Le setle, G setg
    );
}

/// Whether a selection of floats by a test of floats needs no branch.
pub(super) fn has_mask(asm: &Asm, tested: Scalar, selected: Scalar) -> bool {
    // A mask is as wide as what is tested.
    let is_wide_enough = tested.is_wide() || !selected.is_wide();
    asm.features.avx && tested.is_float() && selected.is_float() && is_wide_enough
}

/// Makes a test of floats for [`select_by_mask`], which is to follow. False, and no code, if it is not one.
pub(super) fn test_mask(asm: &mut Asm, primitive: Primitive, of: Scalar, src: &[Src]) -> bool {
    float::test_mask(asm, primitive, of, src)
}

/// Writes `a` if the test that [`test_mask`] made was true, else `b`.
pub(super) fn select_by_mask(asm: &mut Asm, of: Scalar, dst: u8, a: u8, b: u8) {
    float::select_by_mask(asm, of, dst, a, b);
}

/// Writes `a` if the test that set the flags was true, else `b`. `dst` may be one of them.
pub(super) fn select(asm: &mut Asm, of: Scalar, flags: Flags, dst: u8, a: u8, b: u8) {
    if a == b {
        return move_value(asm, of, dst, a);
    }
    if of.is_float() {
        // A branch over a move: there is no conditional move of floats.
        let (flags, other) = if dst == b { (flags.negate(), a) } else { (flags, b) };
        let skip = asm.ops.new_dynamic_label();
        if dst != b {
            move_value(asm, of, dst, a);
        }
        jump_by(asm, flags, skip, jump_short);
        move_value(asm, of, dst, other);
        emit!(asm; =>skip);
        return;
    }
    match flags {
        Flags::One(cc) if dst == a => move_if(asm, of, cc.negate(), dst, b),
        Flags::One(cc) => {
            move_value(asm, of, dst, b);
            move_if(asm, of, cc, dst, a);
        }
        Flags::Both(..) => select(asm, of, flags.negate(), dst, b, a),
        Flags::Either(first, second) => {
            let to = if dst == a { SCRATCH } else { dst };
            move_value(asm, of, to, b);
            move_if(asm, of, first, to, a);
            move_if(asm, of, second, to, a);
            move_value(asm, of, dst, to);
        }
    }
}

/// Writes the value with these bits, without touching the flags.
pub(super) fn constant(asm: &mut Asm, of: Scalar, dst: u8, bits: u64) {
    if of.is_float() { float::constant(asm, of, dst, bits) } else { integer_constant(asm, of.is_wide(), dst, bits) }
}
