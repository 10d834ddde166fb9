//! Vectors of sixteen lanes: AVX-512, F and DQ.

use dynasmrt::DynasmApi;

use super::super::evex::{self, Memory, Op, Operand};
use super::super::float::Predicate;
use super::super::round::Mode;
use super::super::{Asm, Scalar, Src, emit};
use super::common::{address, extract_from_four, pairs};
use crate::generated::vm::primitive::LowerLanes;
use crate::ir::graph::{Interleave, Rows};
use crate::ir::types::Width;
use crate::processor::registers::{RSP, SCRATCH, VECTOR_SCRATCH};

/// The mask register that instructions may use freely.
const MASK: u8 = 1;

/// Code with vectors of sixteen lanes.
pub(super) struct Sixteen<'a> {
    pub asm: &'a mut Asm,
    /// The register with the mask of loads and stores.
    pub mask: Option<u8>,
}

impl Sixteen<'_> {
    fn load(&mut self, op: Op, register: u8, at: Memory) {
        let Some(mask) = self.mask else { return op.on(self.asm, register, Operand::Memory(at)) };
        evex::VPTESTMD.binary(self.asm, MASK, mask, mask);
        op.masked_or_zero(self.asm, register, MASK, at)
    }

    fn store(&mut self, op: Op, register: u8, at: Memory) {
        let Some(mask) = self.mask else { return op.on(self.asm, register, Operand::Memory(at)) };
        evex::VPTESTMD.binary(self.asm, MASK, mask, mask);
        op.masked(self.asm, register, MASK, at)
    }
}

