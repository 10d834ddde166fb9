//! Ready calls: the machine and the stack of a call without limits, which a context keeps as they are for the next call
//! of the same function. That one only writes its arguments to the frame, which is there, runs the handlers, and reads
//! the results.
//!
//! A ready call is taken out of the state of the context while it runs. It is put back if the function returned by a
//! handler; otherwise the call continues as any other, and nothing is ready any more.

use std::ptr::NonNull;
use std::sync::Arc;

use super::callee::{Callee, FirstFrame};
use super::dispatcher;
use super::invocation::{Invocation, Step, Suspended};
use super::passed::PassedList;
use super::transfer::Results;
use crate::bytecode::{AnyReg, ListId, VerifiedFunction};
use crate::interp::code::threaded_code::FunctionEntry;
use crate::interp::frame::registers::Registers;
use crate::interp::frame::stack::{CallStack, Stack};
use crate::interp::machine::bound_modules::{ModuleList, lookup};
use crate::interp::machine::context_state::{ContextState, ModuleState};
use crate::interp::machine::exit::Exit;
use crate::interp::machine::lent_references::{KeptBuffer, LentList};
use crate::interp::machine::{Machine, RunningFrame};
use crate::limits::Charge;
use crate::status::Result;

/// The state of a context, with the call that is ready to run.
#[derive(Default)]
pub struct CallState {
    /// The state of the modules.
    pub context: ContextState,
    pub(super) ready: Option<Box<ReadyCall>>,
    /// Calls that were not ready since one was made ready.
    pub(super) unready_calls: u32,
}

impl CallState {
    /// New state for the modules of `module_list`, as of [`ContextState::new`], with no call ready.
    ///
    /// # Errors
    /// As [`ContextState::new`].
    pub fn new(module_list: &ModuleList) -> Result<CallState> {
        Ok(CallState { context: ContextState::new(module_list)?, ..CallState::default() })
    }
}

/// A call of a bytecode function without limits, before the arguments are written. It has cache lines of its own,
/// because what other threads read may lie beside it.
#[repr(align(64))]
pub(super) struct ReadyCall {
    /// `'static` stands for the lifetimes of `stack`, of the modules and limits of `callee`, and of the state that the
    /// current run sets. No reference leaves this module with that lifetime.
    machine: Machine<'static>,
    entry: FunctionEntry,
    function: &'static VerifiedFunction,
    /// Whether references may be lent to the function, and machine code runs it.
    takes_lent: bool,
    /// The registers of the outermost frame, which is always there.
    frame: Registers,
    /// The list of the results of the last run, and its registers: a function with one return always returns the same.
    results: (ListId, &'static [AnyReg]),
    /// The frame that was pushed there.
    first: FirstFrame,
    /// Dropped after the machine, which refers to it.
    stack: ReadyStack,
    /// Dropped last: it has the modules and the limits.
    callee: Arc<Callee>,
}

/// The stack of a ready call.
struct ReadyStack(NonNull<Stack>);

impl Drop for ReadyStack {
    fn drop(&mut self) {
        // SAFETY: `ReadyCall::new` got the address from `into_raw`, and the machine, which also has it, has been
        // dropped.
        drop(unsafe { CallStack::from_raw(self.0) });
    }
}

// SAFETY: the pointers lead to what the value owns, or shares with other threads by an `Arc`; the state is that of the
// thread that runs it.
unsafe impl Send for ReadyCall {}

impl ReadyCall {
    /// Makes a call ready. None for a native function, as long as the tier-up counts the calls of the function, and if
    /// its ops are not threaded.
    ///
    /// # Errors
    /// As for a call.
    #[cold]
    pub fn new(callee: &Arc<Callee>, state: &mut ContextState) -> Result<Option<Box<ReadyCall>>> {
        let Callee { module_list, target, limits, may_be_lent_to, .. } = &**callee;
        let first = callee.frame;
        if first.is_native {
            return Ok(None);
        }
        let (module, _) = lookup(module_list, target.module, target.function)?;
        let Some(entry) = callee.entry(module) else { return Ok(None) };
        let mut stack = CallStack::new(limits.stack_size(), Charge::default());
        let frame = first.push(&mut stack)?;
        let stack = ReadyStack(stack.into_raw());
        // SAFETY: all of them live as long as the machine, by the order of the fields. The state is replaced by each
        // run.
        let (shared_list, shared_limits, stack_ref, state) = unsafe {
            let (list, limits) = (&*Arc::as_ptr(module_list), &*Arc::as_ptr(limits));
            (list, limits, &mut *stack.0.as_ptr(), &mut *std::ptr::from_mut(state))
        };
        let (module, function) = lookup(shared_list, target.module, target.function)?;
        let running = RunningFrame { index: target.module, module, function, frame };
        let machine = Machine::new(shared_list, running, stack_ref, state, shared_limits);
        Ok(Some(Box::new(ReadyCall {
            machine,
            entry,
            function,
            takes_lent: entry.is_native && *may_be_lent_to,
            frame,
            results: (ListId(u32::MAX), &[][..]),
            first,
            stack,
            callee: Arc::clone(callee),
        })))
    }

