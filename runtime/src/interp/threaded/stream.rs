//! From a verified function to its stream of cells.
//!
//! A branch to the block that follows takes no cell, the copies of a branch are cells in front of it, and a comparison whose result a
//! branch tests is one cell with it. Each cell knows the op at which the loop dispatcher goes on if its handler stops.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::Body;
use super::handlers::{self, Cell, Conditional, Fused, Handler, Ip, Return, Site, cells_of, operands_of};
use crate::bytecode::{AnyReg, CallId, Callee, Decoded, EdgeId, ListId, Op, Reg, VerifiedFunction};
use crate::generated::vm::interp::threaded as generated;
use crate::interp::control::index_of;
use crate::interp::machine::Layout;
use crate::interp::program::BytecodeModule;
use crate::interp::stack::Stamp;
use crate::vm::convention::Kind;

/// A function with more cells than this has branches that may be too long for a fused comparison.
const MAX_FUSED_CELLS: usize = i16::MAX as usize;
/// Op whose cell does not exist, because it is the second half of another one.
const NO_CELL: u32 = u32::MAX;

/// A function as the threaded dispatcher runs it.
pub(crate) struct Code {
    cells: Fixed<Cell>,
    /// For each cell, the op to execute if the handler stops.
    pcs: Box<[u32]>,
    /// For each op, its first cell.
    starts: Box<[u32]>,
    sites: Fixed<Site>,
    /// Only cells refer to them.
    _returns: Fixed<Return>,
}

// SAFETY: the pointers in cells and sites lead to slices of this value or to the code of the same module, and nothing changes but the
// atomic `entry` of sites.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

impl Code {
    /// The code of `function` of `module`, which is number `index` of its program.
    pub fn new(function: &VerifiedFunction, module: &BytecodeModule, index: usize) -> Code {
        let decoded = function.decoded();
        let remaps: usize = decoded.edges().iter().map(|edge| decoded.remaps(edge).len() + 3).sum();
        let fuse = decoded.ops.len() * 2 + remaps < MAX_FUSED_CELLS;
        let mut builder = Builder {
            function,
            decoded,
            module,
            index,
            stream: Stream { cells: Vec::new(), pcs: Vec::new(), pc: 0, function: PhantomData },
            starts: Vec::with_capacity(decoded.ops.len()),
            branches: Vec::new(),
            at: 0,
            detours: Vec::new(),
            sites: Vec::new(),
            returns: Vec::new(),
            pointers: Vec::new(),
            resumes: Vec::new(),
        };
        builder.build(fuse);
        builder.finish()
    }

    /// The first cell of op `pc`, if it has one of its own.
    pub fn ip(&self, pc: usize) -> Option<Ip> {
        let start = self.starts.get(pc).copied().filter(|start| *start != NO_CELL)?;
        Some(self.cells.at(start as usize))
    }

    fn position(&self, ip: Ip) -> usize {
        (ip as usize - self.cells.at(0) as usize) / size_of::<Cell>()
    }

    /// The op of a cell.
    pub fn pc(&self, ip: Ip) -> usize {
        self.pcs[self.position(ip)] as usize
    }

    fn site(&self, ip: Ip) -> Option<&Site> {
        let after = ip.wrapping_add(cells_of::<*const Site>());
        let sites = self.sites.items();
        let position = sites.binary_search_by_key(&after, |site| site.resume).ok()?;
        sites.get(position)
    }

    /// The function that the call at this cell calls, if it has never run.
    pub fn unresolved(&self, ip: Ip) -> Option<usize> {
        let site = self.site(ip)?;
        site.entry.load(Ordering::Acquire).is_null().then_some(site.stamp.function as usize)
    }

    /// Lets the call at this cell call `callee`.
    pub fn resolve(&self, ip: Ip, callee: &Code) {
        if let Some(site) = self.site(ip) {
            site.entry.store(callee.cells.at(0).cast_mut(), Ordering::Release);
        }
    }
}

/// The cells of a function so far.
pub(crate) struct Stream<'a> {
    cells: Vec<Cell>,
    pcs: Vec<u32>,
    /// The op that the next cells belong to.
    pc: u32,
    function: PhantomData<&'a VerifiedFunction>,
}

impl Stream<'_> {
    /// Appends an op made of primitives.
    pub fn op<B: Body>(&mut self, operands: B::Operands) {
        self.push(handlers::op::<B>, operands);
    }

    /// Appends a comparison with a branch; its result is not kept.
    pub fn branch<B: Body>(&mut self, operands: B::Operands, backward: bool) {
        let handler: Handler = if backward { handlers::fused::<B, true> } else { handlers::fused::<B, false> };
        self.push(handler, Fused { delta: 0, operands });
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

/// A conditional branch that copies something on the way. Its cells stand behind those of all ops.
struct Detour {
    edge: EdgeId,
    /// The op at which the loop dispatcher goes on.
    pc: u32,
    at: u32,
    /// Its first cell.
    position: usize,
}

/// What a cell points to.
#[derive(Clone, Copy)]
enum Pointer {
    Site(usize),
    Return(usize),
}

struct Builder<'a> {
    function: &'a VerifiedFunction,
    decoded: &'a Decoded,
    module: &'a BytecodeModule,
    index: usize,
    stream: Stream<'a>,
    starts: Vec<u32>,
    branches: Vec<(usize, Width, Target)>,
    /// Index of the op whose cells are being made; later than that of the stream if a comparison is part of it.
    at: u32,
    detours: Vec<Detour>,
    sites: Vec<Site>,
    returns: Vec<Return>,
    pointers: Vec<(usize, Pointer)>,
    /// The cell after each call.
    resumes: Vec<usize>,
}

