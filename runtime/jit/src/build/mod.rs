//! The graph builder: it translates a verified function to SSA form, block by block and op by op.
//!
//! Writes to slots define values, and reads find them. A 64-bit value is one node, whose halves are in a pair of slots;
//! halves of different values that are read as one are joined. Each loop gets a preheader, through which all edges into
//! the loop lead, that of its OSR entry too.
//!
//! The plan of a function calls the builder, and the code that is generated for each op does, which names it at the
//! root of the crate. `blocks` and `terminators` make the blocks of the graph, `slots` and `defs` track the definitions
//! of slots, and `references` and `holders` the references that branches move; `exits` builds frame states. `ops` has
//! the methods that generated code calls, with constant folding in `fold`; `calls` and `partial_inlining` build native
//! calls, and `zeroing_elision` finds buffers that need not be zeroed. `baseline` builds functions in baseline mode.
//! The room uses `ir`, `analysis` and the bytecode, but nothing of the processor, of passes or of machine code.

mod baseline;
mod blocks;
mod builder;
mod calls;
mod defs;
mod exits;
mod fold;
mod holders;
mod ops;
mod partial_inlining;
mod references;
mod slots;
mod terminators;
mod zeroing_elision;

use smallvec::SmallVec;

use crate::analysis::block_liveness::BlockLiveness;
use crate::analysis::calls::FunctionContext;
use crate::analysis::constants::{ConstantSlots, Constants, apply};
use crate::analysis::loops::{self, LoopHeader};
use crate::analysis::references::References;
use crate::analysis::typed_liveness::{Read, TypedLiveness};
use crate::bytecode::BlockId;
use crate::generated::vm::jit;
use crate::ir::effort::Effort;
use crate::ir::graph::{BlockIndex, CompileMode, Entry, ExitId, Graph, Kind, Node, NodeId};
use crate::ir::hash::Table;
use crate::ir::types::{Effect, Ty};
pub(crate) use builder::FunctionBuilder;
use builder::MAX_TABLE_ENTRIES;
use defs::Defs;
use holders::RefState;

/// Functions with more ops than this are left to the interpreter.
const MAX_OPS: usize = 1 << 17;
/// Functions with more slots than this, or blocks with more pairs of ops and slots, are compiled in baseline mode.
const MAX_SLOTS: usize = 1 << 12;
const MAX_LIVENESS_ENTRIES: usize = 1 << 22;
/// Functions whose frame states have more values than this in all are compiled in baseline mode.
const MAX_FRAME_STATE_VALUES: usize = 1 << 20;

/// Builds the graph of a function; none if it is too large for the mode.
pub(crate) fn build(context: FunctionContext<'_>, mode: CompileMode) -> Option<Graph> {
    let is_baseline = mode == CompileMode::Baseline;
    let FunctionContext { function, module, .. } = context;
    let decoded = function.decoded();
    if decoded.ops.len() > MAX_OPS || function.slots() > MAX_SLOTS && !is_baseline {
        return None;
    }
    let effort = Effort::new(decoded.ops.len());
    let liveness = if is_baseline {
        TypedLiveness::of_ops(function, module)?
    } else {
        TypedLiveness::new(function, module, &effort)?
    };
    let references = if is_baseline { None } else { References::new(function, &liveness, &effort) };
    let mut builder = FunctionBuilder {
        decoded,
        context,
        arguments_if_called: context.arguments().filter(|_| !is_baseline),
        refs: RefState::new(references),
        entry_constants: if is_baseline { Constants::default() } else { Constants::new(function, &liveness, &effort)? },
        liveness,
        slot_constants: ConstantSlots::default(),
        graph: Graph { effort, ..Graph::default() },
        current: BlockIndex::NONE,
        defs: Defs::new(function.slots()),
        pc: 0,
        exit: None,
        at_op: BlockLiveness::default(),
        incoming: decoded.blocks.iter().map(|_| Vec::new()).collect(),
        cold: Vec::new(),
        laid_out_before: None,
        headers: Table::default(),
        constant_nodes: Table::default(),
        recent: vec![None; function.slots()],
        numbered: Table::default(),
        frame_state_values: 0,
        failed: false,
        baseline: None,
    };
    // About as many as most functions need.
    builder.graph.nodes.reserve(2 * decoded.ops.len() + 12);
    builder.graph.origins.reserve(2 * decoded.ops.len() + 12);
    builder.graph.exits.reserve(decoded.ops.len());
    let blocks = decoded.ops.len() / 2 + decoded.blocks.len() + 4;
    builder.graph.blocks.reserve(blocks);
    builder.graph.order.reserve(blocks);
    builder.graph.terminator_ops.reserve(decoded.blocks.len());
    builder.graph.native_terminators.reserve(decoded.ops.len() / 4);
    if is_baseline {
        builder.build_baseline();
        return (!builder.failed).then_some(builder.graph);
    }
    let headers = loops::loop_headers(decoded, &builder.liveness, builder.refs.analysis());
    for (block, header) in (0..).map(BlockId).zip(headers) {
        builder.block(block, header)?;
    }
    let cold = std::mem::take(&mut builder.cold);
    builder.graph.order.extend(cold);
    (!builder.failed).then_some(builder.graph)
}

