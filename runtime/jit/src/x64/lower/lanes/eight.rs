//! Vectors of eight lanes: AVX2.

use dynasmrt::{DynasmApi, DynasmLabelApi};

use super::super::float::Predicate;
use super::super::round::Mode;
use super::super::{Asm, Scalar, Src, emit};
use super::common::{address, extract_from_four, pairs};
use crate::generated::vm::primitive::LowerLanes;
use crate::ir::graph::{Interleave, Rows};
use crate::ir::types::Width;
use crate::processor::registers::{SCRATCH, VECTOR_SCRATCH};

/// Assembles an instruction with lanes in memory: those of vector number `$number` after the element `$index` at
/// `$base`.
macro_rules! elements {
    ($asm:expr, $base:ident, $index:ident * $size:tt, $number:ident; [$($before:tt)*] [$($after:tt)*]) => {
        elements!($asm, Width::Eight.lanes(), $base, $index * $size, $number; [$($before)*] [$($after)*])
    };
    ($asm:expr, $lanes:expr, $base:ident, $index:ident * $size:tt, $number:ident; [$($before:tt)*] [$($after:tt)*]) => {{
        let offset = i32::from($number) * $lanes as i32 * $size;
        match $index {
            Src::Reg(index) => match i8::try_from(offset) {
                Ok(offset) => emit!($asm; $($before)* [BYTE Rq($base) + Rq(index) * $size + offset] $($after)*),
                Err(_) => emit!($asm; $($before)* [DWORD Rq($base) + Rq(index) * $size + offset] $($after)*),
            },
            Src::Imm(index) => {
                let offset = index.wrapping_mul($size).wrapping_add(offset);
                emit!($asm; $($before)* [Rq($base) + offset] $($after)*)
            }
        }
    }};
}

/// The methods for bits, whose instructions are the same for lanes of each size.
macro_rules! bitwise {
    () => {
        fn not(&mut self, dst: u8, a: u8) {
            ones(self.asm);
            emit!(self.asm; vpxor Ry(dst), Ry(a), Ry(VECTOR_SCRATCH));
        }

        fn and(&mut self, dst: u8, a: u8, b: u8) {
            emit!(self.asm; vpand Ry(dst), Ry(a), Ry(b));
        }

        fn or(&mut self, dst: u8, a: u8, b: u8) {
            emit!(self.asm; vpor Ry(dst), Ry(a), Ry(b));
        }

        fn xor(&mut self, dst: u8, a: u8, b: u8) {
            emit!(self.asm; vpxor Ry(dst), Ry(a), Ry(b));
        }
    };
}

pub(super) use {bitwise, elements};

/// Code with vectors of eight lanes.
pub(super) struct Eight<'a> {
    pub asm: &'a mut Asm,
    /// The register with the mask of loads, which are of 32 bits then.
    pub mask: Option<u8>,
}

impl Eight<'_> {
    /// Writes the lanes without their upper bits, so many, as words to the lower half of the scratch register.
    fn low_words(&mut self, src: u8, without: i8) {
        ones(self.asm);
        emit!(self.asm
            ; vpsrld Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), BYTE without
            ; vpand Ry(VECTOR_SCRATCH), Ry(src), Ry(VECTOR_SCRATCH)
            // No number has a sign, so none saturates. Each half has its words twice then.
            ; vpackusdw Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH)
            ; vpermq Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), BYTE 0b10_00
        );
    }
}

