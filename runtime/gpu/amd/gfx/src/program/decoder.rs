//! The decoder of programs ([`Decoder`]), as far as its parts share it.

use std::borrow::Cow;
use std::collections::HashMap;

use vireo_simt::TrapKind;

use crate::instruction::{Instruction, Operand};
use crate::isa::Slot;
use crate::isa::operands::HIGH_HALF;
use crate::machine::Program;

pub(super) struct Decoder {
    pub(super) program: Program,
    pub(super) constants: HashMap<(u32, u32), u16>,
    pub(super) rows: HashMap<(u32, u32), u16>,
    pub(super) origin: u32,
    pub(super) next_address: u64,
    /// Whether instructions without effect stay, too.
    pub(super) keeps_all: bool,
}

pub(super) type Refused = TrapKind;

pub(super) fn invalid(what: impl Into<Cow<'static, str>>) -> Refused {
    TrapKind::InvalidOperand(what.into())
}

/// Whether an operand of 16 bits is the high half of its register by the number in a field.
pub(super) fn is_high(instruction: &Instruction, slot: Slot) -> bool {
    let high = matches!(instruction.operand(slot), Some(Operand::Vector(HIGH_HALF..)));
    high && instruction.has_half_bit(slot)
}
