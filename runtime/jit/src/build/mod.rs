//! From a verified function to the intermediate form.
//!
//! Slots become values as they are written and read. A 64-bit value is one node, whose halves are in a pair of slots; halves of
//! different values that are read as one are put together. What comes to a loop from before it passes a block in front of it, which
//! is also where code that the interpreter has begun enters the loop.
//!
//! The builder is called by the plan of a function, and by the code that is generated for each op, which names it at the root of the
//! crate. `ops`, `calls`, `fills` and `short` make what generated code does not, `fold` computes what is known already, `defs` and `exits`
//! keep what slots hold, and `in_slots` builds functions whose values stay in memory. The room uses `ir`, `analysis` and the bytecode, but
//! nothing of the processor, of passes or of machine code.

mod baseline;
mod blocks;
mod calls;
mod defs;
mod exits;
mod fold;
mod ops;
mod partial_inlining;
mod slots;
mod terminators;
mod zeroing_elision;

use smallvec::SmallVec;

use crate::analysis::block_liveness::BlockLiveness;
use crate::analysis::calls::FunctionContext;
use crate::analysis::constants::{ConstantSlots, Constants, apply};
use crate::analysis::loops::{self, LoopHeader};
use crate::analysis::typed_liveness::{Read, TypedLiveness};
use crate::bytecode::Decoded;
use crate::generated::vm::jit;
use crate::ir::graph::{CompileMode, Entry, ExitId, Graph, Kind, Node, NodeId, Passed};
use crate::ir::hash::Table;
use crate::ir::types::{Effect, Scalar, Ty};
use blocks::{Incoming, LiveIns};
use defs::Defs;

/// Ops that select from longer lists of registers are left to the runtime: each entry is looked at.
const MAX_TABLE_ENTRIES: usize = 64;
/// Functions with more ops than this are left to the interpreter.
const MAX_OPS: usize = 1 << 17;
/// Of functions with more slots or entries of tables than this, values are in slots.
const MAX_SLOTS: usize = 1 << 12;
const MAX_LIVENESS_ENTRIES: usize = 1 << 22;
/// Most constants and exits.
const MAX_FRAME_STATE_VALUES: usize = 1 << 20;

/// Builds the nodes of one function; generated code calls it for each op.
pub(crate) struct Builder<'a> {
    decoded: &'a Decoded,
    context: FunctionContext<'a>,
    /// The arguments, if compiled code may call the function.
    arguments_if_called: Option<Vec<Passed>>,
    liveness: TypedLiveness<'a>,
    entry_constants: Constants,
    /// What is known before the op that is being built.
    slot_constants: ConstantSlots,
    graph: Graph,
    current: usize,
    defs: Defs,
    pc: u32,
    /// Where code is left if the op at `pc` traps, once there is such an exit.
    exit: Option<ExitId>,
    /// The op that is being built, and the reads around it.
    at_op: BlockLiveness,
    incoming: Vec<Vec<Incoming>>,
    /// Blocks that are laid out behind all others.
    cold: Vec<usize>,
    /// For each block of the function that is a loop, the block of the graph and what it takes.
    headers: Table<usize, (usize, LiveIns)>,
    constant_nodes: Table<(u64, Scalar), NodeId>,
    /// For each slot the constant that was last known to be there: it often stays.
    recent: Vec<Option<(u64, Scalar, NodeId)>>,
    numbered: Table<(Kind, SmallVec<[NodeId; 3]>), NodeId>,
    frame_state_values: usize,
    failed: bool,
    /// If values are in slots wherever a block of the graph ends.
    baseline: Option<baseline::Baseline>,
}

