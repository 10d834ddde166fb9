//! Where code is left: what the slots have to hold, and how the interpreter goes on.

use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi, dynasm};

use super::super::allocate::{GENERAL, KEPT_BY_CALLS, VECTORS};
use super::super::graph::{ExitId, Kind, Part, Passage, Saved, Way};
use super::super::lower::{self, Src, lanes};
use super::super::outside;
use super::super::types::Scalar;
use super::{Emitter, LOADED, SCRATCH, SLOTS, Stub, Why};
use crate::generated::vm::jit::Primitive;

impl Emitter<'_> {
    /// Puts what the interpreter may read into the slots.
    fn save(&mut self, exit: ExitId) {
        self.save_if(exit, |_| true);
    }

    /// Puts what is read behind a call into the slots.
    pub(super) fn save_kept(&mut self, exit: ExitId, kept: &[u16]) {
        let graph = self.graph;
        self.save_if(exit, |saved| saved.slots(graph).any(|slot| kept.binary_search(&slot).is_ok()));
    }

    pub(super) fn save_if(&mut self, exit: ExitId, wanted: impl Fn(&Saved) -> bool) {
        for store in self.graph.exit(exit).stores.clone() {
            self.node(store);
        }
        self.write_slots(exit, wanted);
    }

    /// Puts values into slots. Constants need nothing else than the frame.
    fn write_slots(&mut self, exit: ExitId, wanted: impl Fn(&Saved) -> bool) {
        for saved in &self.graph.exit(exit).saved {
            let offset = i32::from(saved.slot) * 4;
            let node = self.graph.node(saved.node);
            if self.graph.is_home(saved) || !wanted(saved) {
                continue;
            }
            let of = node.scalar();
            if let Some(bits) = self.graph.constant(saved.node) {
                let (low, high) = (bits as u32 as i32, (bits >> 32) as u32 as i32);
                match saved.part {
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
            let register = self.operand(saved.node, 0);
            match saved.part {
                Part::Whole => lower::store_slot(&mut self.asm, of, SLOTS, offset, register),
                Part::Low | Part::High => {
                    let whole = if of.is_float() {
                        lower::value(&mut self.asm, Primitive::Bits, Scalar::F64, SCRATCH, &[Src::Reg(register)]);
                        SCRATCH
                    } else {
                        lower::move_value(&mut self.asm, Scalar::I64, SCRATCH, register);
                        SCRATCH
                    };
                    if saved.part == Part::High {
                        dynasm!(self.asm.ops ; .arch x64 ; shr Rq(whole), 32);
                    }
                    lower::store_slot(&mut self.asm, Scalar::I32, SLOTS, offset, whole);
                }
            }
        }
    }

    /// Leaves the code for the interpreter, which goes on at the op of the exit.
    pub(super) fn stub(&mut self, stub: &Stub) {
        let label = stub.label;
        dynasm!(self.asm.ops ; .arch x64 ; =>label);
        match stub.why {
            Why::End(block) => return self.leave(block, stub.exit),
            Why::Stopped(block) => return self.stop(block, stub.exit),
            Why::Limits(goes_on) => {
                self.check_limits(goes_on);
                dynasm!(self.asm.ops ; .arch x64 ; xor r15d, r15d);
            }
            Why::Check => {}
        }
        if let Some(branch) = &self.graph.exit(stub.exit).to {
            self.next = None;
            return self.branch(branch, true);
        }
        self.save(stub.exit);
        self.leave_lanes();
        let (countdown, pc) = (outside::COUNTDOWN, outside::PC);
        let (ip, slots) = (outside::LEFT_IP, outside::LEFT_SLOTS);
        let at = self.graph.exit(stub.exit).pc as i32;
        dynasm!(self.asm.ops ; .arch x64
            ; mov [r13 + countdown], r15d
            ; mov QWORD [r13 + pc], at
            ; mov QWORD [r13 + ip], 0
            ; mov [r13 + slots], r12
        );
        self.leave_frame();
        self.unwind();
        dynasm!(self.asm.ops ; .arch x64 ; xor eax, eax ; ret);
    }

    /// Leaves the code where the runtime says that it does not go on. An import may wait: the interpreter then calls it again, and goes on
    /// behind the call.
    fn stop(&mut self, block: usize, exit: ExitId) {
        let graph = self.graph;
        if let Some(Passage { way: Way::Op(op), .. }) = graph.passages.get(&block)
            && op.import.is_some()
        {
            self.write_slots(exit, |saved| !op.is_written(graph, saved));
        }
        self.leave_frame();
        self.unwind();
        dynasm!(self.asm.ops ; .arch x64 ; xor eax, eax ; ret);
    }

    /// Looks at the limits and goes on unless one is reached. All registers that values live in keep them.
    fn check_limits(&mut self, goes_on: DynamicLabel) {
        let general: Vec<u8> = GENERAL.iter().copied().filter(|register| !KEPT_BY_CALLS.contains(register)).collect();
        let lanes = self.has_lanes;
        let size = if lanes { lanes::BYTES } else { 8 };
        let bytes = (general.len() as i32 * 8 + i32::from(VECTORS) * size + 15) & !15;
        // Code that is called by code does not know how the stack is aligned.
        dynasm!(self.asm.ops ; .arch x64
            ; mov rax, rsp
            ; sub rsp, bytes + 16
            ; and rsp, -16
            ; mov [rsp + bytes], rax
        );
        let offsets = (0..).step_by(8);
        for (register, offset) in general.iter().zip(offsets.clone()) {
            dynasm!(self.asm.ops ; .arch x64 ; mov [rsp + offset], Rq(*register));
        }
        let vectors = general.len() as i32 * 8;
        for (register, offset) in (0..VECTORS).zip((vectors..).step_by(size as usize)) {
            if lanes {
                lanes::store_frame(&mut self.asm, offset, register);
            } else {
                dynasm!(self.asm.ops ; .arch x64 ; movsd [rsp + offset], Rx(register));
            }
        }
        if lanes {
            lanes::leave(&mut self.asm);
        }
        let (function, countdown) = (outside::check_limits as *const () as i64, outside::COUNTDOWN);
        dynasm!(self.asm.ops ; .arch x64
            ; mov rdi, r13
            ; mov rax, QWORD function
            ; call rax
        );
        for (register, offset) in general.iter().zip(offsets.clone()) {
            dynasm!(self.asm.ops ; .arch x64 ; mov Rq(*register), [rsp + offset]);
        }
        for (register, offset) in (0..VECTORS).zip((vectors..).step_by(size as usize)) {
            if lanes {
                lanes::load_frame(&mut self.asm, register, offset);
            } else {
                dynasm!(self.asm.ops ; .arch x64 ; movsd Rx(register), [rsp + offset]);
            }
        }
        dynasm!(self.asm.ops ; .arch x64
            ; mov rsp, [rsp + bytes]
            ; mov r15d, [r13 + countdown]
            ; test al, al
            ; jnz =>goes_on
        );
    }

    pub(super) fn leave(&mut self, block: usize, exit: ExitId) {
        self.save(exit);
        self.leave_lanes();
        let countdown = outside::COUNTDOWN;
        dynasm!(self.asm.ops ; .arch x64 ; mov [r13 + countdown], r15d);
        self.leave_frame();
        self.unwind();
        let (cell, carry) = self.outside.cell(block);
        match carry {
            Some((slot, wide)) => {
                let of = if wide { Scalar::I64 } else { Scalar::I32 };
                lower::load_slot(&mut self.asm, of, 1, SLOTS, i32::from(slot) * 4);
            }
            None => dynasm!(self.asm.ops ; .arch x64 ; xor ecx, ecx),
        }
        let cell = cell as i64;
        dynasm!(self.asm.ops ; .arch x64 ; mov rdi, QWORD cell);
        if outside::JUMPS {
            dynasm!(self.asm.ops ; .arch x64
                ; mov rsi, r12
                ; mov rdx, r13
                ; xor r8d, r8d
                ; jmp QWORD [rdi]
            );
            return;
        }
        let (ip, slots, held) = (outside::LEFT_IP, outside::LEFT_SLOTS, outside::LEFT_CARRY);
        let go_on = outside::GO_ON as i32;
        dynasm!(self.asm.ops ; .arch x64
            ; mov [r13 + ip], rdi
            ; mov [r13 + slots], r12
            ; mov [r13 + held], rcx
            ; mov eax, go_on
            ; ret
        );
    }
}
