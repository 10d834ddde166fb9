//! Vectors of four lanes: AVX2, of 64 bits each. Values of 32 bits are in the lower half of a register, where the
//! instructions of eight lanes compute them; what these make of the upper half goes nowhere.
//!
//! The assembler encodes `vpsrlq` by a constant for half a register, whatever the register is, so nothing here uses
//! that; and gathers of 64 bits as those of 32.

use dynasmrt::DynasmApi;

use super::super::float::Predicate;
use super::super::round::Mode;
use super::super::{Asm, Scalar, Src, emit};
use super::common::{address, extract_from_four};
use super::eight::copy;
use super::eight::{self, bitwise, elements, ones};
pub(super) use super::eight::{byte, load_splat, multiples, quotients};
use crate::generated::vm::primitive::LowerWideLanes;
use crate::ir::graph::{Interleave, Rows};
use crate::ir::types::Width;
use crate::processor::registers::{SCRATCH, VECTOR_SCRATCH};

/// Code with vectors of four lanes, where something has 64 bits.
pub(super) struct Four<'a> {
    pub asm: &'a mut Asm,
    /// The register with the mask of loads, which has 64 bits for each lane.
    pub mask: Option<u8>,
}

impl Four<'_> {
    /// Writes ones to the scratch register where the first operand is below the second one, unsigned.
    fn below(&mut self, a: u8, b: u8) {
        // Numbers whose highest bits are flipped have the same order with signs. No register is free for both.
        sign(self.asm);
        emit!(self.asm
            ; vpxor Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), Ry(a)
            ; sub rsp, BYTE 32
            ; vmovups [rsp], Ry(VECTOR_SCRATCH)
        );
        sign(self.asm);
        emit!(self.asm
            ; vpxor Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), Ry(b)
            ; vpcmpgtq Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), [rsp]
            ; add rsp, BYTE 32
        );
    }

    /// Writes the lower halves of products to the scratch register.
    fn product(&mut self, a: u8, b: u8) {
        emit!(self.asm
            // The products of a lower and an upper half, both ways, whose sum counts in the upper half.
            ; vpshufd Ry(VECTOR_SCRATCH), Ry(b), BYTE 0b10_11_00_01_u8 as i8
            ; vpmulld Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), Ry(a)
            ; sub rsp, BYTE 32
            ; vmovups [rsp], Ry(VECTOR_SCRATCH)
            ; vpshufd Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), BYTE 0b10_11_00_01_u8 as i8
            ; vpaddd Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), [rsp]
            ; vpsllq Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), BYTE 32
            ; vmovups [rsp], Ry(VECTOR_SCRATCH)
            ; vpmuludq Ry(VECTOR_SCRATCH), Ry(a), Ry(b)
            ; vpaddq Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), [rsp]
            ; add rsp, BYTE 32
        );
    }
}

