//! Rounding to integers: as floats, and as conversions to and from 64-bit integers.
//!
//! With AVX there is an instruction that rounds. Without, a float goes through an integer register and back; those that do not fit
//! there are integers already, or no numbers.

use dynasmrt::{DynasmApi, DynasmLabelApi};

use super::float::{Op, arithmetic, constant, from_integer_register, vector};
use super::int::register;
use super::{Asm, Cc, Primitive, R11, RAX, RCX, Scalar, Src, XMM15};
use super::{emit, jump_short, move_value};

/// Which way to round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// To the nearest; of two, to the even one.
    Even,
    Down,
    Up,
    TowardsZero,
}

/// See [`super::value`].
pub(super) fn value(asm: &mut Asm, primitive: Primitive, of: Scalar, dst: u8, src: &[Src]) -> bool {
    match (primitive, src) {
        (Primitive::Fceil, &[Src::Reg(a)]) => round(asm, of, Mode::Up, dst, a),
        (Primitive::Ffloor, &[Src::Reg(a)]) => round(asm, of, Mode::Down, dst, a),
        (Primitive::FroundAway, &[Src::Reg(a)]) => {
            add_half(asm, of, a);
            round(asm, of, Mode::TowardsZero, dst, XMM15);
        }
        (Primitive::FroundEvenPz, &[Src::Reg(a)]) => round_even(asm, of, dst, a),
        (Primitive::RoundI64, &[Src::Reg(a)]) => {
            add_half(asm, of, a);
            truncate(asm, of, dst, XMM15);
        }
        (Primitive::RoundU64F32, &[Src::Reg(a)]) => {
            add_half(asm, Scalar::F32, a);
            truncate(asm, Scalar::F32, dst, XMM15);
            // From 2^63 to 2^64, which is one exponent, floats are integers, and their mantissa is the upper part.
            let done = asm.ops.new_dynamic_label();
            bits(asm, Scalar::F32, R11, XMM15);
            emit!(asm; shr Rd(R11), 23; cmp Rd(R11), 127 + 63);
            jump_short(asm, Cc::Ne, done);
            bits(asm, Scalar::F32, R11, XMM15);
            emit!(asm; shl Rq(R11), 40; bts Rq(R11), 63; mov Rq(dst), Rq(R11); =>done);
        }
        (Primitive::U64ToF, &[a]) => from_u64(asm, of, dst, a),
        _ => return false,
    }
    true
}

fn round(asm: &mut Asm, of: Scalar, mode: Mode, dst: u8, a: u8) {
    if !asm.features.avx {
        move_value(asm, of, dst, a);
        return round_through_integer(asm, of, mode, dst);
    }
    // 8: without a trace of what was inexact.
    let mode = match mode {
        Mode::Even => 8,
        Mode::Down => 8 | 1,
        Mode::Up => 8 | 2,
        Mode::TowardsZero => 8 | 3,
    };
    vector!(asm, of; vroundss vroundsd, Rx(dst), Rx(a), Rx(a), BYTE mode);
}

/// Half to even, but zero without its sign for -0.5.
fn round_even(asm: &mut Asm, of: Scalar, dst: u8, a: u8) {
    let half = if of.is_wide() { (-0.5f64).to_bits() } else { u64::from((-0.5f32).to_bits()) };
    if asm.features.avx {
        constant(asm, of, XMM15, half);
        vector!(asm, of; vcmpss vcmpsd, Rx(XMM15), Rx(XMM15), Rx(a), BYTE 0);
        round(asm, of, Mode::Even, dst, a);
        emit!(asm; vandnps Rx(dst), Rx(XMM15), Rx(dst));
        return;
    }
    let done = asm.ops.new_dynamic_label();
    bits(asm, of, RCX, a);
    round(asm, of, Mode::Even, dst, a);
    super::constant(asm, of.integer(), R11, half);
    emit!(asm; cmp Rq(RCX), Rq(R11));
    jump_short(asm, Cc::Ne, done);
    constant(asm, of, dst, 0);
    emit!(asm; =>done);
}

