//! Definitions of slots while a block is built: loads of slots that have none yet, copies, casts, and constants that
//! are known.

use smallvec::SmallVec;

use super::blocks::live_in_at;
use super::builder::{FunctionBuilder, LiveIn};
use super::defs::Def;
use crate::analysis::typed_liveness::is_pair;
use crate::ir::bits::Bits;
use crate::ir::graph::{Kind, NodeId, Part};
use crate::ir::types::{Scalar, Ty};

impl FunctionBuilder<'_> {
    /// Defines the live-ins of a block that is entered: by constants, or by loads of their slots.
    pub(super) fn take_slots(&mut self, live_ins: &[LiveIn]) {
        self.defs.fill(None);
        self.add_slots(live_ins);
    }

    /// The same, and keeps the other definitions.
    pub(super) fn add_slots(&mut self, live_ins: &[LiveIn]) {
        for one in live_ins {
            match self.known(*one) {
                Some(node) => self.define(one.of, one.slot.into(), node),
                None => _ = self.slot(*one),
            }
        }
    }

    /// Loads a slot.
    pub(super) fn slot(&mut self, live_in: LiveIn) -> NodeId {
        let node = self.append(Kind::Slot(live_in.slot), Ty::Scalar(live_in.of), SmallVec::new(), false);
        self.define(live_in.of, live_in.slot.into(), node);
        node
    }

    /// Defines a slot by what another one holds.
    pub(super) fn copy_slot(&mut self, to: usize, from: usize) {
        if self.defs.home.contains(from) {
            // It is loaded with the type of its next read.
            let reads = &self.at_op.before.reads;
            let first = from - usize::from(from > 0 && is_pair(reads, from - 1));
            let is_in_slot =
                |one: &LiveIn| (one.slot..one.slot + one.slots()).all(|slot| self.defs.home.contains(slot.into()));
            let live_in = live_in_at(reads, first).filter(is_in_slot);
            self.slot(live_in.unwrap_or(LiveIn { slot: from as u16, of: Scalar::I32 }));
        }
        self.defs.copy_within(to, from);
        self.note_defined(to);
    }

    /// The constant that is known to be in a slot, or a pair of slots, at the op that is being built.
    pub(super) fn known(&mut self, live_in: LiveIn) -> Option<NodeId> {
        let at = |slot: usize| self.slot_constants[slot].constant().map(u64::from);
        let slot = usize::from(live_in.slot);
        let bits = if live_in.of.is_wide() { at(slot)? | at(slot + 1)? << 32 } else { at(slot)? };
        if let Some((known, of, node)) = self.recent[slot]
            && (known, of) == (bits, live_in.of)
        {
            return Some(node);
        }
        let node = self.constant(live_in.of, bits);
        self.recent[slot] = Some((bits, live_in.of, node));
        Some(node)
    }

    pub(super) fn define(&mut self, of: Scalar, slot: usize, node: NodeId) {
        self.note_defined(slot);
        let is_constant = self.graph.constant(node).is_some();
        let mut define = |slot, part| self.defs.define(slot, Def { node, part }, is_constant);
        if of.is_wide() {
            define(slot, Part::Low);
            define(slot + 1, Part::High);
            self.note_defined(slot + 1);
        } else {
            define(slot, Part::Whole);
        }
    }

    pub(super) fn cast(&mut self, node: NodeId, of: Scalar) -> NodeId {
        let from = self.graph.node(node).scalar();
        if from == of {
            return node;
        }
        if let Some(bits) = self.graph.constant(node) {
            return self.constant(of, bits);
        }
        // A cast of a cast to the first type is the value itself.
        if self.graph.node(node).kind == Kind::Cast {
            let inner = self.graph.node(node).args[0];
            return self.cast(inner, of);
        }
        self.add(Kind::Cast, Ty::Scalar(of), &[node], false)
    }

    /// The 32 bits in a slot as an `i32`.
    pub(super) fn narrow(&mut self, slot: usize) -> NodeId {
        if self.defs.home.contains(slot) {
            return self.slot(LiveIn { slot: slot as u16, of: Scalar::I32 });
        }
        let Some(Def { node, part }) = self.defs.get(slot) else {
            self.failed = true;
            return self.constant(Scalar::I32, 0);
        };
        if part == Part::Whole {
            return self.cast(node, Scalar::I32);
        }
        let wide = self.cast(node, Scalar::I64);
        if let Some(bits) = self.graph.constant(wide) {
            let half = if part == Part::Low { bits & u64::from(u32::MAX) } else { bits >> 32 };
            return self.constant(Scalar::I32, half);
        }
        let kind = if part == Part::Low { Kind::Low } else { Kind::High };
        self.add(kind, Ty::Scalar(Scalar::I32), &[wide], false)
    }

    /// The slots that are live after the op that is being built, but for those that hold constants. These are defined
    /// by the constants.
    pub(super) fn live_after(&mut self) -> Bits {
        let live = &self.at_op.after.live;
        let lost: SmallVec<[usize; 4]> = (self.defs.computed(live).chain(self.defs.home.and(live)))
            .filter(|slot| self.slot_constants.constants.contains(*slot))
            .collect();
        for slot in lost {
            if let Some(node) = self.known(LiveIn { slot: slot as u16, of: Scalar::I32 }) {
                self.define(Scalar::I32, slot, node);
            }
        }
        self.at_op.after.live.without(&self.slot_constants.constants)
    }
}
