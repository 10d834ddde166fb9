//! Baseline mode, for functions that are too large for SSA form: between pieces of a few ops, all values are in their
//! slots, as in the interpreter. A piece loads the slots that it reads and flushes those that it has written; no value
//! is live from one to another, and no pass runs but DCE. Time and memory are proportional to the number of ops.

use smallvec::SmallVec;

use super::builder::{Baseline, FunctionBuilder};
use super::holders::{can_move, moves_of_own};
use crate::analysis::edges::{moves_refs, native_edges};
use crate::bytecode::{BlockId, EdgeId, Op};
use crate::generated::vm::jit;
use crate::generated::vm::primitive::Primitive;
use crate::ir::bits::Bits;
use crate::ir::graph::{BlockIndex, Branch, Entry, Kind, NodeId, SideExitKind, Terminator};
use crate::ir::types::{Scalar, Ty};

/// Most ops of a piece.
const MAX_PIECE_OPS: u32 = 64;

impl FunctionBuilder<'_> {
    /// Builds all blocks, in pieces.
    pub(super) fn build_baseline(&mut self) {
        let begins = self.decoded.blocks.iter().map(|_| self.graph.add_block()).collect();
        self.baseline = Some(Baseline { begins, defined: Vec::new() });
        self.defs.home = Bits::all(self.defs.len());
        for (block, content) in (0..).map(BlockId).zip(&self.decoded.blocks) {
            let begin = self.begin_of(block);
            self.enter_piece(begin);
            let ops = content.ops.clone();
            for pc in ops.clone() {
                (self.pc, self.exit) = (pc, None);
                if pc > ops.start && (pc - ops.start).is_multiple_of(MAX_PIECE_OPS) {
                    self.flush_to_slots();
                    let (from, next) = (self.current, self.graph.add_block());
                    self.graph.blocks[from].terminator = Terminator::Jump(Branch { target: next, ..Branch::default() });
                    self.enter_piece(next);
                }
                let op = self.decoded.ops[pc as usize];
                if op.is_terminator() {
                    self.terminate_baseline(op);
                } else if self.reads_many() || !jit::build(op, self) {
                    self.execute_baseline(op);
                }
            }
        }
        // The interpreter may enter at any block. It seldom does, so the entries come last.
        for (block, content) in (0..).map(BlockId).zip(&self.decoded.blocks) {
            let entry = self.open(Some(Entry { pc: content.ops.start, resumes: false, native: false }));
            self.graph.order.push(entry);
            let target = self.begin_of(block);
            self.graph.blocks[entry].terminator = Terminator::Jump(Branch { target, ..Branch::default() });
        }
    }

    fn begin_of(&self, block: BlockId) -> BlockIndex {
        self.baseline.as_ref().map_or(BlockIndex::NONE, |baseline| baseline.begins[block.index()])
    }

    /// Begins a piece: no slot has a definition.
    fn enter_piece(&mut self, block: BlockIndex) {
        self.forget();
        self.graph.order.push(block);
        self.select(block);
    }

    fn forget(&mut self) {
        if let Some(baseline) = &mut self.baseline {
            baseline.defined.drain(..).for_each(|slot| self.defs.home.insert(slot.into()));
        }
    }

    /// Notes that a slot has a definition.
    pub(super) fn note_defined(&mut self, slot: usize) {
        if let Some(baseline) = &mut self.baseline {
            baseline.defined.push(slot as u16);
        }
    }

    /// The slots that have a definition in the current piece.
    pub(super) fn defined(&self) -> SmallVec<[usize; 16]> {
        let defined = self.baseline.iter().flat_map(|baseline| &baseline.defined);
        defined.map(|slot| usize::from(*slot)).collect()
    }

    /// Flushes all definitions to the slots.
    fn flush_to_slots(&mut self) {
        let exit = self.exit_with(self.defined());
        if !self.graph.exit(exit).frame_state.is_empty() {
            let node = self.push(Kind::FlushToSlots, Ty::Nothing, SmallVec::new(), Some(exit));
            self.graph.blocks[self.current].nodes.push(node);
        }
    }

    fn terminate_baseline(&mut self, op: Op) {
        self.graph.terminator_ops.push((self.current, self.pc));
        let edges = native_edges(op);
        if edges.is_empty() || moves_refs(self.decoded, &edges) && !can_move(self.context.function) {
            let kind = if matches!(op, Op::Return { .. }) { SideExitKind::Return } else { SideExitKind::Op };
            let exit = self.exit_with(self.defined());
            self.graph.blocks[self.current].terminator = Terminator::SideExit(kind, exit);
            return;
        }
        let test = self.tested(op);
        self.flush_to_slots();
        let from = self.current;
        let branches: SmallVec<[Branch; 2]> = edges.iter().map(|edge| self.branch_baseline(*edge)).collect();
        self.graph.blocks[from].terminator = match (test, &branches[..]) {
            (Some((test, false)), [then, otherwise]) => Terminator::Branch(test, [then.clone(), otherwise.clone()]),
            (Some((test, true)), [then, otherwise]) => Terminator::Branch(test, [otherwise.clone(), then.clone()]),
            (_, [only, ..]) => Terminator::Jump(only.clone()),
            (_, []) => Terminator::Open,
        };
    }

    /// The truth value that a conditional branch tests, and whether its first edge is taken if that is false.
    pub(super) fn tested(&mut self, op: Op) -> Option<(NodeId, bool)> {
        let Op::CondBr { condition, .. } = op else { return None };
        let condition = self.read(Scalar::I32, condition);
        let tested = self.truth_or_negation(condition);
        Some(tested.unwrap_or_else(|| (self.primitive(Primitive::IsNonzero, Scalar::I32, &[condition]), false)))
    }

    /// A branch at the end of a piece. If the edge copies registers, it leads through a block that does.
    fn branch_baseline(&mut self, id: EdgeId) -> Branch {
        let decoded = self.decoded;
        let edge = decoded.edge(id);
        let target = self.begin_of(edge.target);
        let limits_exit = (edge.entry <= self.pc).then(|| self.limits_exit());
        let branch = Branch { target, limits_exit, ..Branch::default() };
        let remaps = decoded.remaps(edge);
        if remaps.is_empty() {
            return branch;
        }
        let copies = self.graph.add_block();
        self.enter_piece(copies);
        for remap in remaps.iter().filter(|remap| !remap.source.is_ref()) {
            let (source, target) = (remap.source.reg().index(), remap.target.reg().index());
            self.copy_slot(target, source);
        }
        self.flush_to_slots();
        let moves = moves_of_own(self.context.function, edge);
        let mut last = copies;
        if !moves.is_empty() {
            last = self.move_references(moves, &Bits::new(self.defs.len()), edge.entry);
            self.graph.order.push(last);
            self.defs.home = Bits::all(self.defs.len());
        }
        self.graph.blocks[last].terminator = Terminator::Jump(branch);
        self.forget();
        Branch { target: copies, ..Branch::default() }
    }

    /// Builds an op that the runtime or the interpreter executes, with all definitions flushed.
    fn execute_baseline(&mut self, op: Op) {
        let direct = self.direct_call(op);
        let exit = self.exit_with(self.defined());
        self.execute_by_runtime(op, exit, direct);
        self.forget();
    }
}
