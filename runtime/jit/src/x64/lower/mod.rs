//! The machine code of primitives: for each one the instructions that compute on x86-64 what the interpreter's function
//! of its name computes, bit for bit except for the payload of a NaN.
//!
//! Operands are in any registers. Instructions may use `r11` and `xmm15` freely, and `rax`, `rcx` and `rdx` once the
//! sources that live in them were read; they leave all other registers alone. A 32-bit integer has zeros in the upper
//! half of its register.
//!
//! Plain x86-64 suffices. Newer instructions are used where [`Features`] has them.

#![expect(
    clippy::useless_conversion,
    reason = "the assembler converts the numbers of registers, which are `u8` already"
)]

mod evex;
mod float;
mod int;
pub(super) mod lanes;
mod memory;
mod primitives;
mod round;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

use dynasmrt::x64::X64Relocation;
use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi, VecAssembler};

use crate::generated::vm::primitive::Primitive;
use crate::ir::types::Scalar;

pub(super) use crate::generated::vm::primitive::{attempt, load, store, test, value};
use crate::processor::features::Features;
use crate::processor::registers::SCRATCH;
pub(super) use memory::{load_slot, store_slot};

/// Assembles instructions.
macro_rules! emit {
    ($asm:expr; $($code:tt)*) => {{ dynasmrt::dynasm!($asm.ops ; .arch x64 ; $($code)*); }};
}

/// Assembles one instruction on integer registers of the width of `$of`, maybe with an immediate after them.
macro_rules! sized {
    ($asm:expr, $of:expr; $op:ident $($register:expr),+ $(; $size:ident $imm:expr)?) => {
        if $of.is_wide() {
            emit!($asm; $op $(Rq($register)),+ $(, $size $imm)?)
        } else {
            emit!($asm; $op $(Rd($register)),+ $(, $size $imm)?)
        }
    };
}

use {emit, sized};

/// Code that is being written.
pub(super) struct Asm {
    /// The code so far and its labels.
    pub ops: VecAssembler<X64Relocation>,
    /// The instructions that it may have.
    pub features: Features,
}

impl Asm {
    /// No code yet; it will run on processors that have `features`.
    #[cfg(test)]
    pub(super) fn new(features: Features) -> Asm {
        // No instruction here depends on where it stands.
        Asm { ops: VecAssembler::new(0), features }
    }

    /// The same with memory for so many bytes, and labels with a branch to each.
    pub(super) fn with_capacity(features: Features, bytes: usize, labels: usize) -> Asm {
        Asm { ops: VecAssembler::new_with_capacity(0, bytes, 0, 0, labels, 0, labels), features }
    }
}

/// An operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Src {
    /// A register of the bank its type lives in, by its hardware number.
    Reg(u8),
    /// An integer, sign-extended to the width of its type.
    Imm(i32),
}

/// A condition of the processor, in the order of its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cc {
    /// Overflow.
    O,
    /// No overflow.
    No,
    /// Below: unsigned, or unordered floats.
    B,
    /// Above or equal, unsigned.
    Ae,
    /// Equal, or unordered floats.
    E,
    /// Not equal.
    Ne,
    /// Below or equal: unsigned, or unordered floats.
    Be,
    /// Above, unsigned.
    A,
    /// Negative.
    S,
    /// Not negative.
    Ns,
    /// Unordered floats.
    P,
    /// Ordered floats.
    Np,
    /// Less, signed.
    L,
    /// Greater or equal, signed.
    Ge,
    /// Less or equal, signed.
    Le,
    /// Greater, signed.
    G,
}

impl Cc {
    /// The condition that holds when this one does not.
    pub(super) fn negate(self) -> Cc {
        match self {
            Cc::O => Cc::No,
            Cc::No => Cc::O,
            Cc::B => Cc::Ae,
            Cc::Ae => Cc::B,
            Cc::E => Cc::Ne,
            Cc::Ne => Cc::E,
            Cc::Be => Cc::A,
            Cc::A => Cc::Be,
            Cc::S => Cc::Ns,
            Cc::Ns => Cc::S,
            Cc::P => Cc::Np,
            Cc::Np => Cc::P,
            Cc::L => Cc::Ge,
            Cc::Ge => Cc::L,
            Cc::Le => Cc::G,
            Cc::G => Cc::Le,
        }
    }
}

