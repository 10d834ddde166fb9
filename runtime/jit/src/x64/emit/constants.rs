//! Constants of floats, which instructions read from after the code of the function: one load, or none where the
//! instruction that computes with the constant reads it. Moving it through an integer register takes two instructions.

use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi, dynasm};

use super::super::lower;
use super::emitter::{Emitter, Origin};
use crate::ir::types::Scalar;

/// Bytes of each constant.
const BYTES: usize = 8;

impl Emitter<'_> {
    /// The constant with these bits, to be read from memory. None if it is made faster: an integer, or zero.
    pub(super) fn constant_in_memory(&mut self, of: Scalar, bits: u64) -> Option<DynamicLabel> {
        if !of.is_float() || bits == 0 {
            return None;
        }
        let ops = &mut self.asm.ops;
        Some(*self.constants.entry(bits).or_insert_with(|| ops.new_dynamic_label()))
    }

    /// Writes a constant to a register, without touching the flags.
    pub(super) fn load_constant(&mut self, of: Scalar, register: u8, bits: u64) {
        match self.constant_in_memory(of, bits) {
            Some(label) => lower::load_float(&mut self.asm, of, register, lower::FloatOperand::Constant(label)),
            None => lower::constant(&mut self.asm, of, register, bits),
        }
    }

    /// Emits the constants that are used.
    pub(super) fn emit_constants(&mut self, code_offsets: &mut Vec<(usize, Origin)>) {
        let mut constants: Vec<(u64, DynamicLabel)> = self.constants.drain().collect();
        // The order must not depend on how they are hashed.
        constants.sort_unstable_by_key(|(bits, _)| *bits);
        for (bits, label) in constants {
            let ops = &mut self.asm.ops;
            while !ops.offset().0.is_multiple_of(BYTES) {
                ops.push(0xCC);
            }
            code_offsets.push((ops.offset().0, Origin::Constant));
            dynasm!(ops ; .arch x64 ; =>label ; .u64 bits);
        }
    }
}
