//! The threaded dispatcher: direct-threaded code for verified functions, which `control::run` executes in optimised
//! builds.
//!
//! A function becomes a stream of [`ThreadedInstruction`]s, each the address of a handler and its operands. Every
//! handler ends in a call of the next one, which optimised builds make a jump (a sibling call), so dispatch is one
//! indirect jump per op.
//!
//! All handlers have one signature, and no value that must be dropped or has its address taken lives across the jump:
//! either would keep the call from becoming a jump. A handler that cannot continue (its op traps, the limits have to be
//! checked, the op has no handler of its own) stores a [`Continuation`] in the machine and returns. `run` then lets the
//! loop dispatcher execute that one op, so each trap has one definition: an op that traps has changed nothing, and
//! executing it again gives the trap. Ops that helpers execute have a handler that calls the helper, and other ops on
//! the cold path one that calls the loop dispatcher; both then jump on.
//!
//! Handlers pass `CarriedValues` to each other in registers of the processor: the value that was written last, and the
//! loop header.
//!
//! Frames are those of `Stack`. The handlers of calls build them here, with the layout that `Stack::push` gives them,
//! and store the call site in the frame's header for the return; `set_top` tells the stack which frame is on top when a
//! handler stops.

mod builder;
mod enter;
mod entry_carries;
mod function_code;
mod handler;
mod handlers;
mod import_site;
mod native_frames;
mod operands;
mod reference_loads;
mod runtime_ops;
mod sequence_loops;
mod sequences;
mod tier_up;

use self::function_code::code_of;
use crate::interp::code::import_site::ImportTarget;
use crate::interp::code::threaded_code::FunctionEntry;
use crate::interp::frame::Frame;
use crate::interp::frame::instruction::{CarriedValues, Ip};
use crate::interp::frame::registers::Registers;
use crate::interp::machine::Machine;
use crate::interp::machine::bound_modules::BytecodeModule;
use crate::interp::ops::control::{self, Flow};
use crate::interp::prim::Trap;
use std::sync::OnceLock;

use crate::Ref;
use crate::bytecode::{CallId, Op, RefReg, Reg};
use crate::generated::vm::interp::dispatch;
use crate::limits::Limits;
use crate::status::Result;

pub use crate::interp::code::code_table::MachineCode;
pub use crate::interp::code::native_code::{LeftOut, NativeCode};
pub use crate::interp::code::pinned_list::PinnedList;
pub use crate::interp::code::threaded_code::{NO_INSTRUCTION, ThreadedCode};
pub use crate::interp::frame::carried_register::{CarriedRegister, narrow, wide};
pub use crate::interp::frame::instruction::{CALL_INSTRUCTIONS, HandlerAddress, ThreadedCallSite, ThreadedInstruction};
pub use crate::interp::machine::bound_modules::FunctionCompiler;
pub use handler::{Handler, address_of};
pub use handlers::{BranchHandlers, FORWARD_BRANCH, branch_handlers, cold, op};
pub use native_frames::{begin_frame, end_frame};
pub use runtime_ops::{allocate, call_import, check_limits, count_many, execute, fail_import, out_of_range};
pub use sequence_loops::{LoopHandlers, loop_handlers};
pub use sequences::{EmittedOp, Step, steps, steps_and_branch_handlers};
pub use tier_up::TierUp;

use handlers::After;

/// The body of an op that is made of primitives, as a type that the generic handler is instantiated with. Generated for
/// each op.
pub trait OpBody {
    /// The operands of the decoded op; references are [`RefReg::frame_relative`].
    type Operands: Copy;
    /// The handler that reads all operands from slots, then for each value operand the handler that takes that one from
    /// the carry.
    const HANDLERS: &'static [Handler];
    /// True if the first value operand has the type of the result.
    const MAY_ACCUMULATE: bool = false;

    /// The operand that is the buffer that the op accesses, if it accesses one.
    #[inline(always)]
    fn buffer(_operands: &Self::Operands) -> Option<RefReg> {
        None
    }

    /// The value register that the op writes, if it writes one.
    #[inline(always)]
    fn written(_operands: &Self::Operands) -> Option<CarriedRegister> {
        None
    }

