//! Holders of references: for each reference register of the bytecode, the register of the frame that has its
//! reference while machine code runs. The builder names registers of the frame, and exits say what has to move.
//!
//! Branches rename references: a compiler gives each block argument a register of its own, so a buffer that a loop uses
//! moves from one register to another one and back in each iteration. Machine code does not move it. The analysis
//! follows the moves through the function, and gives each block the holders with which all branches to it agree. Where
//! they disagree, as for two buffers that a loop exchanges, the block has each reference in its own register, and
//! branches to it move them by a function of the runtime. So does an exit, since the interpreter looks into the
//! registers that the bytecode names; and an op that the runtime or the interpreter executes comes after such moves.
//!
//! A reference that the bytecode overwrites or moves away stays in the frame until then, and is released later than by
//! the interpreter; but before any op that could notice.

use smallvec::SmallVec;

use super::edges::{moves_refs, native_edges};
use super::typed_liveness::TypedLiveness;
use crate::bytecode::{BlockId, Decoded, Edge, EdgeId, Remap, VerifiedFunction};
use crate::generated::vm::jit_facts;
use crate::ir::effort::Effort;
use crate::ir::graph::RefMove;

/// Functions with more reference registers than this leave branches that move references to the interpreter.
pub(crate) const MAX_REFS: usize = u64::BITS as usize;
/// So often the analysis gives one block at a time up; then all at once, so that it ends soon.
const MAX_SINGLE_ROUNDS: usize = 32;
/// No register of the frame: the register of the bytecode is null.
const NULL: u8 = u8::MAX;

/// For each reference register of the bytecode, the register of the frame that has its reference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holders(SmallVec<[u8; 16]>);

impl Holders {
    /// Each reference is in its own register.
    pub fn own(refs: usize) -> Holders {
        Holders((0..refs.min(MAX_REFS) as u8).collect())
    }

    /// The register of the frame that has the reference of a register; none if that is null.
    pub fn of(&self, register: usize) -> Option<u16> {
        match self.0.get(register) {
            Some(&NULL) => None,
            Some(holder) => Some((*holder).into()),
            None => Some(register as u16),
        }
    }

    /// Renames references as the copies of an edge do.
    pub fn rename(&mut self, remaps: &[Remap]) {
        for remap in remaps.iter().filter(|remap| remap.source.is_ref()) {
            let (source, target) = (remap.source.ref_reg(), remap.target.ref_reg().index());
            let Some(holder) = self.0.get(source.index()).copied() else { continue };
            if source.is_move() {
                self.0[source.index()] = NULL;
            }
            self.0[target] = holder;
        }
    }

    /// Registers that are dead count as null.
    fn restrict(&mut self, live: u64) {
        let dead = self.0.iter_mut().enumerate().filter(|(register, _)| live >> register & 1 == 0);
        dead.for_each(|(_, holder)| *holder = NULL);
    }

    /// The moves in the frame after which these registers have the holders that `wanted` says. A reference that has
    /// moved is not kept where it was, unless it is needed there, too.
    pub fn moves_to(&self, wanted: &Holders, live: u64) -> Vec<RefMove> {
        let (mut moves, mut needed, mut moved) = (Vec::new(), 0, 0);
        for register in (0..self.0.len()).filter(|register| live >> register & 1 == 1) {
            let Some(target) = wanted.of(register).filter(|target| needed & bit((*target).into()) == 0) else {
                continue;
            };
            needed |= bit(target.into());
            let source = self.of(register);
            if source != Some(target) {
                moves.push(RefMove { target, source });
                moved |= source.map_or(0, |source| bit(source.into()));
            }
        }
        let left = (0..self.0.len()).filter(|holder| moved & !needed & bit(*holder) != 0);
        moves.extend(left.map(|holder| RefMove { target: holder as u16, source: None }));
        moves
    }
}

/// The holders at the beginning of each block of a function.
pub(crate) struct References {
    /// The registers that are read before they are written, by block: bit by bit.
    live: Vec<u64>,
    holders: Vec<Holders>,
    /// The blocks with a branch that moves references in the frame.
    moving: Vec<bool>,
    own: Holders,
}