impl LowerLanes for Eight<'_> {
    fn wrapping_add(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vpaddd Ry(dst), Ry(a), Ry(b));
    }

    fn wrapping_sub(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vpsubd Ry(dst), Ry(a), Ry(b));
    }

    fn wrapping_mul(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vpmulld Ry(dst), Ry(a), Ry(b));
    }

    fn wrapping_mul_add(&mut self, dst: u8, a: u8, b: u8, c: u8) {
        emit!(self.asm; vpmulld Ry(VECTOR_SCRATCH), Ry(a), Ry(b) ; vpaddd Ry(dst), Ry(VECTOR_SCRATCH), Ry(c));
    }

    bitwise!();

    fn shl(&mut self, dst: u8, a: u8, b: u8) {
        amounts(self.asm, b);
        emit!(self.asm; vpsllvd Ry(dst), Ry(a), Ry(VECTOR_SCRATCH));
    }

    fn shr_s(&mut self, dst: u8, a: u8, b: u8) {
        amounts(self.asm, b);
        emit!(self.asm; vpsravd Ry(dst), Ry(a), Ry(VECTOR_SCRATCH));
    }

    fn shr_u(&mut self, dst: u8, a: u8, b: u8) {
        amounts(self.asm, b);
        emit!(self.asm; vpsrlvd Ry(dst), Ry(a), Ry(VECTOR_SCRATCH));
    }

    fn abs_wrapping(&mut self, dst: u8, a: u8) {
        emit!(self.asm; vpabsd Ry(dst), Ry(a));
    }

    fn min_s(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vpminsd Ry(dst), Ry(a), Ry(b));
    }

    fn min_u(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vpminud Ry(dst), Ry(a), Ry(b));
    }

    fn max_s(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vpmaxsd Ry(dst), Ry(a), Ry(b));
    }

    fn max_u(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vpmaxud Ry(dst), Ry(a), Ry(b));
    }

    fn low8_zext(&mut self, dst: u8, a: u8) {
        emit!(self.asm; vpslld Ry(dst), Ry(a), BYTE 24 ; vpsrld Ry(dst), Ry(dst), BYTE 24);
    }

    fn low16_zext(&mut self, dst: u8, a: u8) {
        emit!(self.asm; vpslld Ry(dst), Ry(a), BYTE 16 ; vpsrld Ry(dst), Ry(dst), BYTE 16);
    }

    fn low8_sext(&mut self, dst: u8, a: u8) {
        emit!(self.asm; vpslld Ry(dst), Ry(a), BYTE 24 ; vpsrad Ry(dst), Ry(dst), BYTE 24);
    }

    fn low16_sext(&mut self, dst: u8, a: u8) {
        emit!(self.asm; vpslld Ry(dst), Ry(a), BYTE 16 ; vpsrad Ry(dst), Ry(dst), BYTE 16);
    }

    fn eq(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vpcmpeqd Ry(dst), Ry(a), Ry(b));
    }

    fn ne(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vpcmpeqd Ry(dst), Ry(a), Ry(b));
        invert(self.asm, dst);
    }

    fn lt_s(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vpcmpgtd Ry(dst), Ry(b), Ry(a));
    }

    fn lt_u(&mut self, dst: u8, a: u8, b: u8) {
        // The first operand is less if it is not the maximum of both.
        emit!(self.asm; vpmaxud Ry(VECTOR_SCRATCH), Ry(a), Ry(b) ; vpcmpeqd Ry(dst), Ry(a), Ry(VECTOR_SCRATCH));
        invert(self.asm, dst);
    }

    fn is_nonzero(&mut self, dst: u8, a: u8) {
        emit!(self.asm
            ; vpxor Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH)
            ; vpcmpeqd Ry(dst), Ry(a), Ry(VECTOR_SCRATCH)
        );
        invert(self.asm, dst);
    }

    fn select(&mut self, dst: u8, a: u8, b: u8, c: u8) {
        // The sign of the first operand chooses.
        emit!(self.asm; vblendvps Ry(dst), Ry(c), Ry(b), Ry(a));
    }

    fn fadd(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vaddps Ry(dst), Ry(a), Ry(b));
    }

    fn fsub(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vsubps Ry(dst), Ry(a), Ry(b));
    }

    fn fmul(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vmulps Ry(dst), Ry(a), Ry(b));
    }

    fn fdiv(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vdivps Ry(dst), Ry(a), Ry(b));
    }

    fn fmul_fadd(&mut self, dst: u8, a: u8, b: u8, c: u8) {
        emit!(self.asm; vmulps Ry(VECTOR_SCRATCH), Ry(a), Ry(b) ; vaddps Ry(dst), Ry(VECTOR_SCRATCH), Ry(c));
    }

    fn fneg(&mut self, dst: u8, a: u8) {
        ones(self.asm);
        emit!(self.asm
            ; vpslld Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), BYTE 31
            ; vxorps Ry(dst), Ry(a), Ry(VECTOR_SCRATCH)
        );
    }

    fn fabs(&mut self, dst: u8, a: u8) {
        ones(self.asm);
        emit!(self.asm
            ; vpsrld Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), BYTE 1
            ; vandps Ry(dst), Ry(a), Ry(VECTOR_SCRATCH)
        );
    }

    fn fceil(&mut self, dst: u8, a: u8) {
        emit!(self.asm; vroundps Ry(dst), Ry(a), BYTE Mode::Up.immediate() as i8);
    }

    fn ffloor(&mut self, dst: u8, a: u8) {
        emit!(self.asm; vroundps Ry(dst), Ry(a), BYTE Mode::Down.immediate() as i8);
    }

    fn fround_away(&mut self, dst: u8, a: u8) {
        add_half(self.asm, a);
        emit!(self.asm; vroundps Ry(dst), Ry(VECTOR_SCRATCH), BYTE Mode::TowardsZero.immediate() as i8);
    }

    fn fround_even_pz(&mut self, dst: u8, a: u8) {
        number(self.asm, (-0.5_f32).to_bits());
        compare(self.asm, Predicate::Equal, VECTOR_SCRATCH, VECTOR_SCRATCH, a);
        emit!(self.asm
            ; vroundps Ry(dst), Ry(a), BYTE Mode::Even.immediate() as i8
            // -0.5 gives zero without a sign.
            ; vandnps Ry(dst), Ry(VECTOR_SCRATCH), Ry(dst)
        );
    }

    fn round_i32(&mut self, dst: u8, a: u8) {
        add_half(self.asm, a);
        let done = self.asm.ops.new_dynamic_label();
        emit!(self.asm
            ; sub rsp, BYTE 32
            ; vmovups [rsp], Ry(VECTOR_SCRATCH)
            ; vcvttps2dq Ry(dst), Ry(VECTOR_SCRATCH)
        );
        // A value that does not fit gives the least number. It is rare, so it goes lane by lane through 64 bits, of
        // which the lower half counts.
        ones(self.asm);
        emit!(self.asm
            ; vpslld Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), BYTE 31
            ; vpcmpeqd Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), Ry(dst)
            ; vptest Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH)
            ; jz =>done
        );
        for lane in 0..Width::Eight.lanes() as i32 {
            emit!(self.asm
                ; vmovss Rx(VECTOR_SCRATCH), [rsp + 4 * lane]
                ; vcvttss2si Rq(SCRATCH), Rx(VECTOR_SCRATCH)
                ; mov [rsp + 4 * lane], Rd(SCRATCH)
            );
        }
        emit!(self.asm; vmovups Ry(dst), [rsp]; =>done; add rsp, BYTE 32);
    }

    // Unordered and equal operands give the second one of the instructions, which has to be the left one.
    fn fmin_lhs(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vminps Ry(dst), Ry(b), Ry(a));
    }

    fn fmax_lhs(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vmaxps Ry(dst), Ry(b), Ry(a));
    }

    fn fsqrt(&mut self, dst: u8, a: u8) {
        emit!(self.asm; vsqrtps Ry(dst), Ry(a));
    }

    fn frsqrt(&mut self, dst: u8, a: u8) {
        emit!(self.asm; vsqrtps Ry(dst), Ry(a));
        // The bits of one.
        ones(self.asm);
        emit!(self.asm
            ; vpslld Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), BYTE 25
            ; vpsrld Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), BYTE 2
            ; vdivps Ry(dst), Ry(VECTOR_SCRATCH), Ry(dst)
        );
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

    fn i32_to_f(&mut self, dst: u8, a: u8) {
        emit!(self.asm; vcvtdq2ps Ry(dst), Ry(a));
    }

    fn load_i8u(&mut self, dst: u8, base: u8, index: Src, number: u8) {
        elements!(self.asm, base, index * 1, number; [vmovq Rx(VECTOR_SCRATCH),] []);
        emit!(self.asm; vpmovzxbd Ry(dst), Rx(VECTOR_SCRATCH));
    }

    fn load_i8s(&mut self, dst: u8, base: u8, index: Src, number: u8) {
        elements!(self.asm, base, index * 1, number; [vmovq Rx(VECTOR_SCRATCH),] []);
        emit!(self.asm; vpmovsxbd Ry(dst), Rx(VECTOR_SCRATCH));
    }

    fn load_i16u(&mut self, dst: u8, base: u8, index: Src, number: u8) {
        elements!(self.asm, base, index * 2, number; [vmovups Rx(VECTOR_SCRATCH),] []);
        emit!(self.asm; vpmovzxwd Ry(dst), Rx(VECTOR_SCRATCH));
    }

    fn load_i16s(&mut self, dst: u8, base: u8, index: Src, number: u8) {
        elements!(self.asm, base, index * 2, number; [vmovups Rx(VECTOR_SCRATCH),] []);
        emit!(self.asm; vpmovsxwd Ry(dst), Rx(VECTOR_SCRATCH));
    }

    fn load_i32(&mut self, dst: u8, base: u8, index: Src, number: u8) {
        match self.mask {
            Some(mask) => elements!(self.asm, base, index * 4, number; [vmaskmovps Ry(dst), Ry(mask),] []),
            None => elements!(self.asm, base, index * 4, number; [vmovups Ry(dst),] []),
        }
    }

    fn load_f32(&mut self, dst: u8, base: u8, index: Src, number: u8) {
        match self.mask {
            Some(mask) => elements!(self.asm, base, index * 4, number; [vmaskmovps Ry(dst), Ry(mask),] []),
            None => elements!(self.asm, base, index * 4, number; [vmovups Ry(dst),] []),
        }
    }

    fn store_i8(&mut self, base: u8, index: Src, src: u8, number: u8) {
        self.low_words(src, 24);
        emit!(self.asm; vpackuswb Rx(VECTOR_SCRATCH), Rx(VECTOR_SCRATCH), Rx(VECTOR_SCRATCH));
        elements!(self.asm, base, index * 1, number; [vmovq] [, Rx(VECTOR_SCRATCH)]);
    }

    fn store_i16(&mut self, base: u8, index: Src, src: u8, number: u8) {
        self.low_words(src, 16);
        elements!(self.asm, base, index * 2, number; [vmovups] [, Rx(VECTOR_SCRATCH)]);
    }

    fn store_i32(&mut self, base: u8, index: Src, src: u8, number: u8) {
        elements!(self.asm, base, index * 4, number; [vmovups] [, Ry(src)]);
    }

    fn store_f32(&mut self, base: u8, index: Src, src: u8, number: u8) {
        elements!(self.asm, base, index * 4, number; [vmovups] [, Ry(src)]);
    }
}

