//! Traps: why a kernel was stopped, and where.

use std::borrow::Cow;
use std::fmt;

use crate::memory::Fault;

/// The reason of a trap.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrapKind {
    /// The bytes are not an instruction that the interpreter knows.
    UnknownInstruction,
    /// The instruction, or this form of it, is decoded but not implemented.
    NotImplemented(Cow<'static, str>),
    /// An operand is not one that the instruction may have, such as a register that the kernel did not ask for.
    InvalidOperand(Cow<'static, str>),
    /// The program counter has left the code.
    InvalidAddress,
    /// A jump to this address, which is not in the code or in an instruction.
    InvalidJump(u64),
    /// An access to memory.
    Memory(Fault),
    /// Waves wait at a barrier that the others will never reach.
    Deadlock,
    /// The limit of instructions, or the caller, stopped the kernel.
    Stopped,
    /// The kernel descriptor or the dispatch asks for what is not there.
    InvalidDispatch(Cow<'static, str>),
    /// The kernel stopped itself.
    Raised(u32),
}

impl fmt::Display for TrapKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrapKind::UnknownInstruction => f.write_str("unknown instruction"),
            TrapKind::NotImplemented(what) => write!(f, "not implemented: {what}"),
            TrapKind::InvalidOperand(what) => write!(f, "invalid operand: {what}"),
            TrapKind::InvalidAddress => f.write_str("there is no instruction"),
            TrapKind::InvalidJump(target) => write!(f, "a jump to 0x{target:x}, where no instruction is"),
            TrapKind::Memory(fault) => fault.fmt(f),
            TrapKind::Deadlock => f.write_str("deadlock: waves wait at a barrier that the others never reach"),
            TrapKind::Stopped => f.write_str("stopped"),
            TrapKind::InvalidDispatch(what) => write!(f, "invalid dispatch: {what}"),
            TrapKind::Raised(code) => write!(f, "the kernel raised trap {code}"),
        }
    }
}

/// A kernel that was stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trap {
    /// The reason.
    pub kind: TrapKind,
    /// The address of the instruction.
    pub address: u64,
    /// The name of the instruction, or its bytes if it has none; empty where no instruction is to blame.
    pub instruction: Cow<'static, str>,
    /// The work-group.
    pub group: [u32; 3],
    /// The wave in the work-group.
    pub wave: u32,
    /// The lane of the wave, if one lane is to blame.
    pub lane: Option<u32>,
}

impl Trap {
    /// A trap of `kind` at an unknown place.
    pub fn new(kind: TrapKind) -> Self {
        Trap { kind, address: 0, instruction: Cow::Borrowed(""), group: [0; 3], wave: 0, lane: None }
    }
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if !self.instruction.is_empty() {
            write!(f, ", in {}", self.instruction)?;
        }
        let [x, y, z] = self.group;
        write!(f, " at 0x{:x}, work-group ({x}, {y}, {z}), wave {}", self.address, self.wave)?;
        self.lane.map_or(Ok(()), |lane| write!(f, ", lane {lane}"))
    }
}

impl std::error::Error for Trap {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Access, Refusal};

    #[test]
    fn a_trap_names_instruction_place_and_lane() {
        let fault = Fault { address: 0x10, length: 4, access: Access::Store, why: Refusal::Unmapped };
        let mut trap = Trap::new(TrapKind::Memory(fault));
        assert_eq!(trap.to_string(), "store of 4 bytes at 0x10: no allocation at 0x0, work-group (0, 0, 0), wave 0");
        trap.instruction = "v_foo".into();
        trap.address = 0x1234;
        trap.group = [1, 2, 3];
        trap.lane = Some(5);
        assert_eq!(
            trap.to_string(),
            "store of 4 bytes at 0x10: no allocation, in v_foo at 0x1234, work-group (1, 2, 3), wave 0, lane 5"
        );
    }
}
