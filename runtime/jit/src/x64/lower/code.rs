//! Code that is being written: the assembler with its macros, operands, conditions, and the instructions that all other
//! sequences are made of: jumps and moves.

use dynasmrt::x64::X64Relocation;
use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi, VecAssembler};

use crate::ir::types::Scalar;
use crate::processor::features::Features;

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

pub(super) use {emit, sized};

/// Code that is being written.
pub(in crate::x64) struct Asm {
    /// The code so far and its labels.
    pub ops: VecAssembler<X64Relocation>,
    /// The instructions that it may have.
    pub features: Features,
}

impl Asm {
    /// No code yet; it will run on processors that have `features`.
    #[cfg(test)]
    pub(in crate::x64) fn new(features: Features) -> Asm {
        // No instruction here depends on where it stands.
        Asm { ops: VecAssembler::new(0), features }
    }

    /// The same with memory for so many bytes, and labels with a branch to each.
    pub(in crate::x64) fn with_capacity(features: Features, bytes: usize, labels: usize) -> Asm {
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
    pub(in crate::x64) fn negate(self) -> Cc {
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
    pub(in crate::x64) fn negate(self) -> Flags {
        match self {
            Flags::One(cc) => Flags::One(cc.negate()),
            Flags::Both(first, second) => Flags::Either(first.negate(), second.negate()),
            Flags::Either(first, second) => Flags::Both(first.negate(), second.negate()),
        }
    }
}

pub(super) fn jump_by(asm: &mut Asm, flags: Flags, label: DynamicLabel, jump: fn(&mut Asm, Cc, DynamicLabel)) {
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

pub(super) fn jump(asm: &mut Asm, cc: Cc, label: DynamicLabel) {
    macro_rules! jumps {
        ($($cc:ident $op:ident),*) => { match cc { $(Cc::$cc => emit!(asm; $op =>label),)* } };
    }
    jumps!(
        O jo, No jno, B jb, Ae jae, E je, Ne jne, Be jbe, A ja, S js, Ns jns, P jp, Np jnp, L jl, Ge jge, Le jle, G jg
    );
}

/// Jumps to a label that is less than 128 bytes away.
pub(super) fn jump_short(asm: &mut Asm, cc: Cc, label: DynamicLabel) {
    macro_rules! jumps {
        ($($cc:ident $op:ident),*) => { match cc { $(Cc::$cc => emit!(asm; $op BYTE =>label),)* } };
    }
    jumps!(
        O jo, No jno, B jb, Ae jae, E je, Ne jne, Be jbe, A ja, S js, Ns jns, P jp, Np jnp, L jl, Ge jge, Le jle, G jg
    );
}

/// Moves an integer if the condition holds.
pub(super) fn move_if(asm: &mut Asm, of: Scalar, cc: Cc, dst: u8, src: u8) {
    macro_rules! moves {
        ($($cc:ident $op:ident),*) => { match cc { $(Cc::$cc => sized!(asm, of; $op dst, src),)* } };
    }
    moves!(
        O cmovo, No cmovno, B cmovb, Ae cmovae, E cmove, Ne cmovne, Be cmovbe, A cmova, S cmovs, Ns cmovns, P cmovp,
        Np cmovnp, L cmovl, Ge cmovge, Le cmovle, G cmovg
    );
}

/// Copies a value to another register of its bank, without touching the flags.
pub(in crate::x64) fn move_value(asm: &mut Asm, of: Scalar, dst: u8, src: u8) {
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

/// Writes the integer with these bits, without touching the flags.
pub(super) fn integer_constant(asm: &mut Asm, is_wide: bool, dst: u8, bits: u64) {
    if !is_wide {
        emit!(asm; mov Rd(dst), DWORD bits as u32 as i32);
    } else if let Ok(bits) = u32::try_from(bits) {
        emit!(asm; mov Rd(dst), DWORD bits as i32);
    } else if let Ok(bits) = i32::try_from(bits as i64) {
        emit!(asm; mov Rq(dst), DWORD bits);
    } else {
        emit!(asm; mov Rq(dst), QWORD bits as i64);
    }
}