    /// Makes it a call of another function, on the same stack and without allocating anything. False if that is not one
    /// of the same modules and within the same limits, or for a reason for which `new` gives none; nothing has changed
    /// then.
    ///
    /// # Errors
    /// As for a call. It must be dropped then.
    pub fn redirect(&mut self, callee: &Arc<Callee>, state: &mut ContextState) -> Result<bool> {
        let Callee { module_list, target, limits, may_be_lent_to, .. } = &**callee;
        let first = callee.frame;
        if first.is_native
            || !Arc::ptr_eq(module_list, &self.callee.module_list)
            || !Arc::ptr_eq(limits, &self.callee.limits)
        {
            return Ok(false);
        }
        // SAFETY: the list lives as long as the machine, whose other callee has it, too.
        let shared_list: &'static ModuleList = unsafe { &*Arc::as_ptr(module_list) };
        let (module, function) = lookup(shared_list, target.module, target.function)?;
        let Some(entry) = callee.entry(module) else { return Ok(false) };
        self.take(state);
        // SAFETY: a ready call has one frame, whose references are null.
        self.frame = unsafe { self.machine.stack.replace_frame(first.descriptor, first.zero) }?;
        self.machine.select(RunningFrame { index: target.module, module, function, frame: self.frame });
        self.takes_lent = entry.is_native && *may_be_lent_to;
        (self.entry, self.function, self.results) = (entry, function, (ListId(u32::MAX), &[][..]));
        (self.first, self.callee) = (first, Arc::clone(callee));
        Ok(true)
    }

    /// Borrows the state, and the stack, for a run.
    #[inline(always)]
    fn take(&mut self, state: &mut ContextState) {
        // SAFETY: the machine uses the references until the call that this is for has ended. The stack has no other
        // user.
        unsafe {
            self.machine.state = &mut *std::ptr::from_mut(state);
            self.machine.stack = &mut *self.stack.0.as_ptr();
        }
    }

    /// True if it is a call of this function.
    #[inline(always)]
    pub fn is_of(&self, callee: &Arc<Callee>) -> bool {
        Arc::ptr_eq(&self.callee, callee)
    }

    /// The outermost frame, for the arguments and the results.
    #[inline(always)]
    pub fn frame(&self) -> Registers {
        self.frame
    }

    /// The registers of the results that a run has returned.
    #[inline(always)]
    pub fn results(&mut self, id: ListId) -> &[AnyReg] {
        if self.results.0 != id {
            self.results = (id, self.function.decoded().list(id));
        }
        self.results.1
    }

    /// Runs the function, whose arguments are in the frame, and returns the registers of the results. None if handlers
    /// alone did not get to the return: `go_on` has to be called then, with the same state still borrowed.
    #[inline(always)]
    pub fn run(&mut self, state: &mut ContextState) -> Option<ListId> {
        // The machine uses the state in this call and in `go_on` only.
        self.take(state);
        self.enter()
    }

    /// Runs the function with the state that has been taken.
    #[inline(always)]
    fn enter(&mut self) -> Option<ListId> {
        // SAFETY: the entry is that of the function whose frame is the only one on the stack.
        unsafe { self.machine.enter_function(&self.entry, self.frame) };
        match self.machine.exit {
            Some(Exit::Returned(results)) => Some(results),
            _ => None,
        }
    }

    /// True if `lend` may be called.
    #[inline(always)]
    pub fn takes_lent(&self) -> bool {
        self.takes_lent
    }

