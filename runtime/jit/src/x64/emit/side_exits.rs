//! Side exits: flushing frame states to the slots, the stubs that take exits, and the jump to the interpreter.

use dynasmrt::{DynasmApi, DynasmLabelApi, dynasm};

use super::super::lower::{self, Src};
use super::super::runtime_layout;
use super::emitter::{Emitter, Shared, SpeculativeCount, Stub, StubKind};
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{BlockIndex, ExitId, Kind, Part, SideExitKind, SlotValue, Terminator};
use crate::ir::types::Scalar;
use crate::processor::registers::{LOADED, RCX, SCRATCH, SLOTS};

impl Emitter<'_> {
    /// Writes the frame state of an exit to the slots.
    pub(super) fn flush_frame_state(&mut self, exit: ExitId) {
        self.flush_frame_state_if(exit, |_| true);
    }

    /// Writes the slots of a frame state that are read after a native call.
    pub(super) fn flush_live_slots(&mut self, exit: ExitId, kept: &[u16]) {
        self.flush_frame_state_if(exit, |slot_value| {
            let wide = slot_value.part == Part::Whole && self.graph.node(slot_value.node).scalar().is_wide();
            kept.binary_search(&slot_value.slot).is_ok() || wide && kept.binary_search(&(slot_value.slot + 1)).is_ok()
        });
    }

    /// Makes the pending stores of an exit.
    fn make_pending_stores(&mut self, exit: ExitId) {
        for store in &self.graph.exit(exit).pending_stores {
            self.node(*store);
        }
    }

    fn flush_frame_state_if(&mut self, exit: ExitId, wanted: impl Fn(&SlotValue) -> bool) {
        self.make_pending_stores(exit);
        for slot_value in &self.graph.exit(exit).frame_state {
            let offset = i32::from(slot_value.slot) * 4;
            let node = self.graph.node(slot_value.node);
            if self.graph.is_in_slot(slot_value) || !wanted(slot_value) {
                continue;
            }
            let of = node.scalar();
            if let Some(bits) = self.graph.constant(slot_value.node) {
                let (low, high) = (bits as u32 as i32, (bits >> 32) as u32 as i32);
                match slot_value.part {
                    Part::Whole if of.is_wide() => dynasm!(self.asm.ops ; .arch x64
                        ; mov DWORD [r12 + offset], low
                        ; mov DWORD [r12 + offset + 4], high
                    ),
                    Part::Whole | Part::Low => dynasm!(self.asm.ops ; .arch x64 ; mov DWORD [r12 + offset], low),
                    Part::High => dynasm!(self.asm.ops ; .arch x64 ; mov DWORD [r12 + offset], high),
                }
                continue;
            }
            if node.kind == Kind::Number {
                let truth = node.args[0];
                let flags = self.test(truth);
                lower::set_if(&mut self.asm, flags, LOADED[0]);
                lower::store_slot(&mut self.asm, Scalar::I32, SLOTS, offset, LOADED[0]);
                continue;
            }
            let register = self.operand(slot_value.node, 0);
            match slot_value.part {
                Part::Whole => lower::store_slot(&mut self.asm, of, SLOTS, offset, register),
                Part::Low | Part::High => {
                    let whole = if of.is_float() {
                        lower::value(&mut self.asm, Primitive::Bits, Scalar::F64, SCRATCH, &[Src::Reg(register)]);
                        SCRATCH
                    } else {
                        lower::move_value(&mut self.asm, Scalar::I64, SCRATCH, register);
                        SCRATCH
                    };
                    if slot_value.part == Part::High {
                        dynasm!(self.asm.ops ; .arch x64 ; shr Rq(whole), 32);
                    }
                    lower::store_slot(&mut self.asm, Scalar::I32, SLOTS, offset, whole);
                }
            }
        }
    }

    /// Emits a stub.
    pub(super) fn stub(&mut self, stub: &Stub) {
        let label = stub.label;
        dynasm!(self.asm.ops ; .arch x64 ; =>label);
        let exit = self.graph.exit(stub.exit);
        let pc = exit.pc as i32;
        if let StubKind::SpeculativeCount(_, SpeculativeCount { test, taken, not_taken }) = stub.kind {
            let flags = self.test(test);
            let is_taken = self.asm.ops.new_dynamic_label();
            lower::jump_if(&mut self.asm, if taken { flags } else { flags.negate() }, is_taken);
            dynasm!(self.asm.ops ; .arch x64 ; xor r15d, r15d ; jmp =>not_taken ; =>is_taken);
        }
        match stub.kind {
            StubKind::Terminator(block) => return self.exit_to_interpreter(block, stub.exit),
            StubKind::CountedCall(block) => {
                dynasm!(self.asm.ops ; .arch x64 ; add r15d, 1);
                return self.exit_to_interpreter(block, stub.exit);
            }
            StubKind::ByRuntime(_, op) => return self.op_by_runtime(stub.exit, op),
            StubKind::FailedImport => {
                let failed = self.shared(Shared::FailedImport);
                dynasm!(self.asm.ops ; .arch x64 ; mov edx, pc ; jmp =>failed);
                return;
            }
            StubKind::Limits(resume) | StubKind::SpeculativeCount(resume, _) => {
                // Code that falls back finds again that the limit is reached, and notes the op there.
                let noted = if exit.fallback.is_some() { runtime_layout::NO_OP } else { pc };
                let limits = self.shared(Shared::Limits);
                dynasm!(self.asm.ops ; .arch x64
                    ; mov eax, noted
                    ; call =>limits
                    ; jnz =>resume
                );
            }
            StubKind::CountSteps(resume, steps) => {
                self.count_many(steps);
                dynasm!(self.asm.ops ; .arch x64 ; jnz =>resume);
            }
            StubKind::FailedCheck => {}
        }
        if let Some(branch) = &exit.fallback {
            (self.next, self.following) = (None, usize::MAX);
            return self.branch(branch, true);
        }
        if let StubKind::Limits(_) | StubKind::SpeculativeCount(..) = stub.kind {
            // The program ends, so the slots are dead.
            self.make_pending_stores(stub.exit);
            let stop = self.shared(Shared::Stop);
            dynasm!(self.asm.ops ; .arch x64 ; jmp =>stop);
        } else {
            self.flush_frame_state(stub.exit);
            self.move_references(stub.exit);
            let leave = self.shared(Shared::SideExit);
            dynasm!(self.asm.ops ; .arch x64 ; mov eax, pc ; jmp =>leave);
        }
    }

    pub(super) fn exit_to_interpreter(&mut self, block: BlockIndex, exit: ExitId) {
        self.flush_frame_state(exit);
        // The interpreter returns to what it has called, which is no exit.
        if !matches!(self.graph.blocks[block].terminator, Terminator::SideExit(SideExitKind::Return, _)) {
            let offset = self.graph.exit(exit).pc as i32 * 8;
            let counts = self.link_targets.side_exit_counts as i64;
            dynasm!(self.asm.ops ; .arch x64 ; mov rax, QWORD counts ; inc QWORD [rax + offset]);
        }
        self.zero_upper_lanes();
        let countdown = runtime_layout::COUNTDOWN;
        dynasm!(self.asm.ops ; .arch x64 ; mov [r13 + countdown], r15d);
        self.pop_native_frame();
        self.unwind();
        self.jump_to_interpreter(block);
    }

    /// Goes on in the interpreter, at the op at the end of a block. The native stack is as it was when the interpreter
    /// entered the code.
    pub(super) fn jump_to_interpreter(&mut self, block: BlockIndex) {
        let (instruction, carry) = self.link_targets.threaded_instruction(block);
        match carry {
            Some((slot, wide)) => {
                let of = if wide { Scalar::I64 } else { Scalar::I32 };
                lower::load_slot(&mut self.asm, of, RCX, SLOTS, i32::from(slot) * 4);
            }
            None => dynasm!(self.asm.ops ; .arch x64 ; xor ecx, ecx),
        }
        let instruction = instruction as i64;
        dynasm!(self.asm.ops ; .arch x64 ; mov rdi, QWORD instruction);
        if runtime_layout::JUMPS {
            dynasm!(self.asm.ops ; .arch x64
                ; mov rsi, r12
                ; mov rdx, r13
                ; xor r8d, r8d
                ; jmp QWORD [rdi]
            );
            return;
        }
        let (ip, slots, held) =
            (runtime_layout::CONTINUATION_IP, runtime_layout::CONTINUATION_SLOTS, runtime_layout::CONTINUATION_CARRY);
        let go_on = runtime_layout::GO_ON as i32;
        dynasm!(self.asm.ops ; .arch x64
            ; mov [r13 + ip], rdi
            ; mov [r13 + slots], r12
            ; mov [r13 + held], rcx
            ; mov eax, go_on
            ; ret
        );
    }
}
