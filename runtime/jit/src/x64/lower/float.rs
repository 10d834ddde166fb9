//! Float primitives, and conversions from and to floats.

use dynasmrt::DynasmApi;

use super::code::{Asm, Flags, Src, emit, integer_constant, move_value};
use super::int::{low_half, register};
use crate::generated::vm::primitive::{FloatTest, Primitive};
use crate::ir::types::Scalar;
use crate::processor::registers::{SCRATCH, VECTOR_SCRATCH};

/// Assembles one instruction in the form for the width of `$of`, for processors with and without three operands.
macro_rules! vector {
    ($asm:expr, $of:expr; $single:ident $double:ident, $($operands:tt)*) => {
        if $of.is_wide() { emit!($asm; $double $($operands)*) } else { emit!($asm; $single $($operands)*) }
    };
}

pub(super) use vector;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::x64) enum Op {
    Add,
    Sub,
    Mul,
    Div,
    /// The first operand if it is less than the second, else the second.
    Min,
    /// The first operand if it is greater than the second, else the second.
    Max,
}

/// `a op b`, in any registers.
pub(super) fn arithmetic(asm: &mut Asm, op: Op, of: Scalar, dst: u8, a: u8, b: u8) {
    if asm.features.avx {
        match op {
            Op::Add => vector!(asm, of; vaddss vaddsd, Rx(dst), Rx(a), Rx(b)),
            Op::Sub => vector!(asm, of; vsubss vsubsd, Rx(dst), Rx(a), Rx(b)),
            Op::Mul => vector!(asm, of; vmulss vmulsd, Rx(dst), Rx(a), Rx(b)),
            Op::Div => vector!(asm, of; vdivss vdivsd, Rx(dst), Rx(a), Rx(b)),
            Op::Min => vector!(asm, of; vminss vminsd, Rx(dst), Rx(a), Rx(b)),
            Op::Max => vector!(asm, of; vmaxss vmaxsd, Rx(dst), Rx(a), Rx(b)),
        }
        return;
    }
    let (a, b) = match op {
        _ if b != dst || a == dst => (a, b),
        Op::Add | Op::Mul => (b, a),
        Op::Sub | Op::Div | Op::Min | Op::Max => {
            move_value(asm, of, VECTOR_SCRATCH, b);
            (a, VECTOR_SCRATCH)
        }
    };
    move_value(asm, of, dst, a);
    match op {
        Op::Add => vector!(asm, of; addss addsd, Rx(dst), Rx(b)),
        Op::Sub => vector!(asm, of; subss subsd, Rx(dst), Rx(b)),
        Op::Mul => vector!(asm, of; mulss mulsd, Rx(dst), Rx(b)),
        Op::Div => vector!(asm, of; divss divsd, Rx(dst), Rx(b)),
        Op::Min => vector!(asm, of; minss minsd, Rx(dst), Rx(b)),
        Op::Max => vector!(asm, of; maxss maxsd, Rx(dst), Rx(b)),
    }
}

/// Two roundings: never a fused instruction.
pub(super) fn multiply_add(asm: &mut Asm, of: Scalar, dst: u8, [a, b, c]: [u8; 3]) {
    let product = if c == dst { VECTOR_SCRATCH } else { dst };
    arithmetic(asm, Op::Mul, of, product, a, b);
    arithmetic(asm, Op::Add, of, dst, product, c);
}

pub(super) fn inverse_square_root(asm: &mut Asm, of: Scalar, dst: u8, a: u8) {
    square_root(asm, of, VECTOR_SCRATCH, a);
    let one = if of.is_wide() { 1f64.to_bits() } else { u64::from(1f32.to_bits()) };
    constant(asm, of, dst, one);
    arithmetic(asm, Op::Div, of, dst, dst, VECTOR_SCRATCH);
}

/// The bits of a float in an integer register.
pub(super) fn bits(asm: &mut Asm, of: Scalar, dst: u8, a: u8) {
    match (asm.features.avx, of.is_wide()) {
        (true, true) => emit!(asm; vmovq Rq(dst), Rx(a)),
        (true, false) => emit!(asm; vmovd Rd(dst), Rx(a)),
        (false, true) => emit!(asm; movq Rq(dst), Rx(a)),
        (false, false) => emit!(asm; movd Rd(dst), Rx(a)),
    }
}

