//! Liveness of slots with the type of the next read: slots of a frame have no types of their own. The builder uses it
//! at each op.
//!
//! A block parameter has the type of the next read of its slot. The frame state of an exit has the slots that are live
//! there, since the interpreter may read those.

use std::convert::Infallible;

use crate::bytecode::{
    AnyReg, BlockId, CallForm, CallId, Callee, CasesId, Decoded, EdgeId, ListId, OperandVisitor, RefReg, Reg,
    VerifiedFunction,
};
use crate::convention::Kind;
use crate::interp::BytecodeModule;
use crate::ir::effort::Effort;
use crate::ir::visits::Visits;
use vireo_module::verify;

/// The type that a slot is read as next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Read {
    /// None: it is dead.
    #[default]
    Never,
    /// 32 bits of an integer, or different ones on different paths.
    Narrow,
    /// An `f32`.
    Float,
    /// The low half of an `i64`, or of an `i64` and an `f64` on different paths.
    Wide,
    /// The low half of an `f64`.
    WideFloat,
    /// The high half of the pair that begins in the slot before.
    High,
}

impl Read {
    const ALL: [Read; 6] = [Read::Never, Read::Narrow, Read::Float, Read::Wide, Read::WideFloat, Read::High];
    /// The join of the lattice, for two next reads on different paths: in a table, since all slots are joined at each
    /// edge.
    const JOINS: [[Read; 6]; 6] = {
        let mut joins = [[Read::Never; 6]; 6];
        let mut at = 0;
        while at < 36 {
            assert!(Read::ALL[at / 6] as usize == at / 6, "the table is indexed by variants");
            joins[at / 6][at % 6] = Read::together(Read::ALL[at / 6], Read::ALL[at % 6]);
            at += 1;
        }
        joins
    };

    const fn is_pair(self) -> bool {
        matches!(self, Read::Wide | Read::WideFloat)
    }

    const fn together(self, other: Read) -> Read {
        match (self, other) {
            (Read::Never, read) | (read, Read::Never) => read,
            (a, b) if a as u8 == b as u8 => a,
            (a, b) if a.is_pair() && b.is_pair() => Read::Wide,
            _ => Read::Narrow,
        }
    }

    fn join(self, other: Read) -> Read {
        Read::JOINS[self as usize][other as usize]
    }
}

/// The next reads of all slots at one program point.
pub(super) type Reads = Vec<Read>;

/// The reads and writes of each op, and the next reads at the entry of each block.
pub(crate) struct TypedLiveness<'a> {
    function: &'a VerifiedFunction,
    /// The events of all ops, one op after the other, and where those of each op end.
    events: Vec<Event>,
    ends: Vec<u32>,
    /// The next reads of all blocks, one after the other.
    entries: Reads,
    /// Whether there is a back edge.
    has_loops: bool,
}

/// Most entries of the tables of a function.
const MAX_ENTRIES: usize = 1 << 22;
/// Most passes until a fixed point. Code of compilers needs a few.
const MAX_PASSES: usize = 32;

