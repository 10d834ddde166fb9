//! Sixteen lanes, by instructions of AVX-512: of its parts F and DQ.

use dynasmrt::DynasmApi;

use super::super::evex::{self, Memory, Op, Operand};
use super::super::{Asm, Primitive, Scalar, Src, Width, emit};
use super::{R11, RSP, SCRATCH};

/// The mask register that instructions may use freely.
const MASK: u8 = 1;

pub(super) fn value(asm: &mut Asm, primitive: Primitive, of: Scalar, dst: u8, src: &[u8]) {
    match (of.is_float(), src) {
        (true, [a]) => float_unary(asm, primitive, dst, *a),
        (true, [a, b]) => float_binary(asm, primitive, dst, *a, *b),
        (false, [a]) => int_unary(asm, primitive, dst, *a),
        (false, [a, b]) => int_binary(asm, primitive, dst, *a, *b),
        (_, &[a, b, c]) => match primitive {
            Primitive::FmulFadd => {
                evex::VMULPS.binary(asm, SCRATCH, a, b);
                evex::VADDPS.binary(asm, dst, SCRATCH, c);
            }
            Primitive::WrappingMulAdd => {
                evex::VPMULLD.binary(asm, SCRATCH, a, b);
                evex::VPADDD.binary(asm, dst, SCRATCH, c);
            }
            Primitive::Select => choose(asm, dst, a, b, c),
            _ => unreachable!("{primitive:?} has no lanes"),
        },
        _ => unreachable!("{primitive:?} has no lanes"),
    }
}

/// Writes the bits of `ones` where those of `mask` are set, else those of `zeros`.
fn choose(asm: &mut Asm, dst: u8, mask: u8, ones: u8, zeros: u8) {
    // Bit 4a + 2b + c of the constant is what comes of bits a, b and c, of which a is overwritten.
    if dst == ones {
        evex::VPTERNLOGD.binary_by(asm, dst, mask, zeros, 0b1110_0010);
    } else if dst == zeros {
        evex::VPTERNLOGD.binary_by(asm, dst, mask, ones, 0b1011_1000);
    } else {
        copy(asm, dst, mask);
        evex::VPTERNLOGD.binary_by(asm, dst, ones, zeros, 0b1100_1010);
    }
}

fn float_unary(asm: &mut Asm, primitive: Primitive, dst: u8, a: u8) {
    match primitive {
        Primitive::Fneg => {
            ones(asm);
            evex::VPSLLD.by_constant(asm, SCRATCH, SCRATCH, 31);
            evex::VPXORD.binary(asm, dst, a, SCRATCH);
        }
        Primitive::Fabs => {
            ones(asm);
            evex::VPSRLD.by_constant(asm, SCRATCH, SCRATCH, 1);
            evex::VPANDD.binary(asm, dst, a, SCRATCH);
        }
        Primitive::Fsqrt => evex::VSQRTPS.unary(asm, dst, a),
        Primitive::Frsqrt => {
            evex::VSQRTPS.unary(asm, dst, a);
            // The bits of one.
            ones(asm);
            evex::VPSLLD.by_constant(asm, SCRATCH, SCRATCH, 25);
            evex::VPSRLD.by_constant(asm, SCRATCH, SCRATCH, 2);
            evex::VDIVPS.binary(asm, dst, SCRATCH, dst);
        }
        Primitive::I32ToF => evex::VCVTDQ2PS.unary(asm, dst, a),
        Primitive::IsNan => compare(asm, evex::VCMPPS, 0x03, dst, a, a),
        _ => unreachable!("{primitive:?} has no lanes"),
    }
}

fn float_binary(asm: &mut Asm, primitive: Primitive, dst: u8, a: u8, b: u8) {
    match primitive {
        Primitive::Fadd => evex::VADDPS.binary(asm, dst, a, b),
        Primitive::Fsub => evex::VSUBPS.binary(asm, dst, a, b),
        Primitive::Fmul => evex::VMULPS.binary(asm, dst, a, b),
        Primitive::Fdiv => evex::VDIVPS.binary(asm, dst, a, b),
        // Unordered and equal operands give the second one, which has to be the left one.
        Primitive::FminLhs => evex::VMINPS.binary(asm, dst, b, a),
        Primitive::FmaxLhs => evex::VMAXPS.binary(asm, dst, b, a),
        Primitive::Feq => compare(asm, evex::VCMPPS, 0x00, dst, a, b),
        Primitive::FeqU => compare(asm, evex::VCMPPS, 0x08, dst, a, b),
        Primitive::Fne => compare(asm, evex::VCMPPS, 0x04, dst, a, b),
        Primitive::Flt => compare(asm, evex::VCMPPS, 0x11, dst, a, b),
        Primitive::Fle => compare(asm, evex::VCMPPS, 0x12, dst, a, b),
        // Not greater or equal, and not greater: true for what is unordered.
        Primitive::FltU => compare(asm, evex::VCMPPS, 0x19, dst, a, b),
        Primitive::FleU => compare(asm, evex::VCMPPS, 0x1A, dst, a, b),
        _ => unreachable!("{primitive:?} has no lanes"),
    }
}

