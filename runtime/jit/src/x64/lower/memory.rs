//! Loads and stores: of elements of buffers, of slots of the frame and of spill slots. The graph has the range checks.

use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};

use super::float::{Op, vector};
use super::{Asm, Scalar, Src, emit, move_value};
use crate::processor::registers::RSP;

/// Assembles an instruction with the element `$index` at `$base` as its memory operand, which is between what stands in
/// brackets.
macro_rules! element {
    ($asm:expr, $base:ident, $index:ident * $size:tt; [$($before:tt)*] [$($after:tt)*]) => {
        match $index {
            Src::Reg(index) => emit!($asm; $($before)* [Rq($base) + Rq(index) * $size] $($after)*),
            Src::Imm(index) => {
                let offset = index.wrapping_mul($size);
                slot!($asm, $base, offset; [$($before)*] [$($after)*]);
            }
        }
    };
}

/// The same for a number of bytes.
macro_rules! slot {
    ($asm:expr, $base:ident, $offset:ident; [$($before:tt)*] [$($after:tt)*]) => {
        match i8::try_from($offset) {
            Ok(offset) => emit!($asm; $($before)* [BYTE Rq($base) + offset] $($after)*),
            Err(_) => emit!($asm; $($before)* [DWORD Rq($base) + $offset] $($after)*),
        }
    };
}

pub(super) use {element, slot};

/// Loads a value from `base + offset`.
pub(crate) fn load_slot(asm: &mut Asm, of: Scalar, dst: u8, base: u8, offset: i32) {
    match of {
        Scalar::I32 => slot!(asm, base, offset; [mov Rd(dst), DWORD] []),
        Scalar::I64 => slot!(asm, base, offset; [mov Rq(dst), QWORD] []),
        Scalar::F32 if asm.features.avx => slot!(asm, base, offset; [vmovss Rx(dst), DWORD] []),
        Scalar::F32 => slot!(asm, base, offset; [movss Rx(dst), DWORD] []),
        Scalar::F64 if asm.features.avx => slot!(asm, base, offset; [vmovsd Rx(dst), QWORD] []),
        Scalar::F64 => slot!(asm, base, offset; [movsd Rx(dst), QWORD] []),
    }
}

/// Stores a value to `base + offset`.
pub(crate) fn store_slot(asm: &mut Asm, of: Scalar, base: u8, offset: i32, src: u8) {
    match of {
        Scalar::I32 => slot!(asm, base, offset; [mov DWORD] [, Rd(src)]),
        Scalar::I64 => slot!(asm, base, offset; [mov QWORD] [, Rq(src)]),
        Scalar::F32 if asm.features.avx => slot!(asm, base, offset; [vmovss DWORD] [, Rx(src)]),
        Scalar::F32 => slot!(asm, base, offset; [movss DWORD] [, Rx(src)]),
        Scalar::F64 if asm.features.avx => slot!(asm, base, offset; [vmovsd QWORD] [, Rx(src)]),
        Scalar::F64 => slot!(asm, base, offset; [movsd QWORD] [, Rx(src)]),
    }
}

/// Instructions whose second operand may be a spill slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryOp {
    Add,
    Sub,
    And,
    Or,
    Xor,
    /// Sets the flags alone.
    Cmp,
}

/// `lhs op= [rsp + offset]`, or the flags of it.
pub(crate) fn with_memory(asm: &mut Asm, op: MemoryOp, of: Scalar, lhs: u8, offset: i32) {
    macro_rules! ops {
        ($($kind:ident $op:ident),*) => {
            match (op, of.is_wide()) {
                $(
                    (MemoryOp::$kind, true) => slot!(asm, RSP, offset; [$op Rq(lhs), QWORD] []),
                    (MemoryOp::$kind, false) => slot!(asm, RSP, offset; [$op Rd(lhs), DWORD] []),
                )*
            }
        };
    }
    ops!(Add add, Sub sub, And and, Or or, Xor xor, Cmp cmp);
}

/// The flags of a comparison of `[rsp + offset]` with an operand.
pub(crate) fn compare_memory(asm: &mut Asm, of: Scalar, offset: i32, rhs: Src) {
    match (rhs, of.is_wide()) {
        (Src::Reg(rhs), true) => slot!(asm, RSP, offset; [cmp QWORD] [, Rq(rhs)]),
        (Src::Reg(rhs), false) => slot!(asm, RSP, offset; [cmp DWORD] [, Rd(rhs)]),
        (Src::Imm(rhs), true) => slot!(asm, RSP, offset; [cmp QWORD] [, DWORD rhs]),
        (Src::Imm(rhs), false) => slot!(asm, RSP, offset; [cmp DWORD] [, DWORD rhs]),
    }
}

/// A float in memory: an offset in the native frame, or a constant after the code.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FloatOperand {
    Frame(i32),
    Constant(DynamicLabel),
}

/// Loads a float.
pub(crate) fn load_float(asm: &mut Asm, of: Scalar, dst: u8, operand: FloatOperand) {
    match operand {
        FloatOperand::Frame(offset) => load_slot(asm, of, dst, RSP, offset),
        FloatOperand::Constant(label) if asm.features.avx => vector!(asm, of; vmovss vmovsd, Rx(dst), [=>label]),
        FloatOperand::Constant(label) => vector!(asm, of; movss movsd, Rx(dst), [=>label]),
    }
}

/// `a op operand`.
pub(in crate::x64) fn float_with_memory(asm: &mut Asm, op: Op, of: Scalar, (dst, a): (u8, u8), operand: FloatOperand) {
    macro_rules! forms {
        ($($memory:tt)*) => {
            match op {
                Op::Add if asm.features.avx => vector!(asm, of; vaddss vaddsd, Rx(dst), Rx(a), $($memory)*),
                Op::Sub if asm.features.avx => vector!(asm, of; vsubss vsubsd, Rx(dst), Rx(a), $($memory)*),
                Op::Mul if asm.features.avx => vector!(asm, of; vmulss vmulsd, Rx(dst), Rx(a), $($memory)*),
                Op::Div if asm.features.avx => vector!(asm, of; vdivss vdivsd, Rx(dst), Rx(a), $($memory)*),
                Op::Add => vector!(asm, of; addss addsd, Rx(dst), $($memory)*),
                Op::Sub => vector!(asm, of; subss subsd, Rx(dst), $($memory)*),
                Op::Mul => vector!(asm, of; mulss mulsd, Rx(dst), $($memory)*),
                Op::Div => vector!(asm, of; divss divsd, Rx(dst), $($memory)*),
                Op::Min | Op::Max => unreachable!("minima and maxima read registers"),
            }
        };
    }
    if !asm.features.avx {
        move_value(asm, of, dst, a);
    }
    match operand {
        FloatOperand::Frame(offset) => forms!([Rq(RSP) + offset]),
        FloatOperand::Constant(label) => forms!([=>label]),
    }
}