impl<'a> FunctionBuilder<'a> {
    fn block(&mut self, block: BlockId, header: Option<LoopHeader>) -> Option<()> {
        let ops = self.decoded.block(block).ops.clone();
        if (ops.len()).checked_mul(self.defs.len())? > MAX_LIVENESS_ENTRIES
            || self.frame_state_values > MAX_FRAME_STATE_VALUES
            || self.failed
            || !self.graph.effort.spend(ops.len() + self.defs.len() * (1 + self.incoming[block.index()].len()))
        {
            return None;
        }
        // Constants of the successors of such a block are found without it, so it must not have a branch to them.
        if !self.entry_constants.is_reached(block) {
            return Some(());
        }
        self.pc = ops.start;
        self.at_op.begin(&self.liveness, ops.clone(), self.defs.len());
        self.slot_constants.begin(self.entry_constants.entry(block));
        self.begin_references(block);
        self.begin(block, header);
        for pc in ops.clone() {
            if pc > ops.start {
                self.at_op.advance();
                apply(self.decoded, &self.liveness, pc - 1, &mut self.slot_constants);
            }
            (self.pc, self.exit) = (pc, None);
            let op = self.decoded.ops[pc as usize];
            if op.is_terminator() {
                self.terminate(op);
            } else if self.is_released_next(op) {
                // The return releases the references.
            } else if self.reads_many() || self.reads_moved() || !jit::build(op, self) {
                self.execute(op);
            }
        }
        Some(())
    }

    /// Whether the op reads more registers than may become nodes.
    fn reads_many(&self) -> bool {
        self.liveness.reads_more_than(self.pc, 2 * MAX_TABLE_ENTRIES)
    }

    /// The next reads of all slots before the op that is being built, or before the one after it.
    fn reads_before(&self, pc: u32) -> &[Read] {
        if pc == self.pc { &self.at_op.before.reads } else { &self.at_op.after.reads }
    }

    /// Adds a block and selects it.
    fn open(&mut self, entry: Option<Entry>) -> BlockIndex {
        let block = self.graph.add_block();
        self.graph.blocks[block].entry = entry;
        self.select(block);
        block
    }

    fn select(&mut self, block: BlockIndex) {
        if block != self.current {
            self.numbered.clear();
        }
        self.current = block;
    }

    fn push(&mut self, kind: Kind, ty: Ty, args: SmallVec<[NodeId; 3]>, exit: Option<ExitId>) -> NodeId {
        self.graph.nodes.push(Node { kind, ty, args, exit });
        self.graph.origins.push(self.pc);
        NodeId(self.graph.nodes.len() as u32 - 1)
    }

    /// A node of the current block: a new one, or one with the same operation and operands (local value numbering).
    fn add(&mut self, kind: Kind, ty: Ty, args: &[NodeId], exit: bool) -> NodeId {
        let effect = match kind {
            Kind::Primitive(primitive, _) => primitive.effect(),
            _ => Effect::Pure,
        };
        let args: SmallVec<[NodeId; 3]> = SmallVec::from_slice(args);
        if let Effect::Load | Effect::Store = effect {
            return self.append(kind, ty, args, exit);
        }
        let key = (kind, args);
        if let Some(known) = self.numbered.get(&key) {
            return *known;
        }
        let node = self.append(kind, ty, SmallVec::from_slice(&key.1), exit);
        self.numbered.insert(key, node);
        node
    }

    /// Appends a node to the current block.
    fn append(&mut self, kind: Kind, ty: Ty, args: SmallVec<[NodeId; 3]>, exit: bool) -> NodeId {
        let exit = exit.then(|| self.trap_exit());
        let node = self.push(kind, ty, args, exit);
        self.graph.blocks[self.current].nodes.push(node);
        node
    }
}