impl Builder<'_> {
    fn build(&mut self, fuse: bool) {
        let ops = &self.decoded.ops;
        let mut pc = 0;
        while let Some(op) = ops.get(pc) {
            (self.stream.pc, self.at) = (pc as u32, pc as u32);
            self.starts.push(self.stream.cells.len() as u32);
            // A comparison is no terminator, so the op that follows is of the same block.
            if let Some(Op::CondBr { condition, true_target, false_target }) = ops.get(pc + 1)
                && fuse
                && [true_target, false_target].iter().all(|edge| self.is_dead(*condition, **edge))
            {
                // If a handler stops, the comparison is made again, for its result. What is backward, the branch decides.
                self.at = pc as u32 + 1;
                let position = self.stream.cells.len();
                let (target, backward) = self.direct(*true_target);
                if generated::fused(*op, *condition, backward, &mut self.stream) {
                    self.branches.push((position, Width::Short, target));
                    self.edge(*false_target);
                    self.starts.push(NO_CELL);
                    pc += 2;
                    continue;
                }
                self.forget(target);
                self.at = pc as u32;
            }
            self.op(*op);
            pc += 1;
        }
        for index in 0.. {
            let Some(detour) = self.detours.get_mut(index) else { break };
            (self.stream.pc, self.at) = (detour.pc, detour.at);
            detour.position = self.stream.cells.len();
            let edge = detour.edge;
            self.copies(edge);
            self.branch(self.decoded.edge(edge).entry, false);
        }
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
            Op::Call { call } if self.call(call) => {}
            Op::Return { operands } => self.returns(operands),
            op if generated::plain(op, &mut self.stream) => {}
            _ => self.stream.push(handlers::stop, ()),
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

    /// Where a conditional branch leads, and whether it has to count itself.
    fn direct(&mut self, id: EdgeId) -> (Target, bool) {
        let edge = self.decoded.edge(id);
        if edge.has_copies() {
            self.detours.push(Detour { edge: id, pc: self.stream.pc, at: self.at, position: 0 });
            return (Target::Detour(self.detours.len() - 1), false);
        }
        (Target::Op(edge.entry), edge.entry <= self.at)
    }

    /// Takes back what `direct` did last.
    fn forget(&mut self, target: Target) {
        if matches!(target, Target::Detour(_)) {
            self.detours.pop();
        }
    }

    /// The copies of a branch, and the branch unless it leads to the next op.
    fn edge(&mut self, id: EdgeId) {
        let edge = self.decoded.edge(id);
        if edge.has_copies() {
            self.copies(id);
        }
        if edge.entry != self.at + 1 {
            self.branch(edge.entry, edge.entry <= self.at && !edge.has_copies());
        }
    }

    fn branch(&mut self, entry: u32, counts: bool) {
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
        self.pointers.push((self.stream.cells.len(), Pointer::Site(self.sites.len())));
        self.sites.push(Site {
            entry: AtomicPtr::default(),
            resume: std::ptr::null(),
            stamp,
            advance: caller.slot_bytes() + stamp.lead_bytes(),
            bytes: stamp.slot_bytes(),
            zeroed,
            words: words.into(),
            refs: refs.into(),
            first_result: result_words.first().copied().unwrap_or_default(),
            result_words: result_words.into(),
            result_refs: result_refs.into(),
        });
        let handler: Handler = if plain { handlers::call::<true> } else { handlers::call::<false> };
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
            [word] => return self.stream.push(handlers::return_word::<1>, Reg(*word)),
            _ => {}
        }
        self.pointers.push((self.stream.cells.len(), Pointer::Return(self.returns.len())));
        self.returns.push(Return { words: words.into(), refs: refs.into() });
        self.stream.push(handlers::return_any, std::ptr::null::<Return>());
    }

    fn finish(mut self) -> Code {
        for (position, width, target) in self.branches {
            let target = match target {
                Target::Op(pc) => self.starts[pc as usize] as usize,
                Target::Detour(index) => self.detours[index].position,
            };
            let distance = target as isize - position as isize;
            match width {
                Width::Short => self.stream.write(position, distance as i16),
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
        Code { cells, pcs: self.stream.pcs.into(), starts: self.starts.into(), sites, _returns: returns }
    }
}

/// A slice that stays where it is, with pointers into it that outlive moves of its owner.
struct Fixed<T>(NonNull<[T]>);

impl<T> Fixed<T> {
    fn new(items: Vec<T>) -> Fixed<T> {
        Fixed(NonNull::from(Box::leak(items.into_boxed_slice())))
    }

    /// The address of item `index`, or the end.
    fn at(&self, index: usize) -> *const T {
        self.0.as_ptr().cast::<T>().wrapping_add(index)
    }

    fn items(&self) -> &[T] {
        // SAFETY: the items are owned by this value.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for Fixed<T> {
    fn drop(&mut self) {
        // SAFETY: `new` leaked a box of exactly this.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
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