impl LowerLanes for Sixteen<'_> {
    fn wrapping_add(&mut self, dst: u8, a: u8, b: u8) {
        evex::VPADDD.binary(self.asm, dst, a, b);
    }

    fn wrapping_sub(&mut self, dst: u8, a: u8, b: u8) {
        evex::VPSUBD.binary(self.asm, dst, a, b);
    }

    fn wrapping_mul(&mut self, dst: u8, a: u8, b: u8) {
        evex::VPMULLD.binary(self.asm, dst, a, b);
    }

    fn wrapping_mul_add(&mut self, dst: u8, a: u8, b: u8, c: u8) {
        evex::VPMULLD.binary(self.asm, VECTOR_SCRATCH, a, b);
        evex::VPADDD.binary(self.asm, dst, VECTOR_SCRATCH, c);
    }

    fn not(&mut self, dst: u8, a: u8) {
        // The constant is true where the last operand is not.
        evex::VPTERNLOGD.binary_by(self.asm, dst, a, a, 0b0101_0101);
    }

    fn and(&mut self, dst: u8, a: u8, b: u8) {
        evex::VPANDD.binary(self.asm, dst, a, b);
    }

    fn or(&mut self, dst: u8, a: u8, b: u8) {
        evex::VPORD.binary(self.asm, dst, a, b);
    }

    fn xor(&mut self, dst: u8, a: u8, b: u8) {
        evex::VPXORD.binary(self.asm, dst, a, b);
    }

    fn shl(&mut self, dst: u8, a: u8, b: u8) {
        amounts(self.asm, b);
        evex::VPSLLVD.binary(self.asm, dst, a, VECTOR_SCRATCH);
    }

    fn shr_s(&mut self, dst: u8, a: u8, b: u8) {
        amounts(self.asm, b);
        evex::VPSRAVD.binary(self.asm, dst, a, VECTOR_SCRATCH);
    }

    fn shr_u(&mut self, dst: u8, a: u8, b: u8) {
        amounts(self.asm, b);
        evex::VPSRLVD.binary(self.asm, dst, a, VECTOR_SCRATCH);
    }

    fn abs_wrapping(&mut self, dst: u8, a: u8) {
        evex::VPABSD.unary(self.asm, dst, a);
    }

    fn min_s(&mut self, dst: u8, a: u8, b: u8) {
        evex::VPMINSD.binary(self.asm, dst, a, b);
    }

    fn min_u(&mut self, dst: u8, a: u8, b: u8) {
        evex::VPMINUD.binary(self.asm, dst, a, b);
    }

    fn max_s(&mut self, dst: u8, a: u8, b: u8) {
        evex::VPMAXSD.binary(self.asm, dst, a, b);
    }

    fn max_u(&mut self, dst: u8, a: u8, b: u8) {
        evex::VPMAXUD.binary(self.asm, dst, a, b);
    }

    fn low8_zext(&mut self, dst: u8, a: u8) {
        evex::VPSLLD.by_constant(self.asm, dst, a, 24);
        evex::VPSRLD.by_constant(self.asm, dst, dst, 24);
    }

    fn low16_zext(&mut self, dst: u8, a: u8) {
        evex::VPSLLD.by_constant(self.asm, dst, a, 16);
        evex::VPSRLD.by_constant(self.asm, dst, dst, 16);
    }

    fn low8_sext(&mut self, dst: u8, a: u8) {
        evex::VPSLLD.by_constant(self.asm, dst, a, 24);
        evex::VPSRAD.by_constant(self.asm, dst, dst, 24);
    }

    fn low16_sext(&mut self, dst: u8, a: u8) {
        evex::VPSLLD.by_constant(self.asm, dst, a, 16);
        evex::VPSRAD.by_constant(self.asm, dst, dst, 16);
    }

    fn eq(&mut self, dst: u8, a: u8, b: u8) {
        compare(self.asm, evex::VPCMPD, Order::Equal as u8, dst, a, b);
    }

    fn ne(&mut self, dst: u8, a: u8, b: u8) {
        compare(self.asm, evex::VPCMPD, Order::NotEqual as u8, dst, a, b);
    }

    fn lt_s(&mut self, dst: u8, a: u8, b: u8) {
        compare(self.asm, evex::VPCMPD, Order::Less as u8, dst, a, b);
    }

    fn lt_u(&mut self, dst: u8, a: u8, b: u8) {
        compare(self.asm, evex::VPCMPUD, Order::Less as u8, dst, a, b);
    }

    fn is_nonzero(&mut self, dst: u8, a: u8) {
        evex::VPTESTMD.binary(self.asm, MASK, a, a);
        evex::VPMOVM2D.unary(self.asm, dst, MASK);
    }

    fn select(&mut self, dst: u8, a: u8, b: u8, c: u8) {
        choose(self.asm, dst, a, b, c);
    }

    fn fadd(&mut self, dst: u8, a: u8, b: u8) {
        evex::VADDPS.binary(self.asm, dst, a, b);
    }

    fn fsub(&mut self, dst: u8, a: u8, b: u8) {
        evex::VSUBPS.binary(self.asm, dst, a, b);
    }

    fn fmul(&mut self, dst: u8, a: u8, b: u8) {
        evex::VMULPS.binary(self.asm, dst, a, b);
    }

    fn fdiv(&mut self, dst: u8, a: u8, b: u8) {
        evex::VDIVPS.binary(self.asm, dst, a, b);
    }

    fn fmul_fadd(&mut self, dst: u8, a: u8, b: u8, c: u8) {
        evex::VMULPS.binary(self.asm, VECTOR_SCRATCH, a, b);
        evex::VADDPS.binary(self.asm, dst, VECTOR_SCRATCH, c);
    }

    fn fneg(&mut self, dst: u8, a: u8) {
        ones(self.asm);
        evex::VPSLLD.by_constant(self.asm, VECTOR_SCRATCH, VECTOR_SCRATCH, 31);
        evex::VPXORD.binary(self.asm, dst, a, VECTOR_SCRATCH);
    }

    fn fabs(&mut self, dst: u8, a: u8) {
        ones(self.asm);
        evex::VPSRLD.by_constant(self.asm, VECTOR_SCRATCH, VECTOR_SCRATCH, 1);
        evex::VPANDD.binary(self.asm, dst, a, VECTOR_SCRATCH);
    }

    fn fceil(&mut self, dst: u8, a: u8) {
        evex::VRNDSCALEPS.unary_by(self.asm, dst, a, Mode::Up.immediate());
    }

    fn ffloor(&mut self, dst: u8, a: u8) {
        evex::VRNDSCALEPS.unary_by(self.asm, dst, a, Mode::Down.immediate());
    }

    fn fround_away(&mut self, dst: u8, a: u8) {
        add_half(self.asm, a);
        evex::VRNDSCALEPS.unary_by(self.asm, dst, VECTOR_SCRATCH, Mode::TowardsZero.immediate());
    }

    fn fround_even_pz(&mut self, dst: u8, a: u8) {
        number(self.asm, VECTOR_SCRATCH, (-0.5_f32).to_bits());
        evex::VCMPPS.binary_by(self.asm, MASK, a, VECTOR_SCRATCH, Predicate::Equal as u8);
        evex::VRNDSCALEPS.unary_by(self.asm, dst, a, Mode::Even.immediate());
        // -0.5 gives zero without a sign.
        evex::VPXORD.register_masked(self.asm, dst, dst, dst, MASK);
    }

    fn round_i32(&mut self, dst: u8, a: u8) {
        add_half(self.asm, a);
        evex::VEXTRACTI32X8.part(self.asm, dst, VECTOR_SCRATCH, 1);
        evex::VCVTTPS2QQ.unary(self.asm, dst, dst);
        evex::VCVTTPS2QQ.unary(self.asm, VECTOR_SCRATCH, VECTOR_SCRATCH);
        // The source is the register field of this one.
        evex::VPMOVQD.unary(self.asm, dst, dst);
        evex::VPMOVQD.unary(self.asm, VECTOR_SCRATCH, VECTOR_SCRATCH);
        evex::VINSERTI32X8.binary_by(self.asm, dst, VECTOR_SCRATCH, dst, 1);
    }

    // Unordered and equal operands give the second one of the instructions, which has to be the left one.
    fn fmin_lhs(&mut self, dst: u8, a: u8, b: u8) {
        evex::VMINPS.binary(self.asm, dst, b, a);
    }

    fn fmax_lhs(&mut self, dst: u8, a: u8, b: u8) {
        evex::VMAXPS.binary(self.asm, dst, b, a);
    }

    fn fsqrt(&mut self, dst: u8, a: u8) {
        evex::VSQRTPS.unary(self.asm, dst, a);
    }

    fn frsqrt(&mut self, dst: u8, a: u8) {
        evex::VSQRTPS.unary(self.asm, dst, a);
        // The bits of one.
        ones(self.asm);
        evex::VPSLLD.by_constant(self.asm, VECTOR_SCRATCH, VECTOR_SCRATCH, 25);
        evex::VPSRLD.by_constant(self.asm, VECTOR_SCRATCH, VECTOR_SCRATCH, 2);
        evex::VDIVPS.binary(self.asm, dst, VECTOR_SCRATCH, dst);
    }

    fn feq(&mut self, dst: u8, a: u8, b: u8) {
        compare(self.asm, evex::VCMPPS, Predicate::Equal as u8, dst, a, b);
    }

    fn feq_u(&mut self, dst: u8, a: u8, b: u8) {
        compare(self.asm, evex::VCMPPS, Predicate::EqualOrUnordered as u8, dst, a, b);
    }

    fn fne(&mut self, dst: u8, a: u8, b: u8) {
        compare(self.asm, evex::VCMPPS, Predicate::NotEqual as u8, dst, a, b);
    }

    fn flt(&mut self, dst: u8, a: u8, b: u8) {
        compare(self.asm, evex::VCMPPS, Predicate::Less as u8, dst, a, b);
    }

    fn fle(&mut self, dst: u8, a: u8, b: u8) {
        compare(self.asm, evex::VCMPPS, Predicate::LessOrEqual as u8, dst, a, b);
    }

    fn flt_u(&mut self, dst: u8, a: u8, b: u8) {
        compare(self.asm, evex::VCMPPS, Predicate::LessOrUnordered as u8, dst, a, b);
    }

    fn fle_u(&mut self, dst: u8, a: u8, b: u8) {
        compare(self.asm, evex::VCMPPS, Predicate::LessEqualOrUnordered as u8, dst, a, b);
    }

    fn is_nan(&mut self, dst: u8, a: u8) {
        compare(self.asm, evex::VCMPPS, Predicate::Unordered as u8, dst, a, a);
    }

    fn i32_to_f(&mut self, dst: u8, a: u8) {
        evex::VCVTDQ2PS.unary(self.asm, dst, a);
    }

    fn load_i8u(&mut self, dst: u8, base: u8, index: Src, number: u8) {
        self.load(evex::VPMOVZXBD, dst, elements(base, index, 0, number));
    }

    fn load_i8s(&mut self, dst: u8, base: u8, index: Src, number: u8) {
        self.load(evex::VPMOVSXBD, dst, elements(base, index, 0, number));
    }

    fn load_i16u(&mut self, dst: u8, base: u8, index: Src, number: u8) {
        self.load(evex::VPMOVZXWD, dst, elements(base, index, 1, number));
    }

    fn load_i16s(&mut self, dst: u8, base: u8, index: Src, number: u8) {
        self.load(evex::VPMOVSXWD, dst, elements(base, index, 1, number));
    }

    fn load_i32(&mut self, dst: u8, base: u8, index: Src, number: u8) {
        self.load(evex::VMOVUPS, dst, elements(base, index, 2, number));
    }

    fn load_f32(&mut self, dst: u8, base: u8, index: Src, number: u8) {
        self.load(evex::VMOVUPS, dst, elements(base, index, 2, number));
    }

    fn store_i8(&mut self, base: u8, index: Src, src: u8, number: u8) {
        self.store(evex::VPMOVDB, src, elements(base, index, 0, number));
    }

    fn store_i16(&mut self, base: u8, index: Src, src: u8, number: u8) {
        self.store(evex::VPMOVDW, src, elements(base, index, 1, number));
    }

    fn store_i32(&mut self, base: u8, index: Src, src: u8, number: u8) {
        self.store(evex::VMOVUPS_STORE, src, elements(base, index, 2, number));
    }

    fn store_f32(&mut self, base: u8, index: Src, src: u8, number: u8) {
        self.store(evex::VMOVUPS_STORE, src, elements(base, index, 2, number));
    }
}