/// Compares by a predicate of the processor.
fn compare(asm: &mut Asm, predicate: Predicate, dst: u8, a: u8, b: u8) {
    // The assembler takes the last two of this instruction the other way round.
    emit!(asm; vcmpps Ry(dst), Ry(b), Ry(a), BYTE predicate as i8);
}

/// Amounts of shifts, taken modulo the width, which the instructions do not do.
fn amounts(asm: &mut Asm, b: u8) {
    ones(asm);
    emit!(asm
        ; vpsrld Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), BYTE 27
        ; vpand Ry(VECTOR_SCRATCH), Ry(b), Ry(VECTOR_SCRATCH)
    );
}

/// Writes the operand with almost a half added, away from zero, to the scratch register, as `round` does for one value.
fn add_half(asm: &mut Asm, a: u8) {
    number(asm, 1 << 31);
    // No register is free for the sign and the number.
    emit!(asm
        ; vandps Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), Ry(a)
        ; sub rsp, BYTE 32
        ; vmovups [rsp], Ry(VECTOR_SCRATCH)
    );
    number(asm, 0.5_f32.next_down().to_bits());
    emit!(asm
        ; vorps Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), [rsp]
        ; add rsp, BYTE 32
        ; vaddps Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), Ry(a)
    );
}

/// Splats a constant to the scratch register.
fn number(asm: &mut Asm, bits: u32) {
    emit!(asm
        ; mov Rd(SCRATCH), bits as i32
        ; vmovd Rx(VECTOR_SCRATCH), Rd(SCRATCH)
        ; vpbroadcastd Ry(VECTOR_SCRATCH), Rx(VECTOR_SCRATCH)
    );
}

