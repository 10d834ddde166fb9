//! Typed calls: calls of one function whose Rust types are checked against its calling convention once
//! ([`TypedTarget::new`]). Sessions make them for hosts that call a function again and again.
//!
//! Arguments go from Rust to the first frame, at offsets that are known at compile time, and results from the frame to
//! Rust, so there is no list of [`Value`]s. The memory of the stack stays with the context. A call that yields or waits
//! becomes an [`Invocation`], which is polled like any other.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::dispatcher;
use super::invocation::{Invocation, Poll};
use super::passed::PassedList;
use super::ready_call::{CallState, ReadyCall};
use crate::bytecode::CallId;
use crate::convention::{Convention, Kind};
use crate::interp::code::import_site::ImportTarget;
use crate::interp::code::threaded_code::FunctionEntry;
use crate::interp::frame::descriptor::FrameDescriptor;
use crate::interp::frame::stack::CallStack;
use crate::interp::machine::bound_modules::{BoundModule, BytecodeModule, ModuleList, lookup};
use crate::interp::machine::context_state::ContextState;
use crate::interp::machine::exit::Exit;
use crate::interp::machine::lent_references::{KeptBuffer, LendableObjects, LentList, may_be_lent_to};
use crate::interp::machine::{Machine, RunningFrame};
use crate::limits::{Charge, Limits};
use crate::status::{Result, Status};
use crate::{List, Obj};

/// A function whose arguments are `P` and whose results are `R`.
pub struct TypedTarget<P, R> {
    prepared: Arc<PreparedCall>,
    types: PhantomData<fn(P) -> R>,
}

/// The data that all calls of a function have in common.
pub struct PreparedCall {
    /// No other prepared call of the process has this number.
    pub id: u64,
    pub module_list: Arc<ModuleList>,
    pub target: ImportTarget,
    /// The convention of the function.
    pub convention: Convention,
    /// The first frame, and whether its slots have to be zeroed; none for a native function.
    pub frame: Option<(FrameDescriptor, bool)>,
    /// Whether references may be lent to the function.
    pub may_be_lent_to: bool,
    /// How it is entered, once it has machine code, which it keeps.
    native_entry: OnceLock<FunctionEntry>,
    /// The limits of calls that are made without limits.
    pub limits: Arc<Limits>,
}

/// How far a typed call came.
pub enum TypedPoll<'a, R> {
    /// The function returned.
    Done(R),
    /// The program yielded or waits.
    Suspended(Box<Suspended<'a>>),
}

/// A typed call that has been suspended: the invocation that continues, and the reason.
pub type Suspended<'a> = (Invocation<&'a ModuleList, &'a Limits>, Poll);

/// So many calls of other functions make a context forget the one that is ready: functions that are called in turn
/// would spend their time on being made ready.
const MAX_UNREADY_CALLS: u32 = 16;

impl PreparedCall {
    /// Calls of `target`.
    ///
    /// # Errors
    /// `NOT_FOUND` and `INTERNAL` for a target that does not exist.
    pub fn new(module_list: Arc<ModuleList>, target: ImportTarget, limits: &Arc<Limits>) -> Result<PreparedCall> {
        static CALLS: AtomicU64 = AtomicU64::new(0);
        let (convention, frame, may_be_lent_to) = match module_list.modules.get(target.module) {
            Some(BoundModule::Native(module, conventions)) => {
                let convention = conventions.get(target.function).ok_or_else(|| {
                    Status::not_found(format!("module `{}` has no export {}", module.name(), target.function))
                })?;
                (convention.clone(), None, false)
            }
            _ => {
                let (_, function) = lookup(&module_list, target.module, target.function)?;
                let descriptor = FrameDescriptor::new(target.module, function, 0, CallId(0));
                let frame = (descriptor, function.reads_unwritten_slots());
                (function.convention().clone(), Some(frame), may_be_lent_to(function))
            }
        };
        let (id, limits, native_entry) = (CALLS.fetch_add(1, Ordering::Relaxed), Arc::clone(limits), OnceLock::new());
        Ok(PreparedCall { id, module_list, target, convention, frame, may_be_lent_to, native_entry, limits })
    }

    /// How the function is entered, as [`dispatcher::function_entry`] says.
    #[inline]
    pub fn entry(&self, module: &BytecodeModule) -> Option<FunctionEntry> {
        if let Some(entry) = self.native_entry.get() {
            return Some(*entry);
        }
        let entry = dispatcher::function_entry(module, self.target, &self.limits)?;
        if entry.is_native {
            return Some(*self.native_entry.get_or_init(|| entry));
        }
        Some(entry)
    }

