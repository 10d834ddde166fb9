//! Runtime functions that execute ops without machine code on behalf of machine code, which continues after them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use smallvec::SmallVec;

use super::op_execution::After;
use crate::Ref;
use crate::bytecode::{CallId, Op};
use crate::interp::frame::registers::Registers;
use crate::interp::machine::Machine;
use crate::interp::machine::exit::Continuation;
use crate::interp::ops::helpers::Helpers;
use crate::status::Status;

/// As a register to read: none, so null is written.
const NO_REGISTER: usize = u16::MAX as usize;

/// Executes op `pc` of the frame with these slots. False if the code must not continue after the op; `cx.continuation`
/// then says where execution continues.
///
/// # Safety
/// As for a handler.
pub unsafe extern "C" fn execute(cx: *mut Machine<'_>, slots: *mut u32, pc: usize) -> bool {
    // SAFETY: the machine is that of the code which calls this and holds no reference to it.
    unsafe { &mut *cx }.execute_for_code(slots, |machine| machine.execute_op(slots, pc))
}

/// As [`execute`], for an allocation whose zeroing is elided: the code fills the whole buffer before anything can read
/// it.
///
/// # Safety
/// As for a handler.
pub unsafe extern "C" fn allocate(cx: *mut Machine<'_>, slots: *mut u32, pc: usize) -> bool {
    // SAFETY: the machine is that of the code which calls this and holds no reference to it.
    let cx = unsafe { &mut *cx };
    cx.elides_zeroing = true;
    let goes_on = cx.execute_for_code(slots, |machine| machine.execute_op(slots, pc));
    cx.elides_zeroing = false;
    goes_on
}

/// As [`execute`], for a call of an import that the code has counted already.
///
/// # Safety
/// As for a handler.
pub unsafe extern "C" fn call_import(cx: *mut Machine<'_>, slots: *mut u32, pc: usize, call: u32) -> bool {
    // SAFETY: the machine is that of the code which calls this and holds no reference to it.
    let cx = unsafe { &mut *cx };
    cx.execute_for_code(slots, |machine| machine.execute_import_call(slots, pc, CallId(call), false))
}

/// Fails op `pc` of the frame with these slots: a direct call of an import, which has left the error or the panic in
/// the machine.
///
/// # Safety
/// As for a handler.
pub unsafe extern "C" fn fail_import(cx: *mut Machine<'_>, slots: *mut u32, pc: usize) {
    // SAFETY: the machine is that of the code which calls this and holds no reference to it.
    let cx = unsafe { &mut *cx };
    // Of a panic nothing but the frame is noted.
    cx.continuation = Continuation { slots, ..Continuation::default() };
    if let Some(status) = cx.failure.take() {
        cx.execute_for_code(slots, |machine| {
            let selected = machine.select_frame(slots);
            machine.pc = pc;
            machine.after_op(slots, pc, selected.and(Err(status)))
        });
    }
}

/// Checks the limits and starts the countdown again. False if a limit is reached: op `pc` of the frame with these slots
/// has then failed. If `pc` is no op (`u32::MAX`) the code takes a side exit, and the interpreter finds the limit
/// again, because the countdown stays zero.
///
/// # Safety
/// As for a handler.
pub unsafe extern "C" fn check_limits(cx: *mut Machine<'_>, slots: *mut u32, pc: u32) -> bool {
    // SAFETY: the machine is that of the code which calls this and holds no reference to it.
    let cx = unsafe { &mut *cx };
    // The code has the countdown in a register, where it has come to its end.
    cx.countdown = 0;
    let Err(status) = cx.check_limits() else { return true };
    if pc != u32::MAX {
        cx.pc = pc as usize;
        cx.continuation = Continuation { slots, ..Continuation::default() };
        cx.failure = Some(status);
    }
    false
}

/// Counts steps for a vector loop, which are more than the countdown has. False if a limit is reached or the fuel is
/// not enough for all of them: the scalar loop then takes the steps one by one, and finds the limit at the step where
/// it is.
///
/// # Safety
/// As for a handler.
pub unsafe extern "C" fn count_many(cx: *mut Machine<'_>, _slots: *mut u32, steps: u32) -> bool {
    // SAFETY: the machine is that of the code which calls this and holds no reference to it.
    unsafe { &mut *cx }.count_many(steps).unwrap_or(false)
}