pub(super) fn ones(asm: &mut Asm) {
    emit!(asm; vpcmpeqd Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH));
}

pub(super) fn invert(asm: &mut Asm, dst: u8) {
    ones(asm);
    emit!(asm; vpxor Ry(dst), Ry(dst), Ry(VECTOR_SCRATCH));
}

pub(super) fn copy(asm: &mut Asm, dst: u8, src: u8) {
    if dst != src {
        emit!(asm; vmovaps Ry(dst), Ry(src));
    }
}

pub(super) fn splat(asm: &mut Asm, of: Scalar, dst: u8, src: u8) {
    if of == Scalar::F64 {
        emit!(asm; vbroadcastsd Ry(dst), Rx(src));
    } else if of.is_float() {
        emit!(asm; vbroadcastss Ry(dst), Rx(src));
    } else {
        emit!(asm; vmovd Rx(dst), Rd(src) ; vpbroadcastd Ry(dst), Rx(dst));
    }
}

pub(super) fn quotients(asm: &mut Asm, dst: u8, a: u8, reciprocal: u8, free: u8, signed: bool) {
    if signed {
        emit!(asm
            ; vextracti128 Rx(VECTOR_SCRATCH), Ry(a), BYTE 1
            ; vcvtdq2pd Ry(VECTOR_SCRATCH), Rx(VECTOR_SCRATCH)
            ; vmulpd Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), Ry(reciprocal)
            ; vcvttpd2dq Rx(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH)
            ; vcvtdq2pd Ry(free), Rx(a)
            ; vmulpd Ry(free), Ry(free), Ry(reciprocal)
            ; vcvttpd2dq Rx(free), Ry(free)
            ; vinserti128 Ry(dst), Ry(free), Rx(VECTOR_SCRATCH), BYTE 1
        );
        return;
    }
    // No conversion has numbers without signs. Those below 2^32 are the mantissa of one that 2^52 was added to.
    emit!(asm
        ; mov Rq(SCRATCH), QWORD ((1_u64 << 52) as f64).to_bits() as i64
        ; vmovq Rx(free), Rq(SCRATCH)
        ; vpbroadcastq Ry(free), Rx(free)
        ; sub rsp, BYTE 16
        ; vextracti128 Rx(VECTOR_SCRATCH), Ry(a), BYTE 1
    );
    quotients_without_signs(asm, VECTOR_SCRATCH, reciprocal, free);
    emit!(asm; vmovups [rsp], Rx(VECTOR_SCRATCH));
    quotients_without_signs(asm, a, reciprocal, free);
    emit!(asm; vinserti128 Ry(dst), Ry(VECTOR_SCRATCH), [rsp], BYTE 1; add rsp, BYTE 16);
}

