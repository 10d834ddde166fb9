//! Rounding to integers: as floats, and as conversions to and from 64-bit integers.
//!
//! With AVX there is an instruction that rounds. Without, a float goes through an integer register and back; those that
//! do not fit there are integers already, or no numbers.

use dynasmrt::{DynasmApi, DynasmLabelApi};

use super::float::{Op, Predicate, arithmetic, bits, constant, from_integer_register, vector};
use super::int::register;
use super::{Asm, Cc, Scalar, Src};
use super::{emit, jump_short, move_value};
use crate::processor::registers::{RAX, RCX, SCRATCH, VECTOR_SCRATCH};

/// Which way to round.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// To the nearest; of two, to the even one.
    Even,
    Down,
    Up,
    TowardsZero,
}

impl Mode {
    /// The operand of instructions that round: without a trace of what was inexact.
    pub fn immediate(self) -> u8 {
        8 | match self {
            Mode::Even => 0,
            Mode::Down => 1,
            Mode::Up => 2,
            Mode::TowardsZero => 3,
        }
    }
}

/// Half away from zero.
pub(super) fn round_away(asm: &mut Asm, of: Scalar, dst: u8, a: u8) {
    add_half(asm, of, a);
    round(asm, of, Mode::TowardsZero, dst, VECTOR_SCRATCH);
}

/// The same to an integer. Its lower half is that of a 32-bit one.
pub(super) fn to_i64(asm: &mut Asm, of: Scalar, dst: u8, a: u8) {
    add_half(asm, of, a);
    truncate(asm, of, dst, VECTOR_SCRATCH);
}

pub(super) fn to_u64_from_f32(asm: &mut Asm, dst: u8, a: u8) {
    to_i64(asm, Scalar::F32, dst, a);
    // From 2^63 to 2^64, which is one exponent, floats are integers, and their mantissa is the upper part.
    let done = asm.ops.new_dynamic_label();
    bits(asm, Scalar::F32, SCRATCH, VECTOR_SCRATCH);
    emit!(asm; shr Rd(SCRATCH), 23; cmp Rd(SCRATCH), 127 + 63);
    jump_short(asm, Cc::Ne, done);
    bits(asm, Scalar::F32, SCRATCH, VECTOR_SCRATCH);
    emit!(asm; shl Rq(SCRATCH), 40; bts Rq(SCRATCH), 63; mov Rq(dst), Rq(SCRATCH); =>done);
}

pub(super) fn round(asm: &mut Asm, of: Scalar, mode: Mode, dst: u8, a: u8) {
    if !asm.features.avx {
        move_value(asm, of, dst, a);
        return round_through_integer(asm, of, mode, dst);
    }
    vector!(asm, of; vroundss vroundsd, Rx(dst), Rx(a), Rx(a), BYTE mode.immediate() as i8);
}

/// Half to even, but zero without its sign for -0.5.
pub(super) fn round_even(asm: &mut Asm, of: Scalar, dst: u8, a: u8) {
    let half = if of.is_wide() { (-0.5f64).to_bits() } else { u64::from((-0.5f32).to_bits()) };
    if asm.features.avx {
        constant(asm, of, VECTOR_SCRATCH, half);
        vector!(asm, of; vcmpss vcmpsd, Rx(VECTOR_SCRATCH), Rx(VECTOR_SCRATCH), Rx(a), BYTE Predicate::Equal as i8);
        round(asm, of, Mode::Even, dst, a);
        emit!(asm; vandnps Rx(dst), Rx(VECTOR_SCRATCH), Rx(dst));
        return;
    }
    let done = asm.ops.new_dynamic_label();
    bits(asm, of, RCX, a);
    round(asm, of, Mode::Even, dst, a);
    super::constant(asm, of.integer(), SCRATCH, half);
    emit!(asm; cmp Rq(RCX), Rq(SCRATCH));
    jump_short(asm, Cc::Ne, done);
    constant(asm, of, dst, 0);
    emit!(asm; =>done);
}