/// Predicates of vector comparisons of integers.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Order {
    Equal = 0,
    Less = 1,
    NotEqual = 4,
}

/// Compares by a predicate of the processor.
fn compare(asm: &mut Asm, op: Op, predicate: u8, dst: u8, a: u8, b: u8) {
    op.binary_by(asm, MASK, a, b, predicate);
    evex::VPMOVM2D.unary(asm, dst, MASK);
}

/// Amounts of shifts, taken modulo the width, which the instructions do not do.
fn amounts(asm: &mut Asm, b: u8) {
    ones(asm);
    evex::VPSRLD.by_constant(asm, VECTOR_SCRATCH, VECTOR_SCRATCH, 27);
    evex::VPANDD.binary(asm, VECTOR_SCRATCH, b, VECTOR_SCRATCH);
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

/// Writes the operand with almost a half added, away from zero, to the scratch register, as `round` does for one value.
fn add_half(asm: &mut Asm, a: u8) {
    let half = 0.5_f32.next_down();
    number(asm, VECTOR_SCRATCH, half.to_bits());
    evex::VPMOVD2M.unary(asm, MASK, a);
    emit!(asm; mov Rd(SCRATCH), (-half).to_bits() as i32);
    evex::VPBROADCASTD.register_masked(asm, VECTOR_SCRATCH, 0, SCRATCH, MASK);
    evex::VADDPS.binary(asm, VECTOR_SCRATCH, VECTOR_SCRATCH, a);
}

/// Splats a constant.
fn number(asm: &mut Asm, dst: u8, bits: u32) {
    emit!(asm; mov Rd(SCRATCH), bits as i32);
    evex::VPBROADCASTD.unary(asm, dst, SCRATCH);
}

fn ones(asm: &mut Asm) {
    evex::VPTERNLOGD.binary_by(asm, VECTOR_SCRATCH, VECTOR_SCRATCH, VECTOR_SCRATCH, 0xFF);
}

pub(super) fn copy(asm: &mut Asm, dst: u8, src: u8) {
    if dst != src {
        evex::VMOVAPS.unary(asm, dst, src);
    }
}

pub(super) fn splat(asm: &mut Asm, of: Scalar, dst: u8, src: u8) {
    let op = match of {
        Scalar::F64 => evex::VBROADCASTSD,
        Scalar::F32 => evex::VBROADCASTSS,
        Scalar::I32 | Scalar::I64 => evex::VPBROADCASTD,
    };
    op.unary(asm, dst, src);
}

pub(super) fn quotients(asm: &mut Asm, dst: u8, a: u8, reciprocal: u8, free: u8, signed: bool) {
    let (to_floats, to_integers) =
        if signed { (evex::VCVTDQ2PD, evex::VCVTTPD2DQ) } else { (evex::VCVTUDQ2PD, evex::VCVTTPD2UDQ) };
    evex::VEXTRACTI32X8.part(asm, VECTOR_SCRATCH, a, 1);
    for (half, from) in [(VECTOR_SCRATCH, VECTOR_SCRATCH), (free, a)] {
        to_floats.unary(asm, half, from);
        evex::VMULPD.binary(asm, half, half, reciprocal);
        to_integers.unary(asm, half, half);
    }
    evex::VINSERTI32X8.binary_by(asm, dst, free, VECTOR_SCRATCH, 1);
}

pub(super) fn numbers(asm: &mut Asm, dst: u8, src: u8) {
    evex::VPSRLD.by_constant(asm, dst, src, 31);
}

pub(super) fn extract(asm: &mut Asm, of: Scalar, dst: u8, src: u8, lane: u8) {
    // Instructions on less than sixteen lanes have only the lower registers.
    let quarter = if lane >= 4 || src >= 16 {
        evex::VEXTRACTI32X4.part(asm, VECTOR_SCRATCH, src, lane / 4);
        VECTOR_SCRATCH
    } else {
        src
    };
    extract_from_four(asm, of, dst, quarter, lane % 4);
}

pub(super) fn sum(asm: &mut Asm, dst: u8, src: u8) {
    evex::VEXTRACTI32X8.part(asm, VECTOR_SCRATCH, src, 1);
    evex::VPADDD.binary(asm, VECTOR_SCRATCH, VECTOR_SCRATCH, src);
    emit!(asm
        // The sum of each half is in all of its lanes then.
        ; vphaddd Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH)
        ; vphaddd Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH)
        ; vmovd Rd(SCRATCH), Rx(VECTOR_SCRATCH)
        ; vextracti128 Rx(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), BYTE 1
        ; vmovd Rd(dst), Rx(VECTOR_SCRATCH)
        ; add Rd(dst), Rd(SCRATCH)
    );
}

