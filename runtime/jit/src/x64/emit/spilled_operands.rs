//! Instructions that read a spilled operand where it is, instead of reloading it to a register first, or a constant.

use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi, dynasm};

use super::super::lower::{self, Cc, Flags, FloatOp, FloatOperand, MemoryOp, Src};
use super::emitter::Emitter;
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::NodeId;
use crate::ir::types::Scalar;
use crate::regalloc::Location;

impl Emitter<'_> {
    /// The place of a spilled number in the native frame. A folded number has half of its bits there.
    fn spilled(&self, id: NodeId) -> Option<i32> {
        match self.location(id) {
            Location::SpillSlot(slot) if self.graph.constant(id).is_none() && !self.graph.is_folded(id) => {
                Some(slot as i32 * 8)
            }
            _ => None,
        }
    }

    /// Emits a sum, a difference or an operation on bits whose second operand is spilled. False, and no code, if it is
    /// something else.
    pub(super) fn computes_with_spilled(&mut self, id: NodeId, primitive: Primitive, of: Scalar) -> bool {
        let op = match primitive {
            Primitive::WrappingAdd => MemoryOp::Add,
            Primitive::WrappingSub => MemoryOp::Sub,
            Primitive::And => MemoryOp::And,
            Primitive::Or => MemoryOp::Or,
            Primitive::Xor => MemoryOp::Xor,
            _ => return false,
        };
        let &[mut first, mut second] = &self.graph.node(id).args[..] else { return false };
        if op != MemoryOp::Sub && self.spilled(second).is_none() && self.graph.constant(second).is_none() {
            (first, second) = (second, first);
        }
        let Some(offset) = self.spilled(second) else { return false };
        let target = self.target(id);
        let register = self.fetch(first, target);
        lower::move_value(&mut self.asm, of, target, register);
        lower::with_memory(&mut self.asm, op, of, target, offset);
        self.put(id, target);
        true
    }

    /// A float that is spilled or a constant, as an operand in memory.
    fn float_in_memory(&mut self, id: NodeId) -> Option<FloatOperand> {
        match self.graph.constant(id) {
            Some(bits) => self.constant_in_memory(self.graph.node(id).scalar(), bits).map(FloatOperand::Constant),
            None => self.spilled(id).map(FloatOperand::Frame),
        }
    }

    /// Emits an operation on two floats whose second operand is in memory. False, and no code, if it is something else.
    pub(super) fn computes_with_memory(&mut self, id: NodeId, primitive: Primitive, of: Scalar) -> bool {
        let op = match primitive {
            Primitive::Fadd => FloatOp::Add,
            Primitive::Fsub => FloatOp::Sub,
            Primitive::Fmul => FloatOp::Mul,
            Primitive::Fdiv => FloatOp::Div,
            _ => return false,
        };
        let &[mut first, mut second] = &self.graph.node(id).args[..] else { return false };
        let mut operand = self.float_in_memory(second);
        if operand.is_none() && matches!(op, FloatOp::Add | FloatOp::Mul) {
            (first, second) = (second, first);
            operand = self.float_in_memory(second);
        }
        let Some(operand) = operand else { return false };
        let target = self.target(id);
        let register = self.fetch(first, target);
        lower::float_with_memory(&mut self.asm, op, of, (target, register), operand);
        self.put(id, target);
        true
    }

    /// Emits a comparison of integers, unless both operands are constants.
    pub(super) fn integer_test(&mut self, primitive: Primitive, of: Scalar, args: &[NodeId]) -> Option<Flags> {
        let (cc, swapped) = match primitive {
            Primitive::Eq => (Cc::E, Cc::E),
            Primitive::Ne => (Cc::Ne, Cc::Ne),
            Primitive::LtS => (Cc::L, Cc::G),
            Primitive::LtU => (Cc::B, Cc::A),
            _ => return None,
        };
        let &[mut first, mut second] = args else { return None };
        let mut cc = cc;
        if of.is_float() || self.graph.constant(first).is_some() && self.graph.constant(second).is_some() {
            return None;
        }
        // A constant is the second operand of the instruction.
        if self.graph.constant(first).is_some() {
            (first, second, cc) = (second, first, swapped);
        }
        if let Some(offset) = self.spilled(first) {
            let second = self.source(second, 1);
            lower::compare_memory(&mut self.asm, of, offset, second);
            return Some(Flags::One(cc));
        }
        if let Some(offset) = self.spilled(second) {
            let first = self.operand(first, 0);
            lower::with_memory(&mut self.asm, MemoryOp::Cmp, of, first, offset);
            return Some(Flags::One(cc));
        }
        let (first, second) = (self.operand(first, 0), self.source(second, 1));
        Some(lower::compare(&mut self.asm, of, [Src::Reg(first), second], cc, swapped))
    }

    /// Compares an index with a number of elements, and jumps to `label` if it is not below.
    pub(super) fn check_range(&mut self, index: NodeId, elements: NodeId, label: DynamicLabel) {
        if let Some(offset) = self.spilled(elements) {
            match self.source(index, 0) {
                Src::Reg(index) => {
                    lower::with_memory(&mut self.asm, MemoryOp::Cmp, Scalar::I64, index, offset);
                    dynasm!(self.asm.ops ; .arch x64 ; jae =>label);
                }
                Src::Imm(index) => {
                    lower::compare_memory(&mut self.asm, Scalar::I64, offset, Src::Imm(index));
                    dynasm!(self.asm.ops ; .arch x64 ; jbe =>label);
                }
            }
            return;
        }
        let elements = self.operand(elements, 1);
        match self.source(index, 0) {
            Src::Reg(index) => dynasm!(self.asm.ops ; .arch x64 ; cmp Rq(index), Rq(elements) ; jae =>label),
            // A negative index is a large one, and no buffer has half of all memory.
            Src::Imm(index) => dynasm!(self.asm.ops ; .arch x64 ; cmp Rq(elements), index ; jbe =>label),
        }
    }
}