    /// Counts a call that was not ready, and makes the next one ready after many of them; `at_once` if there is no
    /// other that is ready.
    ///
    /// # Errors
    /// As for a call.
    pub fn count_unready(self: &Arc<Self>, state: &mut CallState, at_once: bool) -> Result<()> {
        state.unready_calls += 1;
        if at_once && state.ready.is_none() || state.unready_calls > MAX_UNREADY_CALLS {
            state.unready_calls = 0;
            state.ready = ReadyCall::new(self, &mut state.context)?;
        }
        Ok(())
    }
}

impl<P: PassedList, R: PassedList> TypedTarget<P, R> {
    /// Checks the types against the convention of the function.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` with the argument or result that differs, `UNIMPLEMENTED` for variadic functions, and
    /// `NOT_FOUND` and `INTERNAL` for a target that does not exist.
    pub fn new(module_list: Arc<ModuleList>, target: ImportTarget, limits: &Arc<Limits>) -> Result<TypedTarget<P, R>> {
        let prepared = PreparedCall::new(module_list, target, limits)?;
        check_types::<P, R>(&prepared.convention)?;
        Ok(TypedTarget { prepared: Arc::new(prepared), types: PhantomData })
    }

    /// As [`TypedTarget::call`], within the limits that were given to `new`, which must not be armed. The last call of
    /// this function in the context has made this one ready.
    ///
    /// # Errors
    /// As [`TypedTarget::call`].
    #[inline]
    pub fn call_ready(&self, state: &mut CallState, params: P) -> Result<TypedPoll<'_, R>> {
        let Some(mut ready) = state.ready.take_if(|ready| ready.is_of(&self.prepared)) else {
            return self.call_unready(state, params);
        };
        let mut frame = ready.frame();
        params.store(&mut frame);
        let Some(registers) = ready.run(&mut state.context) else {
            return ready.go_on(&self.prepared, &mut state.context, R::load);
        };
        let results = R::load(&mut frame, if R::KINDS.is_empty() { &[] } else { ready.results(registers) });
        if ready.reset() {
            state.ready = Some(ready);
        }
        results.map(TypedPoll::Done)
    }

    /// Makes the next call ready, for a caller that makes many of them now.
    ///
    /// # Errors
    /// As for a call.
    fn make_ready(&self, state: &mut CallState) -> Result<()> {
        let mut ready = state.ready.take();
        let is_ready = match &mut ready {
            Some(ready) => ready.is_of(&self.prepared) || ready.redirect(&self.prepared, &mut state.context)?,
            None => false,
        };
        if !is_ready {
            // The stack of the one that was ready is free for this one.
            drop(ready);
            ready = ReadyCall::new(&self.prepared, &mut state.context)?;
        }
        state.ready = ready;
        Ok(())
    }

    /// Calls the function, and makes the next call ready.
    #[cold]
    fn call_unready(&self, state: &mut CallState, params: P) -> Result<TypedPoll<'_, R>> {
        let called = self.call(&mut state.context, params, &self.prepared.limits)?;
        self.prepared.count_unready(state, true)?;
        Ok(called)
    }

    /// Calls the function and runs it until it returns, yields or waits. `state` must be that of the context's module
    /// list.
    ///
    /// # Errors
    /// As [`Invocation::poll`], and `INVALID_ARGUMENT` if a result is null or an object of another type than `R` has
    /// there.
    #[inline]
    pub fn call<'a>(&'a self, state: &mut ContextState, params: P, limits: &'a Limits) -> Result<TypedPoll<'a, R>> {
        let PreparedCall { module_list, target, frame, .. } = &*self.prepared;
        let Some((descriptor, zero)) = *frame else { return self.call_native(state, params, limits) };
        let (module, function) = lookup(module_list, target.module, target.function)?;
        let charge = Charge::new(limits.memory.as_ref(), limits.stack_size() as u64, "a stack")?;
        let mut stack = CallStack::new(limits.stack_size(), charge);
        let mut frame = stack.push(descriptor, zero)?;
        params.store(&mut frame);
        let poll = {
            let running = RunningFrame { index: target.module, module, function, frame };
            let mut machine = Machine::new(module_list, running, &mut stack, state, limits);
            dispatcher::run(&mut machine)?;
            if let Some(Exit::Returned(operands)) = machine.exit {
                return R::load(&mut machine.frame, function.decoded().list(operands)).map(TypedPoll::Done);
            }
            machine.suspension()?
        };
        Ok(TypedPoll::Suspended(Box::new((Invocation::suspended(&**module_list, *target, stack, limits), poll))))
    }

    /// Calls a function of a native module.
    #[cold]
    fn call_native<'a>(&'a self, state: &mut ContextState, params: P, limits: &'a Limits) -> Result<TypedPoll<'a, R>> {
        let PreparedCall { module_list, target, .. } = &*self.prepared;
        let mut invocation = Invocation::new(&**module_list, *target, &params.into_values(), limits)?;
        match invocation.poll(state)? {
            Poll::Done(values) => R::from_values(values).map(TypedPoll::Done),
            poll => Ok(TypedPoll::Suspended(Box::new((invocation, poll)))),
        }
    }
}