pub(super) fn multiples(asm: &mut Asm, dst: u8, by: i32) {
    emit!(asm
        ; mov Rq(SCRATCH), QWORD 0x0706_0504_0302_0100
        ; vmovq Rx(VECTOR_SCRATCH), Rq(SCRATCH)
        ; mov Rq(SCRATCH), QWORD 0x0F0E_0D0C_0B0A_0908
        ; vpinsrq Rx(VECTOR_SCRATCH), Rx(VECTOR_SCRATCH), Rq(SCRATCH), BYTE 1
        ; mov Rd(SCRATCH), DWORD by
    );
    evex::VPMOVZXBD.unary(asm, dst, VECTOR_SCRATCH);
    evex::VPBROADCASTD.unary(asm, VECTOR_SCRATCH, SCRATCH);
    evex::VPMULLD.binary(asm, dst, dst, VECTOR_SCRATCH);
}

/// Vector number `number` of the elements of `1 << shift` bytes from element `index` at `base` on.
fn elements(base: u8, index: Src, shift: u8, number: u8) -> Memory {
    let displacement = (i32::from(number) * Width::Sixteen.lanes() as i32) << shift;
    match index {
        Src::Reg(index) => Memory { base, index: Some((index, shift)), offset: displacement },
        Src::Imm(index) => {
            Memory { base, index: None, offset: index.wrapping_shl(shift.into()).wrapping_add(displacement) }
        }
    }
}

