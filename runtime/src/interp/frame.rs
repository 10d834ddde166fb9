//! What the handlers of ops that are made of primitives work on. Both dispatchers run the same generated bodies through this.

use super::prim::{self, Trap};
use super::registers::Registers;
use crate::bytecode::{RefReg, Reg};
use crate::vm::{Buffer, Ref};

/// The registers of the running frame and the value globals of its module.
pub(crate) trait Frame {
    /// What becomes of a trap.
    type Error: From<Trap>;

    /// The registers.
    fn at(&self) -> &Registers;
    /// The registers, to be changed.
    fn at_mut(&mut self) -> &mut Registers;
    /// The value globals.
    fn globals(&self) -> &[u8];
    /// The value globals, to be changed.
    fn globals_mut(&mut self) -> &mut [u8];

    /// The `i32` in a register.
    #[inline(always)]
    fn i32(&self, reg: Reg) -> i32 {
        self.at().word(reg.index()) as i32
    }

    /// The `i64` in a register pair.
    #[inline(always)]
    fn i64(&self, reg: Reg) -> i64 {
        self.at().wide(reg) as i64
    }

    /// The `f32` in a register.
    #[inline(always)]
    fn f32(&self, reg: Reg) -> f32 {
        f32::from_bits(self.at().word(reg.index()))
    }

    /// The `f64` in a register pair.
    #[inline(always)]
    fn f64(&self, reg: Reg) -> f64 {
        f64::from_bits(self.at().wide(reg))
    }

    /// Writes an `i32`.
    #[inline(always)]
    fn set_i32(&mut self, reg: Reg, value: i32) {
        self.at_mut().set_word(reg.index(), value as u32);
    }

    /// Writes an `i64`.
    #[inline(always)]
    fn set_i64(&mut self, reg: Reg, value: i64) {
        self.at_mut().set_wide(reg.index(), value as u64);
    }

    /// Writes an `f32`.
    #[inline(always)]
    fn set_f32(&mut self, reg: Reg, value: f32) {
        self.at_mut().set_word(reg.index(), value.to_bits());
    }

    /// Writes an `f64`.
    #[inline(always)]
    fn set_f64(&mut self, reg: Reg, value: f64) {
        self.at_mut().set_wide(reg.index(), value.to_bits());
    }

    /// The reference in a register, if it is not null.
    #[inline(always)]
    fn reference(&self, reg: RefReg) -> Option<&Ref> {
        self.at().reference(reg.index()).as_ref()
    }

    /// The buffer in a register.
    #[inline(always)]
    fn buffer(&self, reg: RefReg) -> Result<&Buffer, Trap> {
        prim::expect_buffer(self.reference(reg))
    }
}