/// Writes the quotients of the four numbers in the lower half of `a` to that of the scratch register. `power` has 2^52
/// in all lanes.
fn quotients_without_signs(asm: &mut Asm, a: u8, reciprocal: u8, power: u8) {
    emit!(asm
        ; vpmovzxdq Ry(VECTOR_SCRATCH), Rx(a)
        ; vpor Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), Ry(power)
        ; vsubpd Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), Ry(power)
        ; vmulpd Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), Ry(reciprocal)
        ; vroundpd Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), BYTE Mode::TowardsZero.immediate() as i8
        ; vaddpd Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), Ry(power)
        // The lower halves, of each half of the vector, and then of all of it.
        ; vpshufd Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), BYTE 0b10_00
        ; vpermq Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), BYTE 0b10_00
    );
}

pub(super) fn numbers(asm: &mut Asm, dst: u8, src: u8) {
    emit!(asm; vpsrld Ry(dst), Ry(src), BYTE 31);
}

pub(super) fn extract(asm: &mut Asm, of: Scalar, dst: u8, src: u8, lane: u8) {
    let half = if lane >= 4 {
        emit!(asm; vextractf128 Rx(VECTOR_SCRATCH), Ry(src), BYTE 1);
        VECTOR_SCRATCH
    } else {
        src
    };
    extract_from_four(asm, of, dst, half, lane % 4);
}

pub(super) fn sum(asm: &mut Asm, dst: u8, src: u8) {
    emit!(asm
        ; vextracti128 Rx(VECTOR_SCRATCH), Ry(src), BYTE 1
        ; vpaddd Rx(VECTOR_SCRATCH), Rx(VECTOR_SCRATCH), Rx(src)
        ; vphaddd Rx(VECTOR_SCRATCH), Rx(VECTOR_SCRATCH), Rx(VECTOR_SCRATCH)
        ; vphaddd Rx(VECTOR_SCRATCH), Rx(VECTOR_SCRATCH), Rx(VECTOR_SCRATCH)
        ; vmovd Rd(dst), Rx(VECTOR_SCRATCH)
    );
}

pub(super) fn multiples(asm: &mut Asm, dst: u8, by: i32) {
    emit!(asm
        ; mov Rq(SCRATCH), QWORD 0x0706_0504_0302_0100
        ; vmovq Rx(VECTOR_SCRATCH), Rq(SCRATCH)
        ; vpmovzxbd Ry(dst), Rx(VECTOR_SCRATCH)
        ; mov Rd(SCRATCH), DWORD by
        ; vmovd Rx(VECTOR_SCRATCH), Rd(SCRATCH)
        ; vpbroadcastd Ry(VECTOR_SCRATCH), Rx(VECTOR_SCRATCH)
        ; vpmulld Ry(dst), Ry(dst), Ry(VECTOR_SCRATCH)
    );
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
    if shift == 0 {
        emit!(asm; vgatherdps Ry(dst), [Rq(SCRATCH) + Ry(offsets) * 1 + displacement], Ry(VECTOR_SCRATCH));
    } else {
        emit!(asm; vgatherdps Ry(dst), [Rq(SCRATCH) + Ry(offsets) * 4 + displacement], Ry(VECTOR_SCRATCH));
    }
}

