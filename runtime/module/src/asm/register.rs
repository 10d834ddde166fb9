//! Registers as the text names them.

use crate::generated::vm::opcode::{MOVE_BIT, REF_BIT};

/// A register as it is encoded, and how many slots of its bank it takes.
#[derive(Clone, Copy, Debug)]
pub struct Register {
    pub(super) bits: u16,
    pub(super) slots: u16,
    /// Whether it was written as a pair.
    pub(super) pair: bool,
}

impl Register {
    pub(super) fn is_ref(self) -> bool {
        self.bits & REF_BIT != 0
    }

    pub(super) fn is_move(self) -> bool {
        self.is_ref() && self.bits & MOVE_BIT != 0
    }

    pub(super) fn index(self) -> u32 {
        u32::from(if self.is_ref() { self.bits & !(REF_BIT | MOVE_BIT) } else { self.bits })
    }
}
