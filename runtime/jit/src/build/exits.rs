//! Side exits and their frame states: which slots an exit has to write depends on who continues there and what that
//! reads.

use smallvec::SmallVec;

use super::builder::FunctionBuilder;
use super::defs::{Def, Defs};
use crate::ir::bits::Bits;
use crate::ir::graph::{Exit, ExitId, Part, RefMove, SlotValue};

impl FunctionBuilder<'_> {
    /// The exit that is taken if the op being built traps. The interpreter executes the op again, and reads nothing but
    /// its operands.
    pub(super) fn trap_exit(&mut self) -> ExitId {
        if let Some(exit) = self.exit {
            return exit;
        }
        let exit = self.exit_with(self.liveness.reads(self.pc).collect());
        self.exit = Some(exit);
        exit
    }

    /// The exit for an op that the runtime or the interpreter executes and after which code continues: its frame state
    /// has the operands of the op and the slots that the continuation loads, which are `home`.
    pub(super) fn exit_for_op(&mut self, home: &Bits) -> ExitId {
        let live = &self.at_op.before.live;
        let mut wanted = home.clone();
        // A slot that the op itself writes is not live before it.
        wanted.retain(live);
        self.liveness.reads(self.pc).filter(|slot| live.contains(*slot)).for_each(|slot| wanted.insert(slot));
        self.add_exit(frame_state(&self.defs, wanted.without(&self.defs.home).iter()))
    }

    /// An exit at which the interpreter continues at the op being built: its frame state has all live slots.
    pub(super) fn exit_here(&mut self) -> ExitId {
        self.add_exit(frame_state(&self.defs, self.at_op.before.live.without(&self.defs.home).iter()))
    }

    /// The exit of a back edge or a call that counts down. If a limit is reached the program ends, so all slots are
    /// dead.
    pub(super) fn limits_exit(&mut self) -> ExitId {
        let exit = Exit {
            pc: self.pc,
            frame_state: Vec::new(),
            references: Vec::new(),
            pending_stores: Vec::new(),
            fallback: None,
        };
        self.graph.add_exit(exit)
    }

    /// An exit that only moves references in the frame, after it has written these slots.
    pub(super) fn exit_that_moves(&mut self, slots: &Bits, references: Vec<RefMove>) -> ExitId {
        let frame_state = frame_state(&self.defs, slots.without(&self.defs.home).iter());
        self.add_exit_with(frame_state, references)
    }

    /// An exit before the op being built, with these slots.
    pub(super) fn exit_with(&mut self, mut slots: SmallVec<[usize; 16]>) -> ExitId {
        slots.sort_unstable();
        slots.dedup();
        self.add_exit(frame_state(&self.defs, slots.into_iter()))
    }

    fn add_exit(&mut self, frame_state: Vec<SlotValue>) -> ExitId {
        let references = self.refs.moves_at(self.pc);
        self.add_exit_with(frame_state, references)
    }

    fn add_exit_with(&mut self, frame_state: Vec<SlotValue>, references: Vec<RefMove>) -> ExitId {
        self.frame_state_values += frame_state.len() + references.len();
        self.graph.add_exit(Exit { pc: self.pc, frame_state, references, pending_stores: Vec::new(), fallback: None })
    }
}

/// The frame state of slots, which are in order. Slots that are in the frame anyway are left out.
fn frame_state(defs: &Defs, slots: impl Iterator<Item = usize>) -> Vec<SlotValue> {
    let mut frame_state: SmallVec<[SlotValue; 32]> = SmallVec::new();
    for slot in slots {
        let Some(Def { node, part }) = defs.get(slot) else { continue };
        match frame_state.last_mut() {
            // Both halves of a value: one store.
            Some(low)
                if part == Part::High && (low.node, low.part, usize::from(low.slot) + 1) == (node, Part::Low, slot) =>
            {
                low.part = Part::Whole;
            }
            _ => frame_state.push(SlotValue { slot: slot as u16, node, part }),
        }
    }
    // Exits are kept, so they take no more memory than they need.
    frame_state.to_vec()
}
