//! The machine: the state of an invocation while it is polled, on which the handlers of all ops work. It has the
//! registers of the running frame, the globals of its module, and the limits.
//!
//! Generated handlers use only the accessors here, so the storage of registers can change without them.

pub(in crate::interp) mod bound_modules;
pub(in crate::interp) mod context_state;
pub mod direct_import;
pub(in crate::interp) mod exit;
pub mod lent_references;
pub(in crate::interp) mod trace_sink;

use std::any::Any;

use self::bound_modules::{BytecodeModule, ModuleList, lookup};
use self::context_state::{ContextState, ModuleState, RodataSegment};
use self::exit::{Continuation, Exit};
use self::lent_references::LentReferences;
use crate::bytecode::{AnyReg, Decoded, ListId, RefReg, RodataId, TypeId, VerifiedFunction};
use crate::interp::frame::Frame;
use crate::interp::frame::descriptor::BoundFunction;
use crate::interp::frame::registers::Registers;
use crate::interp::frame::stack::Stack;
use crate::limits::Limits;
use crate::limits::{Granted, LentSteps, check_interval};
use crate::list::ListType;
use crate::status::{BacktraceFrame, Result, Status};
use crate::{List, Ref};

/// Innermost frames that a backtrace reports; frames in the middle of a deep recursion are left out.
const INNERMOST: usize = 64;
/// Outermost frames that a backtrace reports.
const OUTERMOST: usize = 16;

/// The state of an invocation while it is polled; at least one bytecode frame is active.
pub struct Machine<'a> {
    /// The bound modules of the context.
    pub module_list: &'a ModuleList,
    /// The module of the running frame.
    pub module: &'a BytecodeModule,
    /// The function of the running frame.
    pub function: &'a VerifiedFunction,
    /// The frames.
    pub stack: &'a mut Stack,
    /// The registers of the running frame; updated whenever the stack changes.
    pub frame: Registers,
    /// The state of the modules.
    pub state: &'a mut ContextState,
    /// The limits of the invocation.
    pub limits: &'a Limits,
    /// True if the limits bound more than sizes, so that they have to be checked while the program runs.
    is_limited: bool,
    /// The address of the value globals of the running module, which are in `state`. Machine code reads it.
    pub globals_data: *mut u8,
    /// Bytes of them.
    globals_length: usize,
    module_index: usize,
    /// The function of the running frame, as frames name it.
    running: BoundFunction,
    /// Index of the op that runs; set before every op that can fail or directs control.
    pub pc: usize,
    /// Backward branches and calls until the limits are checked again; stored back to the stack on drop.
    pub countdown: u32,
    /// Why the dispatcher returned without an error.
    pub exit: Option<Exit>,
    /// Where the threaded dispatcher stopped, or continues.
    pub continuation: Continuation,
    /// The error of an op that failed under the threaded dispatcher.
    pub failure: Option<Status>,
    /// The payload of a panic of an import that machine code called.
    pub panic: Option<Box<dyn Any + Send>>,
    /// True while an allocation runs whose zeroing is elided: machine code fills the whole buffer before anything reads
    /// it.
    pub elides_zeroing: bool,
    /// The references that the caller lends to the outermost frame.
    pub lent: LentReferences,
    /// The end of the stack's memory.
    pub stack_end: *mut u8,
    /// The native stack pointer when the interpreter entered machine code; frames of its native calls are below.
    pub native_base: usize,
    /// Machine code makes no native call from a frame whose slots are above this address.
    pub native_limit: usize,
}

