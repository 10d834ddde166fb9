//! The machine code of each primitive.

use dynasmrt::{DynamicLabel, DynasmApi};

use super::float::{self, Sign};
use super::int::{self, Alu, Division, Shift};
use super::memory::{element, slot};
use super::round::{self, Mode};
use super::{Asm, Cc, Flags, Scalar, Src, emit, select};
use crate::generated::vm::primitive::Lower;

const QUOTIENT: Division = Division { signed: false, quotient: true };
const REMAINDER: Division = Division { signed: false, quotient: false };
const SIGNED_QUOTIENT: Division = Division { signed: true, quotient: true };
const SIGNED_REMAINDER: Division = Division { signed: true, quotient: false };

impl Lower for Asm {
    fn wrapping_add(&mut self, of: Scalar, dst: u8, a: Src, b: Src) {
        int::add(self, of, dst, a, b);
    }

    fn wrapping_sub(&mut self, of: Scalar, dst: u8, a: Src, b: Src) {
        int::subtract(self, of, dst, a, b);
    }

    fn wrapping_mul(&mut self, of: Scalar, dst: u8, a: Src, b: Src) {
        int::multiply(self, of, dst, a, b);
    }

    fn wrapping_mul_add(&mut self, of: Scalar, dst: u8, a: Src, b: Src, c: Src) {
        int::multiply_add(self, of, dst, [a, b, c]);
    }

    fn checked_div_s(&mut self, of: Scalar, dst: u8, a: Src, b: Src, trap: DynamicLabel) {
        int::divide(self, SIGNED_QUOTIENT, of, dst, [a, b], trap);
    }

    fn checked_div_u(&mut self, of: Scalar, dst: u8, a: Src, b: Src, trap: DynamicLabel) {
        int::divide(self, QUOTIENT, of, dst, [a, b], trap);
    }

    fn checked_rem_s(&mut self, of: Scalar, dst: u8, a: Src, b: Src, trap: DynamicLabel) {
        int::divide(self, SIGNED_REMAINDER, of, dst, [a, b], trap);
    }

    fn checked_rem_u(&mut self, of: Scalar, dst: u8, a: Src, b: Src, trap: DynamicLabel) {
        int::divide(self, REMAINDER, of, dst, [a, b], trap);
    }

    fn not(&mut self, of: Scalar, dst: u8, a: Src) {
        int::complement(self, of, dst, a);
    }

    fn and(&mut self, of: Scalar, dst: u8, a: Src, b: Src) {
        int::bitwise(self, Alu::And, of, dst, a, b);
    }

    fn or(&mut self, of: Scalar, dst: u8, a: Src, b: Src) {
        int::bitwise(self, Alu::Or, of, dst, a, b);
    }

    fn xor(&mut self, of: Scalar, dst: u8, a: Src, b: Src) {
        int::bitwise(self, Alu::Xor, of, dst, a, b);
    }

    fn shl(&mut self, of: Scalar, dst: u8, a: Src, b: Src) {
        int::shift(self, Shift::Left, of, dst, a, b);
    }

    fn shr_s(&mut self, of: Scalar, dst: u8, a: Src, b: Src) {
        int::shift(self, Shift::Signed, of, dst, a, b);
    }

    fn shr_u(&mut self, of: Scalar, dst: u8, a: Src, b: Src) {
        int::shift(self, Shift::Unsigned, of, dst, a, b);
    }

    fn abs_wrapping(&mut self, of: Scalar, dst: u8, a: Src) {
        int::absolute(self, of, dst, a);
    }

    fn min_s(&mut self, of: Scalar, dst: u8, a: Src, b: Src) {
        int::extreme(self, of, Cc::L, dst, a, b);
    }

    fn min_u(&mut self, of: Scalar, dst: u8, a: Src, b: Src) {
        int::extreme(self, of, Cc::B, dst, a, b);
    }

    fn max_s(&mut self, of: Scalar, dst: u8, a: Src, b: Src) {
        int::extreme(self, of, Cc::G, dst, a, b);
    }

    fn max_u(&mut self, of: Scalar, dst: u8, a: Src, b: Src) {
        int::extreme(self, of, Cc::A, dst, a, b);
    }

    fn leading_zeros(&mut self, of: Scalar, dst: u8, a: Src) {
        int::leading_zeros(self, of, dst, a);
    }

    fn low8_zext(&mut self, dst: u8, a: Src) {
        let a = int::register(self, Scalar::I32, a);
        emit!(self; movzx Rd(dst), Rb(a));
    }

    fn low16_zext(&mut self, dst: u8, a: Src) {
        let a = int::register(self, Scalar::I32, a);
        emit!(self; movzx Rd(dst), Rw(a));
    }

    fn low8_sext(&mut self, dst: u8, a: Src) {
        let a = int::register(self, Scalar::I32, a);
        emit!(self; movsx Rd(dst), Rb(a));
    }

    fn low16_sext(&mut self, dst: u8, a: Src) {
        let a = int::register(self, Scalar::I32, a);
        emit!(self; movsx Rd(dst), Rw(a));
    }

    fn low32(&mut self, dst: u8, a: Src) {
        int::low_half(self, dst, a);
    }