/// Builds the intermediate form of a function; none if it is out of proportion.
pub(crate) fn build(context: FunctionContext<'_>, mode: CompileMode) -> Option<Graph> {
    let is_baseline = mode == CompileMode::Baseline;
    let FunctionContext { function, module, .. } = context;
    let decoded = function.decoded();
    if decoded.ops.len() > MAX_OPS || function.slots() > MAX_SLOTS && !is_baseline {
        return None;
    }
    let liveness =
        if is_baseline { TypedLiveness::of_ops(function, module)? } else { TypedLiveness::new(function, module)? };
    let mut builder = Builder {
        decoded,
        context,
        arguments_if_called: context.arguments().filter(|_| !is_baseline),
        entry_constants: if is_baseline { Constants::default() } else { Constants::new(function, &liveness)? },
        liveness,
        slot_constants: ConstantSlots::default(),
        graph: Graph::default(),
        current: 0,
        defs: Defs::new(function.slots()),
        pc: 0,
        exit: None,
        at_op: BlockLiveness::default(),
        incoming: decoded.blocks.iter().map(|_| Vec::new()).collect(),
        cold: Vec::new(),
        headers: Table::default(),
        constant_nodes: Table::default(),
        recent: vec![None; function.slots()],
        numbered: Table::default(),
        frame_state_values: 0,
        failed: false,
        baseline: None,
    };
    // About as many as there will be.
    builder.graph.nodes.reserve(2 * decoded.ops.len() + 12);
    builder.graph.origins.reserve(2 * decoded.ops.len() + 12);
    builder.graph.exits.reserve(decoded.ops.len());
    builder.graph.blocks.reserve(decoded.ops.len() / 2 + decoded.blocks.len() + 4);
    if is_baseline {
        builder.build_baseline();
        return (!builder.failed).then_some(builder.graph);
    }
    let headers = loops::loop_headers(decoded, &builder.liveness);
    for (block, header) in headers.into_iter().enumerate() {
        builder.block(block, header)?;
    }
    let cold = std::mem::take(&mut builder.cold);
    builder.graph.order.extend(cold);
    (!builder.failed).then_some(builder.graph)
}

impl<'a> Builder<'a> {
    fn block(&mut self, block: usize, header: Option<LoopHeader>) -> Option<()> {
        let ops = self.decoded.blocks[block].ops.clone();
        if (ops.len()).checked_mul(self.defs.len())? > MAX_LIVENESS_ENTRIES
            || self.frame_state_values > MAX_FRAME_STATE_VALUES
            || self.failed
        {
            return None;
        }
        // What is constant where such a block leads to does not hold there, so nothing may come from it.
        if !self.entry_constants.is_reached(block) {
            return Some(());
        }
        self.pc = ops.start;
        self.at_op.begin(&self.liveness, ops.clone(), self.defs.len());
        self.slot_constants.begin(self.entry_constants.entry(block));
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
            } else if self.reads_many() || !jit::build(op, self) {
                self.execute(op);
            }
        }
        Some(())
    }

    /// Whether the op reads more registers than one should that is made of primitives.
    fn reads_many(&self) -> bool {
        self.liveness.reads(self.pc).nth(2 * MAX_TABLE_ENTRIES).is_some()
    }

    /// The reads before the op that is being built, or the one behind it.
    fn reads_before(&self, pc: u32) -> &[Read] {
        if pc == self.pc { &self.at_op.before.reads } else { &self.at_op.after.reads }
    }

    /// A new block, which is gone on in.
    fn open(&mut self, entry: Option<Entry>) -> usize {
        let block = self.graph.add_block();
        self.graph.blocks[block].entry = entry;
        self.select(block);
        block
    }

    fn select(&mut self, block: usize) {
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

    /// A node of the current block, or one that gives the same already.
    fn add(&mut self, kind: Kind, ty: Ty, args: &[NodeId], exit: bool) -> NodeId {
        let effect = match kind {
            Kind::Primitive(primitive, _) => primitive.effect(),
            _ => Effect::Pure,
        };
        let args: SmallVec<[NodeId; 3]> = SmallVec::from_slice(args);
        if let Effect::Load | Effect::Store = effect {
            return self.place(kind, ty, args, exit);
        }
        let key = (kind, args);
        if let Some(known) = self.numbered.get(&key) {
            return *known;
        }
        let node = self.place(kind, ty, SmallVec::from_slice(&key.1), exit);
        self.numbered.insert(key, node);
        node
    }

    /// A new node at the end of the current block.
    fn place(&mut self, kind: Kind, ty: Ty, args: SmallVec<[NodeId; 3]>, exit: bool) -> NodeId {
        let exit = exit.then(|| self.trap_exit());
        let node = self.push(kind, ty, args, exit);
        self.graph.blocks[self.current].nodes.push(node);
        node
    }
}