/// Without AVX: rounds `dst`.
fn round_through_integer(asm: &mut Asm, of: Scalar, mode: Mode, dst: u8) {
    let done = asm.ops.new_dynamic_label();
    truncate(asm, of, SCRATCH, dst);
    // The least integer, which stands for all that do not fit, is the only one that this overflows for.
    emit!(asm; cmp Rq(SCRATCH), BYTE 1);
    jump_short(asm, Cc::O, done);
    if mode == Mode::Even {
        // This instruction rounds to nearest even.
        vector!(asm, of; cvtss2si cvtsd2si, Rq(SCRATCH), Rx(dst));
    }
    emit!(asm; xorps Rx(VECTOR_SCRATCH), Rx(VECTOR_SCRATCH));
    vector!(asm, of; cvtsi2ss cvtsi2sd, Rx(VECTOR_SCRATCH), Rq(SCRATCH));
    if matches!(mode, Mode::Down | Mode::Up) {
        let skip = asm.ops.new_dynamic_label();
        let (greater, less, step) =
            if mode == Mode::Down { (VECTOR_SCRATCH, dst, -1) } else { (dst, VECTOR_SCRATCH, 1) };
        vector!(asm, of; ucomiss ucomisd, Rx(greater), Rx(less));
        jump_short(asm, Cc::Be, skip);
        emit!(asm; add Rq(SCRATCH), BYTE step);
        vector!(asm, of; cvtsi2ss cvtsi2sd, Rx(VECTOR_SCRATCH), Rq(SCRATCH));
        emit!(asm; =>skip);
    }
    // Zero keeps the sign that it was rounded from. All others have it.
    bits(asm, of, RAX, dst);
    keep_sign(asm, of);
    from_integer_register(asm, of, dst, RAX);
    emit!(asm; orps Rx(dst), Rx(VECTOR_SCRATCH); =>done);
}

/// Clears all of `rax` but the sign.
fn keep_sign(asm: &mut Asm, of: Scalar) {
    if of.is_wide() {
        emit!(asm; shr Rq(RAX), 63; shl Rq(RAX), 63);
    } else {
        emit!(asm; and Rd(RAX), i32::MIN);
    }
}

/// The vector scratch register is `a` with almost a half added, away from zero: towards zero of that is half away from
/// zero of `a`. A half itself would bring the largest number below a half to 1.
fn add_half(asm: &mut Asm, of: Scalar, a: u8) {
    bits(asm, of, RAX, a);
    keep_sign(asm, of);
    if of.is_wide() {
        emit!(asm; mov Rq(SCRATCH), QWORD 0.5f64.next_down().to_bits() as i64; or Rq(RAX), Rq(SCRATCH));
    } else {
        emit!(asm; or Rd(RAX), 0.5f32.next_down().to_bits() as i32);
    }
    from_integer_register(asm, of, VECTOR_SCRATCH, RAX);
    arithmetic(asm, Op::Add, of, VECTOR_SCRATCH, VECTOR_SCRATCH, a);
}

/// Towards zero; the least integer for what does not fit.
fn truncate(asm: &mut Asm, of: Scalar, dst: u8, a: u8) {
    if asm.features.avx {
        vector!(asm, of; vcvttss2si vcvttsd2si, Rq(dst), Rx(a));
    } else {
        vector!(asm, of; cvttss2si cvttsd2si, Rq(dst), Rx(a));
    }
}

/// The conversion is of signed integers. What is negative as such is halved for it, with a bit that says whether there
/// was a rest.
pub(super) fn from_u64(asm: &mut Asm, of: Scalar, dst: u8, a: Src) {
    let (halved, done) = (asm.ops.new_dynamic_label(), asm.ops.new_dynamic_label());
    let a = register(asm, Scalar::I64, a);
    emit!(asm; test Rq(a), Rq(a));
    jump_short(asm, Cc::S, halved);
    super::float::from_i64(asm, of, dst, a);
    emit!(asm; jmp BYTE =>done; =>halved);
    move_value(asm, Scalar::I64, SCRATCH, a);
    emit!(asm; mov Rd(RAX), Rd(SCRATCH); and Rd(RAX), 1; shr Rq(SCRATCH), 1; or Rq(SCRATCH), Rq(RAX));
    super::float::from_i64(asm, of, dst, SCRATCH);
    arithmetic(asm, Op::Add, of, dst, dst, dst);
    emit!(asm; =>done);
}
