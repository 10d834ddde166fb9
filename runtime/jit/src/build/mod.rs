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
mod calls;
mod defs;
mod exits;
mod fold;
mod ops;
mod partial_inlining;
mod zeroing_elision;

use smallvec::SmallVec;

use crate::analysis::block_liveness::BlockLiveness;
use crate::analysis::calls::FunctionContext;
use crate::analysis::constants::{ConstantSlots, Constants, Known, apply};
use crate::analysis::loops::{self, LoopHeader, moves_refs, native_edges};
use crate::analysis::typed_liveness::{Read, TypedLiveness, is_pair};
use crate::bytecode::{BlockId, Callee, Decoded, Op, Reg};
use crate::generated::vm::jit;
use crate::generated::vm::primitive::Primitive;
use crate::ir::bits::Bits;
use crate::ir::graph::{
    Branch, CompileMode, Entry, ExitId, Graph, Kind, NativeKind, NativeTerminator, Node, NodeId, Nodes, Part, Passed,
    RuntimeOp, SideExitKind, Terminator,
};
use crate::ir::hash::Table;
use crate::ir::types::{Effect, Scalar, Ty};
use defs::{Def, Defs};

/// Ops that select from longer lists of registers are left to the runtime: each entry is looked at.
const MAX_TABLE: usize = 64;
/// Functions with more ops than this are left to the interpreter.
const MAX_OPS: usize = 1 << 17;
/// Of functions with more slots or entries of tables than this, values are in slots.
const MAX_SLOTS: usize = 1 << 12;
const MAX_ENTRIES: usize = 1 << 22;
/// Most constants and exits.
const MAX_SAVED: usize = 1 << 20;

/// A branch that leads to a block that has no code yet.
struct Incoming {
    from: usize,
    /// Whether it is the second branch of its block.
    second: bool,
    defs: Defs,
}

/// What a block takes: the slot, and what it is read as.
#[derive(Clone, Copy)]
struct Taken {
    slot: u16,
    of: Scalar,
}

impl Taken {
    fn slots(self) -> u16 {
        1 + u16::from(self.of.is_wide())
    }
}

/// What a block takes, in the order of the slots.
type Takens = SmallVec<[Taken; 16]>;

/// Builds the nodes of one function; generated code calls it for each op.
pub(crate) struct Builder<'a> {
    decoded: &'a Decoded,
    context: FunctionContext<'a>,
    /// The arguments, if compiled code may call the function.
    arguments_if_called: Option<Vec<Passed>>,
    liveness: TypedLiveness<'a>,
    known: Constants,
    /// What is known before the op that is being built.
    here: ConstantSlots,
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
    late: Vec<usize>,
    /// For each block of the function that is a loop, the block of the graph and what it takes.
    headers: Table<usize, (usize, Takens)>,
    constants: Table<(u64, Scalar), NodeId>,
    /// For each slot the constant that was last known to be there: it often stays.
    recent: Vec<Option<(u64, Scalar, NodeId)>>,
    numbered: Table<(Kind, SmallVec<[NodeId; 3]>), NodeId>,
    frame_state_values: usize,
    failed: bool,
    /// If values are in slots wherever a block of the graph ends.
    in_slots: Option<baseline::InSlots>,
}

/// Builds the intermediate form of a function; none if it is out of proportion.
pub(crate) fn build(context: FunctionContext<'_>, mode: CompileMode) -> Option<Graph> {
    let in_slots = mode == CompileMode::Baseline;
    let FunctionContext { function, module, .. } = context;
    let decoded = function.decoded();
    if decoded.ops.len() > MAX_OPS || function.slots() > MAX_SLOTS && !in_slots {
        return None;
    }
    let liveness =
        if in_slots { TypedLiveness::of_ops(function, module)? } else { TypedLiveness::new(function, module)? };
    let mut builder = Builder {
        decoded,
        context,
        arguments_if_called: context.arguments().filter(|_| !in_slots),
        known: if in_slots { Constants::default() } else { Constants::new(function, &liveness)? },
        liveness,
        here: ConstantSlots::default(),
        graph: Graph::default(),
        current: 0,
        defs: Defs::new(function.slots()),
        pc: 0,
        exit: None,
        at_op: BlockLiveness::default(),
        incoming: decoded.blocks.iter().map(|_| Vec::new()).collect(),
        late: Vec::new(),
        headers: Table::default(),
        constants: Table::default(),
        recent: vec![None; function.slots()],
        numbered: Table::default(),
        frame_state_values: 0,
        failed: false,
        in_slots: None,
    };
    // About as many as there will be.
    builder.graph.nodes.reserve(2 * decoded.ops.len() + 12);
    builder.graph.origins.reserve(2 * decoded.ops.len() + 12);
    builder.graph.exits.reserve(decoded.ops.len());
    builder.graph.blocks.reserve(decoded.ops.len() / 2 + decoded.blocks.len() + 4);
    if in_slots {
        builder.build_in_slots();
        return (!builder.failed).then_some(builder.graph);
    }
    let headers = loops::loop_headers(decoded, &builder.liveness);
    for (block, header) in headers.into_iter().enumerate() {
        builder.block(block, header)?;
    }
    let late = std::mem::take(&mut builder.late);
    builder.graph.order.extend(late);
    (!builder.failed).then_some(builder.graph)
}