impl<P: PassedList + Clone> TypedTarget<P, ()> {
    /// Calls the function again and again, as [`TypedTarget::call_ready`], until `next` returns false or a call is
    /// suspended, which is returned.
    ///
    /// `next` prepares the arguments of each call. It gets the list, which is one of them, if that may have been
    /// changed since it has been lent last. Calls do that, but not those that leave the elements known: these keep no
    /// reference, and change nothing but the bytes of buffers.
    ///
    /// # Errors
    /// As for a call, and those of `next`.
    ///
    /// # Safety
    /// Nothing changes the list but these calls, and `next` if it gets it. The elements are forgotten if something else
    /// may have changed it. The objects are lent to calls of this function only.
    pub unsafe fn call_each<A: AsRef<P>>(
        &self,
        state: &mut CallState,
        lendable: &mut LendableObjects,
        arguments: &mut A,
        next: &mut impl FnMut(&mut A, Option<&Obj<List>>) -> Result<bool>,
    ) -> Result<Option<Suspended<'_>>> {
        self.make_ready(state)?;
        while next(arguments, lendable.changed())? {
            lendable.look_at_elements();
            // They are known again only if the call leaves them as they are.
            let lent = lendable.known.take();
            // SAFETY: the caller guarantees that nothing changes the list but these calls; the list is lent again after
            // it may have been changed.
            match unsafe { self.call_lent(state, arguments.as_ref(), lent.as_ref(), &mut lendable.buffers) }? {
                None => lendable.known = lent,
                Some(TypedPoll::Done(())) => {}
                Some(TypedPoll::Suspended(suspended)) => return Ok(Some(*suspended)),
            }
        }
        Ok(None)
    }

    /// As [`TypedTarget::call_ready`], with arguments that are lent together with a list. None if the function has
    /// returned, and has left the list as it was.
    ///
    /// # Safety
    /// The list is one of the arguments, and nothing has changed it since `lent` was made.
    #[inline]
    unsafe fn call_lent(
        &self,
        state: &mut CallState,
        params: &P,
        lent: Option<&LentList>,
        buffers: &mut Vec<KeptBuffer>,
    ) -> Result<Option<TypedPoll<'_, ()>>> {
        let is_ready = |ready: &mut Box<ReadyCall>| ready.takes_lent() && ready.is_of(&self.prepared);
        let Some((lent, mut ready)) = lent.and_then(|lent| Some((lent, state.ready.take_if(is_ready)?))) else {
            return self.call_ready(state, params.clone()).map(Some);
        };
        // SAFETY: the caller guarantees that the list is one of the arguments and has not changed. `params` keep the
        // arguments, and the list its elements.
        let is_untouched = unsafe { ready.run_lent(&mut state.context, params, lent, buffers) };
        if !is_untouched && !ready.returned() {
            return ready.go_on(&self.prepared, &mut state.context, <()>::load).map(Some);
        }
        if is_untouched || ready.reset() {
            state.ready = Some(ready);
        }
        Ok((!is_untouched).then_some(TypedPoll::Done(())))
    }
}

impl<P, R> Clone for TypedTarget<P, R> {
    fn clone(&self) -> TypedTarget<P, R> {
        TypedTarget { prepared: Arc::clone(&self.prepared), types: PhantomData }
    }
}

/// Fails unless the convention has these arguments and results.
fn check_types<P: PassedList, R: PassedList>(convention: &Convention) -> Result<()> {
    let Some(arguments) = convention.fixed_args() else {
        return Err(Status::unimplemented(format!(
            "a call of a variadic function `{convention}` from outside of a program"
        )));
    };
    let check = |what: &str, kinds: &[Kind], names: &[&str], expected: &[Kind]| {
        if kinds.len() != expected.len() {
            return Err(Status::invalid_argument(format!(
                "the function has {} {what}s (`{convention}`), {} are given",
                expected.len(),
                kinds.len()
            )));
        }
        for (index, ((kind, name), expected)) in kinds.iter().zip(names).zip(expected).enumerate() {
            if kind != expected {
                let letter = expected.letter();
                let message = format!("{what} {index} is {name}, expected `{letter}` of `{convention}`");
                return Err(Status::invalid_argument(message));
            }
        }
        Ok(())
    };
    check("argument", P::KINDS, P::NAMES, &arguments)?;
    check("result", R::KINDS, R::NAMES, &convention.results)
}