    /// Whether the first value operand is the register that the op writes, as that of a sum in a loop is.
    #[inline(always)]
    fn accumulates(_operands: &Self::Operands) -> bool {
        false
    }

    /// Executes the op. Value operand number `CARRIED`, counted from 1, is the carry; 0 is none.
    ///
    /// # Errors
    /// The trap of a primitive. Nothing has been changed then.
    fn run<F: Frame, const CARRIED: usize>(frame: &mut F, operands: &Self::Operands) -> Result<(), F::Error>;
}

/// The body of an op that a method of `Helpers` executes, as a type that the generic handler is instantiated with.
/// Generated for each op.
pub trait HelperBody {
    /// The operands of the decoded op.
    type Operands: Copy;

    /// Executes the op in the running frame. `Machine::pc` is the op.
    ///
    /// # Errors
    /// The trap of the op.
    fn run(cx: &mut Machine<'_>, operands: &Self::Operands) -> Result<()>;
}

/// A comparison that cannot fail, so that it can be fused with a conditional branch on its result.
pub trait TestBody: OpBody {
    /// The handlers of the fused comparison and branch, in the order of [`OpBody::HANDLERS`].
    const BRANCH_HANDLERS: &'static [BranchHandlers];
}

/// Visits the ops of a function that have handlers, each with the value registers that it reads and writes. The code
/// builder and the choice of carried registers are visitors; the generated `visit_op` calls them.
pub trait OpVisitor {
    /// Visits an op that is made of primitives.
    fn op<B: OpBody>(&mut self, operands: B::Operands, reads: &[CarriedRegister], result: Option<CarriedRegister>);

    /// Visits a comparison whose result only the branch after it reads.
    fn test<B: TestBody>(&mut self, operands: B::Operands, reads: &[CarriedRegister]);
}

/// Visits the ops of a function that helpers execute; the generated `visit_helper` calls it.
pub trait HelperVisitor {
    /// Visits an op that a helper executes.
    fn helper<B: HelperBody>(&mut self, operands: B::Operands);
}

/// Where execution continues: what a handler that stops, or machine code that exits to the interpreter, leaves in the
/// machine.
#[derive(Clone, Copy, Debug)]
pub struct Continuation {
    /// The instruction to continue at; null if the op has failed or execution continues at [`Machine::pc`].
    ip: Ip,
    /// The slots of the frame on top.
    slots: *mut u32,
    carried: CarriedValues,
}

impl Default for Continuation {
    fn default() -> Continuation {
        Continuation { ip: std::ptr::null(), slots: std::ptr::null_mut(), carried: CarriedValues::default() }
    }
}

/// The layout of continuations and frame headers, as offsets for machine code.
pub mod offsets {
    use crate::Ref;
    use crate::interp::frame::header::FrameHeader;
    use crate::interp::frame::instruction::CarriedValues;
    use crate::interp::threaded::Continuation;
    use crate::interp::threaded::handlers;

    /// Offset in a [`Continuation`] of the instruction to continue at.
    pub const CONTINUATION_IP: usize = std::mem::offset_of!(Continuation, ip);
    /// Offset in a [`Continuation`] of the frame.
    pub const CONTINUATION_SLOTS: usize = std::mem::offset_of!(Continuation, slots);
    /// Offset in a [`Continuation`] of the carried value.
    pub const CONTINUATION_CARRY: usize =
        std::mem::offset_of!(Continuation, carried) + std::mem::offset_of!(CarriedValues, carry);
    /// Bytes of a frame header, which is before the slots; the references are before the header.
    pub const HEADER: usize = size_of::<FrameHeader>();
    /// Bytes of a reference.
    pub const REFERENCE: usize = size_of::<Option<Ref>>();
    /// Offset in a frame header of the caller's slots.
    pub const HEADER_CALLER: usize = std::mem::offset_of!(FrameHeader, caller);
    /// Offset in a frame header of the instruction after the call.
    pub const HEADER_RESUME: usize = std::mem::offset_of!(FrameHeader, resume);
    /// The return value of a handler that has stored a continuation to resume.
    pub const GO_ON: usize = handlers::GO_ON;
    /// True if handlers jump to each other instead of returning.
    pub const JUMPS: bool = cfg!(sibling_calls);
}

/// A trap whose reason is dropped: the loop dispatcher executes the op again and reports it.
pub struct DiscardedTrap;

impl From<Trap> for DiscardedTrap {
    #[inline(always)]
    fn from(_: Trap) -> DiscardedTrap {
        DiscardedTrap
    }
}

/// The frame of a running handler, with the carried value as a local variable.
struct HandlerFrame<'m> {
    registers: Registers,
    cx: *mut Machine<'m>,
    carry: u64,
}