impl<'a> Builder<'a> {
    fn block(&mut self, block: usize, header: Option<LoopHeader>) -> Option<()> {
        let ops = self.decoded.blocks[block].ops.clone();
        if (ops.len()).checked_mul(self.defs.len())? > MAX_ENTRIES || self.frame_state_values > MAX_SAVED || self.failed
        {
            return None;
        }
        // What is constant where such a block leads to does not hold there, so nothing may come from it.
        if !self.known.is_reached(block) {
            return Some(());
        }
        self.pc = ops.start;
        self.at_op.begin(&self.liveness, ops.clone(), self.defs.len());
        self.here.begin(self.known.entry(block));
        self.begin(block, header);
        for pc in ops.clone() {
            if pc > ops.start {
                self.at_op.advance();
                apply(self.decoded, &self.liveness, pc - 1, &mut self.here);
            }
            (self.pc, self.exit) = (pc, None);
            let op = self.decoded.ops[pc as usize];
            if op.is_terminator() {
                self.terminate(op);
            } else if self.reads_many() || !jit::build(op, self) {
                self.leave(op);
            }
        }
        Some(())
    }

    /// Whether the op reads more registers than one should that is made of primitives.
    fn reads_many(&self) -> bool {
        self.liveness.reads(self.pc).nth(2 * MAX_TABLE).is_some()
    }

    /// The reads before the op that is being built, or the one behind it.
    fn reads_before(&self, pc: u32) -> &[Read] {
        if pc == self.pc { &self.at_op.before.reads } else { &self.at_op.after.reads }
    }

    /// Makes the block of the graph in which the ops of a block begin.
    fn begin(&mut self, block: usize, header: Option<LoopHeader>) {
        let incoming = std::mem::take(&mut self.incoming[block]);
        let pc = self.pc;
        let reads: SmallVec<[Read; 64]> = SmallVec::from_slice(self.liveness.entry(BlockId(block as u32)));
        if block == 0 || incoming.is_empty() {
            // The interpreter may enter here: at the beginning, and where only it comes from.
            let entry = self.open(Some(Entry { pc, resumes: false, native: false }));
            let taken = taken(&reads);
            self.take_slots(&taken);
            let first = Incoming { from: entry, second: false, defs: self.defs.clone() };
            if block == 0
                && let Some(called) = self.called(&taken)
            {
                self.late.push(entry);
                if header.is_some() {
                    return self.header(block, pc, &reads, vec![first, called], false);
                }
                let new = self.open(None);
                self.graph.order.push(new);
                return self.merge(new, &reads, &[first, called]);
            }
            self.graph.order.push(entry);
            if header.is_some() {
                self.header(block, pc, &reads, vec![first], false);
            }
            return;
        }
        if let Some(header) = header {
            return self.header(block, pc, &reads, incoming, header == LoopHeader::OsrEntry);
        }
        let new = self.open(None);
        self.graph.order.push(new);
        self.merge(new, &reads, &incoming);
    }