/// Compares by a predicate of the processor.
fn compare(asm: &mut Asm, op: Op, predicate: u8, dst: u8, a: u8, b: u8) {
    op.binary_by(asm, MASK, a, b, predicate);
    evex::VPMOVM2D.unary(asm, dst, MASK);
}

fn int_unary(asm: &mut Asm, primitive: Primitive, dst: u8, a: u8) {
    let shifts = |asm: &mut Asm, right: Op, by: u8| {
        evex::VPSLLD.by_constant(asm, dst, a, by);
        right.by_constant(asm, dst, dst, by);
    };
    match primitive {
        // The constant is true where the last operand is not.
        Primitive::Not => evex::VPTERNLOGD.binary_by(asm, dst, a, a, 0b0101_0101),
        Primitive::AbsWrapping => evex::VPABSD.unary(asm, dst, a),
        Primitive::Low8Zext => shifts(asm, evex::VPSRLD, 24),
        Primitive::Low16Zext => shifts(asm, evex::VPSRLD, 16),
        Primitive::Low8Sext => shifts(asm, evex::VPSRAD, 24),
        Primitive::Low16Sext => shifts(asm, evex::VPSRAD, 16),
        Primitive::IsNonzero => {
            evex::VPTESTMD.binary(asm, MASK, a, a);
            evex::VPMOVM2D.unary(asm, dst, MASK);
        }
        _ => unreachable!("{primitive:?} has no lanes"),
    }
}

fn int_binary(asm: &mut Asm, primitive: Primitive, dst: u8, a: u8, b: u8) {
    match primitive {
        Primitive::WrappingAdd => evex::VPADDD.binary(asm, dst, a, b),
        Primitive::WrappingSub => evex::VPSUBD.binary(asm, dst, a, b),
        Primitive::WrappingMul => evex::VPMULLD.binary(asm, dst, a, b),
        Primitive::And => evex::VPANDD.binary(asm, dst, a, b),
        Primitive::Or => evex::VPORD.binary(asm, dst, a, b),
        Primitive::Xor => evex::VPXORD.binary(asm, dst, a, b),
        Primitive::MinS => evex::VPMINSD.binary(asm, dst, a, b),
        Primitive::MinU => evex::VPMINUD.binary(asm, dst, a, b),
        Primitive::MaxS => evex::VPMAXSD.binary(asm, dst, a, b),
        Primitive::MaxU => evex::VPMAXUD.binary(asm, dst, a, b),
        Primitive::Shl | Primitive::ShrS | Primitive::ShrU => {
            // Amounts are taken modulo the width, which these instructions do not do.
            ones(asm);
            evex::VPSRLD.by_constant(asm, SCRATCH, SCRATCH, 27);
            evex::VPANDD.binary(asm, SCRATCH, b, SCRATCH);
            let shift = match primitive {
                Primitive::Shl => evex::VPSLLVD,
                Primitive::ShrS => evex::VPSRAVD,
                _ => evex::VPSRLVD,
            };
            shift.binary(asm, dst, a, SCRATCH);
        }
        Primitive::Eq => compare(asm, evex::VPCMPD, 0, dst, a, b),
        Primitive::Ne => compare(asm, evex::VPCMPD, 4, dst, a, b),
        Primitive::LtS => compare(asm, evex::VPCMPD, 1, dst, a, b),
        Primitive::LtU => compare(asm, evex::VPCMPUD, 1, dst, a, b),
        _ => unreachable!("{primitive:?} has no lanes"),
    }
}

fn ones(asm: &mut Asm) {
    evex::VPTERNLOGD.binary_by(asm, SCRATCH, SCRATCH, SCRATCH, 0xFF);
}

pub(super) fn copy(asm: &mut Asm, dst: u8, src: u8) {
    if dst != src {
        evex::VMOVAPS.unary(asm, dst, src);
    }
}

pub(super) fn splat(asm: &mut Asm, of: Scalar, dst: u8, src: u8) {
    let op = if of.is_float() { evex::VBROADCASTSS } else { evex::VPBROADCASTD };
    op.unary(asm, dst, src);
}

