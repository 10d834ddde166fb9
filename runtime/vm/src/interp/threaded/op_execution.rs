//! Ops that a handler or machine code leaves to the runtime: helpers and the loop dispatcher execute them, and this
//! finds out where execution continues after them.

use super::body::{HelperBody, HelperVisitor};
use crate::bytecode::CallId;
use crate::generated::vm::interp::{dispatch, threaded as generated};
use crate::interp::code::threaded_code::ThreadedCode;
use crate::interp::machine::Machine;
use crate::interp::machine::exit::Continuation;
use crate::interp::ops::control::{Flow, call_counted};
use crate::status::Result;

/// How handlers continue after a cold op.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// At the next op of the same frame.
    Next,
    /// At `cx.continuation`.
    Continuation,
    /// Not at all: the handler returns.
    Stop,
}

impl<'a> Machine<'a> {
    /// The code of function `ordinal` of the running module, if it has been built.
    #[inline]
    fn built_code(&self, ordinal: usize) -> Option<&'a ThreadedCode> {
        self.module.code.get(ordinal)
    }

    /// Executes op `pc` of the frame with these slots: by its helper, or by the loop dispatcher.
    pub(super) fn execute(&mut self, slots: *mut u32, pc: usize) -> After {
        self.lent.keep();
        let selected = self.select_slots(slots);
        self.pc = pc;
        if selected.is_ok() {
            // A helper takes a fraction of the time that the dispatcher takes to get to it.
            let op = self.code().ops[pc];
            let mut helped = Helped { machine: self, result: Ok(()) };
            if generated::visit_helper(op, &mut helped) {
                let result = helped.result;
                return if result.is_ok() { After::Next } else { self.after_op(slots, pc, result) };
            }
        }
        let result = selected.and_then(|()| dispatch::run(self, true));
        self.after_op(slots, pc, result)
    }

    /// Makes the frame with these slots, in which a handler runs, the one on top and the running one, with references
    /// of its own.
    #[inline(always)]
    pub(super) fn select_frame(&mut self, slots: *mut u32) -> Result<()> {
        self.lent.keep();
        self.select_slots(slots)
    }

    #[inline(always)]
    pub(super) fn select_slots(&mut self, slots: *mut u32) -> Result<()> {
        // SAFETY: handlers build and release frames as `push` and `pop` do, and these slots are those of the running
        // one.
        unsafe { self.stack.set_top(slots) };
        if self.is_running(slots) { Ok(()) } else { self.select_top() }
    }

    /// Finds out where execution continues after op `pc` of the frame with these slots.
    #[inline(always)]
    pub(super) fn after_op(&mut self, slots: *mut u32, pc: usize, result: Result<()>) -> After {
        let top = self.stack.top();
        if let Err(status) = result {
            self.failure = Some(status);
        } else if self.exit.is_none() {
            // The block after a terminator may be entered with another carried register.
            if top == slots && self.pc == pc + 1 && !self.code().ops[pc].is_terminator() {
                return After::Next;
            }
            // A function that has never run has no code yet. Then the handlers stop, and the run loop builds it.
            let code = self.built_code(self.function.ordinal() as usize);
            if let Some((ip, carried)) = code.and_then(|code| code.entry(self.pc, self.frame)) {
                self.continuation = Continuation { ip, slots: top, carried };
                return After::Continuation;
            }
        }
        self.continuation = Continuation { slots: top, ..Continuation::default() };
        After::Stop
    }
}

/// Executes the op that it visits.
struct Helped<'m, 'a> {
    machine: &'m mut Machine<'a>,
    result: Result<()>,
}

impl HelperVisitor for Helped<'_, '_> {
    #[inline(always)]
    fn helper<B: HelperBody>(&mut self, operands: B::Operands) {
        self.result = B::run(self.machine, &operands);
    }
}

/// Executes op `pc` of the frame with these slots for the handler of cold ops. Out of line, so that the handler keeps
/// no frame of its own.
///
/// # Safety
/// As for a handler.
#[inline(never)]
pub(super) unsafe fn execute_cold(cx: *mut Machine<'_>, slots: *mut u32, pc: usize) -> After {
    // SAFETY: the machine is the handler's to use.
    unsafe { &mut *cx }.execute(slots, pc)
}

/// Executes an op by a helper, as op `pc` of the frame with these slots. Out of line, so that the handler keeps no
/// frame of its own.
///
/// # Safety
/// As for a handler.
#[inline(never)]
pub(super) unsafe fn execute_helper<B: HelperBody>(
    cx: *mut Machine<'_>,
    slots: *mut u32,
    pc: usize,
    operands: &B::Operands,
) -> After {
    // SAFETY: the machine is the handler's to use.
    let cx = unsafe { &mut *cx };
    let selected = cx.select_frame(slots);
    cx.pc = pc;
    match selected.and_then(|()| B::run(cx, operands)) {
        Ok(()) => After::Next,
        failed => cx.after_op(slots, pc, failed),
    }
}

impl Machine<'_> {
    /// Calls an import, op `pc` of the frame with these slots; `counts` if the step has not been counted.
    pub(super) fn execute_import_call(&mut self, slots: *mut u32, pc: usize, call: CallId, counts: bool) -> After {
        let selected = self.select_frame(slots);
        self.pc = pc;
        let counted = selected.and_then(|()| if counts { self.tick() } else { Ok(()) });
        match counted.and_then(|()| call_counted(self, call)) {
            // A native function has returned, so the frame is that on top, and the op is no terminator.
            Ok(Flow::Next) => After::Next,
            flow => self.after_import_call(slots, pc, flow),
        }
    }

    /// Finds out where execution continues after a call of an import that does not go on at the next op.
    #[inline(never)]
    pub(super) fn after_import_call(&mut self, slots: *mut u32, pc: usize, flow: Result<Flow>) -> After {
        if let Ok(Flow::Jump(target)) = flow {
            self.pc = target;
        }
        self.after_op(slots, pc, flow.map(drop))
    }
}
