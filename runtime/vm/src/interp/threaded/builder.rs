//! From a verified function to its stream of cells.
//!
//! A branch to the block that follows takes no cell, the copies of a branch are cells in front of it, and a comparison whose result a
//! branch tests is one cell with it. A branch back to a block that is nothing but such a test makes the test itself, so that a turn of
//! a loop takes one cell for both. Each cell knows the op at which the loop dispatcher goes on if its handler stops.

use std::sync::atomic::AtomicPtr;

use super::carried_register::{self, Carry, Wanted, narrow};
use super::code::{Code, Entry, NO_CELL};
use super::handlers::{self, ANY, CARRIED, Counts, ONE};
use super::instruction::{Cell, Conditional, Fused, Handler, Return, Site, cells_of, operands_of};
use super::native_code::Compiled;
use super::pinned_list::Fixed;
use super::{Body, Sink, Test};
use crate::bytecode::{AnyReg, BlockId, CallId, Callee, Decoded, Edge, EdgeId, ListId, Op, Reg, VerifiedFunction};
use crate::convention::Kind;
use crate::generated::vm::interp::threaded as generated;
use crate::interp::bound_modules::BytecodeModule;
use crate::interp::control::index_of;
use crate::interp::machine::Layout;
use crate::interp::stack::Stamp;
use crate::limits::Charge;

/// The test of a loop is not made in a second place if its branches copy more than this.
const MAX_ROTATED_COPIES: usize = 4;

/// A block that branches back to itself.
#[derive(Clone, Copy)]
struct Head {
    /// Its first op.
    op: u32,
    /// The first cell that all turns of the loop run.
    cell: u32,
}

/// The cells of a function so far.
#[derive(Default)]
struct Stream {
    cells: Vec<Cell>,
    pcs: Vec<u32>,
    /// The op that the next cells belong to.
    pc: u32,
    /// What is carried behind the last cell.
    carry: Option<Carry>,
    /// Which handler the next test has.
    how: usize,
}

impl Sink for Stream {
    fn op<B: Body>(&mut self, operands: B::Operands, reads: &[Carry], result: Option<Carry>) {
        self.push(B::HANDLERS[self.carried(reads)], operands);
        self.carry = result.or(self.carry);
    }

    fn test<B: Test>(&mut self, operands: B::Operands, reads: &[Carry]) {
        self.push(B::BRANCHES[self.carried(reads)][self.how], Fused { delta: 0, operands });
    }
}

impl Stream {
    /// Which of the operands is carried, counted from 1; 0 if none is.
    fn carried(&self, reads: &[Carry]) -> usize {
        let Some(carry) = self.carry else { return 0 };
        reads.iter().position(|read| carry.serves(*read)).map_or(0, |index| index + 1)
    }

    fn push<T: Copy>(&mut self, handler: Handler, operands: T) {
        let position = self.cells.len();
        self.cells.push(Cell::of(handler));
        self.cells.resize(position + cells_of::<T>(), Cell::EMPTY);
        self.pcs.resize(self.cells.len(), self.pc);
        self.write(position, operands);
    }

    fn write<T: Copy>(&mut self, position: usize, operands: T) {
        debug_assert!(position + cells_of::<T>() <= self.cells.len());
        let cell = self.cells.as_mut_ptr().wrapping_add(position);
        // SAFETY: the cells that operands of this type take exist, and are aligned for them.
        unsafe { operands_of::<T>(cell).cast_mut().write(operands) };
    }
}

/// How long the distance of a branch is.
#[derive(Clone, Copy)]
enum Width {
    Short,
    Long,
}

/// Where a branch leads.
#[derive(Clone, Copy)]
enum Target {
    Op(u32),
    Detour(usize),
}

/// A conditional branch with something to do on the way. Its cells stand behind those of all ops.
struct Detour {
    edge: EdgeId,
    /// The op at which the loop dispatcher goes on.
    pc: u32,
    at: u32,
    carry: Option<Carry>,
    head: Option<Head>,
    /// Its first cell.
    position: usize,
}

