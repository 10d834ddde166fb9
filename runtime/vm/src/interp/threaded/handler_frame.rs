//! Frames of running handlers, for the bodies of ops that are made of primitives.

use crate::Ref;
use crate::bytecode::RefReg;
use crate::bytecode::Reg;
use crate::interp::frame::Frame;
use crate::interp::frame::registers::Registers;
use crate::interp::machine::Machine;
use crate::interp::prim::Trap;

/// A trap whose reason is dropped: the loop dispatcher executes the op again and reports it.
pub struct DiscardedTrap;

impl From<Trap> for DiscardedTrap {
    #[inline(always)]
    fn from(_: Trap) -> DiscardedTrap {
        DiscardedTrap
    }
}

/// The frame of a running handler, with the carried value as a local variable.
pub(super) struct HandlerFrame<'m> {
    pub registers: Registers,
    pub cx: *mut Machine<'m>,
    pub carry: u64,
}

impl Frame for HandlerFrame<'_> {
    type Error = DiscardedTrap;

    #[inline(always)]
    fn registers(&self) -> &Registers {
        &self.registers
    }

    #[inline(always)]
    fn registers_mut(&mut self) -> &mut Registers {
        &mut self.registers
    }

    #[inline(always)]
    fn globals(&self) -> &[u8] {
        // SAFETY: handlers run while `run` has the machine exclusively, and they reach the globals through this method
        // only.
        unsafe { (*self.cx).globals() }
    }

    #[inline(always)]
    fn globals_mut(&mut self) -> &mut [u8] {
        // SAFETY: handlers run while `run` has the machine exclusively, and they reach the globals through these
        // methods only; `&mut self` is exclusive.
        unsafe { (*self.cx).globals_mut() }
    }

    #[inline(always)]
    fn carry(&self) -> u64 {
        self.carry
    }

    #[inline(always)]
    fn set_word(&mut self, reg: Reg, value: u32) {
        self.registers.set_word(reg.index(), value);
        self.carry = u64::from(value);
    }

    #[inline(always)]
    fn set_wide(&mut self, reg: Reg, value: u64) {
        self.registers.set_wide(reg.index(), value);
        self.carry = value;
    }

    #[inline(always)]
    fn reference(&self, reg: RefReg) -> Option<&Ref> {
        self.registers.reference_at(reg).as_ref()
    }
}

/// The frame of a comparison that is fused with a branch: the result stays in `result` and is written to no slot.
pub(super) struct FusedTestFrame<'m> {
    pub frame: HandlerFrame<'m>,
    pub result: u32,
}

impl Frame for FusedTestFrame<'_> {
    type Error = DiscardedTrap;

    #[inline(always)]
    fn registers(&self) -> &Registers {
        self.frame.registers()
    }

    #[inline(always)]
    fn registers_mut(&mut self) -> &mut Registers {
        self.frame.registers_mut()
    }

    #[inline(always)]
    fn globals(&self) -> &[u8] {
        self.frame.globals()
    }

    #[inline(always)]
    fn globals_mut(&mut self) -> &mut [u8] {
        self.frame.globals_mut()
    }

    #[inline(always)]
    fn carry(&self) -> u64 {
        self.frame.carry()
    }

    #[inline(always)]
    fn reference(&self, reg: RefReg) -> Option<&Ref> {
        self.frame.reference(reg)
    }

    #[inline(always)]
    fn set_word(&mut self, _: Reg, value: u32) {
        self.result = value;
    }
}
