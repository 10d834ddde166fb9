//! Ops that have no machine code, executed for compiled code that goes on behind them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::handlers::After;
use super::{Continuation, Machine};
use crate::bytecode::CallId;
use crate::interp::control::{self, Flow};
use crate::status::Status;

/// Executes op `pc` of the frame with these slots for compiled code. False if that is not to go on behind the op: `cx.continuation` then says
/// what is.
///
/// # Safety
/// As for a handler.
pub unsafe extern "C" fn execute(cx: *mut Machine<'_>, slots: *mut u32, pc: usize) -> bool {
    // SAFETY: the machine is that of the code which calls this and holds no reference to it.
    unsafe { &mut *cx }.execute_for_code(slots, |machine| machine.execute(slots, pc))
}

/// The same for an allocation of a buffer all of which is filled before anybody can look at it.
///
/// # Safety
/// As for a handler.
pub unsafe extern "C" fn allocate(cx: *mut Machine<'_>, slots: *mut u32, pc: usize) -> bool {
    // SAFETY: as in `execute`.
    let cx = unsafe { &mut *cx };
    cx.elides_zeroing = true;
    let goes_on = cx.execute_for_code(slots, |machine| machine.execute(slots, pc));
    cx.elides_zeroing = false;
    goes_on
}

/// The same for a call of an import, which has been counted.
///
/// # Safety
/// As for a handler.
pub unsafe extern "C" fn call_import(cx: *mut Machine<'_>, slots: *mut u32, pc: usize, call: u32) -> bool {
    let op = |machine: &mut Machine<'_>| {
        match control::call_counted(machine, CallId(call))? {
            Flow::Next => machine.pc += 1,
            Flow::Jump(pc) => machine.pc = pc,
            Flow::Frame | Flow::Exit => {}
        }
        Ok(())
    };
    // SAFETY: as in `execute`.
    unsafe { &mut *cx }.execute_for_code(slots, |machine| machine.execute_by(slots, pc, op))
}

/// Looks at the limits for compiled code, and starts the countdown again. False if one is reached, with which op `pc` of the frame
/// with these slots has failed; if there is no such op, that is found again by whoever goes on.
///
/// # Safety
/// As for a handler.
pub unsafe extern "C" fn check_limits(cx: *mut Machine<'_>, slots: *mut u32, pc: u32) -> bool {
    // SAFETY: as in `execute`.
    let cx = unsafe { &mut *cx };
    let Err(status) = cx.check_limits() else { return true };
    cx.countdown = 0;
    if pc != u32::MAX {
        cx.pc = pc as usize;
        cx.continuation = Continuation { slots, ..Continuation::default() };
        cx.failure = Some(status);
    }
    false
}

/// Fails the call for compiled code that is about to access a buffer out of its range, by op `pc` if that is known: a bug of the compiler.
///
/// # Safety
/// As for a handler.
pub unsafe extern "C" fn out_of_range(cx: *mut Machine<'_>, slots: *mut u32, pc: u32) {
    // SAFETY: as in `execute`.
    let cx = unsafe { &mut *cx };
    let op = if pc == u32::MAX {
        "a vector loop".to_string()
    } else {
        cx.pc = pc as usize;
        format!("op {pc}")
    };
    cx.continuation = Continuation { slots, ..Continuation::default() };
    cx.failure = Some(Status::internal(format!("machine code of {op} accesses a buffer out of its range")));
}

impl Machine<'_> {
    /// Executes an op for compiled code, through which no panic of an import may unwind: it goes on behind the code.
    #[inline(always)]
    pub(super) fn execute_for_code(&mut self, slots: *mut u32, op: impl FnOnce(&mut Self) -> After) -> bool {
        match catch_unwind(AssertUnwindSafe(|| op(self))) {
            Ok(after) => after == After::Next,
            Err(panic) => {
                self.panic = Some(panic);
                self.continuation = Continuation { slots, ..Continuation::default() };
                false
            }
        }
    }
}
