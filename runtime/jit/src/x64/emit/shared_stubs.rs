//! Shared stubs, of which a function has one copy each after all other code: sequences that are needed at many points
//! of the code and rarely run, or that call the runtime anyway.

use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi, dynasm};

use super::super::lower::lanes;
use super::super::runtime_layout;
use super::emitter::{Emitter, Origin, Shared};
use crate::ir::types::Width;
use crate::processor::registers::{CALLEE_SAVED, GENERAL_AND_RDX, vectors};

impl Emitter<'_> {
    /// The label of a shared stub, which is emitted at the end.
    pub(super) fn shared(&mut self, shared: Shared) -> DynamicLabel {
        if let Some((_, label)) = self.shared.iter().find(|(other, _)| *other == shared) {
            return *label;
        }
        let label = self.asm.ops.new_dynamic_label();
        self.shared.push((shared, label));
        label
    }

    /// Emits the shared stubs that are used.
    pub(super) fn emit_shared(&mut self, code_offsets: &mut Vec<(usize, Origin)>) {
        let mut done = 0;
        // One stub may use another one.
        while let Some((shared, label)) = self.shared.get(done).copied() {
            done += 1;
            code_offsets.push((self.asm.ops.offset().0, Origin::Shared(shared)));
            dynasm!(self.asm.ops ; .arch x64 ; =>label);
            match shared {
                Shared::SideExit => self.emit_side_exit(),
                Shared::Stop => self.emit_stop(),
                Shared::Limits => self.emit_limits(runtime_layout::check_limits as *const () as i64),
                Shared::CountMany => self.emit_limits(runtime_layout::count_many as *const () as i64),
                Shared::Execute => self.emit_runtime(runtime_layout::execute as *const () as i64),
                Shared::Import => self.emit_runtime(runtime_layout::call_import as *const () as i64),
                Shared::Allocate => self.emit_runtime(runtime_layout::allocate as *const () as i64),
                Shared::FailedImport => self.emit_failed_import(),
                Shared::OutOfRange => self.emit_out_of_range(),
            }
        }
    }

    fn emit_side_exit(&mut self) {
        let (countdown, pc) = (runtime_layout::COUNTDOWN, runtime_layout::PC);
        let (ip, slots) = (runtime_layout::CONTINUATION_IP, runtime_layout::CONTINUATION_SLOTS);
        let stop = self.shared(Shared::Stop);
        let counts = self.link_targets.side_exit_counts as i64;
        dynasm!(self.asm.ops ; .arch x64
            ; mov rcx, QWORD counts
            ; inc QWORD [rcx + rax * 8]
            ; mov [r13 + countdown], r15d
            ; mov [r13 + pc], rax
            ; mov QWORD [r13 + ip], 0
            ; mov [r13 + slots], r12
            ; jmp =>stop
        );
    }

    fn emit_stop(&mut self) {
        self.zero_upper_lanes();
        self.pop_native_frame();
        self.unwind();
        dynasm!(self.asm.ops ; .arch x64 ; xor eax, eax ; ret);
    }

    /// Calls a function of the runtime with the number in `eax`, and preserves all registers that are allocated to
    /// values.
    fn emit_limits(&mut self, function: i64) {
        let is_saved = |register: &u8| CALLEE_SAVED.contains(register);
        let general: Vec<u8> = GENERAL_AND_RDX.iter().copied().filter(|register| !is_saved(register)).collect();
        let lanes = self.lanes;
        let size = lanes.map_or(8, Width::bytes);
        let vectors = vectors(lanes);
        let bytes = (general.len() as i32 * 8 + vectors.len() as i32 * size + 15) & !15;
        // In a function with a native entry the stack may not be aligned.
        dynasm!(self.asm.ops ; .arch x64
            ; mov rcx, rsp
            ; sub rsp, bytes + 16
            ; and rsp, -16
            ; mov [rsp + bytes], rcx
        );
        let offsets = (0..).step_by(8);
        for (register, offset) in general.iter().zip(offsets.clone()) {
            dynasm!(self.asm.ops ; .arch x64 ; mov [rsp + offset], Rq(*register));
        }
        let vectors = || vectors.iter().copied().zip((general.len() as i32 * 8..).step_by(size as usize));
        for (register, offset) in vectors() {
            match lanes {
                Some(width) => lanes::store_frame(&mut self.asm, width, offset, register),
                None => dynasm!(self.asm.ops ; .arch x64 ; movsd [rsp + offset], Rx(register)),
            }
        }
        self.zero_upper_lanes();
        let countdown = runtime_layout::COUNTDOWN;
        dynasm!(self.asm.ops ; .arch x64
            ; mov rdi, r13
            ; mov rsi, r12
            ; mov edx, eax
            ; mov rax, QWORD function
            ; call rax
        );
        for (register, offset) in general.iter().zip(offsets.clone()) {
            dynasm!(self.asm.ops ; .arch x64 ; mov Rq(*register), [rsp + offset]);
        }
        for (register, offset) in vectors() {
            match lanes {
                Some(width) => lanes::load_frame(&mut self.asm, width, register, offset),
                None => dynasm!(self.asm.ops ; .arch x64 ; movsd Rx(register), [rsp + offset]),
            }
        }
        dynasm!(self.asm.ops ; .arch x64
            ; mov rsp, [rsp + bytes]
            ; mov r15d, [r13 + countdown]
            ; test al, al
            ; ret
        );
    }

    fn emit_failed_import(&mut self) {
        let (countdown, stop) = (runtime_layout::COUNTDOWN, self.shared(Shared::Stop));
        let function = runtime_layout::fail_import as *const () as i64;
        dynasm!(self.asm.ops ; .arch x64
            ; mov [r13 + countdown], r15d
            ; mov rdi, r13
            ; mov rsi, r12
            ; mov rax, QWORD function
        );
        self.call_runtime();
        dynasm!(self.asm.ops ; .arch x64 ; jmp =>stop);
    }

    fn emit_runtime(&mut self, function: i64) {
        let countdown = runtime_layout::COUNTDOWN;
        dynasm!(self.asm.ops ; .arch x64
            ; mov [r13 + countdown], r15d
            ; mov rdi, r13
            ; mov rsi, r12
            ; mov rax, QWORD function
        );
        if self.graph.native_entry.is_some() {
            self.call_runtime();
        } else {
            // The return address of the subroutine misaligns the stack.
            dynasm!(self.asm.ops ; .arch x64 ; sub rsp, 8 ; call rax ; add rsp, 8);
        }
        dynasm!(self.asm.ops ; .arch x64
            ; mov r15d, [r13 + countdown]
            ; test al, al
            ; ret
        );
    }
}
