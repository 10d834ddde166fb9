//! The handlers of threaded instructions: one generic handler for all ops made of primitives, and those of branches,
//! copies, calls and returns. The code builder stores their addresses in instructions; `enter.rs` runs them.
//! `cargo xtask handlers` holds their machine code to `xtask/handlers.txt`.

use super::body::{HelperBody, OpBody};
use super::handler::ALWAYS;
use super::handler::BranchHandlers;
use super::handler::NEVER;
use super::handler::TAKEN;
#[cfg(sibling_calls)]
use super::handler::handler_at;
use super::handler::{Handler, address_of};
use super::handler_frame::{FusedTestFrame, HandlerFrame};
use super::import_call::execute_import;
use super::op_execution::After;
use super::op_execution::execute_cold;
use super::op_execution::execute_helper;
use super::operands::{ConditionalBranch, FusedBranch, HelperOp, at_distance};
use crate::bytecode::{RefReg, Reg};
use crate::interp::code::import_site::ImportSite;
use crate::interp::frame::carried_register::CarriedRegister;
use crate::interp::frame::instruction::{CarriedValues, Ip, ThreadedInstruction, instructions_of, operands_of};
use crate::interp::frame::registers::Registers;
use crate::interp::machine::Machine;
use crate::interp::machine::exit::Continuation;

/// The return value of a handler that stopped.
pub(super) const STOP: usize = 0;
/// The return value of a handler that stored a continuation to resume, in builds where handlers cannot jump.
pub(super) const GO_ON: usize = 1;

/// Goes on at `ip` by a sibling call.
///
/// # Safety
/// As for a [`Handler`].
#[cfg(sibling_calls)]
#[inline(always)]
pub(super) unsafe fn jump(ip: Ip, slots: *mut u32, cx: *mut Machine<'_>, carried: CarriedValues) -> usize {
    // SAFETY: every instruction that is jumped to begins with a handler.
    let handler = unsafe { handler_at(ip) };
    // SAFETY: instruction, frame and machine are those that a [`Handler`] gets.
    unsafe { continue_by(handler, ip, slots, cx, carried) }
}