pub(super) fn gather(
    asm: &mut Asm,
    dst: u8,
    from: (u8, Src),
    offsets: u8,
    (displacement, shift): (i32, u8),
    mask: Option<u8>,
) {
    address(asm, from, shift);
    // The instruction clears the bits of the lanes that are done.
    match mask {
        Some(mask) => evex::VPTESTMD.binary(asm, MASK, mask, mask),
        None => evex::VPCMPD.binary_by(asm, MASK, offsets, offsets, Order::Equal as u8),
    }
    let offset = displacement.wrapping_shl(shift.into());
    let from = Memory { base: SCRATCH, index: Some((offsets, shift)), offset };
    evex::VGATHERDPS.masked(asm, dst, MASK, from);
}

pub(super) fn mask_bits(asm: &mut Asm, dst: u8, mask: u8) {
    evex::VPTESTMD.binary(asm, MASK, mask, mask);
    // `kmovw dst, k1`, which the assembler does not have.
    [0xC5, 0xF8, 0x93, 0b11 << 6 | dst << 3 | MASK].into_iter().for_each(|byte| asm.ops.push(byte));
}

pub(super) fn load_even(asm: &mut Asm, dst: u8, (base, index): (u8, Src), order: u8, free: u8, number: u8) {
    let first = elements(base, index, 2, 2 * number);
    let second = Memory { offset: first.offset.wrapping_add(60), ..first };
    // The instruction replaces the first vector.
    let into = if dst == order { VECTOR_SCRATCH } else { dst };
    evex::VMOVUPS.on(asm, into, Operand::Memory(first));
    evex::VMOVUPS.on(asm, free, Operand::Memory(second));
    evex::VPERMT2PS.binary(asm, into, order, free);
    if into != dst {
        copy(asm, dst, into);
    }
}