pub(super) fn numbers(asm: &mut Asm, dst: u8, src: u8) {
    evex::VPSRLD.by_constant(asm, dst, src, 31);
}

pub(super) fn extract(asm: &mut Asm, of: Scalar, dst: u8, src: u8, lane: u8) {
    let quarter = if lane >= 4 {
        evex::VEXTRACTI32X4.part(asm, SCRATCH, src, lane / 4);
        SCRATCH
    } else {
        src
    };
    super::extract_from_four(asm, of, dst, quarter, lane % 4);
}

pub(super) fn sum(asm: &mut Asm, dst: u8, src: u8) {
    evex::VEXTRACTI32X8.part(asm, SCRATCH, src, 1);
    emit!(asm
        ; vpaddd Ry(SCRATCH), Ry(SCRATCH), Ry(src)
        // The sum of each half is in all of its lanes then.
        ; vphaddd Ry(SCRATCH), Ry(SCRATCH), Ry(SCRATCH)
        ; vphaddd Ry(SCRATCH), Ry(SCRATCH), Ry(SCRATCH)
        ; vmovd Rd(R11), Rx(SCRATCH)
        ; vextracti128 Rx(SCRATCH), Ry(SCRATCH), BYTE 1
        ; vmovd Rd(dst), Rx(SCRATCH)
        ; add Rd(dst), Rd(R11)
    );
}

pub(super) fn multiples(asm: &mut Asm, dst: u8, by: i32) {
    emit!(asm
        ; mov Rq(R11), QWORD 0x0706_0504_0302_0100
        ; vmovq Rx(SCRATCH), Rq(R11)
        ; mov Rq(R11), QWORD 0x0F0E_0D0C_0B0A_0908
        ; vpinsrq Rx(SCRATCH), Rx(SCRATCH), Rq(R11), BYTE 1
        ; mov Rd(R11), DWORD by
    );
    evex::VPMOVZXBD.unary(asm, dst, SCRATCH);
    evex::VPBROADCASTD.unary(asm, SCRATCH, R11);
    evex::VPMULLD.binary(asm, dst, dst, SCRATCH);
}

/// Vector number `number` of elements of `1 << shift` bytes behind the element `index` at `base`.
fn elements(base: u8, index: Src, shift: u8, number: u8) -> Memory {
    let behind = (i32::from(number) * Width::Sixteen.lanes() as i32) << shift;
    match index {
        Src::Reg(index) => Memory { base, index: Some((index, shift)), offset: behind },
        Src::Imm(index) => Memory { base, index: None, offset: index.wrapping_shl(shift.into()).wrapping_add(behind) },
    }
}

pub(super) fn load(asm: &mut Asm, primitive: Primitive, dst: u8, base: u8, index: Src, number: u8) {
    let (op, shift) = match primitive {
        Primitive::LoadF32 | Primitive::LoadI32 => (evex::VMOVUPS, 2),
        Primitive::LoadI8u => (evex::VPMOVZXBD, 0),
        Primitive::LoadI8s => (evex::VPMOVSXBD, 0),
        Primitive::LoadI16u => (evex::VPMOVZXWD, 1),
        Primitive::LoadI16s => (evex::VPMOVSXWD, 1),
        _ => unreachable!("{primitive:?} loads no lanes"),
    };
    op.on(asm, dst, Operand::Memory(elements(base, index, shift, number)));
}

pub(super) fn store(asm: &mut Asm, primitive: Primitive, base: u8, index: Src, src: u8, number: u8) {
    match primitive {
        Primitive::StoreF32 | Primitive::StoreI32 => {
            evex::VMOVUPS_STORE.on(asm, src, Operand::Memory(elements(base, index, 2, number)));
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
    // All lanes: the instruction clears the bits of those that are done.
    evex::VPCMPD.binary_by(asm, MASK, offsets, offsets, 0);
    let from = Memory { base: R11, index: Some((offsets, 2)), offset: behind.wrapping_mul(4) };
    evex::VGATHERDPS.masked(asm, dst, MASK, from);
}

pub(super) fn load_frame(asm: &mut Asm, dst: u8, offset: i32) {
    evex::VMOVUPS.on(asm, dst, Operand::Memory(Memory { base: RSP, index: None, offset }));
}

pub(super) fn store_frame(asm: &mut Asm, offset: i32, src: u8) {
    evex::VMOVUPS_STORE.on(asm, src, Operand::Memory(Memory { base: RSP, index: None, offset }));
}
