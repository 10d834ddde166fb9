//! The run loop of the threaded dispatcher: enters handlers, and lets the loop dispatcher execute the op at which they
//! have stopped. `call/dispatcher.rs` runs it.

use std::sync::OnceLock;

use super::enter::enter;
use super::function_code::code_of;
use super::handlers::stack_stays;
use super::tier_up::is_counted;
use crate::bytecode::Op;
use crate::generated::vm::interp::dispatch;
use crate::interp::code::import_site::ImportTarget;
use crate::interp::code::threaded_code::{FunctionEntry, ThreadedCode};
use crate::interp::frame::instruction::{CarriedValues, Ip};
use crate::interp::frame::registers::Registers;
use crate::interp::machine::Machine;
use crate::interp::machine::bound_modules::BytecodeModule;
use crate::limits::Limits;
use crate::status::Result;

impl<'a> Machine<'a> {
    /// The code of function `ordinal` of the running module.
    #[inline]
    fn threaded_code(&self, ordinal: usize) -> Option<&'a ThreadedCode> {
        code_of(self.module, self.module_index(), ordinal)
    }

    /// Runs handlers from `ip` on until one stops, and makes the frame of the continuation the running one.
    #[inline]
    fn run_threaded(&mut self, ip: Ip, carried: CarriedValues) -> Result<()> {
        let slots = self.frame.slots();
        // SAFETY: `ip` is an instruction of the code of the running function, whose frame is on top of the stack.
        unsafe { enter(ip, slots, self, carried) };
        self.after_handlers()
    }

    /// Runs the running function from its first op on, until a handler stops.
    ///
    /// # Safety
    /// The entry must be that of the running function, and `frame` its registers, on top of the stack.
    #[inline(always)]
    pub unsafe fn enter_function(&mut self, entry: &FunctionEntry, frame: Registers) {
        let carry = entry.carry.map_or(0, |carry| carry.value(frame));
        // SAFETY: the caller guarantees that the entry is that of the running function, and `frame` its registers, on
        // top of the stack.
        unsafe {
            enter(entry.ip, frame.slots(), self, CarriedValues { carry, loop_header: entry.loop_header });
        }
    }

    /// Makes the frame of the continuation the running one, and reports the error or the panic of the op at which
    /// handlers have stopped.
    #[inline]
    fn after_handlers(&mut self) -> Result<()> {
        // SAFETY: handlers build and release frames as `push` and `pop` do, and the continuation has the running one.
        unsafe { self.stack.set_top(self.continuation.slots) };
        if self.panic.is_some() || self.failure.is_some() {
            return self.fail();
        }
        let slots = self.continuation.slots;
        // After an exit only the registers of the outermost frame are read, whose address no other frame has.
        let is_same = self.exit.is_some() && self.frame.slots() == slots;
        if is_same || self.is_running(slots) { Ok(()) } else { self.select_top() }
    }

    /// Resumes the panic, or returns the error, of an op that a handler has executed.
    #[cold]
    fn fail(&mut self) -> Result<()> {
        if let Some(panic) = self.panic.take() {
            std::panic::resume_unwind(panic);
        }
        self.failure.take().map_or(Ok(()), Err)
    }
}

/// Runs the frame on top from `cx.pc` on until `cx.exit` is set. After an error `cx.pc` is the op that failed.
#[inline]
pub(in crate::interp) fn run(cx: &mut Machine<'_>) -> Result<()> {
    // Most calls of small functions run from the first handler to the last one, and need no more than this.
    if let Some(code) = cx.threaded_code(cx.function.ordinal() as usize)
        && code.native.is_decided()
        && cx.stack.pending.is_none()
        && let Some((ip, carried)) = code.entry(cx.pc, cx.frame)
    {
        cx.run_threaded(ip, carried)?;
        return if cx.exit.is_some() { Ok(()) } else { go_on(cx) };
    }
    start(cx)
}

