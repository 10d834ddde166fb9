//! Vectors of bytes: AVX2, 32 of them, or sixteen in the lower half of a register, where the same instructions compute
//! them; what these make of the upper half goes nowhere.

use dynasmrt::DynasmApi;

use super::super::{Asm, Src, emit};
use super::eight::{bitwise, copy, elements, invert, ones};
use crate::generated::vm::primitive::LowerByteLanes;
use crate::ir::types::Width;
use crate::processor::registers::{SCRATCH, VECTOR_SCRATCH};

/// Code with vectors of bytes.
pub(super) struct Bytes<'a> {
    pub asm: &'a mut Asm,
    pub width: Width,
}

impl Bytes<'_> {
    /// Writes the lower bytes of products to the scratch register.
    fn product(&mut self, a: u8, b: u8) {
        emit!(self.asm
            // No instruction multiplies bytes. Of words, the lower byte of a product is that of the lower bytes.
            ; vpmullw Ry(VECTOR_SCRATCH), Ry(a), Ry(b)
            ; vpsllw Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), BYTE 8
            ; vpsrlw Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), BYTE 8
            ; sub rsp, BYTE 64
            ; vmovups [rsp], Ry(VECTOR_SCRATCH)
            // The upper bytes become lower ones, and their products go back.
            ; vpsrlw Ry(VECTOR_SCRATCH), Ry(a), BYTE 8
            ; vmovups [rsp + 32], Ry(VECTOR_SCRATCH)
            ; vpsrlw Ry(VECTOR_SCRATCH), Ry(b), BYTE 8
            ; vpmullw Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), [rsp + 32]
            ; vpsllw Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), BYTE 8
            ; vpor Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), [rsp]
            ; add rsp, BYTE 64
        );
    }

    fn load(&mut self, dst: u8, base: u8, index: Src, number: u8) {
        let lanes = self.width.lanes();
        match self.width {
            Width::SixteenBytes => elements!(self.asm, lanes, base, index * 1, number; [vmovups Rx(dst),] []),
            _ => elements!(self.asm, lanes, base, index * 1, number; [vmovups Ry(dst),] []),
        }
    }
}

impl LowerByteLanes for Bytes<'_> {
    fn wrapping_add(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vpaddb Ry(dst), Ry(a), Ry(b));
    }

    fn wrapping_sub(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vpsubb Ry(dst), Ry(a), Ry(b));
    }

    fn wrapping_mul(&mut self, dst: u8, a: u8, b: u8) {
        self.product(a, b);
        copy(self.asm, dst, VECTOR_SCRATCH);
    }

    fn wrapping_mul_add(&mut self, dst: u8, a: u8, b: u8, c: u8) {
        self.product(a, b);
        emit!(self.asm; vpaddb Ry(dst), Ry(VECTOR_SCRATCH), Ry(c));
    }

    bitwise!();

    fn abs_wrapping(&mut self, dst: u8, a: u8) {
        emit!(self.asm; vpabsb Ry(dst), Ry(a));
    }

    fn min_s(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vpminsb Ry(dst), Ry(a), Ry(b));
    }

    fn min_u(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vpminub Ry(dst), Ry(a), Ry(b));
    }

    fn max_s(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vpmaxsb Ry(dst), Ry(a), Ry(b));
    }

    fn max_u(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vpmaxub Ry(dst), Ry(a), Ry(b));
    }

    fn eq(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vpcmpeqb Ry(dst), Ry(a), Ry(b));
    }

    fn ne(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vpcmpeqb Ry(dst), Ry(a), Ry(b));
        invert(self.asm, dst);
    }

    fn lt_s(&mut self, dst: u8, a: u8, b: u8) {
        emit!(self.asm; vpcmpgtb Ry(dst), Ry(b), Ry(a));
    }

    fn lt_u(&mut self, dst: u8, a: u8, b: u8) {
        // The first operand is less if it is not the maximum of both.
        emit!(self.asm; vpmaxub Ry(VECTOR_SCRATCH), Ry(a), Ry(b) ; vpcmpeqb Ry(dst), Ry(a), Ry(VECTOR_SCRATCH));
        invert(self.asm, dst);
    }

    fn is_nonzero(&mut self, dst: u8, a: u8) {
        emit!(self.asm
            ; vpxor Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH)
            ; vpcmpeqb Ry(dst), Ry(a), Ry(VECTOR_SCRATCH)
        );
        invert(self.asm, dst);
    }

    fn select(&mut self, dst: u8, a: u8, b: u8, c: u8) {
        // The sign of the first operand chooses.
        emit!(self.asm; vpblendvb Ry(dst), Ry(c), Ry(b), Ry(a));
    }

    fn load_i8u(&mut self, dst: u8, base: u8, index: Src, number: u8) {
        self.load(dst, base, index, number);
    }

    fn load_i8s(&mut self, dst: u8, base: u8, index: Src, number: u8) {
        self.load(dst, base, index, number);
    }

    fn store_i8(&mut self, base: u8, index: Src, src: u8, number: u8) {
        let lanes = self.width.lanes();
        match self.width {
            Width::SixteenBytes => elements!(self.asm, lanes, base, index * 1, number; [vmovups] [, Rx(src)]),
            _ => elements!(self.asm, lanes, base, index * 1, number; [vmovups] [, Ry(src)]),
        }
    }
}

/// Splats the lowest byte of a value.
pub(super) fn splat(asm: &mut Asm, dst: u8, src: u8) {
    emit!(asm; vmovd Rx(dst), Rd(src) ; vpbroadcastb Ry(dst), Rx(dst));
}

/// Truth values as 0 or 1: a byte of ones is -1.
pub(super) fn numbers(asm: &mut Asm, dst: u8, src: u8) {
    emit!(asm; vpabsb Ry(dst), Ry(src));
}

/// Loads every other byte to all 32 lanes of the scratch register, from this far after the address in the one for
/// addresses.
pub(super) fn load_even(asm: &mut Asm, offset: i32, free: u8) {
    // The second half begins with the last byte of the first, so that nothing beyond the last byte is read.
    emit!(asm
        ; vmovups Ry(VECTOR_SCRATCH), [Rq(SCRATCH) + offset]
        ; vmovups Ry(free), [Rq(SCRATCH) + offset.wrapping_add(31)]
        ; vpsllw Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), BYTE 8
        ; vpsrlw Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), BYTE 8
        ; vpsrlw Ry(free), Ry(free), BYTE 8
        // This packs the lower halves of both, and then the upper ones.
        ; vpackuswb Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), Ry(free)
        ; vpermq Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), BYTE 0b11_01_10_00_u8 as i8
    );
}
