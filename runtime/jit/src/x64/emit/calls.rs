//! Calls of compiled code by compiled code, and returns from them.
//!
//! A call makes the frame that the interpreter would make, with a site of its own, and calls the code. Whoever leaves code for the
//! interpreter goes back to where the native stack was when code was entered: all that the calls have left on it is in the frames, too.

use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi, dynasm};

use super::super::lower;
use super::super::runtime_layout::{self, NativeEntry};
use super::shared_stubs::Shared;
use super::{Emitter, Stub, StubKind};
use crate::analysis::calls::STACK_RESERVE;
use crate::bytecode::ListId;
use crate::ir::graph::{
    ExitId, Graph, Kind, NativeCall, NativeKind, NativeTerminator, NodeId, Passed, PassedIn, RuntimeOp,
};
use crate::ir::types::Scalar;
use crate::processor::registers::{RAX, SLOTS};

/// Bytes of frames that calls may take before the interpreter takes over, to begin with an empty native stack again.
const MAX_NATIVE_CALL_BYTES: i32 = 8 << 10;
/// Most bytes of the native frame of code that is called by code. The smallest frame of the interpreter takes 48 bytes, so calls take no
/// more than 44 KiB of the native stack.
pub(super) const MAX_CALLED_FRAME_BYTES: i32 = 256;
/// Most references that are made null, or looked at, one by one.
const MAX_INLINE_REFS: u16 = 8;

/// Whether a function makes calls of compiled code, or looks whether it could.
pub(super) fn has_calls(graph: &Graph) -> bool {
    let mut nodes = graph.blocks.iter().flat_map(|block| &block.nodes);
    graph.native_terminators.values().any(|terminator| matches!(terminator.kind, NativeKind::Call(_)))
        || nodes.any(|id| graph.node(*id).kind == Kind::HasRoom)
}

/// What is called.
enum Target {
    /// The function itself.
    Label(DynamicLabel),
    Entry(NativeEntry),
}