pub(super) fn load_even(asm: &mut Asm, dst: u8, from: (u8, Src), order: u8, free: u8, number: u8) {
    address(asm, from, 2);
    let offset = i32::from(number) * 64;
    emit!(asm
        ; vmovups Ry(VECTOR_SCRATCH), [Rq(SCRATCH) + offset]
        ; vmovups Ry(free), [Rq(SCRATCH) + offset + 28]
    );
    even(asm, dst, order, free);
}

pub(super) fn load_part_of_even(asm: &mut Asm, into: u8, from: (u8, Src), is_second: bool, mask: u8) {
    address(asm, from, 2);
    let offset = i32::from(is_second) * 28;
    emit!(asm; vmaskmovps Ry(into), Ry(mask), [Rq(SCRATCH) + offset]);
}

pub(super) fn even(asm: &mut Asm, dst: u8, _order: u8, second: u8) {
    emit!(asm
        // The first vector has even elements of each group of four, and the second one odd ones. As above, they are the
        // other way round.
        ; vshufps Ry(dst), Ry(second), Ry(VECTOR_SCRATCH), BYTE 0b11_01_10_00_u8 as i8
        ; vpermq Ry(dst), Ry(dst), BYTE 0b11_01_10_00_u8 as i8
    );
}

pub(super) fn byte(asm: &mut Asm, dst: u8, a: u8, number: u8, signed: bool) {
    let before = 24 - 8 * number as i8;
    let mut from = a;
    if before > 0 {
        emit!(asm; vpslld Ry(dst), Ry(a), BYTE before);
        from = dst;
    }
    if signed {
        emit!(asm; vpsrad Ry(dst), Ry(from), BYTE 24);
    } else {
        emit!(asm; vpsrld Ry(dst), Ry(from), BYTE 24);
    }
}

/// Extends the bytes of the scratch register to lanes.
pub(super) fn extend_bytes(asm: &mut Asm, dst: u8, signed: bool) {
    if signed {
        emit!(asm; vpmovsxbd Ry(dst), Rx(VECTOR_SCRATCH));
    } else {
        emit!(asm; vpmovzxbd Ry(dst), Rx(VECTOR_SCRATCH));
    }
}

pub(super) fn load_rows(asm: &mut Asm, dst: u8, base: u8, index: u8, rows: Rows) {
    let [low, high] = [0, 1].map(|group| rows.element(group).wrapping_mul(4));
    emit!(asm
        ; vmovups Rx(dst), [Rq(base) + Rq(index) * 4 + low]
        ; vinsertf128 Ry(dst), Ry(dst), [Rq(base) + Rq(index) * 4 + high], BYTE 1
    );
}

pub(super) fn load_splat(asm: &mut Asm, dst: u8, base: u8, index: u8, displacement: i32) {
    let offset = displacement.wrapping_mul(4);
    // That for floats is assembled for four lanes, whatever the register is.
    match i8::try_from(offset) {
        Ok(offset) => emit!(asm; vpbroadcastd Ry(dst), DWORD [BYTE Rq(base) + Rq(index) * 4 + offset]),
        Err(_) => emit!(asm; vpbroadcastd Ry(dst), DWORD [DWORD Rq(base) + Rq(index) * 4 + offset]),
    }
}

pub(super) fn interleave(asm: &mut Asm, dst: u8, a: u8, b: u8, which: Interleave) {
    match which {
        Interleave::Low => emit!(asm; vunpcklps Ry(dst), Ry(a), Ry(b)),
        Interleave::High => emit!(asm; vunpckhps Ry(dst), Ry(a), Ry(b)),
        Interleave::LowPairs | Interleave::HighPairs => {
            // The assembler takes the last two of this instruction the other way round.
            emit!(asm; vshufps Ry(dst), Ry(b), Ry(a), BYTE pairs(which) as i8);
        }
        Interleave::Even | Interleave::Odd => unreachable!("lanes of 32 bits are interleaved otherwise"),
    }
}

pub(super) fn load_frame(asm: &mut Asm, dst: u8, offset: i32) {
    emit!(asm; vmovups Ry(dst), [rsp + offset]);
}

pub(super) fn store_frame(asm: &mut Asm, offset: i32, src: u8) {
    emit!(asm; vmovups [rsp + offset], Ry(src));
}
