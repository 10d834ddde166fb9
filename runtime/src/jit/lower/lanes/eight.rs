//! Eight lanes, by instructions of AVX2.

use dynasmrt::DynasmApi;

use super::super::{Asm, Primitive, Scalar, Src, Width, emit};
use super::{R11, SCRATCH};

pub(super) fn value(asm: &mut Asm, primitive: Primitive, of: Scalar, dst: u8, src: &[u8]) {
    match (of.is_float(), src) {
        (true, [a]) => float_unary(asm, primitive, dst, *a),
        (true, [a, b]) => float_binary(asm, primitive, dst, *a, *b),
        (false, [a]) => int_unary(asm, primitive, dst, *a),
        (false, [a, b]) => int_binary(asm, primitive, dst, *a, *b),
        (_, &[a, b, c]) => match primitive {
            Primitive::FmulFadd => {
                emit!(asm; vmulps Ry(SCRATCH), Ry(a), Ry(b) ; vaddps Ry(dst), Ry(SCRATCH), Ry(c));
            }
            Primitive::WrappingMulAdd => {
                emit!(asm; vpmulld Ry(SCRATCH), Ry(a), Ry(b) ; vpaddd Ry(dst), Ry(SCRATCH), Ry(c));
            }
            // The sign of the first operand chooses.
            Primitive::Select => blend(asm, dst, c, b, a),
            _ => unreachable!("{primitive:?} has no lanes"),
        },
        _ => unreachable!("{primitive:?} has no lanes"),
    }
}

/// Writes `ones` where the sign of `mask` is set, else `zeros`.
fn blend(asm: &mut Asm, dst: u8, zeros: u8, ones: u8, mask: u8) {
    let mask: u8 = mask;
    emit!(asm; vblendvps Ry(dst), Ry(zeros), Ry(ones), Ry(mask));
}

fn float_unary(asm: &mut Asm, primitive: Primitive, dst: u8, a: u8) {
    match primitive {
        Primitive::Fneg => {
            ones(asm);
            emit!(asm; vpslld Ry(SCRATCH), Ry(SCRATCH), BYTE 31 ; vxorps Ry(dst), Ry(a), Ry(SCRATCH));
        }
        Primitive::Fabs => {
            ones(asm);
            emit!(asm; vpsrld Ry(SCRATCH), Ry(SCRATCH), BYTE 1 ; vandps Ry(dst), Ry(a), Ry(SCRATCH));
        }
        Primitive::Fsqrt => emit!(asm; vsqrtps Ry(dst), Ry(a)),
        Primitive::Frsqrt => {
            emit!(asm; vsqrtps Ry(dst), Ry(a));
            // The bits of one.
            ones(asm);
            emit!(asm
                ; vpslld Ry(SCRATCH), Ry(SCRATCH), BYTE 25
                ; vpsrld Ry(SCRATCH), Ry(SCRATCH), BYTE 2
                ; vdivps Ry(dst), Ry(SCRATCH), Ry(dst)
            );
        }
        Primitive::I32ToF => emit!(asm; vcvtdq2ps Ry(dst), Ry(a)),
        Primitive::IsNan => compare(asm, 0x03, dst, a, a),
        _ => unreachable!("{primitive:?} has no lanes"),
    }
}

fn float_binary(asm: &mut Asm, primitive: Primitive, dst: u8, a: u8, b: u8) {
    match primitive {
        Primitive::Fadd => emit!(asm; vaddps Ry(dst), Ry(a), Ry(b)),
        Primitive::Fsub => emit!(asm; vsubps Ry(dst), Ry(a), Ry(b)),
        Primitive::Fmul => emit!(asm; vmulps Ry(dst), Ry(a), Ry(b)),
        Primitive::Fdiv => emit!(asm; vdivps Ry(dst), Ry(a), Ry(b)),
        // Unordered and equal operands give the second one, which has to be the left one.
        Primitive::FminLhs => emit!(asm; vminps Ry(dst), Ry(b), Ry(a)),
        Primitive::FmaxLhs => emit!(asm; vmaxps Ry(dst), Ry(b), Ry(a)),
        Primitive::Feq => compare(asm, 0x00, dst, a, b),
        Primitive::FeqU => compare(asm, 0x08, dst, a, b),
        Primitive::Fne => compare(asm, 0x04, dst, a, b),
        Primitive::Flt => compare(asm, 0x11, dst, a, b),
        Primitive::Fle => compare(asm, 0x12, dst, a, b),
        // Not greater or equal, and not greater: true for what is unordered.
        Primitive::FltU => compare(asm, 0x19, dst, a, b),
        Primitive::FleU => compare(asm, 0x1A, dst, a, b),
        _ => unreachable!("{primitive:?} has no lanes"),
    }
}

/// Compares by a predicate of the processor.
fn compare(asm: &mut Asm, predicate: i8, dst: u8, a: u8, b: u8) {
    // The assembler takes the last two of this instruction the other way round.
    emit!(asm; vcmpps Ry(dst), Ry(b), Ry(a), BYTE predicate);
}

