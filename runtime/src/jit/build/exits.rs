//! Where code is left, and what slots hold there.

use smallvec::SmallVec;

use super::super::graph::{Exit, ExitId, Part, Saved};
use super::super::kinds::Read;
use super::{Builder, Def, Taken};

impl Builder<'_> {
    /// Where code is left for good if the op that is being built traps: the interpreter does it again, and reads nothing else.
    pub(super) fn trap_exit(&mut self) -> ExitId {
        if let Some(exit) = self.exit {
            return exit;
        }
        let slots = self.kinds.reads(self.pc).collect();
        let exit = self.exit_with(slots);
        self.exit = Some(exit);
        exit
    }

    /// Where code is left for the op that is being built by whoever enters it behind the op: with what that reads, and with what is taken
    /// then and not known.
    pub(super) fn exit_and_back(&mut self, unknown: &[Taken]) -> ExitId {
        let mut slots: SmallVec<[usize; 16]> = self.kinds.reads(self.pc).collect();
        slots.extend(unknown.iter().flat_map(|one| one.slot..one.slot + one.slots()).map(usize::from));
        // What the op writes holds nothing before it.
        let reads = self.reads_before(self.pc);
        slots.retain(|slot| reads[*slot] != Read::Never);
        self.exit_with(slots)
    }

    /// Where code is left for the interpreter to go on at the op that is being built.
    pub(super) fn exit_here(&mut self) -> ExitId {
        let reads = self.reads_before(self.pc);
        let slots = (0..self.defs.len()).filter(|slot| reads[*slot] != Read::Never).collect();
        self.exit_with(slots)
    }

    /// Where the limits are looked at. If one is reached, nobody goes on.
    pub(super) fn count_exit(&mut self) -> ExitId {
        self.exit_with(SmallVec::new())
    }

    /// An exit at the op that is being built, before it changes anything, with these slots.
    pub(super) fn exit_with(&mut self, mut slots: SmallVec<[usize; 16]>) -> ExitId {
        slots.sort_unstable();
        slots.dedup();
        let mut saved: Vec<Saved> = Vec::with_capacity(slots.len());
        for slot in slots {
            let Some(Def { node, part }) = self.defs[slot] else { continue };
            match saved.last_mut() {
                // Both halves are written at once.
                Some(low)
                    if part == Part::High
                        && (low.node, low.part, usize::from(low.slot) + 1) == (node, Part::Low, slot) =>
                {
                    low.part = Part::Whole;
                }
                _ => saved.push(Saved { slot: slot as u16, node, part }),
            }
        }
        self.saved += saved.len();
        self.graph.add_exit(Exit { pc: self.pc, saved, stores: Vec::new(), to: None })
    }
}
