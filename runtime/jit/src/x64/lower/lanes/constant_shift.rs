//! Shifts of lanes of 32 bits by a constant: one instruction, where that by a vector first cuts the amounts to five
//! bits.

use dynasmrt::DynasmApi;

use super::super::evex;
use super::super::{Asm, Primitive, emit};
use crate::ir::types::Width;

/// Whether such lanes can be shifted so.
pub(crate) fn can_shift(primitive: Primitive, width: Width) -> bool {
    matches!(width, Width::Four | Width::Eight | Width::Sixteen)
        && matches!(primitive, Primitive::Shl | Primitive::ShrS | Primitive::ShrU)
}

/// Shifts all lanes by the lower five bits of `amount`.
pub(crate) fn shift(asm: &mut Asm, width: Width, primitive: Primitive, dst: u8, a: u8, amount: u64) {
    let amount = (amount & 31) as i8;
    if width == Width::Sixteen {
        let instruction = match primitive {
            Primitive::Shl => evex::VPSLLD,
            Primitive::ShrS => evex::VPSRAD,
            _ => evex::VPSRLD,
        };
        return instruction.by_constant(asm, dst, a, amount as u8);
    }
    match primitive {
        Primitive::Shl => emit!(asm; vpslld Ry(dst), Ry(a), BYTE amount),
        Primitive::ShrS => emit!(asm; vpsrad Ry(dst), Ry(a), BYTE amount),
        Primitive::ShrU => emit!(asm; vpsrld Ry(dst), Ry(a), BYTE amount),
        _ => unreachable!("{primitive:?} is no shift"),
    }
}