impl Frame for HandlerFrame<'_> {
    type Error = DiscardedTrap;

    #[inline(always)]
    fn registers(&self) -> &Registers {
        &self.registers
    }

    #[inline(always)]
    fn registers_mut(&mut self) -> &mut Registers {
        &mut self.registers
    }

    #[inline(always)]
    fn globals(&self) -> &[u8] {
        // SAFETY: handlers run while `run` has the machine exclusively, and they reach the globals through this method
        // only.
        unsafe { (*self.cx).globals() }
    }

    #[inline(always)]
    fn globals_mut(&mut self) -> &mut [u8] {
        // SAFETY: handlers run while `run` has the machine exclusively, and they reach the globals through these
        // methods only; `&mut self` is exclusive.
        unsafe { (*self.cx).globals_mut() }
    }

    #[inline(always)]
    fn carry(&self) -> u64 {
        self.carry
    }

    #[inline(always)]
    fn set_word(&mut self, reg: Reg, value: u32) {
        self.registers.set_word(reg.index(), value);
        self.carry = u64::from(value);
    }

    #[inline(always)]
    fn set_wide(&mut self, reg: Reg, value: u64) {
        self.registers.set_wide(reg.index(), value);
        self.carry = value;
    }

    #[inline(always)]
    fn reference(&self, reg: RefReg) -> Option<&Ref> {
        self.registers.reference_at(reg).as_ref()
    }
}

/// The frame of a comparison that is fused with a branch: the result stays in `result` and is written to no slot.
struct FusedTestFrame<'m> {
    frame: HandlerFrame<'m>,
    result: u32,
}

impl Frame for FusedTestFrame<'_> {
    type Error = DiscardedTrap;

    #[inline(always)]
    fn registers(&self) -> &Registers {
        self.frame.registers()
    }

    #[inline(always)]
    fn registers_mut(&mut self) -> &mut Registers {
        self.frame.registers_mut()
    }

    #[inline(always)]
    fn globals(&self) -> &[u8] {
        self.frame.globals()
    }

    #[inline(always)]
    fn globals_mut(&mut self) -> &mut [u8] {
        self.frame.globals_mut()
    }

    #[inline(always)]
    fn carry(&self) -> u64 {
        self.frame.carry()
    }

    #[inline(always)]
    fn reference(&self, reg: RefReg) -> Option<&Ref> {
        self.frame.reference(reg)
    }

    #[inline(always)]
    fn set_word(&mut self, _: Reg, value: u32) {
        self.result = value;
    }
}

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
        unsafe { enter::enter(ip, slots, self, carried) };
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
            enter::enter(entry.ip, frame.slots(), self, CarriedValues { carry, loop_header: entry.loop_header });
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

    /// Executes op `pc` of the frame with these slots by the loop dispatcher.
    fn execute(&mut self, slots: *mut u32, pc: usize) -> After {
        self.lent.keep();
        self.execute_as_is(slots, pc)
    }

    /// As `execute`, where references may be lent to the frame.
    fn execute_as_is(&mut self, slots: *mut u32, pc: usize) -> After {
        let selected = self.select_slots(slots);
        self.pc = pc;
        let result = selected.and_then(|()| dispatch::run(self, true));
        self.after_op(slots, pc, result)
    }

    /// Makes the frame with these slots, in which a handler runs, the one on top and the running one, with references
    /// of its own.
    #[inline(always)]
    fn select_frame(&mut self, slots: *mut u32) -> Result<()> {
        self.lent.keep();
        self.select_slots(slots)
    }

    #[inline(always)]
    fn select_slots(&mut self, slots: *mut u32) -> Result<()> {
        // SAFETY: handlers build and release frames as `push` and `pop` do, and these slots are those of the running
        // one.
        unsafe { self.stack.set_top(slots) };
        if self.is_running(slots) { Ok(()) } else { self.select_top() }
    }

    /// Finds out where execution continues after op `pc` of the frame with these slots.
    #[inline(always)]
    fn after_op(&mut self, slots: *mut u32, pc: usize, result: Result<()>) -> After {
        let top = self.stack.top();
        if let Err(status) = result {
            self.failure = Some(status);
        } else if self.exit.is_none() {
            // The block after a terminator may be entered with another carried register.
            if top == slots && self.pc == pc + 1 && !self.code().ops[pc].is_terminator() {
                return After::Next;
            }
            let code = self.threaded_code(self.function.ordinal() as usize);
            if let Some((ip, carried)) = code.and_then(|code| code.entry(self.pc, self.frame)) {
                self.continuation = Continuation { ip, slots: top, carried };
                return After::Continuation;
            }
        }
        self.continuation = Continuation { slots: top, ..Continuation::default() };
        After::Stop
    }
}