impl LowerWideLanes for Four<'_> {
    fn wrapping_add(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vpaddq Ry(dst), Ry(a), Ry(b));
    }

    fn wrapping_sub(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vpsubq Ry(dst), Ry(a), Ry(b));
    }

    fn wrapping_mul(&mut self, dst: u8, a: u8, b: u8) {
        self.product(a, b);
        copy(self.asm, dst, VECTOR_SCRATCH);
    }

    fn wrapping_mul_add(&mut self, dst: u8, a: u8, b: u8, c: u8) {
        self.product(a, b);
        emit!(self.asm; vpaddq Ry(dst), Ry(VECTOR_SCRATCH), Ry(c));
    }

    bitwise!();

    fn shl(&mut self, dst: u8, a: u8, b: u8) {
        amounts(self.asm, b);
        emit!(self.asm; vpsllvq Ry(dst), Ry(a), Ry(VECTOR_SCRATCH));
    }

    fn shr_s(&mut self, dst: u8, a: u8, b: u8) {
        amounts(self.asm, b);
        // No instruction extends the sign, so it is flipped where it arrives, and subtracted.
        emit!(self.asm
            ; vpsrlvq Ry(dst), Ry(a), Ry(VECTOR_SCRATCH)
            ; sub rsp, BYTE 32
            ; vmovups [rsp], Ry(VECTOR_SCRATCH)
        );
        sign(self.asm);
        emit!(self.asm
            ; vpsrlvq Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), [rsp]
            ; add rsp, BYTE 32
            ; vpxor Ry(dst), Ry(dst), Ry(VECTOR_SCRATCH)
            ; vpsubq Ry(dst), Ry(dst), Ry(VECTOR_SCRATCH)
        );
    }

    fn shr_u(&mut self, dst: u8, a: u8, b: u8) {
        amounts(self.asm, b);
        emit!(self.asm; vpsrlvq Ry(dst), Ry(a), Ry(VECTOR_SCRATCH));
    }

    fn abs_wrapping(&mut self, dst: u8, a: u8) {
        emit!(self.asm
            ; vpxor Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH)
            ; vpcmpgtq Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), Ry(a)
            ; vpxor Ry(dst), Ry(a), Ry(VECTOR_SCRATCH)
            ; vpsubq Ry(dst), Ry(dst), Ry(VECTOR_SCRATCH)
        );
    }

    fn min_s(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm
            ; vpcmpgtq Ry(VECTOR_SCRATCH), Ry(a), Ry(b)
            ; vblendvpd Ry(dst), Ry(a), Ry(b), Ry(VECTOR_SCRATCH)
        );
    }

    fn min_u(&mut self, dst: u8, a: u8, b: u8) {
        self.below(a, b);
        emit!(self.asm; vblendvpd Ry(dst), Ry(b), Ry(a), Ry(VECTOR_SCRATCH));
    }

    fn max_s(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm
            ; vpcmpgtq Ry(VECTOR_SCRATCH), Ry(a), Ry(b)
            ; vblendvpd Ry(dst), Ry(b), Ry(a), Ry(VECTOR_SCRATCH)
        );
    }

    fn max_u(&mut self, dst: u8, a: u8, b: u8) {
        self.below(a, b);
        emit!(self.asm; vblendvpd Ry(dst), Ry(a), Ry(b), Ry(VECTOR_SCRATCH));
    }

    fn low32(&mut self, dst: u8, a: u8) {
        emit!(self.asm
            // The lower halves, of each half of the vector, and then of all of it.
            ; vpshufd Ry(dst), Ry(a), BYTE 0b10_00
            ; vpermq Ry(dst), Ry(dst), BYTE 0b10_00
        );
    }

    fn sext64(&mut self, dst: u8, a: u8) {
        emit!(self.asm; vpmovsxdq Ry(dst), Rx(a));
    }

    fn zext64(&mut self, dst: u8, a: u8) {
        emit!(self.asm; vpmovzxdq Ry(dst), Rx(a));
    }

    fn eq(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vpcmpeqq Ry(dst), Ry(a), Ry(b));
    }

    fn ne(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vpcmpeqq Ry(dst), Ry(a), Ry(b));
        self.not(dst, dst);
    }

    fn lt_s(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vpcmpgtq Ry(dst), Ry(b), Ry(a));
    }

    fn lt_u(&mut self, dst: u8, a: u8, b: u8) {
        self.below(a, b);
        copy(self.asm, dst, VECTOR_SCRATCH);
    }

    fn is_nonzero(&mut self, dst: u8, a: u8) {
        emit!(self.asm
            ; vpxor Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH)
            ; vpcmpeqq Ry(dst), Ry(a), Ry(VECTOR_SCRATCH)
        );
        self.not(dst, dst);
    }

    fn select(&mut self, dst: u8, a: u8, b: u8, c: u8) {
        // The sign of the first operand chooses.
        emit!(self.asm; vblendvpd Ry(dst), Ry(c), Ry(b), Ry(a));
    }

    fn fadd(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vaddpd Ry(dst), Ry(a), Ry(b));
    }

    fn fsub(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vsubpd Ry(dst), Ry(a), Ry(b));
    }

    fn fmul(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vmulpd Ry(dst), Ry(a), Ry(b));
    }

    fn fdiv(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vdivpd Ry(dst), Ry(a), Ry(b));
    }

    fn fmul_fadd(&mut self, dst: u8, a: u8, b: u8, c: u8) {
        emit!(self.asm; vmulpd Ry(VECTOR_SCRATCH), Ry(a), Ry(b) ; vaddpd Ry(dst), Ry(VECTOR_SCRATCH), Ry(c));
    }

    fn fneg(&mut self, dst: u8, a: u8) {
        sign(self.asm);
        emit!(self.asm; vxorps Ry(dst), Ry(a), Ry(VECTOR_SCRATCH));
    }

    fn fabs(&mut self, dst: u8, a: u8) {
        sign(self.asm);
        emit!(self.asm; vandnps Ry(dst), Ry(VECTOR_SCRATCH), Ry(a));
    }

    fn fceil(&mut self, dst: u8, a: u8) {
        emit!(self.asm; vroundpd Ry(dst), Ry(a), BYTE Mode::Up.immediate() as i8);
    }

    fn ffloor(&mut self, dst: u8, a: u8) {
        emit!(self.asm; vroundpd Ry(dst), Ry(a), BYTE Mode::Down.immediate() as i8);
    }

    fn fround_away(&mut self, dst: u8, a: u8) {
        // Almost a half is added, away from zero, as for one value. No register is free for the sign and the number.
        sign(self.asm);
        emit!(self.asm
            ; vandps Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), Ry(a)
            ; sub rsp, BYTE 32
            ; vmovups [rsp], Ry(VECTOR_SCRATCH)
        );
        number(self.asm, 0.5_f64.next_down());
        emit!(self.asm
            ; vorps Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), [rsp]
            ; add rsp, BYTE 32
            ; vaddpd Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), Ry(a)
            ; vroundpd Ry(dst), Ry(VECTOR_SCRATCH), BYTE Mode::TowardsZero.immediate() as i8
        );
    }

    fn fround_even_pz(&mut self, dst: u8, a: u8) {
        number(self.asm, -0.5);
        compare(self.asm, Predicate::Equal, VECTOR_SCRATCH, VECTOR_SCRATCH, a);
        emit!(self.asm
            ; vroundpd Ry(dst), Ry(a), BYTE Mode::Even.immediate() as i8
            // -0.5 gives zero without a sign.
            ; vandnps Ry(dst), Ry(VECTOR_SCRATCH), Ry(dst)
        );
    }

    // Unordered and equal operands give the second one of the instructions, which has to be the left one.
    fn fmin_lhs(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vminpd Ry(dst), Ry(b), Ry(a));
    }

    fn fmax_lhs(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vmaxpd Ry(dst), Ry(b), Ry(a));
    }

    fn fsqrt(&mut self, dst: u8, a: u8) {
        emit!(self.asm; vsqrtpd Ry(dst), Ry(a));
    }

    fn frsqrt(&mut self, dst: u8, a: u8) {
        emit!(self.asm; vsqrtpd Ry(dst), Ry(a));
        number(self.asm, 1.0);
        emit!(self.asm; vdivpd Ry(dst), Ry(VECTOR_SCRATCH), Ry(dst));
    }

    fn feq(&mut self, dst: u8, a: u8, b: u8) {
        compare(self.asm, Predicate::Equal, dst, a, b);
    }

    fn feq_u(&mut self, dst: u8, a: u8, b: u8) {
        compare(self.asm, Predicate::EqualOrUnordered, dst, a, b);
    }

    fn fne(&mut self, dst: u8, a: u8, b: u8) {
        compare(self.asm, Predicate::NotEqual, dst, a, b);
    }

    fn flt(&mut self, dst: u8, a: u8, b: u8) {
        compare(self.asm, Predicate::Less, dst, a, b);
    }

    fn fle(&mut self, dst: u8, a: u8, b: u8) {
        compare(self.asm, Predicate::LessOrEqual, dst, a, b);
    }

    fn flt_u(&mut self, dst: u8, a: u8, b: u8) {
        compare(self.asm, Predicate::LessOrUnordered, dst, a, b);
    }

    fn fle_u(&mut self, dst: u8, a: u8, b: u8) {
        compare(self.asm, Predicate::LessEqualOrUnordered, dst, a, b);
    }

    fn is_nan(&mut self, dst: u8, a: u8) {
        compare(self.asm, Predicate::Unordered, dst, a, a);
    }

    fn fdemote(&mut self, dst: u8, a: u8) {
        emit!(self.asm; vcvtpd2ps Rx(dst), Ry(a));
    }

    fn fpromote(&mut self, dst: u8, a: u8) {
        emit!(self.asm; vcvtps2pd Ry(dst), Rx(a));
    }

    fn i32_to_f(&mut self, dst: u8, a: u8) {
        emit!(self.asm; vcvtdq2pd Ry(dst), Rx(a));
    }

    fn u32_to_f(&mut self, dst: u8, a: u8) {
        // Numbers below 2^32 are the mantissa of one that 2^52 was added to.
        number(self.asm, (1_u64 << 52) as f64);
        emit!(self.asm
            ; vpmovzxdq Ry(dst), Rx(a)
            ; vpor Ry(dst), Ry(dst), Ry(VECTOR_SCRATCH)
            ; vsubpd Ry(dst), Ry(dst), Ry(VECTOR_SCRATCH)
        );
    }

    fn load_i64(&mut self, dst: u8, base: u8, index: Src, number: u8) {
        let lanes = Width::Four.lanes();
        match self.mask {
            Some(mask) => elements!(self.asm, lanes, base, index * 8, number; [vmaskmovpd Ry(dst), Ry(mask),] []),
            None => elements!(self.asm, lanes, base, index * 8, number; [vmovups Ry(dst),] []),
        }
    }

    fn load_f64(&mut self, dst: u8, base: u8, index: Src, number: u8) {
        self.load_i64(dst, base, index, number);
    }

    fn store_i64(&mut self, base: u8, index: Src, src: u8, number: u8) {
        let lanes = Width::Four.lanes();
        elements!(self.asm, lanes, base, index * 8, number; [vmovups] [, Ry(src)]);
    }

    fn store_f64(&mut self, base: u8, index: Src, src: u8, number: u8) {
        self.store_i64(base, index, src, number);
    }
}