impl References {
    /// None if no branch moves references, or the function has too many.
    pub fn new(function: &VerifiedFunction, liveness: &TypedLiveness<'_>, effort: &Effort) -> Option<References> {
        let (decoded, refs) = (function.decoded(), function.refs());
        let moves = decoded.blocks.iter().any(|block| {
            let last = decoded.ops[block.ops.end as usize - 1];
            moves_refs(decoded, &native_edges(last))
        });
        if !moves || refs > MAX_REFS {
            return None;
        }
        let blocks = decoded.blocks.len();
        let own = Holders::own(refs);
        let mut references =
            References { live: vec![0; blocks], holders: vec![own.clone(); blocks], moving: vec![false; blocks], own };
        let is_done =
            references.find_live(decoded, liveness, effort) && references.find_holders(decoded, liveness, effort);
        is_done.then_some(references)
    }

    /// Each reference in its own register.
    pub fn own(&self) -> &Holders {
        &self.own
    }

    /// Whether a branch at the end of a block moves references in the frame.
    pub fn is_moving(&self, block: usize) -> bool {
        self.moving[block]
    }

    /// The holders at the beginning of a block.
    pub fn entry(&self, block: BlockId) -> &Holders {
        &self.holders[block.index()]
    }

    /// The moves that a branch makes to a block, if references are held so before it.
    pub fn moves(&self, decoded: &Decoded, edge: &Edge, before: &Holders) -> Vec<RefMove> {
        let mut holders = before.clone();
        holders.rename(decoded.remaps(edge));
        holders.moves_to(self.entry(edge.target), self.live[edge.target.index()])
    }

    /// The registers that are live before each op of a block.
    pub fn live_before(&self, decoded: &Decoded, liveness: &TypedLiveness<'_>, block: BlockId) -> Vec<u64> {
        let mut live = 0;
        let ops = decoded.block(block).ops.clone();
        let mut all: Vec<u64> = ops
            .rev()
            .map(|pc| {
                live = self.before(decoded, liveness, pc, live);
                live
            })
            .collect();
        all.reverse();
        all
    }

    /// The registers that are live before an op, from those after it.
    fn before(&self, decoded: &Decoded, liveness: &TypedLiveness<'_>, pc: u32, mut live: u64) -> u64 {
        for (target, edge) in liveness.targets(pc) {
            live |= self.across_edge(decoded, target, edge);
        }
        liveness.ref_writes(pc).for_each(|register| live &= !bit(register));
        liveness.ref_reads(pc).for_each(|register| live |= bit(register));
        live
    }

    fn across_edge(&self, decoded: &Decoded, target: BlockId, edge: Option<EdgeId>) -> u64 {
        let mut live = self.live[target.index()];
        let remaps = edge.map_or(&[][..], |edge| decoded.remaps(decoded.edge(edge)));
        for remap in remaps.iter().rev().filter(|remap| remap.source.is_ref()) {
            let (source, target) = (bit(remap.source.ref_reg().index()), bit(remap.target.ref_reg().index()));
            let is_read = live & target != 0;
            live &= !target;
            live |= if is_read { source } else { 0 };
        }
        live
    }

