//! The threaded dispatcher: a function becomes a stream of instructions, each the address of a handler and its operands, and every handler
//! ends in a call of the next one, which optimised builds make a jump.
//!
//! Handlers have one signature, and nothing that must be dropped or has its address taken lives across the jump. A handler that
//! cannot go on (its op traps, a limit has to be looked at, the op is no hot one) stops: it parks where it is in the machine and
//! returns. `run` then lets the loop dispatcher execute that one op, so that there is one definition of each trap. A trapping op has
//! changed nothing, so executing it again gives the trap. Cold ops have a handler that lets the loop dispatcher execute them at once.
//!
//! Handlers also hand each other the value that was written last, and where the loop begins; see `CarriedValues`.
//!
//! Frames are those of `Stack`. Calls inside a module build them here, as `Stack::push` would, and note in the
//! frame how to return; `set_top` tells the stack when a handler stops.

mod builder;
mod carried_register;
mod code;
mod handlers;
mod instruction;
mod native_code;
mod native_frames;
mod pinned_list;
mod runtime_ops;

use std::sync::OnceLock;

use super::bound_modules::BytecodeModule;
use super::frame::Frame;
use super::machine::Machine;
use super::prim::Trap;
use super::registers::Registers;
use crate::Ref;
use crate::bytecode::Callee;
use crate::bytecode::{Op, RefReg, Reg, VerifiedFunction};
use crate::generated::vm::interp::dispatch;
use crate::status::Result;

pub use carried_register::{narrow, wide};
pub use code::{NO_INSTRUCTION, ThreadedCode};
pub use handlers::{BranchHandlers, branch_handlers, cold, op};
pub use instruction::{Handler, ThreadedCallSite, ThreadedInstruction};
pub use native_code::{FunctionCompiler, NativeCode, TierUp};
pub use native_frames::{begin_frame, end_frame};
pub use pinned_list::PinnedList;
pub use runtime_ops::{allocate, call_import, check_limits, execute, out_of_range};

use carried_register::CarriedRegister;
use handlers::After;
use instruction::{CarriedValues, Ip};

/// An op that is made of primitives, as a type.
pub trait OpBody {
    /// The operands of the decoded op, references as [`RefReg::frame_relative`].
    type Operands: Copy;
    /// The handler for which no operand is carried, then one for each operand that is a value.
    const HANDLERS: &'static [Handler];

    /// Runs the op; its value operand number `CARRIED`, counted from 1, is the carry of the frame. One that fails has changed nothing.
    fn run<F: Frame, const CARRIED: usize>(frame: &mut F, operands: &Self::Operands) -> Result<(), F::Error>;
}

/// An op that tells whether something is true and cannot fail.
pub trait TestBody: OpBody {
    /// The handlers of the op with a branch, in the order of [`OpBody::HANDLERS`].
    const BRANCH_HANDLERS: &'static [BranchHandlers];
}

/// What the ops of a function are passed to, each with the registers that it reads and writes as values.
pub trait OpVisitor {
    /// An op that is made of primitives.
    fn op<B: OpBody>(&mut self, operands: B::Operands, reads: &[CarriedRegister], result: Option<CarriedRegister>);

    /// A test whose result only a branch needs.
    fn test<B: TestBody>(&mut self, operands: B::Operands, reads: &[CarriedRegister]);
}

/// The code of a module's functions, each made when it is first run.
pub struct CodeTable {
    functions: Box<[OnceLock<ThreadedCode>]>,
    /// Whether a function of the module, itself among them, calls a function.
    called: OnceLock<Box<[bool]>>,
}

impl CodeTable {
    /// For a module of these functions.
    pub fn new(functions: &[VerifiedFunction]) -> CodeTable {
        CodeTable { functions: functions.iter().map(|_| OnceLock::new()).collect(), called: OnceLock::new() }
    }