/// Loads four elements of 32 bits. The mask has 32 bits for each lane.
pub(super) fn load_words(asm: &mut Asm, dst: u8, (base, index): (u8, Src), number: u8, mask: Option<u8>) {
    let lanes = Width::Four.lanes();
    match mask {
        Some(mask) => elements!(asm, lanes, base, index * 4, number; [vmaskmovps Rx(dst), Rx(mask),] []),
        None => elements!(asm, lanes, base, index * 4, number; [vmovups Rx(dst),] []),
    }
}

/// Stores four elements of 32 bits.
pub(super) fn store_words(asm: &mut Asm, (base, index): (u8, Src), src: u8, number: u8) {
    let lanes = Width::Four.lanes();
    elements!(asm, lanes, base, index * 4, number; [vmovups] [, Rx(src)]);
}

/// Compares by a predicate of the processor.
fn compare(asm: &mut Asm, predicate: Predicate, dst: u8, a: u8, b: u8) {
    // The assembler takes the last two of this instruction the other way round.
    emit!(asm; vcmppd Ry(dst), Ry(b), Ry(a), BYTE predicate as i8);
}

/// Amounts of shifts, of 32 bits, taken modulo the width of 64.
fn amounts(asm: &mut Asm, b: u8) {
    ones(asm);
    emit!(asm
        ; vpsrld Rx(VECTOR_SCRATCH), Rx(VECTOR_SCRATCH), BYTE 26
        ; vpand Rx(VECTOR_SCRATCH), Rx(b), Rx(VECTOR_SCRATCH)
        ; vpmovzxdq Ry(VECTOR_SCRATCH), Rx(VECTOR_SCRATCH)
    );
}

