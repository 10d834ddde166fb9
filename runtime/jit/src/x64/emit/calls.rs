//! Native terminators: calls of functions of the module, returns from them, and calls of the runtime.
//!
//! A native call makes the frame that the interpreter would make, with a call site of its own, and executes a call
//! instruction. A side exit inside of calls resets the native stack to where it was when the interpreter entered the
//! code: the frames have everything that the calls have left there.

use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi, dynasm};

use super::super::lower::{self, Src};
use super::super::runtime_layout::{self, NativeEntry};
use super::emitter::{Emitter, Shared, Stub, StubKind};
use crate::analysis::calls::STACK_RESERVE;
use crate::bytecode::ListId;
use crate::ir::graph::{
    BlockIndex, DirectCall, ExitId, Graph, Kind, LentOp, NativeCall, NativeKind, NativeTerminator, NodeId, Passed,
    PassedIn, RefMove, RuntimeOp,
};
use crate::ir::types::Scalar;
use crate::processor::registers::{C_DIRECT, C_VECTOR_DIRECT, DIRECT, RAX, SLOTS, VECTOR_DIRECT};

/// Most bytes of frames of nested native calls. Then the interpreter makes the call, and begins with an empty native
/// stack again.
const MAX_NATIVE_CALL_BYTES: i32 = 8 << 10;
/// Most bytes of the native frame of a function that can be called natively. The smallest frame of the interpreter
/// takes 48 bytes, so native calls take at most 44 KiB of the native stack.
pub(super) const MAX_CALLED_FRAME_BYTES: i32 = 256;
/// Most reference registers that are nulled, or tested, by instructions of the code itself.
const MAX_INLINE_REFS: u16 = 8;

/// Whether a function has native calls, or checks whether one would fit.
pub(super) fn has_calls(graph: &Graph) -> bool {
    let mut nodes = graph.blocks.iter().flat_map(|block| &block.nodes);
    graph.native_terminators.values().any(|terminator| matches!(terminator.kind, NativeKind::Call(_)))
        || nodes.any(|id| graph.node(*id).kind == Kind::HasRoom)
}

/// A return of a function that can be called natively, if no return releases or passes references, or passes results in
/// slots.
pub(super) fn plain_return(graph: &Graph) -> Option<BlockIndex> {
    graph.native_entry?;
    let mut returns = graph.blocks.indexed().filter_map(|(block, _)| match graph.native_terminators.get(block)?.kind {
        NativeKind::Return { refs, through_frames, .. } => Some((block, refs == 0 && !through_frames)),
        _ => None,
    });
    // All returns of a function are alike.
    returns.next().and_then(|(block, is_plain)| is_plain.then_some(block))
}

/// The target of a native call.
enum Target {
    /// The function itself.
    Label(DynamicLabel),
    Entry(NativeEntry),
}