/// The offset of whether the limits bound more than sizes, a byte, for machine code.
pub const IS_LIMITED: usize = std::mem::offset_of!(Machine<'_>, is_limited);

impl<'a> Machine<'a> {
    /// A machine that continues with the top frame of `stack`.
    ///
    /// # Errors
    /// `INTERNAL` if there is no frame or it is not one of `program`.
    pub fn resume(
        module_list: &'a ModuleList,
        stack: &'a mut Stack,
        state: &'a mut ContextState,
        limits: &'a Limits,
    ) -> Result<Machine<'a>> {
        let (Some(header), Some(frame)) = (stack.header(), stack.registers()) else {
            return Err(Status::internal("an invocation without a frame was resumed"));
        };
        let index = header.descriptor.module as usize;
        let (module, function) = lookup(module_list, index, header.descriptor.function as usize)?;
        let running = RunningFrame { index, module, function, frame };
        Ok(Machine::new(module_list, running, stack, state, limits))
    }

    /// A machine that continues with the top frame of `stack`, which is `running`.
    #[inline(always)]
    pub(in crate::interp) fn new(
        module_list: &'a ModuleList,
        running: RunningFrame<'a>,
        stack: &'a mut Stack,
        state: &'a mut ContextState,
        limits: &'a Limits,
    ) -> Machine<'a> {
        let RunningFrame { index, module, function, frame } = running;
        let mut machine = Machine {
            module_list,
            module,
            function,
            frame,
            pc: stack.pc,
            elides_zeroing: false,
            lent: LentReferences::NONE,
            stack_end: stack.end(),
            panic: None,
            native_base: 0,
            native_limit: 0,
            countdown: stack.countdown,
            stack,
            state,
            limits,
            is_limited: limits.is_armed(),
            globals_data: std::ptr::null_mut(),
            globals_length: 0,
            module_index: index,
            running: BoundFunction::new(index, function),
            continuation: Continuation::default(),
            failure: None,
            exit: None,
        };
        machine.select_globals();
        machine
    }

    /// Notes where the value globals of the running module are.
    #[inline(always)]
    fn select_globals(&mut self) {
        let globals = match self.state.modules.get_mut(self.module_index) {
            Some(ModuleState::Bytecode { globals, .. }) => &mut globals[..],
            _ => &mut [],
        };
        (self.globals_data, self.globals_length) = (globals.as_mut_ptr(), globals.len());
    }

    /// The ref globals of the running module.
    pub fn global_refs(&self) -> &[Option<Ref>] {
        match self.state.modules.get(self.module_index) {
            Some(ModuleState::Bytecode { refs, .. }) => refs,
            _ => &[],
        }
    }

    /// A rodata segment of the running module.
    #[inline(always)]
    pub fn rodata(&mut self, id: RodataId) -> Option<&mut RodataSegment> {
        match self.state.modules.get_mut(self.module_index) {
            Some(ModuleState::Bytecode { rodata, .. }) => rodata.get_mut(id.index()),
            _ => None,
        }
    }

    /// The ref globals of the running module, to be changed.
    pub fn global_refs_mut(&mut self) -> &mut [Option<Ref>] {
        match self.state.modules.get_mut(self.module_index) {
            Some(ModuleState::Bytecode { refs, .. }) => refs,
            _ => &mut [],
        }
    }

    /// Makes the frame on top of the stack the running one.
    ///
    /// # Errors
    /// `INTERNAL` if there is none, which a verified program does not come to.
    pub fn select_top(&mut self) -> Result<()> {
        let (Some(header), Some(frame)) = (self.stack.header(), self.stack.registers()) else {
            return Err(Status::internal("the stack has no frame"));
        };
        let index = header.descriptor.module as usize;
        let (module, function) = lookup(self.module_list, index, header.descriptor.function as usize)?;
        self.select(RunningFrame { index, module, function, frame });
        Ok(())
    }

    /// Makes the frame on top of the stack the running one.
    #[inline(always)]
    pub(in crate::interp) fn select(&mut self, running: RunningFrame<'a>) {
        let RunningFrame { index, module, function, frame } = running;
        (self.module, self.function, self.frame) = (module, function, frame);
        self.running = BoundFunction::new(index, function);
        if index != self.module_index {
            self.module_index = index;
            self.select_globals();
        }
    }

    /// Sets the limits of what runs next.
    pub fn set_limits(&mut self, limits: &'a Limits) {
        (self.limits, self.is_limited) = (limits, limits.is_armed());
    }

    /// True if the frame on top is of the running function and `frame` has its registers, which are at these slots.
    #[inline]
    pub fn is_running(&self, slots: *mut u32) -> bool {
        self.frame.slots() == slots && self.stack.function() == Some(self.running)
    }

    /// As `is_running`, for a frame on top that is of `function`.
    #[inline(always)]
    pub fn is_running_function(&self, slots: *mut u32, function: BoundFunction) -> bool {
        self.frame.slots() == slots && self.running == function
    }

    /// True if the limits bound more than sizes.
    #[inline(always)]
    pub fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// The code of the running function.
    #[inline(always)]
    pub fn code(&self) -> &'a Decoded {
        self.function.decoded()
    }

    /// Index of the running frame's module.
    pub fn module_index(&self) -> usize {
        self.module_index
    }

    /// Adds the active frames to `status`, innermost first.
    #[cold]
    pub fn with_backtrace(&self, mut status: Status) -> Status {
        let frames: Vec<_> = self.stack.headers().map(|header| header.descriptor).collect();
        let mut next_pc = self.pc;
        for (depth, frame) in frames.iter().enumerate() {
            let pc = std::mem::replace(&mut next_pc, frame.pc as usize);
            if depth >= INNERMOST && depth + OUTERMOST < frames.len() {
                continue;
            }
            let ordinal = frame.function as usize;
            let Ok((module, function)) = lookup(self.module_list, frame.module as usize, ordinal) else { continue };
            let offset = function.decoded().offsets.get(pc).copied();
            status = status.with_frame(BacktraceFrame {
                module: module.name.clone(),
                function: module.function_name(ordinal),
                offset,
                op: function.decoded().ops.get(pc).map_or("", |op| op.mnemonic()),
                location: offset.and_then(|offset| module.source_map.as_ref()?.locate(ordinal, offset)),
            });
        }
        status
    }

    /// The reference in a register: moved out if the register has the MOVE bit, else cloned.
    #[inline]
    pub fn take(&mut self, reg: RefReg) -> Option<Ref> {
        self.frame.take(reg)
    }

    /// Puts a reference into a register. The old one is released after the new one is in place.
    #[inline]
    pub fn assign(&mut self, reg: RefReg, value: Option<Ref>) {
        self.frame.assign(reg.index(), value);
    }

    /// The list in a register.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for null and for an object that is no list.
    pub fn list(&self, reg: RefReg) -> Result<&List> {
        match self.reference(reg) {
            None => Err(Status::invalid_argument("the list is null")),
            Some(reference) => reference.get().ok_or_else(|| {
                Status::invalid_argument(format!("expected a reference to !vm.list, got !{}", reference.type_name()))
            }),
        }
    }

    /// An entry of the module's type table.
    ///
    /// # Errors
    /// `INTERNAL` if there is no such entry, which the verifier excludes.
    pub fn type_of(&self, id: TypeId) -> Result<&'a ListType> {
        let module: &'a BytecodeModule = self.module;
        module.types.get(id.index()).ok_or_else(|| Status::internal(format!("type {} does not exist", id.index())))
    }

    /// Counts a backward branch or a call, and checks the limits when the countdown is over.
    ///
    /// # Errors
    /// As [`Machine::check_limits`].
    #[inline(always)]
    pub fn tick(&mut self) -> Result<()> {
        match self.countdown.checked_sub(1) {
            Some(rest) => {
                self.countdown = rest;
                Ok(())
            }
            None => self.check_limits(),
        }
    }

    /// Checks the limits after a native function, which may take as long as many ops and allocate objects that could
    /// not be refused.
    ///
    /// # Errors
    /// `DEADLINE_EXCEEDED` or `CANCELLED` if the limits of the call say so.
    #[inline]
    pub fn check_after_call(&self) -> Result<()> {
        if self.is_limited { self.limits.check_time() } else { Ok(()) }
    }

    /// Checks the limits for a step that the countdown does not have, and starts the countdown again.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` without fuel, `DEADLINE_EXCEEDED` or `CANCELLED` by the other limits of the call.
    #[cold]
    pub fn check_limits(&mut self) -> Result<()> {
        if !self.count_many(1)? {
            return Err(self.limits.out_of_fuel());
        }
        Ok(())
    }

    /// Counts steps that are more than the countdown has, and starts it again. False if there is not enough fuel for
    /// them; none of them has been counted then.
    ///
    /// # Errors
    /// By the other limits. The countdown is zero then, so that the next step finds the limit again.
    #[cold]
    pub fn count_many(&mut self, steps: u32) -> Result<bool> {
        debug_assert!(steps > self.countdown, "{steps} steps of {}", self.countdown);
        let missing = steps.saturating_sub(self.countdown);
        let granted = if self.is_limited {
            self.limits.grant(steps, missing)
        } else {
            Ok(Granted::Steps(check_interval(steps).max(missing)))
        };
        match granted {
            Ok(Granted::Steps(granted)) => {
                self.countdown = granted - missing;
                Ok(true)
            }
            Ok(Granted::OutOfFuel) => Ok(false),
            Err(status) => {
                self.release_steps();
                self.countdown = 0;
                Err(status)
            }
        }
    }

    /// Gives the steps of the countdown back to the fuel, if that is counted, before the countdown ends.
    #[inline]
    pub fn release_steps(&mut self) {
        if self.is_limited
            && let Some(fuel) = &self.limits.fuel
        {
            fuel.give_back(std::mem::take(&mut self.countdown));
        }
    }

    /// Lends the steps of the countdown to programs that a native function may run with the same fuel.
    #[inline(always)]
    pub fn lend_steps(&mut self) -> Option<LentSteps<'a>> {
        if !self.is_limited {
            return None;
        }
        let fuel = self.limits.fuel.as_ref()?;
        Some(fuel.lend(std::mem::take(&mut self.countdown)))
    }

    /// Takes what is left of the steps that were lent.
    #[inline(always)]
    pub fn reclaim_steps(&mut self, lent: Option<LentSteps<'_>>) {
        if let Some(lent) = lent {
            self.countdown = lent.reclaim(check_interval(0));
        }
    }
}