pub(super) fn load_part_of_even(_: &mut Asm, _: u8, _: (u8, Src), _: bool, _: u8) {
    unreachable!("with a mask, every other element is gathered")
}

pub(super) fn even(_: &mut Asm, _: u8, _: u8, _: u8) {
    unreachable!("with a mask, every other element is gathered")
}

pub(super) fn byte(asm: &mut Asm, dst: u8, a: u8, number: u8, signed: bool) {
    let mut from = a;
    if number < 3 {
        evex::VPSLLD.by_constant(asm, dst, a, 24 - 8 * number);
        from = dst;
    }
    let shift = if signed { evex::VPSRAD } else { evex::VPSRLD };
    shift.by_constant(asm, dst, from, 24);
}

/// Extends the bytes of the scratch register to lanes.
pub(super) fn extend_bytes(asm: &mut Asm, dst: u8, signed: bool) {
    let extend = if signed { evex::VPMOVSXBD } else { evex::VPMOVZXBD };
    extend.unary(asm, dst, VECTOR_SCRATCH);
}

pub(super) fn load_rows(asm: &mut Asm, dst: u8, base: u8, index: u8, rows: Rows) {
    let offset = |group| rows.element(group).wrapping_mul(4);
    // The instruction has only the lower registers.
    emit!(asm; vmovups Rx(VECTOR_SCRATCH), [Rq(base) + Rq(index) * 4 + offset(0)]);
    for group in 1..4 {
        let from = Memory { base, index: Some((index, 2)), offset: offset(group) };
        let into = if group == 1 { VECTOR_SCRATCH } else { dst };
        evex::VINSERTF32X4.binary_on(asm, dst, into, Operand::Memory(from), group as u8);
    }
}

pub(super) fn load_splat(asm: &mut Asm, dst: u8, base: u8, index: u8, displacement: i32) {
    let from = Memory { base, index: Some((index, 2)), offset: displacement.wrapping_mul(4) };
    evex::VBROADCASTSS.on(asm, dst, Operand::Memory(from));
}

pub(super) fn interleave(asm: &mut Asm, dst: u8, a: u8, b: u8, which: Interleave) {
    match which {
        Interleave::Low => evex::VUNPCKLPS.binary(asm, dst, a, b),
        Interleave::High => evex::VUNPCKHPS.binary(asm, dst, a, b),
        Interleave::LowPairs | Interleave::HighPairs => {
            evex::VSHUFPS.binary_by(asm, dst, a, b, pairs(which));
        }
        Interleave::Even | Interleave::Odd => unreachable!("lanes of 32 bits are interleaved otherwise"),
    }
}

pub(super) fn load_frame(asm: &mut Asm, dst: u8, offset: i32) {
    evex::VMOVUPS.on(asm, dst, Operand::Memory(Memory { base: RSP, index: None, offset }));
}

pub(super) fn store_frame(asm: &mut Asm, offset: i32, src: u8) {
    evex::VMOVUPS_STORE.on(asm, src, Operand::Memory(Memory { base: RSP, index: None, offset }));
}