/// Executes op `pc` of the frame with these slots for the handler of cold ops. Out of line, so that the handler keeps
/// no frame of its own.
///
/// # Safety
/// As for a handler.
#[inline(never)]
unsafe fn execute_cold(cx: *mut Machine<'_>, slots: *mut u32, pc: usize) -> After {
    // SAFETY: the machine is the handler's to use.
    unsafe { &mut *cx }.execute(slots, pc)
}

/// Executes an op by a helper, as op `pc` of the frame with these slots. Out of line, so that the handler keeps no
/// frame of its own.
///
/// # Safety
/// As for a handler.
#[inline(never)]
unsafe fn execute_helper<B: HelperBody>(
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

/// Runs the frame on top from `cx.pc` on until `cx.exit` is set. After an error `cx.pc` is the op that failed.
#[inline]
pub(super) fn run(cx: &mut Machine<'_>) -> Result<()> {
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

impl Machine<'_> {
    /// Calls an import, op `pc` of the frame with these slots; `counts` if the step has not been counted.
    fn execute_import_call(&mut self, slots: *mut u32, pc: usize, call: CallId, counts: bool) -> After {
        let selected = self.select_frame(slots);
        self.pc = pc;
        let counted = selected.and_then(|()| if counts { self.tick() } else { Ok(()) });
        match counted.and_then(|()| control::call_counted(self, call)) {
            // A native function has returned, so the frame is that on top, and the op is no terminator.
            Ok(Flow::Next) => After::Next,
            flow => self.after_import_call(slots, pc, flow),
        }
    }

    /// Finds out where execution continues after a call of an import that does not go on at the next op.
    #[inline(never)]
    fn after_import_call(&mut self, slots: *mut u32, pc: usize, flow: Result<Flow>) -> After {
        if let Ok(Flow::Jump(target)) = flow {
            self.pc = target;
        }
        self.after_op(slots, pc, flow.map(drop))
    }
}

/// The entry of a function by calls within these limits; none if the tier-up counts them.
pub(in crate::interp) fn function_entry(
    module: &BytecodeModule,
    target: ImportTarget,
    limits: &Limits,
) -> Option<FunctionEntry> {
    let code = code_of(module, target.module, target.function)?;
    if tier_up::is_counted(limits) && !code.native.is_decided() {
        return None;
    }
    code.function_entry()
}

/// Goes on where the handlers have stopped after [`Machine::enter_function`].
pub(super) fn after_entry(cx: &mut Machine<'_>) -> Result<()> {
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
pub(super) fn is_fast() -> bool {
    static FAST: OnceLock<bool> = OnceLock::new();
    // Debug assertions keep some handlers from jumping.
    cfg!(all(sibling_calls, not(debug_assertions))) && *FAST.get_or_init(handlers::stack_stays)
}