/// Writes the highest bit of all lanes to the scratch register.
fn sign(asm: &mut Asm) {
    ones(asm);
    emit!(asm; vpsllq Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), BYTE 63);
}

/// Splats a constant to the scratch register.
fn number(asm: &mut Asm, value: f64) {
    emit!(asm
        ; mov Rq(SCRATCH), QWORD value.to_bits() as i64
        ; vmovq Rx(VECTOR_SCRATCH), Rq(SCRATCH)
        ; vpbroadcastq Ry(VECTOR_SCRATCH), Rx(VECTOR_SCRATCH)
    );
}

pub(super) fn splat(asm: &mut Asm, of: Scalar, dst: u8, src: u8) {
    if of == Scalar::I64 {
        emit!(asm; vmovq Rx(dst), Rq(src) ; vpbroadcastq Ry(dst), Rx(dst));
    } else {
        eight::splat(asm, of, dst, src);
    }
}

pub(super) fn extract(asm: &mut Asm, of: Scalar, dst: u8, src: u8, lane: u8) {
    if !of.is_wide() {
        return extract_from_four(asm, of, dst, src, lane);
    }
    let mut half = src;
    if lane >= 2 {
        emit!(asm; vextractf128 Rx(VECTOR_SCRATCH), Ry(src), BYTE 1);
        half = VECTOR_SCRATCH;
    }
    let lane = (lane % 2) as i8;
    if of.is_float() {
        emit!(asm; vpermilpd Rx(dst), Rx(half), BYTE lane);
    } else {
        emit!(asm; vpextrq Rq(dst), Rx(half), BYTE lane);
    }
}