/// The entry of a function by calls within these limits; none if the tier-up counts them.
pub(in crate::interp) fn function_entry(
    module: &BytecodeModule,
    target: ImportTarget,
    limits: &Limits,
) -> Option<FunctionEntry> {
    let code = code_of(module, target.module, target.function)?;
    if is_counted(limits) && !code.native.is_decided() {
        return None;
    }
    code.function_entry()
}

/// Goes on where the handlers have stopped after [`Machine::enter_function`].
pub(in crate::interp) fn after_entry(cx: &mut Machine<'_>) -> Result<()> {
    cx.after_handlers()?;
    if cx.exit.is_some() { Ok(()) } else { go_on(cx) }
}

/// Counts the call for the tier-up, finishes the native call that waits, and runs the frame on top.
fn start(cx: &mut Machine<'_>) -> Result<()> {
    cx.count_for_tier_up();
    if cx.stack.pending.is_some() {
        // If machine code made the call that waits, only that code may continue after it, because not all slots hold
        // their values.
        dispatch::run(cx, true)?;
        if cx.exit.is_some() {
            return Ok(());
        }
    }
    run_from(cx, None)
}

/// Runs the frame on top, whose handlers have stopped.
fn go_on(cx: &mut Machine<'_>) -> Result<()> {
    match after_stop(cx) {
        Some(again) => run_from(cx, Some(again)),
        None => {
            dispatch::run(cx, true)?;
            if cx.exit.is_some() { Ok(()) } else { run_from(cx, None) }
        }
    }
}

/// Runs the frame on top from an instruction, or from `cx.pc` on.
fn run_from(cx: &mut Machine<'_>, from: Option<(Ip, CarriedValues)>) -> Result<()> {
    let mut from = from;
    loop {
        let code = cx.threaded_code(cx.function.ordinal() as usize);
        let entry = from.take().or_else(|| code.and_then(|code| code.entry(cx.pc, cx.frame)));
        if let Some((ip, carried)) = entry {
            cx.run_threaded(ip, carried)?;
            if cx.exit.is_some() {
                return Ok(());
            }
            from = after_stop(cx);
            if from.is_some() {
                continue;
            }
        }
        dispatch::run(cx, true)?;
        if cx.exit.is_some() {
            return Ok(());
        }
    }
}

/// Finds out why handlers have stopped at `cx.continuation`, and at which op, which the loop dispatcher then executes.
/// If the handlers can continue after all, the instruction and the carried values are returned.
fn after_stop(cx: &mut Machine<'_>) -> Option<(Ip, CarriedValues)> {
    let ip = cx.continuation.ip;
    if ip.is_null() {
        return None;
    }
    let code = cx.threaded_code(cx.function.ordinal() as usize)?;
    cx.pc = code.pc(ip);
    if cx.countdown == 0 {
        cx.count_for_tier_up();
        // A function that neither loops nor calls is counted at its call sites.
        if let Some(callee) = code.callee(ip) {
            cx.count_function_for_tier_up(callee);
        }
    }
    if matches!(cx.code().ops.get(cx.pc), Some(Op::Call { .. }))
        && let Some(ordinal) = code.unresolved(ip)
        && let Some(callee) = cx.threaded_code(ordinal)
    {
        // The callee runs for the first time. Now that it has threaded code, the handler of the call makes the call.
        cx.count_function_for_tier_up(ordinal as u32);
        code.resolve(ip, callee);
        return Some((ip, cx.continuation.carried));
    }
    None
}

/// Whether calls of handlers are jumps in this build: measured once, as the growth of the native stack along a chain of
/// handlers.
#[inline]
pub(in crate::interp) fn is_fast() -> bool {
    static FAST: OnceLock<bool> = OnceLock::new();
    // Debug assertions keep some handlers from jumping.
    cfg!(all(sibling_calls, not(debug_assertions))) && *FAST.get_or_init(stack_stays)
}