    /// Borrows the state and a list for calls of [`ReadyCall::run_lent`], with buffers for the allocations of the
    /// function.
    ///
    /// # Safety
    /// The call takes lent arguments. The state, the elements of the list and the buffers live until the last of these
    /// calls has ended, and nothing else uses them; only the program changes the list.
    #[inline(always)]
    pub unsafe fn lend(&mut self, state: &mut ContextState, list: &LentList, buffers: &mut Vec<KeptBuffer>) {
        let data = match state.modules.get(self.callee.target.module) {
            Some(ModuleState::Bytecode { rodata, .. }) => &rodata[..],
            _ => &[],
        };
        self.machine.lent.prepare(list, buffers, data, self.frame.slots(), self.first.descriptor.refs);
        self.take(state);
    }

    /// As `run`, with arguments that are lent together with the list of [`ReadyCall::lend`]. True if the function has
    /// returned and the runtime has done nothing for it, so the call is ready again. Otherwise the frame has references
    /// of its own, as after `run`: see [`ReadyCall::returned`].
    ///
    /// # Safety
    /// The call is ready, and `lend` was called, after which only calls of this function have run. The arguments live.
    #[inline(always)]
    pub unsafe fn run_lent<P: PassedList>(&mut self, params: &P) -> bool {
        /// Lets the frame own its references if handlers unwind.
        struct Running<'a>(&'a mut ReadyCall);

        impl Drop for Running<'_> {
            #[inline(always)]
            fn drop(&mut self) {
                self.0.machine.lent.keep();
            }
        }

        let mut frame = self.frame;
        // SAFETY: the registers are null. These copies are not counted; either `end` forgets them, or `keep` counts
        // them.
        unsafe { params.lend(&mut frame) };
        // SAFETY: the entry is machine code of a function to which references may be lent. The rest is the caller's
        // promise.
        unsafe { self.machine.lent.begin() };
        let running = Running(self);
        let has_returned = running.0.enter().is_some();
        let is_untouched = has_returned && running.0.machine.lent.end();
        drop(running);
        if is_untouched {
            self.machine.exit = None;
        }
        is_untouched
    }

    /// Whether the last run has returned.
    pub fn returned(&self) -> bool {
        matches!(self.machine.exit, Some(Exit::Returned(_)))
    }

    /// Makes it ready again after a run that has returned: releases the references of the frame, and zeroes its slots
    /// if the function needs that. False if it cannot be used again.
    #[inline(always)]
    pub fn reset(&mut self) -> bool {
        let slots = self.frame.slots();
        // SAFETY: it is the outermost frame, and the function has returned, so there is none above it.
        unsafe { self.machine.stack.set_top(slots) };
        let FirstFrame { descriptor, zero, .. } = self.first;
        if descriptor.refs > 0 || zero {
            self.machine.stack.renew_top(zero);
        }
        self.machine.exit = None;
        // If the loop dispatcher has run an op in another frame, it has selected that one.
        self.machine.frame.slots() == slots || self.machine.select_top().is_ok()
    }

    /// Goes on after a run that has not returned. `_state` is that of the run.
    ///
    /// # Errors
    /// As for a call.
    #[cold]
    pub fn go_on<'a, R: Results>(
        self: Box<Self>,
        callee: &'a Callee,
        _state: &mut ContextState,
        results: &mut R,
    ) -> Result<Step<R::Output, Suspended<'a>>> {
        // As a whole, so that the machine is dropped before what it refers to.
        let mut ready = *self;
        dispatcher::go_on(&mut ready.machine)?;
        let poll = match ready.machine.outcome(results)? {
            Step::Done(results) => return Ok(Step::Done(results)),
            Step::Suspended(poll) => poll,
        };
        let ReadyCall { machine, stack, .. } = ready;
        drop(machine);
        let (module_list, limits) = (&*callee.module_list, &*callee.limits);
        let invocation = Invocation::suspended(module_list, callee.target, stack.into_call_stack(), limits);
        Ok(Step::Suspended(Box::new((invocation, poll))))
    }
}

impl ReadyStack {
    /// The stack, for a call that is not ready any more.
    fn into_call_stack(self) -> CallStack {
        let address = std::mem::ManuallyDrop::new(self).0;
        // SAFETY: the address comes from a `CallStack`, and `drop`, which would release it, does not run.
        unsafe { CallStack::from_raw(address) }
    }
}