pub(super) fn sum(_asm: &mut Asm, _dst: u8, _src: u8) {
    unreachable!("the shape analysis takes no sum that is reordered in four lanes");
}

pub(super) fn load_even(_asm: &mut Asm, _dst: u8, _from: (u8, Src), _order: u8, _free: u8, _number: u8) {
    unreachable!("every other element is gathered in four lanes");
}

pub(super) fn load_part_of_even(_asm: &mut Asm, _into: u8, _from: (u8, Src), _is_second: bool, _mask: u8) {
    unreachable!("elements at strides are gathered")
}

pub(super) fn even(_asm: &mut Asm, _dst: u8, _order: u8, _second: u8) {
    unreachable!("elements at strides are gathered")
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
    // The instruction clears the lanes that are done.
    match mask {
        Some(mask) => copy(asm, VECTOR_SCRATCH, mask),
        None => ones(asm),
    }
    let displacement = displacement.wrapping_shl(shift.into());
    if shift == 3 {
        gather_wide(asm, dst, offsets, displacement);
    } else {
        emit!(asm; vgatherdps Rx(dst), [Rq(SCRATCH) + Rx(offsets) * 4 + displacement], Rx(VECTOR_SCRATCH));
    }
}

/// `vgatherdpd dst, [r11 + offsets * 8 + displacement], ymm15`, which the assembler encodes as the gather of 32 bits.
fn gather_wide(asm: &mut Asm, dst: u8, offsets: u8, displacement: i32) {
    // Bits of registers, the lowest of which is number 0, are inverted.
    let bit = |number: u8, bit: u8, at: u8| (!number >> bit & 1) << at;
    let (map_0f38, wide, length_256, prefix_66) = (2, 1 << 7, 1 << 2, 1);
    let bytes = [
        0xC4,
        bit(dst, 3, 7) | bit(offsets, 3, 6) | bit(SCRATCH, 3, 5) | map_0f38,
        wide | (!VECTOR_SCRATCH & 15) << 3 | length_256 | prefix_66,
        0x92,
        // A SIB byte and a displacement of 32 bits.
        0b10 << 6 | (dst & 7) << 3 | 0b100,
        0b11 << 6 | (offsets & 7) << 3 | SCRATCH & 7,
    ];
    bytes.into_iter().for_each(|byte| asm.ops.push(byte));
    asm.ops.push_i32(displacement);
}

/// Loads four elements of 64 bits of one row.
pub(super) fn load_rows(asm: &mut Asm, dst: u8, base: u8, index: u8, rows: Rows) {
    emit!(asm; vmovups Ry(dst), [Rq(base) + Rq(index) * 8 + rows.element(0).wrapping_mul(8)]);
}

/// Loads an element of 64 bits to all lanes.
pub(crate) fn load_wide_splat(asm: &mut Asm, dst: u8, base: u8, index: u8, displacement: i32) {
    let offset = displacement.wrapping_mul(8);
    match i8::try_from(offset) {
        Ok(offset) => emit!(asm; vbroadcastsd Ry(dst), QWORD [BYTE Rq(base) + Rq(index) * 8 + offset]),
        Err(_) => emit!(asm; vbroadcastsd Ry(dst), QWORD [DWORD Rq(base) + Rq(index) * 8 + offset]),
    }
}

pub(super) fn interleave(asm: &mut Asm, dst: u8, a: u8, b: u8, which: Interleave) {
    match which {
        Interleave::Even => emit!(asm; vunpcklpd Ry(dst), Ry(a), Ry(b)),
        Interleave::Odd => emit!(asm; vunpckhpd Ry(dst), Ry(a), Ry(b)),
        Interleave::LowPairs => emit!(asm; vperm2f128 Ry(dst), Ry(a), Ry(b), BYTE 0x20),
        Interleave::HighPairs => emit!(asm; vperm2f128 Ry(dst), Ry(a), Ry(b), BYTE 0x31),
        Interleave::Low | Interleave::High => unreachable!("lanes of 64 bits are interleaved otherwise"),
    }
}
