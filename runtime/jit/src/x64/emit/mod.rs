//! The emitter: machine code from a graph and its allocation, block by block, with rarely run code in stubs at the end.
//!
//! Machine code is a handler of the threaded dispatcher: the interpreter enters it with the frame's slots and the
//! machine in the registers of that convention, and a side exit continues with the next handler in the same way. All
//! slots that the interpreter may read after a side exit hold what it would have written there.

mod alignment;
mod branches;
mod calls;
mod checked_accesses;
mod constants;
mod emitter;
mod shared_stubs;
mod side_exits;
mod spilled_operands;
mod vector_nodes;

use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi, dynasm};
use smallvec::SmallVec;

use super::lower::{self, Asm, Flags, Src, lanes};
use super::runtime_layout::{self, LinkTargets};
use crate::analysis::origins::Origins;
use crate::generated::vm::primitive::{Lower, Primitive};
use crate::ir::graph::{BlockIndex, ExitId, Graph, Kind, NativeKind, NodeId};
use crate::ir::hash::Table;
use crate::ir::per_block::BlockSet;
use crate::ir::types::{Effect, Scalar, Ty};
use crate::processor::features::Features;
use crate::processor::registers::{
    C_ARGUMENTS, C_RESULT, C_VECTOR_ARGUMENTS, C_VECTOR_RESULT, LOADED, RSP, SCRATCH, SLOTS, VECTOR_LOADED,
    VECTOR_SCRATCH,
};
use crate::regalloc::{Allocation, Location};

pub(super) use emitter::Origin;
use emitter::{Emitter, Stub, StubKind};

/// More bytes than all vectors that an unrolled access loads or stores.
const MAX_VECTOR_BYTES: i32 = 1 << 10;

/// The code of a function.
pub(crate) struct Emitted {
    pub code: Vec<u8>,
    /// The code offsets of resume points, by their blocks.
    pub entries: Table<BlockIndex, usize>,
    /// The code offset of the native entry.
    pub native_entry: Option<usize>,
    /// Code offset of each part of the graph, for listings.
    pub code_offsets: Vec<(usize, Origin)>,
}