fn int_unary(asm: &mut Asm, primitive: Primitive, dst: u8, a: u8) {
    match primitive {
        Primitive::Not => {
            ones(asm);
            emit!(asm; vpxor Ry(dst), Ry(a), Ry(SCRATCH));
        }
        Primitive::AbsWrapping => emit!(asm; vpabsd Ry(dst), Ry(a)),
        Primitive::Low8Zext => emit!(asm; vpslld Ry(dst), Ry(a), BYTE 24 ; vpsrld Ry(dst), Ry(dst), BYTE 24),
        Primitive::Low16Zext => emit!(asm; vpslld Ry(dst), Ry(a), BYTE 16 ; vpsrld Ry(dst), Ry(dst), BYTE 16),
        Primitive::Low8Sext => emit!(asm; vpslld Ry(dst), Ry(a), BYTE 24 ; vpsrad Ry(dst), Ry(dst), BYTE 24),
        Primitive::Low16Sext => emit!(asm; vpslld Ry(dst), Ry(a), BYTE 16 ; vpsrad Ry(dst), Ry(dst), BYTE 16),
        Primitive::IsNonzero => {
            emit!(asm; vpxor Ry(SCRATCH), Ry(SCRATCH), Ry(SCRATCH) ; vpcmpeqd Ry(dst), Ry(a), Ry(SCRATCH));
            invert(asm, dst);
        }
        _ => unreachable!("{primitive:?} has no lanes"),
    }
}

fn int_binary(asm: &mut Asm, primitive: Primitive, dst: u8, a: u8, b: u8) {
    match primitive {
        Primitive::WrappingAdd => emit!(asm; vpaddd Ry(dst), Ry(a), Ry(b)),
        Primitive::WrappingSub => emit!(asm; vpsubd Ry(dst), Ry(a), Ry(b)),
        Primitive::WrappingMul => emit!(asm; vpmulld Ry(dst), Ry(a), Ry(b)),
        Primitive::And => emit!(asm; vpand Ry(dst), Ry(a), Ry(b)),
        Primitive::Or => emit!(asm; vpor Ry(dst), Ry(a), Ry(b)),
        Primitive::Xor => emit!(asm; vpxor Ry(dst), Ry(a), Ry(b)),
        Primitive::MinS => emit!(asm; vpminsd Ry(dst), Ry(a), Ry(b)),
        Primitive::MinU => emit!(asm; vpminud Ry(dst), Ry(a), Ry(b)),
        Primitive::MaxS => emit!(asm; vpmaxsd Ry(dst), Ry(a), Ry(b)),
        Primitive::MaxU => emit!(asm; vpmaxud Ry(dst), Ry(a), Ry(b)),
        Primitive::Shl | Primitive::ShrS | Primitive::ShrU => {
            // Amounts are taken modulo the width, which these instructions do not do.
            ones(asm);
            emit!(asm; vpsrld Ry(SCRATCH), Ry(SCRATCH), BYTE 27 ; vpand Ry(SCRATCH), Ry(b), Ry(SCRATCH));
            match primitive {
                Primitive::Shl => emit!(asm; vpsllvd Ry(dst), Ry(a), Ry(SCRATCH)),
                Primitive::ShrS => emit!(asm; vpsravd Ry(dst), Ry(a), Ry(SCRATCH)),
                _ => emit!(asm; vpsrlvd Ry(dst), Ry(a), Ry(SCRATCH)),
            }
        }
        Primitive::Eq => emit!(asm; vpcmpeqd Ry(dst), Ry(a), Ry(b)),
        Primitive::Ne => {
            emit!(asm; vpcmpeqd Ry(dst), Ry(a), Ry(b));
            invert(asm, dst);
        }
        Primitive::LtS => emit!(asm; vpcmpgtd Ry(dst), Ry(b), Ry(a)),
        Primitive::LtU => {
            // Less is what does not reach the greater of both.
            emit!(asm; vpmaxud Ry(SCRATCH), Ry(a), Ry(b) ; vpcmpeqd Ry(dst), Ry(a), Ry(SCRATCH));
            invert(asm, dst);
        }
        _ => unreachable!("{primitive:?} has no lanes"),
    }
}

fn ones(asm: &mut Asm) {
    emit!(asm; vpcmpeqd Ry(SCRATCH), Ry(SCRATCH), Ry(SCRATCH));
}

fn invert(asm: &mut Asm, dst: u8) {
    ones(asm);
    emit!(asm; vpxor Ry(dst), Ry(dst), Ry(SCRATCH));
}

pub(super) fn copy(asm: &mut Asm, dst: u8, src: u8) {
    if dst != src {
        emit!(asm; vmovaps Ry(dst), Ry(src));
    }
}

pub(super) fn splat(asm: &mut Asm, of: Scalar, dst: u8, src: u8) {
    if of.is_float() {
        emit!(asm; vbroadcastss Ry(dst), Rx(src));
    } else {
        emit!(asm; vmovd Rx(dst), Rd(src) ; vpbroadcastd Ry(dst), Rx(dst));
    }
}

