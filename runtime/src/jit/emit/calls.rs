//! Calls of compiled code by compiled code, and returns from them.
//!
//! The slots of the new frame are where the interpreter would put them, but nothing of the frame is written besides what the slots
//! of the caller hold then. What a header says follows from the address that the call returns to: whoever leaves code for the
//! interpreter lets [`outside::make_frames`] write the headers first, and goes back to where the native stack was when code was entered.

use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi, dynasm};

use super::super::ReturnTo;
use super::super::calls::ROOM;
use super::super::graph::{ExitId, Graph, Kind, NativeCall, Passage, RuntimeOp, To, Way};
use super::super::lower;
use super::super::outside::{self, Entrance};
use super::shared::Shared;
use super::{Emitter, SLOTS, Stub, Why};

/// Bytes of frames that calls may take before the interpreter takes over, to begin with an empty native stack again.
const MOST_BYTES: i32 = 16 << 10;
/// A call takes at most that many times as much of the native stack as of the frames.
const RATIO: u32 = 2;

/// Whether a function makes calls of compiled code, or looks whether it could.
pub(super) fn has_calls(graph: &Graph) -> bool {
    let mut nodes = graph.blocks.iter().flat_map(|block| &block.nodes);
    graph.passages.values().any(|passage| matches!(passage.way, Way::Call(_)))
        || nodes.any(|id| graph.node(*id).kind == Kind::HasRoom)
}