/// Without AVX: rounds `dst`.
fn round_through_integer(asm: &mut Asm, of: Scalar, mode: Mode, dst: u8) {
    let done = asm.ops.new_dynamic_label();
    truncate(asm, of, R11, dst);
    // The least integer, which stands for all that do not fit, is the only one that this overflows for.
    emit!(asm; cmp Rq(R11), BYTE 1);
    jump_short(asm, Cc::O, done);
    if mode == Mode::Even {
        // This instruction rounds to nearest even.
        vector!(asm, of; cvtss2si cvtsd2si, Rq(R11), Rx(dst));
    }
    emit!(asm; xorps Rx(XMM15), Rx(XMM15));
    vector!(asm, of; cvtsi2ss cvtsi2sd, Rx(XMM15), Rq(R11));
    if matches!(mode, Mode::Down | Mode::Up) {
        let skip = asm.ops.new_dynamic_label();
        let (greater, less, step) = if mode == Mode::Down { (XMM15, dst, -1) } else { (dst, XMM15, 1) };
        vector!(asm, of; ucomiss ucomisd, Rx(greater), Rx(less));
        jump_short(asm, Cc::Be, skip);
        emit!(asm; add Rq(R11), BYTE step);
        vector!(asm, of; cvtsi2ss cvtsi2sd, Rx(XMM15), Rq(R11));
        emit!(asm; =>skip);
    }
    // Zero keeps the sign that it was rounded from. All others have it.
    bits(asm, of, RAX, dst);
    keep_sign(asm, of);
    from_integer_register(asm, of, dst, RAX);
    emit!(asm; orps Rx(dst), Rx(XMM15); =>done);
}

/// Clears all of `rax` but the sign.
fn keep_sign(asm: &mut Asm, of: Scalar) {
    if of.is_wide() {
        emit!(asm; shr Rq(RAX), 63; shl Rq(RAX), 63);
    } else {
        emit!(asm; and Rd(RAX), i32::MIN);
    }
}

/// `xmm15` is `a` with almost a half added, away from zero: towards zero of that is half away from zero of `a`. A half itself would
/// bring the largest number below a half to 1.
fn add_half(asm: &mut Asm, of: Scalar, a: u8) {
    bits(asm, of, RAX, a);
    keep_sign(asm, of);
    if of.is_wide() {
        emit!(asm; mov Rq(R11), QWORD 0.5f64.next_down().to_bits() as i64; or Rq(RAX), Rq(R11));
    } else {
        emit!(asm; or Rd(RAX), 0.5f32.next_down().to_bits() as i32);
    }
    from_integer_register(asm, of, XMM15, RAX);
    arithmetic(asm, Op::Add, of, XMM15, XMM15, a);
}

/// Towards zero; the least integer for what does not fit.
fn truncate(asm: &mut Asm, of: Scalar, dst: u8, a: u8) {
    if asm.features.avx {
        vector!(asm, of; vcvttss2si vcvttsd2si, Rq(dst), Rx(a));
    } else {
        vector!(asm, of; cvttss2si cvttsd2si, Rq(dst), Rx(a));
    }
}

fn bits(asm: &mut Asm, of: Scalar, dst: u8, a: u8) {
    super::float::value(asm, Primitive::Bits, of, dst, &[Src::Reg(a)]);
}

/// The conversion is of signed integers. What is negative as such is halved for it, with a bit that says whether there was a rest.
fn from_u64(asm: &mut Asm, of: Scalar, dst: u8, a: Src) {
    let (halved, done) = (asm.ops.new_dynamic_label(), asm.ops.new_dynamic_label());
    let a = register(asm, Scalar::I64, a);
    emit!(asm; test Rq(a), Rq(a));
    jump_short(asm, Cc::S, halved);
    super::float::from_i64(asm, of, dst, a);
    emit!(asm; jmp BYTE =>done; =>halved);
    move_value(asm, Scalar::I64, R11, a);
    emit!(asm; mov Rd(RAX), Rd(R11); and Rd(RAX), 1; shr Rq(R11), 1; or Rq(R11), Rq(RAX));
    super::float::from_i64(asm, of, dst, R11);
    arithmetic(asm, Op::Add, of, dst, dst, dst);
    emit!(asm; =>done);
}