    /// The code of function `ordinal` of the module, which has this index in its module_list.
    #[inline]
    fn code(&self, module: &BytecodeModule, index: usize, ordinal: usize) -> Option<&ThreadedCode> {
        let function = module.functions.get(ordinal)?;
        Some(self.functions.get(ordinal)?.get_or_init(|| ThreadedCode::new(function, module, index)))
    }

    /// Whether one of the functions calls function `ordinal`.
    pub fn is_called(&self, functions: &[VerifiedFunction], ordinal: u32) -> bool {
        let called = self.called.get_or_init(|| {
            let mut called = vec![false; functions.len()];
            for site in functions.iter().flat_map(|function| function.decoded().calls()) {
                if let Callee::Function(callee) = site.callee
                    && let Some(called) = called.get_mut(callee.index())
                {
                    *called = true;
                }
            }
            called.into()
        });
        called.get(ordinal as usize).copied().unwrap_or_default()
    }
}

/// Where handlers stopped, or go on.
#[derive(Clone, Copy, Debug)]
pub struct Continuation {
    /// The instruction whose op the loop dispatcher executes; null if it goes on at [`Machine::pc`] or has failed.
    ip: Ip,
    slots: *mut u32,
    carried: CarriedValues,
}

impl Default for Continuation {
    fn default() -> Continuation {
        Continuation { ip: std::ptr::null(), slots: std::ptr::null_mut(), carried: CarriedValues::default() }
    }
}

/// Where compiled code finds what it hands to handlers.
pub mod offsets {
    use super::Continuation;
    use super::handlers;
    use super::instruction::CarriedValues;
    use crate::Ref;
    use crate::interp::stack::FrameHeader;

    /// Of the instruction to go on at, in what is left.
    pub const CONTINUATION_IP: usize = std::mem::offset_of!(Continuation, ip);
    /// Of the frame in it.
    pub const CONTINUATION_SLOTS: usize = std::mem::offset_of!(Continuation, slots);
    /// Of the carried value in it.
    pub const CONTINUATION_CARRY: usize =
        std::mem::offset_of!(Continuation, carried) + std::mem::offset_of!(CarriedValues, carry);
    /// Bytes in front of the slots of a frame; the references are in front of that.
    pub const HEADER: usize = size_of::<FrameHeader>();
    /// Bytes of a reference.
    pub const REFERENCE: usize = size_of::<Option<Ref>>();
    /// What a call writes into a header.
    pub const HEADER_CALLER: usize = std::mem::offset_of!(FrameHeader, caller);
    /// And the site of the call.
    pub const HEADER_SITE: usize = std::mem::offset_of!(FrameHeader, site);
    /// What a handler returns that has parked to go on.
    pub const GO_ON: usize = handlers::GO_ON;
    /// Whether handlers jump instead.
    pub const JUMPS: bool = cfg!(sibling_calls);
}

/// What is left of a trap on the way to the loop dispatcher, which reports it.
struct DiscardedTrap;

impl From<Trap> for DiscardedTrap {
    #[inline(always)]
    fn from(_: Trap) -> DiscardedTrap {
        DiscardedTrap
    }
}

/// The frame of a running handler.
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
        // SAFETY: handlers run while `run` has the machine exclusively, and this is the only way by which they reach the globals.
        unsafe { &(*self.cx).globals }
    }

    #[inline(always)]
    fn globals_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `globals`; `&mut self` is exclusive.
        unsafe { &mut (*self.cx).globals }
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