    /// The block in front of a loop, and the loop's first block.
    fn header(&mut self, block: usize, pc: u32, reads: &[Read], mut incoming: Vec<Incoming>, outside: bool) {
        let preheader = self.open(None);
        self.graph.order.push(preheader);
        let all = taken(reads);
        let (taken, known) = self.unknown(all.clone());
        if outside {
            let entry = self.open(Some(Entry { pc, resumes: false, native: false }));
            self.late.push(entry);
            self.take_slots(&all);
            let defs = self.defs.clone();
            incoming.push(Incoming { from: entry, second: false, defs });
        }
        self.parameters(preheader, &taken);
        self.define_all(&known);
        self.connect(preheader, &taken, &incoming);
        // What is moved out of the loop leaves the code as if the loop was about to begin.
        self.pc = pc;
        let exit = self.exit_here();
        self.graph.blocks[preheader].preheader_exit = Some(exit);
        let args = self.arguments(preheader, &taken, &self.defs.clone());
        let header = self.open(None);
        self.graph.order.push(header);
        self.graph.blocks[preheader].terminator =
            Terminator::Jump(Branch { target: header, args, ..Branch::default() });
        self.parameters(header, &taken);
        self.define_all(&known);
        let state = self.exit_here();
        self.graph.blocks[header].header_exit = Some(state);
        self.headers.insert(block, (header, taken));
    }

    /// Begins a block whose branches come from `incoming`.
    fn merge(&mut self, block: usize, reads: &[Read], incoming: &[Incoming]) {
        if let [only] = incoming {
            self.defs = only.defs.clone();
            return self.connect(block, &[], incoming);
        }
        let first = &incoming[0].defs;
        let same = |slot: usize| incoming.iter().all(|one| one.defs.same(first, slot));
        let (taken, known) = self.unknown(taken(reads));
        let (kept, differing): (Takens, Takens) =
            taken.into_iter().partition(|one| (one.slot..one.slot + one.slots()).all(|slot| same(slot.into())));
        self.parameters(block, &differing);
        self.define_all(&known);
        self.connect(block, &differing, incoming);
        for slot in kept.iter().flat_map(|one| one.slot..one.slot + one.slots()).map(usize::from) {
            self.defs.copy(slot, first);
        }
    }

    /// Gives a block a parameter for each thing it takes, and goes on in it.
    fn parameters(&mut self, block: usize, taken: &[Taken]) {
        self.select(block);
        self.defs.fill(None);
        for one in taken {
            let node = self.push(Kind::Parameter, Ty::Scalar(one.of), SmallVec::new(), None);
            self.graph.blocks[block].parameters.push(node);
            self.define(one.of, one.slot.into(), node);
        }
    }

    /// Splits what a block takes: what is known is not brought to it. Gives what has to be, and the constants.
    fn unknown(&mut self, taken: impl IntoIterator<Item = Taken>) -> (Takens, SmallVec<[(Taken, NodeId); 8]>) {
        let (mut unknown, mut known) = (SmallVec::new(), SmallVec::new());
        for one in taken {
            match self.known(one) {
                Some(node) => known.push((one, node)),
                None => unknown.push(one),
            }
        }
        (unknown, known)
    }

    fn define_all(&mut self, known: &[(Taken, NodeId)]) {
        known.iter().for_each(|(one, node)| self.define(one.of, one.slot.into(), *node));
    }

    /// Fills in branches that lead to `block`. The state of the builder is that of `block` before and after.
    fn connect(&mut self, block: usize, taken: &[Taken], incoming: &[Incoming]) {
        let defs = (!taken.is_empty()).then(|| self.defs.clone());
        for one in incoming {
            let args = if taken.is_empty() { Nodes::new() } else { self.arguments(one.from, taken, &one.defs) };
            match &mut self.graph.blocks[one.from].terminator {
                Terminator::Jump(branch) if !one.second => (branch.target, branch.args) = (block, args),
                Terminator::Branch(_, then, otherwise) => {
                    let branch = if one.second { otherwise } else { then };
                    (branch.target, branch.args) = (block, args);
                }
                end => *end = Terminator::Jump(Branch { target: block, args, ..Branch::default() }),
            }
        }
        if let Some(defs) = defs {
            self.defs = defs;
        }
        self.select(block);
    }

    /// What a branch at the end of `from` brings.
    fn arguments(&mut self, from: usize, taken: &[Taken], defs: &Defs) -> Nodes {
        self.select(from);
        self.defs = defs.clone();
        taken.iter().map(|one| self.read(one.of, Reg(one.slot))).collect()
    }

    /// Defines what is taken by what the slots hold.
    fn take_slots(&mut self, taken: &[Taken]) {
        self.defs.fill(None);
        self.add_slots(taken);
    }