/// Emits the code of a function.
pub(crate) fn emit(graph: &Graph, allocation: &Allocation, link_targets: &LinkTargets) -> Option<Emitted> {
    // About as many bytes, labels and branches as there will be.
    let bytes = 16 * graph.nodes.len() + 64 * graph.exits.len() + 256;
    let labels = graph.blocks.len() + 2 * graph.exits.len() + 8;
    let mut asm = Asm::with_capacity(Features::detect(), bytes, labels);
    let labels = graph.blocks.iter().map(|_| asm.ops.new_dynamic_label()).collect();
    let lanes = graph.blocks.iter().flat_map(|block| &block.nodes).filter_map(|id| graph.node(*id).width()).max();
    let spilled = (allocation.spill_slots * 8) as i32;
    // A handler begins with the stack misaligned by one word, and C functions want it aligned. With a native entry,
    // calls align it themselves.
    let frame = if graph.native_entry.is_some() { spilled } else { (spilled as u32).next_multiple_of(16) as i32 + 8 };
    let mut emitter = Emitter {
        asm,
        graph,
        locations: &allocation.locations,
        link_targets,
        labels,
        stubs: Vec::with_capacity(graph.exits.len()),
        failed_checks: vec![None; graph.exits.len()],
        checked: link_targets.checks_accesses.then(|| Origins::new(graph, &graph.order)),
        failed_accesses: Vec::new(),
        shared: Vec::new(),
        frame,
        next: None,
        following: 0,
        emitted: BlockSet::new(graph),
        has_calls: calls::has_calls(graph),
        returns: None,
        lanes,
        constants: Table::default(),
        first_of_pair: None,
    };
    emitter.returns = calls::plain_return(graph).map(|block| (emitter.asm.ops.new_dynamic_label(), block));
    let mut native_entry = None;
    let mut entries = Table::default();
    // Continuations of ops of the runtime are mostly reached from the code itself, so their resume points are emitted
    // out of line.
    let continuations = graph.native_terminators.values().filter_map(|terminator| match &terminator.kind {
        NativeKind::Op(op) => Some(op.continuation),
        NativeKind::Return { .. } | NativeKind::Call(_) => None,
    });
    let (mut is_continuation, mut late_entries) = (BlockSet::new(graph), Vec::new());
    continuations.for_each(|back| is_continuation.insert(back));
    let mut code_offsets = Vec::with_capacity(graph.nodes.len() + 2 * graph.blocks.len() + graph.exits.len());
    let tops = alignment::innermost_tops(graph);
    for (index, block) in graph.order.iter().enumerate() {
        if tops.contains(*block) {
            alignment::align(&mut emitter.asm);
        }
        emitter.following = index + 1;
        emitter.next = graph.order.get(index + 1).copied();
        emitter.emitted.insert(*block);
        let content = &graph.blocks[*block];
        code_offsets.push((emitter.asm.ops.offset().0, Origin::Block(*block)));
        if content.entry.is_some_and(|entry| !entry.native) {
            if is_continuation.contains(*block) {
                late_entries.push(*block);
            } else {
                entries.insert(*block, emitter.asm.ops.offset().0);
                emitter.resume_point();
            }
        }
        let label = emitter.labels[*block];
        dynasm!(emitter.asm.ops ; .arch x64 ; =>label);
        if graph.native_entry.is_some_and(|(entry, _)| entry == *block) {
            native_entry = (frame <= calls::MAX_CALLED_FRAME_BYTES).then(|| emitter.asm.ops.offset().0);
            emitter.push_native_frame();
        } else if graph.inlined_entry == Some(*block) {
            emitter.push_native_frame();
        }
        for id in &content.nodes {
            code_offsets.push((emitter.asm.ops.offset().0, Origin::Node(*id)));
            emitter.node(*id);
        }
        code_offsets.push((emitter.asm.ops.offset().0, Origin::Terminator(*block)));
        emitter.terminator(*block);
    }
    while let Some(stub) = emitter.stubs.pop() {
        let origin = match stub.kind {
            StubKind::Limits(_) | StubKind::SpeculativeCount(..) | StubKind::CountSteps(..) => {
                Origin::Limits(stub.exit)
            }
            StubKind::FailedCheck | StubKind::Terminator(_) | StubKind::CountedCall(_) | StubKind::FailedImport => {
                Origin::SideExit(stub.exit)
            }
            StubKind::ByRuntime(block, _) => Origin::Terminator(block),
        };
        code_offsets.push((emitter.asm.ops.offset().0, origin));
        emitter.stub(&stub);
    }
    if let Some((label, block)) = emitter.returns {
        code_offsets.push((emitter.asm.ops.offset().0, Origin::Terminator(block)));
        emitter.return_to_interpreter(label, block);
    }
    for failed in std::mem::take(&mut emitter.failed_accesses) {
        code_offsets.push((emitter.asm.ops.offset().0, Origin::Node(failed.node)));
        emitter.emit_failed_access(&failed);
    }
    for block in late_entries {
        entries.insert(block, emitter.asm.ops.offset().0);
        code_offsets.push((emitter.asm.ops.offset().0, Origin::ResumePoint(block)));
        emitter.resume_point();
        let label = emitter.labels[block];
        dynasm!(emitter.asm.ops ; .arch x64 ; jmp =>label);
    }
    emitter.emit_shared(&mut code_offsets);
    emitter.emit_constants(&mut code_offsets);
    let code = emitter.asm.ops.finalize().ok()?;
    Some(Emitted { code, entries, native_entry, code_offsets })
}