/// Lets another handler go on at `ip`, by a sibling call if there are such.
///
/// # Safety
/// As for a [`Handler`].
#[inline(always)]
pub(super) unsafe fn continue_by(
    handler: Handler,
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // Where panics abort, a call of what may unwind is guarded, and the guard would stay on the stack: there it is
    // called as what never unwinds.
    #[cfg(panic = "abort")]
    // SAFETY: the types differ in this only.
    let handler: unsafe extern "C" fn(Ip, *mut u32, *mut Machine<'_>, CarriedValues) -> usize =
        unsafe { std::mem::transmute(handler) };
    // SAFETY: instruction, frame and machine are those that a [`Handler`] gets.
    unsafe { handler(ip, slots, cx, carried) }
}

/// Goes on at `ip`: returns to `enter`, which calls the handler.
///
/// # Safety
/// As for a [`Handler`].
#[cfg(not(sibling_calls))]
#[inline(always)]
pub(super) unsafe fn jump(ip: Ip, slots: *mut u32, cx: *mut Machine<'_>, carried: CarriedValues) -> usize {
    // SAFETY: instruction, frame and machine are those that a [`Handler`] gets.
    unsafe { stop(ip, slots, cx, carried) };
    GO_ON
}

/// Goes on at the instruction after one with operands of type `T`.
///
/// # Safety
/// As for a [`Handler`].
#[inline(always)]
pub(super) unsafe fn next<T>(ip: Ip, slots: *mut u32, cx: *mut Machine<'_>, carried: CarriedValues) -> usize {
    // SAFETY: only terminators have no instruction after them, and they do not call this.
    unsafe { jump(ip.add(instructions_of::<T>()), slots, cx, carried) }
}

/// Stops at `ip`: stores the continuation and returns, and the loop dispatcher executes the op.
pub(super) unsafe extern "C-unwind" fn stop(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: the machine is ours to use.
    unsafe { (*cx).continuation = Continuation { ip, slots, carried } };
    STOP
}

/// The handler of ops on the cold path: the loop dispatcher executes the op, and the handlers continue after it.
///
/// # Safety
/// As for a [`Handler`].
pub unsafe extern "C-unwind" fn cold(ip: Ip, slots: *mut u32, cx: *mut Machine<'_>, carried: CarriedValues) -> usize {
    // SAFETY: the builder put operands of this type into the instruction; frame and machine are those that a
    // [`Handler`] gets.
    unsafe {
        let after = execute_cold(cx, slots, operands_of::<u32>(ip).read() as usize);
        go_on::<u32>(after, ip, slots, cx, carried)
    }
}

/// The handler of ops that helpers execute.
///
/// # Safety
/// As for a [`Handler`].
pub(super) unsafe extern "C-unwind" fn helper<B: HelperBody>(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: the builder put operands of this type into the instruction; frame and machine are those that a
    // [`Handler`] gets.
    unsafe {
        let HelperOp { pc, operands } = &*operands_of::<HelperOp<B::Operands>>(ip);
        let after = execute_helper::<B>(cx, slots, *pc as usize, operands);
        go_on::<HelperOp<B::Operands>>(after, ip, slots, cx, carried)
    }
}

/// The handler of calls of imports, most of which are native functions.
pub(super) unsafe extern "C-unwind" fn import_call(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: the builder put operands of this type into the instruction; frame and machine are those that a
    // [`Handler`] gets; sites live as long as the code.
    unsafe {
        let after = execute_import(cx, slots, &*operands_of::<*const ImportSite>(ip).read());
        go_on::<*const ImportSite>(after, ip, slots, cx, carried)
    }
}

/// Goes on after an instruction with operands of type `T` that a function of the runtime has executed.
///
/// # Safety
/// As for a [`Handler`].
#[inline(always)]
pub(super) unsafe fn go_on<T>(
    after: After,
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: instruction, frame and machine are those that a [`Handler`] gets; a continuation is an instruction and a
    // frame for which it holds, too.
    unsafe {
        match after {
            After::Stop => STOP,
            After::Next => next::<T>(ip, slots, cx, carried),
            After::Continuation => {
                let Continuation { ip, slots, carried } = (*cx).continuation;
                jump(ip, slots, cx, carried)
            }
        }
    }
}

/// Counts a backward branch or a call. False if the limits have to be checked.
///
/// # Safety
/// As for a [`Handler`].
#[inline(always)]
pub(super) unsafe fn tick(cx: *mut Machine<'_>) -> bool {
    // SAFETY: the machine is ours to use.
    let countdown = unsafe { &mut (*cx).countdown };
    let left = *countdown;
    if left == 0 {
        return false;
    }
    *countdown = left - 1;
    true
}

/// # Safety
/// The frame must have the registers that are asked for.
#[inline(always)]
pub(super) unsafe fn registers(slots: *mut u32) -> Registers {
    // SAFETY: the caller guarantees that the frame has the registers; ops name only registers that their frame has.
    unsafe { Registers::new(slots, usize::MAX, usize::MAX) }
}

/// The handler of an op made of primitives, whose value operand number `CARRIED`, counted from 1, is the carry; 0 is
/// none.
///
/// # Safety
/// As for a [`Handler`].
pub unsafe extern "C-unwind" fn op<B: OpBody, const CARRIED: usize>(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: the stream put operands of this type into the instruction; the rest is the promise of handlers.
    unsafe {
        let mut frame = HandlerFrame { registers: registers(slots), cx, carry: carried.carry };
        match B::run::<_, CARRIED>(&mut frame, &*operands_of::<B::Operands>(ip)) {
            Ok(()) => next::<B::Operands>(ip, slots, cx, CarriedValues { carry: frame.carry, ..carried }),
            Err(_) => stop(ip, slots, cx, carried),
        }
    }
}

/// The handlers of a fused comparison and branch whose operand number `CARRIED` is carried.
pub const fn branch_handlers<B: OpBody, const CARRIED: usize>() -> BranchHandlers {
    [
        fused_branch::<B, CARRIED, NEVER, false>,
        fused_branch::<B, CARRIED, NEVER, true>,
        fused_branch::<B, CARRIED, TAKEN, false>,
        fused_branch::<B, CARRIED, TAKEN, true>,
        fused_branch::<B, CARRIED, ALWAYS, false>,
        fused_branch::<B, CARRIED, ALWAYS, true>,
    ]
}

/// A comparison whose result only the branch reads, and a branch that is taken if it is true.
unsafe extern "C-unwind" fn fused_branch<
    B: OpBody,
    const CARRIED: usize,
    const TICK_WHEN: usize,
    const TO_LOOP_HEADER: bool,
>(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: the builder put operands of this type into the instruction; frame and machine are those that a
    // [`Handler`] gets. The distance was written and leads to an instruction of the same function. Where a branch leads
    // to the loop header, the block began with `set_loop_header`, or was entered with the value that it sets.
    unsafe { test_and_branch::<B, CARRIED, TICK_WHEN, TO_LOOP_HEADER>(ip, slots, cx, carried) }
}

/// Executes a comparison and the branch on it.
///
/// # Safety
/// As for a [`Handler`].
#[inline(always)]
pub(super) unsafe fn test_and_branch<
    B: OpBody,
    const CARRIED: usize,
    const TICK_WHEN: usize,
    const TO_LOOP_HEADER: bool,
>(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: the builder put operands of this type into the instruction, and a distance to an instruction of the
    // function; frame and machine are those that a [`Handler`] gets.
    unsafe {
        if TICK_WHEN == ALWAYS && !tick(cx) {
            return stop(ip, slots, cx, carried);
        }
        let FusedBranch { delta, operands } = &*operands_of::<FusedBranch<B::Operands>>(ip);
        let mut frame =
            FusedTestFrame { frame: HandlerFrame { registers: registers(slots), cx, carry: carried.carry }, result: 0 };
        let result = B::run::<_, CARRIED>(&mut frame, operands);
        if result.is_ok() && frame.result == 0 {
            return next::<FusedBranch<B::Operands>>(ip, slots, cx, carried);
        }
        if TICK_WHEN == TAKEN && !tick(cx) {
            return stop(ip, slots, cx, carried);
        }
        let target = if TO_LOOP_HEADER { carried.loop_header } else { at_distance(ip, isize::from(*delta)) };
        jump(target, slots, cx, carried)
    }
}

/// Makes the next instruction the loop header.
pub(super) unsafe extern "C-unwind" fn set_loop_header(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: the builder put operands of this type into the instruction; frame and machine are those that a
    // [`Handler`] gets.
    unsafe { next::<()>(ip, slots, cx, CarriedValues { loop_header: ip.add(instructions_of::<()>()), ..carried }) }
}

/// A branch to the loop header that has been counted.
pub(super) unsafe extern "C-unwind" fn to_loop_header(
    _ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: the block began with `set_loop_header`, so the carried header is an instruction of this function.
    unsafe { jump(carried.loop_header, slots, cx, carried) }
}

/// A branch that is taken if a register is not zero.
pub(super) unsafe extern "C-unwind" fn conditional<const BACKWARD: bool>(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: the builder put operands of this type into the instruction, and a distance to an instruction of the
    // function; frame and machine are those that a [`Handler`] gets.
    unsafe {
        let ConditionalBranch { delta, condition } = operands_of::<ConditionalBranch>(ip).read();
        if registers(slots).word(condition.index()) == 0 {
            return next::<ConditionalBranch>(ip, slots, cx, carried);
        }
        if BACKWARD && !tick(cx) {
            return stop(ip, slots, cx, carried);
        }
        jump(at_distance(ip, delta as isize), slots, cx, carried)
    }
}

/// A branch.
pub(super) unsafe extern "C-unwind" fn branch<const BACKWARD: bool>(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: the builder put operands of this type into the instruction, and a distance to an instruction of the
    // function; frame and machine are those that a [`Handler`] gets.
    unsafe {
        if BACKWARD && !tick(cx) {
            return stop(ip, slots, cx, carried);
        }
        jump(at_distance(ip, operands_of::<i32>(ip).read() as isize), slots, cx, carried)
    }
}

/// Counts a backward branch whose copies follow.
pub(super) unsafe extern "C-unwind" fn count(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: the builder put operands of this type into the instruction; frame and machine are those that a
    // [`Handler`] gets.
    unsafe { if tick(cx) { next::<()>(ip, slots, cx, carried) } else { stop(ip, slots, cx, carried) } }
}

/// Loads the carry from a slot, or a pair of them.
pub(super) unsafe extern "C-unwind" fn load_carry<const WIDE: bool>(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: the builder put operands of this type into the instruction; frame and machine are those that a
    // [`Handler`] gets.
    unsafe {
        let reg = operands_of::<Reg>(ip).read();
        let carry = CarriedRegister { reg, wide: WIDE }.value(registers(slots));
        next::<Reg>(ip, slots, cx, CarriedValues { carry, ..carried })
    }
}

/// Copies a reference, or moves it if the source has the MOVE bit.
pub(super) unsafe extern "C-unwind" fn copy_ref(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: the builder put operands of this type into the instruction; frame and machine are those that a
    // [`Handler`] gets.
    unsafe {
        let (source, target) = operands_of::<(RefReg, RefReg)>(ip).read();
        move_ref(registers(slots), source, registers(slots), target.index());
        next::<(RefReg, RefReg)>(ip, slots, cx, carried)
    }
}

/// Moves or copies a reference between frames. Out of line, because releasing the old reference may run a destructor.
#[inline(never)]
pub(super) fn move_ref(mut from: Registers, source: RefReg, mut to: Registers, target: usize) {
    let value = from.take(source);
    to.assign(target, value);
}

/// Writes the address of a local variable to slot 0: a handler for [`depth_after`] alone.
unsafe extern "C-unwind" fn report_stack(
    _ip: Ip,
    slots: *mut u32,
    _cx: *mut Machine<'_>,
    _held: CarriedValues,
) -> usize {
    let here = 0_u8;
    // SAFETY: `depth_after` passes a pair of slots.
    unsafe { slots.cast::<usize>().write_unaligned((&raw const here) as usize) };
    STOP
}

/// The depth of the native stack after a chain of `length` handlers.
#[inline(never)]
fn depth_after(length: usize) -> usize {
    let mut instructions = vec![ThreadedInstruction::of(address_of(set_loop_header)); length];
    instructions.push(ThreadedInstruction::of(address_of(report_stack)));
    let mut slots = [0_u64; 4];
    #[cfg(sibling_calls)]
    // SAFETY: neither handler uses the machine, and only the last one the slots.
    unsafe {
        jump(instructions.as_ptr(), slots.as_mut_ptr().cast(), std::ptr::null_mut(), CarriedValues::default());
    }
    std::hint::black_box(&mut slots)[0] as usize
}

/// Whether a chain of handlers leaves the native stack where it is.
pub(super) fn stack_stays() -> bool {
    const LENGTH: usize = 64;
    depth_after(1).abs_diff(depth_after(LENGTH)) < LENGTH * size_of::<usize>()
}