/// The frame of a comparison that is fused with a branch: its result goes nowhere else.
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
        let module = self.module;
        module.code.code(module, self.module_index(), ordinal)
    }

    /// Runs from `ip` on until a handler stops, and makes the frame that was left the running one.
    #[inline]
    fn run_threaded(&mut self, ip: Ip, carried: CarriedValues) -> Result<()> {
        let slots = self.frame.slots();
        // SAFETY: `ip` is an instruction of the code of the running function, whose frame is on top of the stack.
        unsafe { handlers::enter(ip, slots, self, carried) };
        // SAFETY: handlers leave frames as `push` and `pop` would, and park the one that runs.
        unsafe { self.stack.set_top(self.continuation.slots) };
        if let Some(panic) = self.panic.take() {
            std::panic::resume_unwind(panic);
        }
        match self.failure.take() {
            Some(status) => Err(status),
            None if self.is_running(self.continuation.slots) => Ok(()),
            None => self.select_top(),
        }
    }

    /// Executes op `pc` of the frame with these slots.
    fn execute(&mut self, slots: *mut u32, pc: usize) -> After {
        self.execute_by(slots, pc, |machine| dispatch::run(machine, true))
    }

    /// The same by a function of one's own, which sets where execution goes on.
    #[inline(always)]
    fn execute_by(&mut self, slots: *mut u32, pc: usize, op: impl FnOnce(&mut Self) -> Result<()>) -> After {
        // SAFETY: as in `thread`.
        unsafe { self.stack.set_top(slots) };
        let selected = if self.is_running(slots) { Ok(()) } else { self.select_top() };
        self.pc = pc;
        let result = selected.and_then(|()| op(self));
        let top = self.stack.top();
        if let Err(status) = result {
            self.failure = Some(status);
        } else if self.exit.is_none() {
            // What follows a terminator is another block, which may want something to be carried.
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

/// Executes op `pc` of the frame with these slots for a handler.
///
/// # Safety
/// As for a handler.
#[inline(never)]
unsafe fn execute_cold(cx: *mut Machine<'_>, slots: *mut u32, pc: usize) -> After {
    // SAFETY: the machine is the handler's to use.
    unsafe { &mut *cx }.execute(slots, pc)
}

/// Runs the frame on top from `cx.pc` on until `cx.exit` is set. When it fails, `cx.pc` is the op that did.
#[inline]
pub(super) fn run(cx: &mut Machine<'_>) -> Result<()> {
    cx.count_for_tier_up();
    if cx.pending.is_some() {
        // Compiled code has called what waited, and only that code may go on behind the call: not all slots hold what they should.
        dispatch::run(cx, true)?;
        if cx.exit.is_some() {
            return Ok(());
        }
    }
    let mut again = None;
    loop {
        let code = cx.threaded_code(cx.function.ordinal() as usize);
        let entry = again.take().or_else(|| code.and_then(|code| code.entry(cx.pc, cx.frame)));
        if let Some((ip, carried)) = entry {
            cx.run_threaded(ip, carried)?;
            let ip = cx.continuation.ip;
            if ip.is_null() && cx.exit.is_some() {
                return Ok(());
            }
            let code = cx.threaded_code(cx.function.ordinal() as usize);
            if let Some(code) = code.filter(|_| !ip.is_null()) {
                cx.pc = code.pc(ip);
                if cx.countdown == 0 {
                    cx.count_for_tier_up();
                    // One that neither loops nor calls is noticed where it is called.
                    if let Some(callee) = code.callee(ip) {
                        cx.count_function_for_tier_up(callee);
                    }
                }
                if matches!(cx.code().ops.get(cx.pc), Some(Op::Call { .. }))
                    && let Some(ordinal) = code.unresolved(ip)
                    && let Some(callee) = cx.threaded_code(ordinal)
                {
                    // The callee has not run yet. Now that it has code, the call is made by the handler.
                    cx.count_function_for_tier_up(ordinal as u32);
                    code.resolve(ip, callee);
                    again = Some((ip, cx.continuation.carried));
                    continue;
                }
            }
        }
        dispatch::run(cx, true)?;
        if cx.exit.is_some() {
            return Ok(());
        }
    }
}

/// Whether calls of handlers are jumps in this build. Looked at once, on a short chain.
#[inline]
pub(super) fn is_fast() -> bool {
    static FAST: OnceLock<bool> = OnceLock::new();
    // Checks that are compiled in keep some handlers from jumping.
    cfg!(all(sibling_calls, not(debug_assertions))) && *FAST.get_or_init(handlers::stack_stays)
}
