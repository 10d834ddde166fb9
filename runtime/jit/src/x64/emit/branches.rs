//! Branches: jumps, the parallel moves of their arguments, and their count against the limits.

use dynasmrt::{DynasmApi, DynasmLabelApi, dynasm};
use smallvec::SmallVec;

use super::super::lower;
use super::emitter::{Emitter, SpeculativeCount, StubKind};
use crate::ir::graph::{BlockIndex, Branch, NodeId, Terminator};
use crate::ir::types::Ty;
use crate::processor::registers::{SCRATCH, VECTOR_SCRATCH};
use crate::regalloc::Location;

/// A move that has not been made: the argument, unless it has been set aside, where it is, and the parameter. The bank
/// of a location counts.
type PendingMove = (Option<NodeId>, (bool, Location), NodeId);

/// Moves of a branch: the argument and the parameter of each.
pub(super) type Moves = SmallVec<[(NodeId, NodeId); 8]>;

impl Emitter<'_> {
    pub(super) fn terminator(&mut self, block: BlockIndex) {
        match &self.graph.blocks[block].terminator {
            Terminator::Jump(branch) => {
                let target = &self.graph.blocks[branch.target];
                let is_free = |id: &NodeId| self.graph.node(*id).ty == Ty::Truth || self.graph.is_folded(*id);
                let is_test = target.nodes.iter().all(is_free);
                if let Terminator::Branch(test, [then, otherwise]) = &target.terminator
                    && is_test
                    && (branch.limits_exit.is_some() || self.emitted.contains(branch.target))
                    && self.next != Some(branch.target)
                {
                    // Loop inversion: the test of a header is emitted again at the back edge.
                    self.count_branch(branch);
                    let moves = self.moves(branch);
                    self.make_moves(moves);
                    return self.conditional_branch(*test, then, otherwise);
                }
                self.branch(branch, true);
            }
            Terminator::Guarded([branch, _]) => self.branch(branch, true),
            Terminator::Branch(test, [then, otherwise]) => self.conditional_branch(*test, then, otherwise),
            Terminator::SideExit(_, exit) => match self.graph.native_terminators.get(block) {
                Some(terminator) => self.native_terminator(block, *exit, terminator),
                None => self.exit_to_interpreter(block, *exit),
            },
            // A block without a terminator is unreachable.
            Terminator::Open => dynasm!(self.asm.ops ; .arch x64 ; ud2),
        }
    }

    pub(super) fn conditional_branch(&mut self, test: NodeId, then: &Branch, otherwise: &Branch) {
        let (then_moves, otherwise_moves) = (self.moves(then), self.moves(otherwise));
        let counted = then.limits_exit.is_some() || otherwise.limits_exit.is_some();
        if otherwise_moves.is_empty() && self.next == Some(then.target) && !counted {
            // Code falls through to the first target, after the moves for it.
            let flags = self.test(test);
            let target = self.labels[self.target_block(otherwise)];
            lower::jump_if(&mut self.asm, flags.negate(), target);
            self.branch(then, true);
        } else if then_moves.is_empty() {
            self.branch_counted_early(test, then, true);
            self.branch(otherwise, true);
        } else if otherwise_moves.is_empty() {
            self.branch_counted_early(test, otherwise, false);
            self.branch(then, true);
        } else {
            let flags = self.test(test);
            let other = self.asm.ops.new_dynamic_label();
            lower::jump_if(&mut self.asm, flags.negate(), other);
            self.branch(then, false);
            dynasm!(self.asm.ops ; .arch x64 ; =>other);
            self.branch(otherwise, true);
        }
    }

    /// The target of a branch without moves: past a header test that is known to be false, if the edge after that has
    /// no moves either.
    fn target_block(&self, branch: &Branch) -> BlockIndex {
        match &self.graph.blocks[branch.target].terminator {
            Terminator::Branch(_, [_, out])
                if branch.skips_header_test && out.limits_exit.is_none() && self.moves(out).is_empty() =>
            {
                out.target
            }
            _ => branch.target,
        }
    }

    pub(super) fn count_branch(&mut self, branch: &Branch) {
        if let Some(exit) = branch.limits_exit {
            self.count(exit);
        }
    }

    /// Emits a branch without moves that is taken if the test is as `taken` says. A back edge is counted before the
    /// test, and the count is undone if it is not taken: so an iteration needs one jump.
    fn branch_counted_early(&mut self, test: NodeId, branch: &Branch, taken: bool) {
        let not_taken = self.asm.ops.new_dynamic_label();
        if let Some(exit) = branch.limits_exit {
            let guess = SpeculativeCount { test, taken, not_taken };
            self.count_with(exit, |resume| StubKind::SpeculativeCount(resume, guess));
        }
        let flags = self.test(test);
        let target = self.labels[branch.target];
        lower::jump_if(&mut self.asm, if taken { flags } else { flags.negate() }, target);
        if branch.limits_exit.is_some() {
            dynasm!(self.asm.ops ; .arch x64 ; add r15d, BYTE 1 ; =>not_taken);
        }
    }

    pub(super) fn branch(&mut self, branch: &Branch, last: bool) {
        self.count_branch(branch);
        let moves = self.moves(branch);
        self.make_moves(moves);
        if !last || !self.falls_through(branch.target) {
            let target = self.labels[branch.target];
            dynasm!(self.asm.ops ; .arch x64 ; jmp =>target);
        }
    }

    /// Whether code that goes on comes to this block: it is the next one, or blocks without code are between.
    fn falls_through(&self, target: BlockIndex) -> bool {
        let order = &self.graph.order;
        let mut at = self.following;
        while let Some(block) = order.get(at) {
            at += 1;
            if *block == target {
                return true;
            }
            if !self.is_empty(*block, order.get(at).copied()) {
                return false;
            }
        }
        false
    }

    /// Whether a block has no code, where `after` is laid out after it.
    fn is_empty(&self, block: BlockIndex, after: Option<BlockIndex>) -> bool {
        let content = &self.graph.blocks[block];
        let is_entered = content.entry.is_some()
            || self.graph.native_entry.is_some_and(|(entry, _)| entry == block)
            || self.graph.inlined_entry == Some(block);
        match &content.terminator {
            Terminator::Jump(branch) => {
                content.nodes.is_empty()
                    && !is_entered
                    && branch.limits_exit.is_none()
                    && after == Some(branch.target)
                    && self.moves(branch).is_empty()
            }
            _ => false,
        }
    }

    /// The moves of a branch: each argument that is not in the location of its parameter, and the parameter.
    pub(super) fn moves(&self, branch: &Branch) -> Moves {
        let parameters = &self.graph.blocks[branch.target].parameters;
        let pairs = branch.args.iter().copied().zip(parameters.iter().copied());
        let differ = |(arg, parameter): &(NodeId, NodeId)| {
            self.location(*parameter) != Location::None
                && (self.graph.constant(*arg).is_some() || self.location(*arg) != self.location(*parameter))
        };
        pairs.filter(differ).collect()
    }

    /// Emits parallel moves.
    pub(super) fn make_moves(&mut self, moves: Moves) {
        // Registers of different banks have the same numbers, so the bank counts.
        let at = |emitter: &Self, id: NodeId| (emitter.graph.node(id).is_vector(), emitter.location(id));
        let mut pending: SmallVec<[PendingMove; 8]> = moves
            .into_iter()
            .map(|(arg, parameter)| {
                let source = if self.graph.constant(arg).is_some() { (false, Location::None) } else { at(self, arg) };
                (Some(arg), source, parameter)
            })
            .collect();
        let frame = |held: (bool, Location)| if let Location::SpillSlot(_) = held.1 { (false, held.1) } else { held };
        while !pending.is_empty() {
            let ready = (0..pending.len()).find(|index| {
                let target = frame(at(self, pending[*index].2));
                pending.iter().enumerate().all(|(other, one)| other == *index || frame(one.1) != target)
            });
            if let Some(index) = ready {
                let (arg, _, parameter) = pending.swap_remove(index);
                match arg {
                    Some(arg) => self.move_to(arg, parameter),
                    // The value that was set aside to break a cycle.
                    None => {
                        let scratch = if self.graph.node(parameter).is_vector() { VECTOR_SCRATCH } else { SCRATCH };
                        self.put(parameter, scratch);
                    }
                }
                continue;
            }
            // All moves that are left are cycles. One value is set aside in the scratch register of its bank.
            let Some(index) = pending.iter().position(|one| one.0.is_some()) else { return };
            let Some(arg) = pending[index].0 else { return };
            let scratch = if self.graph.node(arg).is_vector() { VECTOR_SCRATCH } else { SCRATCH };
            let register = self.fetch(arg, scratch);
            self.copy(arg, scratch, register);
            pending[index].0 = None;
            pending[index].1 = (false, Location::None);
        }
    }

    pub(super) fn move_to(&mut self, arg: NodeId, parameter: NodeId) {
        if let Location::Register(register) = self.location(parameter) {
            let from = self.fetch(arg, register);
            self.copy(parameter, register, from);
        } else {
            let from = self.operand(arg, 0);
            self.put(parameter, from);
        }
    }
}
