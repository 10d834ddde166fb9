//! Which slots hold the same constant whenever a block is entered, by whatever path: also where the interpreter takes branches that
//! compiled code does not make.

use std::convert::Infallible;

use crate::bytecode::{
    BlockId, CallForm, CallId, CasesId, Decoded, EdgeId, ListId, OperandVisitor, RefReg, Reg, VerifiedFunction,
};
use crate::generated::vm::{jit, verify};
use crate::vm::convention::Kind;

use super::kinds::Kinds;

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
        for _ in 0..MAX_PASSES {
            let mut changed = false;
            for block in 0..decoded.blocks.len() {
                let mut known = entries[block].clone();
                if known.iter().all(|known| *known == Known::Unreached) && !known.is_empty() {
                    continue;
                }
                let ops = decoded.blocks[block].ops.clone();
                for pc in ops.clone() {
                    apply(decoded, kinds, pc, &mut known);
                }
                let mut targets = Targets { decoded, targets: Vec::new() };
                let Ok(()) = verify::visit_operands(decoded.ops[ops.end as usize - 1], &mut targets);
                for (target, edge) in targets.targets {
                    let mut brought = known.clone();
                    if let Some(edge) = edge {
                        for remap in decoded.remaps(decoded.edge(edge)).iter().filter(|remap| !remap.source.is_ref()) {
                            brought[remap.target.reg().index()] = brought[remap.source.reg().index()];
                        }
                    }
                    for (known, brought) in entries[target.index()].iter_mut().zip(brought) {
                        let met = known.meet(brought);
                        changed |= met != *known;
                        *known = met;
                    }
                }
            }
            if !changed {
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
    let written = kinds.writes(pc);
    written.into_iter().for_each(|slot| known[slot] = Known::Unknown);
    if let Some((of, reg, bits)) = jit::constant(decoded.ops[pc as usize]) {
        known[reg.index()] = Known::Constant(bits as u32);
        if of.is_wide() {
            known[reg.index() + 1] = Known::Constant((bits >> 32) as u32);
        }
    }
}

/// The blocks that a terminator may lead to.
struct Targets<'a> {
    decoded: &'a Decoded,
    targets: Vec<(BlockId, Option<EdgeId>)>,
}

impl OperandVisitor for Targets<'_> {
    type Error = Infallible;

    fn read(&mut self, _reg: Reg, _kind: Kind) -> Result<(), Infallible> {
        Ok(())
    }

    fn write(&mut self, _reg: Reg, _kind: Kind) -> Result<(), Infallible> {
        Ok(())
    }

    fn read_ref(&mut self, _reg: RefReg, _movable: bool) -> Result<(), Infallible> {
        Ok(())
    }

    fn write_ref(&mut self, _reg: RefReg) -> Result<(), Infallible> {
        Ok(())
    }

    fn read_list(&mut self, _list: ListId, _kind: Kind, _movable: bool) -> Result<(), Infallible> {
        Ok(())
    }

    fn read_any(&mut self, _list: ListId) -> Result<(), Infallible> {
        Ok(())
    }

    fn return_values(&mut self, _list: ListId) -> Result<(), Infallible> {
        Ok(())
    }

    fn edge(&mut self, edge: EdgeId) -> Result<(), Infallible> {
        self.targets.push((self.decoded.edge(edge).target, Some(edge)));
        Ok(())
    }

    fn target(&mut self, block: BlockId) -> Result<(), Infallible> {
        self.targets.push((block, None));
        Ok(())
    }

    fn cases(&mut self, cases: CasesId) -> Result<(), Infallible> {
        for index in 0..self.decoded.case_count(cases) {
            if let Some(edge) = self.decoded.case(cases, index) {
                self.edge(edge)?;
            }
        }
        Ok(())
    }

    fn call(&mut self, call: CallId, _form: CallForm) -> Result<(), Infallible> {
        match self.decoded.call(call).resume {
            Some(block) => self.target(block),
            None => Ok(()),
        }
    }
}
