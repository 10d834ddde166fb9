//! Operands of scalar instructions.

use crate::machine::{Inst, Wave};

/// A value in scalar registers.
pub(crate) trait Scalar {
    /// Reads it from a register and the one after it.
    fn read(scalars: &[u32], first: usize) -> Self;
    /// Writes it to a register and the one after it.
    fn write(self, wave: &mut Wave, first: u16);
}

impl Scalar for u32 {
    #[inline(always)]
    fn read(scalars: &[u32], first: usize) -> Self {
        scalars[first]
    }

    #[inline(always)]
    fn write(self, wave: &mut Wave, first: u16) {
        wave.set_scalar(first, self);
    }
}

impl Scalar for u64 {
    #[inline(always)]
    fn read(scalars: &[u32], first: usize) -> Self {
        u64::from(scalars[first]) | u64::from(scalars[first + 1]) << 32
    }

    #[inline(always)]
    fn write(self, wave: &mut Wave, first: u16) {
        wave.set_scalar(first, self as u32);
        wave.set_scalar(first + 1, (self >> 32) as u32);
    }
}

impl Scalar for bool {
    #[inline(always)]
    fn read(scalars: &[u32], first: usize) -> Self {
        scalars[first] != 0
    }

    #[inline(always)]
    fn write(self, wave: &mut Wave, first: u16) {
        wave.set_scalar(first, u32::from(self));
    }
}

/// The source `index`.
#[inline(always)]
pub(crate) fn read<S: Scalar>(wave: &Wave, inst: &Inst, index: usize) -> S {
    S::read(&wave.scalars, usize::from(inst.sources[index]))
}

/// Writes the result.
#[inline(always)]
pub(crate) fn write<S: Scalar>(wave: &mut Wave, inst: &Inst, value: S) {
    value.write(wave, inst.result);
}