impl Emitter<'_> {
    fn of(&self, id: NodeId) -> Scalar {
        self.graph.node(id).scalar()
    }

    fn location(&self, id: NodeId) -> Location {
        self.locations[id.index()]
    }

    /// Emits a resume point: from the convention of handlers to the registers of the code.
    fn resume_point(&mut self) {
        let countdown = runtime_layout::COUNTDOWN;
        dynasm!(self.asm.ops ; .arch x64
            ; mov r12, rsi
            ; mov r13, rdx
            ; mov r15d, [r13 + countdown]
        );
        self.note_native_stack();
        if let Some((label, _)) = self.returns {
            // A call, so that the processor predicts the return.
            let body = self.asm.ops.new_dynamic_label();
            dynasm!(self.asm.ops ; .arch x64 ; call =>body ; jmp =>label ; =>body);
        }
        self.push_native_frame();
    }

    /// The label of the stub that takes a side exit where a check fails.
    fn exit(&mut self, exit: ExitId) -> DynamicLabel {
        if let Some(label) = self.failed_checks[exit.0 as usize] {
            return label;
        }
        let label = self.asm.ops.new_dynamic_label();
        self.stubs.push(Stub { label, exit, kind: StubKind::FailedCheck });
        self.failed_checks[exit.0 as usize] = Some(label);
        label
    }

    /// An operand in a register; number `index` of those of its bank.
    fn operand(&mut self, id: NodeId, index: usize) -> u8 {
        let loaded = if self.graph.node(id).is_vector() { VECTOR_LOADED[index] } else { LOADED[index] };
        self.fetch(id, loaded)
    }

    /// A value in a register: its own, or `loaded`.
    fn fetch(&mut self, id: NodeId, loaded: u8) -> u8 {
        // The load of a folded number is that of its operand, which fills the upper half with zeros.
        let (of, width) = (self.of(self.graph.unfolded(id)), self.graph.node(id).width());
        match (self.location(id), self.graph.constant(id)) {
            (_, Some(bits)) => {
                self.load_constant(of, loaded, bits);
                loaded
            }
            (Location::Register(register), _) => register,
            (Location::SpillSlot(slot), _) => {
                match width {
                    Some(width) => lanes::load_frame(&mut self.asm, width, loaded, slot as i32 * 8),
                    None => lower::load_slot(&mut self.asm, of, loaded, RSP, slot as i32 * 8),
                }
                loaded
            }
            (Location::None, None) if self.graph.is_folded(id) => {
                self.lanes(id, loaded);
                loaded
            }
            // A value without a location has no use.
            (Location::None, None) => loaded,
        }
    }

    /// An operand, as a constant if it is one that instructions can hold.
    fn source(&mut self, id: NodeId, index: usize) -> Src {
        let of = self.of(id);
        let small = self.graph.constant(id).and_then(|bits| match of {
            Scalar::I32 => Some(bits as u32 as i32),
            Scalar::I64 => i32::try_from(bits as i64).ok(),
            Scalar::F32 | Scalar::F64 => None,
        });
        match small {
            Some(value) => Src::Imm(value),
            None => Src::Reg(self.operand(id, index)),
        }
    }

    /// All operands. The last one may be a constant, and so may both of a difference and a factor of a multiply-add. If
    /// the first one has to be reloaded, that is to `first`.
    fn sources(&mut self, primitive: Primitive, args: &[NodeId], first: u8) -> SmallVec<[Src; 4]> {
        let last = args.len() - 1;
        args.iter()
            .enumerate()
            .map(|(index, arg)| {
                let can_be = index == last || primitive == Primitive::WrappingMulAdd;
                match index {
                    // The number that another one is subtracted from.
                    0 if primitive == Primitive::WrappingSub && self.graph.constant(*arg).is_some() => {
                        self.source(*arg, 0)
                    }
                    0 => Src::Reg(self.fetch(*arg, first)),
                    _ if can_be => self.source(*arg, index),
                    _ => Src::Reg(self.operand(*arg, index)),
                }
            })
            .collect()
    }

    /// Where the first operand of a node is reloaded: where the node computes its value, unless another operand is
    /// there.
    fn reloaded_first(&self, id: NodeId) -> u8 {
        let node = self.graph.node(id);
        let is_vector = self.graph.node(node.args[0]).is_vector();
        let target = self.target(id);
        let is_taken = |arg: &NodeId| self.location(*arg) == Location::Register(target);
        if node.is_vector() == is_vector && !node.args[1..].iter().any(is_taken) {
            return target;
        }
        if is_vector { VECTOR_LOADED[0] } else { LOADED[0] }
    }

    /// The register in which the value of a node is computed.
    fn target(&self, id: NodeId) -> u8 {
        match self.location(id) {
            Location::Register(register) => register,
            _ if self.graph.node(id).is_vector() => VECTOR_LOADED[0],
            _ => LOADED[0],
        }
    }

    /// Moves a value that was computed in `register` to its location.
    fn put(&mut self, id: NodeId, register: u8) {
        match self.location(id) {
            Location::Register(own) => self.copy(id, own, register),
            Location::SpillSlot(slot) => match self.graph.node(id).width() {
                Some(width) => lanes::store_frame(&mut self.asm, width, slot as i32 * 8, register),
                None => lower::store_slot(&mut self.asm, self.graph.node(id).scalar(), RSP, slot as i32 * 8, register),
            },
            Location::None => {}
        }
    }

    /// Copies a value of a node's type from one register to another one.
    fn copy(&mut self, id: NodeId, to: u8, from: u8) {
        let of = self.of(id);
        match self.graph.node(id).width() {
            Some(width) => lanes::copy(&mut self.asm, width, to, from),
            None => lower::move_value(&mut self.asm, of, to, from),
        }
    }

    /// Zeroes the upper lanes before code without vectors runs, which would be slowed down by them.
    fn zero_upper_lanes(&mut self) {
        if self.lanes.is_some() {
            lanes::zero_upper(&mut self.asm);
        }
    }

    /// Emits the test of a truth value.
    fn test(&mut self, truth: NodeId) -> Flags {
        let graph = self.graph;
        let node = graph.node(truth);
        let Kind::Primitive(primitive, of) = node.kind else { unreachable!("a truth is a primitive") };
        if let Some(flags) = self.integer_test(primitive, of, &node.args) {
            return flags;
        }
        if graph.is_folded(node.args[0]) && primitive == Primitive::IsNonzero && !graph.is_extension(node.args[0]) {
            let bits = &graph.node(node.args[0]).args;
            let (first, second) = (self.operand(bits[0], 0), self.source(bits[1], 1));
            return lower::test_bits(&mut self.asm, of, first, second);
        }
        let first = if of.is_float() { VECTOR_LOADED[0] } else { LOADED[0] };
        let sources = self.sources(primitive, &node.args, first);
        lower::test(&mut self.asm, primitive, of, &sources)
    }

    /// Emits the test of a selection by a mask, if there can be one and it is better than a branch. It is not for a
    /// value that a loop carries, such as a maximum: a branch is mostly predicted, while a mask is on the critical path
    /// of each iteration.
    fn test_mask(&mut self, args: &[NodeId], selected: Scalar) -> bool {
        let graph = self.graph;
        let tested = graph.node(args[0]);
        let Kind::Primitive(primitive, of) = tested.kind else { return false };
        let is_carried = |id: &NodeId| self.graph.node(*id).kind == Kind::Parameter;
        if !lower::has_mask(&self.asm, of, selected) || tested.args.iter().chain(&args[1..]).any(is_carried) {
            return false;
        }
        let sources = self.sources(primitive, &tested.args, VECTOR_LOADED[0]);
        lower::test_mask(&mut self.asm, primitive, of, &sources)
    }

    fn node(&mut self, id: NodeId) {
        let graph = self.graph;
        let node = graph.node(id);
        if node.ty == Ty::Truth {
            return;
        }
        self.check_access(id);
        if graph.is_folded(id) {
            return;
        }
        let target = self.target(id);
        match node.kind {
            Kind::Constant(_) | Kind::Parameter => {}
            Kind::Slot(slot) => {
                lower::load_slot(&mut self.asm, node.scalar(), target, SLOTS, i32::from(slot) * 4);
                self.put(id, target);
            }
            Kind::Passed(register) => self.put(id, register),
            Kind::FlushToSlots => node.exit.into_iter().for_each(|exit| self.flush_frame_state(exit)),
            Kind::Number => {
                let flags = self.test(node.args[0]);
                lower::set_if(&mut self.asm, flags, target);
                self.put(id, target);
            }
            Kind::Low => {
                let source = self.operand(node.args[0], 0);
                lower::value(&mut self.asm, Primitive::Low32, Scalar::I32, target, &[Src::Reg(source)]);
                self.put(id, target);
            }
            Kind::High => {
                let source = self.operand(node.args[0], 0);
                lower::move_value(&mut self.asm, Scalar::I64, target, source);
                dynasm!(self.asm.ops ; .arch x64 ; shr Rq(target), 32);
                self.put(id, target);
            }
            Kind::Pair => {
                let (low, high) = (self.operand(node.args[0], 0), self.operand(node.args[1], 1));
                dynasm!(self.asm.ops ; .arch x64 ; mov Rd(SCRATCH), Rd(high) ; shl Rq(SCRATCH), 32);
                dynasm!(self.asm.ops ; .arch x64 ; mov Rd(target), Rd(low) ; or Rq(target), Rq(SCRATCH));
                self.put(id, target);
            }
            Kind::Cast => {
                let source = self.operand(node.args[0], 0);
                let of = node.scalar();
                let (primitive, float) = match of {
                    Scalar::I32 => (Primitive::Bits, Scalar::F32),
                    Scalar::I64 => (Primitive::Bits, Scalar::F64),
                    Scalar::F32 | Scalar::F64 => (Primitive::FromBits, of),
                };
                lower::value(&mut self.asm, primitive, float, target, &[Src::Reg(source)]);
                self.put(id, target);
            }
            Kind::IsBuffer(register) => self.is_buffer(register, node.exit),
            Kind::CountSteps => {
                let Some(exit) = node.exit else { return };
                self.count_steps(exit, node.args[0]);
            }
            Kind::UncountStep => dynasm!(self.asm.ops ; .arch x64 ; add r15d, BYTE 1),
            Kind::IsMutable(register) => {
                let Some(exit) = node.exit else { return };
                let label = self.exit(exit);
                let (reference, mutable) = (runtime_layout::reference(register), runtime_layout::BUFFER_MUTABLE);
                dynasm!(self.asm.ops ; .arch x64
                    ; mov rax, [r12 + reference]
                    ; cmp BYTE [rax + mutable], 0
                    ; je =>label
                );
            }
            Kind::Base(register) => {
                let (reference, data) = (runtime_layout::reference(register), runtime_layout::BUFFER_DATA);
                dynasm!(self.asm.ops ; .arch x64 ; mov rax, [r12 + reference] ; mov Rq(target), [rax + data]);
                self.put(id, target);
            }
            Kind::Elements(register, shift) => {
                let (reference, length) = (runtime_layout::reference(register), runtime_layout::BUFFER_LENGTH);
                dynasm!(self.asm.ops ; .arch x64 ; mov rax, [r12 + reference] ; mov Rq(target), [rax + length]);
                if shift > 0 {
                    dynasm!(self.asm.ops ; .arch x64 ; shr Rq(target), shift as i8);
                }
                self.put(id, target);
            }
            Kind::Reference(register) => {
                let reference = runtime_layout::reference(register);
                dynasm!(self.asm.ops ; .arch x64 ; mov Rq(target), [r12 + reference]);
                self.put(id, target);
            }
            Kind::Globals => {
                let globals = runtime_layout::GLOBALS;
                dynasm!(self.asm.ops ; .arch x64 ; mov Rq(target), [r13 + globals]);
                self.put(id, target);
            }
            Kind::InRange => {
                let Some(exit) = node.exit else { return };
                let label = self.exit(exit);
                self.check_range(node.args[0], node.args[1], label);
            }
            Kind::HasRoom => {
                let Some(exit) = node.exit else { return };
                let label = self.exit(exit);
                self.check_room(0, label);
            }
            Kind::Primitive(primitive, of) => self.primitive(id, primitive, of),
            Kind::FirstOfPair(..) => self.first_of_pair = Some(id),
            _ => self.lanes(id, target),
        }
    }

    fn is_buffer(&mut self, register: u16, exit: Option<ExitId>) {
        let Some(exit) = exit else { return };
        let label = self.exit(exit);
        let (reference, vtable) = (runtime_layout::reference(register), runtime_layout::VTABLE);
        let buffers = runtime_layout::buffer_vtable() as i64;
        dynasm!(self.asm.ops ; .arch x64
            ; mov rax, [r12 + reference]
            ; test rax, rax
            ; jz =>label
            ; mov rcx, QWORD buffers
            ; cmp [rax + vtable], rcx
            ; jne =>label
        );
    }

    fn primitive(&mut self, id: NodeId, primitive: Primitive, of: Scalar) {
        let graph = self.graph;
        let node = graph.node(id);
        let target = self.target(id);
        match primitive.effect() {
            Effect::Pure if primitive == Primitive::Select => {
                if self.test_mask(&node.args, of) {
                    let (a, b) = (self.operand(node.args[1], 1), self.operand(node.args[2], 2));
                    lower::select_by_mask(&mut self.asm, of, target, a, b);
                    return self.put(id, target);
                }
                let flags = self.test(node.args[0]);
                // Reloading operands changes no flags, and the operands of the test are not needed any more.
                let (a, b) = (self.operand(node.args[1], 0), self.operand(node.args[2], 1));
                self.asm.select(of, flags, target, a, b);
                self.put(id, target);
            }
            Effect::Pure if self.computes_with_spilled(id, primitive, of) => {}
            Effect::Pure if of.is_float() && self.computes_with_memory(id, primitive, of) => {}
            Effect::Pure => {
                let first = self.reloaded_first(id);
                let sources = self.sources(primitive, &node.args, first);
                lower::value(&mut self.asm, primitive, of, target, &sources);
                self.put(id, target);
            }
            Effect::Trap => {
                let Some(exit) = node.exit else { return };
                let sources = [Src::Reg(self.operand(node.args[0], 0)), self.source(node.args[1], 1)];
                let label = self.exit(exit);
                lower::attempt(&mut self.asm, primitive, of, target, sources, label);
                self.put(id, target);
            }
            Effect::Call => self.call(id, primitive, of),
            Effect::Load => {
                let base = self.operand(node.args[0], 0);
                let index = self.index(node.args[1], primitive);
                lower::load(&mut self.asm, primitive, target, base, index);
                self.put(id, target);
            }
            Effect::Store => {
                let base = self.operand(node.args[0], 0);
                let index = self.index(node.args[1], primitive);
                let value = self.source(node.args[2], 2);
                lower::store(&mut self.asm, primitive, base, index, value);
            }
        }
    }

    /// The index of a load or store, as a constant if its bytes fit.
    fn index(&mut self, id: NodeId, primitive: Primitive) -> Src {
        let small = self.graph.constant(id).and_then(|index| i32::try_from(index as i64).ok());
        // An access may be of vectors after the element.
        let fits = |index: &i32| {
            let bytes = index.checked_mul(1 << primitive.element_shift());
            bytes.is_some_and(|bytes| bytes.checked_add(MAX_VECTOR_BYTES).is_some())
        };
        match small.filter(fits) {
            Some(index) => Src::Imm(index),
            None => Src::Reg(self.operand(id, 1)),
        }
    }

    /// Calls the function of a primitive.
    fn call(&mut self, id: NodeId, primitive: Primitive, of: Scalar) {
        let node = self.graph.node(id).clone();
        let Some(function) = primitive.function(of) else { unreachable!("{primitive:?} has a function") };
        // No vector is in a register across the call, since C functions preserve none.
        self.zero_upper_lanes();
        let (mut floats, mut integers) = (SmallVec::<[_; 2]>::new(), SmallVec::<[_; 2]>::new());
        for (index, arg) in node.args.iter().enumerate() {
            let (of, register) = (self.of(*arg), self.operand(*arg, index));
            if of.is_float() { floats.push((of, register)) } else { integers.push((of, register)) }
        }
        self.arguments(&floats, C_VECTOR_ARGUMENTS, VECTOR_SCRATCH);
        self.arguments(&integers, C_ARGUMENTS, SCRATCH);
        let function = function as i64;
        dynasm!(self.asm.ops ; .arch x64 ; mov rax, QWORD function);
        self.call_runtime();
        self.put(id, if self.graph.node(id).is_vector() { C_VECTOR_RESULT } else { C_RESULT });
    }

    /// Moves the arguments of one bank to the registers of the C convention. One of them may be in the register of the
    /// other.
    fn arguments(&mut self, arguments: &[(Scalar, u8)], [first_register, second_register]: [u8; 2], scratch: u8) {
        match *arguments {
            [] => {}
            [(of, first)] => lower::move_value(&mut self.asm, of, first_register, first),
            [(first_of, first), (second_of, second)] => {
                lower::move_value(&mut self.asm, second_of, scratch, second);
                lower::move_value(&mut self.asm, first_of, first_register, first);
                lower::move_value(&mut self.asm, second_of, second_register, scratch);
            }
            _ => unreachable!("no primitive has more operands of one bank"),
        }
    }
}
