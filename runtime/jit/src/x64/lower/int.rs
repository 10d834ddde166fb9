//! Integer primitives, and conversions between widths of integers.

use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};

use super::code::{Asm, Cc, Flags, Src, emit, integer_constant, jump, jump_short, move_if, move_value, sized};
use super::multiplier::{Multiplier, multiplier};
use crate::ir::types::Scalar;
use crate::processor::registers::{RAX, RCX, RDX, SCRATCH};

/// Instructions with the same forms of operands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Alu {
    Add,
    Or,
    And,
    Sub,
    Xor,
    Cmp,
}

/// `lhs op= rhs`, or for `Cmp` the flags of it.
fn alu(asm: &mut Asm, op: Alu, of: Scalar, lhs: u8, rhs: Src) {
    macro_rules! forms {
        ($op:ident) => {
            match rhs {
                Src::Reg(rhs) => sized!(asm, of; $op lhs, rhs),
                Src::Imm(imm) => match i8::try_from(imm) {
                    Ok(imm) => sized!(asm, of; $op lhs; BYTE imm),
                    Err(_) => sized!(asm, of; $op lhs; DWORD imm),
                },
            }
        };
    }
    match op {
        Alu::Add => forms!(add),
        Alu::Or => forms!(or),
        Alu::And => forms!(and),
        Alu::Sub => forms!(sub),
        Alu::Xor => forms!(xor),
        Alu::Cmp => match rhs {
            Src::Reg(rhs) => sized!(asm, of; cmp lhs, rhs),
            Src::Imm(imm) => match i8::try_from(imm) {
                // The assembler does not find the form with one byte.
                Ok(imm) => {
                    let rex = 0x40 | u8::from(of.is_wide()) << 3 | lhs >> 3;
                    asm.ops.extend([rex, 0x83, 0xF8 | lhs & 7, imm as u8]);
                }
                Err(_) => sized!(asm, of; cmp lhs; DWORD imm),
            },
        },
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shift {
    Left,
    Signed,
    Unsigned,
}

/// Writes an operand, without touching the flags.
fn put(asm: &mut Asm, of: Scalar, dst: u8, src: Src) {
    match src {
        Src::Reg(src) => move_value(asm, of, dst, src),
        Src::Imm(imm) => integer_constant(asm, of.is_wide(), dst, i64::from(imm) as u64),
    }
}

/// The register of an operand; a constant is put into the scratch register.
pub(super) fn register(asm: &mut Asm, of: Scalar, src: Src) -> u8 {
    match src {
        Src::Reg(src) => src,
        Src::Imm(_) => {
            put(asm, of, SCRATCH, src);
            SCRATCH
        }
    }
}

/// `a * b + c`.
pub(super) fn multiply_add(asm: &mut Asm, of: Scalar, dst: u8, [a, b, c]: [Src; 3]) {
    if let (Src::Reg(a), Src::Imm(factor)) = (a, b)
        && add_scaled(asm, of, dst, (a, factor), c)
    {
        return;
    }
    if c == Src::Reg(dst) {
        multiply(asm, of, SCRATCH, a, b);
        alu(asm, Alu::Add, of, dst, Src::Reg(SCRATCH));
    } else {
        multiply(asm, of, dst, a, b);
        add(asm, of, dst, Src::Reg(dst), c);
    }
}

/// `a * factor + c` in one instruction. False, and no code, if there is none, or it takes no less time than two.
fn add_scaled(asm: &mut Asm, of: Scalar, dst: u8, (a, factor): (u8, i32), c: Src) -> bool {
    macro_rules! address {
        ($($address:tt)*) => {
            if of.is_wide() { emit!(asm; lea Rq(dst), $($address)*) } else { emit!(asm; lea Rd(dst), $($address)*) }
        };
    }
    match (factor, c) {
        (2, Src::Reg(c)) => address!([Rq(c) + Rq(a) * 2]),
        (4, Src::Reg(c)) => address!([Rq(c) + Rq(a) * 4]),
        (8, Src::Reg(c)) => address!([Rq(c) + Rq(a) * 8]),
        (2, Src::Imm(c)) => address!([Rq(a) + Rq(a) + c]),
        (3, Src::Imm(c)) => address!([Rq(a) + Rq(a) * 2 + c]),
        (5, Src::Imm(c)) => address!([Rq(a) + Rq(a) * 4 + c]),
        (9, Src::Imm(c)) => address!([Rq(a) + Rq(a) * 8 + c]),
        _ => return false,
    }
    true
}

pub(super) fn complement(asm: &mut Asm, of: Scalar, dst: u8, a: Src) {
    put(asm, of, dst, a);
    sized!(asm, of; not dst);
}

/// The low 32 bits, and zeros above. Writing the lower half clears the upper one, so this is a move even to the same
/// register.
pub(super) fn low_half(asm: &mut Asm, dst: u8, a: Src) {
    match a {
        Src::Reg(a) => emit!(asm; mov Rd(dst), Rd(a)),
        Src::Imm(imm) => emit!(asm; mov Rd(dst), DWORD imm),
    }
}

pub(super) fn extend_sign(asm: &mut Asm, dst: u8, a: Src) {
    match a {
        Src::Reg(a) => emit!(asm; movsxd Rq(dst), Rd(a)),
        Src::Imm(_) => put(asm, Scalar::I64, dst, a),
    }
}

pub(super) fn add(asm: &mut Asm, of: Scalar, dst: u8, a: Src, b: Src) {
    match (a, b) {
        (Src::Imm(_), Src::Reg(_)) => add(asm, of, dst, b, a),
        (_, Src::Imm(0)) => put(asm, of, dst, a),
        (Src::Reg(a), _) if a == dst => alu(asm, Alu::Add, of, dst, b),
        (Src::Reg(_), Src::Reg(b)) if b == dst => alu(asm, Alu::Add, of, dst, a),
        (Src::Reg(a), Src::Reg(b)) if of.is_wide() => emit!(asm; lea Rq(dst), [Rq(a) + Rq(b)]),
        (Src::Reg(a), Src::Reg(b)) => emit!(asm; lea Rd(dst), [Rq(a) + Rq(b)]),
        (Src::Reg(a), Src::Imm(imm)) if of.is_wide() => emit!(asm; lea Rq(dst), [Rq(a) + imm]),
        (Src::Reg(a), Src::Imm(imm)) => emit!(asm; lea Rd(dst), [Rq(a) + imm]),
        (Src::Imm(_), Src::Imm(_)) => {
            put(asm, of, dst, a);
            alu(asm, Alu::Add, of, dst, b);
        }
    }
}

pub(super) fn subtract(asm: &mut Asm, of: Scalar, dst: u8, a: Src, b: Src) {
    match (a, b) {
        (Src::Reg(_), Src::Imm(imm)) if imm != i32::MIN => add(asm, of, dst, a, Src::Imm(-imm)),
        (Src::Imm(0), Src::Reg(b)) => {
            move_value(asm, of, dst, b);
            sized!(asm, of; neg dst);
        }
        (_, Src::Reg(b)) if b == dst && a != Src::Reg(dst) => {
            sized!(asm, of; neg dst);
            alu(asm, Alu::Add, of, dst, a);
        }
        _ => {
            put(asm, of, dst, a);
            alu(asm, Alu::Sub, of, dst, b);
        }
    }
}

pub(super) fn multiply(asm: &mut Asm, of: Scalar, dst: u8, a: Src, b: Src) {
    match (a, b) {
        (Src::Imm(_), Src::Reg(_)) => multiply(asm, of, dst, b, a),
        (Src::Reg(a), Src::Imm(imm)) => scale(asm, of, dst, a, imm),
        (Src::Imm(_), Src::Imm(imm)) => {
            put(asm, of, dst, a);
            scale(asm, of, dst, dst, imm);
        }
        (Src::Reg(a), Src::Reg(b)) if b == dst => sized!(asm, of; imul dst, a),
        (Src::Reg(a), Src::Reg(b)) => {
            move_value(asm, of, dst, a);
            sized!(asm, of; imul dst, b);
        }
    }
}

/// The product with a constant.
fn scale(asm: &mut Asm, of: Scalar, dst: u8, a: u8, factor: i32) {
    match factor {
        0 => integer_constant(asm, of.is_wide(), dst, 0),
        3 if of.is_wide() => emit!(asm; lea Rq(dst), [Rq(a) + Rq(a) * 2]),
        5 if of.is_wide() => emit!(asm; lea Rq(dst), [Rq(a) + Rq(a) * 4]),
        9 if of.is_wide() => emit!(asm; lea Rq(dst), [Rq(a) + Rq(a) * 8]),
        3 => emit!(asm; lea Rd(dst), [Rq(a) + Rq(a) * 2]),
        5 => emit!(asm; lea Rd(dst), [Rq(a) + Rq(a) * 4]),
        9 => emit!(asm; lea Rd(dst), [Rq(a) + Rq(a) * 8]),
        -1 => {
            move_value(asm, of, dst, a);
            sized!(asm, of; neg dst);
        }
        _ if factor.is_positive() && factor.count_ones() == 1 => {
            shift(asm, Shift::Left, of, dst, Src::Reg(a), Src::Imm(factor.trailing_zeros() as i32));
        }
        _ => match i8::try_from(factor) {
            Ok(factor) => sized!(asm, of; imul dst, a; BYTE factor),
            Err(_) => sized!(asm, of; imul dst, a; DWORD factor),
        },
    }
}

pub(super) fn bitwise(asm: &mut Asm, op: Alu, of: Scalar, dst: u8, a: Src, b: Src) {
    let (a, b) = if b == Src::Reg(dst) || matches!(a, Src::Imm(_)) { (b, a) } else { (a, b) };
    // Both may be constants, or the same register.
    put(asm, of, dst, a);
    alu(asm, op, of, dst, b);
}

/// Shifts take their amount modulo the width, as the instructions do.
pub(super) fn shift(asm: &mut Asm, shift: Shift, of: Scalar, dst: u8, a: Src, amount: Src) {
    let amount = match amount {
        Src::Reg(amount) => amount,
        Src::Imm(amount) => {
            let amount = (amount & if of.is_wide() { 63 } else { 31 }) as i8;
            put(asm, of, dst, a);
            match shift {
                _ if amount == 0 => {}
                Shift::Left => sized!(asm, of; shl dst; BYTE amount),
                Shift::Signed => sized!(asm, of; sar dst; BYTE amount),
                Shift::Unsigned => sized!(asm, of; shr dst; BYTE amount),
            }
            return;
        }
    };
    if asm.features.bmi2 {
        let a = register(asm, of, a);
        match shift {
            Shift::Left => sized!(asm, of; shlx dst, a, amount),
            Shift::Signed => sized!(asm, of; sarx dst, a, amount),
            Shift::Unsigned => sized!(asm, of; shrx dst, a, amount),
        }
        return;
    }
    // The value is read before `rcx`, which it may be in, is written.
    let to = if dst == RCX || dst == amount { SCRATCH } else { dst };
    put(asm, of, to, a);
    move_value(asm, Scalar::I32, RCX, amount);
    match (shift, of.is_wide()) {
        (Shift::Left, true) => emit!(asm; shl Rq(to), cl),
        (Shift::Left, false) => emit!(asm; shl Rd(to), cl),
        (Shift::Signed, true) => emit!(asm; sar Rq(to), cl),
        (Shift::Signed, false) => emit!(asm; sar Rd(to), cl),
        (Shift::Unsigned, true) => emit!(asm; shr Rq(to), cl),
        (Shift::Unsigned, false) => emit!(asm; shr Rd(to), cl),
    }
    move_value(asm, of, dst, to);
}

/// The sign of the negated value decides, so that the least integer, which is its own negative, stays what it is.
pub(super) fn absolute(asm: &mut Asm, of: Scalar, dst: u8, a: Src) {
    match a {
        Src::Reg(a) if a == dst => {
            move_value(asm, of, SCRATCH, dst);
            sized!(asm, of; neg SCRATCH);
            move_if(asm, of, Cc::Ns, dst, SCRATCH);
        }
        _ => {
            let a = register(asm, of, a);
            move_value(asm, of, dst, a);
            sized!(asm, of; neg dst);
            move_if(asm, of, Cc::S, dst, a);
        }
    }
}

/// `a` if `a cc b`, else `b`.
pub(super) fn extreme(asm: &mut Asm, of: Scalar, cc: Cc, dst: u8, a: Src, b: Src) {
    let (a, b) = match (a, b) {
        (Src::Imm(_), Src::Imm(_)) => {
            put(asm, of, dst, a);
            (dst, register(asm, of, b))
        }
        // Which one is first does not matter: equal operands are the same.
        (Src::Imm(_), Src::Reg(b)) => (b, register(asm, of, a)),
        (Src::Reg(a), _) => (a, register(asm, of, b)),
    };
    let (a, b) = if b == dst { (b, a) } else { (a, b) };
    move_value(asm, of, dst, a);
    if a == b {
        return;
    }
    alu(asm, Alu::Cmp, of, dst, Src::Reg(b));
    move_if(asm, of, cc.negate(), dst, b);
}

pub(super) fn leading_zeros(asm: &mut Asm, of: Scalar, dst: u8, a: Src) {
    let a = register(asm, of, a);
    if asm.features.lzcnt {
        sized!(asm, of; lzcnt dst, a);
        return;
    }
    // The highest bit is `last - n` for `n` zeros, which is `last ^ n`. Without a bit, `n` is `last + 1`.
    let last = if of.is_wide() { 63 } else { 31 };
    sized!(asm, of; bsr SCRATCH, a);
    integer_constant(asm, of.is_wide(), dst, (last ^ (last + 1)) as u64);
    move_if(asm, of, Cc::Ne, dst, SCRATCH);
    alu(asm, Alu::Xor, of, dst, Src::Imm(last));
}

/// Compares: the flags, by the condition, and by the one for swapped operands.
pub(in crate::x64) fn compare(asm: &mut Asm, of: Scalar, [a, b]: [Src; 2], cc: Cc, swapped: Cc) -> Flags {
    let (a, b, cc) = match (a, b) {
        (Src::Imm(_), Src::Reg(b)) => (b, a, swapped),
        _ => (register(asm, of, a), b, cc),
    };
    match b {
        // The flags are those of a comparison with zero.
        Src::Imm(0) => sized!(asm, of; test a, a),
        _ => alu(asm, Alu::Cmp, of, a, b),
    }
    Flags::One(cc)
}

/// Compares the bits that two numbers have in common with zero.
pub(in crate::x64) fn test_bits(asm: &mut Asm, of: Scalar, a: u8, b: Src) -> Flags {
    match b {
        Src::Reg(b) => sized!(asm, of; test a, b),
        Src::Imm(imm) => sized!(asm, of; test a; DWORD imm),
    }
    Flags::One(Cc::Ne)
}

/// Which division, and whether its quotient or its remainder.
#[derive(Clone, Copy)]
pub(super) struct Division {
    pub signed: bool,
    pub quotient: bool,
}

/// Checked division and remainder. If it traps, it jumps to `trap` before it changes any register besides the scratch
/// register.
pub(super) fn divide(asm: &mut Asm, division: Division, of: Scalar, dst: u8, [a, b]: [Src; 2], trap: DynamicLabel) {
    let Division { signed, quotient } = division;
    match b {
        Src::Imm(0) => return emit!(asm; jmp =>trap),
        Src::Imm(b) if b.is_positive() && b.count_ones() == 1 => {
            return divide_by_power(asm, of, signed, quotient, dst, a, b);
        }
        Src::Imm(-1) if signed => return divide_by_minus_one(asm, of, quotient, dst, a, trap),
        // Without signs, a negative constant is a number of more than half of the bits.
        Src::Imm(b) if signed && !b.unsigned_abs().is_power_of_two() || b > 0 => {
            return divide_by_constant(asm, division, of, dst, a, b);
        }
        Src::Imm(_) => {}
        Src::Reg(b) => {
            sized!(asm, of; test b, b);
            jump(asm, Cc::E, trap);
            if signed && quotient {
                check_overflow(asm, of, a, b, trap);
            }
        }
    }
    // The dividend goes to `rdx:rax`, where the divisor cannot be.
    let divisor = match b {
        Src::Reg(b) if b != RAX && b != RDX => b,
        _ => {
            put(asm, of, SCRATCH, b);
            SCRATCH
        }
    };
    put(asm, of, RAX, a);
    let done = asm.ops.new_dynamic_label();
    if !signed {
        emit!(asm; xor edx, edx);
        sized!(asm, of; div divisor);
    } else {
        if !quotient && matches!(b, Src::Reg(_)) {
            // The instruction faults for the least integer, and the remainder is 0 for all.
            emit!(asm; xor edx, edx);
            alu(asm, Alu::Cmp, of, divisor, Src::Imm(-1));
            jump_short(asm, Cc::E, done);
        }
        if of.is_wide() {
            emit!(asm; cqo);
        } else {
            emit!(asm; cdq);
        }
        sized!(asm, of; idiv divisor);
    }
    emit!(asm; =>done);
    move_value(asm, of, dst, if quotient { RAX } else { RDX });
}

/// Traps if `a / b` is too large, which is only the least integer divided by -1.
fn check_overflow(asm: &mut Asm, of: Scalar, a: Src, b: u8, trap: DynamicLabel) {
    match a {
        Src::Imm(i32::MIN) if !of.is_wide() => {
            alu(asm, Alu::Cmp, of, b, Src::Imm(-1));
            jump(asm, Cc::E, trap);
        }
        Src::Imm(_) => {}
        Src::Reg(a) => {
            let fine = asm.ops.new_dynamic_label();
            alu(asm, Alu::Cmp, of, b, Src::Imm(-1));
            jump_short(asm, Cc::Ne, fine);
            // Of all integers, only the least one overflows when 1 is subtracted.
            alu(asm, Alu::Cmp, of, a, Src::Imm(1));
            jump(asm, Cc::O, trap);
            emit!(asm; =>fine);
        }
    }
}

fn divide_by_minus_one(asm: &mut Asm, of: Scalar, quotient: bool, dst: u8, a: Src, trap: DynamicLabel) {
    if quotient {
        put(asm, of, SCRATCH, a);
        sized!(asm, of; neg SCRATCH);
        jump(asm, Cc::O, trap);
        move_value(asm, of, dst, SCRATCH);
    } else {
        integer_constant(asm, of.is_wide(), dst, 0);
    }
}

/// Division by a constant whose magnitude is more than 1 and no power of two, which never traps: a multiplication,
/// whose upper half is in `rdx`.
fn divide_by_constant(asm: &mut Asm, division: Division, of: Scalar, dst: u8, a: Src, b: i32) {
    let Division { signed, quotient } = division;
    let bits = if of.is_wide() { 64 } else { 32 };
    let Multiplier { bits: factor, adds_dividend, shift: by } = multiplier(u64::from(b.unsigned_abs()), bits, signed);
    put(asm, of, SCRATCH, a);
    integer_constant(asm, of.is_wide(), RAX, factor);
    if signed {
        sized!(asm, of; imul SCRATCH);
        if adds_dividend {
            alu(asm, Alu::Add, of, RDX, Src::Reg(SCRATCH));
        }
        shift(asm, Shift::Signed, of, RDX, Src::Reg(RDX), Src::Imm(by as i32));
        // A negative quotient was rounded down.
        shift(asm, Shift::Unsigned, of, RAX, Src::Reg(RDX), Src::Imm(bits as i32 - 1));
        alu(asm, Alu::Add, of, RDX, Src::Reg(RAX));
        if b < 0 {
            sized!(asm, of; neg RDX);
        }
    } else {
        sized!(asm, of; mul SCRATCH);
        if adds_dividend {
            // Half of the sum, which has one bit more.
            move_value(asm, of, RAX, SCRATCH);
            alu(asm, Alu::Sub, of, RAX, Src::Reg(RDX));
            shift(asm, Shift::Unsigned, of, RAX, Src::Reg(RAX), Src::Imm(1));
            alu(asm, Alu::Add, of, RDX, Src::Reg(RAX));
            shift(asm, Shift::Unsigned, of, RDX, Src::Reg(RDX), Src::Imm(by as i32 - 1));
        } else {
            shift(asm, Shift::Unsigned, of, RDX, Src::Reg(RDX), Src::Imm(by as i32));
        }
    }
    if quotient {
        return move_value(asm, of, dst, RDX);
    }
    scale(asm, of, RDX, RDX, b);
    alu(asm, Alu::Sub, of, SCRATCH, Src::Reg(RDX));
    move_value(asm, of, dst, SCRATCH);
}

/// Division by a positive power of two, which never traps.
fn divide_by_power(asm: &mut Asm, of: Scalar, signed: bool, quotient: bool, dst: u8, a: Src, power: i32) {
    let (exponent, bits) = (power.trailing_zeros() as i32, if of.is_wide() { 64 } else { 32 });
    match (signed, quotient) {
        (_, true) if power == 1 => put(asm, of, dst, a),
        (_, false) if power == 1 => integer_constant(asm, of.is_wide(), dst, 0),
        (false, true) => shift(asm, Shift::Unsigned, of, dst, a, Src::Imm(exponent)),
        (false, false) => bitwise(asm, Alu::And, of, dst, a, Src::Imm(power - 1)),
        (true, _) => {
            // To round toward zero, a negative dividend is first raised by the divisor less 1.
            let a = match a {
                Src::Reg(a) => a,
                Src::Imm(_) => {
                    put(asm, of, dst, a);
                    dst
                }
            };
            shift(asm, Shift::Signed, of, SCRATCH, Src::Reg(a), Src::Imm(bits - 1));
            shift(asm, Shift::Unsigned, of, SCRATCH, Src::Reg(SCRATCH), Src::Imm(bits - exponent));
            alu(asm, Alu::Add, of, SCRATCH, Src::Reg(a));
            if quotient {
                shift(asm, Shift::Signed, of, SCRATCH, Src::Reg(SCRATCH), Src::Imm(exponent));
                move_value(asm, of, dst, SCRATCH);
            } else {
                // The quotient times the divisor is the raised dividend without its low bits.
                alu(asm, Alu::And, of, SCRATCH, Src::Imm(-power));
                subtract(asm, of, dst, Src::Reg(a), Src::Reg(SCRATCH));
            }
        }
    }
}