impl Frame for Machine<'_> {
    type Error = Status;

    #[inline(always)]
    fn registers(&self) -> &Registers {
        &self.frame
    }

    #[inline(always)]
    fn registers_mut(&mut self) -> &mut Registers {
        &mut self.frame
    }

    #[inline(always)]
    fn globals(&self) -> &[u8] {
        // SAFETY: `select_globals` took both from the state of the running module. Globals keep their memory and length
        // as long as the state lives, and while the machine has the state exclusively, no other thread accesses them.
        unsafe { std::slice::from_raw_parts(self.globals_data, self.globals_length) }
    }

    #[inline(always)]
    fn globals_mut(&mut self) -> &mut [u8] {
        // SAFETY: `select_globals` took both from the state of the running module, which keeps the memory as long as it
        // lives; `&mut self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.globals_data, self.globals_length) }
    }

    #[inline(always)]
    fn carry(&self) -> u64 {
        unreachable!("the loop dispatcher reads all operands from registers")
    }
}

impl<'a> Machine<'a> {
    /// A register list of the running function.
    #[inline(always)]
    pub fn register_list(&self, id: ListId) -> &'a [AnyReg] {
        self.code().list(id)
    }
}

impl Drop for Machine<'_> {
    fn drop(&mut self) {
        self.release_steps();
        self.stack.countdown = self.countdown;
    }
}

/// The frame on top of a stack: the index of its module, the module, the function, and its registers.
pub(in crate::interp) struct RunningFrame<'a> {
    pub index: usize,
    pub module: &'a BytecodeModule,
    pub function: &'a VerifiedFunction,
    pub frame: Registers,
}