/// How a test reads the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flags {
    /// The condition holds.
    One(Cc),
    /// Both conditions hold.
    Both(Cc, Cc),
    /// At least one of the conditions holds.
    Either(Cc, Cc),
}

impl Flags {
    /// The condition that is true when this is false.
    pub(super) fn negate(self) -> Flags {
        match self {
            Flags::One(cc) => Flags::One(cc.negate()),
            Flags::Both(first, second) => Flags::Either(first.negate(), second.negate()),
            Flags::Either(first, second) => Flags::Both(first.negate(), second.negate()),
        }
    }
}

/// Jumps to `label` if a test was true.
pub(super) fn jump_if(asm: &mut Asm, flags: Flags, label: DynamicLabel) {
    jump_by(asm, flags, label, jump);
}

fn jump_by(asm: &mut Asm, flags: Flags, label: DynamicLabel, jump: fn(&mut Asm, Cc, DynamicLabel)) {
    match flags {
        Flags::One(cc) => jump(asm, cc, label),
        Flags::Either(first, second) => {
            jump(asm, first, label);
            jump(asm, second, label);
        }
        Flags::Both(first, second) => {
            let skip = asm.ops.new_dynamic_label();
            jump_short(asm, first.negate(), skip);
            jump(asm, second, label);
            emit!(asm; =>skip);
        }
    }
}

fn jump(asm: &mut Asm, cc: Cc, label: DynamicLabel) {
    macro_rules! jumps {
        ($($cc:ident $op:ident),*) => { match cc { $(Cc::$cc => emit!(asm; $op =>label),)* } };
    }
    jumps!(
        O jo, No jno, B jb, Ae jae, E je, Ne jne, Be jbe, A ja, S js, Ns jns, P jp, Np jnp, L jl, Ge jge, Le jle, G jg
    );
}

/// Jumps to a label that is less than 128 bytes away.
fn jump_short(asm: &mut Asm, cc: Cc, label: DynamicLabel) {
    macro_rules! jumps {
        ($($cc:ident $op:ident),*) => { match cc { $(Cc::$cc => emit!(asm; $op BYTE =>label),)* } };
    }
    jumps!(
        O jo, No jno, B jb, Ae jae, E je, Ne jne, Be jbe, A ja, S js, Ns jns, P jp, Np jnp, L jl, Ge jge, Le jle, G jg
    );
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

/// Moves an integer if the condition holds.
fn move_if(asm: &mut Asm, of: Scalar, cc: Cc, dst: u8, src: u8) {
    macro_rules! moves {
        ($($cc:ident $op:ident),*) => { match cc { $(Cc::$cc => sized!(asm, of; $op dst, src),)* } };
    }
    moves!(
        O cmovo, No cmovno, B cmovb, Ae cmovae, E cmove, Ne cmovne, Be cmovbe, A cmova, S cmovs, Ns cmovns, P cmovp,
        Np cmovnp, L cmovl, Ge cmovge, Le cmovle, G cmovg
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

/// Copies a value to another register of its bank, without touching the flags.
pub(super) fn move_value(asm: &mut Asm, of: Scalar, dst: u8, src: u8) {
    if dst == src {
        return;
    }
    match of {
        Scalar::I32 => emit!(asm; mov Rd(dst), Rd(src)),
        Scalar::I64 => emit!(asm; mov Rq(dst), Rq(src)),
        _ if asm.features.avx => emit!(asm; vmovaps Rx(dst), Rx(src)),
        _ => emit!(asm; movaps Rx(dst), Rx(src)),
    }
}

/// Writes the value with these bits, without touching the flags.
pub(super) fn constant(asm: &mut Asm, of: Scalar, dst: u8, bits: u64) {
    match of {
        Scalar::I32 => emit!(asm; mov Rd(dst), DWORD bits as u32 as i32),
        Scalar::I64 => {
            if let Ok(bits) = u32::try_from(bits) {
                emit!(asm; mov Rd(dst), DWORD bits as i32);
            } else if let Ok(bits) = i32::try_from(bits as i64) {
                emit!(asm; mov Rq(dst), DWORD bits);
            } else {
                emit!(asm; mov Rq(dst), QWORD bits as i64);
            }
        }
        Scalar::F32 | Scalar::F64 => float::constant(asm, of, dst, bits),
    }
}