/// Fails the call because machine code is about to access a buffer out of its range, at op `pc` if that is known (not
/// `u32::MAX`). That is a bug of the JIT, which verified machine code checks for.
///
/// # Safety
/// As for a handler.
pub unsafe extern "C" fn out_of_range(cx: *mut Machine<'_>, slots: *mut u32, pc: u32) {
    // SAFETY: the machine is that of the code which calls this and holds no reference to it.
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

/// Moves references in the frame with these slots: each of the numbers has the register to write in its lower 16 bits,
/// and above them the one to read, or `0xffff` for null. All are read before one is written. False if the code must not
/// continue, because a destructor panicked.
///
/// # Safety
/// As for a handler. There are so many numbers, and the frame has all registers that they name.
pub unsafe extern "C" fn move_references(
    cx: *mut Machine<'_>,
    slots: *mut u32,
    moves: *const u64,
    count: usize,
) -> bool {
    // SAFETY: the machine is that of the code which calls this and holds no reference to it; the code has written the
    // numbers.
    let (cx, moves) = unsafe { (&mut *cx, std::slice::from_raw_parts(moves, count)) };
    cx.execute_for_code(slots, |machine| {
        machine.lent.keep();
        // SAFETY: the builder of the code named registers that the frame has, and no other code uses them during the
        // call.
        let mut registers = unsafe { Registers::new(slots, usize::MAX, usize::MAX) };
        let source = |numbers: u64| usize::from((numbers >> 16) as u16);
        let values: SmallVec<[Option<Ref>; 8]> = moves
            .iter()
            .map(|numbers| match source(*numbers) {
                NO_REGISTER => None,
                source => registers.reference(source).clone(),
            })
            .collect();
        for (numbers, value) in moves.iter().zip(values) {
            registers.assign(usize::from(*numbers as u16), value);
        }
        After::Next
    })
}

impl Machine<'_> {
    /// Executes an op. References stay lent to the frame if the op only discards some, makes a new one, or loads one to
    /// data of the module, which is lent, too: most kernels with memory of their own do no more.
    fn execute_op(&mut self, slots: *mut u32, pc: usize) -> After {
        if self.lent.is_lent() {
            let code = self.code();
            match code.ops[pc] {
                Op::DiscardRefs { refs } => {
                    code.list(refs).iter().for_each(|reg| self.lent.discard(reg.ref_reg().index()));
                    return After::Next;
                }
                Op::ConstRefRodata { rodata, result } => {
                    if let Some(segment) = self.rodata(rodata).map(|segment| segment.lend()) {
                        // SAFETY: the segment is in the state, which outlives the call.
                        unsafe { self.lent.lend(result.index(), segment) };
                        return After::Next;
                    }
                }
                Op::BufferAlloc { length, alignment, result } => {
                    // References are lent only to the outermost frame, and it is the running one.
                    debug_assert_eq!(self.frame.slots(), slots);
                    let (length, alignment) = (self.frame.wide(length), self.frame.word(alignment.index()));
                    if let Some(buffer) = self.lent.lend_buffer(pc, length, alignment, result.index()) {
                        if !self.elides_zeroing {
                            // SAFETY: the buffer has so many bytes, and nothing else reads or writes them.
                            unsafe { buffer.as_ptr().write_bytes(0, buffer.len()) };
                        }
                        return After::Next;
                    }
                    if self.lent.own(result.index()) {
                        if let Err(status) = self.buffer_alloc(length as i64, alignment as i32, result) {
                            return self.fail_op(slots, pc, status);
                        }
                        self.lent.keep_buffer(pc, length, alignment, result.index());
                        return After::Next;
                    }
                }
                _ => {}
            }
        }
        self.execute(slots, pc)
    }

    /// Fails an op of the frame with these slots.
    #[cold]
    fn fail_op(&mut self, slots: *mut u32, pc: usize, status: Status) -> After {
        let selected = self.select_slots(slots);
        self.pc = pc;
        self.after_op(slots, pc, selected.and(Err(status)))
    }

    /// Executes an op on behalf of machine code, through which no panic may unwind: it is caught here, and
    /// `run_threaded` resumes it.
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
