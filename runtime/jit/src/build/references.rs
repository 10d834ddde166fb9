//! References that branches move: the blocks that move references in the frame where holders have to change
//! (`analysis/references.rs`).

use smallvec::{SmallVec, smallvec};

use super::builder::FunctionBuilder;
use crate::analysis::typed_liveness::Read;
use crate::bytecode::{BlockId, Edge};
use crate::ir::bits::Bits;
use crate::ir::graph::{
    BlockIndex, Branch, Entry, NativeKind, NativeTerminator, RefMove, RuntimeOp, SideExitKind, Terminator,
};

impl FunctionBuilder<'_> {
    /// Begins a block of the bytecode.
    pub(super) fn begin_references(&mut self, block: BlockId) {
        self.refs.begin(self.decoded, &self.liveness, block);
    }

    /// Opens an entry at which the interpreter enters a block, with each reference in its own register, and moves
    /// references to their holders. Gives the blocks that do so; the last one is selected.
    pub(super) fn interpreter_entry(&mut self, pc: u32) -> SmallVec<[BlockIndex; 2]> {
        let mut blocks = smallvec![self.open(Some(Entry { pc, resumes: false, native: false }))];
        let moves = self.refs.moves_from_own(pc);
        if !moves.is_empty() {
            self.defs.fill(None);
            let live = Bits::new(self.defs.len());
            blocks.push(self.move_references(moves, &live, pc));
        }
        blocks
    }

    /// Moves all references that are live to their own registers, before an op that the runtime or the interpreter
    /// executes.
    pub(super) fn settle_references(&mut self) {
        let moves = self.refs.moves_at(self.pc);
        if !moves.is_empty() {
            let live = self.at_op.before.live.clone();
            let block = self.move_references(moves, &live, self.pc);
            self.graph.order.push(block);
            self.exit = None;
        }
        self.refs.settle();
    }

    /// Whether an op reads a register that is null because its reference was moved away.
    pub(super) fn reads_moved(&self) -> bool {
        let is_moved = |register: usize| self.refs.holder(register).is_none();
        self.refs.renames() && self.liveness.ref_reads(self.pc).any(is_moved)
    }

    /// Moves references on a branch of a block, after the edge's copies of slots. Gives the block that leads to the
    /// target, which is selected.
    pub(super) fn move_on_edge(
        &mut self,
        (from, branch): (BlockIndex, usize),
        edge: &Edge,
        moves: Vec<RefMove>,
    ) -> BlockIndex {
        let moving = self.open(None);
        self.graph.order.push(moving);
        self.graph.branches_mut(from)[branch].target = moving;
        let mut live = Bits::new(self.defs.len());
        let reads = self.liveness.entry(edge.target).iter().enumerate();
        reads.filter(|(_, read)| **read != Read::Never).for_each(|(slot, _)| live.insert(slot));
        let block = self.move_references(moves, &live, edge.entry);
        self.graph.order.push(block);
        self.graph.blocks[block].terminator = Terminator::Jump(Branch::default());
        block
    }

    /// Ends the current block with moves of references in the frame. Selects the block after it, which continues at an
    /// op and loads the live slots that are not known to be constants. The caller lays it out.
    pub(super) fn move_references(&mut self, moves: Vec<RefMove>, live: &Bits, next: u32) -> BlockIndex {
        let mut home = live.clone();
        home.retain(&self.defs.home);
        let computed: SmallVec<[usize; 16]> = self.defs.computed(live).collect();
        computed.into_iter().for_each(|slot| home.insert(slot));
        let exit = self.exit_that_moves(&home, moves);
        let from = self.current;
        self.graph.blocks[from].terminator = Terminator::SideExit(SideExitKind::Op, exit);
        let continuation = self.open(Some(Entry { pc: next, resumes: false, native: true }));
        let op = RuntimeOp { continuation, import: None, is_filled: false, moves_refs: true, lent: None, direct: None };
        let terminator = NativeTerminator { values: Vec::new(), kind: NativeKind::Op(op) };
        self.graph.native_terminators.insert(from, terminator);
        self.defs.leave(home);
        continuation
    }
}
