//! Constant propagation over the bytecode: which slots hold a constant at the entry of each block, on all paths, those
//! that only the interpreter takes included. The builder uses it at each op.

use std::ops::Index;

use super::typed_liveness::TypedLiveness;
use crate::bytecode::{BlockId, Decoded, VerifiedFunction};
use crate::generated::vm::jit_facts;
use crate::ir::bits::Bits;
use crate::ir::effort::Effort;
use crate::ir::visits::Visits;

/// The lattice value of the 32 bits of a slot: a constant, or one of two numbers that are none. So values meet without
/// branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lattice(u64);

impl Lattice {
    /// No path leads here.
    const UNREACHED: Lattice = Lattice(u64::MAX);
    const UNKNOWN: Lattice = Lattice(1 << 32);

    fn of(bits: u32) -> Lattice {
        Lattice(bits.into())
    }

    /// The constant, if it is one.
    pub fn constant(self) -> Option<u32> {
        u32::try_from(self.0).ok()
    }

    fn meet(self, other: Lattice) -> Lattice {
        let met = if self == other || other == Lattice::UNREACHED { self } else { Lattice::UNKNOWN };
        if self == Lattice::UNREACHED { other } else { met }
    }
}

/// The lattice values of all slots at an op.
#[derive(Clone, Default)]
pub(crate) struct ConstantSlots {
    known: Vec<Lattice>,
    /// The slots that hold constants.
    pub constants: Bits,
}

impl ConstantSlots {
    /// Begins at the entry of a block.
    pub fn begin(&mut self, entry: &[Lattice]) {
        self.known.clear();
        self.known.extend_from_slice(entry);
        self.constants = Bits::new(entry.len());
        let constants = entry.iter().enumerate().filter(|(_, known)| known.constant().is_some());
        constants.for_each(|(slot, _)| self.constants.insert(slot));
    }

    fn set(&mut self, slot: usize, known: Lattice) {
        self.known[slot] = known;
        self.constants.set(slot, known.constant().is_some());
    }
}

impl Index<usize> for ConstantSlots {
    type Output = Lattice;

    fn index(&self, slot: usize) -> &Lattice {
        &self.known[slot]
    }
}

/// The lattice values of all slots at the entry of each block.
#[derive(Default)]
pub(crate) struct Constants {
    /// Those of all blocks, one after the other.
    entries: Vec<Lattice>,
    slots: usize,
}

/// Most passes until a fixed point. Code of compilers needs a few.
const MAX_PASSES: usize = 32;

impl Constants {
    /// None if there is no fixed point after that many passes.
    pub fn new(function: &VerifiedFunction, liveness: &TypedLiveness<'_>, effort: &Effort) -> Option<Constants> {
        let (decoded, slots) = (function.decoded(), function.slots());
        let mut entries = vec![Lattice::UNREACHED; slots * decoded.blocks.len()];
        // Arguments are unknown, and slots that begin as zeros are taken to be, too.
        entries[..slots].fill(Lattice::UNKNOWN);
        let (mut known, mut copied) = (Vec::new(), Vec::new());
        let mut visits = Visits::new(decoded.blocks.len(), decoded.blocks.len());
        for _ in 0..MAX_PASSES {
            let mut changed = false;
            for (block, content) in decoded.blocks.iter().enumerate() {
                if !visits.begin(block, [block].into_iter()) {
                    continue;
                }
                let ops = content.ops.clone();
                if !effort.spend(slots + ops.len()) {
                    return None;
                }
                let entry = &entries[block * slots..][..slots];
                let is_unreached = slots > 0 && entry.iter().all(|known| *known == Lattice::UNREACHED);
                if is_unreached || liveness.targets(ops.end - 1).next().is_none() {
                    continue;
                }
                known.clear();
                known.extend_from_slice(entry);
                for pc in ops.clone() {
                    changes(decoded, liveness, pc, |slot, new| known[slot] = new);
                }
                for (target, edge) in liveness.targets(ops.end - 1) {
                    effort.spend(slots);
                    let remaps = edge.map_or(&[][..], |edge| decoded.remaps(decoded.edge(edge)));
                    let mut brought = &known;
                    if !remaps.is_empty() {
                        copied.clone_from(&known);
                        for remap in remaps.iter().filter(|remap| !remap.source.is_ref()) {
                            copied[remap.target.reg().index()] = copied[remap.source.reg().index()];
                        }
                        brought = &copied;
                    }
                    let mut differs = false;
                    for (known, brought) in entries[target.index() * slots..].iter_mut().zip(brought) {
                        let met = known.meet(*brought);
                        differs |= met != *known;
                        *known = met;
                    }
                    if differs {
                        visits.change(target.index());
                        changed = true;
                    }
                }
            }
            if !changed || !liveness.has_loops() {
                return Some(Constants { entries, slots });
            }
        }
        None
    }

    /// Whether a path leads to a block. Taken to be true in functions without slots.
    pub fn is_reached(&self, block: BlockId) -> bool {
        self.slots == 0 || self.entry(block).iter().any(|known| *known != Lattice::UNREACHED)
    }

    /// The lattice values at the entry of a block.
    pub fn entry(&self, block: BlockId) -> &[Lattice] {
        &self.entries[block.index() * self.slots..][..self.slots]
    }
}

/// Applies the transfer function of an op.
pub(crate) fn apply(decoded: &Decoded, liveness: &TypedLiveness<'_>, pc: u32, known: &mut ConstantSlots) {
    changes(decoded, liveness, pc, |slot, new| known.set(slot, new));
}

/// Calls `set` with the slots that an op writes.
fn changes(decoded: &Decoded, liveness: &TypedLiveness<'_>, pc: u32, mut set: impl FnMut(usize, Lattice)) {
    liveness.writes(pc).for_each(|slot| set(slot, Lattice::UNKNOWN));
    if let Some((of, reg, bits)) = jit_facts::constant(decoded.ops[pc as usize]) {
        set(reg.index(), Lattice::of(bits as u32));
        if of.is_wide() {
            set(reg.index() + 1, Lattice::of((bits >> 32) as u32));
        }
    }
}
