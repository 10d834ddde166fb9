//! Which slots hold the same constant whenever a block is entered, by whatever path: also where the interpreter takes branches that
//! compiled code does not make.

use super::kinds::Kinds;
use crate::bytecode::{Decoded, VerifiedFunction};
use crate::generated::vm::jit;

/// What is known of the 32 bits of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// No path has come here yet.
    Unreached,
    Constant(u32),
    Unknown,
}

impl Known {
    fn meet(self, other: Known) -> Known {
        match (self, other) {
            (Known::Unreached, known) | (known, Known::Unreached) => known,
            (a, b) if a == b => a,
            _ => Known::Unknown,
        }
    }
}

/// What is known at the entry of each block.
#[derive(Default)]
pub(super) struct Constants {
    entries: Vec<Vec<Known>>,
}

/// Code of compilers settles after a few passes.
const MAX_PASSES: usize = 32;

impl Constants {
    /// None if the analysis does not come to an end soon.
    pub fn new(function: &VerifiedFunction, kinds: &Kinds<'_>) -> Option<Constants> {
        let decoded = function.decoded();
        let mut entries = vec![vec![Known::Unreached; function.slots()]; decoded.blocks.len()];
        // Arguments, and slots that begin as zeros.
        entries[0].fill(Known::Unknown);
        let (mut known, mut copied) = (Vec::new(), Vec::new());
        for _ in 0..MAX_PASSES {
            let mut changed = false;
            for block in 0..decoded.blocks.len() {
                known.clone_from(&entries[block]);
                if known.iter().all(|known| *known == Known::Unreached) && !known.is_empty() {
                    continue;
                }
                let ops = decoded.blocks[block].ops.clone();
                for pc in ops.clone() {
                    apply(decoded, kinds, pc, &mut known);
                }
                for (target, edge) in kinds.targets(ops.end - 1) {
                    let remaps = edge.map_or(&[][..], |edge| decoded.remaps(decoded.edge(edge)));
                    let mut brought = &known;
                    if !remaps.is_empty() {
                        copied.clone_from(&known);
                        for remap in remaps.iter().filter(|remap| !remap.source.is_ref()) {
                            copied[remap.target.reg().index()] = copied[remap.source.reg().index()];
                        }
                        brought = &copied;
                    }
                    for (known, brought) in entries[target.index()].iter_mut().zip(brought) {
                        let met = known.meet(*brought);
                        changed |= met != *known;
                        *known = met;
                    }
                }
            }
            if !changed || !kinds.has_loops() {
                return Some(Constants { entries });
            }
        }
        None
    }

    /// What is known at the entry of a block.
    pub fn entry(&self, block: usize) -> &[Known] {
        &self.entries[block]
    }
}

/// From what is known before an op to what is known behind it.
pub(super) fn apply(decoded: &Decoded, kinds: &Kinds<'_>, pc: u32, known: &mut [Known]) {
    kinds.writes(pc).for_each(|slot| known[slot] = Known::Unknown);
    if let Some((of, reg, bits)) = jit::constant(decoded.ops[pc as usize]) {
        known[reg.index()] = Known::Constant(bits as u32);
        if of.is_wide() {
            known[reg.index() + 1] = Known::Constant((bits >> 32) as u32);
        }
    }
}