impl Emitter<'_> {
    /// Notes where the native stack is when the interpreter enters the code, and how far calls may go.
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

    /// The end of a block that passes values to compiled code.
    pub(super) fn native_terminator(&mut self, block: usize, exit: ExitId, terminator: &NativeTerminator) {
        match &terminator.kind {
            NativeKind::Call(call) => self.native_call(block, exit, call, terminator),
            NativeKind::Return { operands, refs, through_frames } => {
                self.native_return(block, exit, &terminator.values, (*operands, *refs, *through_frames));
            }
            NativeKind::Op(op) => self.runtime_op(exit, *op),
        }
    }

    /// Lets a function of the runtime execute the op, which finds its operands in the slots.
    fn runtime_op(&mut self, exit: ExitId, op: RuntimeOp) {
        if op.import.is_some() {
            self.count(exit, 1);
        }
        self.flush_frame_state(exit);
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
        if self.next != Some(op.continuation) {
            let back = self.labels[op.continuation];
            dynasm!(self.asm.ops ; .arch x64 ; jmp =>back);
        }
    }

    fn native_call(&mut self, block: usize, exit: ExitId, call: &NativeCall, terminator: &NativeTerminator) {
        let own = self.graph.native_entry.filter(|(_, ordinal)| *ordinal == call.callee);
        let target = match own {
            Some((entry, _)) if self.frame <= MAX_CALLED_FRAME_BYTES => Target::Label(self.labels[entry]),
            // A listing has no addresses.
            _ => Target::Entry(self.link_targets.functions.get(&call.callee).copied().unwrap_or(NativeEntry::Known(0))),
        };
        self.flush_live_slots(exit, &call.live_slots);
        // What cannot be called, or a frame that may not fit, is the interpreter's to call or make.
        let full = self.asm.ops.new_dynamic_label();
        self.stubs.push(Stub {
            label: full,
            exit,
            kind: if call.partly_inlined { StubKind::CountedCall(block) } else { StubKind::Terminator(block) },
        });
        if !call.partly_inlined {
            self.check_room(call.size, full);
        }
        if let Target::Entry(NativeEntry::Pending(place)) = target {
            let place = place as i64;
            dynasm!(self.asm.ops ; .arch x64 ; mov rax, QWORD place ; cmp QWORD [rax], 0 ; je =>full);
        }
        if !call.partly_inlined {
            self.count(exit, 1);
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
            Target::Entry(NativeEntry::Pending(place)) => {
                let place = place as i64;
                dynasm!(self.asm.ops ; .arch x64 ; mov r11, QWORD place ; call QWORD [r11]);
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

    /// Makes the frame of a call behind that of the caller, and passes the arguments.
    fn make_frame(&mut self, block: usize, call: &NativeCall, values: &[(NodeId, Passed)]) {
        let advance = call.advance as i32;
        let site = self.link_targets.sites.get(&block).copied().unwrap_or_default() as i64;
        let (caller, header_site) = (advance + runtime_layout::HEADER_CALLER, advance + runtime_layout::HEADER_SITE);
        lower::store_slot(&mut self.asm, Scalar::I64, SLOTS, caller, SLOTS);
        dynasm!(self.asm.ops ; .arch x64 ; mov rax, QWORD site);
        lower::store_slot(&mut self.asm, Scalar::I64, SLOTS, header_site, RAX);
        let by_runtime = call.passes_refs || call.refs > MAX_INLINE_REFS;
        if call.zeroed > 0 || call.refs > 0 && !by_runtime {
            dynasm!(self.asm.ops ; .arch x64 ; xor eax, eax);
        }
        for offset in (0..call.zeroed as i32).step_by(8) {
            dynasm!(self.asm.ops ; .arch x64 ; mov [r12 + advance + offset], rax);
        }
        if !by_runtime {
            for register in 0..call.refs {
                let place = advance + runtime_layout::reference(register);
                dynasm!(self.asm.ops ; .arch x64 ; mov [r12 + place], rax);
            }
        }
        // A function of the runtime keeps no register, and so finds all of them in the slots.
        for (value, passed) in values.iter().filter(|(_, passed)| by_runtime || passed.place == PassedIn::Slot) {
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

    /// Goes to `full` if a frame of that many bytes may not fit, or the native stack has grown much.
    pub(super) fn check_room(&mut self, size: u32, full: DynamicLabel) {
        let limit = runtime_layout::NATIVE_LIMIT;
        match size as i32 - STACK_RESERVE as i32 {
            ..=0 => dynasm!(self.asm.ops ; .arch x64 ; cmp r12, [r13 + limit] ; ja =>full),
            more => dynasm!(self.asm.ops ; .arch x64 ; lea rax, [r12 + more] ; cmp rax, [r13 + limit] ; ja =>full),
        }
    }

    /// Returns to the code that has called, if some has. The frame has so many references, and results may go through frames.
    fn native_return(
        &mut self,
        block: usize,
        exit: ExitId,
        values: &[(NodeId, Passed)],
        (operands, refs, through_frames): (ListId, u16, bool),
    ) {
        let (frame, base, label) = (self.frame, runtime_layout::NATIVE_BASE, self.asm.ops.new_dynamic_label());
        // Entered by the interpreter, and so left for it.
        self.stubs.push(Stub { label, exit, kind: StubKind::Terminator(block) });
        if frame > 0 {
            dynasm!(self.asm.ops ; .arch x64 ; lea r11, [rsp + frame] ; cmp r11, [r13 + base] ; je =>label);
        } else {
            dynasm!(self.asm.ops ; .arch x64 ; cmp rsp, [r13 + base] ; je =>label);
        }
        if refs > 0 || through_frames {
            let none = self.asm.ops.new_dynamic_label();
            if !through_frames && refs <= MAX_INLINE_REFS {
                let first = runtime_layout::reference(0);
                dynasm!(self.asm.ops ; .arch x64 ; mov rax, [r12 + first]);
                for register in 1..refs {
                    let place = runtime_layout::reference(register);
                    dynasm!(self.asm.ops ; .arch x64 ; or rax, [r12 + place]);
                }
                dynasm!(self.asm.ops ; .arch x64 ; test rax, rax ; jz =>none);
            }
            for (value, passed) in values {
                let from = self.operand(*value, 0);
                lower::store_slot(&mut self.asm, passed.of, SLOTS, i32::from(passed.slot) * 4, from);
            }
            self.zero_upper_lanes();
            let (function, list) = (runtime_layout::end_frame as *const () as i64, operands.0 as i32);
            let in_slots = i32::from(values.iter().any(|(_, passed)| passed.place == PassedIn::Slot));
            dynasm!(self.asm.ops ; .arch x64
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

    /// Puts values into the registers that they are passed in, none of which is the place of one.
    fn load_registers(&mut self, values: &[(NodeId, Passed)]) {
        for (value, passed) in values {
            if let PassedIn::Register(register) = passed.place {
                let (of, from) = (self.of(*value), self.fetch(*value, register));
                lower::move_value(&mut self.asm, of, register, from);
            }
        }
    }

    /// The same of values that are in slots, at this distance from those of the frame.
    fn load_slots(&mut self, distance: i32, values: &[(NodeId, Passed)]) {
        for (_, passed) in values {
            if let PassedIn::Register(register) = passed.place {
                let offset = distance + i32::from(passed.slot) * 4;
                lower::load_slot(&mut self.asm, passed.of, register, SLOTS, offset);
            }
        }
    }

    /// Makes room for the native frame.
    pub(super) fn push_native_frame(&mut self) {
        let frame = self.frame;
        if frame > 0 {
            dynasm!(self.asm.ops ; .arch x64 ; sub rsp, frame);
        }
    }

    /// Gives the native frame back.
    pub(super) fn pop_native_frame(&mut self) {
        let frame = self.frame;
        if frame > 0 {
            dynasm!(self.asm.ops ; .arch x64 ; add rsp, frame);
        }
    }

    /// Goes back to where the native stack was when code was entered. Without a native frame.
    pub(super) fn unwind(&mut self) {
        if self.graph.native_entry.is_some() {
            let base = runtime_layout::NATIVE_BASE;
            dynasm!(self.asm.ops ; .arch x64 ; mov rsp, [r13 + base]);
        }
    }

    /// Calls a function of the runtime whose address is in `rax`. Code that is called by code does not know how the stack is aligned.
    pub(super) fn call_runtime(&mut self) {
        if self.graph.native_entry.is_none() {
            dynasm!(self.asm.ops ; .arch x64 ; call rax);
            return;
        }
        dynasm!(self.asm.ops ; .arch x64
            ; push rsp
            ; push QWORD [rsp]
            ; and rsp, -16
            ; call rax
            ; mov rsp, [rsp + 8]
        );
    }

    /// Counts a call or so many backward branches.
    pub(super) fn count(&mut self, exit: ExitId, many: i32) {
        self.count_with(exit, many, StubKind::Limits);
    }

    pub(super) fn count_with(&mut self, exit: ExitId, many: i32, kind: impl FnOnce(DynamicLabel) -> StubKind) {
        let (label, resume) = (self.asm.ops.new_dynamic_label(), self.asm.ops.new_dynamic_label());
        self.stubs.push(Stub { label, exit, kind: kind(resume) });
        match i8::try_from(many) {
            Ok(many) => dynasm!(self.asm.ops ; .arch x64 ; sub r15d, BYTE many),
            Err(_) => dynasm!(self.asm.ops ; .arch x64 ; sub r15d, many),
        }
        dynasm!(self.asm.ops ; .arch x64 ; jb =>label ; =>resume);
    }
}
