//! Divisions of 64 bits by constants: multiplications with reciprocals, as in Warren, "Hacker's Delight", chapter 10.
//! The instruction that divides takes up to fifteen times as long.

use dynasmrt::DynasmApi;

use super::code::{Asm, emit, move_value};
use crate::ir::types::Scalar;
use crate::processor::registers::{RAX, RDX, SCRATCH};

/// The reciprocal of a constant: the upper half of the product with the dividend, shifted, is the quotient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reciprocal {
    multiplier: u64,
    shift: u32,
    /// The multiplier lacks 2^64, as a number with a sign or without: the dividend is added to the upper half.
    adds_dividend: bool,
}

impl Reciprocal {
    /// Of a number below 2^63 that is no power of two. `passes/vectorise/vector_loop/division.rs` says why quotients
    /// are exact, for 32 bits.
    fn new(size: u64, signed: bool) -> Reciprocal {
        let mut shift = 0;
        loop {
            let power = 1_u128 << (64 + shift);
            let multiplier = power / u128::from(size) + 1;
            if multiplier * u128::from(size) - power <= 1 << (shift + u32::from(signed)) {
                let adds_dividend = multiplier >> if signed { 63 } else { 64 } != 0;
                return Reciprocal { multiplier: multiplier as u64, shift, adds_dividend };
            }
            shift += 1;
        }
    }
}

/// Divides what is in the scratch register by a constant that is no power of two, nor the negative of one, and above
/// zero if there are no signs. That never traps.
pub(super) fn divide(asm: &mut Asm, signed: bool, quotient: bool, dst: u8, divisor: i32) {
    let of = Scalar::I64;
    let size = u64::from(divisor.unsigned_abs());
    let Reciprocal { multiplier, shift, adds_dividend } = Reciprocal::new(size, signed);
    if signed {
        emit!(asm; mov rax, QWORD multiplier as i64; imul Rq(SCRATCH));
        if adds_dividend {
            emit!(asm; add rdx, Rq(SCRATCH));
        }
        if shift > 0 {
            emit!(asm; sar rdx, BYTE shift as i8);
        }
        // Toward zero, and not down.
        emit!(asm; mov rax, Rq(SCRATCH); sar rax, BYTE 63; sub rdx, rax);
        if divisor < 0 {
            emit!(asm; neg rdx);
        }
    } else {
        emit!(asm; mov rax, QWORD multiplier as i64; mul Rq(SCRATCH));
        if adds_dividend {
            // The sum has 65 bits; half of it has not.
            emit!(asm
                ; mov rax, Rq(SCRATCH)
                ; sub rax, rdx
                ; shr rax, BYTE 1
                ; add rdx, rax
                ; shr rdx, BYTE shift as i8 - 1
            );
        } else {
            emit!(asm; shr rdx, BYTE shift as i8);
        }
    }
    if quotient {
        return move_value(asm, of, dst, RDX);
    }
    emit!(asm; imul rax, rdx, DWORD divisor; sub Rq(SCRATCH), rax);
    move_value(asm, of, dst, SCRATCH);
}

// The products are in these.
const _: () = assert!(RAX == 0 && RDX == 2);

#[cfg(test)]
mod tests {
    use super::*;

    /// The quotient as the code computes it.
    fn signed_quotient(a: i64, divisor: i64) -> i64 {
        let Reciprocal { multiplier, shift, adds_dividend } = Reciprocal::new(divisor.unsigned_abs(), true);
        let upper = ((i128::from(a) * i128::from(multiplier as i64)) >> 64) as i64;
        let upper = if adds_dividend { upper.wrapping_add(a) } else { upper };
        let quotient = (upper >> shift).wrapping_sub(a >> 63);
        if divisor < 0 { -quotient } else { quotient }
    }

    fn unsigned_quotient(a: u64, divisor: u64) -> u64 {
        let Reciprocal { multiplier, shift, adds_dividend } = Reciprocal::new(divisor, false);
        let upper = ((u128::from(a) * u128::from(multiplier)) >> 64) as u64;
        if adds_dividend { (upper + ((a - upper) >> 1)) >> (shift - 1) } else { upper >> shift }
    }

    #[test]
    fn quotients_are_exact() {
        let mut state = 3_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state ^ state >> 29
        };
        let drawn: Vec<u64> = (0..1000).map(|shift| random() >> (shift % 64)).collect();
        let divisors =
            (3..300).chain(drawn.iter().map(|bits| (*bits as i32 & i32::MAX).into())).chain([i32::MAX.into()]);
        for divisor in divisors.filter(|divisor: &i64| *divisor > 2 && !divisor.unsigned_abs().is_power_of_two()) {
            // Next to multiples, too, where quotients change.
            let near = |bits: &u64| {
                let multiple = bits - bits % divisor as u64;
                [*bits, multiple, multiple.wrapping_sub(1), multiple.wrapping_neg()]
            };
            let edges = [0, 1, u64::MAX, 1 << 63, (1 << 63) - 1, (1 << 63) + 1];
            for a in drawn.iter().take(200).chain(&edges).flat_map(near) {
                assert_eq!(unsigned_quotient(a, divisor as u64), a / divisor as u64, "{a} / {divisor}");
                for divisor in [divisor, -divisor] {
                    assert_eq!(signed_quotient(a as i64, divisor), a as i64 / divisor, "{} / {divisor}", a as i64);
                }
            }
        }
    }
}