impl Emitter<'_> {
    /// Notes the native stack pointer when the interpreter enters the code, and how far frames of native calls may
    /// reach.
    pub(super) fn note_native_stack(&mut self) {
        let (base, limit, end) = (runtime_layout::NATIVE_BASE, runtime_layout::NATIVE_LIMIT, runtime_layout::STACK_END);
        let has_calls = self.has_calls;
        if self.graph.native_entry.is_some() || has_calls {
            dynasm!(self.asm.ops ; .arch x64 ; mov [r13 + base], rsp);
        }
        if has_calls {
            dynasm!(self.asm.ops ; .arch x64
                ; mov rax, [r13 + end]
                ; sub rax, STACK_RESERVE as i32
                ; lea rcx, [r12 + MAX_NATIVE_CALL_BYTES]
                ; cmp rcx, rax
                ; cmovb rax, rcx
                ; mov [r13 + limit], rax
            );
        }
    }

    /// Emits a native terminator.
    pub(super) fn native_terminator(&mut self, block: BlockIndex, exit: ExitId, terminator: &NativeTerminator) {
        match &terminator.kind {
            NativeKind::Call(call) => self.native_call(block, exit, call, terminator),
            NativeKind::Return { operands, refs, through_frames } => {
                self.native_return(block, exit, &terminator.values, (*operands, *refs, *through_frames));
            }
            NativeKind::Op(op) => self.runtime_op(block, exit, *op, &terminator.values),
        }
    }

    /// Executes an op without machine code, with its operands in the slots.
    fn runtime_op(&mut self, block: BlockIndex, exit: ExitId, op: RuntimeOp, values: &[(NodeId, Passed)]) {
        if op.import.is_some() {
            self.count(exit);
        }
        self.flush_frame_state(exit);
        if op.moves_refs {
            self.move_references(exit);
            return self.continue_at(op.continuation);
        }
        let label = self.asm.ops.new_dynamic_label();
        if op.lent.is_some() || op.direct.is_some() {
            self.stubs.push(Stub { label, exit, kind: StubKind::ByRuntime(block, op) });
        }
        match (op.lent, op.direct) {
            (Some(lent), _) => self.lent_op(lent, label),
            (None, Some(direct)) => self.direct_call(exit, direct, values, label),
            (None, None) => self.call_runtime_op(exit, op),
        }
        self.continue_at(op.continuation);
    }

    fn continue_at(&mut self, block: BlockIndex) {
        if self.next != Some(block) {
            let label = self.labels[block];
            dynasm!(self.asm.ops ; .arch x64 ; jmp =>label);
        }
    }

    /// Moves references in the frame as an exit says. All values that are needed later are in the slots.
    pub(super) fn move_references(&mut self, exit: ExitId) {
        let moves = &self.graph.exit(exit).references;
        if moves.is_empty() {
            return;
        }
        self.zero_upper_lanes();
        // The moves are passed on the stack: they are few, and constants.
        for RefMove { target, source } in moves.iter().rev() {
            let bits = u32::from(*target) | u32::from(source.unwrap_or(u16::MAX)) << 16;
            dynasm!(self.asm.ops ; .arch x64 ; push bits as i32);
        }
        let (count, bytes) = (moves.len() as i32, moves.len() as i32 * 8);
        let (countdown, stop) = (runtime_layout::COUNTDOWN, self.shared(Shared::Stop));
        let function = runtime_layout::move_references as *const () as i64;
        dynasm!(self.asm.ops ; .arch x64
            ; mov [r13 + countdown], r15d
            ; mov rdi, r13
            ; mov rsi, r12
            ; mov rdx, rsp
            ; mov ecx, count
            ; mov rax, QWORD function
        );
        self.call_aligned();
        dynasm!(self.asm.ops ; .arch x64 ; add rsp, bytes ; test al, al ; jz =>stop);
    }

    /// Executes an op whose operands are in the slots, or jumps to `label` if no references are lent to the frame.
    fn lent_op(&mut self, op: LentOp, label: DynamicLabel) {
        let count = runtime_layout::LENT_COUNT;
        match op {
            LentOp::Get { list, index, result } => {
                let (lent, elements) = (runtime_layout::LENT_LIST, runtime_layout::LENT_ELEMENTS);
                self.unless_owned(result, label);
                let (list, result) = (runtime_layout::reference(list), runtime_layout::reference(result));
                let index = i32::from(index) * 4;
                dynasm!(self.asm.ops ; .arch x64
                    ; mov rax, [r12 + list]
                    ; cmp rax, [r13 + lent]
                    ; jne =>label
                    ; mov ecx, [r12 + index]
                    ; cmp ecx, [r13 + count]
                    ; jae =>label
                    ; mov rax, [r13 + elements]
                    ; mov rax, [rax + rcx * 8]
                    ; mov [r12 + result], rax
                );
            }
            LentOp::Data { rodata, result } => {
                let (data, place) = (runtime_layout::LENT_DATA, i32::from(rodata) * runtime_layout::LENT_DATA_STRIDE);
                self.unless_owned(result, label);
                let result = runtime_layout::reference(result);
                dynasm!(self.asm.ops ; .arch x64
                    ; cmp DWORD [r13 + count], 0
                    ; je =>label
                    ; mov rax, [r13 + data]
                    ; mov rax, [rax + place]
                    ; mov [r12 + result], rax
                );
            }
            LentOp::Discard(registers) => {
                let owned = runtime_layout::LENT_OWNED;
                dynasm!(self.asm.ops ; .arch x64
                    ; cmp DWORD [r13 + count], 0
                    ; je =>label
                    ; mov rax, QWORD registers as i64
                    ; test [r13 + owned], rax
                    ; jnz =>label
                    ; xor eax, eax
                );
                for register in (0..64).filter(|register| registers >> register & 1 == 1) {
                    let reference = runtime_layout::reference(register);
                    dynasm!(self.asm.ops ; .arch x64 ; mov [r12 + reference], rax);
                }
            }
        }
    }

    /// Jumps to `label` if the frame owns what is in a reference register.
    fn unless_owned(&mut self, register: u16, label: DynamicLabel) {
        if u32::from(register) < u64::BITS {
            let (byte, bit) = (runtime_layout::LENT_OWNED + i32::from(register / 8), 1_i8 << (register % 8));
            dynasm!(self.asm.ops ; .arch x64 ; test BYTE [r13 + byte], bit ; jnz =>label);
        }
    }

    /// Calls an import with its arguments in registers, or jumps to `label` if the call of the program is limited.
    fn direct_call(&mut self, exit: ExitId, call: DirectCall, values: &[(NodeId, Passed)], label: DynamicLabel) {
        let (limited, failed) = (runtime_layout::IS_LIMITED, self.asm.ops.new_dynamic_label());
        self.stubs.push(Stub { label: failed, exit, kind: StubKind::FailedImport });
        dynasm!(self.asm.ops ; .arch x64 ; cmp BYTE [r13 + limited], 0 ; jne =>label);
        // Constants of floats pass through a general register.
        let (floats, integers): (Vec<_>, Vec<_>) = values.iter().copied().partition(|(_, passed)| passed.of.is_float());
        self.load_registers(&floats);
        self.load_registers(&integers);
        for index in 0..floats.len() {
            lower::move_value(&mut self.asm, Scalar::F64, C_VECTOR_DIRECT[index], VECTOR_DIRECT[index]);
        }
        for index in 0..integers.len() {
            lower::move_value(&mut self.asm, Scalar::I64, C_DIRECT[index], DIRECT[index]);
        }
        self.zero_upper_lanes();
        let (import, function) = (call.import as i64, call.function as i64);
        dynasm!(self.asm.ops ; .arch x64 ; mov rdi, r13 ; mov rsi, QWORD import ; mov rax, QWORD function);
        self.call_runtime();
        dynasm!(self.asm.ops ; .arch x64 ; test edx, edx ; jz =>failed);
        if let Some((of, slot)) = call.result {
            let bits = if of.is_wide() { Scalar::I64 } else { Scalar::I32 };
            lower::store_slot(&mut self.asm, bits, SLOTS, i32::from(slot) * 4, RAX);
        }
    }

    /// Calls the function of the runtime that executes an op, with its operands in the slots, where machine code does
    /// not execute it itself.
    pub(super) fn op_by_runtime(&mut self, exit: ExitId, op: RuntimeOp) {
        self.call_runtime_op(exit, op);
        let back = self.labels[op.continuation];
        dynasm!(self.asm.ops ; .arch x64 ; jmp =>back);
    }

    fn call_runtime_op(&mut self, exit: ExitId, op: RuntimeOp) {
        self.zero_upper_lanes();
        let pc = self.graph.exit(exit).pc as i32;
        let (stop, function) = (
            self.shared(Shared::Stop),
            self.shared(match op {
                RuntimeOp { import: Some(_), .. } => Shared::Import,
                RuntimeOp { is_filled: true, .. } => Shared::Allocate,
                _ => Shared::Execute,
            }),
        );
        dynasm!(self.asm.ops ; .arch x64 ; mov edx, pc);
        if let Some(call) = op.import {
            dynasm!(self.asm.ops ; .arch x64 ; mov ecx, call.index() as i32);
        }
        dynasm!(self.asm.ops ; .arch x64 ; call =>function ; jz =>stop);
    }

    fn native_call(&mut self, block: BlockIndex, exit: ExitId, call: &NativeCall, terminator: &NativeTerminator) {
        let own = self.graph.native_entry.filter(|(_, ordinal)| *ordinal == call.callee);
        let target = match own {
            Some((entry, _)) if self.frame <= MAX_CALLED_FRAME_BYTES => {
                // The caller has executed the first block.
                let inlined = self.graph.inlined_entry.filter(|_| call.partly_inlined);
                Target::Label(self.labels[inlined.unwrap_or(entry)])
            }
            // A listing has no addresses.
            _ => Target::Entry(self.link_targets.functions.get(&call.callee).copied().unwrap_or(NativeEntry::Known(0))),
        };
        self.flush_live_slots(exit, &call.live_slots);
        // If the callee has no code, or the frame may not fit, the interpreter makes the call.
        let full = self.asm.ops.new_dynamic_label();
        self.stubs.push(Stub {
            label: full,
            exit,
            kind: if call.partly_inlined { StubKind::CountedCall(block) } else { StubKind::Terminator(block) },
        });
        if !call.partly_inlined {
            self.check_room(call.size, full);
        }
        if let Target::Entry(NativeEntry::Pending(variable)) = target {
            let variable = variable as i64;
            dynasm!(self.asm.ops ; .arch x64 ; mov rax, QWORD variable ; cmp QWORD [rax], 0 ; je =>full);
        }
        if !call.partly_inlined {
            self.count(exit);
        }
        self.make_frame(block, call, &terminator.values);
        self.zero_upper_lanes();
        let advance = call.advance as i32;
        match i8::try_from(advance) {
            Ok(advance) => dynasm!(self.asm.ops ; .arch x64 ; add r12, BYTE advance),
            Err(_) => dynasm!(self.asm.ops ; .arch x64 ; add r12, advance),
        }
        match target {
            Target::Label(entry) => dynasm!(self.asm.ops ; .arch x64 ; call =>entry),
            Target::Entry(NativeEntry::Known(address)) => {
                let address = address as i64;
                dynasm!(self.asm.ops ; .arch x64 ; mov r11, QWORD address ; call r11);
            }
            Target::Entry(NativeEntry::Pending(variable)) => {
                let variable = variable as i64;
                dynasm!(self.asm.ops ; .arch x64 ; mov r11, QWORD variable ; call QWORD [r11]);
            }
        }
        match i8::try_from(advance) {
            Ok(advance) => dynasm!(self.asm.ops ; .arch x64 ; sub r12, BYTE advance),
            Err(_) => dynasm!(self.asm.ops ; .arch x64 ; sub r12, advance),
        }
        if self.next != Some(call.continuation) {
            let back = self.labels[call.continuation];
            dynasm!(self.asm.ops ; .arch x64 ; jmp =>back);
        }
    }

    /// Makes the frame of a callee after that of the caller, and passes the arguments.
    fn make_frame(&mut self, block: BlockIndex, call: &NativeCall, values: &[(NodeId, Passed)]) {
        let advance = call.advance as i32;
        let resume = self.link_targets.resumes.get(&block).copied().unwrap_or_default() as i64;
        let (caller, header_resume) =
            (advance + runtime_layout::HEADER_CALLER, advance + runtime_layout::HEADER_RESUME);
        lower::store_slot(&mut self.asm, Scalar::I64, SLOTS, caller, SLOTS);
        dynasm!(self.asm.ops ; .arch x64 ; mov rax, QWORD resume);
        lower::store_slot(&mut self.asm, Scalar::I64, SLOTS, header_resume, RAX);
        let by_runtime = call.passes_refs || call.refs > MAX_INLINE_REFS;
        if call.zeroed > 0 || call.refs > 0 && !by_runtime {
            dynasm!(self.asm.ops ; .arch x64 ; xor eax, eax);
        }
        for offset in (0..call.zeroed as i32).step_by(8) {
            dynasm!(self.asm.ops ; .arch x64 ; mov [r12 + advance + offset], rax);
        }
        if !by_runtime {
            for register in 0..call.refs {
                let reference = advance + runtime_layout::reference(register);
                dynasm!(self.asm.ops ; .arch x64 ; mov [r12 + reference], rax);
            }
        }
        // The function of the runtime overwrites registers, so all arguments are stored, and loaded after it.
        for (value, passed) in values.iter().filter(|(_, passed)| by_runtime || passed.passed_in == PassedIn::Slot) {
            let from = self.operand(*value, 0);
            lower::store_slot(&mut self.asm, passed.of, SLOTS, advance + i32::from(passed.slot) * 4, from);
        }
        if !by_runtime {
            return self.load_registers(values);
        }
        self.zero_upper_lanes();
        let function = runtime_layout::begin_frame as *const () as i64;
        dynasm!(self.asm.ops ; .arch x64
            ; mov rdi, r12
            ; lea rsi, [r12 + advance]
            ; mov rax, QWORD function
        );
        self.call_runtime();
        self.load_slots(advance, values);
    }

    /// Jumps to `full` if a frame of that many bytes may not fit, or native calls are nested too deep.
    pub(super) fn check_room(&mut self, size: u32, full: DynamicLabel) {
        let limit = runtime_layout::NATIVE_LIMIT;
        match size as i32 - STACK_RESERVE as i32 {
            ..=0 => dynasm!(self.asm.ops ; .arch x64 ; cmp r12, [r13 + limit] ; ja =>full),
            more => dynasm!(self.asm.ops ; .arch x64 ; lea rax, [r12 + more] ; cmp rax, [r13 + limit] ; ja =>full),
        }
    }

    /// Returns to the native caller, if there is one. The frame has so many reference registers, and results may be
    /// passed through frames.
    fn native_return(
        &mut self,
        block: BlockIndex,
        exit: ExitId,
        values: &[(NodeId, Passed)],
        (operands, refs, through_frames): (ListId, u16, bool),
    ) {
        if self.returns.is_none() {
            // If the interpreter has entered this function, it returns to the interpreter.
            let (frame, base, label) = (self.frame, runtime_layout::NATIVE_BASE, self.asm.ops.new_dynamic_label());
            self.stubs.push(Stub { label, exit, kind: StubKind::Terminator(block) });
            if frame > 0 {
                dynasm!(self.asm.ops ; .arch x64 ; lea r11, [rsp + frame] ; cmp r11, [r13 + base] ; je =>label);
            } else {
                dynasm!(self.asm.ops ; .arch x64 ; cmp rsp, [r13 + base] ; je =>label);
            }
        }
        if refs > 0 || through_frames {
            let none = self.asm.ops.new_dynamic_label();
            if !through_frames && refs <= MAX_INLINE_REFS {
                let first = runtime_layout::reference(0);
                dynasm!(self.asm.ops ; .arch x64 ; mov rax, [r12 + first]);
                for register in 1..refs {
                    let reference = runtime_layout::reference(register);
                    dynasm!(self.asm.ops ; .arch x64 ; or rax, [r12 + reference]);
                }
                dynasm!(self.asm.ops ; .arch x64 ; test rax, rax ; jz =>none);
            }
            for (value, passed) in values {
                let from = self.operand(*value, 0);
                lower::store_slot(&mut self.asm, passed.of, SLOTS, i32::from(passed.slot) * 4, from);
            }
            self.zero_upper_lanes();
            let (function, list) = (runtime_layout::end_frame as *const () as i64, operands.0 as i32);
            let in_slots = i32::from(values.iter().any(|(_, passed)| passed.passed_in == PassedIn::Slot));
            let countdown = runtime_layout::COUNTDOWN;
            dynasm!(self.asm.ops ; .arch x64
                ; mov [r13 + countdown], r15d
                ; mov rdi, r13
                ; mov rsi, r12
                ; mov edx, list
                ; mov ecx, in_slots
                ; mov rax, QWORD function
            );
            self.call_runtime();
            let stop = self.shared(Shared::Stop);
            dynasm!(self.asm.ops ; .arch x64 ; test al, al ; jz =>stop);
            self.load_slots(0, values);
            self.pop_native_frame();
            dynasm!(self.asm.ops ; .arch x64 ; ret ; =>none);
            if through_frames || refs > MAX_INLINE_REFS {
                return;
            }
        }
        self.load_registers(values);
        self.zero_upper_lanes();
        self.pop_native_frame();
        dynasm!(self.asm.ops ; .arch x64 ; ret);
    }

    /// Emits what a function returns to that the interpreter has entered: it leaves the results where the return of
    /// `block` has them, which the interpreter then executes.
    pub(super) fn return_to_interpreter(&mut self, label: DynamicLabel, block: BlockIndex) {
        dynasm!(self.asm.ops ; .arch x64 ; =>label);
        let countdown = runtime_layout::COUNTDOWN;
        dynasm!(self.asm.ops ; .arch x64 ; mov [r13 + countdown], r15d);
        let graph = self.graph;
        for (_, passed) in graph.native_terminators.get(block).iter().flat_map(|terminator| &terminator.values) {
            if let PassedIn::Register(register) = passed.passed_in {
                lower::store_slot(&mut self.asm, passed.of, SLOTS, i32::from(passed.slot) * 4, register);
            }
        }
        self.jump_to_interpreter(block);
    }

    /// Moves values to the registers that they are passed in, none of which is the location of another value.
    fn load_registers(&mut self, values: &[(NodeId, Passed)]) {
        for (value, passed) in values {
            if let PassedIn::Register(register) = passed.passed_in {
                let (of, from) = (self.of(*value), self.fetch(*value, register));
                lower::move_value(&mut self.asm, of, register, from);
            }
        }
    }

    /// The same from slots, at this distance from those of the frame.
    fn load_slots(&mut self, distance: i32, values: &[(NodeId, Passed)]) {
        for (_, passed) in values {
            if let PassedIn::Register(register) = passed.passed_in {
                let offset = distance + i32::from(passed.slot) * 4;
                lower::load_slot(&mut self.asm, passed.of, register, SLOTS, offset);
            }
        }
    }

    /// Allocates the native frame.
    pub(super) fn push_native_frame(&mut self) {
        let frame = self.frame;
        if frame > 0 {
            dynasm!(self.asm.ops ; .arch x64 ; sub rsp, frame);
        }
    }

    /// Frees the native frame.
    pub(super) fn pop_native_frame(&mut self) {
        let frame = self.frame;
        if frame > 0 {
            dynasm!(self.asm.ops ; .arch x64 ; add rsp, frame);
        }
    }

    /// Resets the native stack to where it was when the interpreter entered the code. The native frame has been freed.
    pub(super) fn unwind(&mut self) {
        if self.graph.native_entry.is_some() {
            let base = runtime_layout::NATIVE_BASE;
            dynasm!(self.asm.ops ; .arch x64 ; mov rsp, [r13 + base]);
        }
    }

    /// Calls a function of the runtime whose address is in `rax`. In a function with a native entry the stack may not
    /// be aligned.
    pub(super) fn call_runtime(&mut self) {
        if self.graph.native_entry.is_none() {
            dynasm!(self.asm.ops ; .arch x64 ; call rax);
            return;
        }
        self.call_aligned();
    }

    /// The same where the stack may not be aligned.
    fn call_aligned(&mut self) {
        dynasm!(self.asm.ops ; .arch x64
            ; push rsp
            ; push QWORD [rsp]
            ; and rsp, -16
            ; call rax
            ; mov rsp, [rsp + 8]
        );
    }

    /// Counts down by a call or an iteration.
    pub(super) fn count(&mut self, exit: ExitId) {
        self.count_with(exit, StubKind::Limits);
    }

    pub(super) fn count_with(&mut self, exit: ExitId, kind: impl FnOnce(DynamicLabel) -> StubKind) {
        self.count_down(exit, Src::Imm(1), kind);
    }

    /// Counts down by the steps of an iteration of a vector loop.
    pub(super) fn count_steps(&mut self, exit: ExitId, steps: NodeId) {
        let many = self.source(steps, 0);
        self.count_down(exit, many, |resume| StubKind::CountSteps(resume, steps));
    }

    fn count_down(&mut self, exit: ExitId, many: Src, kind: impl FnOnce(DynamicLabel) -> StubKind) {
        let (label, resume) = (self.asm.ops.new_dynamic_label(), self.asm.ops.new_dynamic_label());
        self.stubs.push(Stub { label, exit, kind: kind(resume) });
        match many {
            Src::Reg(many) => dynasm!(self.asm.ops ; .arch x64 ; sub r15d, Rd(many)),
            Src::Imm(many) => match i8::try_from(many) {
                Ok(many) => dynasm!(self.asm.ops ; .arch x64 ; sub r15d, BYTE many),
                Err(_) => dynasm!(self.asm.ops ; .arch x64 ; sub r15d, many),
            },
        }
        dynasm!(self.asm.ops ; .arch x64 ; jb =>label ; =>resume);
    }

    /// Calls the shared stub that counts the steps of a vector loop which are more than the countdown has. It sets the
    /// zero flag if it has not.
    pub(super) fn count_many(&mut self, steps: NodeId) {
        let (countdown, shared) = (runtime_layout::COUNTDOWN, self.shared(Shared::CountMany));
        // The countdown is again what it was before the steps were subtracted.
        match self.source(steps, 0) {
            Src::Reg(many) => dynasm!(self.asm.ops ; .arch x64 ; add r15d, Rd(many) ; mov eax, Rd(many)),
            Src::Imm(many) => dynasm!(self.asm.ops ; .arch x64 ; add r15d, many ; mov eax, many),
        }
        dynasm!(self.asm.ops ; .arch x64 ; mov [r13 + countdown], r15d ; call =>shared);
    }
}
