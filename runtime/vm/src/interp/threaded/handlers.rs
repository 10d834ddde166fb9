//! The handlers of threaded instructions: one generic handler for all ops made of primitives, and those of branches,
//! copies, calls and returns. The code builder stores their addresses in instructions; `enter.rs` runs them.
//! `cargo xtask handlers` holds their machine code to `xtask/handlers.txt`.

use std::sync::atomic::Ordering;

#[cfg(sibling_calls)]
use super::handler::handler_at;
use super::handler::{Handler, address_of};
use super::import_site;
use super::operands::{ConditionalBranch, FusedBranch, HelperOp, WordReturn, at_distance};
use super::{FusedTestFrame, HandlerFrame, HelperBody, OpBody};
use crate::bytecode::{ListId, RefReg, Reg};
use crate::interp::code::import_site::ImportSite;
use crate::interp::frame::carried_register::CarriedRegister;
use crate::interp::frame::header::header_of;
use crate::interp::frame::instruction::{
    CALL_INSTRUCTIONS, CallOperands, CarriedValues, Ip, ReturnOperands, ThreadedCallSite, ThreadedInstruction,
    entry_of, instructions_of, operands_before, operands_of,
};
use crate::interp::frame::registers::Registers;
use crate::interp::machine::Machine;
use crate::interp::ops::control::Exit;

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
    unsafe { (*cx).continuation = super::Continuation { ip, slots, carried } };
    STOP
}

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

/// The handler of ops on the cold path: the loop dispatcher executes the op, and the handlers continue after it.
///
/// # Safety
/// As for a [`Handler`].
pub unsafe extern "C-unwind" fn cold(ip: Ip, slots: *mut u32, cx: *mut Machine<'_>, carried: CarriedValues) -> usize {
    // SAFETY: the builder put operands of this type into the instruction; frame and machine are those that a
    // [`Handler`] gets.
    unsafe {
        let after = super::execute_cold(cx, slots, operands_of::<u32>(ip).read() as usize);
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
        let after = super::execute_helper::<B>(cx, slots, *pc as usize, operands);
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
        let after = import_site::execute(cx, slots, &*operands_of::<*const ImportSite>(ip).read());
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
                let super::Continuation { ip, slots, carried } = (*cx).continuation;
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

/// When a fused comparison and branch counts as a backward branch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TickWhen {
    /// It is a forward branch, or has been counted.
    Never,
    /// When it is taken, as any backward branch.
    Taken,
    /// Whatever the result is: the test of a rotated loop stands for the backward branch to it.
    Always,
}

pub(super) const NEVER: usize = TickWhen::Never as usize;
pub(super) const TAKEN: usize = TickWhen::Taken as usize;
pub(super) const ALWAYS: usize = TickWhen::Always as usize;

/// The handlers of a fused comparison and branch, in the order of `branch_variant`.
pub type BranchHandlers = [Handler; 6];

/// The index in [`BranchHandlers`] of the handler for a branch that counts so, to the loop header or elsewhere.
pub(super) const fn branch_variant(counts: TickWhen, to_loop_header: bool) -> usize {
    counts as usize * 2 + to_loop_header as usize
}

/// The index of the handler for a branch that is not counted and leads elsewhere.
pub const FORWARD_BRANCH: usize = branch_variant(TickWhen::Never, false);

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
    unsafe { test_and_branch::<B, CARRIED, TICK_WHEN, TO_LOOP_HEADER>(ip, slots, cx, carried, None) }
}

/// Executes a comparison and the branch on it. A branch to the instruction of `again` is one to that handler.
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
    again: Option<(Ip, Handler)>,
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
        match again {
            Some((first, handler)) if target == first => continue_by(handler, target, slots, cx, carried),
            _ => jump(target, slots, cx, carried),
        }
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

/// Copies a slot.
pub(super) unsafe extern "C-unwind" fn copy_word(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: the builder put operands of this type into the instruction; frame and machine are those that a
    // [`Handler`] gets.
    unsafe {
        let (source, target) = operands_of::<(Reg, Reg)>(ip).read();
        let mut frame = registers(slots);
        frame.set_word(target.index(), frame.word(source.index()));
        next::<(Reg, Reg)>(ip, slots, cx, carried)
    }
}

