//! Frames: the stack, its frames and their registers, and the format of the instructions and call sites that frame
//! headers point to. The [`Frame`] trait is the access to registers and globals for the handlers of ops that are made
//! of primitives; the loop dispatcher and the threaded dispatcher implement it and run the same generated bodies.

pub mod argument_layout;
pub mod carried_register;
pub mod descriptor;
pub mod header;
pub mod instruction;
pub mod registers;
pub mod stack;
mod stack_memory;

use self::registers::Registers;
use crate::bytecode::{RefReg, Reg};
use crate::interp::prim::{self, Trap};
use crate::{Buffer, Ref};

/// A value operand: a register, and whether its value is carried.
#[derive(Clone, Copy)]
pub struct Operand {
    reg: Reg,
    carried: bool,
}

impl Operand {
    /// The value of `reg`, value operand `number` of an op of which number `carried` is read from [`Frame::carry`]:
    /// both are constants in each handler.
    #[inline(always)]
    pub fn new(reg: Reg, number: usize, carried: usize) -> Operand {
        Operand { reg, carried: number == carried }
    }
}

impl From<Reg> for Operand {
    #[inline(always)]
    fn from(reg: Reg) -> Operand {
        Operand { reg, carried: false }
    }
}

/// The registers of the running frame and the value globals of its module.
pub trait Frame {
    /// The error that a trap becomes.
    type Error: From<Trap>;

    /// The registers.
    fn registers(&self) -> &Registers;
    /// The registers, to be changed.
    fn registers_mut(&mut self) -> &mut Registers;
    /// The value globals.
    fn globals(&self) -> &[u8];
    /// The value globals, to be changed.
    fn globals_mut(&mut self) -> &mut [u8];

    /// The bits of the carried value, in handlers that have one; a 32-bit value is in the low half.
    fn carry(&self) -> u64;

    /// The 32 bits of an operand.
    #[inline(always)]
    fn word(&self, operand: Operand) -> u32 {
        if operand.carried { self.carry() as u32 } else { self.registers().word(operand.reg.index()) }
    }

    /// The 64 bits of an operand.
    #[inline(always)]
    fn wide(&self, operand: Operand) -> u64 {
        if operand.carried { self.carry() } else { self.registers().wide(operand.reg) }
    }

    /// Writes a register.
    #[inline(always)]
    fn set_word(&mut self, reg: Reg, value: u32) {
        self.registers_mut().set_word(reg.index(), value);
    }

    /// Writes a register pair.
    #[inline(always)]
    fn set_wide(&mut self, reg: Reg, value: u64) {
        self.registers_mut().set_wide(reg.index(), value);
    }

    /// The `i32` in a register.
    #[inline(always)]
    fn i32(&self, operand: impl Into<Operand>) -> i32 {
        self.word(operand.into()) as i32
    }

    /// The `i64` in a register pair.
    #[inline(always)]
    fn i64(&self, operand: impl Into<Operand>) -> i64 {
        self.wide(operand.into()) as i64
    }

    /// The `f32` in a register.
    #[inline(always)]
    fn f32(&self, operand: impl Into<Operand>) -> f32 {
        f32::from_bits(self.word(operand.into()))
    }

    /// The `f64` in a register pair.
    #[inline(always)]
    fn f64(&self, operand: impl Into<Operand>) -> f64 {
        f64::from_bits(self.wide(operand.into()))
    }

    /// Writes an `i32`.
    #[inline(always)]
    fn set_i32(&mut self, reg: Reg, value: i32) {
        self.set_word(reg, value as u32);
    }

    /// Writes an `i64`.
    #[inline(always)]
    fn set_i64(&mut self, reg: Reg, value: i64) {
        self.set_wide(reg, value as u64);
    }

    /// Writes an `f32`.
    #[inline(always)]
    fn set_f32(&mut self, reg: Reg, value: f32) {
        self.set_word(reg, value.to_bits());
    }

    /// Writes an `f64`.
    #[inline(always)]
    fn set_f64(&mut self, reg: Reg, value: f64) {
        self.set_wide(reg, value.to_bits());
    }

    /// The reference in a register, if it is not null.
    #[inline(always)]
    fn reference(&self, reg: RefReg) -> Option<&Ref> {
        self.registers().reference(reg.index()).as_ref()
    }

    /// The buffer in a register.
    #[inline(always)]
    fn buffer(&self, reg: RefReg) -> Result<&Buffer, Trap> {
        prim::expect_buffer(self.reference(reg))
    }
}