    fn sext64(&mut self, dst: u8, a: Src) {
        int::extend_sign(self, dst, a);
    }

    fn zext64(&mut self, dst: u8, a: Src) {
        // The upper half of a 32-bit integer is zeros already.
        if a != Src::Reg(dst) {
            int::low_half(self, dst, a);
        }
    }

    fn eq(&mut self, of: Scalar, a: Src, b: Src) -> Flags {
        int::compare(self, of, [a, b], Cc::E, Cc::E)
    }

    fn ne(&mut self, of: Scalar, a: Src, b: Src) -> Flags {
        int::compare(self, of, [a, b], Cc::Ne, Cc::Ne)
    }

    fn lt_s(&mut self, of: Scalar, a: Src, b: Src) -> Flags {
        int::compare(self, of, [a, b], Cc::L, Cc::G)
    }

    fn lt_u(&mut self, of: Scalar, a: Src, b: Src) -> Flags {
        int::compare(self, of, [a, b], Cc::B, Cc::A)
    }

    fn is_nonzero(&mut self, of: Scalar, a: Src) -> Flags {
        int::compare(self, of, [a, Src::Imm(0)], Cc::Ne, Cc::Ne)
    }

    fn select(&mut self, of: Scalar, flags: Flags, dst: u8, a: u8, b: u8) {
        select(self, of, flags, dst, a, b);
    }

    fn fadd(&mut self, of: Scalar, dst: u8, a: u8, b: u8) {
        float::arithmetic(self, float::Op::Add, of, dst, a, b);
    }

    fn fsub(&mut self, of: Scalar, dst: u8, a: u8, b: u8) {
        float::arithmetic(self, float::Op::Sub, of, dst, a, b);
    }

    fn fmul(&mut self, of: Scalar, dst: u8, a: u8, b: u8) {
        float::arithmetic(self, float::Op::Mul, of, dst, a, b);
    }

    fn fdiv(&mut self, of: Scalar, dst: u8, a: u8, b: u8) {
        float::arithmetic(self, float::Op::Div, of, dst, a, b);
    }

    fn fmul_fadd(&mut self, of: Scalar, dst: u8, a: u8, b: u8, c: u8) {
        float::multiply_add(self, of, dst, [a, b, c]);
    }

    fn fneg(&mut self, of: Scalar, dst: u8, a: u8) {
        float::sign(self, of, Sign::Flip, dst, a);
    }

    fn fabs(&mut self, of: Scalar, dst: u8, a: u8) {
        float::sign(self, of, Sign::Clear, dst, a);
    }

    fn fceil(&mut self, of: Scalar, dst: u8, a: u8) {
        round::round(self, of, Mode::Up, dst, a);
    }

    fn ffloor(&mut self, of: Scalar, dst: u8, a: u8) {
        round::round(self, of, Mode::Down, dst, a);
    }

    fn fround_away(&mut self, of: Scalar, dst: u8, a: u8) {
        round::round_away(self, of, dst, a);
    }

    fn fround_even_pz(&mut self, of: Scalar, dst: u8, a: u8) {
        round::round_even(self, of, dst, a);
    }

    // Unordered and equal operands give the second one of the instructions, which has to be the left one.
    fn fmin_lhs(&mut self, of: Scalar, dst: u8, a: u8, b: u8) {
        float::arithmetic(self, float::Op::Min, of, dst, b, a);
    }

    fn fmax_lhs(&mut self, of: Scalar, dst: u8, a: u8, b: u8) {
        float::arithmetic(self, float::Op::Max, of, dst, b, a);
    }

    fn fsqrt(&mut self, of: Scalar, dst: u8, a: u8) {
        float::square_root(self, of, dst, a);
    }

    fn frsqrt(&mut self, of: Scalar, dst: u8, a: u8) {
        float::inverse_square_root(self, of, dst, a);
    }

    fn feq(&mut self, of: Scalar, a: u8, b: u8) -> Flags {
        float::compare(self, of, a, b, Flags::Both(Cc::Np, Cc::E))
    }

    fn feq_u(&mut self, of: Scalar, a: u8, b: u8) -> Flags {
        float::compare(self, of, a, b, Flags::One(Cc::E))
    }

    fn fne(&mut self, of: Scalar, a: u8, b: u8) -> Flags {
        float::compare(self, of, a, b, Flags::Either(Cc::Ne, Cc::P))
    }

    fn flt(&mut self, of: Scalar, a: u8, b: u8) -> Flags {
        float::compare(self, of, b, a, Flags::One(Cc::A))
    }

    fn fle(&mut self, of: Scalar, a: u8, b: u8) -> Flags {
        float::compare(self, of, b, a, Flags::One(Cc::Ae))
    }

    fn flt_u(&mut self, of: Scalar, a: u8, b: u8) -> Flags {
        float::compare(self, of, a, b, Flags::One(Cc::B))
    }

    fn fle_u(&mut self, of: Scalar, a: u8, b: u8) -> Flags {
        float::compare(self, of, a, b, Flags::One(Cc::Be))
    }

