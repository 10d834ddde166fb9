//! Quotients of eight lanes and a constant, by AVX2. `passes/vectorise/vector_loop/division.rs` finds the multiplier,
//! and says why it is exact.

use dynasmrt::DynasmApi;

use super::super::{Asm, emit};
use crate::ir::graph::ConstantDivision;
use crate::processor::registers::VECTOR_SCRATCH;

/// Copies the odd lanes to the even ones before them.
const ODD: i8 = 0b11_11_01_01_u8 as i8;

pub(super) fn quotients(asm: &mut Asm, dst: u8, a: u8, multiplier: u8, free: u8, division: ConstantDivision) {
    let ConstantDivision { signed, is_negative, adds_dividend, shift } = division;
    // Instructions multiply even lanes, to 64 bits each: the upper halves of the odd lanes' products are in their
    // places then.
    emit!(asm; vpshufd Ry(VECTOR_SCRATCH), Ry(a), BYTE ODD);
    if signed {
        emit!(asm
            ; vpmuldq Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), Ry(multiplier)
            ; vpmuldq Ry(free), Ry(a), Ry(multiplier)
        );
    } else {
        emit!(asm
            ; vpmuludq Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), Ry(multiplier)
            ; vpmuludq Ry(free), Ry(a), Ry(multiplier)
        );
    }
    emit!(asm
        ; vpshufd Ry(free), Ry(free), BYTE ODD
        // The assembler takes the last two of this instruction the other way round.
        ; vpblendd Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), Ry(free), BYTE 0b1010_1010_u8 as i8
    );
    if !signed {
        let mut shift = shift as i8;
        if adds_dividend {
            // Half of the sum, which has 33 bits: half of the difference, and the smaller one.
            shift -= 1;
            emit!(asm
                ; vpsubd Ry(free), Ry(a), Ry(VECTOR_SCRATCH)
                ; vpsrld Ry(free), Ry(free), BYTE 1
                ; vpaddd Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), Ry(free)
            );
        }
        emit!(asm; vpsrld Ry(dst), Ry(VECTOR_SCRATCH), BYTE shift);
        return;
    }
    if adds_dividend {
        emit!(asm; vpaddd Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), Ry(a));
    }
    if shift > 0 {
        emit!(asm; vpsrad Ry(VECTOR_SCRATCH), Ry(VECTOR_SCRATCH), BYTE shift as i8);
    }
    // This is rounded toward negative infinity, so a negative one is by one too little.
    if is_negative {
        emit!(asm
            ; vpsrad Ry(free), Ry(VECTOR_SCRATCH), BYTE 31
            ; vpsubd Ry(dst), Ry(free), Ry(VECTOR_SCRATCH)
        );
    } else {
        emit!(asm
            ; vpsrld Ry(free), Ry(VECTOR_SCRATCH), BYTE 31
            ; vpaddd Ry(dst), Ry(VECTOR_SCRATCH), Ry(free)
        );
    }
}