    /// The same besides what is defined already.
    fn add_slots(&mut self, taken: &[Taken]) {
        for one in taken {
            match self.known(*one) {
                Some(node) => self.define(one.of, one.slot.into(), node),
                None => _ = self.slot(*one),
            }
        }
    }

    /// The value that a slot holds since code was entered.
    fn slot(&mut self, taken: Taken) -> NodeId {
        let node = self.place(Kind::Slot(taken.slot), Ty::Scalar(taken.of), SmallVec::new(), false);
        self.define(taken.of, taken.slot.into(), node);
        node
    }

    /// Lets a slot hold what another one holds.
    fn copy_slot(&mut self, to: usize, from: usize) {
        if self.defs.home.contains(from) {
            // As what it is read on the way.
            let reads = &self.at_op.before.reads;
            let first = from - usize::from(from > 0 && is_pair(reads, from - 1));
            let is_in_slot =
                |one: &Taken| (one.slot..one.slot + one.slots()).all(|slot| self.defs.home.contains(slot.into()));
            let taken = taken_at(reads, first).filter(is_in_slot);
            self.slot(taken.unwrap_or(Taken { slot: from as u16, of: Scalar::I32 }));
        }
        self.defs.copy_within(to, from);
        self.note_defined(to);
    }

    /// The constant that a slot holds here in any case.
    fn known(&mut self, taken: Taken) -> Option<NodeId> {
        let at = |slot: usize| match self.here[slot] {
            Known::Constant(bits) => Some(u64::from(bits)),
            _ => None,
        };
        let slot = usize::from(taken.slot);
        let bits = if taken.of.is_wide() { at(slot)? | at(slot + 1)? << 32 } else { at(slot)? };
        if let Some((known, of, node)) = self.recent[slot]
            && (known, of) == (bits, taken.of)
        {
            return Some(node);
        }
        let node = self.constant(taken.of, bits);
        self.recent[slot] = Some((bits, taken.of, node));
        Some(node)
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

    fn define(&mut self, of: Scalar, slot: usize, node: NodeId) {
        self.note_defined(slot);
        let is_constant = self.graph.constant(node).is_some();
        let mut define = |slot, part| self.defs.define(slot, Def { node, part }, is_constant);
        if of.is_wide() {
            define(slot, Part::Low);
            define(slot + 1, Part::High);
            self.note_defined(slot + 1);
        } else {
            define(slot, Part::Whole);
        }
    }

    fn cast(&mut self, node: NodeId, of: Scalar) -> NodeId {
        let from = self.graph.node(node).scalar();
        if from == of {
            return node;
        }
        if let Some(bits) = self.graph.constant(node) {
            return self.constant(of, bits);
        }
        // There and back again is where it came from.
        if self.graph.node(node).kind == Kind::Cast {
            let inner = self.graph.node(node).args[0];
            return self.cast(inner, of);
        }
        self.add(Kind::Cast, Ty::Scalar(of), &[node], false)
    }

    /// The 32 bits in a slot as an integer.
    fn narrow(&mut self, slot: usize) -> NodeId {
        if self.defs.home.contains(slot) {
            return self.slot(Taken { slot: slot as u16, of: Scalar::I32 });
        }
        let Some(Def { node, part }) = self.defs.get(slot) else {
            self.failed = true;
            return self.constant(Scalar::I32, 0);
        };
        if part == Part::Whole {
            return self.cast(node, Scalar::I32);
        }
        let wide = self.cast(node, Scalar::I64);
        if let Some(bits) = self.graph.constant(wide) {
            let half = if part == Part::Low { bits & u64::from(u32::MAX) } else { bits >> 32 };
            return self.constant(Scalar::I32, half);
        }
        let kind = if part == Part::Low { Kind::Low } else { Kind::High };
        self.add(kind, Ty::Scalar(Scalar::I32), &[wide], false)
    }

    fn terminate(&mut self, op: Op) {
        self.graph.terminator_ops.push((self.current, self.pc));
        if let Op::Return { operands } = op {
            self.returned(operands);
        }
        let edges = native_edges(op);
        if edges.is_empty() || moves_refs(self.decoded, &edges) {
            let kind = if matches!(op, Op::Return { .. }) { SideExitKind::Return } else { SideExitKind::Op };
            let exit = self.exit_here();
            self.graph.blocks[self.current].terminator = Terminator::SideExit(kind, exit);
            return;
        }
        let from = self.current;
        let test = self.tested(op);
        let branch = Branch::default();
        self.graph.blocks[from].terminator = match test {
            Some(test) => Terminator::Branch(test, branch.clone(), branch),
            None => Terminator::Jump(branch),
        };
        let mut second = (edges.len() > 1).then(|| self.defs.clone());
        for (index, id) in edges.iter().enumerate() {
            let edge = self.decoded.edge(*id);
            if index > 0
                && let Some(defs) = second.take()
            {
                self.defs = defs;
            }
            if edge.entry <= self.pc {
                let exit = self.count_exit();
                self.graph.branches_mut(from)[index].limits_exit = Some(exit);
            }
            for remap in self.decoded.remaps(edge) {
                self.copy_slot(remap.target.reg().index(), remap.source.reg().index());
            }
            let incoming = Incoming { from, second: index == 1, defs: self.defs.clone() };
            if edge.entry > self.pc {
                self.incoming[edge.target.index()].push(incoming);
            } else if let Some((header, taken)) = self.headers.get(&edge.target.index()) {
                let (header, taken) = (*header, taken.clone());
                self.connect(header, &taken, &[incoming]);
                self.select(from);
            } else {
                self.failed = true;
            }
        }
    }

    /// Lets the interpreter execute an op, and goes on behind it.
    fn leave(&mut self, op: Op) {
        if let Op::Call { call } = op
            && self.native_call(call)
        {
            return;
        }
        // The next op does it again, which changes nothing.
        apply(self.decoded, &self.liveness, self.pc, &mut self.here);
        let home = self.behind();
        let exit = self.exit_and_back(&home);
        self.leave_at(op, exit);
        self.defs.leave(home);
    }

    /// Ends the block with an op that the runtime or the interpreter executes, and begins the one behind it.
    fn leave_at(&mut self, op: Op, exit: ExitId) {
        let (from, is_filled) = (self.current, self.is_filled(op));
        let called = match op {
            Op::Call { call } | Op::CallVariadic { call } => Some((call, self.decoded.call(call).callee)),
            _ => None,
        };
        let is_inside = matches!(called, Some((_, Callee::Function(_))));
        let kind = if is_inside { SideExitKind::Call } else { SideExitKind::Op };
        self.graph.blocks[from].terminator = Terminator::SideExit(kind, exit);
        // An import may wait. The interpreter then makes the call again, and comes back.
        let entry = Entry { pc: self.pc + 1, resumes: is_inside, native: !is_inside && called.is_none() };
        let new = self.open(Some(entry));
        self.graph.order.push(new);
        if !is_inside {
            let op = RuntimeOp { continuation: new, import: called.map(|(call, _)| call), is_filled };
            self.graph
                .native_terminators
                .insert(from, NativeTerminator { values: Vec::new(), kind: NativeKind::Op(op) });
        }
    }

    /// What the block behind the op that is being built may read, besides constants. All slots that hold these are defined by them.
    fn behind(&mut self) -> Bits {
        let lost: SmallVec<[usize; 4]> =
            (self.defs.computed(&self.at_op.after.live)).filter(|slot| self.here.constants.contains(*slot)).collect();
        for slot in lost {
            if let Some(node) = self.known(Taken { slot: slot as u16, of: Scalar::I32 }) {
                self.define(Scalar::I32, slot, node);
            }
        }
        self.at_op.after.live.without(&self.here.constants)
    }
}

/// What a block takes whose slots are read like this, in order.
fn taken(reads: &[Read]) -> Takens {
    let mut all = SmallVec::new();
    let mut slot = 0;
    while slot < reads.len() {
        let one = taken_at(reads, slot);
        slot += one.map_or(1, |one| usize::from(one.slots()));
        all.extend(one);
    }
    all
}

/// What it takes from a slot on which is not the high half of a pair.
fn taken_at(reads: &[Read], slot: usize) -> Option<Taken> {
    let of = match reads.get(slot)? {
        Read::Never => return None,
        Read::Float => Scalar::F32,
        Read::Wide if is_pair(reads, slot) => Scalar::I64,
        Read::WideFloat if is_pair(reads, slot) => Scalar::F64,
        _ => Scalar::I32,
    };
    Some(Taken { slot: slot as u16, of })
}
