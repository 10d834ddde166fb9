//! Blocks of the graph: for each block of the bytecode, its entries, its parameters, the preheader and header if it
//! begins a loop, and the arguments of the branches that lead to it.

use smallvec::SmallVec;

use super::builder::{FunctionBuilder, Incoming, LiveIn, LiveIns};
use crate::analysis::loops::LoopHeader;
use crate::analysis::typed_liveness::{Read, is_pair};
use crate::bytecode::{BlockId, Reg};
use crate::ir::graph::{BlockIndex, Branch, Kind, NodeId, Nodes, Terminator};
use crate::ir::types::{Scalar, Ty};

impl FunctionBuilder<'_> {
    /// Makes the block of the graph in which the ops of a block of the bytecode begin.
    pub(super) fn begin(&mut self, block: BlockId, header: Option<LoopHeader>) {
        let incoming = std::mem::take(&mut self.incoming[block.index()]);
        let pc = self.pc;
        if let Some((_, entry)) = self.laid_out_before.take_if(|(before, _)| *before == block) {
            // It falls through to this block.
            self.graph.order.push(entry);
        }
        let reads: SmallVec<[Read; 64]> = SmallVec::from_slice(self.liveness.entry(block));
        if block == BlockId(0) || incoming.is_empty() {
            // Entries of the interpreter: the beginning of the function, and blocks that only branches of the
            // interpreter lead to.
            let entry = self.interpreter_entry(pc);
            let live_ins = live_ins(&reads);
            self.take_slots(&live_ins);
            let first = Incoming { from: self.current, second: false, defs: self.defs.clone() };
            if block == BlockId(0)
                && let Some(called) = self.native_entry(&live_ins)
            {
                self.cold.extend(entry);
                if header.is_some() {
                    return self.header(block, pc, &reads, vec![first, called], false);
                }
                self.inlined_entry();
                let new = self.open(None);
                self.graph.order.push(new);
                return self.merge(new, &reads, vec![first, called]);
            }
            self.graph.order.extend(entry);
            if header.is_some() {
                self.header(block, pc, &reads, vec![first], false);
            }
            return;
        }
        if let Some(header) = header {
            let may_be_entered = header == LoopHeader::OsrEntry && self.context.module.shape.osr_entries;
            return self.header(block, pc, &reads, incoming, may_be_entered);
        }
        let new = self.open(None);
        self.graph.order.push(new);
        self.merge(new, &reads, incoming);
    }

    /// Makes the preheader and the header of a loop.
    fn header(&mut self, block: BlockId, pc: u32, reads: &[Read], mut incoming: Vec<Incoming>, outside: bool) {
        let preheader = self.open(None);
        self.graph.order.push(preheader);
        let all = live_ins(reads);
        let (live_ins, known) = self.unknown(all.clone());
        if outside {
            let entry = self.interpreter_entry(pc);
            self.cold.extend(entry);
            self.take_slots(&all);
            let defs = self.defs.clone();
            incoming.push(Incoming { from: self.current, second: false, defs });
        }
        self.parameters(preheader, &live_ins);
        self.define_all(&known);
        self.connect(preheader, &live_ins, &mut incoming);
        // A check that is hoisted to the preheader exits with the frame state at the beginning of the loop.
        self.pc = pc;
        let exit = self.exit_here();
        self.graph.blocks[preheader].preheader_exit = Some(exit);
        let args = self.arguments(preheader, &live_ins);
        let header = self.open(None);
        self.graph.order.push(header);
        self.graph.blocks[preheader].terminator =
            Terminator::Jump(Branch { target: header, args, ..Branch::default() });
        self.parameters(header, &live_ins);
        self.define_all(&known);
        let state = self.exit_here();
        self.graph.blocks[header].header_exit = Some(state);
        self.headers.insert(block, (header, live_ins));
    }

    /// Begins a block whose predecessors are `incoming`: slots with different definitions become parameters.
    pub(super) fn merge(&mut self, block: BlockIndex, reads: &[Read], mut incoming: Vec<Incoming>) {
        if let [only] = &mut incoming[..] {
            std::mem::swap(&mut self.defs, &mut only.defs);
            return self.connect(block, &[], &mut incoming);
        }
        let first = &incoming[0].defs;
        let same = |slot: usize| incoming.iter().all(|one| one.defs.same(first, slot));
        let (live_ins, known) = self.unknown(live_ins(reads));
        let (kept, differing): (LiveIns, LiveIns) =
            live_ins.into_iter().partition(|one| (one.slot..one.slot + one.slots()).all(|slot| same(slot.into())));
        self.parameters(block, &differing);
        self.define_all(&known);
        self.connect(block, &differing, &mut incoming);
        for slot in kept.iter().flat_map(|one| one.slot..one.slot + one.slots()).map(usize::from) {
            self.defs.copy(slot, &incoming[0].defs);
        }
    }

    /// Gives a block a parameter for each of these live-ins, and selects it.
    pub(super) fn parameters(&mut self, block: BlockIndex, live_ins: &[LiveIn]) {
        self.select(block);
        self.defs.fill(None);
        for one in live_ins {
            let node = self.push(Kind::Parameter, Ty::Scalar(one.of), SmallVec::new(), None);
            self.graph.blocks[block].parameters.push(node);
            self.define(one.of, one.slot.into(), node);
        }
    }

    /// Splits live-ins into those that have to be parameters, and those that are known to be constants.
    pub(super) fn unknown(
        &mut self,
        live_ins: impl IntoIterator<Item = LiveIn>,
    ) -> (LiveIns, SmallVec<[(LiveIn, NodeId); 8]>) {
        let (mut unknown, mut known) = (SmallVec::new(), SmallVec::new());
        for one in live_ins {
            match self.known(one) {
                Some(node) => known.push((one, node)),
                None => unknown.push(one),
            }
        }
        (unknown, known)
    }

    pub(super) fn define_all(&mut self, known: &[(LiveIn, NodeId)]) {
        known.iter().for_each(|(one, node)| self.define(one.of, one.slot.into(), *node));
    }

    /// Sets the target and the arguments of branches to `block`. The state of the builder is that of `block` before and
    /// after.
    pub(super) fn connect(&mut self, block: BlockIndex, live_ins: &[LiveIn], incoming: &mut [Incoming]) {
        for one in incoming {
            let mut args = Nodes::new();
            if !live_ins.is_empty() {
                std::mem::swap(&mut self.defs, &mut one.defs);
                args = self.arguments(one.from, live_ins);
                std::mem::swap(&mut self.defs, &mut one.defs);
            }
            match &mut self.graph.blocks[one.from].terminator {
                Terminator::Jump(branch) if !one.second => (branch.target, branch.args) = (block, args),
                Terminator::Branch(_, branches) => {
                    let branch = &mut branches[usize::from(one.second)];
                    (branch.target, branch.args) = (block, args);
                }
                end => *end = Terminator::Jump(Branch { target: block, args, ..Branch::default() }),
            }
        }
        self.select(block);
    }

    /// The arguments of a branch at the end of `from`, from the definitions there.
    fn arguments(&mut self, from: BlockIndex, live_ins: &[LiveIn]) -> Nodes {
        self.select(from);
        live_ins.iter().map(|one| self.read(one.of, Reg(one.slot))).collect()
    }
}

/// The live-ins of a block by the next reads of its slots, in order.
pub(super) fn live_ins(reads: &[Read]) -> LiveIns {
    let mut all = SmallVec::new();
    let mut slot = 0;
    while slot < reads.len() {
        let one = live_in_at(reads, slot);
        slot += one.map_or(1, |one| usize::from(one.slots()));
        all.extend(one);
    }
    all
}

/// The live-in that begins in a slot, which is not the high half of a pair.
pub(super) fn live_in_at(reads: &[Read], slot: usize) -> Option<LiveIn> {
    let of = match reads.get(slot)? {
        Read::Never => return None,
        Read::Float => Scalar::F32,
        Read::Wide if is_pair(reads, slot) => Scalar::I64,
        Read::WideFloat if is_pair(reads, slot) => Scalar::F64,
        _ => Scalar::I32,
    };
    Some(LiveIn { slot: slot as u16, of })
}
