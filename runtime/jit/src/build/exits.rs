//! Where code is left, and what slots hold there.

use smallvec::SmallVec;

use super::Builder;
use super::defs::{Def, Defs};
use crate::ir::bits::Bits;
use crate::ir::graph::{Exit, ExitId, Part, SlotValue};

impl Builder<'_> {
    /// Where code is left for good if the op that is being built traps: the interpreter does it again, and reads nothing else.
    pub(super) fn trap_exit(&mut self) -> ExitId {
        if let Some(exit) = self.exit {
            return exit;
        }
        let exit = self.exit_with(self.liveness.reads(self.pc).collect());
        self.exit = Some(exit);
        exit
    }

    /// Where code is left for the op that is being built by whoever enters it behind the op: with what that reads, and with what is found
    /// in slots then.
    pub(super) fn exit_for_op(&mut self, home: &Bits) -> ExitId {
        let live = &self.at_op.before.live;
        let mut wanted = home.clone();
        // What the op writes holds nothing before it.
        wanted.retain(live);
        self.liveness.reads(self.pc).filter(|slot| live.contains(*slot)).for_each(|slot| wanted.insert(slot));
        self.add_exit(frame_state(&self.defs, wanted.iter()))
    }

    /// Where code is left for the interpreter to go on at the op that is being built.
    pub(super) fn exit_here(&mut self) -> ExitId {
        self.add_exit(frame_state(&self.defs, self.at_op.before.live.iter()))
    }

    /// Where the limits are looked at. If one is reached, nobody goes on.
    pub(super) fn limits_exit(&mut self) -> ExitId {
        self.add_exit(Vec::new())
    }

    /// An exit at the op that is being built, before it changes anything, with these slots.
    pub(super) fn exit_with(&mut self, mut slots: SmallVec<[usize; 16]>) -> ExitId {
        slots.sort_unstable();
        slots.dedup();
        self.add_exit(frame_state(&self.defs, slots.into_iter()))
    }

    fn add_exit(&mut self, frame_state: Vec<SlotValue>) -> ExitId {
        self.frame_state_values += frame_state.len();
        self.graph.add_exit(Exit { pc: self.pc, frame_state, pending_stores: Vec::new(), fallback: None })
    }
}

/// What slots have to hold, which are in order, but for those that do anyway.
fn frame_state(defs: &Defs, slots: impl Iterator<Item = usize>) -> Vec<SlotValue> {
    let mut frame_state: Vec<SlotValue> = Vec::new();
    for slot in slots {
        let Some(Def { node, part }) = defs.get(slot) else { continue };
        match frame_state.last_mut() {
            // Both halves are written at once.
            Some(low)
                if part == Part::High && (low.node, low.part, usize::from(low.slot) + 1) == (node, Part::Low, slot) =>
            {
                low.part = Part::Whole;
            }
            _ => frame_state.push(SlotValue { slot: slot as u16, node, part }),
        }
    }
    frame_state
}