impl<'a> TypedLiveness<'a> {
    /// None if the tables would be too large, or there is no fixed point after that many passes.
    pub fn new(
        function: &'a VerifiedFunction,
        module: &'a BytecodeModule,
        effort: &Effort,
    ) -> Option<TypedLiveness<'a>> {
        let decoded = function.decoded();
        let (blocks, slots) = (decoded.blocks.len(), function.slots());
        // Each edge takes time for all slots.
        let points = blocks + decoded.edges().len();
        if points.checked_mul(slots)? > MAX_ENTRIES {
            return None;
        }
        let mut liveness = TypedLiveness::of_ops(function, module)?;
        liveness.entries = vec![Read::Never; slots * blocks];
        liveness.has_loops = (decoded.blocks.iter().enumerate())
            .any(|(index, block)| liveness.targets(block.ops.end - 1).any(|(target, _)| target.index() <= index));
        let mut reads = vec![Read::Never; slots];
        let mut visits = Visits::new(blocks, blocks);
        for _ in 0..MAX_PASSES {
            let mut changed = false;
            for (block, content) in decoded.blocks.iter().enumerate().rev() {
                if !visits.begin(block, liveness.targets(content.ops.end - 1).map(|(target, _)| target.index())) {
                    continue;
                }
                if !effort.spend(slots + content.ops.len()) {
                    return None;
                }
                reads.fill(Read::Never);
                content.ops.clone().rev().for_each(|pc| liveness.transfer(pc, &mut reads, |_, _| {}));
                let entry = &mut liveness.entries[block * slots..][..slots];
                if reads != entry {
                    entry.copy_from_slice(&reads);
                    visits.change(block);
                    changed = true;
                }
            }
            if !changed || !liveness.has_loops {
                return Some(liveness);
            }
        }
        None
    }

    /// The reads and writes of ops, without the entries of blocks: for baseline mode and the verifier.
    pub fn of_ops(function: &'a VerifiedFunction, module: &'a BytecodeModule) -> Option<TypedLiveness<'a>> {
        let decoded = function.decoded();
        let mut events = Events { function, module, decoded, events: Vec::with_capacity(6 * decoded.ops.len()) };
        let mut ends = Vec::with_capacity(decoded.ops.len());
        for op in &decoded.ops {
            let start = events.events.len();
            let Ok(()) = verify::visit_operands(*op, &mut events);
            let own = &mut events.events[start..];
            if !own.is_sorted_by_key(Event::rank) {
                own.sort_by_key(Event::rank);
            }
            ends.push(u32::try_from(events.events.len()).ok()?);
        }
        Some(TypedLiveness { function, events: events.events, ends, entries: Vec::new(), has_loops: false })
    }

    /// Whether there is a back edge. If not, one pass over all blocks is enough for any analysis.
    pub fn has_loops(&self) -> bool {
        self.has_loops
    }

    /// The next reads at the entry of a block.
    pub fn entry(&self, block: BlockId) -> &[Read] {
        let slots = self.function.slots();
        &self.entries[block.index() * slots..][..slots]
    }

    fn events(&self, pc: u32) -> &[Event] {
        let index = pc as usize;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.events[start as usize..self.ends[index] as usize]
    }

    /// The blocks that an op may branch to, with the edge, if it is one that can copy registers.
    pub fn targets(&self, pc: u32) -> impl Iterator<Item = (BlockId, Option<EdgeId>)> {
        self.events(pc).iter().filter_map(|event| match event {
            Event::Target(block, edge) => Some((*block, *edge)),
            _ => None,
        })
    }

    /// The slots that an op reads.
    pub fn reads(&self, pc: u32) -> impl Iterator<Item = usize> {
        let slots = self.events(pc).iter().filter_map(|event| match event {
            Event::Read(index, kind) => Some(*index..index + kind.slots() as usize),
            _ => None,
        });
        // A value of unknown kind counts as two slots, of which the second may not be there.
        slots.flatten().filter(|slot| *slot < self.function.slots())
    }

    /// The reference registers that an op reads.
    pub fn ref_reads(&self, pc: u32) -> impl Iterator<Item = usize> {
        self.events(pc).iter().filter_map(|event| if let Event::ReadRef(index) = event { Some(*index) } else { None })
    }

    /// The reference registers that an op writes.
    pub fn ref_writes(&self, pc: u32) -> impl Iterator<Item = usize> {
        self.events(pc).iter().filter_map(|event| if let Event::WriteRef(index) = event { Some(*index) } else { None })
    }

    /// Whether an op reads more slots than that.
    pub fn reads_more_than(&self, pc: u32, slots: usize) -> bool {
        // An event is of two slots at most, or of a reference.
        2 * self.events(pc).len() > slots && self.reads(pc).nth(slots).is_some()
    }

    /// The slots that an op writes.
    pub fn writes(&self, pc: u32) -> impl Iterator<Item = usize> {
        let slots = self.events(pc).iter().filter_map(|event| match event {
            Event::Write(index, kind) => Some(*index..index + kind.slots() as usize),
            _ => None,
        });
        slots.flatten()
    }

    /// The transfer function of an op: from the next reads after it to those before it. Calls `changed` with the slots
    /// that the op reads or writes, and their next reads after it.
    pub fn transfer(&self, pc: u32, reads: &mut [Read], mut changed: impl FnMut(usize, Read)) {
        let mut set = |reads: &mut [Read], slot: usize, read: Read| {
            if let Some(entry) = reads.get_mut(slot) {
                changed(slot, std::mem::replace(entry, read));
            }
        };
        for event in self.events(pc) {
            match event {
                Event::Target(block, edge) => {
                    let mut join = |others: &[Read]| {
                        reads.iter_mut().zip(others).for_each(|(read, other)| *read = read.join(*other));
                    };
                    match edge.filter(|edge| self.copies_values(*edge)) {
                        Some(edge) => join(&self.across_edge(edge)),
                        None => join(self.entry(*block)),
                    }
                }
                Event::Write(index, kind) => {
                    (*index..index + kind.slots() as usize).for_each(|slot| set(reads, slot, Read::Never));
                }
                Event::Read(index, kind) => {
                    let low = match kind {
                        Kind::I32 => Read::Narrow,
                        Kind::F32 => Read::Float,
                        Kind::I64 => Read::Wide,
                        Kind::F64 => Read::WideFloat,
                        Kind::Ref => continue,
                    };
                    set(reads, *index, low);
                    if kind.slots() == 2 {
                        set(reads, index + 1, Read::High);
                    }
                }
                Event::ReadRef(_) | Event::WriteRef(_) => {}
            }
        }
    }

    fn copies_values(&self, id: EdgeId) -> bool {
        let decoded = self.function.decoded();
        decoded.remaps(decoded.edge(id)).iter().any(|remap| !remap.source.is_ref())
    }

    /// The next reads before the copies of an edge.
    fn across_edge(&self, id: EdgeId) -> Reads {
        let decoded = self.function.decoded();
        let edge = decoded.edge(id);
        let mut reads = self.entry(edge.target).to_vec();
        for remap in decoded.remaps(edge).iter().rev() {
            if remap.source.is_ref() {
                continue;
            }
            let (source, target) = (remap.source.reg().index(), remap.target.reg().index());
            let read = std::mem::take(&mut reads[target]);
            reads[source] = read.join(reads[source]);
        }
        reads
    }
}