/// What a cell points to.
#[derive(Clone, Copy)]
enum Pointer {
    Site(usize),
    Return(usize),
}

pub(super) struct Builder<'a> {
    function: &'a VerifiedFunction,
    decoded: &'a Decoded,
    module: &'a BytecodeModule,
    index: usize,
    fuse: bool,
    wanted: Wanted,
    stream: Stream,
    entries: Vec<Entry>,
    /// The block whose cells are being made, if it branches back to itself.
    head: Option<Head>,
    branches: Vec<(usize, Width, Target)>,
    /// Index of the op whose cells are being made; later than that of the stream if a comparison is part of it.
    at: u32,
    /// The op whose cells follow.
    next: u32,
    detours: Vec<Detour>,
    sites: Vec<Site>,
    returns: Vec<Return>,
    pointers: Vec<(usize, Pointer)>,
    /// The cell after each call.
    resumes: Vec<usize>,
}

impl<'a> Builder<'a> {
    pub fn new(function: &'a VerifiedFunction, module: &'a BytecodeModule, index: usize, fuse: bool) -> Builder<'a> {
        Builder {
            function,
            decoded: function.decoded(),
            module,
            index,
            fuse,
            wanted: Wanted::new(function, module),
            stream: Stream::default(),
            entries: Vec::with_capacity(function.decoded().ops.len()),
            head: None,
            branches: Vec::new(),
            at: 0,
            next: 0,
            detours: Vec::new(),
            sites: Vec::new(),
            returns: Vec::new(),
            pointers: Vec::new(),
            resumes: Vec::new(),
        }
    }

    /// The code; none if a fused comparison is too far from where it leads.
    pub fn build(mut self) -> Option<Code> {
        let decoded = self.decoded;
        for (block, range) in decoded.blocks.iter().map(|block| &block.ops).enumerate() {
            self.stream.carry = self.wanted.of(BlockId(block as u32));
            self.head = self.wanted.loops(BlockId(block as u32)).then(|| {
                let cell = self.stream.cells.len() + cells_of::<()>();
                Head { op: range.start, cell: cell as u32 }
            });
            let mut pc = range.start;
            while pc < range.end {
                (self.stream.pc, self.at, self.next) = (pc, pc, pc + 1);
                self.enter(self.stream.cells.len() as u32);
                if self.head.is_some_and(|head| head.op == pc) {
                    self.stream.push(handlers::mark, ());
                }
                // If a handler stops, the comparison is made again, for its result.
                (self.at, self.next) = (pc + 1, pc + 2);
                if self.test(pc, None) {
                    self.enter(NO_CELL);
                    pc += 2;
                    continue;
                }
                (self.at, self.next) = (pc, pc + 1);
                self.op(decoded.ops[pc as usize]);
                pc += 1;
            }
        }
        for index in 0.. {
            let Some(detour) = self.detours.get_mut(index) else { break };
            (self.stream.pc, self.at, self.stream.carry, self.head) = (detour.pc, detour.at, detour.carry, detour.head);
            detour.position = self.stream.cells.len();
            let (id, edge) = (detour.edge, decoded.edge(detour.edge));
            self.copies(id);
            self.settle(edge.target);
            self.branch(edge.entry, false);
        }
        self.finish()
    }

    /// Notes how to begin with the next op.
    fn enter(&mut self, cell: u32) {
        let head = self.head.map_or(0, |head| head.cell);
        self.entries.push(Entry { cell, head, carry: self.stream.carry });
    }

    /// A comparison at `pc` and the branch on its result as one. False if there is no such thing, or the result is needed elsewhere.
    ///
    /// A `rotated` one, given with how it counts, stands in the place of a branch to it.
    fn test(&mut self, pc: u32, rotated: Option<Counts>) -> bool {
        let pc = pc as usize;
        // A comparison is no terminator, so the op that follows is of the same block.
        let (true, Some(op), Some(Op::CondBr { condition, true_target, false_target })) =
            (self.fuse, self.decoded.ops.get(pc), self.decoded.ops.get(pc + 1))
        else {
            return false;
        };
        if ![true_target, false_target].iter().all(|edge| self.is_dead(*condition, **edge)) {
            return false;
        }
        let position = self.stream.cells.len();
        let (target, backward) = self.direct(*true_target);
        let counts = rotated.unwrap_or(if backward { Counts::Taken } else { Counts::Never });
        let to_head = matches!(target, Target::Op(op) if self.is_head(op));
        self.stream.how = handlers::how(counts, to_head);
        if !generated::fused(*op, *condition, &mut self.stream) {
            if matches!(target, Target::Detour(_)) {
                self.detours.pop();
            }
            return false;
        }
        if !to_head {
            self.branches.push((position, Width::Short, target));
        }
        self.edge(*false_target);
        true
    }

    /// Makes the test of a loop where the branch back to it is. False if the branch leads to anything else.
    fn rotated(&mut self, edge: &Edge) -> bool {
        let header = &self.decoded.block(edge.target).ops;
        let Some(Op::CondBr { true_target, false_target, .. }) = self.decoded.ops.get(header.start as usize + 1) else {
            return false;
        };
        // Only the branch to the header counts, so those of the header must lead on.
        let leads_on = |edge: EdgeId| {
            let edge = self.decoded.edge(edge);
            edge.entry >= header.end && self.decoded.remaps(edge).len() <= MAX_ROTATED_COPIES
        };
        if header.len() != 2 || edge.entry > self.at || !leads_on(*true_target) || !leads_on(*false_target) {
            return false;
        }
        let at = std::mem::replace(&mut self.at, header.start + 1);
        // What was copied cannot be taken back, so it was counted before.
        let made = self.test(header.start, Some(if edge.has_copies() { Counts::Never } else { Counts::Always }));
        self.at = at;
        made
    }

    fn op(&mut self, op: Op) {
        match op {
            Op::Br { target } => self.edge(target),
            Op::CondBr { condition, true_target, false_target } => {
                let position = self.stream.cells.len();
                let (target, backward) = self.direct(true_target);
                let handler: Handler =
                    if backward { handlers::conditional::<true> } else { handlers::conditional::<false> };
                self.stream.push(handler, Conditional { delta: 0, condition });
                self.branches.push((position, Width::Long, target));
                self.edge(false_target);
            }
            Op::Call { call } if self.call(call) => {
                self.stream.carry = carried_register::of_call(self.decoded, self.module, op);
            }
            Op::Return { operands } => self.returns(operands),
            op if generated::plain(op, &mut self.stream) => {}
            _ => {
                self.stream.push(handlers::cold, self.stream.pc);
                self.stream.carry = None;
            }
        }
    }

    /// Whether nobody reads a slot after a branch was taken.
    fn is_dead(&self, reg: Reg, id: EdgeId) -> bool {
        let edge = self.decoded.edge(id);
        let remaps = self.decoded.remaps(edge);
        let Some(liveness) = self.function.liveness() else { return false };
        !liveness.is_slot_live(edge.target, reg)
            && !remaps.iter().any(|remap| !remap.source.is_ref() && remap.source.reg() == reg)
    }

    /// Whether what is carried is what a block wants.
    fn is_settled(&self, target: BlockId) -> bool {
        let Some(wanted) = self.wanted.of(target) else { return true };
        self.stream.carry.is_some_and(|carry| carry.serves(wanted))
    }

    /// Carries what a block wants.
    fn settle(&mut self, target: BlockId) {
        if let Some(carry) = self.wanted.of(target).filter(|_| !self.is_settled(target)) {
            let handler: Handler =
                if carry.wide { handlers::load_carry::<true> } else { handlers::load_carry::<false> };
            self.stream.push(handler, carry.reg);
        }
    }

    /// Where a conditional branch leads, and whether it has to count itself.
    fn direct(&mut self, id: EdgeId) -> (Target, bool) {
        let edge = self.decoded.edge(id);
        if edge.has_copies() || !self.is_settled(edge.target) {
            let (pc, at, carry, head) = (self.stream.pc, self.at, self.stream.carry, self.head);
            self.detours.push(Detour { edge: id, pc, at, carry, head, position: 0 });
            return (Target::Detour(self.detours.len() - 1), false);
        }
        (Target::Op(edge.entry), edge.entry <= self.at)
    }

    /// The copies of a branch, and the branch unless it leads to the next op.
    fn edge(&mut self, id: EdgeId) {
        let edge = self.decoded.edge(id);
        if edge.has_copies() {
            self.copies(id);
        }
        if self.rotated(edge) {
            return;
        }
        self.settle(edge.target);
        if edge.entry != self.next {
            self.branch(edge.entry, edge.entry <= self.at && !edge.has_copies());
        }
    }

    fn is_head(&self, op: u32) -> bool {
        self.head.is_some_and(|head| head.op == op)
    }

    fn branch(&mut self, entry: u32, counts: bool) {
        if !counts && self.is_head(entry) {
            return self.stream.push(handlers::to_head, ());
        }
        self.branches.push((self.stream.cells.len(), Width::Long, Target::Op(entry)));
        let handler: Handler = if counts { handlers::branch::<true> } else { handlers::branch::<false> };
        self.stream.push(handler, 0_i32);
    }

    /// A backward branch is counted before it copies anything, because a handler that stops must have changed nothing.
    fn copies(&mut self, id: EdgeId) {
        let edge = self.decoded.edge(id);
        if edge.entry <= self.at {
            self.stream.push(handlers::count, ());
        }
        let mut remaps = self.decoded.remaps(edge).iter().peekable();
        while let Some(remap) = remaps.next() {
            if remap.source.is_ref() {
                self.stream.push(handlers::copy_ref, (remap.source.ref_reg(), remap.target.ref_reg()));
                continue;
            }
            let first = (remap.source.reg(), remap.target.reg());
            match remaps.next_if(|remap| !remap.source.is_ref()) {
                Some(second) => {
                    self.stream.push(handlers::copy_words, [first, (second.source.reg(), second.target.reg())]);
                }
                None => self.stream.push(handlers::copy_word, first),
            }
        }
        let wanted = self.wanted.of(edge.target);
        self.stream.carry = self.stream.carry.and_then(|carry| {
            let carries = carry.after(self.decoded.remaps(edge));
            let serves = |carry: &&Carry| wanted.is_some_and(|wanted| carry.serves(wanted));
            carries.iter().find(serves).or(carries.first()).copied()
        });
    }

    /// A call of a function of the module. False for any other.
    fn call(&mut self, id: CallId) -> bool {
        let site = self.decoded.call(id);
        let (Callee::Function(callee), None, None) = (site.callee, site.segments, site.resume) else { return false };
        let Some(callee) = self.module.functions.get(callee.index()) else { return false };
        let stamp = Stamp::new(self.index, callee, self.stream.pc as usize, id);
        let caller = Stamp::new(self.index, self.function, 0, id);
        let mut layout = Layout::default();
        let (mut words, mut refs) = (Vec::new(), Vec::new());
        let kinds = callee.convention().args.iter().filter_map(|argument| argument.kind());
        for (kind, source) in kinds.zip(self.decoded.list(site.operands)) {
            let target = layout.place(kind) as u16;
            if kind == Kind::Ref {
                refs.push((source.ref_reg(), target));
            } else {
                words.extend((0..kind.slots() as u16).map(|half| (source.reg().0 + half, target + half)));
            }
        }
        let (result_words, result_refs) =
            split(&callee.convention().results, self.decoded.list(site.results), |reg| index_of(reg) as u16);
        let zeroed = if callee.reads_unwritten_slots() { stamp.slot_bytes() } else { 0 };
        let plain = zeroed == 0 && stamp.refs == 0;
        let how = match words.as_slice() {
            [] => 0,
            [(source, _)] if self.stream.carried(&[narrow(Reg(*source))]) != 0 => CARRIED,
            [_] => ONE,
            _ => ANY,
        };
        self.pointers.push((self.stream.cells.len(), Pointer::Site(self.sites.len())));
        self.sites.push(Site {
            entry: AtomicPtr::default(),
            resume: std::ptr::null(),
            stamp,
            advance: caller.slot_bytes() + stamp.lead_bytes(),
            bytes: stamp.slot_bytes(),
            zeroed,
            only_word: words.first().map_or(0, |(source, _)| *source),
            words: words.into(),
            refs: refs.into(),
            first_result: result_words.first().copied().unwrap_or_default(),
            result_words: result_words.into(),
            result_refs: result_refs.into(),
        });
        let handler: Handler = match (plain, how) {
            (true, 0) => handlers::call::<true, 0>,
            (true, ONE) => handlers::call::<true, ONE>,
            (true, CARRIED) => handlers::call::<true, CARRIED>,
            (true, _) => handlers::call::<true, ANY>,
            (false, _) => handlers::call::<false, ANY>,
        };
        self.stream.push(handler, std::ptr::null::<Site>());
        self.resumes.push(self.stream.cells.len());
        true
    }

    fn returns(&mut self, operands: ListId) {
        let results = &self.function.convention().results;
        let (words, refs) = split(results, self.decoded.list(operands), |reg| reg.ref_reg());
        match words.as_slice() {
            _ if self.function.refs() > 0 => {}
            [] => return self.stream.push(handlers::return_word::<0>, ()),
            [word] => {
                let carried = self.stream.carried(&[narrow(Reg(*word))]) != 0;
                let handler: Handler =
                    if carried { handlers::return_word::<CARRIED> } else { handlers::return_word::<ONE> };
                return self.stream.push(handler, Reg(*word));
            }
            _ => {}
        }
        self.pointers.push((self.stream.cells.len(), Pointer::Return(self.returns.len())));
        self.returns.push(Return { words: words.into(), refs: refs.into() });
        self.stream.push(handlers::return_any, std::ptr::null::<Return>());
    }

    fn finish(mut self) -> Option<Code> {
        for (position, width, target) in self.branches {
            let target = match target {
                Target::Op(pc) => self.entries[pc as usize].cell as usize,
                Target::Detour(index) => self.detours[index].position,
            };
            let distance = target as isize - position as isize;
            match width {
                Width::Short => self.stream.write(position, i16::try_from(distance).ok()?),
                Width::Long => self.stream.write(position, distance as i32),
            }
        }
        let (sites, returns) = (Fixed::new(self.sites), Fixed::new(self.returns));
        for (position, pointer) in self.pointers {
            match pointer {
                Pointer::Site(index) => self.stream.write(position, sites.at(index)),
                Pointer::Return(index) => self.stream.write(position, returns.at(index)),
            }
        }
        let cells = Fixed::new(self.stream.cells);
        let resumes = self.resumes.iter().map(|position| cells.at(*position)).collect::<Box<[_]>>();
        for (index, resume) in resumes.iter().enumerate() {
            // SAFETY: there is one site for each call, and nobody else has seen the sites yet.
            unsafe { (*sites.at(index).cast_mut()).resume = *resume };
        }
        let words = cells.items().len() + self.entries.len() * 3 + self.stream.pcs.len();
        let bytes = words * size_of::<Cell>() + sites.items().len() * 2 * size_of::<Site>();
        Some(Code {
            cells,
            pcs: self.stream.pcs.into(),
            entries: self.entries.into(),
            sites,
            _returns: returns,
            native: Compiled::default(),
            // It is about as large as the function, which the host has loaded, or an executable that was counted.
            _charge: Charge::of_call_anyway(bytes as u64),
        })
    }
}

/// The slots of the 32-bit halves of values, and their references.
fn split<T>(kinds: &[Kind], registers: &[AnyReg], reference: impl Fn(AnyReg) -> T) -> (Vec<u16>, Vec<T>) {
    let (mut words, mut refs) = (Vec::new(), Vec::new());
    for (kind, register) in kinds.iter().zip(registers) {
        if *kind == Kind::Ref {
            refs.push(reference(*register));
        } else {
            words.extend((0..kind.slots() as u16).map(|half| register.reg().0 + half));
        }
    }
    (words, refs)
}
