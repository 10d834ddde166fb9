//! Float primitives, and conversions from and to floats.

use dynasmrt::DynasmApi;

use super::int::register;
use super::{Asm, Cc, Flags, Primitive, R11, Scalar, Src, XMM15};
use super::{emit, move_value};

/// Assembles one instruction in the form for the width of `$of`, for processors with and without three operands.
macro_rules! vector {
    ($asm:expr, $of:expr; $single:ident $double:ident, $($operands:tt)*) => {
        if $of.is_wide() { emit!($asm; $double $($operands)*) } else { emit!($asm; $single $($operands)*) }
    };
}

pub(super) use vector;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
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
            move_value(asm, of, XMM15, b);
            (a, XMM15)
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

/// See [`super::value`].
pub(super) fn value(asm: &mut Asm, primitive: Primitive, of: Scalar, dst: u8, src: &[Src]) -> bool {
    match (primitive, src) {
        (Primitive::Fadd, &[Src::Reg(a), Src::Reg(b)]) => arithmetic(asm, Op::Add, of, dst, a, b),
        (Primitive::Fsub, &[Src::Reg(a), Src::Reg(b)]) => arithmetic(asm, Op::Sub, of, dst, a, b),
        (Primitive::Fmul, &[Src::Reg(a), Src::Reg(b)]) => arithmetic(asm, Op::Mul, of, dst, a, b),
        (Primitive::Fdiv, &[Src::Reg(a), Src::Reg(b)]) => arithmetic(asm, Op::Div, of, dst, a, b),
        // Unordered and equal operands give the second one, which has to be the left one.
        (Primitive::FminLhs, &[Src::Reg(lhs), Src::Reg(rhs)]) => arithmetic(asm, Op::Min, of, dst, rhs, lhs),
        (Primitive::FmaxLhs, &[Src::Reg(lhs), Src::Reg(rhs)]) => arithmetic(asm, Op::Max, of, dst, rhs, lhs),
        // Two roundings: never a fused instruction.
        (Primitive::FmulFadd, &[Src::Reg(a), Src::Reg(b), Src::Reg(c)]) => {
            let product = if c == dst { XMM15 } else { dst };
            arithmetic(asm, Op::Mul, of, product, a, b);
            arithmetic(asm, Op::Add, of, dst, product, c);
        }
        (Primitive::Fneg, &[Src::Reg(a)]) => sign(asm, of, Sign::Flip, dst, a),
        (Primitive::Fabs, &[Src::Reg(a)]) => sign(asm, of, Sign::Clear, dst, a),
        (Primitive::Fsqrt, &[Src::Reg(a)]) => square_root(asm, of, dst, a),
        (Primitive::Frsqrt, &[Src::Reg(a)]) => {
            square_root(asm, of, XMM15, a);
            let one = if of.is_wide() { 1f64.to_bits() } else { u64::from(1f32.to_bits()) };
            constant(asm, of, dst, one);
            arithmetic(asm, Op::Div, of, dst, dst, XMM15);
        }
        (Primitive::Bits, &[Src::Reg(a)]) => match (asm.features.avx, of.is_wide()) {
            (true, true) => emit!(asm; vmovq Rq(dst), Rx(a)),
            (true, false) => emit!(asm; vmovd Rd(dst), Rx(a)),
            (false, true) => emit!(asm; movq Rq(dst), Rx(a)),
            (false, false) => emit!(asm; movd Rd(dst), Rx(a)),
        },
        (Primitive::FromBits, &[a]) => {
            let a = register(asm, of.integer(), a);
            from_integer_register(asm, of, dst, a);
        }
        (Primitive::Fdemote, &[Src::Reg(a)]) if asm.features.avx => emit!(asm; vcvtsd2ss Rx(dst), Rx(a), Rx(a)),
        (Primitive::Fdemote, &[Src::Reg(a)]) => {
            independent(asm, dst, a);
            emit!(asm; cvtsd2ss Rx(dst), Rx(a));
        }
        (Primitive::Fpromote, &[Src::Reg(a)]) if asm.features.avx => emit!(asm; vcvtss2sd Rx(dst), Rx(a), Rx(a)),
        (Primitive::Fpromote, &[Src::Reg(a)]) => {
            independent(asm, dst, a);
            emit!(asm; cvtss2sd Rx(dst), Rx(a));
        }
        (Primitive::I32ToF, &[a]) => {
            let a = register(asm, Scalar::I32, a);
            zero(asm, dst);
            if asm.features.avx {
                vector!(asm, of; vcvtsi2ss vcvtsi2sd, Rx(dst), Rx(dst), Rd(a));
            } else {
                vector!(asm, of; cvtsi2ss cvtsi2sd, Rx(dst), Rd(a));
            }
        }
        (Primitive::I64ToF, &[a]) => {
            let a = register(asm, Scalar::I64, a);
            from_i64(asm, of, dst, a);
        }
        (Primitive::U32ToF, &[a]) => {
            match a {
                Src::Reg(a) => emit!(asm; mov Rd(R11), Rd(a)),
                Src::Imm(imm) => emit!(asm; mov Rd(R11), DWORD imm),
            }
            from_i64(asm, of, dst, R11);
        }
        _ => return false,
    }
    true
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

fn square_root(asm: &mut Asm, of: Scalar, dst: u8, a: u8) {
    if asm.features.avx {
        vector!(asm, of; vsqrtss vsqrtsd, Rx(dst), Rx(a), Rx(a));
    } else {
        independent(asm, dst, a);
        vector!(asm, of; sqrtss sqrtsd, Rx(dst), Rx(a));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Flip,
    Clear,
}

/// Works on the sign bit with a mask made from a register of ones.
fn sign(asm: &mut Asm, of: Scalar, sign: Sign, dst: u8, a: u8) {
    if asm.features.avx {
        emit!(asm; vpcmpeqd Rx(XMM15), Rx(XMM15), Rx(XMM15));
        match sign {
            Sign::Flip => {
                vector!(asm, of; vpslld vpsllq, Rx(XMM15), Rx(XMM15), BYTE sign_position(of));
                emit!(asm; vxorps Rx(dst), Rx(a), Rx(XMM15));
            }
            Sign::Clear => {
                vector!(asm, of; vpsrld vpsrlq, Rx(XMM15), Rx(XMM15), BYTE 1);
                emit!(asm; vandps Rx(dst), Rx(a), Rx(XMM15));
            }
        }
        return;
    }
    emit!(asm; pcmpeqd Rx(XMM15), Rx(XMM15));
    move_value(asm, of, dst, a);
    match sign {
        Sign::Flip => {
            vector!(asm, of; pslld psllq, Rx(XMM15), BYTE sign_position(of));
            emit!(asm; xorps Rx(dst), Rx(XMM15));
        }
        Sign::Clear => {
            vector!(asm, of; psrld psrlq, Rx(XMM15), BYTE 1);
            emit!(asm; andps Rx(dst), Rx(XMM15));
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
        super::constant(asm, of.integer(), R11, bits);
        from_integer_register(asm, of, dst, R11);
    }
}

/// See [`super::test`].
///
/// A comparison of unordered operands sets ZF, CF and PF, that is, it looks like equal and like below.
pub(super) fn test(asm: &mut Asm, primitive: Primitive, of: Scalar, src: &[Src]) -> Option<Flags> {
    let (a, b) = match *src {
        [Src::Reg(a)] if primitive == Primitive::IsNan => (a, a),
        [Src::Reg(a), Src::Reg(b)] => (a, b),
        _ => return None,
    };
    let (first, second, flags) = match primitive {
        Primitive::Feq => (a, b, Flags::Both(Cc::Np, Cc::E)),
        Primitive::FeqU => (a, b, Flags::One(Cc::E)),
        Primitive::Fne => (a, b, Flags::Either(Cc::Ne, Cc::P)),
        Primitive::Flt => (b, a, Flags::One(Cc::A)),
        Primitive::Fle => (b, a, Flags::One(Cc::Ae)),
        Primitive::FltU => (a, b, Flags::One(Cc::B)),
        Primitive::FleU => (a, b, Flags::One(Cc::Be)),
        Primitive::IsNan => (a, b, Flags::One(Cc::P)),
        _ => return None,
    };
    if asm.features.avx {
        vector!(asm, of; vucomiss vucomisd, Rx(first), Rx(second));
    } else {
        vector!(asm, of; ucomiss ucomisd, Rx(first), Rx(second));
    }
    Some(flags)
}

/// See [`super::test_mask`]. With AVX only.
pub(super) fn test_mask(asm: &mut Asm, primitive: Primitive, of: Scalar, src: &[Src]) -> bool {
    let (a, b) = match *src {
        [Src::Reg(a)] if primitive == Primitive::IsNan => (a, a),
        [Src::Reg(a), Src::Reg(b)] => (a, b),
        _ => return false,
    };
    // None of these signals that an operand is no number. Of the orders, those that are true for unordered operands are the
    // opposites of the opposite orders.
    let predicate = match primitive {
        Primitive::Feq => 0x00,
        Primitive::FeqU => 0x08,
        Primitive::Fne => 0x04,
        Primitive::Flt => 0x11,
        Primitive::Fle => 0x12,
        Primitive::FltU => 0x19,
        Primitive::FleU => 0x1A,
        Primitive::IsNan => 0x03,
        _ => return false,
    };
    vector!(asm, of; vcmpss vcmpsd, Rx(XMM15), Rx(a), Rx(b), BYTE predicate);
    true
}

/// See [`super::select_by_mask`].
pub(super) fn select_by_mask(asm: &mut Asm, of: Scalar, dst: u8, a: u8, b: u8) {
    vector!(asm, of; vblendvps vblendvpd, Rx(dst), Rx(b), Rx(a), Rx(XMM15));
}
