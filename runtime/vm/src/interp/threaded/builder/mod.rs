//! The code builder: translates a verified function into threaded instructions. `function_code.rs` calls it when a
//! function first runs.
//!
//! - A branch to the block that follows falls through and takes no instruction.
//! - The copies of a branch are instructions before it, of which the last one is the branch, too; those of a
//!   conditional branch are on a split edge after all ops.
//! - A comparison whose result only a branch tests is fused with it into one instruction.
//! - Loops are rotated: a branch back to a block that is nothing but such a test makes the test itself, so an iteration
//!   takes one instruction for both.
//!
//! For each instruction the code has the op at which the loop dispatcher continues if its handler stops.

mod fusion;
mod instruction_stream;
mod runtime_calls;

use std::collections::HashMap;

use self::instruction_stream::InstructionStream;
use super::call_handlers::{self, ANY, CARRIED, ONE, PAIR};
use super::copies::{self, Around, value_copies};
use super::entry_carries::{EntryCarries, after_call};
use super::handler::{Handler, TickWhen, branch_variant};
use super::handlers;
use super::operands::{ConditionalBranch, DISTANCE_UNITS, WordReturn};
use crate::bytecode::{
    AnyReg, BlockId, CallId, Callee, Decoded, Edge, EdgeId, ListId, Op, RefReg, Reg, Remap, RodataId, VerifiedFunction,
};
use crate::convention::Kind;
use crate::generated::vm::interp::threaded as generated;
use crate::interp::code::import_site::ImportSite;
use crate::interp::code::native_code::NativeTier;
use crate::interp::code::pinned_list::PinnedList;
use crate::interp::code::threaded_code::{Entry, ThreadedCode};
use crate::interp::frame::argument_layout::ArgumentLayout;
use crate::interp::frame::carried_register::{CarriedRegister, narrow};
use crate::interp::frame::descriptor::FrameDescriptor;
use crate::interp::frame::instruction::{
    CallOperands, NO_INSTRUCTION, ReturnOperands, ThreadedCallSite, ThreadedInstruction, instructions_of,
};
use crate::interp::machine::bound_modules::BytecodeModule;
use crate::interp::ops::control::register_index;
use crate::limits::Charge;

/// A loop is not rotated if a branch of its test has more copies than this, because rotation duplicates them.
const MAX_ROTATED_COPIES: usize = 4;

/// The header of a loop of one block: a block that branches back to itself.
#[derive(Clone, Copy)]
struct LoopHeader {
    /// Its first op.
    op: u32,
    /// The first instruction that every iteration runs.
    instruction: u32,
}

/// Width of the field for the distance of a branch: 16 bits in fused branches, 32 in others.
#[derive(Clone, Copy)]
enum DistanceWidth {
    Short,
    Long,
}

/// Where a branch leads.
#[derive(Clone, Copy)]
enum BranchTarget {
    Op(u32),
    SplitEdge(usize),
}

/// A split edge: the copies and the load of the carry on the taken side of a conditional branch, which leads there. The
/// instructions are after those of all ops.
struct SplitEdge {
    edge: EdgeId,
    /// The op at which the loop dispatcher continues.
    pc: u32,
    current_op: u32,
    carry: Option<CarriedRegister>,
    loop_header: Option<LoopHeader>,
    /// Index of its first instruction.
    position: usize,
}

/// A pinned item that an instruction points to, by index.
#[derive(Clone, Copy)]
enum Pointer {
    CallSite(usize),
    ImportSite(usize),
    Return(usize),
}

pub(in crate::interp) struct CodeBuilder<'a> {
    function: &'a VerifiedFunction,
    decoded: &'a Decoded,
    module: &'a BytecodeModule,
    index: usize,
    fuse: bool,
    entry_carries: EntryCarries,
    stream: InstructionStream,
    entries: Vec<Entry>,
    /// The block whose instructions are being emitted, if it branches back to itself.
    loop_header: Option<LoopHeader>,
    branches: Vec<(usize, DistanceWidth, BranchTarget)>,
    /// The registers into which the block has loaded rodata segments that it has not passed on. Other references may
    /// have taken their place.
    loaded_rodata: HashMap<RefReg, RodataId>,
    /// Index of the op whose instructions are being emitted; one more than that of the stream for a branch that is
    /// fused with the op before it.
    current_op: u32,
    /// The op whose instructions come next.
    next_op: u32,
    split_edges: Vec<SplitEdge>,
    sites: Vec<ThreadedCallSite>,
    import_sites: Vec<ImportSite>,
    returns: Vec<ReturnOperands>,
    pointers: Vec<(usize, Pointer)>,
    /// The instruction after each call.
    resumes: Vec<usize>,
}