pub(super) fn from_bits(asm: &mut Asm, of: Scalar, dst: u8, a: Src) {
    let a = register(asm, of.integer(), a);
    from_integer_register(asm, of, dst, a);
}

pub(super) fn demote(asm: &mut Asm, dst: u8, a: u8) {
    if asm.features.avx {
        emit!(asm; vcvtsd2ss Rx(dst), Rx(a), Rx(a));
    } else {
        independent(asm, dst, a);
        emit!(asm; cvtsd2ss Rx(dst), Rx(a));
    }
}

pub(super) fn promote(asm: &mut Asm, dst: u8, a: u8) {
    if asm.features.avx {
        emit!(asm; vcvtss2sd Rx(dst), Rx(a), Rx(a));
    } else {
        independent(asm, dst, a);
        emit!(asm; cvtss2sd Rx(dst), Rx(a));
    }
}

pub(super) fn from_i32(asm: &mut Asm, of: Scalar, dst: u8, a: Src) {
    let a = register(asm, Scalar::I32, a);
    zero(asm, dst);
    if asm.features.avx {
        vector!(asm, of; vcvtsi2ss vcvtsi2sd, Rx(dst), Rx(dst), Rd(a));
    } else {
        vector!(asm, of; cvtsi2ss cvtsi2sd, Rx(dst), Rd(a));
    }
}

pub(super) fn from_u32(asm: &mut Asm, of: Scalar, dst: u8, a: Src) {
    low_half(asm, SCRATCH, a);
    from_i64(asm, of, dst, SCRATCH);
}

pub(super) fn from_i64(asm: &mut Asm, of: Scalar, dst: u8, a: u8) {
    zero(asm, dst);
    if asm.features.avx {
        vector!(asm, of; vcvtsi2ss vcvtsi2sd, Rx(dst), Rx(dst), Rq(a));
    } else {
        vector!(asm, of; cvtsi2ss cvtsi2sd, Rx(dst), Rq(a));
    }
}

/// All bits zero. As the conversions to floats keep the upper part of their result register, this also makes them
/// independent of whatever was computed in it before.
fn zero(asm: &mut Asm, dst: u8) {
    if asm.features.avx {
        emit!(asm; vxorps Rx(dst), Rx(dst), Rx(dst));
    } else {
        emit!(asm; xorps Rx(dst), Rx(dst));
    }
}

/// The same for an instruction that reads `a`.
fn independent(asm: &mut Asm, dst: u8, a: u8) {
    if dst != a {
        zero(asm, dst);
    }
}