/// Copies a slot, then another one: two copies of a branch in one instruction.
pub(super) unsafe extern "C-unwind" fn copy_words(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: the builder put operands of this type into the instruction; frame and machine are those that a
    // [`Handler`] gets.
    unsafe {
        let [first, second] = operands_of::<[(Reg, Reg); 2]>(ip).read();
        let mut frame = registers(slots);
        for (source, target) in [first, second] {
            frame.set_word(target.index(), frame.word(source.index()));
        }
        next::<[(Reg, Reg); 2]>(ip, slots, cx, carried)
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

/// One word is passed, which is carried.
pub(super) const CARRIED: usize = 2;
/// One word is passed, which is in a slot.
pub(super) const ONE: usize = 1;
/// Any number of words is passed.
pub(super) const ANY: usize = 3;
/// One 64-bit value is returned, which is in a pair of slots.
pub(super) const PAIR: usize = 4;

/// A call of a function of the module that passes `WORDS`: none, [`ONE`], [`CARRIED`] or [`ANY`]. `PLAIN` if no
/// register has to be made null or zero, and no reference is passed.
pub(super) unsafe extern "C-unwind" fn call<const PLAIN: bool, const WORDS: usize>(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: the builder put operands of this type into the instruction; frame and machine are those that a
    // [`Handler`] gets; sites live as long as the code. The new frame is inside the stack if it ends before the stack
    // does, and is made as `Stack::push` makes it.
    unsafe {
        let operands = operands_of::<CallOperands>(ip);
        let site = &*(&raw const (*operands).site).read();
        let entry = entry_of(ip).load(Ordering::Acquire);
        let callee = slots.wrapping_byte_add((&raw const (*operands).advance).read() as usize);
        if entry.is_null() || callee as usize + site.bytes > (*cx).stack_end as usize || !tick(cx) {
            return stop(ip, slots, cx, carried);
        }
        let header = header_of(callee);
        (&raw mut (*header).caller).write(slots);
        // Not loaded from the site, since the return waits for it.
        (&raw mut (*header).resume).write(ip.add(CALL_INSTRUCTIONS));
        if !PLAIN {
            let refs = site.descriptor.refs as usize;
            header.cast::<usize>().sub(refs).write_bytes(0, refs);
            callee.cast::<u8>().write_bytes(0, site.zeroed);
        }
        let (from, mut to) = (registers(slots), registers(callee));
        // The callee is entered with its first slot as the carry, if that is an argument.
        let mut carry = 0;
        if WORDS == ANY {
            for (source, target) in site.words.iter().rev() {
                let word = from.word(usize::from(*source));
                to.set_word(usize::from(*target), word);
                carry = u64::from(word);
            }
        } else if WORDS != 0 {
            let word = if WORDS == CARRIED {
                carried.carry as u32
            } else {
                from.word(usize::from((&raw const (*operands).only_word).read()))
            };
            to.set_word(0, word);
            carry = u64::from(word);
        }
        if !PLAIN {
            for (source, target) in &site.refs {
                move_ref(from, *source, to, usize::from(*target));
            }
        }
        jump(entry, callee, cx, CarriedValues { carry, ..carried })
    }
}

/// Returns `WORDS` (nothing, [`ONE`] slot, the [`CARRIED`] value, or a [`PAIR`] of slots) from a frame without
/// references.
pub(super) unsafe extern "C-unwind" fn return_word<const WORDS: usize>(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: the builder put operands of this type into the instruction; frame and machine are those that a
    // [`Handler`] gets; the caller's frame is below and has as many result registers, as the verifier has proven.
    unsafe {
        let header = header_of(slots);
        let resume = (*header).resume;
        let WordReturn { reg, list } = operands_of::<WordReturn>(ip).read();
        if resume.is_null() {
            return stop_at_return(ip, slots, cx, list);
        }
        let caller = (*header).caller;
        let first_result = || usize::from((&raw const (*operands_before(resume)).first_result).read());
        let mut carry = 0;
        if WORDS == PAIR {
            let value = registers(slots).wide(reg);
            registers(caller).set_wide(first_result(), value);
            // As in `pop_frame`, the first word.
            carry = u64::from(value as u32);
        } else if WORDS != 0 {
            let word = if WORDS == CARRIED { carried.carry as u32 } else { registers(slots).word(reg.index()) };
            registers(caller).set_word(first_result(), word);
            carry = u64::from(word);
        }
        jump(resume, caller, cx, CarriedValues { carry, ..carried })
    }
}

/// Stops at the return of a frame without a call site. If it is the outermost frame, the program ends; otherwise the
/// loop dispatcher returns to the caller, which may be a function of another module.
///
/// # Safety
/// As for a [`Handler`].
#[inline(always)]
unsafe fn stop_at_return(ip: Ip, slots: *mut u32, cx: *mut Machine<'_>, results: ListId) -> usize {
    // SAFETY: the machine is ours to use. Handlers run only while there is no exit, so none is overwritten.
    unsafe {
        let is_outermost = (*header_of(slots)).caller.is_null();
        if is_outermost {
            (&raw mut (*cx).exit).write(Some(Exit::Returned(results)));
        }
        let ip = if is_outermost { std::ptr::null() } else { ip };
        (*cx).continuation = super::Continuation { ip, slots, carried: CarriedValues::default() };
    }
    STOP
}

/// Returns any results from any frame.
pub(super) unsafe extern "C-unwind" fn return_any(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: the caller's frame is below and has as many result registers, as the verifier has proven.
    unsafe {
        let header = header_of(slots);
        let sources = &*operands_of::<*const ReturnOperands>(ip).read();
        let Some(site) = ThreadedCallSite::before((*header).resume) else {
            return stop_at_return(ip, slots, cx, sources.list);
        };
        let caller = (*header).caller;
        let carry = pop_frame(registers(slots), registers(caller), sources, site);
        jump(site.resume, caller, cx, CarriedValues { carry, ..carried })
    }
}

/// Moves the results to the caller and releases the references of the frame. Returns the first word of the results.
#[inline(never)]
fn pop_frame(from: Registers, mut to: Registers, sources: &ReturnOperands, site: &ThreadedCallSite) -> u64 {
    for (source, target) in sources.words.iter().zip(&site.result_words) {
        to.set_word(usize::from(*target), from.word(usize::from(*source)));
    }
    let first = sources.words.first().map_or(0, |source| u64::from(from.word(usize::from(*source))));
    for (source, target) in sources.refs.iter().zip(&site.result_refs) {
        move_ref(from, *source, to, usize::from(*target));
    }
    let mut from = from;
    for index in 0..site.descriptor.refs as usize {
        from.assign(index, None);
    }
    first
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
    let mut instructions = vec![ThreadedInstruction::of(address_of(copy_word)); length];
    instructions.push(ThreadedInstruction::of(address_of(report_stack)));
    let mut slots = [0_u64; 4];
    #[cfg(sibling_calls)]
    // SAFETY: operands of zeros copy slot 0 to itself, and neither handler uses the machine.
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