impl<'a> CodeBuilder<'a> {
    pub fn new(
        function: &'a VerifiedFunction,
        module: &'a BytecodeModule,
        index: usize,
        fuse: bool,
    ) -> CodeBuilder<'a> {
        CodeBuilder {
            function,
            decoded: function.decoded(),
            module,
            index,
            fuse,
            entry_carries: EntryCarries::new(function, module),
            stream: InstructionStream::default(),
            entries: Vec::with_capacity(function.decoded().ops.len()),
            loop_header: None,
            branches: Vec::new(),
            loaded_rodata: HashMap::new(),
            current_op: 0,
            next_op: 0,
            split_edges: Vec::new(),
            sites: Vec::new(),
            import_sites: Vec::new(),
            returns: Vec::new(),
            pointers: Vec::new(),
            resumes: Vec::new(),
        }
    }

    /// Builds the code. None if the target of a fused branch is out of reach of its 16-bit distance.
    pub fn build(mut self) -> Option<ThreadedCode> {
        let decoded = self.decoded;
        for (block, range) in decoded.blocks.iter().map(|block| &block.ops).enumerate() {
            self.stream.carry = self.entry_carries.of(BlockId(block as u32));
            self.loop_header = self.entry_carries.is_self_loop(BlockId(block as u32)).then(|| {
                let instruction = self.stream.instructions.len() + instructions_of::<()>();
                LoopHeader { op: range.start, instruction: instruction as u32 }
            });
            // Clearing would take as long as the longest block for each.
            self.loaded_rodata = HashMap::new();
            let mut pc = range.start;
            while pc < range.end {
                (self.stream.pc, self.current_op, self.next_op) = (pc, pc, pc + 1);
                self.record_entry(self.stream.instructions.len() as u32);
                if self.loop_header.is_some_and(|loop_header| loop_header.op == pc) {
                    self.stream.push(handlers::set_loop_header, ());
                }
                // If the handler of the fused branch stops, the loop dispatcher executes the comparison first, so `pc`
                // stays that of it.
                (self.current_op, self.next_op) = (pc + 1, pc + 2);
                if self.test(pc, None) {
                    self.record_entry(NO_INSTRUCTION);
                    pc += 2;
                    continue;
                }
                (self.current_op, self.next_op) = (pc, pc + 1);
                self.op(decoded.ops[pc as usize]);
                pc += 1;
            }
            self.stream.fuse_sequences();
        }
        for index in 0.. {
            let Some(split_edge) = self.split_edges.get_mut(index) else { break };
            (self.stream.pc, self.current_op, self.stream.carry, self.loop_header) =
                (split_edge.pc, split_edge.current_op, split_edge.carry, split_edge.loop_header);
            split_edge.position = self.stream.instructions.len();
            let (id, edge) = (split_edge.edge, decoded.edge(split_edge.edge));
            if self.copies(id, true) {
                continue;
            }
            self.load_entry_carry(edge.target);
            self.branch(edge.entry, false);
        }
        self.finish()
    }

    /// Records how the code is entered at the next op.
    fn record_entry(&mut self, instruction: u32) {
        let loop_header = self.loop_header.map_or(0, |loop_header| loop_header.instruction);
        self.entries.push(Entry { instruction, loop_header, carry: self.stream.carry });
    }

    /// Emits the comparison at `pc` and the branch on its result as one instruction. False if the ops are not such a
    /// pair, or the result is live after the branch.
    ///
    /// In a rotated loop the instruction replaces a branch to the comparison, and `rotated` says when it counts as a
    /// backward branch.
    fn test(&mut self, pc: u32, rotated: Option<TickWhen>) -> bool {
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
        let position = self.stream.instructions.len();
        let (target, backward) = self.branch_target(*true_target);
        let counts = rotated.unwrap_or(if backward { TickWhen::Taken } else { TickWhen::Never });
        let to_loop_header = matches!(target, BranchTarget::Op(op) if self.is_loop_header(op));
        self.stream.branch_variant = branch_variant(counts, to_loop_header);
        self.stream.op = Some(*op);
        if !generated::visit_fused_test(*op, *condition, &mut self.stream) {
            if matches!(target, BranchTarget::SplitEdge(_)) {
                self.split_edges.pop();
            }
            return false;
        }
        if !to_loop_header {
            self.branches.push((position, DistanceWidth::Short, target));
        }
        self.edge(*false_target);
        true
    }

    /// Whether a branch leads back to a header that is a test alone, which can be emitted in its place.
    fn is_rotated(&self, edge: &Edge) -> bool {
        let header = &self.decoded.block(edge.target).ops;
        let Some(Op::CondBr { true_target, false_target, .. }) = self.decoded.ops.get(header.start as usize + 1) else {
            return false;
        };
        // Only the branch to the header is counted, so those of the header must be forward.
        let leads_on = |edge: EdgeId| {
            let edge = self.decoded.edge(edge);
            edge.entry >= header.end && self.decoded.remaps(edge).len() <= MAX_ROTATED_COPIES
        };
        header.len() == 2 && edge.entry <= self.current_op && leads_on(*true_target) && leads_on(*false_target)
    }

    /// Rotates a loop: emits its test in place of the branch back to it. False if the target is not a test alone.
    fn rotated(&mut self, edge: &Edge) -> bool {
        if !self.is_rotated(edge) {
            return false;
        }
        let header = self.decoded.block(edge.target).ops.start;
        let at = std::mem::replace(&mut self.current_op, header + 1);
        // Copies cannot be undone if the handler stops, so with copies the branch was counted before them.
        let made = self.test(header, Some(if edge.has_copies() { TickWhen::Never } else { TickWhen::Always }));
        self.current_op = at;
        made
    }

    fn op(&mut self, op: Op) {
        self.stream.op = Some(op);
        match op {
            Op::Br { target } => self.edge(target),
            Op::CondBr { condition, true_target, false_target } => {
                let position = self.stream.instructions.len();
                let (target, backward) = self.branch_target(true_target);
                let handler: Handler =
                    if backward { handlers::conditional::<true> } else { handlers::conditional::<false> };
                self.stream.push(handler, ConditionalBranch { delta: 0, condition });
                self.branches.push((position, DistanceWidth::Long, target));
                self.edge(false_target);
            }
            Op::Call { call } if self.call(call) => {
                self.stream.carry = after_call(self.decoded, self.module, op);
            }
            Op::Call { call }
            | Op::CallVariadic { call }
            | Op::CallYieldable { call }
            | Op::CallVariadicYieldable { call }
                if self.import_call(call) => {}
            Op::Return { operands } => self.returns(operands),
            op if self.reference_load(op) => {}
            op if generated::visit_op(op, &mut self.stream) || generated::visit_helper(op, &mut self.stream) => {}
            _ => {
                self.stream.push(handlers::cold, self.stream.pc);
                self.stream.carry = None;
            }
        }
    }

    /// True if a slot is dead after a branch is taken: nothing reads it, or the branch writes it first.
    fn is_dead(&self, reg: Reg, id: EdgeId) -> bool {
        let edge = self.decoded.edge(id);
        let remaps = self.decoded.remaps(edge);
        let Some(liveness) = self.function.liveness() else { return false };
        let is_copied = |of: fn(&Remap) -> AnyReg| {
            remaps.iter().map(of).any(|register| !register.is_ref() && register.reg() == reg)
        };
        !is_copied(|remap| remap.source)
            && (is_copied(|remap| remap.target) || !liveness.is_slot_live(edge.target, reg))
    }

    /// True if the carried register is the one that a block is entered with, or that block is entered with none.
    fn provides_entry_carry(&self, target: BlockId) -> bool {
        let Some(wanted) = self.entry_carries.of(target) else { return true };
        self.stream.carry.is_some_and(|carry| carry.provides(wanted))
    }

    /// Loads the carry that a block is entered with, unless it is carried already.
    fn load_entry_carry(&mut self, target: BlockId) {
        if let Some(carry) = self.entry_carries.of(target).filter(|_| !self.provides_entry_carry(target)) {
            let handler: Handler =
                if carry.wide { handlers::load_carry::<true> } else { handlers::load_carry::<false> };
            self.stream.push(handler, carry.reg);
        }
    }

    /// The target of the taken side of a conditional branch, and whether the branch has to count itself. A split edge
    /// counts on its own.
    fn branch_target(&mut self, id: EdgeId) -> (BranchTarget, bool) {
        let edge = self.decoded.edge(id);
        if edge.has_copies() || !self.provides_entry_carry(edge.target) {
            let (pc, current_op, carry, loop_header) =
                (self.stream.pc, self.current_op, self.stream.carry, self.loop_header);
            self.split_edges.push(SplitEdge { edge: id, pc, current_op, carry, loop_header, position: 0 });
            return (BranchTarget::SplitEdge(self.split_edges.len() - 1), false);
        }
        (BranchTarget::Op(edge.entry), edge.entry <= self.current_op)
    }

    /// Emits the copies of a branch, and the branch unless it falls through.
    fn edge(&mut self, id: EdgeId) {
        let edge = self.decoded.edge(id);
        if edge.has_copies() && self.copies(id, edge.entry != self.next_op && !self.is_rotated(edge)) {
            return;
        }
        if self.rotated(edge) {
            return;
        }
        self.load_entry_carry(edge.target);
        if edge.entry != self.next_op {
            self.branch(edge.entry, edge.entry <= self.current_op && !edge.has_copies());
        }
    }

    fn is_loop_header(&self, op: u32) -> bool {
        self.loop_header.is_some_and(|loop_header| loop_header.op == op)
    }

    fn branch(&mut self, entry: u32, counts: bool) {
        if !counts && self.is_loop_header(entry) {
            return self.stream.push(handlers::to_loop_header, ());
        }
        self.branches.push((self.stream.instructions.len(), DistanceWidth::Long, BranchTarget::Op(entry)));
        let handler: Handler = if counts { handlers::branch::<true> } else { handlers::branch::<false> };
        self.stream.push(handler, 0_i32);
    }

    /// Emits the copies of a branch, and the branch, too, if `jumps` and there is a copy of a value: true then. A
    /// backward branch is counted before them, because a handler that stops must have changed nothing.
    fn copies(&mut self, id: EdgeId, jumps: bool) -> bool {
        let edge = self.decoded.edge(id);
        let remaps = self.decoded.remaps(edge);
        let copies = value_copies(remaps);
        let mut counted = edge.entry <= self.current_op;
        // Copies of references and of values do not depend on each other.
        let mut references = remaps.iter().filter(|remap| remap.source.is_ref()).peekable();
        if counted && (references.peek().is_some() || copies.is_empty()) {
            counted = false;
            self.stream.push(handlers::count, ());
        }
        for remap in references {
            self.stream.push(handlers::copy_ref, (remap.source.ref_reg(), remap.target.ref_reg()));
        }
        let wanted = self.entry_carries.of(edge.target);
        self.stream.carry = self.stream.carry.and_then(|carry| {
            let carries = carry.after_copies(remaps);
            let provides = |carry: &&CarriedRegister| wanted.is_some_and(|wanted| carry.provides(wanted));
            carries.iter().find(provides).or(carries.first()).copied()
        });
        let groups = copies.len().div_ceil(copies::MOST);
        for (index, group) in copies.chunks(copies::MOST).enumerate() {
            let jumps = jumps && index + 1 == groups;
            let load = wanted.filter(|_| jumps && !self.provides_entry_carry(edge.target));
            if jumps {
                let position = self.stream.instructions.len();
                self.branches.push((position, DistanceWidth::Long, BranchTarget::Op(edge.entry)));
            }
            copies::emit(group, Around { counted: counted && index == 0, load, jumps }, &mut self.stream);
        }
        jumps && groups > 0
    }

    /// Emits a call of a function of the module. False for any other call.
    fn call(&mut self, id: CallId) -> bool {
        let site = self.decoded.call(id);
        let (Callee::Function(callee), None, None) = (site.callee, site.segments, site.resume) else { return false };
        let Some(callee) = self.module.functions.get(callee.index()) else { return false };
        let descriptor = FrameDescriptor::new(self.index, callee, self.stream.pc as usize, id);
        let caller = FrameDescriptor::new(self.index, self.function, 0, id);
        let mut layout = ArgumentLayout::default();
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
            split(&callee.convention().results, self.decoded.list(site.results), |reg| register_index(reg) as u16);
        let zeroed = if callee.reads_unwritten_slots() { descriptor.slot_bytes() } else { 0 };
        let plain = zeroed == 0 && descriptor.refs == 0;
        let passing = match words.as_slice() {
            [] => 0,
            [(source, _)] if self.stream.carried(&[narrow(Reg(*source))]) != 0 => CARRIED,
            [_] => ONE,
            _ => ANY,
        };
        self.pointers.push((self.stream.instructions.len(), Pointer::CallSite(self.sites.len())));
        self.sites.push(ThreadedCallSite {
            resume: std::ptr::null(),
            descriptor,
            advance: caller.slot_bytes() + descriptor.lead_bytes(),
            bytes: descriptor.slot_bytes(),
            zeroed,
            words: words.into(),
            refs: refs.into(),
            result_words: result_words.into(),
            result_refs: result_refs.into(),
        });
        let handler: Handler = match (plain, passing) {
            (true, 0) => call_handlers::call::<true, 0>,
            (true, ONE) => call_handlers::call::<true, ONE>,
            (true, CARRIED) => call_handlers::call::<true, CARRIED>,
            (true, _) => call_handlers::call::<true, ANY>,
            (false, _) => call_handlers::call::<false, ANY>,
        };
        // The operands are written once the site has its address.
        self.stream.push(handler, [0_u64; size_of::<CallOperands>() / 8]);
        self.resumes.push(self.stream.instructions.len());
        true
    }

    fn returns(&mut self, operands: ListId) {
        let results = &self.function.convention().results;
        let (words, refs) = split(results, self.decoded.list(operands), |reg| reg.ref_reg());
        match words.as_slice() {
            _ if self.function.refs() > 0 => {}
            [] => return self.stream.push(call_handlers::return_word::<0>, WordReturn { reg: Reg(0), list: operands }),
            [word] => {
                let carried = self.stream.carried(&[narrow(Reg(*word))]) != 0;
                let handler: Handler =
                    if carried { call_handlers::return_word::<CARRIED> } else { call_handlers::return_word::<ONE> };
                return self.stream.push(handler, WordReturn { reg: Reg(*word), list: operands });
            }
            // Two words of one result, which are a pair in the caller, too.
            [word, _] if results.len() == 1 => {
                let operands = WordReturn { reg: Reg(*word), list: operands };
                return self.stream.push(call_handlers::return_word::<PAIR>, operands);
            }
            _ => {}
        }
        self.pointers.push((self.stream.instructions.len(), Pointer::Return(self.returns.len())));
        self.returns.push(ReturnOperands { words: words.into(), refs: refs.into(), list: operands });
        self.stream.push(call_handlers::return_any, std::ptr::null::<ReturnOperands>());
    }

    fn finish(mut self) -> Option<ThreadedCode> {
        for (position, width, target) in self.branches {
            let target = match target {
                BranchTarget::Op(pc) => self.entries[pc as usize].instruction as usize,
                BranchTarget::SplitEdge(index) => self.split_edges[index].position,
            };
            let distance = (target as isize - position as isize) * DISTANCE_UNITS;
            match width {
                DistanceWidth::Short => self.stream.write(position, i16::try_from(distance).ok()?),
                DistanceWidth::Long => self.stream.write(position, distance as i32),
            }
        }
        let (sites, returns) = (PinnedList::new(self.sites), PinnedList::new(self.returns));
        let import_sites = PinnedList::new(self.import_sites);
        // No callee has code yet, as far as this function knows.
        let callee = std::ptr::null_mut();
        for (position, pointer) in self.pointers {
            match pointer {
                Pointer::CallSite(index) => self.stream.write(position, sites.items()[index].operands(callee)),
                Pointer::ImportSite(index) => self.stream.write(position, import_sites.at(index)),
                Pointer::Return(index) => self.stream.write(position, returns.at(index)),
            }
        }
        let instructions = PinnedList::new(self.stream.instructions);
        let resumes = self.resumes.iter().map(|position| instructions.at(*position)).collect::<Box<[_]>>();
        for (index, resume) in resumes.iter().enumerate() {
            // SAFETY: there is one site for each call, and no instruction has run that could read a site.
            unsafe { (*sites.at(index).cast_mut()).resume = *resume };
        }
        let words = instructions.items().len() + self.entries.len() * 3 + self.stream.pcs.len();
        let bytes = words * size_of::<ThreadedInstruction>()
            + sites.items().len() * 2 * size_of::<ThreadedCallSite>()
            + import_sites.items().len() * 2 * size_of::<ImportSite>();
        Some(ThreadedCode {
            instructions,
            pcs: self.stream.pcs.into(),
            entries: self.entries.into(),
            sites,
            _import_sites: import_sites,
            _returns: returns,
            native: NativeTier::default(),
            // The code is about as large as the bytecode, which the host has loaded or an executable has been charged
            // for, so it is not refused.
            _charge: Charge::of_call_anyway(bytes as u64),
        })
    }
}

/// Splits registers by bank: the slots of each 32 bits of the values, and the references.
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