impl Emitter<'_> {
    /// Notes where the native stack is when the interpreter enters the code, and how far calls may go.
    pub(super) fn begin_calls(&mut self) {
        let (base, limit, end) = (outside::NATIVE_BASE, outside::NATIVE_LIMIT, outside::STACK_END);
        let has_calls = self.has_calls;
        if self.graph.called.is_some() || has_calls {
            dynasm!(self.asm.ops ; .arch x64 ; mov [r13 + base], rsp);
        }
        if has_calls {
            dynasm!(self.asm.ops ; .arch x64
                ; mov rax, [r13 + end]
                ; sub rax, ROOM as i32
                ; lea rcx, [r12 + MOST_BYTES]
                ; cmp rcx, rax
                ; cmovb rax, rcx
                ; mov [r13 + limit], rax
            );
        }
    }

    /// The end of a block that passes values to compiled code.
    pub(super) fn pass(&mut self, block: usize, exit: ExitId, passage: &Passage) {
        match &passage.way {
            Way::Call(call) => self.native_call(block, exit, call, passage),
            Way::Return => self.native_return(block, exit, passage),
            Way::Op(op) => self.runtime_op(exit, *op),
        }
    }

    /// Lets a function of the runtime execute the op, which finds its operands in the slots.
    fn runtime_op(&mut self, exit: ExitId, op: RuntimeOp) {
        if op.import.is_some() {
            self.count_at(exit, 1);
        }
        self.save(exit);
        self.leave_lanes();
        debug_assert!(
            self.graph.called.is_none(),
            "code that is called by code would not know how the stack is aligned"
        );
        let pc = self.graph.exit(exit).pc as i32;
        let (stop, function) = (
            self.shared(Shared::Stop),
            self.shared(if op.import.is_some() { Shared::Import } else { Shared::Execute }),
        );
        dynasm!(self.asm.ops ; .arch x64 ; mov edx, pc);
        if let Some(call) = op.import {
            dynasm!(self.asm.ops ; .arch x64 ; mov ecx, call.index() as i32);
        }
        dynasm!(self.asm.ops ; .arch x64 ; call =>function ; jz =>stop);
        if self.next != Some(op.back) {
            let back = self.labels[op.back];
            dynasm!(self.asm.ops ; .arch x64 ; jmp =>back);
        }
    }

    fn native_call(&mut self, block: usize, exit: ExitId, call: &NativeCall, passage: &Passage) {
        let own = self.graph.called.filter(|(_, ordinal)| *ordinal == call.callee);
        let target = match own {
            Some(_) => Entrance { address: 0, frame: self.frame as u32 },
            None => self.outside.functions.get(&call.callee).copied().unwrap_or_default(),
        };
        if target.frame + 8 > RATIO * call.advance {
            return self.leave(block, exit);
        }
        self.save_kept(exit, &call.kept);
        if !call.begun {
            // A frame that may not fit is the interpreter's to make.
            let full = self.asm.ops.new_dynamic_label();
            self.stubs.push(Stub { label: full, exit, why: Why::End(block) });
            self.has_room(full);
            self.count_at(exit, 1);
        }
        let advance = call.advance as i32;
        for (value, to) in &passage.values {
            if let To::Slot(slot) = to {
                let (of, from) = (self.of(*value), self.operand(*value, 0));
                lower::store_slot(&mut self.asm, of, SLOTS, advance + i32::from(*slot) * 4, from);
            }
        }
        self.load_registers(passage);
        self.leave_lanes();
        match i8::try_from(advance) {
            Ok(advance) => dynasm!(self.asm.ops ; .arch x64 ; add r12, BYTE advance),
            Err(_) => dynasm!(self.asm.ops ; .arch x64 ; add r12, advance),
        }
        match own {
            Some((entry, _)) => {
                let entry = self.labels[entry];
                dynasm!(self.asm.ops ; .arch x64 ; call =>entry);
            }
            None => {
                let address = target.address as i64;
                dynasm!(self.asm.ops ; .arch x64 ; mov r11, QWORD address ; call r11);
            }
        }
        let (offset, frame) = (self.asm.ops.offset().0, self.frame as u32);
        self.returns.push(ReturnTo { offset, block, frame, constants: call.constants.clone().into() });
        match i8::try_from(advance) {
            Ok(advance) => dynasm!(self.asm.ops ; .arch x64 ; sub r12, BYTE advance),
            Err(_) => dynasm!(self.asm.ops ; .arch x64 ; sub r12, advance),
        }
        if self.next != Some(call.back) {
            let back = self.labels[call.back];
            dynasm!(self.asm.ops ; .arch x64 ; jmp =>back);
        }
    }

    /// Goes to `full` if a frame may not fit, or the native stack has grown much.
    pub(super) fn has_room(&mut self, full: DynamicLabel) {
        let limit = outside::NATIVE_LIMIT;
        dynasm!(self.asm.ops ; .arch x64 ; cmp r12, [r13 + limit] ; ja =>full);
    }

    fn native_return(&mut self, block: usize, exit: ExitId, passage: &Passage) {
        let (frame, base, label) = (self.frame, outside::NATIVE_BASE, self.asm.ops.new_dynamic_label());
        // Entered by the interpreter, and so left for it.
        self.stubs.push(Stub { label, exit, why: Why::End(block) });
        if frame > 0 {
            dynasm!(self.asm.ops ; .arch x64 ; lea r11, [rsp + frame] ; cmp r11, [r13 + base] ; je =>label);
        } else {
            dynasm!(self.asm.ops ; .arch x64 ; cmp rsp, [r13 + base] ; je =>label);
        }
        self.load_registers(passage);
        self.leave_lanes();
        self.leave_frame();
        dynasm!(self.asm.ops ; .arch x64 ; ret);
    }

    /// Puts values into the registers that they are passed in, none of which is the place of one.
    fn load_registers(&mut self, passage: &Passage) {
        for (value, to) in &passage.values {
            if let To::Register(register) = to {
                let (of, from) = (self.of(*value), self.fetch(*value, *register));
                lower::move_value(&mut self.asm, of, *register, from);
            }
        }
    }

    /// Makes room for the native frame.
    pub(super) fn take_frame(&mut self) {
        let frame = self.frame;
        if frame > 0 {
            dynasm!(self.asm.ops ; .arch x64 ; sub rsp, frame);
        }
    }

    /// Gives the native frame back.
    pub(super) fn leave_frame(&mut self) {
        let frame = self.frame;
        if frame > 0 {
            dynasm!(self.asm.ops ; .arch x64 ; add rsp, frame);
        }
    }

    /// Makes the frames of all calls, and goes back to where the native stack was. Without a native frame; the registers of the
    /// frame and of the machine stay.
    pub(super) fn unwind(&mut self) {
        if self.graph.called.is_none() {
            return;
        }
        let (base, done) = (outside::NATIVE_BASE, self.asm.ops.new_dynamic_label());
        let function = outside::make_frames() as i64;
        dynasm!(self.asm.ops ; .arch x64
            ; cmp rsp, [r13 + base]
            ; je =>done
            ; mov rdi, r13
            ; mov rsi, r12
            ; mov rdx, rsp
            ; and rsp, -16
            ; mov rax, QWORD function
            ; call rax
            ; mov rsp, [r13 + base]
            ; =>done
        );
    }

    /// Calls a function of the runtime whose address is in `rax`. Code that is called by code does not know how the stack is aligned.
    pub(super) fn call_outside(&mut self) {
        if self.graph.called.is_none() {
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
    pub(super) fn count_at(&mut self, exit: ExitId, many: i32) {
        self.count_with(exit, many, Why::Limits);
    }

    pub(super) fn count_with(&mut self, exit: ExitId, many: i32, why: impl FnOnce(DynamicLabel) -> Why) {
        let (label, goes_on) = (self.asm.ops.new_dynamic_label(), self.asm.ops.new_dynamic_label());
        self.stubs.push(Stub { label, exit, why: why(goes_on) });
        match i8::try_from(many) {
            Ok(many) => dynasm!(self.asm.ops ; .arch x64 ; sub r15d, BYTE many),
            Err(_) => dynasm!(self.asm.ops ; .arch x64 ; sub r15d, many),
        }
        dynasm!(self.asm.ops ; .arch x64 ; jb =>label ; =>goes_on);
    }
}