/// Whether the slots `index` and the one after it are read as one value next.
pub(crate) fn is_pair(reads: &[Read], index: usize) -> bool {
    reads.get(index).is_some_and(|read| read.is_pair()) && reads.get(index + 1) == Some(&Read::High)
}

/// A read, write or branch of an op.
enum Event {
    Read(usize, Kind),
    Write(usize, Kind),
    ReadRef(usize),
    WriteRef(usize),
    Target(BlockId, Option<EdgeId>),
}

impl Event {
    /// Its place among those of its op: liveness goes backwards, so what comes last is first.
    fn rank(&self) -> u8 {
        match self {
            Event::Target(..) => 0,
            Event::Write(..) | Event::WriteRef(_) => 1,
            Event::Read(..) | Event::ReadRef(_) => 2,
        }
    }
}

/// Collects the events of ops.
struct Events<'a> {
    function: &'a VerifiedFunction,
    module: &'a BytecodeModule,
    decoded: &'a Decoded,
    events: Vec<Event>,
}

impl Events<'_> {
    fn reads_all(&mut self, list: &[AnyReg], kinds: impl IntoIterator<Item = Kind>) {
        for (register, kind) in list.iter().zip(kinds) {
            self.events.push(match register.is_ref() {
                true => Event::ReadRef(register.ref_reg().index()),
                false => Event::Read(register.reg().index(), kind),
            });
        }
    }
}

impl OperandVisitor for Events<'_> {
    type Error = Infallible;

    fn read(&mut self, reg: Reg, kind: Kind) -> Result<(), Infallible> {
        self.events.push(Event::Read(reg.index(), kind));
        Ok(())
    }

    fn write(&mut self, reg: Reg, kind: Kind) -> Result<(), Infallible> {
        self.events.push(Event::Write(reg.index(), kind));
        Ok(())
    }

    fn read_ref(&mut self, reg: RefReg, _movable: bool) -> Result<(), Infallible> {
        self.events.push(Event::ReadRef(reg.index()));
        Ok(())
    }

    fn write_ref(&mut self, reg: RefReg) -> Result<(), Infallible> {
        self.events.push(Event::WriteRef(reg.index()));
        Ok(())
    }

    fn read_list(&mut self, list: ListId, kind: Kind, _movable: bool) -> Result<(), Infallible> {
        let list = self.decoded.list(list);
        self.reads_all(list, std::iter::repeat(kind));
        Ok(())
    }

    fn read_any(&mut self, list: ListId) -> Result<(), Infallible> {
        for register in self.decoded.list(list) {
            if register.is_ref() {
                self.events.push(Event::ReadRef(register.ref_reg().index()));
                continue;
            }
            // A value of unknown kind may take two slots.
            self.events.push(Event::Read(register.reg().index(), Kind::I32));
            self.events.push(Event::Read(register.reg().index() + 1, Kind::I32));
        }
        Ok(())
    }

    fn return_values(&mut self, list: ListId) -> Result<(), Infallible> {
        let results = &self.function.convention().results;
        self.reads_all(self.decoded.list(list), results.iter().copied());
        Ok(())
    }

    fn edge(&mut self, edge: EdgeId) -> Result<(), Infallible> {
        self.events.push(Event::Target(self.decoded.edge(edge).target, Some(edge)));
        Ok(())
    }

    fn target(&mut self, block: BlockId) -> Result<(), Infallible> {
        self.events.push(Event::Target(block, None));
        Ok(())
    }

    fn cases(&mut self, cases: CasesId) -> Result<(), Infallible> {
        self.decoded.case_edges(cases).try_for_each(|edge| self.edge(edge))
    }

    fn call(&mut self, call: CallId, shape: CallForm) -> Result<(), Infallible> {
        let site = self.decoded.call(call);
        let module = self.module;
        let convention = match site.callee {
            Callee::Function(id) => module.functions.get(id.index()).map(VerifiedFunction::convention),
            Callee::Import(id) => module.imports.get(id.index()).map(|import| &import.convention),
        };
        if let Some(convention) = convention {
            for (register, kind) in self.decoded.list(site.results).iter().zip(&convention.results) {
                self.events.push(match register.is_ref() {
                    true => Event::WriteRef(register.ref_reg().index()),
                    false => Event::Write(register.reg().index(), *kind),
                });
            }
            if !shape.variadic {
                let kinds = convention.args.iter().filter_map(|argument| argument.kind());
                self.reads_all(self.decoded.list(site.operands), kinds);
            }
        }
        if shape.variadic {
            self.read_any(site.operands)?;
        }
        match site.resume {
            Some(block) => self.target(block),
            None => Ok(()),
        }
    }
}
