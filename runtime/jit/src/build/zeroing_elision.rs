//! Zeroing elision: a buffer that is filled from end to end right after its allocation need not be zeroed, since it is
//! not read before. The builder asks it for each op that the runtime executes.

use super::builder::FunctionBuilder;
use super::defs::Def;
use crate::bytecode::{Op, Reg};
use crate::generated::vm::jit_facts;
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{Kind, NodeId, Part};
use crate::ir::types::Scalar;

/// Most ops between the allocation and the fill, all of which write constants.
const MAX_BETWEEN: usize = 8;

impl FunctionBuilder<'_> {
    /// Whether the op being built allocates a buffer that is filled after it. No op between the two can fail or be
    /// noticed by anybody else, and a fill that fails ends the program, whose frames are dropped with the buffer.
    pub(super) fn is_filled_next(&self, op: Op) -> bool {
        let Op::BufferAlloc { length, result, .. } = op else { return false };
        let following = &self.decoded.ops[self.pc as usize + 1..];
        let is_constant = |op: &&Op| jit_facts::constant(**op).is_some();
        let between = following.iter().take(MAX_BETWEEN).take_while(is_constant).count();
        let Some((buffer, index, count, shift)) = following.get(between).and_then(|op| jit_facts::fill(*op)) else {
            return false;
        };
        if self.baseline.is_some() || buffer.index() != result.index() {
            return false;
        }
        let mut begins_at_zero =
            (index.index()..index.index() + 2).all(|slot| self.slot_constants[slot].constant() == Some(0));
        for (of, reg, bits) in following[..between].iter().filter_map(|op| jit_facts::constant(*op)) {
            let written = reg.index()..reg.index() + 1 + usize::from(of.is_wide());
            let overlaps = |other: Reg| written.start < other.index() + 2 && other.index() < written.end;
            if overlaps(count) {
                return false;
            }
            if overlaps(index) {
                begins_at_zero = reg == index && of == Scalar::I64 && bits == 0;
            }
        }
        let (Some(bytes), Some(count)) = (self.whole(length), self.whole(count)) else { return false };
        begins_at_zero && self.is_multiple(bytes, count, shift)
    }

    /// The `i64` in a pair of slots, if it was written as one.
    fn whole(&self, reg: Reg) -> Option<NodeId> {
        match (self.defs.get(reg.index()), self.defs.get(reg.index() + 1)) {
            (Some(Def { node, part: Part::Low }), Some(Def { node: other, part: Part::High })) if node == other => {
                (self.graph.node(node).scalar() == Scalar::I64).then_some(node)
            }
            _ => None,
        }
    }

    /// Whether a number is another one, shifted left.
    fn is_multiple(&self, number: NodeId, of: NodeId, shift: u8) -> bool {
        if shift == 0 && number == of {
            return true;
        }
        let is = |node: NodeId, bits: u64| self.graph.constant(node) == Some(bits);
        if let (Some(number), Some(of)) = (self.graph.constant(number), self.graph.constant(of)) {
            return of.checked_shl(shift.into()) == Some(number);
        }
        match (self.graph.node(number).kind, &self.graph.node(number).args[..]) {
            (Kind::Primitive(Primitive::WrappingMul, _), &[a, b]) => {
                (a == of && is(b, 1 << shift)) || (b == of && is(a, 1 << shift))
            }
            (Kind::Primitive(Primitive::Shl, _), &[a, b]) => a == of && is(b, u64::from(shift)),
            _ => false,
        }
    }
}
