//! Counts of a dispatch by the counters of the vendor's profiler ([`Counts`]): the sum of those that each instruction
//! counts for.

use crate::instruction::Instruction;
use crate::isa::{COUNTERS, Field};

/// Values of [`COUNTERS`], in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts(pub [u64; COUNTERS.len()]);

/// A bit for each counter.
pub(crate) type CounterSet = u16;

const _: () = assert!(COUNTERS.len() <= CounterSet::BITS as usize);

/// The counters of waves.
pub(crate) fn of_waves() -> CounterSet {
    selected(|counter| COUNTERS[counter].encodings.is_empty())
}

/// The counters that count an instruction.
pub(crate) fn of_instruction(instruction: &Instruction) -> CounterSet {
    let info = instruction.info();
    let has_result = info.operand(crate::isa::Slot::D).is_some();
    let returns = has_result && (!info.returns_by_glc || instruction.field(Field::Glc) == 1);
    selected(|counter| {
        let counter = &COUNTERS[counter];
        counter.encodings.contains(&instruction.encoding)
            && counter.returns.is_none_or(|wanted| wanted == returns)
            && !counter.without.contains(&instruction.opcode)
    })
}

fn selected(is_of: impl Fn(usize) -> bool) -> CounterSet {
    (0..COUNTERS.len()).fold(0, |set, counter| set | CounterSet::from(is_of(counter)) << counter)
}

impl Counts {
    /// Adds to each counter of a set.
    pub(crate) fn add(&mut self, set: CounterSet, count: u64) {
        for (counter, value) in self.0.iter_mut().enumerate() {
            if set >> counter & 1 == 1 {
                *value += count;
            }
        }
    }

    /// Adds those of other waves.
    pub(crate) fn merge(&mut self, other: &Counts) {
        self.0.iter_mut().zip(other.0).for_each(|(value, other)| *value += other);
    }
}
