//! Blocks of the graph for the blocks of the bytecode: their parameters, the preheaders and headers of loops, and the branches that lead to
//! them.

use smallvec::SmallVec;

use super::Builder;
use super::defs::Defs;
use crate::analysis::loops::LoopHeader;
use crate::analysis::typed_liveness::{Read, is_pair};
use crate::bytecode::{BlockId, Reg};
use crate::ir::graph::{Branch, Entry, Kind, NodeId, Nodes, Terminator};
use crate::ir::types::{Scalar, Ty};

/// A branch that leads to a block that has no code yet.
pub(super) struct Incoming {
    pub from: usize,
    /// Whether it is the second branch of its block.
    pub second: bool,
    pub defs: Defs,
}

/// What a block takes: the slot, and what it is read as.
#[derive(Clone, Copy)]
pub(super) struct Taken {
    pub slot: u16,
    pub of: Scalar,
}

impl Taken {
    pub(super) fn slots(self) -> u16 {
        1 + u16::from(self.of.is_wide())
    }
}

/// What a block takes, in the order of the slots.
pub(super) type Takens = SmallVec<[Taken; 16]>;

impl Builder<'_> {
    /// Makes the block of the graph in which the ops of a block begin.
    pub(super) fn begin(&mut self, block: usize, header: Option<LoopHeader>) {
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
    pub(super) fn merge(&mut self, block: usize, reads: &[Read], incoming: &[Incoming]) {
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
    pub(super) fn parameters(&mut self, block: usize, taken: &[Taken]) {
        self.select(block);
        self.defs.fill(None);
        for one in taken {
            let node = self.push(Kind::Parameter, Ty::Scalar(one.of), SmallVec::new(), None);
            self.graph.blocks[block].parameters.push(node);
            self.define(one.of, one.slot.into(), node);
        }
    }

    /// Splits what a block takes: what is known is not brought to it. Gives what has to be, and the constants.
    pub(super) fn unknown(
        &mut self,
        taken: impl IntoIterator<Item = Taken>,
    ) -> (Takens, SmallVec<[(Taken, NodeId); 8]>) {
        let (mut unknown, mut known) = (SmallVec::new(), SmallVec::new());
        for one in taken {
            match self.known(one) {
                Some(node) => known.push((one, node)),
                None => unknown.push(one),
            }
        }
        (unknown, known)
    }

    pub(super) fn define_all(&mut self, known: &[(Taken, NodeId)]) {
        known.iter().for_each(|(one, node)| self.define(one.of, one.slot.into(), *node));
    }

    /// Fills in branches that lead to `block`. The state of the builder is that of `block` before and after.
    pub(super) fn connect(&mut self, block: usize, taken: &[Taken], incoming: &[Incoming]) {
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
}

/// What a block takes whose slots are read like this, in order.
pub(super) fn taken(reads: &[Read]) -> Takens {
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
pub(super) fn taken_at(reads: &[Read], slot: usize) -> Option<Taken> {
    let of = match reads.get(slot)? {
        Read::Never => return None,
        Read::Float => Scalar::F32,
        Read::Wide if is_pair(reads, slot) => Scalar::I64,
        Read::WideFloat if is_pair(reads, slot) => Scalar::F64,
        _ => Scalar::I32,
    };
    Some(Taken { slot: slot as u16, of })
}