    fn is_nan(&mut self, of: Scalar, a: u8) -> Flags {
        float::compare(self, of, a, a, Flags::One(Cc::P))
    }

    fn bits(&mut self, of: Scalar, dst: u8, a: u8) {
        float::bits(self, of, dst, a);
    }

    fn from_bits(&mut self, of: Scalar, dst: u8, a: Src) {
        float::from_bits(self, of, dst, a);
    }

    fn fdemote(&mut self, dst: u8, a: u8) {
        float::demote(self, dst, a);
    }

    fn fpromote(&mut self, dst: u8, a: u8) {
        float::promote(self, dst, a);
    }

    fn i32_to_f(&mut self, of: Scalar, dst: u8, a: Src) {
        float::from_i32(self, of, dst, a);
    }

    fn u32_to_f(&mut self, of: Scalar, dst: u8, a: Src) {
        float::from_u32(self, of, dst, a);
    }

    fn i64_to_f(&mut self, of: Scalar, dst: u8, a: Src) {
        let a = int::register(self, Scalar::I64, a);
        float::from_i64(self, of, dst, a);
    }

    fn u64_to_f(&mut self, of: Scalar, dst: u8, a: Src) {
        round::from_u64(self, of, dst, a);
    }

    fn round_i64(&mut self, of: Scalar, dst: u8, a: u8) {
        round::to_i64(self, of, dst, a);
    }

    fn round_i32(&mut self, of: Scalar, dst: u8, a: u8) {
        round::to_i64(self, of, dst, a);
        emit!(self; mov Rd(dst), Rd(dst));
    }

    fn round_u64_f32(&mut self, dst: u8, a: u8) {
        round::to_u64_from_f32(self, dst, a);
    }

    fn load_i8u(&mut self, dst: u8, base: u8, index: Src) {
        element!(self, base, index * 1; [movzx Rd(dst), BYTE] []);
    }

    fn load_i8s(&mut self, dst: u8, base: u8, index: Src) {
        element!(self, base, index * 1; [movsx Rd(dst), BYTE] []);
    }

    fn load_i16u(&mut self, dst: u8, base: u8, index: Src) {
        element!(self, base, index * 2; [movzx Rd(dst), WORD] []);
    }

    fn load_i16s(&mut self, dst: u8, base: u8, index: Src) {
        element!(self, base, index * 2; [movsx Rd(dst), WORD] []);
    }

    fn load_i32(&mut self, dst: u8, base: u8, index: Src) {
        element!(self, base, index * 4; [mov Rd(dst), DWORD] []);
    }

    fn load_i64(&mut self, dst: u8, base: u8, index: Src) {
        element!(self, base, index * 8; [mov Rq(dst), QWORD] []);
    }

    fn load_f32(&mut self, dst: u8, base: u8, index: Src) {
        if self.features.avx {
            element!(self, base, index * 4; [vmovss Rx(dst), DWORD] []);
        } else {
            element!(self, base, index * 4; [movss Rx(dst), DWORD] []);
        }
    }

    fn load_f64(&mut self, dst: u8, base: u8, index: Src) {
        if self.features.avx {
            element!(self, base, index * 8; [vmovsd Rx(dst), QWORD] []);
        } else {
            element!(self, base, index * 8; [movsd Rx(dst), QWORD] []);
        }
    }

    fn store_i8(&mut self, base: u8, index: Src, value: Src) {
        match value {
            Src::Reg(value) => element!(self, base, index * 1; [mov BYTE] [, Rb(value)]),
            Src::Imm(imm) => element!(self, base, index * 1; [mov BYTE] [, BYTE imm as i8]),
        }
    }

    fn store_i16(&mut self, base: u8, index: Src, value: Src) {
        match value {
            Src::Reg(value) => element!(self, base, index * 2; [mov WORD] [, Rw(value)]),
            Src::Imm(imm) => element!(self, base, index * 2; [mov WORD] [, WORD imm as i16]),
        }
    }

    fn store_i32(&mut self, base: u8, index: Src, value: Src) {
        match value {
            Src::Reg(value) => element!(self, base, index * 4; [mov DWORD] [, Rd(value)]),
            Src::Imm(imm) => element!(self, base, index * 4; [mov DWORD] [, DWORD imm]),
        }
    }

    fn store_i64(&mut self, base: u8, index: Src, value: Src) {
        match value {
            Src::Reg(value) => element!(self, base, index * 8; [mov QWORD] [, Rq(value)]),
            Src::Imm(imm) => element!(self, base, index * 8; [mov QWORD] [, DWORD imm]),
        }
    }

    fn store_f32(&mut self, base: u8, index: Src, value: u8) {
        if self.features.avx {
            element!(self, base, index * 4; [vmovss DWORD] [, Rx(value)]);
        } else {
            element!(self, base, index * 4; [movss DWORD] [, Rx(value)]);
        }
    }

    fn store_f64(&mut self, base: u8, index: Src, value: u8) {
        if self.features.avx {
            element!(self, base, index * 8; [vmovsd QWORD] [, Rx(value)]);
        } else {
            element!(self, base, index * 8; [movsd QWORD] [, Rx(value)]);
        }
    }
}