pub(super) fn numbers(asm: &mut Asm, dst: u8, src: u8) {
    emit!(asm; vpsrld Ry(dst), Ry(src), BYTE 31);
}

pub(super) fn extract(asm: &mut Asm, of: Scalar, dst: u8, src: u8, lane: u8) {
    let half = if lane >= 4 {
        emit!(asm; vextractf128 Rx(SCRATCH), Ry(src), BYTE 1);
        SCRATCH
    } else {
        src
    };
    super::extract_from_four(asm, of, dst, half, lane % 4);
}

pub(super) fn sum(asm: &mut Asm, dst: u8, src: u8) {
    emit!(asm
        ; vextracti128 Rx(SCRATCH), Ry(src), BYTE 1
        ; vpaddd Rx(SCRATCH), Rx(SCRATCH), Rx(src)
        ; vphaddd Rx(SCRATCH), Rx(SCRATCH), Rx(SCRATCH)
        ; vphaddd Rx(SCRATCH), Rx(SCRATCH), Rx(SCRATCH)
        ; vmovd Rd(dst), Rx(SCRATCH)
    );
}

pub(super) fn multiples(asm: &mut Asm, dst: u8, by: i32) {
    emit!(asm
        ; mov Rq(R11), QWORD 0x0706_0504_0302_0100
        ; vmovq Rx(SCRATCH), Rq(R11)
        ; vpmovzxbd Ry(dst), Rx(SCRATCH)
        ; mov Rd(R11), DWORD by
        ; vmovd Rx(SCRATCH), Rd(R11)
        ; vpbroadcastd Ry(SCRATCH), Rx(SCRATCH)
        ; vpmulld Ry(dst), Ry(dst), Ry(SCRATCH)
    );
}

/// Assembles an instruction with lanes in memory: those of vector number `$number` behind the element `$index` at `$base`.
macro_rules! elements {
    ($asm:expr, $base:ident, $index:ident * $size:tt, $number:ident; [$($before:tt)*] [$($after:tt)*]) => {{
        let offset = i32::from($number) * Width::Eight.lanes() as i32 * $size;
        match $index {
            Src::Reg(index) => emit!($asm; $($before)* [Rq($base) + Rq(index) * $size + offset] $($after)*),
            Src::Imm(index) => {
                let offset = index.wrapping_mul($size).wrapping_add(offset);
                emit!($asm; $($before)* [Rq($base) + offset] $($after)*)
            }
        }
    }};
}

pub(super) fn load(asm: &mut Asm, primitive: Primitive, dst: u8, base: u8, index: Src, number: u8) {
    match primitive {
        Primitive::LoadF32 | Primitive::LoadI32 => elements!(asm, base, index * 4, number; [vmovups Ry(dst),] []),
        Primitive::LoadI8u | Primitive::LoadI8s => {
            elements!(asm, base, index * 1, number; [vmovq Rx(SCRATCH),] []);
            if primitive == Primitive::LoadI8u {
                emit!(asm; vpmovzxbd Ry(dst), Rx(SCRATCH));
            } else {
                emit!(asm; vpmovsxbd Ry(dst), Rx(SCRATCH));
            }
        }
        Primitive::LoadI16u | Primitive::LoadI16s => {
            elements!(asm, base, index * 2, number; [vmovups Rx(SCRATCH),] []);
            if primitive == Primitive::LoadI16u {
                emit!(asm; vpmovzxwd Ry(dst), Rx(SCRATCH));
            } else {
                emit!(asm; vpmovsxwd Ry(dst), Rx(SCRATCH));
            }
        }
        _ => unreachable!("{primitive:?} loads no lanes"),
    }
}

pub(super) fn store(asm: &mut Asm, primitive: Primitive, base: u8, index: Src, src: u8, number: u8) {
    match primitive {
        Primitive::StoreF32 | Primitive::StoreI32 => {
            elements!(asm, base, index * 4, number; [vmovups] [, Ry(src)]);
        }
        _ => unreachable!("{primitive:?} stores no lanes"),
    }
}

pub(super) fn gather(asm: &mut Asm, dst: u8, from: (u8, Src), offsets: u8, behind: i32) {
    let (base, index) = from;
    match index {
        Src::Reg(index) => emit!(asm; lea Rq(R11), [Rq(base) + Rq(index) * 4]),
        Src::Imm(index) => emit!(asm; lea Rq(R11), [Rq(base) + index.wrapping_mul(4)]),
    }
    ones(asm);
    let behind = behind.wrapping_mul(4);
    emit!(asm; vgatherdps Ry(dst), [Rq(R11) + Ry(offsets) * 4 + behind], Ry(SCRATCH));
}

pub(super) fn load_frame(asm: &mut Asm, dst: u8, offset: i32) {
    emit!(asm; vmovups Ry(dst), [rsp + offset]);
}

pub(super) fn store_frame(asm: &mut Asm, offset: i32, src: u8) {
    emit!(asm; vmovups [rsp + offset], Ry(src));
}