    /// A fixed point, backwards. False if that takes too long.
    fn find_live(&mut self, decoded: &Decoded, liveness: &TypedLiveness<'_>, effort: &Effort) -> bool {
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for (block, content) in decoded.blocks.iter().enumerate().rev() {
                if !effort.spend(content.ops.len()) {
                    return false;
                }
                let ops = content.ops.clone().rev();
                let live = ops.fold(0, |live, pc| self.before(decoded, liveness, pc, live));
                changed |= std::mem::replace(&mut self.live[block], live) != live;
            }
        }
        true
    }

    /// Finds holders with which all branches to a block agree. Blocks without such holders have each reference in its
    /// own register; one is found at a time, since what others disagree about may follow from it.
    fn find_holders(&mut self, decoded: &Decoded, liveness: &TypedLiveness<'_>, effort: &Effort) -> bool {
        let mut given_up = vec![false; decoded.blocks.len()];
        for round in 0.. {
            let Some(conflicts) = self.conflicts(decoded, liveness, effort, &given_up) else { return false };
            let Some(first) = conflicts.iter().copied().min() else { break };
            given_up[first] = true;
            if round >= MAX_SINGLE_ROUNDS {
                conflicts.into_iter().for_each(|block| given_up[block] = true);
            }
        }
        debug_assert!(self.loses_none(decoded, liveness), "a branch loses a reference");
        for block in (0..decoded.blocks.len() as u32).map(BlockId) {
            let (at_end, edges) = self.at_end(decoded, block);
            let moves = |id: &EdgeId| !self.moves(decoded, decoded.edge(*id), &at_end).is_empty();
            self.moving[block.index()] = edges.iter().any(moves);
        }
        true
    }

    /// Whether blocks expect null only in registers that are null on all branches to them.
    fn loses_none(&self, decoded: &Decoded, liveness: &TypedLiveness<'_>) -> bool {
        (0..decoded.blocks.len() as u32).map(BlockId).all(|block| {
            let (at_end, edges) = self.at_end(decoded, block);
            liveness.targets(decoded.block(block).ops.end - 1).all(|(target, edge)| {
                let mut holders = at_end.clone();
                if let Some(edge) = edge.filter(|edge| edges.contains(edge)) {
                    holders.rename(decoded.remaps(decoded.edge(edge)));
                }
                holders.restrict(self.live[target.index()]);
                let wanted = self.entry(target);
                (0..self.own.0.len()).all(|register| holders.of(register).is_none() || wanted.of(register).is_some())
            })
        })
    }

    /// The holders at the end of a block, and the edges of the branch there if machine code can execute it.
    fn at_end(&self, decoded: &Decoded, block: BlockId) -> (Holders, SmallVec<[EdgeId; 2]>) {
        let ops = decoded.block(block).ops.clone();
        let last = ops.end - 1;
        let edges = native_edges(decoded.ops[last as usize]);
        let is_kept = !edges.is_empty() && (ops.start..last).all(|pc| jit_facts::is_built(decoded.ops[pc as usize]));
        (if is_kept { &self.holders[block.index()] } else { &self.own }.clone(), edges)
    }

    /// Takes for each block the holders that the first branch to it has, and those of its own for blocks that are given
    /// up. Gives the blocks to which other branches have other ones; none if that takes too long.
    fn conflicts(
        &mut self,
        decoded: &Decoded,
        liveness: &TypedLiveness<'_>,
        effort: &Effort,
        given_up: &[bool],
    ) -> Option<Vec<usize>> {
        let mut conflicts = Vec::new();
        let mut known = vec![false; decoded.blocks.len()];
        for block in (0..decoded.blocks.len() as u32).map(BlockId) {
            let ops = decoded.block(block).ops.clone();
            if !effort.spend(ops.len() + self.own.0.len()) {
                return None;
            }
            let is_known = std::mem::replace(&mut known[block.index()], true);
            if given_up[block.index()] || !is_known {
                let mut own = self.own.clone();
                own.restrict(self.live[block.index()]);
                self.holders[block.index()] = own;
            }
            let (at_end, edges) = self.at_end(decoded, block);
            for (target, edge) in liveness.targets(ops.end - 1) {
                let mut holders = at_end.clone();
                if let Some(edge) = edge.filter(|edge| edges.contains(edge)) {
                    holders.rename(decoded.remaps(decoded.edge(edge)));
                }
                let target = target.index();
                holders.restrict(self.live[target]);
                if !std::mem::replace(&mut known[target], true) {
                    self.holders[target] = holders;
                } else if !given_up[target] && self.holders[target] != holders {
                    conflicts.push(target);
                }
            }
        }
        Some(conflicts)
    }
}

fn bit(register: usize) -> u64 {
    1_u64.checked_shl(register as u32).unwrap_or(0)
}
