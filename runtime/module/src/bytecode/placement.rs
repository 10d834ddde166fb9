//! Where a function expects its arguments: the rules of compilers. `evidence` tells which rule a module follows, and
//! `entry` copies the arguments where that differs.
//!
//! Callers always write arguments one after the other, each 64-bit value to an even pair ([`Placement::InOrder`]).
//! Compilers up to IREE 3.4 put a 32-bit value into the first free register instead, also into the gap that an even
//! pair left. Functions of theirs whose arguments differ start with a branch that copies them from the one place to the
//! other, so that nothing but the verifier knows of this.

use crate::convention::Convention;
use crate::generated::vm::opcode::{BytecodeVersion, NEWEST_BYTECODE};

/// Where values are when a function is entered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Each argument after the one before it.
    #[default]
    InOrder,
    /// Each argument at the lowest registers that are free.
    GapFill,
}

impl Placement {
    /// The first slot of each argument of a convention without spans, with the number of its slots. References are left
    /// out.
    pub(super) fn slots(self, convention: &Convention) -> Vec<(usize, usize)> {
        let kinds = convention.fixed_args().into_iter().flatten();
        let counts = kinds.map(|kind| kind.slots() as usize).filter(|count| *count > 0);
        // There is at most one gap, of one slot: the slot before an even pair. Until a 32-bit value fills it, no other
        // one can come up.
        let (mut next, mut gap) = (0, None);
        let place = |count: usize| {
            if count == 1
                && self == Placement::GapFill
                && let Some(gap) = gap.take()
            {
                return (gap, 1);
            }
            if count == 2 && next % 2 == 1 {
                gap = Some(next);
                next += 1;
            }
            next += count;
            (next - count, count)
        };
        counts.map(place).collect()
    }

    /// For each slot of a frame, whether an argument is in it.
    pub(super) fn argument_slots(self, convention: &Convention, slots: usize) -> Vec<bool> {
        let mut is_argument = vec![false; slots];
        for (first, count) in self.slots(convention) {
            is_argument.iter_mut().skip(first).take(count).for_each(|slot| *slot = true);
        }
        is_argument
    }

    /// The number of slots that arguments take, with the gaps between them.
    pub(super) fn needed_slots(self, convention: &Convention) -> u32 {
        self.slots(convention).iter().map(|(first, count)| (first + count) as u32).max().unwrap_or(0)
    }
}

/// For each slot of a frame, whether a caller writes an argument to it; a slot that pads an argument to an even pair is
/// not.
pub(super) fn argument_slots(convention: &Convention, slots: u16) -> Vec<bool> {
    Placement::InOrder.argument_slots(convention, usize::from(slots))
}

/// The rules of a module's compiler that its bytecode alone does not express.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The version of its bytecode.
    pub version: &'static BytecodeVersion,
    /// Where its functions expect their arguments.
    pub placement: Placement,
}

impl Default for Rules {
    fn default() -> Self {
        Rules { version: NEWEST_BYTECODE, placement: Placement::default() }
    }
}