pub(super) fn square_root(asm: &mut Asm, of: Scalar, dst: u8, a: u8) {
    if asm.features.avx {
        vector!(asm, of; vsqrtss vsqrtsd, Rx(dst), Rx(a), Rx(a));
    } else {
        independent(asm, dst, a);
        vector!(asm, of; sqrtss sqrtsd, Rx(dst), Rx(a));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Flip,
    Clear,
}

/// Works on the sign bit with a mask made from a register of ones.
pub(super) fn sign(asm: &mut Asm, of: Scalar, sign: Sign, dst: u8, a: u8) {
    if asm.features.avx {
        emit!(asm; vpcmpeqd Rx(VECTOR_SCRATCH), Rx(VECTOR_SCRATCH), Rx(VECTOR_SCRATCH));
        match sign {
            Sign::Flip => {
                vector!(asm, of; vpslld vpsllq, Rx(VECTOR_SCRATCH), Rx(VECTOR_SCRATCH), BYTE sign_position(of));
                emit!(asm; vxorps Rx(dst), Rx(a), Rx(VECTOR_SCRATCH));
            }
            Sign::Clear => {
                vector!(asm, of; vpsrld vpsrlq, Rx(VECTOR_SCRATCH), Rx(VECTOR_SCRATCH), BYTE 1);
                emit!(asm; vandps Rx(dst), Rx(a), Rx(VECTOR_SCRATCH));
            }
        }
        return;
    }
    emit!(asm; pcmpeqd Rx(VECTOR_SCRATCH), Rx(VECTOR_SCRATCH));
    move_value(asm, of, dst, a);
    match sign {
        Sign::Flip => {
            vector!(asm, of; pslld psllq, Rx(VECTOR_SCRATCH), BYTE sign_position(of));
            emit!(asm; xorps Rx(dst), Rx(VECTOR_SCRATCH));
        }
        Sign::Clear => {
            vector!(asm, of; psrld psrlq, Rx(VECTOR_SCRATCH), BYTE 1);
            emit!(asm; andps Rx(dst), Rx(VECTOR_SCRATCH));
        }
    }
}

fn sign_position(of: Scalar) -> i8 {
    if of.is_wide() { 63 } else { 31 }
}

/// The float whose bits are in an integer register.
pub(super) fn from_integer_register(asm: &mut Asm, of: Scalar, dst: u8, a: u8) {
    match (asm.features.avx, of.is_wide()) {
        (true, true) => emit!(asm; vmovq Rx(dst), Rq(a)),
        (true, false) => emit!(asm; vmovd Rx(dst), Rd(a)),
        (false, true) => emit!(asm; movq Rx(dst), Rq(a)),
        (false, false) => emit!(asm; movd Rx(dst), Rd(a)),
    }
}

/// See [`super::constant`].
pub(super) fn constant(asm: &mut Asm, of: Scalar, dst: u8, bits: u64) {
    if bits == 0 {
        zero(asm, dst);
    } else {
        integer_constant(asm, of.is_wide(), SCRATCH, bits);
        from_integer_register(asm, of, dst, SCRATCH);
    }
}

/// Compares: the flags are read so.
///
/// A comparison of unordered operands sets ZF, CF and PF, that is, it looks like equal and like below.
pub(super) fn compare(asm: &mut Asm, of: Scalar, first: u8, second: u8, flags: Flags) -> Flags {
    if asm.features.avx {
        vector!(asm, of; vucomiss vucomisd, Rx(first), Rx(second));
    } else {
        vector!(asm, of; ucomiss ucomisd, Rx(first), Rx(second));
    }
    flags
}

/// Predicates of vector comparisons of floats. None of these signals a NaN. Of the orders, those that are true for
/// unordered operands are the negations of the opposite orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Predicate {
    Equal = 0x00,
    Unordered = 0x03,
    NotEqual = 0x04,
    EqualOrUnordered = 0x08,
    Less = 0x11,
    LessOrEqual = 0x12,
    LessOrUnordered = 0x19,
    LessEqualOrUnordered = 0x1A,
}

fn predicate(test: FloatTest) -> Predicate {
    match test {
        FloatTest::Feq => Predicate::Equal,
        FloatTest::FeqU => Predicate::EqualOrUnordered,
        FloatTest::Fne => Predicate::NotEqual,
        FloatTest::Flt => Predicate::Less,
        FloatTest::Fle => Predicate::LessOrEqual,
        FloatTest::FltU => Predicate::LessOrUnordered,
        FloatTest::FleU => Predicate::LessEqualOrUnordered,
        FloatTest::IsNan => Predicate::Unordered,
    }
}

/// See [`super::test_mask`]. With AVX only.
pub(super) fn test_mask(asm: &mut Asm, primitive: Primitive, of: Scalar, src: &[Src]) -> bool {
    let (Some(test), Some(Src::Reg(a)), Some(Src::Reg(b))) = (primitive.float_test(), src.first(), src.last()) else {
        return false;
    };
    let (predicate, a, b) = (predicate(test), *a, *b);
    vector!(asm, of; vcmpss vcmpsd, Rx(VECTOR_SCRATCH), Rx(a), Rx(b), BYTE predicate as i8);
    true
}

/// See [`super::select_by_mask`].
pub(super) fn select_by_mask(asm: &mut Asm, of: Scalar, dst: u8, a: u8, b: u8) {
    vector!(asm, of; vblendvps vblendvpd, Rx(dst), Rx(b), Rx(a), Rx(VECTOR_SCRATCH));
}
